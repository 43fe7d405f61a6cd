"""The points of a sweep, and what each depends on: if that has changed, a saved point is measured again."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

from ncu_swizzle.base import cache, child, paths
from ncu_swizzle.base.errors import NcuSwizzleError, UsageError
from ncu_swizzle.base.files import slug
from ncu_swizzle.base.texts import in_words
from ncu_swizzle.base.validate import parse_integer
from ncu_swizzle.engines import machine
from ncu_swizzle.engines.machine import System
from ncu_swizzle.engines.settings import Engine, Request
from ncu_swizzle.kernels.family import Family, Kernel, Target
from ncu_swizzle.reports.origins import origin_of

# Which kernels are profiled at which problems: read from the command line and checked before anything runs.

ALL = "all"
MOST_POINTS = 20_000
FORM = "write NAME=SIZE,SIZE,…, for example --problem n=1024,2048,4096"


@dataclass(frozen=True)
class Point:
    """One kernel at one problem."""

    kernel: str
    problem: tuple[tuple[str, int], ...]  # all parameters, in the family's order

    @property
    def sizes(self) -> dict[str, int]:
        return dict(self.problem)

    @property
    def folder(self) -> str:
        """Its path in the sweep's folder, such as ``gemm-plain/n1024``."""
        return f"{slug(self.kernel)}/{'-'.join(f'{name}{size}' for name, size in self.problem)}"

    def __str__(self) -> str:
        return f"{self.kernel} {in_words(self.sizes)}"


@dataclass(frozen=True)
class Plan:
    """The points of a sweep, problem by problem; within each, the kernels in the catalogue's order."""

    family: Family
    kernels: tuple[Kernel, ...]
    problems: tuple[dict[str, int], ...]

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(Point(kernel.name, tuple(problem.items())) for problem in self.problems for kernel in self.kernels)

    def alone(self) -> Plan:
        """Return the plan without its points, which a worker gets one by one."""
        return replace(self, problems=self.problems[:1])

    def target(self, point: Point) -> Target:
        """Return the target that a point profiles."""
        kernel = next(kernel for kernel in self.kernels if kernel.name == point.kernel)
        return Target(self.family, kernel, point.sizes)

    @property
    def varied(self) -> tuple[str, ...]:
        """The parameters with several sizes, the one with the most first."""
        sizes = {name: {problem[name] for problem in self.problems} for name in self.problems[0]}
        return tuple(sorted((name for name in sizes if len(sizes[name]) > 1), key=lambda name: -len(sizes[name])))

    def baselines(self) -> dict[str, str]:
        """Return the kernel that each one is compared with: the last swept one in its chain of baselines, else itself.

        A library kernel has no baseline; it is compared with the first kernel of the sweep.
        """
        swept = {kernel.name: kernel for kernel in self.kernels}
        baselines = {}
        for kernel in self.kernels:
            before = self.kernels[0] if kernel.library else kernel
            visited = {before.name}
            while before.baseline in swept and before.baseline not in visited:
                before = swept[before.baseline]
                visited.add(before.name)
            baselines[kernel.name] = before.name
        return baselines


def make_plan(
    family: Family, kernels: Sequence[Kernel], variants: Sequence[str], sizes: Mapping[str, Sequence[int]]
) -> Plan:
    """Return the plan for kernels of a family, or without any for the family's variants.

    Raises BadProblem, or UsageError for too many points.
    """
    if kernels and any(name != ALL for name in variants):
        raise UsageError("--variants selects from one family", "ncu-swizzle sweep FAMILY --variants NAME,NAME")
    if not kernels:
        every = not variants or ALL in variants
        kernels = [kernel for kernel in family.kernels if not kernel.library] if every else _variants(family, variants)
    sizes_of = [tuple(dict.fromkeys(values)) for values in sizes.values()]
    if all(sizes_of):  # the first point names what the family lacks
        family.problem({name: values[0] for name, values in zip(sizes, sizes_of, strict=True)})
    points = math.prod(map(len, sizes_of)) * len(kernels)  # before they are made
    if points > MOST_POINTS:
        raise UsageError(f"that would be {points:,} points; the maximum is {MOST_POINTS:,}", "name fewer sizes")
    problems = [family.problem(dict(zip(sizes, values, strict=True))) for values in product(*sizes_of)]
    return Plan(family, tuple(kernels), tuple(problems))


