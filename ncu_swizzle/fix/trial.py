"""Try a patch: compile and emulate it, and have what holds its promise certified. No GPU is needed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed
from ncu_swizzle.base.files import brief
from ncu_swizzle.certify import change
from ncu_swizzle.certify.change import ChangeVerdict
from ncu_swizzle.certify.changes import compare_texts
from ncu_swizzle.certify.units import Checking
from ncu_swizzle.certify.verdict import Location as Line
from ncu_swizzle.certify.verdict import ProofObstacle, ProofOutcome
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.emulate.accesses import Contended
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.emulate.machine import coordinates
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.emulation import EmulationSettings, Executable, executable
from ncu_swizzle.engines.settings import ALWAYS, NEVER
from ncu_swizzle.fix.candidates import FixOptions
from ncu_swizzle.fix.claims import (
    About,
    Claim,
    ClaimState,
    Proof,
    claim,
    excess_claim,
    excess_of,
    resources_of,
    spans_of,
)  # fmt: skip
from ncu_swizzle.fix.edits import files_of, rebuilt, source_of
from ncu_swizzle.kernels import limits, toolchain
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.reports.model import Profile

if TYPE_CHECKING:
    from ncu_swizzle.emulate.execution import Execution

# What the described launch shows. It is a trace: it can refute a patch, and cannot prove one.

BLOCKS = 16  # whose results are compared
SEED = 1  # of random inputs
_rebuilt = partial(Claim, about=About.REBUILT)
_trace = partial(Claim, about=About.TRACE)


def other_results(old: Executable, new: Executable, timeout_s: float) -> bool:
    """Return whether some blocks of the described launch are known to write other results for random inputs.

    Nothing rests on it but which patches are worth a look: it finds no fault in a launch that was not executed.
    """
    from ncu_swizzle.emulate.execution import difference  # what few patches need

    try:
        first, second = (_executed(version, timeout_s) for version in (old, new))
    except (ProgramFailed, Contended):
        return False
    return bool(difference(first, second))


def _executed(version: Executable, timeout_s: float) -> Execution:
    """Execute some blocks of a version on random inputs; raise what executing raises."""
    from ncu_swizzle.emulate.execution import left_behind

    grid = version.launch(None).grid
    total = math.prod(grid)
    chosen = np.unique(np.linspace(0, total - 1, min(BLOCKS, total)).astype(np.int64))
    blocks = np.stack(coordinates(chosen, grid), axis=1)
    return left_behind(version.code, version.launch(SEED), blocks, 0, Clock(timeout_s=timeout_s))


# What the checker says of a patch: the one place where a fix asks `certify`, which alone decides what is proved.

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
        met = counterexample.accesses if counterexample else ()
        return f"{change.name_of(kernel.kernel)}: {lines}", next((access.line for access in met), None)
    for unit in verdict.units:
        for kernel in unit.kernels:
            if kernel.outcome is not ProofOutcome.PROVED:
                obstacle = kernel.obstacle or ProofObstacle(reason="nothing is known of it")
                return f"{change.name_of(kernel.kernel)}: {obstacle.reason}", obstacle.line
        if unit.obstacle:
            return f"{unit.source.name}: {unit.obstacle}", None
    return verdict.unknown or "nothing that is compiled has changed", None


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
    for covered, kernels in said.items():
        yield f"proved {covered}: {', '.join(dict.fromkeys(kernels))}"
    same = [name for unit in verdict.units for name in unit.unchanged]
    if same:
        others = "one more kernel" if len(same) == 1 else f"{len(same)} more kernels"
        yield f"{others} of what is compiled from it {'has' if len(same) == 1 else 'have'} the same code"
    for assumed in change.assumes(verdict):
        yield f"assumed: {assumed}"
    for left_out in change.leaves_out(verdict):
        yield f"not covered: {left_out}"


# All that is asked of a patch, in the order of what it costs.


@dataclass(eq=False, kw_only=True)
class FixJob:
    """A kernel to fix: its source as it was and as it is by now, and the other kernels there that are described."""

    target: Target
    text: bytes  # of the source, which earlier kernels' fixes may have changed
    settings: EmulationSettings
    options: FixOptions = FixOptions()
    beside: Sequence[Target] = ()
    sources: CatalogOptions = CatalogOptions()
    project: Path | None = None  # the folder of all that may include what changes
    cycles: str = NEVER  # whether the kernel as it was is simulated, see `EmulationSettings`
    _tried: dict[bytes, Proof] = field(default_factory=dict)
    _built: dict[bytes, Executable] = field(default_factory=dict)  # with a text that is proved

    @cached_property
    def old(self) -> Executable:
        """The kernel as it was. Raises whatever emulating it raises."""
        return executable(self.target, replace(self.settings, cycles=self.cycles))

    def version(self, text: bytes) -> Executable:
        """Return the kernel as a text has it. Raises whatever emulating it raises."""
        if text == source_of(self.target):
            return self.old
        if text not in self._built:
            with rebuilt(self.target, text) as after:
                self._built[text] = executable(after, self.settings)
        return self._built[text]

    def simulated(self, text: bytes) -> Profile:
        """Return the profile of the kernel as a text has it, with what its launch would take."""
        version = replace(self.version(text), target=self.target)
        return emulation.simulated(version, replace(self.settings, cycles=ALWAYS))

    def tried(self, text: bytes, aimed: Mapping[str, int | None]) -> Proof:
        """Return what is known of a patch; `aimed` are the arrays whose excess it lowers, with what it was.

        The proof ends with the first claim that fails.
        """
        if text not in self._tried:
            try:
                with rebuilt(self.target, text) as after:
                    self._tried[text] = self._trial(text, after, aimed)
            except EnvironmentLacking:
                raise
            except (NcuSwizzleError, ValueError) as error:
                reason = f"the patched source does not compile or cannot be emulated: {brief(error)}"
                self._tried[text] = Proof(claims=(_rebuilt(state=ClaimState.FAILED, reason=reason),))
        return self._tried[text]

    def _trial(self, text: bytes, after: Target, aimed: Mapping[str, int | None]) -> Proof:
        options = " ".join(toolchain.options(self.target.family, self.target.kernel))
        built = _rebuilt(state=ClaimState.HELD, reason=f"by nvcc {self.settings.toolchain.version()} with {options}")
        try:
            new = executable(after, self.settings)
        except MemoryFault as error:
            return Proof(claims=(built, _trace(state=ClaimState.FAILED, reason=str(error))))
        was, now = (excess_of(version.emulated, spans_of(version.arrays)) for version in (self.old, new))
        moved = [name for name, left in now.moved.items() if name in aimed or was.moved.get(name, left) != left]
        was, now = (replace(each, moved={name: each.moved.get(name) for name in moved}) for each in (was, now))
        excess, taken, takes = excess_claim(aimed, was, now), resources_of(self.old), resources_of(new)
        resources = claim(taken, takes)
        proof = partial(Proof, before=was, after=now, resources_before=taken, resources_after=takes)
        if excess.state is ClaimState.FAILED:
            return proof(claims=(built, excess))
        if resources.state is ClaimState.FAILED:
            return proof(claims=(built, excess, resources))
        verdict = judged((self.target, *self.beside), text, self.sources, self.settings, self.project)
        if verdict.state is not ClaimState.FAILED and (worse := self._others(text)):
            return proof(claims=(built, excess, worse))
        trace: list[Claim] = []
        if verdict.state is ClaimState.UNKNOWN:
            other = other_results(self.old, new, self.settings.toolchain.timeout_s)
            reason = "in the described launch, it writes other results" if other else "no other results are known"
            trace = [_trace(state=ClaimState.FAILED if other else ClaimState.HELD, reason=reason)]
        self._built[text] = new
        every = (built, excess, *trace, *verdict.claims, resources)
        return proof(claims=every, covers=verdict.covers, kernels=verdict.kernels)

    def _others(self, text: bytes) -> Claim | None:
        """Return a failed claim if another kernel whose launch is described takes more wavefronts than before."""
        for target in self.beside:
            before = _wavefronts(target, self.settings)
            with rebuilt(target, text) as copy:
                after = _wavefronts(copy, self.settings)
            if before is not None and after is not None and after > before:
                reason = f"{target.name} takes {after:,} wavefronts, {after - before:,} more than before"
                return Claim(about=About.EXCESS, state=ClaimState.FAILED, reason=reason)
        return None


def _wavefronts(target: Target, settings: EmulationSettings) -> int | None:
    """Return the wavefronts of a kernel; None if they are unknown, or it cannot be emulated."""
    try:
        return excess_of(executable(target, settings).emulated, {}).wavefronts
    except EnvironmentLacking:
        raise
    except NcuSwizzleError:
        return None


# What stopped the candidates of a tile: of all of them, the one that came furthest says why nothing is proved.

ORDER = tuple(About)
WRITTEN = 1  # stages: the claims follow


@dataclass(frozen=True, kw_only=True)
class Stop:
    """How far a candidate came, and what stopped it there, in which line."""

    stage: int
    reason: str
    line: Location
    mapping: str
    unknown: bool = False

    def against(self, best: str) -> str:
        """Return the reason; with the mapping that it is about, if that is not the best one."""
        return self.reason if self.mapping == best else f"{self.reason}, with {self.mapping}"


def stop_of(proof: Proof, line: Location, mapping: str) -> Stop:
    """Return what stopped a patch: the claim that failed, else the one that is unknown; `line` is the tile's."""
    failed = (claim for claim in proof.claims if claim.state is ClaimState.FAILED)
    obstacle = next(failed, None) or proof.obstacle
    assert obstacle is not None
    return Stop(
        stage=WRITTEN + ORDER.index(obstacle.about),
        reason=obstacle.reason,
        line=obstacle.line or line,
        mapping=mapping,
        unknown=obstacle.state is ClaimState.UNKNOWN,
    )


def furthest(one: Stop | None, other: Stop) -> Stop:
    """Return the stop at the later stage; of two at the same stage the first, whose mapping is better."""
    return other if one is None or other.stage > one.stage else one
