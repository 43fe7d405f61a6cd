"""Transforms of a tile's offsets: swizzles, padding, tables.

Each is a function of element offsets, applied after the layout like CuTe's ``composition(Swizzle, Layout)``. It
knows its granule, its cost and its CUDA expression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.smem.operations import Ints

WHOLE = 1 << 30  # the granule of a transform that moves nothing
EXAMPLE = "--swizzle 3,2,3 for Swizzle<3,2,3>, add:5,0,5 for a rotation, or 128B for TMA's mode"
COMBINE = {"xor": "^", "add": "+", "and": "&", "or": "|"}


class Transform(Protocol):
    """A function from offsets to offsets, both in elements."""

    @property
    def granule(self) -> int:
        """The number of elements, a power of two, that stay together if aligned to that number."""

    @property
    def operations(self) -> int:
        """Integer operations per address: shifts, logic, additions, multiplications, look-ups."""

    def __call__(self, offsets: Ints) -> Ints: ...

    def cuda(self, offset: str) -> str:
        """Return the CUDA expression of the new offset."""


@dataclass(frozen=True)
class Identity:
    """Nothing moves."""

    granule = WHOLE
    operations = 0

    def __str__(self) -> str:
        return "identity"

    def __call__(self, offsets: Ints) -> Ints:
        return offsets

    def cuda(self, offset: str) -> str:
        return offset


@dataclass(frozen=True, kw_only=True)
class Swizzle:
    """CuTe's ``Swizzle<bits, base, shift>``: `bits` bits from `base` on, XORed with those `shift` above them.

    `combine` replaces XOR with another operation. ``add`` rotates and is also a bijection; ``and`` and ``or`` are not,
    and are here to show that. A negative shift takes the source bits from below the target.
    """

    bits: int
    base: int
    shift: int
    combine: str = "xor"

    def __post_init__(self) -> None:
        if self.bits < 0 or self.base < 0 or self.bits + self.base + abs(self.shift) > 30:
            raise UsageError(f"{self} reaches beyond the bits of an offset", EXAMPLE)
        if abs(self.shift) < self.bits:
            raise UsageError(f"{self} would XOR bits with themselves: the shift must be at least {self.bits}", EXAMPLE)
        if self.combine not in COMBINE:
            raise UsageError(f"{self.combine!r} is not a valid operation: {', '.join(COMBINE)}", EXAMPLE)

    def __str__(self) -> str:
        numbers = f"Swizzle<{self.bits},{self.base},{self.shift}>"
        return numbers if self.combine == "xor" else f"{numbers} by {self.combine.upper()}"

    @property
    def target(self) -> int:
        """The mask of the bits that change."""
        # With a negative shift, CuTe counts `base` at the source: the target is |shift| bits above it.
        return ((1 << self.bits) - 1) << (self.base - min(0, self.shift))

    @property
    def source(self) -> int:
        """The mask of the bits that they are combined with."""
        return ((1 << self.bits) - 1) << (self.base + max(0, self.shift))

    @property
    def granule(self) -> int:
        return 1 << (self.base - min(0, self.shift)) if self.bits else WHOLE

    @property
    def operations(self) -> int:
        return 0 if not self.bits else 3 if self.combine == "xor" else 5

    @property
    def period(self) -> int:
        """The number of elements after which the pattern repeats; the tile must be aligned to it."""
        return 1 << (self.bits + self.base + abs(self.shift)) if self.bits else 1

    def __call__(self, offsets: Ints) -> Ints:
        moved = (offsets & self.source) >> self.shift if self.shift >= 0 else (offsets & self.source) << -self.shift
        target = offsets & self.target
        match self.combine:
            case "xor":
                new = target ^ moved
            case "add":
                # Without the carry out of the field, this rotates each row: a bijection, whatever is added.
                new = (target + moved) & self.target
            case "and":
                new = target & moved
            case _:
                new = target | moved
        return np.asarray((offsets & ~self.target) | new)

    def on_bytes(self, element_bytes: int) -> Swizzle:
        """Return the same swizzle for offsets that count bytes."""
        return replace(self, base=self.base + element_bytes.bit_length() - 1)

    def cuda(self, offset: str) -> str:
        if not self.bits:
            return offset
        moved = f"({offset} >> {self.shift})" if self.shift >= 0 else f"({offset} << {-self.shift})"
        mask = hex(self.target)
        if self.combine == "xor":
            return f"{offset} ^ ({moved} & {mask})"
        operator = COMBINE[self.combine]
        return f"({offset} & ~{mask}) | ((({offset} & {mask}) {operator} ({moved} & {mask})) & {mask})"


@dataclass(frozen=True)
class XorMatrix:
    """Any XOR of an offset's bits with bits above them: ``o ^ (o >> s1 & m1) ^ (o >> s2 & m2) …``.

    A unitriangular matrix over GF(2), so always a bijection. `terms` holds a shift and a mask of target bits for each
    diagonal.
    """

    terms: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if any(shift < 1 or mask < 1 for shift, mask in self.terms):
            raise UsageError("an XOR matrix needs positive shifts and masks", EXAMPLE)

    def __str__(self) -> str:
        return "o" + "".join(f" ^ (o >> {shift} & {mask:#x})" for shift, mask in self.terms)

    @property
    def target(self) -> int:
        return int(np.bitwise_or.reduce([mask for _, mask in self.terms])) if self.terms else 0

    @property
    def granule(self) -> int:
        return self.target & -self.target or WHOLE

    @property
    def operations(self) -> int:
        return 3 * len(self.terms)

    def __call__(self, offsets: Ints) -> Ints:
        new = offsets
        for shift, mask in self.terms:
            # Every term reads the offset as it was, so the order of terms does not matter.
            new = new ^ ((offsets >> shift) & mask)
        return new

    def cuda(self, offset: str) -> str:
        return offset + "".join(f" ^ (({offset} >> {shift}) & {mask:#x})" for shift, mask in self.terms)


@dataclass(frozen=True)
class Padding:
    """`by` unused elements after every `every` elements."""

    every: int
    by: int

    def __post_init__(self) -> None:
        if self.every < 1 or self.by < 0:
            raise UsageError(f"{self} is not a valid padding", "--pad 1: one element after each row")

    def __str__(self) -> str:
        return f"padding {self.every}+{self.by}"

    @property
    def granule(self) -> int:
        # The largest power of two that divides both: what is aligned to it stays aligned in every padded row.
        both = self.every | self.by
        return both & -both if self.by else WHOLE

    @property
    def operations(self) -> int:
        return 0  # only the row stride changes

    def __call__(self, offsets: Ints) -> Ints:
        return np.asarray(offsets + offsets // self.every * self.by)

    def cuda(self, offset: str) -> str:
        return f"{offset} + {offset} / {self.every}" + (f" * {self.by}" if self.by > 1 else "")


@dataclass(frozen=True)
class Table:
    """A square of positions, looked up by row and unit: the "sudoku" mapping. Any Latin square works.

    Row r holds unit u at ``square[r % n][u]``; a unit is `unit` elements, a row n units.
    """

    square: tuple[tuple[int, ...], ...]
    unit: int = 1

    def __str__(self) -> str:
        return f"table of {len(self.square)}x{len(self.square)}"

    @property
    def granule(self) -> int:
        return self.unit

    @property
    def operations(self) -> int:
        return 6  # to split and rejoin the offset, and the look-up

    def __call__(self, offsets: Ints) -> Ints:
        size = len(self.square)
        unit, inside = np.divmod(offsets, self.unit)
        row, column = np.divmod(unit, size)
        return np.asarray((row * size + np.array(self.square)[row % size, column]) * self.unit + inside)

    def cuda(self, offset: str) -> str:
        size, unit = len(self.square), f"{offset} / {self.unit}"
        entry = f"kSquare[{unit} / {size} % {size}][{unit} % {size}]"
        return f"({unit} / {size} * {size} + {entry}) * {self.unit} + {offset} % {self.unit}"


@dataclass(frozen=True, kw_only=True)
class RowXor:
    """Column ^ ((row >> `drop` & mask of `bits`) << `base`), in elements, of tiles of `rows` (0: no limit).

    CuTe's ``Swizzle`` does the same if rows are a power of two long; this one also fits others, such as 96 columns, and
    tiles of any height stacked on each other. It is what `fix` writes.
    """

    columns: int
    rows: int
    bits: int
    base: int
    drop: int

    def __str__(self) -> str:
        swizzle = self.swizzle
        if swizzle:
            return str(swizzle)
        row = f"row >> {self.drop}" if self.drop else "row"
        bits = f"({row} & {self.mask:#x})"
        return f"column ^ ({bits} << {self.base})" if self.base else f"column ^ {bits}"

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1

    @property
    def granule(self) -> int:
        return 1 << self.base if self.bits else WHOLE

    @property
    def group(self) -> int:
        """Elements of an aligned group that it permutes: it changes bits base to base + bits - 1 of a column."""
        return 1 << (self.base + self.bits)

    @property
    def operations(self) -> int:
        return 2 + (self.base > 0) + (self.drop > 0)

    @property
    def period(self) -> int:
        """The number of elements after which the pattern repeats."""
        return self.columns << (self.drop + self.bits)

    @property
    def repeats(self) -> bool:
        """Whether a tile holds whole periods, so that the row's number may keep counting into the next one."""
        return self.rows * self.columns % self.period == 0

    @property
    def swizzle(self) -> Swizzle | None:
        """The same as CuTe's swizzle of offsets; None if there is none."""
        if self.columns & (self.columns - 1) or not self.repeats:
            return None
        # CuTe takes bits from base + shift on: those of the row's number begin at log2(columns) + drop of the offset.
        return Swizzle(bits=self.bits, base=self.base, shift=self.columns.bit_length() - 1 + self.drop - self.base)

    def __call__(self, offsets: Ints) -> Ints:
        row = offsets // self.columns
        if self.rows:
            row = row % self.rows
        return np.asarray(offsets ^ (((row >> self.drop) & self.mask) << self.base))

    def cuda(self, offset: str) -> str:
        if self.swizzle:
            return self.swizzle.cuda(offset)
        row = f"{offset} / {self.columns}" + ("" if self.repeats else f" % {self.rows}")
        moved = f"({row} >> {self.drop} & {self.mask})" if self.drop else f"({row} & {self.mask})"
        return f"{offset} ^ ({moved} << {self.base})" if self.base else f"{offset} ^ {moved}"

    def counted_in(self, ratio: int) -> RowXor | None:
        """Return the same for units of `ratio` elements; None if it would split them."""
        shift = ratio.bit_length() - 1
        if ratio != 1 << shift or self.base < shift or self.columns % ratio:
            return None
        return replace(self, columns=self.columns // ratio, base=self.base - shift)

    def in_parts(self, parts: int) -> RowXor:
        """Return the same for smaller units, `parts` per element, such as bytes."""
        return replace(self, columns=self.columns * parts, base=self.base + parts.bit_length() - 1)


@dataclass(frozen=True, kw_only=True)
class Swapped:
    """Tiles of `rows` by `columns` elements, each transposed."""

    columns: int
    rows: int
    granule: int = 1
    operations: int = 0

    def __str__(self) -> str:
        return "swapped indices"

    def __call__(self, offsets: Ints) -> Ints:
        tile, within = np.divmod(offsets, self.rows * self.columns)
        row, column = np.divmod(within, self.columns)
        return np.asarray(tile * (self.rows * self.columns) + column * self.rows + row)

    def cuda(self, offset: str) -> str:
        tile = self.rows * self.columns
        row, column = f"{offset} % {tile} / {self.columns}", f"{offset} % {self.columns}"
        return f"{offset} / {tile} * {tile} + {column} * {self.rows} + {row}"


# The swizzles of TMA on byte offsets: the CU_TENSOR_MAP_SWIZZLE_* modes (CUDA driver API). A tile's inner rows may
# be as long as the mode's name says, and the tile must be aligned to the mode's period.
TMA_MODES = {
    "128B": Swizzle(bits=3, base=4, shift=3),
    "64B": Swizzle(bits=2, base=4, shift=3),
    "32B": Swizzle(bits=1, base=4, shift=3),
}


# A 4x4 Latin square that neither XOR nor addition produces: the position of each unit in each row.
SQUARE_4 = ((3, 2, 0, 1), (0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 1, 0))


def square_32() -> tuple[tuple[int, ...], ...]:
    """Return the 32x32 square of ``kernels/common/layout.cuh``: SQUARE_4 nested into itself and into the 2x2 one."""
    # position(r, c) = 8 S(r / 8, c / 8) + 2 S(r / 2 mod 4, c / 2 mod 4) + (r ^ c) mod 2: Latin, because each digit is.
    outer, inner = np.array(SQUARE_4) * 8, np.array(SQUARE_4) * 2
    pair = np.array([[0, 1], [1, 0]])
    positions = np.kron(outer, np.ones((8, 8), int)) + np.tile(np.kron(inner, np.ones((2, 2), int)), (4, 4))
    return tuple(map(tuple, (positions + np.tile(pair, (16, 16))).tolist()))


def parse_swizzle(text: str, element_bytes: int, columns: int = 0) -> Transform:
    """Return the swizzle of element offsets that a text names; raise UsageError.

    ``3,2,3`` or ``Swizzle<3,2,3>`` as in CuTe, ``add:5,0,5`` with another operation, ``bytes:3,2,3`` on byte
    offsets, a TMA mode such as ``128B``, or ``sudoku``, the Latin square for rows of 4 or 32 `columns`.
    """
    text = text.strip()
    if text.upper() in TMA_MODES:
        return on_elements(TMA_MODES[text.upper()], element_bytes)
    if text == "sudoku":
        return _sudoku(columns)
    numbers = r"\s*(\d{1,9})\s*,\s*(\d{1,9})\s*,\s*(-?\d{1,9})\s*"
    match = re.fullmatch(rf"(bytes:)?(?:(xor|add|and|or):)?(?:Swizzle<)?{numbers}>?", text)
    if not match:
        raise UsageError(f"{text!r} is not a valid swizzle", EXAMPLE)
    swizzle = Swizzle(bits=int(match[3]), base=int(match[4]), shift=int(match[5]), combine=match[2] or "xor")
    return on_elements(swizzle, element_bytes) if match[1] else swizzle


def _sudoku(columns: int) -> Table:
    squares = {4: SQUARE_4, 32: square_32()}
    if columns not in squares:
        raise UsageError(f"there is no square for rows of {columns} elements", "sudoku needs rows of 4 or 32")
    return Table(squares[columns])


def on_elements(swizzle: Swizzle, element_bytes: int) -> Swizzle:
    """Return a swizzle of byte offsets as one of element offsets; raise UsageError if it would split elements."""
    base = swizzle.base - (element_bytes.bit_length() - 1)
    if base < 0:
        raise UsageError(
            f"{swizzle} on bytes would split elements of {element_bytes} bytes",
            f"the second number must be at least {element_bytes.bit_length() - 1}",
        )
    return replace(swizzle, base=base)
