"""Mappings of an array's bytes that are one-to-one, found from a few accesses: a guess, which is checked for all."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

from ncu_swizzle.certify.terms import Term, const, scale, shift


class ByteMapping(Protocol):
    """Where each byte goes, one-to-one."""

    @property
    def together(self) -> int:
        """How many bytes, from a multiple of that number on, stay next to each other."""

    def of(self, offset: Term) -> Term:
        """Return where a byte goes."""


@dataclass(frozen=True)
class Xor:
    """Bits from `low` on are XORed with as many bits from `high` on: one-to-one, as those above are unchanged."""

    high: int
    bits: int
    low: int

    @property
    def together(self) -> int:
        return 1 << self.low

    def number(self, offset: int) -> int:
        return offset ^ (offset >> self.high & (1 << self.bits) - 1) << self.low

    def of(self, offset: Term) -> Term:
        field = shift("lshr", offset, const(self.high, 64)) & const((1 << self.bits) - 1, 64)
        return offset ^ scale(field, 1 << self.low)

    def __str__(self) -> str:
        return f"offset ^ ((offset >> {self.high} & {(1 << self.bits) - 1:#x}) << {self.low})"


@dataclass(frozen=True)
class Padding:
    """Rows of a power of two of bytes are longer by some bytes: one-to-one, as it grows with the offset."""

    row: int
    by: int

    @property
    def together(self) -> int:
        return self.row

    def number(self, offset: int) -> int:
        return offset + offset // self.row * self.by

    def of(self, offset: Term) -> Term:
        return offset + scale(shift("lshr", offset, const(self.row.bit_length() - 1, 64)), self.by)

    def __str__(self) -> str:
        return f"offset + offset / {self.row} * {self.by}"


def mappings_of(samples: Collection[tuple[int, int]]) -> Iterator[ByteMapping]:
    """Yield mappings that move each sample's first offset to its second one."""
    changed = 0
    for before, after in samples:
        changed |= before ^ after
    if not changed:
        return
    low = (changed & -changed).bit_length() - 1
    for distance, bits in itertools.product(range(1, 14), range(1, 7)):
        swizzle = Xor(low + distance, bits, low)
        if all(swizzle.number(before) == after for before, after in samples):
            yield swizzle
    before, after = max(samples)
    for exponent in range(4, 15):
        row = 1 << exponent
        rows = before // row
        if rows and after > before and (after - before) % rows == 0:
            padding = Padding(row, (after - before) // rows)
            if all(padding.number(old) == new for old, new in samples):
                yield padding
