"""For which blocks every decision of the blocks that ran is the same.

A decision is a comparison, an address, a branch. If it depends on the block index, the box of blocks around the one
that runs is narrowed to those that decide alike. What holds for the block that ran then holds for every block in its
box: they are one class.
"""

from __future__ import annotations

import copy

import numpy as np

from ncu_swizzle.emulate.clusters import Chosen
from ncu_swizzle.emulate.dependence import BLOCK_AXES, MOST_STRIDE, Steps, Tag
from ncu_swizzle.smem.banks import Ints


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

    def keep_within(self, tag: Tag, which: Ints, down: Ints, up: Ints) -> None:
        """Narrow to the blocks in which a value with this tag falls by at most `down` and grows by at most `up`."""
        assert tag.coefficients is not None
        self._refine(which, tag.stride)
        per_stride, stride = np.array(tag.coefficients[:BLOCK_AXES]), np.array(tag.stride[:BLOCK_AXES])
        change = per_stride * (self.step[which] // stride)  # per step of the box, (n, 3)
        axes = [axis for axis in range(BLOCK_AXES) if tag.coefficients[axis]]
        extent = {axis: int(np.abs(change[:, axis] * self._steps(which, axis)).max(initial=0)) for axis in axes}
        for axis in sorted(axes, key=lambda a: -extent[a]):
            others = [other for other in axes if other != axis]
            self._narrow(change, axis, others, which, down, up)

    def hold(self, number: int, block: tuple[int, int, int]) -> bool:
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
        """Return how many steps each box spans in a dimension."""
        spans: Ints = (self.high[which, axis] - self.low[which, axis]) // self.step[which, axis]
        return spans

    def _narrow(self, change: Ints, axis: int, others: list[int], which: Ints, down: Ints, up: Ints) -> None:
        least, most = self._reach(change, others, which)
        room_down, room_up = down + least, up - most  # what the other dimensions leave in the worst case
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
        """Return how far the value falls (a negative number) and grows at most over these dimensions."""
        least = np.zeros(len(which), np.int64)
        most = np.zeros(len(which), np.int64)
        for axis in axes:
            here, step = self.blocks[which, axis], self.step[which, axis]
            down = -change[:, axis] * ((here - self.low[which, axis]) // step)
            up = change[:, axis] * ((self.high[which, axis] - here) // step)
            least += np.minimum(down, up)
            most += np.maximum(down, up)
        return least, most
