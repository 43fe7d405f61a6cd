"""A launch to simulate, and whether it is like those that the simulation was validated on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ncu_swizzle.cycles import intervals
from ncu_swizzle.emulate.counts import Counts, Launch

SMS = 132
ARCH = 90
PART = 0.1  # of the excess: a kind of access with less does not make a launch unlike the validated ones
BOXES = "UTMALDG", "UTMASTG", "UBLKCP"  # copies by TMA: 12 of 20 launches with them were predicted more than 11 % off
UNMEASURED = "only an H100 is simulated, and this is code for sm_{}"
# Warp instructions of a block, and of the busiest SM, up to which simulating is automatic: seconds of CPU.
SHORT_BLOCK, SHORT_SM = 100_000, 2_000_000


@dataclass(frozen=True, kw_only=True)
class EstimatedCase:
    """A launch that was emulated, with its machine code, how many blocks fit on an SM, and bytes of its buffers."""

    text: bytes
    launch: Launch
    counts: Counts
    sm: int  # the architecture
    resident: int
    buffers: tuple[float, float]  # inputs, outputs

    @property
    def blocks(self) -> int:
        return math.prod(self.launch.grid)

    @property
    def short(self) -> bool:
        """Whether simulating it takes little time."""
        issued = sum(row.executed or 0 for row in self.counts.rows) / self.blocks
        return issued <= SHORT_BLOCK and issued * math.ceil(self.blocks / SMS) <= SHORT_SM

    @property
    def excess(self) -> dict[str, int]:
        """The excessive wavefronts by kind of access."""
        by_kind: dict[str, int] = {}
        for row in self.counts.rows:
            if row.access and row.wavefronts is not None and row.ideal is not None:
                by_kind[row.access] = by_kind.get(row.access, 0) + row.wavefronts - row.ideal
        return by_kind

    @property
    def unlike(self) -> str:
        """Why the launch is unlike the validated ones; empty if it is not."""
        if self.sm != ARCH:
            return UNMEASURED.format(self.sm)
        if math.prod(self.launch.cluster) > 1:
            return "blocks of a cluster were not judged"
        if any(row.opcode.startswith(BOXES) for row in self.counts.rows):
            return "copies by TMA were judged for few programs, and take up to twice as long as simulated"
        if self.counts.unknown:
            return "wavefronts of some accesses are unknown"
        return ""

    @property
    def has_known_kinds(self) -> bool:
        """Whether the kinds of access with much of the excess are among the validated ones."""
        excess = self.excess
        return {kind for kind, count in excess.items() if count > PART * sum(excess.values())} <= set(intervals.KINDS)
