"""The points of a sweep, and the folder in which each is kept as soon as it is done."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from ncu_swizzle.base import cache, child, paths
from ncu_swizzle.base.errors import BadFile, DamagedFile, NcuSwizzleError, NotWritable, UsageError
from ncu_swizzle.base.files import not_writable, parse_json, read_bytes, replace_file, slug, write_json
from ncu_swizzle.base.texts import in_json, in_words
from ncu_swizzle.base.validate import parse_integer
from ncu_swizzle.engines import machine
from ncu_swizzle.engines.machine import System
from ncu_swizzle.engines.settings import Engine, Request
from ncu_swizzle.kernels.family import Family, Kernel, Target
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.counts import Total
from ncu_swizzle.reports.model import MachineInfo, Profile, UnknownCounts
from ncu_swizzle.reports.options import Destination, Origin, origin_of
from ncu_swizzle.sweep.worker import HERE, Whereabouts

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


# The folder of a sweep: a folder per finished point, and ``sweep.json``, which lists all points.
#
# A point is built in a hidden folder and renamed once it is complete, so an interrupt costs at most one point.

# The results of a sweep: for each point a profile, or why there is none.


@dataclass(frozen=True, kw_only=True)
class PointValues:
    """The values of a point's profile in tables and the page; the profile itself stays in the point's folder."""

    engine: str
    machine: MachineInfo
    when: str
    beside: str
    duration_ns: float | None
    total: Total
    where: Whereabouts = HERE
    unknowns: tuple[UnknownCounts, ...] = ()

    @classmethod
    def of(cls, profile: Profile, where: Whereabouts = HERE) -> PointValues:
        """Return the values of a profile that are kept in memory."""
        return cls(
            engine=profile.engine,
            machine=profile.machine,
            when=profile.when,
            beside=profile.beside,
            duration_ns=profile.duration_ns,
            total=profile.total,
            where=where,
            unknowns=profile.unknowns,
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        """What has to match before two durations can be compared: the GPU, its driver, ncu and the clocks."""
        machine = self.machine
        return (machine.gpu, machine.driver, machine.ncu, machine.clock_control, self.where.uuid)


@dataclass(frozen=True)
class PointOutcome:
    """One point: its values, or the error that it ended with; neither if it was not reached."""

    point: Point
    values: PointValues | None = None
    error: NcuSwizzleError | None = None
    kept: bool = False  # reused from an earlier run of the sweep
    where: Whereabouts = HERE

    @property
    def state(self) -> str:
        if self.values:
            return "done"
        return "failed" if self.error else "open"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """All points of a plan, in its order; `notes` say which points were reused, and why others were not."""

    plan: Plan
    engine: str
    outcomes: tuple[PointOutcome, ...]
    reason: str = ""  # why "auto" did not measure
    notes: tuple[str, ...] = ()
    folder: Path | None = None

    @property
    def origin(self) -> Origin:
        """Where the counts come from."""
        return origin_of(self.engine)

    @property
    def failed(self) -> tuple[PointOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.error)

    @property
    def done(self) -> tuple[PointOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.values)


MANIFEST, POINT, POINTS, PROFILE = "sweep.json", "point.json", "points", "profile.json"
SCHEMA = 1
AGAIN = "start the sweep over with -f"


def choose(family: str, destination: Destination, resume: bool) -> Path:
    """Return the sweep's folder: the one named, else swizzle-out/sweep-FAMILY or the first free of -2, -3, ….

    With `resume` or `force_overwrite`, return the last of these that exists. Raises NotWritable if the named folder
    holds a sweep.
    """
    export = destination.export
    if export is not None:
        if (export / MANIFEST).exists() and not (resume or destination.force_overwrite):
            raise NotWritable(
                f"{export} already holds {MANIFEST}",
                "--resume continues it, -f starts over, -o names another folder",
            )
        return export
    number, last = 1, None
    while (folder := run_folder.DEFAULT / f"sweep-{slug(family)}{f'-{number}' if number > 1 else ''}").exists():
        number, last = number + 1, folder
    return last if last and (resume or destination.force_overwrite) else folder


def is_unfinished(plan: Plan, destination: Destination) -> bool:
    """Return whether the last sweep in the folder was of the same points, and ended before it had tried all of them."""
    if destination.force_overwrite:
        return False
    with contextlib.suppress(NcuSwizzleError, LookupError, TypeError):
        points = _read(choose(plan.family.name, destination, resume=True) / MANIFEST)["points"]
        same = [(point["kernel"], point["problem"]) for point in points] == [(p.kernel, p.sizes) for p in plan.points]
        return same and any(point["state"] == "open" for point in points)
    return False


def clear(folder: Path) -> None:
    """Remove the points of an earlier sweep, if the folder holds one."""
    if (folder / MANIFEST).exists():
        shutil.rmtree(folder / POINTS, ignore_errors=True)


def save_point(staged: Path, folder: Path, point: Point, fingerprint: Fingerprint, where: Whereabouts) -> None:
    """Complete the staging folder of a finished point, whose profile it holds, and rename it to its final path.

    Raises NotWritable.
    """
    content = {"schema": SCHEMA, "fingerprint": fingerprint, "profile": PROFILE, "where": asdict(where)}
    replace_file(staged / POINT, in_json(content).encode())
    path = folder / POINTS / point.folder
    try:
        staged.chmod(0o755)
        if path.exists():  # stale
            shutil.rmtree(path)
        staged.rename(path)
    except OSError as error:
        raise not_writable(path, error) from error


def load_point(folder: Path, point: Point) -> tuple[PointValues, Mapping[str, str]] | None:
    """Return a saved point and its fingerprint, or None. Raises BadFile or DamagedFile."""
    path = folder / POINTS / point.folder
    if not (path / POINT).exists():
        return None
    content = _read(path / POINT)
    try:
        where = Whereabouts(**content.get("where", {}))
        return PointValues.of(run_folder.load_profile(path / PROFILE), where), dict(content["fingerprint"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{path / POINT} is damaged: {error!r}", "it is measured again") from error


def save(sweep: Sweep, fingerprint: Fingerprint) -> None:
    """Write ``sweep.json``: the sweep's points and the state of each."""
    assert sweep.folder is not None
    content = {
        "schema": SCHEMA,
        "family": sweep.plan.family.name,
        "engine": sweep.engine,
        "fingerprint": fingerprint,
        "points": [
            {
                "kernel": outcome.point.kernel,
                "problem": outcome.point.sizes,
                "state": outcome.state,
                **({"profile": f"{POINTS}/{outcome.point.folder}/{PROFILE}"} if outcome.values else {}),
                **({"worker": outcome.where.worker, "host": outcome.where.host} if outcome.where.worker else {}),
                **({"error": _told(outcome.error)} if outcome.error else {}),
            }
            for outcome in sweep.outcomes
        ],
    }
    write_json(sweep.folder / MANIFEST, content)


def refuse_another(folder: Path, family: str) -> None:
    """Raise BadFile if the folder to resume holds the sweep of another family."""
    if (folder / MANIFEST).exists():
        other = _read(folder / MANIFEST).get("family")
        if other != family:
            raise BadFile(f"{folder} holds a sweep of {other}, not of {family}", "name another folder with -o")


def _read(file: Path) -> dict[str, Any]:
    content = parse_json(read_bytes(file, AGAIN), str(file), AGAIN)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise BadFile(f"{file} is not from a sweep that this ncu-swizzle can read", AGAIN)
    return content


def _told(error: NcuSwizzleError) -> dict[str, Any]:
    return {"type": type(error).__name__, "message": str(error), "hint": error.hint}
