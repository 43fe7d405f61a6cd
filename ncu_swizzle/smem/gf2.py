"""Linear algebra over GF(2), where XOR adds: bank conflicts of linear patterns follow from ranks.

Vectors are integers, one bit per coordinate.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ncu_swizzle.smem.layout import Ints

WORD_BITS = 2  # a word of 4 bytes
BANK_BITS = 5  # 32 banks


def rank(vectors: Iterable[int]) -> int:
    """Return how many of the vectors are linearly independent."""
    basis: list[int] = []
    for vector in vectors:
        rest = vector
        for pivot in basis:
            rest = min(rest, rest ^ pivot)
        if rest:
            basis.append(rest)
    return len(basis)


def basis(addresses: Ints) -> tuple[int, ...] | None:
    """Return what each bit of the lane number XORs into the address; None if that is not linear.

    `addresses` are those of 2^k lanes. Affine patterns count: ``address(lane) = address(0) ^ b0 lane0 ^ b1 lane1 …``.
    """
    lanes = len(addresses)
    vectors = [int(addresses[1 << bit] ^ addresses[0]) for bit in range(lanes.bit_length() - 1)]
    image = np.full(lanes, addresses[0])
    for bit, vector in enumerate(vectors):
        image = image ^ np.where(np.arange(lanes) >> bit & 1, vector, 0)
    return tuple(vectors) if (image == addresses).all() else None


def ranks(vectors: Iterable[int], width_bytes: int = 4) -> tuple[int, int]:
    """Return the ranks of the unit bits and of the bank bits of byte offsets, one vector per bit of the lane number.

    A unit is what a lane accesses, at least a word; an access of 8 or 16 bytes spans 2 or 4 banks, counted as one.
    """
    unit_bits = max(width_bytes.bit_length() - 1, WORD_BITS)
    bank_mask = (1 << BANK_BITS + WORD_BITS) - 1
    columns = list(vectors)
    return rank(v >> unit_bits for v in columns), rank((v & bank_mask) >> unit_bits for v in columns)
