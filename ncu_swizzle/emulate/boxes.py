"""The blocks, and the iterations, in which every decision is the same as in those that ran; clusters of blocks.

An iteration of a loop is run with tags (see `dependence`) on the registers that change from one to the next. A decision
by such a value, a comparison or an address, limits how many further iterations the one that ran represents. A value
that does not change by fixed steps from iteration to iteration may decide nothing.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ncu_swizzle.emulate.dependence import BLOCK_AXES, MOST_STRIDE, Steps, Tag, is_open
from ncu_swizzle.smem.operations import Bools, Ints

# Blocks that run in clusters: all blocks of a cluster run side by side, in the order of their ranks.


RANK_BIT = 24  # of a shared address: the bits from here on are the rank of the block in its cluster


Chosen = Ints | slice  # some of the running blocks


def whole_clusters(blocks: Ints, shape: tuple[int, int, int]) -> tuple[Ints, Chosen]:
    """Return the blocks of these blocks' clusters, (C · size, 3), and the positions of the given ones among them."""
    size, extent = math.prod(shape), np.array(shape)
    if size == 1:
        return blocks, slice(None)
    ranks = np.arange(size)
    inside = np.stack([ranks % shape[0], ranks // shape[0] % shape[1], ranks // (shape[0] * shape[1])], axis=1)
    first, which = np.unique(blocks // extent * extent, axis=0, return_inverse=True)
    everyone: Ints = (first[:, None, :] + inside).reshape(-1, 3)
    return everyone, which.ravel() * size + rank_of(blocks, shape)


def rank_of(blocks: Ints, shape: tuple[int, int, int]) -> Ints:
    """Return the rank of each block, (B, 3), in its cluster, (B,)."""
    within = blocks % np.array(shape)
    ranks: Ints = within[:, 0] + shape[0] * (within[:, 1] + shape[1] * within[:, 2])
    return ranks


@dataclass(frozen=True)
class Clusters:
    """The running blocks by cluster. Blocks are given by their index among the running ones."""

    blocks: Ints  # (B, 3), whole clusters
    shape: tuple[int, int, int]

    @cached_property
    def size(self) -> int:
        """The blocks of a cluster."""
        return math.prod(self.shape)

    @cached_property
    def ranks(self) -> Ints:
        """Each block's rank."""
        return rank_of(self.blocks, self.shape)

    def at(self, blocks: Ints, addresses: Ints) -> Ints:
        """Return the block that each block's shared address is in."""
        ranks = addresses.astype(np.int64) >> RANK_BIT
        owner: Ints = np.where(ranks < self.size, self.base(blocks) + ranks, blocks)
        return owner

    def pair(self, block: int) -> tuple[int, int]:
        """Return both blocks of a block's pair, the leader first."""
        leader = block - int(self.ranks[block]) % 2
        return leader, leader + 1

    def base(self, blocks: Ints) -> Ints:
        """Return the first block of each block's cluster."""
        first: Ints = blocks // self.size * self.size
        return first

    def around(self, blocks: Ints) -> Ints:
        """Return all blocks of these blocks' clusters."""
        return np.unique((self.base(np.unique(blocks))[:, None] + np.arange(self.size)).ravel())


# For which blocks every decision of the blocks that ran is the same.
#
# A decision is a comparison, an address, a branch. If it depends on the block index, the box of blocks around the one
# that runs is narrowed to those that decide alike. What holds for the block that ran then holds for every block in its
# box: they are one class.


class Boxes:
    """One box of blocks around each of the B blocks that run, arrays of shape (B, 3).

    It has the blocks between ``low`` and ``high`` whose index differs from the block's own by a multiple of ``step``.
    """

    def __init__(self, blocks: Ints, grid: tuple[int, int, int]) -> None:
        self.blocks = blocks
        self.low = np.zeros_like(blocks)
        self.high = np.broadcast_to(np.array(grid, np.int64) - 1, blocks.shape).copy()
        self.step = np.ones_like(blocks)
        self.pinned = 0  # bit per dimension in which some box was narrowed to a single index

    def chosen(self, which: Chosen) -> Boxes:
        """Return the boxes of these blocks alone."""
        same = copy.copy(self)
        same.blocks, same.low, same.high = self.blocks[which], self.low[which], self.high[which]
        same.step = self.step[which]
        return same

    def decide(self, which: Ints, tag: Tag, bits: int = 32) -> None:
        """Narrow the boxes of these blocks to those that agree in the lower bits of a value with this tag."""
        stride, dims = tag.lattice(bits)
        self._refine(which, stride)
        for axis in range(BLOCK_AXES):
            if dims >> axis & 1:
                self._pin(which, axis)

    def narrowed_by(self, which: Ints, stride: Steps, dims: int) -> Bools:
        """Return which are narrowed, (n,), by a decision at this stride, or by the index itself in these dimensions."""
        narrowed = np.zeros(len(which), bool)
        for axis in range(BLOCK_AXES):
            if dims >> axis & 1 or stride[axis] > 1:
                wide = self.low[which, axis] < self.high[which, axis]
                narrowed |= wide if dims >> axis & 1 else wide & (self.step[which, axis] % stride[axis] != 0)
        return narrowed

    def keep_within(self, tag: Tag, which: Ints, down: Ints, up: Ints) -> None:
        """Narrow to the blocks in which a value with this tag falls by at most `down` and grows by at most `up`."""
        assert tag.coefficients is not None
        self._refine(which, tag.stride)
        per_stride, stride = np.array(tag.coefficients[:BLOCK_AXES]), np.array(tag.stride[:BLOCK_AXES])
        change = per_stride * (self.step[which] // stride)  # per step of the box, (n, 3)
        axes = [axis for axis in range(BLOCK_AXES) if tag.coefficients[axis]]
        extent = {axis: int(np.abs(change[:, axis] * self._steps(which, axis)).max(initial=0)) for axis in axes}
        # The axis along which the value changes most gives way first, so that the others mostly keep their extent.
        for axis in sorted(axes, key=lambda a: -extent[a]):
            others = [other for other in axes if other != axis]
            self._narrow(change, axis, others=others, which=which, down=down, up=up)

    def represents_others(self, number: int, block: tuple[int, int, int]) -> bool:
        """Return whether the box of the block with this number contains another block."""
        index = np.array(block)
        inside = (index >= self.low[number]) & (index <= self.high[number])
        return bool((inside & ((index - self.blocks[number]) % self.step[number] == 0)).all())

    def _refine(self, which: Ints, stride: Steps) -> None:
        for axis in range(BLOCK_AXES):
            if stride[axis] > 1:
                step = np.lcm(self.step[which, axis], stride[axis])
                self.step[which, axis] = np.minimum(step, MOST_STRIDE)
                if (step > MOST_STRIDE).any():
                    self._pin(which[step > MOST_STRIDE], axis)

    def _pin(self, which: Ints, axis: int) -> None:
        """Narrow the boxes of these blocks to the block's own index in a dimension."""
        self.pinned |= 1 << axis
        self.low[which, axis] = self.blocks[which, axis]
        self.high[which, axis] = self.blocks[which, axis]

    def _steps(self, which: Ints, axis: int) -> Ints:
        """Return how many steps each of n boxes spans in a dimension, (n,)."""
        spans: Ints = (self.high[which, axis] - self.low[which, axis]) // self.step[which, axis]
        return spans

    def _narrow(self, change: Ints, axis: int, others: list[int], which: Ints, down: Ints, up: Ints) -> None:
        least, most = self._reach(change, others, which)
        room_down, room_up = down + least, up - most  # what the other dimensions leave in the worst case
        # k steps change the value by k |change|, so k is at most room / |change|; where it falls with the index, the
        # two rooms change sides.
        falling = change[:, axis] < 0
        room_down, room_up = np.where(falling, room_up, room_down), np.where(falling, room_down, room_up)
        size = np.abs(change[:, axis])
        here, step = self.blocks[which, axis], self.step[which, axis]
        possible = (room_down >= 0) & (room_up >= 0)
        low = np.where(possible, here - np.maximum(room_down, 0) // size * step, here)
        high = np.where(possible, here + np.maximum(room_up, 0) // size * step, here)
        if ((low == here) & (high == here) & (self.high[which, axis] > self.low[which, axis])).any():
            self.pinned |= 1 << axis
        self.low[which, axis] = np.maximum(self.low[which, axis], low)
        self.high[which, axis] = np.minimum(self.high[which, axis], high)

    def _reach(self, change: Ints, axes: list[int], which: Ints) -> tuple[Ints, Ints]:
        """Return how far the value falls (a negative number) and grows at most over these dimensions, (n,) each."""
        least = np.zeros(len(which), np.int64)
        most = np.zeros(len(which), np.int64)
        for axis in axes:
            here, step = self.blocks[which, axis], self.step[which, axis]
            down = -change[:, axis] * ((here - self.low[which, axis]) // step)
            up = change[:, axis] * ((self.high[which, axis] - here) // step)
            least += np.minimum(down, up)
            most += np.maximum(down, up)
        return least, most


ENDLESS = 1 << 62


@dataclass(frozen=True, kw_only=True)
class Room:
    """How far a value of some blocks may fall and grow before a decision changes, in the iteration that ran."""

    tag: Tag  # how it depends on the block and on loops around this one
    blocks: Ints
    down: Ints
    up: Ints
    change: int  # of the value, from one iteration to the next

    def narrow(self, boxes: Boxes, others: Repeats, further: int) -> None:
        """Keep only blocks, and iterations of other loops, that decide alike after this many more iterations.

        The iterations between do, too, because values change by fixed steps.
        """
        moved = further * self.change
        boxes.keep_within(self.tag, self.blocks, self.down + moved, self.up - moved)
        others.keep_within(self.tag, self.blocks, self.down + moved, self.up - moved)


@dataclass(kw_only=True)
class Repeat:
    """An iteration that may represent further ones."""

    axis: int  # of tags
    most: int = ENDLESS  # further iterations in which every decision is the same
    failed: bool = False
    stride: int = 1  # iterations after which some decision is the same again
    supposed: bool = False  # nothing in it is counted, see `supposed`
    rooms: list[Room] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)  # that the iteration made: `requests.LoopRequests`
    traffic: list[Any] = field(default_factory=list)  # the same, to global and local memory


class Repeats:
    """The iterations that run with tags, of the outermost loop first."""

    def __init__(self) -> None:
        self.active: list[Repeat] = []

    def begin(self, *, supposed: bool = False) -> Repeat:
        """Start an iteration of a loop inside of the others."""
        self.active.append(Repeat(axis=BLOCK_AXES + len(self.active), supposed=supposed))
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
                # A decision by the value modulo something: it is the same every `stride` iterations, so the next try is
                # a period that is a multiple of that (`Header.failed`).
                repeat.stride = math.lcm(repeat.stride, stride[repeat.axis])

    def follow(self, tag: Tag, unit: int = 1) -> None:
        """Record that an address is followed from iteration to iteration, in steps of `unit` bytes."""
        for repeat in self.active:
            change = tag.per_iteration(repeat.axis)
            if change is None and repeat.supposed and is_open(tag) and tag.uniform:
                continue  # by how much is unknown, but for all threads alike
            repeat.failed |= change is None or change % unit != 0

    def would_fail(self, tag: Tag) -> bool:
        """Return whether following an address is the only reason so far to run each iteration by itself."""
        return any(tag.per_iteration(repeat.axis) is None and not repeat.failed for repeat in self.active)

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
                repeat.rooms.append(Room(tag=outside, blocks=blocks, down=np.copy(down), up=np.copy(up), change=change))
