"""How tensor cores add up products of floats, in NumPy: what sums.c is compared with."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.emulate.operations.rounding import F32, F64, HALF, SINGLE
from ncu_swizzle.emulate.products import Accumulation
from ncu_swizzle.emulate.values import Bits

NO_EXPONENT = -1000  # of zero: less than the sum of any two
OVERFLOW = 2.0**128  # what is less is cut off to a finite float


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
    up_a, up_b, top = (
        _exponents(a, how.least[0]),
        _exponents(b, how.least[1]),
        _exponents(c, HALF.least if how.halves else SINGLE.least),
    )
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
