"""What fixing a kernel comes to: for each tile that conflicts a mapping in the source, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.patch.applied import Applied
from ncu_swizzle.proof.claims import Claim, Proof, State


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
        return self.before != self.after and self.proof is not None and self.proof.state is State.HELD

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
