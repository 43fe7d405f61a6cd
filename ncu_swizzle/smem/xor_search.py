"""Find XOR mappings: which bits above a 128-byte bank row to XOR into which bank bits. Exhaustive, by backtracking.

A mapping F that is linear over GF(2) and keeps every bank row in place is the identity on the bits within a row plus
a vector c_h of bank bits for each bit h above. Lanes x and y of a phase need different banks: F(x ^ y) must not be 0.
Given c of all lower bits, each difference with top bit h forbids one value of c_h (or a few), so that the vectors
can be chosen one by one, and running out of values in every branch proves that no mapping exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.smem.layout import Ints
from ncu_swizzle.smem.swizzle import Swizzle, XorMatrix

MOST_NODES = 20_000  # of the search tree, for each number of terms


@dataclass(frozen=True, eq=False)
class Differences:
    """XORed offsets of lanes served together, by the number of bits below a bank; a bank row has `row_bits` bits."""

    by_low: Mapping[int, Ints]
    row_bits: int

    def separated_by(self, swizzle: Swizzle) -> bool:
        """Whether a swizzle maps all differences to different banks."""
        return all(bool((swizzle(offsets) & self.mask(low) != 0).all()) for low, offsets in self.by_low.items())

    def mask(self, low: int) -> int:
        """The mask of bank bits for accesses with `low` bits below a bank."""
        return (1 << self.row_bits) - (1 << low)


def find_matrix(differences: Differences, low: int, top: int) -> tuple[XorMatrix | None, bool]:
    """Return the XOR matrix with the fewest terms under which no lanes collide, and whether the search was complete.

    It keeps the lowest `low` bits, and reads the bits above the bank row up to `top`.
    """
    search = _Search(differences, low, top)
    vectors = search.run(limit=top)
    if vectors is None:
        return None, search.nodes < MOST_NODES
    for terms in range(1, len(_matrix(vectors).terms)):
        better = search.run(limit=terms)
        if better is not None:
            vectors = better
            break
    return _matrix(vectors), True


class _Search:
    def __init__(self, differences: Differences, low: int, top: int) -> None:
        self.differences = differences
        self.top = top
        self.row_bits = differences.row_bits
        targets = 1 << np.arange(low, self.row_bits)
        choices = np.arange(1 << len(targets))
        self.choices = [int(c) for c in (choices[:, None] >> np.arange(len(targets)) & 1) @ targets]
        self.by_top = {h: self._with_top(h) for h in range(self.row_bits, top)}
        self.nodes = 0
        self.limit = top

    def run(self, limit: int) -> dict[int, int] | None:
        """Return a vector for every bit, with at most `limit` distinct shifts in all, or None."""
        self.nodes, self.limit = 0, limit
        return self.assign(self.row_bits, {})

    def _with_top(self, bit: int) -> list[tuple[int, Ints]]:
        """Return the differences whose highest bit is `bit`, with their bank mask."""
        return [
            (self.differences.mask(low), offsets[(offsets >> bit) == 1])
            for low, offsets in self.differences.by_low.items()
        ]

    def assign(self, bit: int, chosen: dict[int, int]) -> dict[int, int] | None:
        """Return vectors for all bits from `bit` on, or None."""
        if bit >= self.top:
            return chosen
        self.nodes += 1
        if self.nodes >= MOST_NODES:
            return None
        forbidden = [
            (mask, set((self._image(differences, chosen) & mask).tolist())) for mask, differences in self.by_top[bit]
        ]
        used = _shifts(chosen)
        free = [c for c in self.choices if not any(c & mask in images for mask, images in forbidden)]
        for choice in sorted(free, key=lambda c: (len(_shifts({bit: c}) - used), c.bit_count(), c)):
            if len(used | _shifts({bit: choice})) > self.limit:
                break  # all later choices need as many shifts
            vectors = self.assign(bit + 1, {**chosen, bit: choice})
            if vectors is not None:
                return vectors
        return None

    def _image(self, differences: Ints, chosen: dict[int, int]) -> Ints:
        image = differences & ((1 << self.row_bits) - 1)
        for bit, vector in chosen.items():
            image = image ^ np.where(differences >> bit & 1, vector, 0)
        return image


def _shifts(chosen: Mapping[int, int]) -> set[int]:
    return {bit - target for bit, vector in chosen.items() for target in range(bit) if vector >> target & 1}


def _matrix(chosen: Mapping[int, int]) -> XorMatrix:
    masks: dict[int, int] = {}
    for bit, vector in chosen.items():
        for target in range(bit):
            if vector >> target & 1:
                masks[bit - target] = masks.get(bit - target, 0) | 1 << target
    return XorMatrix(tuple(sorted(masks.items())))
