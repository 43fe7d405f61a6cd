"""What a patch does to other kernels than the one that is fixed: of its source, and of those that include a header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncu_swizzle.base.files import brief
from ncu_swizzle.cubin.demangled import demangle
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.settings import Context
from ncu_swizzle.fix.applied import Applied, Neighbour, changed_code, code_of
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Proof
from ncu_swizzle.fix.copies import files_of, rebuilt, source_of
from ncu_swizzle.fix.draft import Unfit
from ncu_swizzle.fix.includers import OtherSources
from ncu_swizzle.kernels.family import Target

# What fixing a kernel comes to: for each tile that conflicts a mapping in the source, or why there is none.


@dataclass(frozen=True, kw_only=True)
class TileFix:
    """One tile: how it is declared, what it costs, and the mapping that was proved, or came closest.

    Files are paths from the source's folder, empty for the source itself. `reason` and `reason_line` say
    what is in the way if nothing was proved; `suggest` is the command that shows the mapping.
    """

    name: str
    line: int
    excess_before: int
    mapping: str = ""
    excess_after: int | None = None
    extra_bytes: int = 0
    proved: bool = False
    unknown: bool = False
    reason: str = ""
    reason_line: int = 0
    code: str = ""
    tried: int = 0
    file: str = ""  # that declares it
    reason_file: str = ""


@dataclass(frozen=True)
class OtherKernel:
    """A kernel of another source that includes a header of the patch; `mapped` if arrays of it are."""

    kernel: str
    source: Path
    mapped: bool = False


@dataclass(frozen=True, kw_only=True)
class KernelFix:
    """One kernel: its tiles, the source before and after, and the proof of the whole patch."""

    kernel: str
    source: Path
    before: bytes
    after: bytes
    tiles: tuple[TileFix, ...] = ()
    proof: Proof | None = None
    suggest: str = ""
    notes: tuple[str, ...] = ()
    applied: tuple[Applied, ...] = ()  # the mappings of its arrays that `after` has
    measured: tuple[Claim, ...] = ()  # what launching both versions on a GPU says
    not_measured: str = ""  # why it was not
    cost: str = ""  # of the conflicts, from a measured report
    others: tuple[OtherKernel, ...] = ()  # that the patch changes, and is proved for
    unread: tuple[str, ...] = ()  # sentences about headers that were not looked into
    along: bool = False  # the patch of another kernel has mapped its arrays, and is proved for it, too

    @property
    def proved(self) -> bool:
        return self.before != self.after and self.proof is not None and self.proof.state is ClaimState.HELD

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What was proved, then what was measured."""
        return (*(self.proof.claims if self.proof else ()), *self.measured)

    @property
    def clean(self) -> bool:
        """Whether nothing conflicts that could be fixed."""
        return not self.tiles and not self.unknown

    @property
    def unknown(self) -> bool:
        return any(tile.unknown for tile in self.tiles) or bool(self.notes)


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


def unwritten(text: Unfit, line: Location, mapping: str) -> Stop:
    """Return the stop of a mapping that cannot be written."""
    return Stop(stage=0, reason=str(text), line=line, mapping=mapping)


def unbuilt(error: Exception) -> Proof:
    """Return the proof of a patch with which the kernel cannot be had: one that fails."""
    reason = f"the patched source does not compile or cannot be emulated: {brief(error)}"
    return Proof(claims=(Claim(about=About.REBUILT, state=ClaimState.FAILED, reason=reason),))


def unproved(proof: Proof, line: Location, mapping: str) -> Stop:
    """Return the stop of a patch whose proof does not hold; `line` is the tile's."""
    obstacle, meaning = proof.obstacle, proof.claim(About.MEANING)
    assert obstacle is not None
    if obstacle.state is ClaimState.UNKNOWN and meaning is not None and not meaning.held:
        obstacle = meaning  # which says why, and where
    at = obstacle.line or line
    stage = WRITTEN + ORDER.index(obstacle.about)
    return Stop(
        stage=stage, reason=obstacle.reason, line=at, mapping=mapping, unknown=obstacle.state is ClaimState.UNKNOWN
    )


def furthest(one: Stop | None, other: Stop) -> Stop:
    """Return the stop that came further; of two that came equally far the first, which is of the better mapping."""
    return other if one is None or other.stage > one.stage else one


@dataclass(frozen=True, eq=False)
class KeptKernel:
    """Another kernel that a patch was proved for, and the mappings that its arrays have with it."""

    neighbour: Neighbour
    tried: tuple[Applied, ...]
    elsewhere: bool  # of another source

    def keep(self) -> None:
        """Note that the patch is in the source now."""
        self.neighbour.keep(self.tried)

    @property
    def shown(self) -> OtherKernel:
        return OtherKernel(self.neighbour.target.name, self.neighbour.target.source, bool(self.tried))


@dataclass(eq=False, kw_only=True)
class OtherKernels:
    """The kernels beside one in its source, and in the others of its project."""

    target: Target
    beside: Sequence[Neighbour]
    sources: OtherSources | None
    context: Context
    settings: EmulationSettings
    _codes: Mapping[str, bytes] | None = field(default=None, init=False)  # of all kernels in the source as it was
    _elsewhere: Sequence[Neighbour] = field(default=(), init=False)  # that the last patch is proved for

    def judged(self, proof: Proof, own: str, text: bytes, after: Target, applied: Sequence[Applied]) -> Proof:
        """Return the proof of a patch with what it breaks here, or may break; one that does not hold stays as it is.

        `own` is the symbol of the kernel that is proved, `after` that kernel with the patch.
        """
        if not proof.held:
            return proof
        self._elsewhere = ()
        stopped = self._in_source(own, text, after, applied) or self._in_others(text, applied)
        return replace(proof, claims=(*proof.claims, stopped)) if stopped else proof

    @property
    def kept(self) -> tuple[KeptKernel, ...]:
        """What the last patch was proved for."""
        beside = (KeptKernel(each, each.tried, elsewhere=False) for each in self.beside)
        return (*beside, *(KeptKernel(each, each.tried, elsewhere=True) for each in self._elsewhere))

    def _in_source(self, own: str, text: bytes, after: Target, applied: Sequence[Applied]) -> Claim | None:
        for each in self.beside:
            each.tried = ()
        toolchain, cached = self.settings.toolchain, self.settings.cached
        if self._codes is None:
            self._codes = code_of(self.target, toolchain, cached)
        for symbol in changed_code(self._codes, code_of(after, toolchain, cached), own):
            known = next((other for other in self.beside if other.symbol == symbol), None)
            if known is None:
                reason = f"the patch changes {demangle(symbol)} too, of which no launch is described"
                return Claim(about=About.MEANING, state=ClaimState.UNKNOWN, reason=reason)
            with rebuilt(known.target, text) as copy:
                proof = known.proved(copy, applied, self.context, self.settings)
            if not proof.held:
                reason = f"the patch changes {demangle(symbol)} too, for which it is not proved"
                return Claim(about=About.MEANING, state=proof.state, reason=reason)
        return None

    def _in_others(self, text: bytes, applied: Sequence[Applied]) -> Claim | None:
        if self.sources is None:
            return None
        before, after = (files_of(self.target, each) for each in (source_of(self.target), text))
        changed = {file: made for file, made in after.items() if before.get(file) != made}
        stopped, self._elsewhere = self.sources.stopped(changed, applied, self.context)
        return stopped
