"""How values depend on the block index, and for which blocks every decision stays the same.

One block is run; each value that depends on the block index carries a `Tag`. If such a value decides something (a
comparison, an address), the box of blocks around the one that runs is narrowed to those for which the decision is the
same. What holds for the block that ran then holds for every block in its box: they are one class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncu_swizzle.smem.banks import Ints

WORD = 1 << 32


@dataclass(frozen=True)
class Tag:
    """How a value changes from block to block.

    `coefficients`: the step per block in x, y and z, the same for all threads, modulo 2^32. If that is None but the
    dependence is `uniform`: by an amount that is the same for all threads and a multiple of 2^`align`. Otherwise in any
    way. `dims` has bit 0 for x, 1 for y, 2 for z.
    """

    dims: int
    coefficients: tuple[int, int, int] | None = None
    uniform: bool = False
    align: int = 0


def affine(coefficients: tuple[int, int, int]) -> Tag | None:
    """Return the tag of a value with these steps per block; None if they are all 0."""
    centred = tuple((c + WORD // 2) % WORD - WORD // 2 for c in coefficients)
    dims = sum(1 << axis for axis, c in enumerate(centred) if c)
    if not dims:
        return None
    align = min(trailing_zeros(c) for c in centred if c)
    return Tag(dims, (centred[0], centred[1], centred[2]), True, align)


def any_way(*tags: Tag | None) -> Tag | None:
    """Return the tag of an arbitrary function of values with these tags."""
    dims = 0
    for tag in tags:
        dims |= tag.dims if tag else 0
    return Tag(dims) if dims else None


def total(*tags: Tag | None) -> Tag | None:
    """Return the tag of a sum."""
    present = [tag for tag in tags if tag]
    if len(present) <= 1:
        return present[0] if present else None
    if all(tag.coefficients for tag in present):
        parts = [tag.coefficients for tag in present if tag.coefficients]
        return affine((sum(c[0] for c in parts), sum(c[1] for c in parts), sum(c[2] for c in parts)))
    if all(tag.uniform for tag in present):
        dims = 0
        for tag in present:
            dims |= tag.dims
        return Tag(dims, None, True, min(tag.align for tag in present))
    return any_way(*present)


def scaled(tag: Tag | None, factor: int) -> Tag | None:
    """Return the tag of a multiple; `factor` is the same for all threads and blocks."""
    if tag is None or factor % WORD == 0:
        return None
    if tag.coefficients:
        x, y, z = tag.coefficients
        return affine((x * factor, y * factor, z * factor))
    if tag.uniform:
        align = tag.align + trailing_zeros(factor)
        return Tag(tag.dims, None, True, align) if align < 32 else None
    return tag


def shifted_right(tag: Tag | None, bits: int) -> Tag | None:
    """Return the tag of a right shift whose value stays in range for all blocks; see `Boxes.keep_within`."""
    if tag is None or tag.coefficients is None:
        return any_way(tag)
    if tag.align < bits:
        return any_way(tag)
    x, y, z = tag.coefficients
    return affine((x >> bits, y >> bits, z >> bits))


def trailing_zeros(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else 32


class Boxes:
    """One box of blocks around each of the B blocks that run: ``low`` <= index <= ``high``, arrays of shape (B, 3)."""

    def __init__(self, blocks: Ints, grid: tuple[int, int, int]) -> None:
        self.blocks = blocks
        self.low = np.zeros_like(blocks)
        self.high = np.broadcast_to(np.array(grid, np.int64) - 1, blocks.shape).copy()
        self.pinned = 0  # bit per dimension in which some box was narrowed to a single index

    def pin(self, which: Ints, dims: int) -> None:
        """Narrow the boxes of these blocks to the block's own index in some dimensions."""
        self.pinned |= dims
        for axis in range(3):
            if dims >> axis & 1:
                self.low[which, axis] = self.blocks[which, axis]
                self.high[which, axis] = self.blocks[which, axis]

    def keep_within(self, tag: Tag, which: Ints, down: Ints, up: Ints) -> None:
        """Narrow to the blocks in which a value with this tag falls by at most `down` and grows by at most `up`."""
        assert tag.coefficients is not None
        axes = [axis for axis in range(3) if tag.coefficients[axis]]
        extent = {axis: abs(tag.coefficients[axis]) * int(self.high[:, axis].max() + 1) for axis in axes}
        for axis in sorted(axes, key=lambda a: -extent[a]):
            others = [other for other in axes if other != axis]
            self._narrow(tag.coefficients, axis, others, which, down, up)

    def _narrow(
        self, coefficients: tuple[int, int, int], axis: int, others: list[int], which: Ints, down: Ints, up: Ints
    ) -> None:
        least, most = self._reach(coefficients, others, which)
        room_down, room_up = down + least, up - most  # what the other dimensions leave in the worst case
        coefficient = coefficients[axis]
        if coefficient < 0:
            room_down, room_up, coefficient = room_up, room_down, -coefficient
        here = self.blocks[which, axis]
        possible = (room_down >= 0) & (room_up >= 0)
        low = np.where(possible, here - np.maximum(room_down, 0) // coefficient, here)
        high = np.where(possible, here + np.maximum(room_up, 0) // coefficient, here)
        if ((low == here) & (high == here) & (self.high[which, axis] > self.low[which, axis])).any():
            self.pinned |= 1 << axis
        self.low[which, axis] = np.maximum(self.low[which, axis], low)
        self.high[which, axis] = np.minimum(self.high[which, axis], high)

    def _reach(self, coefficients: tuple[int, int, int], axes: list[int], which: Ints) -> tuple[Ints, Ints]:
        """Return how far the value falls (a negative number) and grows at most over these dimensions."""
        least = np.zeros(len(which), np.int64)
        most = np.zeros(len(which), np.int64)
        for axis in axes:
            down = coefficients[axis] * (self.low[which, axis] - self.blocks[which, axis])
            up = coefficients[axis] * (self.high[which, axis] - self.blocks[which, axis])
            least += np.minimum(down, up)
            most += np.maximum(down, up)
        return least, most
