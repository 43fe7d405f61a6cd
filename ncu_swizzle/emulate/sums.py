"""How tensor cores add up products of floats: in C if there is a compiler, else in NumPy, with the same results."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ncu_swizzle.emulate.operations.rounding import F32, F64, HALF, SINGLE, compiled
from ncu_swizzle.emulate.values import Bits

NO_EXPONENT = -1000  # of zero: less than the sum of any two
OVERFLOW = 2.0**128  # what is less is cut off to a finite float


@dataclass(frozen=True, kw_only=True)
class Accumulation:
    """How an instruction adds up: the bits behind the largest exponent that are added, and what is kept."""

    fraction: int = 25
    kept: int = 23  # bits of the sum's fraction
    halves: bool = False  # whether the summand is a half, and the sum is rounded to one
    least: tuple[int, int] = (-14, -14)  # exponents of A and of B, which denormal numbers have

    @property
    def least_sum(self) -> int:
        """The summand's least exponent."""
        return HALF.least if self.halves else SINGLE.least


class _Product(ctypes.Structure):
    """Product of sums.c."""

    _fields_ = tuple(
        (name, ctypes.c_int32)
        for name in ("rows", "columns", "depth", "fraction", "kept", "halves", "least_a", "least_b", "least_c")
    )


@functools.cache
def _product(rows: int, columns: int, depth: int, how: Accumulation) -> Any:
    numbers = (rows, columns, depth, how.fraction, how.kept, how.halves, *how.least, how.least_sum)
    return ctypes.byref(_Product(*numbers))


def of_sums(registers: Bits, rows: int) -> Bits:
    """Return sums, (G, rows, columns), from registers with one each, (n, G, 32)."""
    # By chunks of 8 columns, eight rows each, the two elements of a lane, its row and columns.
    parts = registers.reshape(-1, rows // 8, 2, registers.shape[1], 8, 4)
    return np.ascontiguousarray(parts.transpose(3, 1, 4, 0, 5, 2)).reshape(registers.shape[1], rows, -1)


def in_registers(sums: Bits) -> Bits:
    """Return the registers that hold sums, as `of_sums` reads them."""
    warps, rows, columns = sums.shape
    parts = sums.reshape(warps, rows // 8, 8, columns // 8, 4, 2)
    return np.ascontiguousarray(parts.transpose(3, 1, 5, 0, 2, 4)).reshape(-1, warps, 32)


def fused_registers(a: Bits, b: Bits, c: Bits, how: Accumulation) -> Bits:
    """Return `fused_sum`, c and the result in registers with one sum each, (n, G, 32)."""
    library = compiled()
    if library is not None:
        parts, result = [np.ascontiguousarray(each, F32) for each in (a, b, c)], np.empty(c.shape, F32)
        pointers = [ctypes.c_void_p(each.ctypes.data) for each in (*parts, result)]
        if library.fused_sums(*pointers, len(a), _product(a.shape[1], b.shape[1], a.shape[2], how)):
            return result
    return in_registers(fused_sum(a, b, of_sums(c, a.shape[1]), how))


def fused_sum(a: Bits, b: Bits, c: Bits, how: Accumulation) -> Bits:
    """Return c + a b^T as the hardware adds it up: a (G, m, k), b (G, n, k), c (G, m, n) in float32, and the result.

    All products and the summand are aligned to the largest exponent, cut off behind `fraction` bits, and added, which
    is exact. The exponents that are compared are the sums of the operands' ones.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        plain = np.einsum("gmk,gnk->gmn", a.astype(F64), b.astype(F64)) + c
        a, b, c = (np.where(np.isfinite(each), each, F32(0)) for each in (a, b, c))
        special = np.where(np.isnan(plain), np.uint32(SINGLE.nan).view(F32), plain.astype(F32))
        return np.where(np.isfinite(plain), _rounded(_aligned_sums(a, b, c, how), how), special)


def _rounded(exact: Bits, how: Accumulation) -> Bits:
    """Return sums, float64, as the hardware keeps them, in float32; no zero is negative."""
    if how.halves:
        return exact.astype(np.float16).astype(F32) + F32(0)
    nearest = exact.astype(F32)
    bits = nearest.view(np.uint32) - (np.abs(nearest) > np.abs(exact))  # towards zero
    kept: Bits = (bits.astype(np.uint32) & np.uint32((1 << 32) - (1 << 23 - how.kept))).view(F32)
    return np.where(np.abs(exact) < OVERFLOW, kept + F32(0), nearest)


def _aligned_sums(a: Bits, b: Bits, c: Bits, how: Accumulation) -> Bits:
    """Return the sums of what is left of the products and summands, (G, m, n) in float64, which is exact."""
    up_a, up_b, top = _exponents(a, how.least[0]), _exponents(b, how.least[1]), _exponents(c, how.least_sum)
    for k in range(a.shape[2]):
        np.maximum(top, up_a[:, :, None, k] + up_b[:, None, :, k], out=top)
    scale = np.where(top > NO_EXPONENT // 2, how.fraction - top, 0)
    total = np.trunc(np.ldexp(c.astype(F64), scale))
    for k in range(a.shape[2]):
        # Neither a product nor its shift is beyond a float64's exponents.
        total += np.trunc(np.ldexp(a[:, :, None, k].astype(F64) * b[:, None, :, k], scale))
    exact: Bits = np.ldexp(total, -scale)
    return exact


def _exponents(numbers: Bits, least: int) -> Bits:
    """Return the exponents of float32 numbers, none below `least`, which denormal ones have."""
    field = (numbers.view(np.uint32) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int32) - 127
    return np.where(numbers == 0, NO_EXPONENT, np.maximum(field, least))
