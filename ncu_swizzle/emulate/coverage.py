"""The part of a grid that no block that ran represents yet, as disjoint sets of evenly spaced blocks.

Its size in memory depends on the kinds of blocks, not on the size of the grid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from ncu_swizzle.emulate.boxes import Boxes
from ncu_swizzle.smem.banks import Ints

SLOWEST_FIRST = (2, 1, 0)  # cutting z before y before x leaves few pieces if blocks are taken in order, x fastest

# Along one axis: the first index, the step, and how many. A cell is the product of three of them.
Progression = tuple[int, int, int]
Cell = tuple[Progression, Progression, Progression]
Index = tuple[int, int, int]


class Unclaimed:
    """The blocks of a grid that are not represented."""

    def __init__(self, grid: tuple[int, int, int]) -> None:
        x, y, z = grid
        self._cells: dict[int, Cell] = {0: ((0, 1, x), (0, 1, y), (0, 1, z))}
        self._next = 1
        self._bounds = np.array([[0, x - 1, 0, y - 1, 0, z - 1]])  # of each cell, in the order of `_keys`
        self._keys = np.array([0])
        self.blocks = math.prod(grid)

    def some(self, pinned: int, most: int) -> Ints:
        """Return up to `most` blocks that likely differ, (B, 3).

        In pinned dimensions, bit 0 for x, every index is likely a kind of its own. If there are none, these are the
        first block of each cell, its last and its middle.
        """
        cells = list(reversed(self._cells.values()))
        blocks = itertools.chain.from_iterable(_along(cell, pinned) for cell in cells)
        if not pinned:
            blocks = itertools.chain(blocks, (_at(cell, share) for share in (1.0, 0.5) for cell in cells))
        return np.array(list(dict.fromkeys(itertools.islice(blocks, 3 * most)))[:most], np.int64).reshape(-1, 3)

    def claim(self, boxes: Boxes, number: int) -> int:
        """Remove the box of the block with this number; return how many blocks it removed."""
        low, high, own, step = (array[number].tolist() for array in (boxes.low, boxes.high, boxes.blocks, boxes.step))
        before, after = self._bounds[:, 0::2], self._bounds[:, 1::2]
        near = ((before <= boxes.high[number]) & (after >= boxes.low[number])).all(axis=1)
        removed = 0
        pieces: list[Cell] = []
        gone: list[int] = []
        for key in self._keys[near].tolist():
            cuts = [_cut(self._cells[key][axis], low[axis], high[axis], own[axis], step[axis]) for axis in range(3)]
            shared = [inside for inside, _ in cuts]
            if None in shared:
                continue
            gone.append(key)
            pieces += _rest(self._cells[key], cuts)
            removed += math.prod(inside[2] for inside in shared if inside)
        self._replace(gone, pieces)
        self.blocks -= removed
        return removed

    def _replace(self, gone: list[int], pieces: list[Cell]) -> None:
        for key in gone:
            del self._cells[key]
        kept = ~np.isin(self._keys, gone)
        keys = range(self._next, self._next + len(pieces))
        self._next += len(pieces)
        self._cells.update(zip(keys, pieces, strict=True))
        bounds = [
            [end for first, step, count in cell for end in (first, first + step * (count - 1))] for cell in pieces
        ]
        self._keys = np.concatenate([self._keys[kept], np.array(keys, np.int64)])
        self._bounds = np.concatenate([self._bounds[kept], np.array(bounds, np.int64).reshape(-1, 6)])


def _along(cell: Cell, pinned: int) -> Iterator[Index]:
    """Yield a cell's first block, and those that differ from it in pinned dimensions, x fastest."""
    xs, ys, zs = (
        range(first, first + step * (count if pinned >> axis & 1 else 1), step)
        for axis, (first, step, count) in enumerate(cell)
    )
    return ((x, y, z) for z in zs for y in ys for x in xs)  # itertools.product would list all of them first


def _at(cell: Cell, share: float) -> Index:
    """Return the block at this share of the cell's extent in every dimension."""
    x, y, z = (first + step * int(share * (count - 1)) for first, step, count in cell)
    return x, y, z


def _cut(
    line: Progression, low: int, high: int, own: int, step: int
) -> tuple[Progression | None, tuple[Progression, ...]]:
    """Return the part of a progression that is in a box along one axis, and the other parts."""
    first, spacing, count = line
    common = math.gcd(spacing, step)
    if (own - first) % common:
        return None, (line,)
    period = step // common  # the box has every period-th element, from `start` on
    start = (own - first) // common * pow(spacing // common, -1, period) % period if period > 1 else 0
    others = [
        (first + spacing * offset, spacing * period, -(-(count - offset) // period))
        for offset in range(min(period, count))
        if offset != start
    ]
    first, spacing, count = first + spacing * start, spacing * period, -(-(count - start) // period)
    left = max(0, -(-(low - first) // spacing))
    right = min(count - 1, (high - first) // spacing)
    if left > right:
        return None, (line,)
    outside = [(first, spacing, left), (first + spacing * (right + 1), spacing, count - 1 - right)]
    return (first + spacing * left, spacing, right - left + 1), (*others, *(part for part in outside if part[2] > 0))


def _rest(cell: Cell, cuts: list[tuple[Progression | None, tuple[Progression, ...]]]) -> Iterator[Cell]:
    """Yield the pieces of a cell that are outside the box: disjoint, x varying fastest within the box's rows."""
    inside = list(cell)
    for axis in SLOWEST_FIRST:
        shared, others = cuts[axis]
        for part in others:
            inside[axis] = part
            yield inside[0], inside[1], inside[2]
        assert shared is not None
        inside[axis] = shared
