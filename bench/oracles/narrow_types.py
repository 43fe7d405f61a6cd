"""Values of 4, 6 and 8 bits as Blackwell's tensor cores take them, and TMA's packed types.

Nothing is imported from the package. From the OCP's formats (MX, version 1.0; 8-bit floating point) and, where TMA
leaves gaps, from cuda.h.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.oracles.tile_oracle import WRITE_SPANS, Array, TensorMap, exchanged

FLOATS = {"e4m3": (4, 3), "e5m2": (5, 2), "e2m3": (2, 3), "e3m2": (3, 2), "e2m1": (2, 1)}  # exponent and mantissa


def bits_of(kind: str) -> int:
    """Return the bits of a value."""
    return 8 if kind == "ue8m0" else 1 + sum(FLOATS[kind])


@cache
def table(kind: str) -> Array:
    """Return the value of each code."""
    if kind == "ue8m0":
        return np.asarray(2.0 ** (np.arange(256) - 127))
    exponent, mantissa = FLOATS[kind]
    code = np.arange(1 << 1 + exponent + mantissa)
    e, m = code >> mantissa & (1 << exponent) - 1, code & (1 << mantissa) - 1
    least, unit = 2 - (1 << exponent - 1), 2.0**-mantissa
    size = np.where(e > 0, (1 + m * unit) * 2.0 ** (e - 1 + least), m * unit * 2.0**least)
    if kind == "e4m3":
        size[(code & 0x7F) == 0x7F] = np.nan
    if kind == "e5m2":
        size[e == 31] = np.where(m[e == 31], np.nan, np.inf)
    return np.asarray(np.where(code >> exponent + mantissa, -size, size))


def codes_of(kind: str, values: Array) -> Array:
    """Return the codes of values that the type has."""
    known = {value: code for code, value in reversed([*enumerate(table(kind).tolist())]) if not math.isnan(value)}
    found, which = np.unique(values, return_inverse=True)
    return np.array([known[value] for value in found.tolist()], np.uint8)[which].reshape(np.shape(values))


def packed(codes: Array, bits: int) -> Array:
    """Return codes along the last axis as bytes, the first in the lowest bits."""
    each = np.unpackbits(codes[..., None], axis=-1, bitorder="little")[..., :bits]
    return np.packbits(each.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")


# By CUtensorMapDataType: bits of a value in global memory, and the values that go to 16 bytes of shared memory.
PACKED = {13: (4, 32), 14: (4, 16), 15: (6, 16)}


@dataclass(frozen=True)
class PackedMap(TensorMap):
    """A tensor map of packed values; gaps in shared memory stay as they are."""

    @property
    def refused(self) -> bool:
        _, per = PACKED[self.dtype]
        span, row = WRITE_SPANS[self.swizzle], self.box[0] * 16 // per
        far = 16 if per == 32 else 32
        return (
            (per == 16 and (self.box[0] != 128 or self.sizes[0] % 128 != 0 or self.swizzle not in (0, 3, 4)))
            or row % 16 != 0
            or (self.swizzle > 0 and row > span)
            or self.offset % far != 0
            or any(stride % far for stride in self.strides)
            or max(self.box) > 256
        )

    @property
    def copied(self) -> int:
        return math.prod(self.box) * PACKED[self.dtype][0] // 8

    @property
    def row_bytes(self) -> int:
        return self.box[0] * 16 // PACKED[self.dtype][1]

    def copy(self, buffer: Array, corner: Sequence[int], shared: Array, target: int) -> None:
        bits, per = PACKED[self.dtype]
        index = np.indices((*self.box[:0:-1], self.box[0] // per))[::-1]  # innermost first, in chunks of 16 bytes
        at = [corner[0] + index[0] * per, *(corner[axis] + index[axis] for axis in range(1, len(self.box)))]
        inside = np.logical_and.reduce([(x >= 0) & (x < size) for x, size in zip(at, self.sizes, strict=True)])
        source = self.offset + at[0] * bits // 8
        outer, factor = np.zeros_like(index[0]), 1
        for axis, stride in enumerate(self.strides, start=1):
            source = source + at[axis] * stride
            outer, factor = outer + index[axis] * factor, factor * self.box[axis]
        span = WRITE_SPANS[self.swizzle]
        to = target + outer * max(self.row_bytes, span if self.swizzle else 0) + index[0] * 16
        within = np.arange(per * bits // 8)
        values = np.where(inside[..., None], buffer[np.where(inside, source, 0)[..., None] + within], 0)
        shared[exchanged(to[..., None] + within, span, atom=32 if self.swizzle == 4 else 16)] = values
