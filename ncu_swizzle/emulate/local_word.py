"""A word of local memory, as all threads have it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncu_swizzle.emulate.dependence import Tag
from ncu_swizzle.emulate.values import Bits, Value
from ncu_swizzle.smem.banks import Bools, Ints


@dataclass
class LocalWord:
    """A word of all threads' local memory; `known` has a bit per byte."""

    bits: Bits  # (W, 32) uint32
    known: Bits  # (W, 32) uint8
    origin: int | None = None
    tag: Tag | None = None

    @classmethod
    def nothing(cls, warps: int) -> LocalWord:
        """Return a word that has not been written yet."""
        return cls(np.zeros((warps, 32), np.uint32), np.zeros((warps, 32), np.uint8))

    def write(self, warps: Ints, lanes: Bools, byte: Bits, value: Value, size: int) -> None:
        """Write `size` bytes from byte `byte` on, in some lanes of some warps."""
        shift = np.uint32(8) * byte
        hole = np.uint32((1 << 8 * size) - 1) << shift
        touched = np.uint8((1 << size) - 1) << byte.astype(np.uint8)
        old, sure = self.bits[warps], self.known[warps]
        self.bits[warps] = np.where(lanes, (old & ~hole) | (value.bits << shift & hole), old)
        now_known = np.where(np.asarray(value.known), sure | touched, sure & ~touched)
        self.known[warps] = np.where(lanes, now_known, sure)
        if value.known is not True:
            self.origin = value.origin
