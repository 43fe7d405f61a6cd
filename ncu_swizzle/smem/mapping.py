"""Mappings: the byte offset in shared memory of each cell (row, column) of a tile; and what they do, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.smem import layout as layouts
from ncu_swizzle.smem import swizzle as swizzles
from ncu_swizzle.smem.layout import EXAMPLE, Layout, product
from ncu_swizzle.smem.operations import Ints
from ncu_swizzle.smem.swizzle import Identity, Padding, Swizzle, Transform, XorMatrix

WIDEST = 16  # bytes of a lane's widest access
ELEMENTS = (1, 2, 4, 8, 16)  # sizes, in bytes

Cell = tuple[int, int]


def refuse_element(size: int) -> None:
    """Raise UsageError for an impossible element size."""
    if size not in ELEMENTS:
        raise UsageError(f"an element cannot have {size} bytes", "--elem 1, 2, 4, 8 or 16")


@dataclass(frozen=True)
class Collision:
    """Two cells that a mapping puts at the same offset."""

    first: Cell
    second: Cell
    offset: int  # in elements

    def __str__(self) -> str:
        return f"cells {self.first} and {self.second} both land at element {self.offset}"


@dataclass(frozen=True)
class Mapping:
    """A layout of rows and columns, the transform of its offsets, and the element size.

    `origin` is how many bytes after the start of a 128-byte bank row the tile begins.
    """

    layout: Layout
    transform: Transform = field(default_factory=Identity)
    element_bytes: int = 4
    origin: int = 0

    def __post_init__(self) -> None:
        refuse_element(self.element_bytes)
        if len(self.layout.modes) != 2:
            raise UsageError(f"the layout {self.layout} must have two modes, rows and columns", EXAMPLE)

    def __str__(self) -> str:
        plain = isinstance(self.transform, Identity)
        return str(self.layout) if plain else f"{self.layout} with {self.transform}"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.layout.modes
        return product(rows.shape), product(columns.shape)

    @property
    def plain(self) -> Mapping:
        """The same layout without a transform."""
        return replace(self, transform=Identity())

    def elements(self, rows: npt.ArrayLike, columns: npt.ArrayLike) -> Ints:
        """Return the offsets of cells, in elements."""
        return self.transform(self.layout(rows, columns))

    def addresses(self, rows: npt.ArrayLike, columns: npt.ArrayLike) -> Ints:
        """Return the offsets of cells in bytes, from the start of the bank row in which the tile begins."""
        return self.elements(rows, columns) * self.element_bytes + self.origin

    def all_elements(self) -> Ints:
        """Return the offset of every cell, in elements: an array of rows and columns."""
        rows, columns = self.shape
        return self.elements(np.arange(rows)[:, None], np.arange(columns)[None, :])

    @property
    def cosize(self) -> int:
        """The number of elements of memory it spans, gaps included."""
        return int(self.all_elements().max()) + 1

    @property
    def bytes(self) -> int:
        """The bytes of shared memory it takes, including padding after the last row."""
        return self.element_bytes * max(self.cosize, _padded(self))

    def collision(self) -> Collision | None:
        """Return two cells that share an offset; None if the mapping is one-to-one."""
        offsets = self.all_elements().ravel()
        order = np.argsort(offsets, kind="stable")
        same = np.flatnonzero(np.diff(offsets[order]) == 0)
        if not len(same):
            return None
        first, second = (int(cell) for cell in order[same[0] : same[0] + 2])
        columns = self.shape[1]
        return Collision(divmod(first, columns), divmod(second, columns), int(offsets[first]))

    def inverse(self) -> Ints:
        """Return the cell (row * columns + column) at each element of memory, -1 at gaps.

        Raises UsageError if two cells share an offset.
        """
        lost = self.collision()
        if lost:
            raise UsageError(f"{self} has no inverse: {lost}", "XOR and addition lose nothing; AND and OR do")
        cells = np.full(self.cosize, -1, dtype=np.int64)
        cells[self.all_elements().ravel()] = np.arange(self.layout.size)
        return cells

    def vector_bytes(self) -> int:
        """Return the widest access, up to 16 bytes, for which adjacent cells are contiguous and aligned.

        Adjacent in a row or in a column, whichever allows more.
        """
        offsets = self.all_elements()
        return self.element_bytes * max(_vector(offsets, self.element_bytes), _vector(offsets.T, self.element_bytes))


def parse(layout: str, element_bytes: int = 4, swizzle: str | None = None, pad: int = 0) -> Mapping:
    """Return a layout with a swizzle (see `swizzle.parse_swizzle`) or with `pad` elements after each row.

    Raises UsageError.
    """
    plain = Mapping(layouts.parse_layout(layout), element_bytes=element_bytes)
    if not 0 <= pad <= layouts.LARGEST:
        raise UsageError(f"a padding of {pad:,} elements exceeds shared memory", "--pad 1")
    if swizzle and pad:
        raise UsageError("a swizzle and padding together", "use only one of them")
    if swizzle:
        return replace(plain, transform=swizzles.parse_swizzle(swizzle, element_bytes, plain.shape[1]))
    return replace(plain, transform=Padding(pitch(plain.layout), pad)) if pad else plain


def pitch(layout: Layout) -> int:
    """Return the length in elements of a row (or column) of memory: the largest stride."""
    return max((stride for size, stride in layout.leaves if size > 1 and stride), default=1)


def tma_mode(mapping: Mapping) -> str | None:
    """Return the swizzle mode with which TMA can write this mapping; None if there is none.

    The rows of its box must be contiguous, multiples of 16 bytes, and no longer than the mode's name says
    (CUDA driver API, cuTensorMapEncodeTiled).
    """
    run = mapping.element_bytes * max((size for size, stride in mapping.layout.leaves if stride == 1), default=0)
    if mapping.origin or not run or run % WIDEST or len(mapping.layout.coalesce().leaves) > 2:
        return None
    if isinstance(mapping.transform, Identity):
        return "none"
    for name, mode in swizzles.TMA_MODES.items():
        if isinstance(mapping.transform, Swizzle) and mapping.transform.on_bytes(mapping.element_bytes) == mode:
            return name if run <= int(name[:-1]) else None
    return None


def tma_alignment(mapping: Mapping) -> int:
    """Return the alignment in bytes that TMA's swizzle needs: the period of its pattern, 0 without a mode."""
    mode = tma_mode(mapping)
    return swizzles.TMA_MODES[mode].period if mode in swizzles.TMA_MODES else 0


