"""For how many iterations every decision of the one that ran is the same.

An iteration of a loop is run with tags (see `dependence`) on the registers that change from one to the next. A decision
by such a value, a comparison or an address, limits how many further iterations the one that ran stands for. A value
that depends on the iteration in another way than by fixed steps may decide nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ncu_swizzle.emulate.boxes import Boxes
from ncu_swizzle.emulate.dependence import BLOCK_AXES, Tag
from ncu_swizzle.smem.banks import Ints

ENDLESS = 1 << 62


@dataclass(frozen=True)
class Room:
    """How far a value of some blocks may fall and grow before a decision changes, in the iteration that ran."""

    tag: Tag  # how it depends on the block and on loops around this one
    blocks: Ints
    down: Ints
    up: Ints
    change: int  # of the value, from one iteration to the next

    def narrow(self, boxes: Boxes, others: Repeats, further: int) -> None:
        """Keep only blocks, and iterations of other loops, that decide alike so many iterations later.

        Those between are in between, because values change by fixed steps.
        """
        moved = further * self.change
        boxes.keep_within(self.tag, self.blocks, self.down + moved, self.up - moved)
        others.keep_within(self.tag, self.blocks, self.down + moved, self.up - moved)


@dataclass
class Repeat:
    """An iteration that may stand for further ones."""

    axis: int  # of tags
    most: int = ENDLESS  # further iterations in which every decision is the same
    failed: bool = False
    stride: int = 1  # iterations after which some decision is the same again
    rooms: list[Room] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)  # made in the iteration, see accesses.Made

    def copied(self) -> Repeat:
        """Return its present state."""
        return replace(self, rooms=list(self.rooms), requests=list(self.requests))

    def restore(self, earlier: Repeat) -> None:
        """Go back to an earlier state."""
        vars(self).update(vars(earlier))


class Repeats:
    """The iterations that run with tags, of the outermost loop first."""

    def __init__(self) -> None:
        self.active: list[Repeat] = []

    def begin(self) -> Repeat:
        """Start an iteration of a loop inside of the others."""
        self.active.append(Repeat(BLOCK_AXES + len(self.active)))
        return self.active[-1]

    def fail(self) -> None:
        """Give up: something happened that may differ in other iterations."""
        for repeat in self.active:
            repeat.failed = True

    def decide(self, tag: Tag, bits: int = 32) -> None:
        """Record a decision by the lower bits of a value."""
        stride, dims = tag.lattice(bits)
        for repeat in self.active:
            if dims >> repeat.axis & 1:
                repeat.failed = True
            elif stride[repeat.axis] > 1:
                repeat.failed = True
                repeat.stride = math.lcm(repeat.stride, stride[repeat.axis])

    def follow(self, tag: Tag | None, unit: int = 1) -> None:
        """Record that an address is followed from iteration to iteration, in steps of so many bytes."""
        for repeat in self.active if tag is not None else ():
            change = tag.per_iteration(repeat.axis) if tag is not None else 0
            repeat.failed |= change is None or change % unit != 0

    def keep_within(self, tag: Tag, blocks: Ints, down: Ints, up: Ints) -> None:
        """Record that values with this tag decide alike while they fall by at most `down` and grow by at most `up`."""
        outside: Tag | None = tag
        for repeat in reversed(self.active):
            change = 0 if outside is None else outside.per_iteration(repeat.axis)
            if outside is None or change == 0:
                continue
            if change is None:
                repeat.failed = True
                return
            room = int((up if change > 0 else down).min(initial=ENDLESS))
            repeat.most = min(repeat.most, max(0, room) // abs(change))
            outside = outside.outside(repeat.axis)
            if outside is not None:
                repeat.rooms.append(Room(outside, blocks, np.copy(down), np.copy(up), change))
