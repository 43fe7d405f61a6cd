"""What the checker says of a patch: the one place where a fix asks `certify`, which alone decides what is proved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.base.files import brief
from ncu_swizzle.certify import change
from ncu_swizzle.certify.change import ChangeVerdict
from ncu_swizzle.certify.changes import compare_texts
from ncu_swizzle.certify.units import Checking
from ncu_swizzle.certify.verdict import Counterexample, ProofObstacle, ProofOutcome
from ncu_swizzle.certify.verdict import Location as Line
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Proof
from ncu_swizzle.fix.edits import files_of, source_of
from ncu_swizzle.kernels import limits
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions

STATES = {
    ProofOutcome.PROVED: ClaimState.HELD,
    ProofOutcome.REFUTED: ClaimState.FAILED,
    ProofOutcome.UNPROVED: ClaimState.UNKNOWN,
}


def judged(
    targets: Sequence[Target],
    text: bytes,
    sources: CatalogOptions,
    settings: EmulationSettings,
    project: Path | None = None,
) -> Proof:
    """Return the claim about what a text of some kernels' source and headers means, compared with the files.

    With what a proof covers in words, and the verdicts on the kernels.
    """
    target = targets[0]
    was, now = (files_of(target, version) for version in (source_of(target), text))
    changed = {file: new for file, new in now.items() if was.get(file) != new}
    try:
        verdict = compare_texts(
            targets, changed, Checking(toolchain=settings.toolchain, cached=settings.cached), sources, project
        )
    except EnvironmentLacking:
        raise
    except (NcuSwizzleError, ValueError) as error:
        return Proof(claims=(Claim(about=About.MEANING, state=ClaimState.UNKNOWN, reason=brief(error)),))
    state = STATES[verdict.outcome]
    held = state is ClaimState.HELD
    reason, line = ("elements move, and nothing else changes", None) if held else _why(verdict)
    claim = Claim(about=About.MEANING, state=state, reason=reason, line=_named(line, target))
    return Proof(claims=(claim,), covers=tuple(_covers(verdict)) if held else (), kernels=tuple(verdict.kernels))


def _why(verdict: ChangeVerdict) -> tuple[str, Line | None]:
    """Return why there is no proof, and the line: a counterexample if there is one, else what could not be shown."""
    if verdict.outcome is ProofOutcome.REFUTED:
        kernel = next(kernel for kernel in verdict.kernels if kernel.outcome is ProofOutcome.REFUTED)
        counterexample = kernel.counterexample
        lines = "; ".join(change.met(counterexample)) if counterexample else "it computes something else"
        return f"{change.name_of(kernel.kernel)}: {lines}", _line(counterexample)
    for unit in verdict.units:
        for kernel in unit.kernels:
            if kernel.outcome is not ProofOutcome.PROVED:
                obstacle = kernel.obstacle or ProofObstacle(reason="nothing is known of it")
                return f"{change.name_of(kernel.kernel)}: {obstacle.reason}", obstacle.line
        if unit.obstacle:
            return f"{unit.source.name}: {unit.obstacle}", None
    return verdict.unknown or "nothing that is compiled has changed", None


def _line(found: Counterexample | None) -> Line | None:
    return next((access.line for access in found.accesses), None) if found else None


def _named(line: Line | None, target: Target) -> Location | None:
    """Return a line as the cubin names it: its file relative to the sources' folder."""
    if line is None or not line[0]:
        return None
    path, root = limits.plain(Path(line[0])), limits.plain(target.family.root)
    return (path.relative_to(root).as_posix(), line[1]) if path.is_relative_to(root) else None


def _covers(verdict: ChangeVerdict) -> Iterator[str]:
    """Yield what a proof covers, what it assumes and what it leaves out, in this order."""
    said: dict[str, list[str]] = {}
    for unit in verdict.units:
        for kernel in unit.kernels:
            said.setdefault(change.covers(kernel, unit, verdict.compiler), []).append(change.name_of(kernel.kernel))
    for covered, names in said.items():
        yield f"proved {covered}: {', '.join(dict.fromkeys(names))}"
    same = [name for unit in verdict.units for name in unit.unchanged]
    if same:
        others = "one more kernel" if len(same) == 1 else f"{len(same)} more kernels"
        yield f"{others} of what is compiled from it {'has' if len(same) == 1 else 'have'} the same code"
    for assumed in change.assumes(verdict):
        yield f"assumed: {assumed}"
    for left_out in change.leaves_out(verdict):
        yield f"not covered: {left_out}"