def _padded(mapping: Mapping) -> int:
    """Return the elements of all padded runs, including the padding after the last."""
    padding = mapping.transform
    if not isinstance(padding, Padding):
        return 0
    # Every run, even a partial last one, has its padding, so that an array of tiles has equal distances.
    return -(-mapping.layout.cosize // padding.every) * (padding.every + padding.by)


def _vector(offsets: Ints, element_bytes: int) -> int:
    """Return how many elements, a power of two, are always contiguous and aligned along the second axis."""
    length = WIDEST // element_bytes
    while length > 1:
        if offsets.shape[1] % length == 0:
            # (rows, runs, length): a run is one vector if it counts up by 1 from a multiple of its length.
            runs = offsets.reshape(offsets.shape[0], -1, length)
            if (runs == runs[..., :1] + np.arange(length)).all() and (runs[..., 0] % length == 0).all():
                return length
        length //= 2
    return 1


# ---------------------------------------------------------------------------------------------- what swizzles do


@dataclass(frozen=True)
class BitRow:
    """One address before and after."""

    label: str
    before: int
    after: int


@dataclass(frozen=True, kw_only=True)
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
        """Whether each line holds cells of one row only, so that column numbers are enough."""
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
    return Bits(width=max(largest.bit_length(), 8), source=source, target=target, rows=lines)


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
