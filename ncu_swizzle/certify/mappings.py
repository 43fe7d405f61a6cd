"""Mappings of an array's bytes that are one-to-one: guessed from a few accesses, and then shown of all of them.

They only save time: any two accesses that one such mapping moves meet alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from ncu_swizzle.certify.terms import Term, binary, const


@dataclass(frozen=True)
class ByteMapping:
    """Where each byte goes, one-to-one; those from a multiple of `together` on stay next to each other."""

    name: str
    of: Callable[[Term], Term]
    together: int


def swizzle(high: int, bits: int, low: int) -> ByteMapping:
    """Return that bits from `low` on are XORed with those from `high` on: one-to-one, as those above are unchanged."""
    mask = (1 << bits) - 1

    def moved(term: Term) -> Term:
        field = binary("lshr", term, const(high, term.width)) & const(mask, term.width)
        return term ^ field.scaled(1 << low)

    return ByteMapping(f"offset ^ ((offset >> {high} & {mask:#x}) << {low})", moved, 1 << low)


def padding(row: int, by: int) -> ByteMapping:
    """Return that rows of a power of two of bytes are longer by some bytes: one-to-one, as it grows with the offset."""
    exponent = row.bit_length() - 1

    def moved(term: Term) -> Term:
        return term + binary("lshr", term, const(exponent, term.width)).scaled(by)

    return ByteMapping(f"offset + offset / {row} * {by}", moved, row)


def mappings_of(samples: Collection[tuple[int, int]]) -> Iterator[ByteMapping]:
    """Yield mappings that move each sample's first offset to its second one."""
    changed = 0
    for before, after in samples:
        changed |= before ^ after
    if not changed:
        return
    low = (changed & -changed).bit_length() - 1
    before, after = max(samples)
    tried = [swizzle(low + distance, bits, low) for distance, bits in itertools.product(range(1, 14), range(1, 7))]
    for row in (1 << exponent for exponent in range(4, 15)):
        if (rows := before // row) and after > before and (after - before) % rows == 0:
            tried.append(padding(row, (after - before) // rows))
    for mapping in tried:
        if all(mapping.of(const(old, 64)) is const(new, 64) for old, new in samples):
            yield mapping
