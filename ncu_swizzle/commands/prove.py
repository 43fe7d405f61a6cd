"""``ncu-swizzle prove`` and ``judge``: whether two versions of a kernel compute the same, in every launch or some."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ncu_swizzle.base.errors import GateFailed, NotComparable, UsageError
from ncu_swizzle.base.texts import in_json, option
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.settings import Progress, Request, silent
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription, LaunchOptions, PairOptions
from ncu_swizzle.reports.options import Formats

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ncu_swizzle.certify.change import ChangeVerdict, UnitVerdict
    from ncu_swizzle.certify.changes import Side
    from ncu_swizzle.certify.units import KnownLaunch
    from ncu_swizzle.certify.verdict import KernelVerdict
    from ncu_swizzle.engines.judgement import Judgement

Proving = Annotated[Request, Only("problem", "nvcc", "timeout_s", "no_cache")]
Described = Annotated[
    PairOptions,
    Only("entry", "block", "shared", "arch", "define", "include", "std", "nvcc_option", "before", "after"),
]


@dataclass(frozen=True, kw_only=True)
class ProveOptions:
    """What a version is compared with, and what is written."""

    group: ClassVar[str] = "Proofs"

    against: str = option("", "Compare with the sources of another commit.", "COMMIT", common=True)
    certificate: Path | None = option(None, "Write every query in SMT-LIB, for another solver.", "FILE", common=True)


@grouped
def prove(
    what: Annotated[list[str], typer.Argument(metavar="BEFORE [AFTER]", help="Two .cu files, or two kernels.")],
    options: ProveOptions,
    formats: Annotated[Formats, Only("json")],
    request: Proving,
    own: Described,
    sources: CatalogOptions,
) -> None:
    """Prove that a change of layouts keeps what a kernel computes: exit code 0, 1 or 5.

    \b
    ncu-swizzle prove before.cu after.cu --kernel transpose --block 32,8
    ncu-swizzle prove kernel1 kernel2          two variants, shipped or described
    ncu-swizzle prove my.cu --against HEAD     edits, and all that includes them
    ncu-swizzle prove my.cu --before -DSWIZZLE=0 --after -DSWIZZLE=1
    \f
    Both versions are compiled without optimisation, and compared instruction by instruction: they must do the same but
    for addresses in shared arrays, and each two accesses must meet in both versions or in neither. No launch is needed,
    only the shape of blocks, if the proof depends on it. Exit code 0: proved; 1: refuted, with a counterexample that
    the emulator confirmed; 5: not proved, with the line and the reason. docs/proof.md says what a proof is.
    """
    from ncu_swizzle.commands.console import Output

    description = own.description(request.problem, sources)
    with output.progress() as progress:
        change = proved(what, options, description, request, progress)
    if options.certificate is not None:
        from ncu_swizzle.base.files import write_atomically
        from ncu_swizzle.certify import certificate

        write_atomically(options.certificate, certificate.written(change).encode())
    if not formats.write({"json": lambda: _json(change)}):
        for line in shown(change):
            Output().print(line, soft_wrap=True, markup=False)
    conclude(change)


def _json(change: ChangeVerdict) -> str:
    from ncu_swizzle.certify.change import to_json

    return in_json(to_json(change), indent=2) + "\n"


def proved(
    what: Sequence[str],
    options: ProveOptions,
    description: KernelDescription,
    request: Request,
    progress: Progress = silent,
    queries: bool = False,
) -> ChangeVerdict:
    """Return the verdict on what is named. Raises UsageError, and EnvironmentLacking without nvcc."""
    from ncu_swizzle.certify import changes
    from ncu_swizzle.certify.units import Checking
    from ncu_swizzle.kernels.toolchain import NVCC, Toolchain

    toolchain = Toolchain(request.nvcc, request.timeout_s)
    toolchain.find(NVCC)
    checking = Checking(
        toolchain=toolchain,
        cached=not request.no_cache,
        certificate=queries or options.certificate is not None,
        progress=progress,
    )
    if options.against:
        if description.pair:
            raise UsageError("--against and --before are two ways to say what to compare", "leave out one of them")
        named = [side for word in what for side in _sides(word, description)]
        return changes.compare_with_commit(named, options.against, checking, description.sources)
    pair = _pair(what, description)
    return changes.compare_sides(*pair, checking)


def _pair(what: Sequence[str], description: KernelDescription) -> tuple[Side, Side]:
    """Return the two versions. Raises UsageError if words and options do not name two."""
    if description.pair:
        if len(what) != 1:
            raise UsageError("--before and --after compile one file in two ways", "name one .cu file")
        before, after = (_side(what[0], description, options) for options in (description.before, description.after))
        return before, after
    if len(what) != 2:
        raise UsageError(
            f"{len(what)} versions are named, not two",
            "ncu-swizzle prove before.cu after.cu, or one file with --against COMMIT",
        )
    before, after = (_side(word, description) for word in what)
    if typed := description.launch.entry:  # it may name the description of one of the two, and then means its function
        function = next((side.entry for side in (before, after) if side.entry != typed), typed)
        return replace(before, entry=function), replace(after, entry=function)
    return before, after


def _side(word: str, description: KernelDescription, options: Sequence[str] = ()) -> Side:
    sides = list(_sides(word, description, options))
    if len(sides) > 1:
        raise UsageError(f"{word} stands for {len(sides)} kernels", "name two kernels, or two files")
    return sides[0]


def _sides(word: str, description: KernelDescription, options: Sequence[str] = ()) -> Iterator[Side]:
    """Yield the kernels that a word names: all of a file, or one of the catalogue or of a project."""
    from ncu_swizzle.certify.changes import Side
    from ncu_swizzle.certify.units import KnownLaunch
    from ncu_swizzle.kernels import check, halves, naming
    from ncu_swizzle.kernels.family import BINARIES, PYTHON, Target, is_kernel_file
    from ncu_swizzle.kernels.project import KernelSpec

    typed = _typed_launch(description)
    if not is_kernel_file(word):
        alone = KernelDescription(problem=description.problem, sources=description.sources)
        (target,) = naming.resolve([word], alone)[0].targets
        if target.kernel.library or target.compiled or target.python:
            raise UsageError(f"{word} has no CUDA C++ source", "name kernels with a .cu file")
        side = Side.of(target)
        yield replace(side, launches=tuple(known.overridden(typed) for known in side.launches))
        return
    source = Path(word)
    if source.suffix in (*BINARIES, PYTHON):
        raise UsageError(f"{word} is not CUDA C++", "name a .cu file, from which both versions are compiled")
    described = naming.targets_in(source, description.sources) if source.exists() else []
    entry = description.launch.entry
    described = [target for target in described if not entry or target.is_called(entry)]
    if described and entry:  # which may be the name of its description
        entry = described[0].kernel.entry
    own = (*described[0].family.options, *described[0].kernel.options) if described else ()
    arch = description.launch.arch or (described[0].family.arch if described else "")
    launch = LaunchOptions(entry=entry or "any", arch=arch)
    spec = KernelSpec(name=launch.entry, source=source, launch=launch, options=(*own, *description.options, *options))
    family = check.family_without_launch(spec)
    launches = tuple(KnownLaunch.of(target).overridden(typed) for target in described)
    launches = launches or ((typed,) if typed.block or typed.dynamic else ())
    yield Side(unit=halves.of_target(Target(family, family.kernels[0], {})), launches=launches, entry=entry)


def _typed_launch(description: KernelDescription) -> KnownLaunch:
    """Return the launch that the command line describes."""
    from ncu_swizzle.certify.units import KnownLaunch
    from ncu_swizzle.kernels import limits

    launch, problem = description.launch, description.problem
    block = limits.block_of(launch.block, problem) if launch.block else None
    dynamic = (limits.evaluate(launch.shared, problem),) * 2 if launch.shared else None
    return KnownLaunch(entry=launch.entry, block=block, dynamic=dynamic)


def shown(change: ChangeVerdict) -> Iterator[RenderableType]:
    """Yield the verdict line by line: what is proved, refuted or not; what that covers, assumes, and does not cover."""
    from ncu_swizzle.certify.change import assumes, leaves_out
    from ncu_swizzle.certify.verdict import ProofOutcome

    for unit in change.units:
        yield from _unit_lines(unit, change.compiler)
    if change.unknown:
        yield f"not proved: {change.unknown}"
    elif not change.units:
        yield "Nothing that is compiled reads what changed."
    if change.outcome is ProofOutcome.PROVED:
        yield from (f"Assumed: {assumption}." for assumption in assumes(change))
        yield f"Not covered: {'; '.join(leaves_out(change))}."


def _unit_lines(unit: UnitVerdict, compiler: str) -> Iterator[str]:
    from ncu_swizzle.certify.change import located, name_of
    from ncu_swizzle.certify.verdict import Location

    source = located(Location(str(unit.source), 0)).rpartition(":")[0]
    what = " and ".join(filter(None, unit.named)) if unit.named else source
    yield f"{what}, {unit.arch}{f', built with {unit.origin}' if unit.origin else ''}"
    for kernel in unit.kernels:
        yield from _kernel_lines(kernel, unit, compiler)
    if unit.obstacle:
        yield f"  not proved: {unit.obstacle}"
    if unit.unchanged:
        names = ", ".join(map(name_of, unit.unchanged[:4])) + (" …" if len(unit.unchanged) > 4 else "")
        yield f"  the same code: {names}"
    if not unit.named and not unit.obstacle:
        yield "  the host's code is the same, but for the fat binary"


def _kernel_lines(kernel: KernelVerdict, unit: UnitVerdict, compiler: str) -> Iterator[str]:
    from ncu_swizzle.certify.change import covers, located, met, name_of
    from ncu_swizzle.certify.verdict import ProofOutcome
    from ncu_swizzle.cubin.shared_arrays import source_name

    name = name_of(kernel.kernel)
    if kernel.outcome is ProofOutcome.PROVED:
        yield f"  proved: {name}, {covers(kernel, unit, compiler)}"
        if kernel.mapped:
            yield f"    {kernel.accesses} accesses to {', '.join(map(source_name, kernel.mapped))} compared"
        return
    if kernel.outcome is ProofOutcome.REFUTED:
        yield f"  refuted: {name}"
    elif kernel.obstacle:
        at = located(kernel.obstacle.line)
        yield f"  not proved: {name}: {kernel.obstacle.reason}{f', {at}' if at else ''}"
    for line in met(kernel.counterexample) if kernel.counterexample else ():
        yield f"    {line}"


def conclude(change: ChangeVerdict) -> None:
    """Raise GateFailed for what is refuted, NotComparable for what is not proved."""
    from ncu_swizzle.certify.verdict import ProofOutcome

    if change.outcome is ProofOutcome.REFUTED:
        raise GateFailed("the two versions compute different things", "correct what the counterexample names")
    if change.outcome is ProofOutcome.UNPROVED:
        raise NotComparable("the change is not proved", _hint(change))


def _hint(change: ChangeVerdict) -> str:
    """Return the remedy: the shape of blocks, if none is known."""
    from ncu_swizzle.certify.verdict import ProofOutcome

    unproved = [kernel for kernel in change.kernels if kernel.outcome is ProofOutcome.UNPROVED]
    if unproved and all(kernel.block is None for kernel in unproved):
        return "--block 32,8 says which blocks it is launched with: for blocks of any shape it does not hold"
    if any(unit.host_differs for unit in change.units):
        return "--kernel NAME compares one kernel alone"
    return ""


# ``ncu-swizzle judge``: both versions are executed, on a few launches.


@grouped
def judge(
    what: Annotated[list[str], typer.Argument(metavar="BEFORE [AFTER]", help="Two .cu files, or two kernels.")],
    formats: Annotated[Formats, Only("json")],
    request: Proving,
    own: PairOptions,
    sources: CatalogOptions,
) -> None:
    """Judge a changed kernel without a GPU: exit code 0, 1 or 5.

    \b
    ncu-swizzle judge before.cu after.cu --grid 8,8 --block 32,8 --arg …
    ncu-swizzle judge kernel1 kernel2     two variants, shipped or described
    ncu-swizzle judge my.cu --before -DSWIZZLE=0 --after -DSWIZZLE=1
    \f
    Both are executed at several sizes, on inputs that follow from their machine code. Exit code 0: the second does what
    the first does, without a race, an access out of bounds, or a hang that the first does not have; 1: it does not,
    with the reason; 5: it cannot be told. docs/results.md says what is compared.
    """
    from ncu_swizzle.commands.console import Output

    judgement = judged(what, own.description(request.problem, sources), request)
    if not formats.write({"json": lambda: in_json(judgement.to_json(), indent=2) + "\n"}):
        for line in judgement.lines():
            Output().print(line, soft_wrap=True, markup=False)
    _conclude_judgement(judgement, what)


def judged(what: Sequence[str], description: KernelDescription, request: Request) -> Judgement:
    """Return the judgement on two kernels, or on the variants of one file."""
    from ncu_swizzle.engines import judgement
    from ncu_swizzle.engines.emulation import EmulationSettings
    from ncu_swizzle.kernels import naming

    named = naming.resolve(what, description)
    targets = [each.targets[-1] for each in named] if len(what) > 1 else named[0].targets
    if len(targets) != 2:
        raise UsageError(f"{len(targets)} versions are named, not two", "ncu-swizzle judge before.cu after.cu")
    return judgement.judge(targets[0], targets[1], EmulationSettings.of(request.comparing, simulating=True))


def _conclude_judgement(found: Judgement, what: Sequence[str]) -> None:
    """Raise GateFailed for a kernel that is refused, NotComparable for one that cannot be judged."""
    from ncu_swizzle.engines.judgement import Judged

    why = "; ".join(found.reasons)
    if found.outcome is Judged.REFUSED:
        raise GateFailed(
            f"{found.after} is refused: {why}",
            f"change {what[-1]}, and type again: {shlex.join(['ncu-swizzle', 'judge', *what])}, with the same options",
        )
    if found.outcome is Judged.UNKNOWN:
        raise NotComparable(f"{found.after} cannot be judged: {why}", "measure both on a GPU, or try ncu-swizzle prove")
