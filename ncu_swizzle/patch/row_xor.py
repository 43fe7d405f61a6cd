"""The swizzle that sources are rewritten with: a row's number XORed into the column.

CuTe's ``Swizzle`` does the same where rows are a power of two long; this one also fits others, such as 96 columns, and
tiles of any height behind each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.smem.layout import Ints
from ncu_swizzle.smem.swizzle import WHOLE, Swizzle


@dataclass(frozen=True)
class RowXor:
    """Column ^ ((row >> `drop` & mask of `bits`) << `base`), in elements, of tiles of `rows` (0: no limit)."""

    columns: int
    rows: int
    bits: int
    base: int
    drop: int
    inner: int = 1  # rows that have one number, if subscripts lie between the one that counts them and the column's
    outer: int = 0  # how many

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
    def in_subscript(self) -> RowXor:
        """The same of the number that the subscript has, of which every `inner` rows have one."""
        return replace(
            self, rows=self.rows // self.inner, drop=self.drop - self.inner.bit_length() + 1, inner=1, outer=0
        )

    @property
    def granule(self) -> int:
        return 1 << self.base if self.bits else WHOLE

    @property
    def operations(self) -> int:
        return 2 + (self.base > 0) + (self.drop > 0)

    @property
    def period(self) -> int:
        """After how many elements the pattern repeats."""
        return self.columns << (self.drop + self.bits)

    @property
    def repeats(self) -> bool:
        """Whether a tile holds whole periods, so that the row's number may go on counting in the next one."""
        return self.rows * self.columns % self.period == 0

    @property
    def swizzle(self) -> Swizzle | None:
        """The same as CuTe's swizzle of offsets; None if there is none."""
        if self.columns & (self.columns - 1) or not self.repeats:
            return None
        return Swizzle(self.bits, self.base, self.columns.bit_length() - 1 + self.drop - self.base)

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
        """Return the same for units of which an element has `parts`, such as bytes."""
        return replace(self, columns=self.columns * parts, base=self.base + parts.bit_length() - 1)