def _variants(family: Family, names: Sequence[str]) -> list[Kernel]:
    """Return variants by their names, with or without the family's name as a prefix, each once."""
    by_name = {kernel.name.removeprefix(f"{family.name}-"): kernel for kernel in family.kernels}
    by_name |= {kernel.name: kernel for kernel in family.kernels}
    for name in names:
        if name not in by_name:
            variants = ", ".join(kernel.name for kernel in family.kernels)
            raise UsageError(f"the family {family.name} has no variant {name!r}", f"its variants: {variants}")
    return [by_name[name] for name in dict.fromkeys(names)]


def sizes(texts: Iterable[str]) -> dict[str, list[int]]:
    """Parse ``n=1024,2048``, possibly repeated, into sizes by name; raise UsageError."""
    values: dict[str, list[int]] = {}
    for text in texts:
        name = ""  # each option starts with a name
        for text_ in items_of([text]):
            before, equals, value = text_.rpartition("=")
            name = before.strip() if equals else name
            if not name or not value.strip().isdecimal():
                raise UsageError(f"--problem: {text_!r} is neither NAME=SIZE nor a further size", FORM)
            try:
                values.setdefault(name, []).append(parse_integer(value))
            except ValueError as error:
                raise UsageError(f"--problem: {text_!r}: {error}", FORM) from error
    return values


def items_of(texts: Iterable[str]) -> list[str]:
    """Return the items of comma-separated or repeated texts."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


TIMEOUT_S = 20.0
GPUS = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
DRIVER = Path("/proc/driver/nvidia/version")
VISIBLE = "CUDA_VISIBLE_DEVICES"

Fingerprint = dict[str, str]


def shared_fingerprint(family: Family, engine: str, request: Request) -> Fingerprint:
    """Return the dependencies of all points of a sweep, wherever they run: engine, options, and sources."""
    return {
        "engine": engine,
        "options": json.dumps(asdict(request.options), sort_keys=True),
        "sources": cache.sha256_of_texts(*(part for item in sorted(family.source_texts().items()) for part in item)),
        "description": cache.sha256_of_texts(
            json.dumps(asdict(replace(family, folder=Path(), origin="")), sort_keys=True, default=str)
        ),
        "section": cache.sha256_of_texts(
            *(file.read_text(encoding="utf-8") for file in sorted(paths.rules().glob("*.section")))
        ),
        "ncu-swizzle": System().package_version("ncu-swizzle"),
    }


def tools_fingerprint(engine: Engine, request: Request) -> Fingerprint:
    """Return the dependencies of points that differ between machines: the versions of tools, and the GPUs.

    Raises EnvironmentLacking if ncu is to measure and is not found.
    """
    asked: dict[str, Callable[[], str]] = {}
    if engine.measures:
        ncu = str(machine.find(request.ncu))
        asked["ncu"] = lambda: _last_line(_output([ncu, "--version"]))
        asked["GPU and driver"] = _gpus
    if engine.compiles:
        asked["nvcc"] = lambda: _last_line(_output(["nvcc", "--version"]))
    with ThreadPoolExecutor(max(len(asked), 1)) as pool:  # on a machine with GPUs each takes up to a second
        answers = {name: pool.submit(ask) for name, ask in asked.items()}
        return {name: answer.result() for name, answer in answers.items()}


def point_fingerprint(common: Fingerprint, family: Family, point: Point) -> Fingerprint:
    """Return the dependencies of one point; for recorded values they include the recording."""
    recording = paths.recording(family.name, point.kernel) if origin_of(common["engine"]).recorded else None
    more = {"recording": cache.sha256(recording.read_bytes())} if recording else {}
    return {**common, **more, "kernel": point.kernel, "problem": json.dumps(dict(point.problem))}


def differences(kept: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the parts that differ."""
    return [name for name in dict.fromkeys((*kept, *now)) if kept.get(name) != now.get(name)]


def _gpus() -> str:
    """Return the GPUs with the driver version, or only the driver version without nvidia-smi.

    A GPU selected by UUID counts by its name: which one of several equal ones does not matter.
    """
    try:
        driver = DRIVER.read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        driver = ""
    visible = os.environ.get(VISIBLE, "")
    if visible.startswith("GPU-") and (name := _output([*GPUS, f"--id={visible}"])):
        return name
    names = "; ".join(_output(GPUS).splitlines()) or driver
    return f"{names} {VISIBLE}={visible}" if VISIBLE in os.environ else names


def _output(command: Sequence[str]) -> str:
    """Return what a program prints; empty if it is missing or fails."""
    try:
        ended = child.run(command, TIMEOUT_S, Path.cwd(), paths.tool_environment())
    except NcuSwizzleError:
        return ""
    return ended.log.strip() if ended.status == 0 else ""


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2]
