"""Pictures of what swizzles do: address bits, positions in memory, the XOR map as nested squares. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem.layout import Ints
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.swizzle import SQUARE_4, Padding, Swizzle, Transform, XorMatrix, contents

NESTED = (1, 2, 4, 8)  # the squares that the XOR map is drawn in


@dataclass(frozen=True)
class BitRow:
    """One address before and after."""

    label: str
    before: int
    after: int


@dataclass(frozen=True)
class Bits:
    """Byte addresses in binary; `source` and `target` mask the bits that are read and the bits that change."""

    width: int
    source: int
    target: int
    rows: tuple[BitRow, ...]

    @property
    def legend(self) -> str:
        """One letter per bit, the highest first: S is a source, T a target, B both, - neither."""
        letters = {(True, False): "S", (False, True): "T", (True, True): "B", (False, False): "-"}
        marks = [(bool(self.source >> bit & 1), bool(self.target >> bit & 1)) for bit in range(self.width)]
        return "".join(letters[mark] for mark in reversed(marks))


@dataclass(frozen=True, eq=False)
class Places:
    """Memory, one line per row of the tile: the row and column of the cell at each position, -1 at gaps."""

    rows: Ints
    columns: Ints

    @cached_property
    def stays_in_row(self) -> bool:
        """Whether each line holds only cells of its own row, so that column numbers are enough."""
        line = np.arange(len(self.rows))[:, None]
        return bool(((self.rows == line) | (self.rows < 0)).all())


def bits(mapping: Mapping, row: int | None = None) -> Bits:
    """Return the address of every row's first cell, or of every cell of one row, before and after."""
    rows, columns = mapping.shape
    if row is not None and not 0 <= row < rows:
        raise UsageError(f"there is no row {row}", f"--row 0 to {rows - 1}")
    cells = [(r, 0) for r in range(rows)] if row is None else [(row, c) for c in range(columns)]
    index = tuple(np.array(part) for part in zip(*cells, strict=True))
    before, after = mapping.plain.addresses(*index), mapping.addresses(*index)
    source, target = masks(mapping.transform, mapping.element_bytes)
    largest = max(int(mapping.plain.all_elements().max()), int(mapping.all_elements().max())) * mapping.element_bytes
    labels = [f"row {r}" if row is None else f"column {c}" for r, c in cells]
    lines = tuple(BitRow(label, int(b), int(a)) for label, b, a in zip(labels, before, after, strict=True))
    return Bits(max(largest.bit_length(), 8), source, target, lines)


def masks(transform: Transform, element_bytes: int) -> tuple[int, int]:
    """Return which bits of a byte address a swizzle reads and which it changes; 0 and 0 for other transforms."""
    shift = element_bytes.bit_length() - 1
    if isinstance(transform, Swizzle):
        return transform.source << shift, transform.target << shift
    if isinstance(transform, XorMatrix):
        source = int(np.bitwise_or.reduce([mask << by for by, mask in transform.terms]))
        return source << shift, transform.target << shift
    return 0, 0


def places(mapping: Mapping) -> Places:
    """Return memory in lines as long as the tile's rows with their padding; raise UsageError if cells are lost."""
    rows, columns = mapping.shape
    cells = mapping.inverse()
    length = columns + (mapping.transform.by if isinstance(mapping.transform, Padding) else 0)
    cells = np.concatenate([cells, np.full(-len(cells) % length, -1)]).reshape(-1, length)
    if len(cells) > 2 * rows:
        raise UsageError(f"{mapping.layout} has too many gaps to draw", "draw a tile without gaps")
    return Places(np.where(cells < 0, -1, cells // columns), np.where(cells < 0, -1, cells % columns))


def xor_squares() -> tuple[Ints, ...]:
    """Return the maps row ^ column of 1x1, 2x2, 4x4 and 8x8: each consists of four copies of the previous one."""
    return tuple(np.arange(size)[:, None] ^ np.arange(size)[None, :] for size in NESTED)


def sudoku() -> dict[str, Ints]:
    """Return 4x4 maps of the column at each position: one that no XOR produces, and the XOR one."""
    return {"not by XOR": np.array(contents(SQUARE_4)), "XOR": xor_squares()[2]}
