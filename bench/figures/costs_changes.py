"""Which pairs costs.py measures: kernels before and after one change of their layout, and at which sizes."""

from __future__ import annotations

import concurrent.futures
import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.kernels import catalog, fills, naming, project
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain, cubin
from tests.support import fixes

OWN = ROOT / "bench" / "figures" / "costs"
FRESH = ROOT / "bench" / "figures" / "fresh"
ARCH = "sm_90"
MOST_BYTES = 160 << 20  # of a pair's buffers
SIZES = {"n": (1024, 256, 4096), "blocks": (528, 66, 8448), "w": (1024, 256, 4096), "h": (1024, 256, 4096),
         "seq": (1024, 256, 2048), "rows": (64,), "count": (256,)}  # fmt: skip
FAMILIES = {"attention": ({"batch": 1, "heads": 8, "seq": 1024}, {"batch": 1, "heads": 2, "seq": 512}),
            "gemm": ({"n": 1024}, {"n": 2048}, {"n": 512}), "wgmma": ({"n": 2048}, {"n": 512}),
            "transpose": ({"n": 1024}, {"n": 256}, {"n": 4096}), "cute": ({"n": 1024}, {"n": 256}, {"n": 4096}),
            "tma": ({"n": 1024}, {"n": 256}, {"n": 4096}),
            "vectors": ({"tiles": 2048}, {"tiles": 264}, {"tiles": 32768})}  # fmt: skip
HEAVY = {"distances", "bytes", "rows-matmul", "carved-matmul", "macro-matmul", "stages-matmul", "vector-sgemm",
         "class-stages", "ldmatrix-gemm", "buffers-flat"}  # fmt: skip
SPECIAL = {"means": ({"blocks": 32}, {"blocks": 6}, {"blocks": 66})}


@dataclass(frozen=True, kw_only=True)
class Change:
    """A kernel and the same with one change of its layout, at several problem sizes, the most telling first."""

    name: str
    program: str  # pairs of one program are alike: they are never on both sides of a split
    source: str
    before: Target
    after: Target
    problems: tuple[dict[str, int], ...]

    @property
    def sides(self) -> tuple[tuple[str, Target], tuple[str, Target]]:
        return ("before", self.before), ("after", self.after)


@dataclass(frozen=True)
class Job:
    """A change at one problem size."""

    change: Change
    problem: dict[str, int]

    @property
    def name(self) -> str:
        return "@".join((self.change.name, *(f"{name}={size}" for name, size in self.problem.items())))


# ---------------------------------------------------------------------------------------------- which pairs


def changes(patched: Path | None, public: Path | None) -> list[Change]:
    """Return all changes, of which several may be of one program."""
    return [*in_catalogue(), *in_corpus(patched), *of_own(), *(in_public(public) if public else ())]


def in_catalogue() -> Iterator[Change]:
    """Yield each kernel of the catalogue that has a lower degree than its baseline."""
    for family, kernel in catalog.shipped().run():
        if not kernel.baseline or kernel.library or kernel.launch.cluster or family.launch.cluster:
            continue
        before = catalog.shipped().target(kernel.baseline)
        after = catalog.shipped().target(kernel.name)
        if any(before.kernel.degree.get(kind, 1) > degree for kind, degree in kernel.degree.items()):
            sizes = tuple(family.problem(sizes) for sizes in FAMILIES[family.name])
            yield Change(name=kernel.name, program=family.name, source="catalogue", before=before, after=after,
                         problems=sizes)  # fmt: skip


def in_corpus(patched: Path | None) -> Iterator[Change]:
    """Yield the kernels of tests/data/fix with a fix: of `patched`, else the one that was written by hand."""
    by_hand = tomllib.loads((fixes.CORPUS / "fixes.toml").read_text(encoding="utf-8"))
    work = Path(tempfile.gettempdir(), "ncu-swizzle-costs", "by-hand")
    for name, target in fixes.specs().items():
        sources = list((patched / name).rglob(target.source.name)) if patched else []
        if len(sources) == 1:
            after = replace(target, family=replace(target.family, folder=sources[0].parent))
        elif name in by_hand:
            text = target.source.read_text(encoding="utf-8")
            for old, new in by_hand[name]["edits"]:
                text = text.replace(old, new)
            after = fixes.with_text(target, text, work / name, by_hand[name].get("shared", ""))
        else:
            continue
        yield Change(name=name, program=f"fix {target.source.stem}", source="fix", before=target, after=after,
                     problems=usual(target))  # fmt: skip


