"""The outcome of fixing a kernel: for each tile what was proved, or what stopped it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.base.files import brief
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cubin.names import demangle
from ncu_swizzle.engines.emulation import EmulationSettings, Executable, executable
from ncu_swizzle.engines.settings import NEVER
from ncu_swizzle.fix.applied import Applied, KeptKernel, Neighbour, changed_code, code_of
from ncu_swizzle.fix.candidates import FixOptions
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Proof, Unplaced
from ncu_swizzle.fix.edits import files_of, rebuilt, source_of
from ncu_swizzle.fix.excess import excess_of, grown, stays
from ncu_swizzle.fix.includers import OtherSources
from ncu_swizzle.fix.proving import prove_version
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.reports.model import Profile, UnknownCounts

# The outcome of fixing a kernel: for each tile that conflicts a mapping in the source, or why there is none.


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
    file: str = ""  # that declares it
    reason_file: str = ""


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
    unread: tuple[str, ...] = ()  # sentences about headers that were not looked into
    unknowns: tuple[UnknownCounts, ...] = ()  # why counts of it are unknown
    profiles: tuple[Profile, ...] = ()  # as it was, and with the patch if both are simulated
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


def unbuilt(error: Exception) -> Proof:
    """Return the failed proof of a patch whose kernel does not compile or cannot be emulated."""
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


@dataclass(frozen=True, eq=False, kw_only=True)
class ProvedPatch:
    """A text that was proved, what it does to the tiles, and the other kernels that it is proved for."""

    text: bytes
    tiles: tuple[TileFix, ...]
    applied: tuple[Applied, ...]
    proof: Proof
    others: tuple[KeptKernel, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing is left of the excess of what moved."""
        return not any(tile.excess_after for tile in self.tiles)

    @property
    def fewer_blocks(self) -> int:
        """How many blocks per SM it costs, by shared memory or registers."""
        before, after = self.proof.resources_before, self.proof.resources_after
        return before.blocks_per_sm - after.blocks_per_sm if before and after else 0


@dataclass(frozen=True, eq=False, kw_only=True)
class FixJob:
    """A kernel to fix: the text of its source, what may be written, and the kernels that a patch must do for, too."""

    target: Target
    text: bytes  # of the source, which earlier kernels' fixes may have changed
    settings: EmulationSettings
    options: FixOptions = FixOptions()
    beside: Sequence[Neighbour] = ()  # the other kernels of the source
    sources: OtherSources | None = None  # that may include its headers
    cycles: str = NEVER  # whether the kernel as it was is simulated, see `EmulationSettings`

    @cached_property
    def _codes(self) -> dict[str, bytes]:
        """The code of all kernels in the source as it was, by symbol."""
        return dict(code_of(self.target, self.settings))

    @cached_property
    def old(self) -> Executable:
        """The kernel as it was. Raises whatever emulating it raises."""
        return executable(self.target, replace(self.settings, cycles=self.cycles))

    def proved(
        self, text: bytes, applied: Callable[[Executable], Sequence[Applied]]
    ) -> tuple[Proof, tuple[Applied, ...], tuple[KeptKernel, ...]]:
        """Return the proof of a patch, its mappings, and the kernels that it is proved for, too.

        `applied` are the mappings, given the new kernel. The proof fails if the patch does not compile, or loses
        elements.
        """
        with rebuilt(self.target, text) as after:
            try:
                new = executable(after, self.settings)
                mappings = tuple(applied(new))
                moved = [mapping.moved(new.arrays) for mapping in mappings]
                # The compiler may have made other accesses, which cost more than the mapping saves; or it does not do
                # what it promised. The full proof would find that, too, and take longer.
                left = excess_of(new.emulated, {array.name: array.after for array in moved})
                useless = grown(excess_of(self.old.emulated, {}), left) or next(
                    (claim for array in moved if (claim := stays(left, array))), None
                )
                if useless:
                    return Proof(claims=(useless,)), (), ()
                proof = prove_version(self.old, after, moved, self.settings)
                proof, kept = self._with_others(proof, new.emulated.binary.symbol, text, after, mappings)
                return proof, mappings, kept
            except Unplaced as error:
                return Proof(claims=(error.claim,)), (), ()
            except EnvironmentLacking:
                raise
            except (NcuSwizzleError, ValueError, StopIteration) as error:
                return unbuilt(error), (), ()

    def _with_others(
        self, proof: Proof, symbol: str, text: bytes, after: Target, applied: Sequence[Applied]
    ) -> tuple[Proof, tuple[KeptKernel, ...]]:
        """Return the proof of a patch with what it breaks elsewhere, or may break, and the kernels it is proved for.

        `symbol` is the kernel that is proved, `after` that kernel with the patch. A proof that does not hold stays as
        it is.
        """
        if not proof.held:
            return proof, ()
        stopped, kept = self._in_source(symbol, text, after, applied)
        if stopped is None and self.sources is not None:
            before, files = files_of(self.target, source_of(self.target)), files_of(self.target, text)
            stopped = self.sources.stopped([file for file, new in files.items() if before.get(file) != new], files)
        return (replace(proof, claims=(*proof.claims, stopped)), ()) if stopped else (proof, tuple(kept))

    def _in_source(
        self, symbol: str, text: bytes, after: Target, applied: Sequence[Applied]
    ) -> tuple[Claim | None, list[KeptKernel]]:
        """Return what a patch breaks, or may break, in the same source, and the kernels there that it is proved for."""
        kept: list[KeptKernel] = []
        for changed in changed_code(self._codes, code_of(after, self.settings), symbol):
            other = next((other for other in self.beside if other.symbol == changed), None)
            if other is None:
                reason = f"the patch changes {demangle(changed)} too, of which no launch is described"
                return Claim(about=About.MEANING, state=ClaimState.UNKNOWN, reason=reason), []
            with rebuilt(other.target, text) as copy:
                proof, mappings = other.proof(copy, applied)
            if not proof.held:
                reason = f"the patch changes {demangle(changed)} too, for which it is not proved"
                return Claim(about=About.MEANING, state=proof.state, reason=reason), []
            kept.append(KeptKernel(neighbour=other, applied=mappings))
        return None, kept
