"""The outcome of fixing a kernel: for each tile what was proved, or what stopped it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.fix.claims import Claim, ClaimState, Proof
from ncu_swizzle.reports.model import Profile, UnknownCounts

# The outcome of fixing a kernel: for each tile that conflicts a mapping in the source, or why there is none.


@dataclass(frozen=True, kw_only=True)
class TileFix:
    """One tile: how it is declared, what it costs, and the mapping that was proved, or came closest.

    Files are paths from the source's folder, empty for the source itself. `reason` and `reason_line` say
    what is in the way if nothing was proved; `suggest` is the command that shows the mapping. `other` says which
    mapping `lint` and `explain` name, and why this one is written instead.
    """

    name: str
    line: int
    excess_before: int
    mapping: str = ""
    excess_after: int | None = None
    extra_bytes: int = 0
    proved: bool = False
    offered: bool = False  # not proved, and shown as a patch to look at
    unknown: bool = False
    reason: str = ""
    reason_line: int = 0
    file: str = ""  # that declares it
    reason_file: str = ""
    other: str = ""
    least: bool = False  # no layout takes fewer wavefronts
    slower: bool = False  # a patch is proved, but costs more than it saves


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
    candidate: bytes = b""  # the source with what could not be proved, too; empty if there is no such patch
    measured: tuple[Claim, ...] = ()  # what launching both versions on a GPU says
    not_measured: str = ""  # why it was not
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


def unmeasured(kernels: Sequence[KernelFix], reason: str) -> tuple[KernelFix, ...]:
    """Return the fixes with the reason why they were not measured."""
    return tuple(
        replace(kernel, not_measured=reason) if kernel.proved or kernel.along else kernel for kernel in kernels
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class TriedPatch:
    """A patched text, its effect on the tiles, and its proof, which may be open: then it is only worth a look."""

    text: bytes
    tiles: tuple[TileFix, ...]
    proof: Proof

    @property
    def left(self) -> int:
        """The excessive wavefronts that are left in its tiles."""
        return sum(tile.excess_after or 0 for tile in self.tiles)

    @property
    def fewer_blocks(self) -> int:
        """How many blocks per SM it costs, by shared memory or registers."""
        before, after = self.proof.resources_before, self.proof.resources_after
        return max(0, before.blocks_per_sm - after.blocks_per_sm) if before and after else 0