def of_own(folder: Path = OWN) -> Iterator[Change]:
    """Yield the kernels of bench/figures/costs, or of another folder whose kernels take -DFIXED."""
    for spec in project.specs(project.project_in(folder / project.OWN)):
        family = naming.family_of_spec(spec)
        kernel = family.kernels[0]
        before, after = (
            Target(family, replace(kernel, options=(*kernel.options, f"-DFIXED={fixed}")), family.problem())
            for fixed in (0, 1)
        )
        yield Change(name=kernel.name, program=kernel.name, source="own", before=before, after=after,
                     problems=usual(before))  # fmt: skip


def in_public(folder: Path) -> Iterator[Change]:
    """Yield the kernels of a folder that has them before and after a change."""
    sizes = json.loads((folder / "sizes.json").read_text(encoding="utf-8"))
    sides = [project.specs(project.project_in(folder / side / project.OWN)) for side in ("before", "after")]
    for old, new in zip(*sides, strict=True):
        families = [naming.family_of_spec(spec) for spec in (old, new)]
        before, after = (Target(family, family.kernels[0], family.problem()) for family in families)
        program, problems = sizes[before.name]
        yield Change(name=before.name, program=f"public {program}", source="public", before=before, after=after,
                     problems=tuple(families[0].problem(problem) for problem in problems))  # fmt: skip


def usual(target: Target) -> tuple[dict[str, int], ...]:
    """Return a medium, a small and a large problem, as far as memory and patience allow."""
    family, problems = target.family, []
    if target.name in SPECIAL:
        return tuple(family.problem(sizes) for sizes in SPECIAL[target.name])
    for number in range(3):
        sizes = {name: SIZES[name][min(number, len(SIZES[name]) - 1)] for name in target.problem if name in SIZES}
        if target.name in HEAVY and number == 2:
            sizes = {name: 2048 if name == "n" else size for name, size in sizes.items()}
        problem = family.problem({**target.problem, **sizes})
        while taken(target, problem) > MOST_BYTES and any(size > 256 for size in problem.values()):
            problem = {name: size // 2 if size > 256 else size for name, size in problem.items()}
        if problem not in problems:
            problems.append(problem)
    return tuple(problems)


def taken(target: Target, problem: dict[str, int]) -> int:
    """Return the bytes of a launch's buffers."""
    return sum(fills.size(argument, problem) for argument in target.family.arguments if argument.shape)


def jobs(chosen: Sequence[Change]) -> list[Job]:
    """Return the jobs, every program's first size before any program's second."""
    most = max(len(change.problems) for change in chosen)
    return [
        Job(change, change.problems[number])
        for number in range(most)
        for change in chosen
        if number < len(change.problems)
    ]


# ---------------------------------------------------------------------------------------------- without a GPU


def compiled(chosen: Iterable[Change], folder: Path) -> list[Change]:
    """Compile both sides of each change, in parallel; return those that compile, with their cubins."""
    toolchain = Toolchain(timeout_s=300)

    def side(change: Change, name: str, target: Target) -> Target:
        file = folder / change.name / f"{name}.cubin"
        file.parent.mkdir(parents=True, exist_ok=True)
        family, kernel = target.family, target.kernel
        file.write_bytes(cubin(family, kernel, family.architecture(kernel, ARCH), toolchain))
        return replace(target, kernel=replace(kernel, cubin=str(file)))

    def both(change: Change) -> Change | None:
        try:
            before, after = (side(change, name, target) for name, target in change.sides)
        except NcuSwizzleError as error:
            print(f"{change.name} does not compile: {error}", flush=True)
            return None
        return replace(change, before=before, after=after)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:  # of compilers, which are processes
        return [change for change in pool.map(both, chosen) if change]


def emulated(change: Change) -> str:
    """Return a pair's excessive wavefronts and degrees, as emulated at its usual size."""
    from ncu_swizzle.engines import emulation

    counts = []
    for _, target in change.sides:
        profile = emulation.emulate_target(
            target, emulation.EmulationSettings(Toolchain(timeout_s=120), budget_s=120)
        ).profile
        excess = profile.total.excessive
        counts.append("unknown" if excess is None else f"{excess:,} ({profile.total.degree or 0:.2f})")
    return f"{change.name}: {' → '.join(counts)}"
