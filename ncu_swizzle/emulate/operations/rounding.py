"""Round exact results to the formats of the hardware, in its four modes; sums and products rounded to odd before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncu_swizzle.emulate.values import Bits

F32, F64 = np.float32, np.float64
STEPS = {"RN": np.rint, "RZ": np.trunc, "RM": np.floor, "RP": np.ceil}  # to nearest even, towards 0, -inf, +inf
ROUNDINGS = ("RM", "RP", "RZ")


@dataclass(frozen=True, kw_only=True)
class Format:
    """A binary format: bits of the significand, exponents of the smallest and largest normal numbers, NaN's bits."""

    precision: int
    least: int
    most: int
    nan: int

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return 2.0**self.least

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2 - 2.0 ** (1 - self.precision)) * 2.0**self.most


SINGLE = Format(precision=24, least=-126, most=127, nan=0x7FFFFFFF)
HALF = Format(precision=11, least=-14, most=15, nan=0x7FFF)
BRAIN = Format(precision=8, least=-126, most=127, nan=0x7FFF)  # bfloat16


def rounded(numbers: Bits, target: Format, mode: str = "RN") -> Bits:
    """Return float64 numbers, exact or rounded to odd, as the float64 that equal their values in another format."""
    if target is SINGLE and mode == "RN":
        return numbers.astype(F32).astype(F64)
    finite = np.isfinite(numbers)
    kept = np.where(finite, numbers, 0.0)
    last = np.maximum(np.frexp(kept)[1] - 1, target.least) - (target.precision - 1)  # the exponent of the last bit
    result = np.ldexp(STEPS[mode](np.ldexp(kept, -last)), last)
    over = np.abs(result) > target.largest
    if over.any():
        down = (mode == "RZ") | (result > 0 if mode == "RM" else (result < 0) & (mode == "RP"))
        result = np.where(over, np.copysign(np.where(down, target.largest, np.inf), result), result)
    return np.where(finite, result, numbers)


def flushed(numbers: Bits, target: Format = SINGLE) -> Bits:
    """Return the numbers with those below the smallest normal one as zeros of the same sign (.FTZ)."""
    return np.where(np.abs(numbers) < target.tiny, np.copysign(numbers.dtype.type(0), numbers), numbers)


def saturated(numbers: Bits) -> Bits:
    """Return the numbers between 0 and 1, NaN as 0 (.SAT)."""
    return np.where(numbers > 0, np.minimum(numbers, 1.0), 0.0)


def packed(numbers: Bits, target: Format) -> Bits:
    """Return the bits of numbers that the format has, as uint32; NaN in its one form."""
    if target is HALF:
        bits = numbers.astype(np.float16).view(np.uint16).astype(np.uint32)
    else:
        bits = numbers.astype(F32).view(np.uint32)
        bits = bits >> np.uint32(16) if target is BRAIN else bits
    return np.where(np.isnan(numbers), np.uint32(target.nan), bits)


def two_sum(a: Bits, b: Bits) -> tuple[Bits, Bits]:
    """Return the nearest float64 of a sum, and the error, which is a float64 too (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def to_odd(nearest: Bits, error: Bits) -> Bits:
    """Return an exact number, given as its nearest float64 and the rest, with an odd last bit if it is no float64."""
    bits = nearest.view(np.int64)
    lost = np.isfinite(nearest) & (error != 0) & ((bits & 1) == 0)
    away = (error > 0) == (nearest > 0)
    odd: Bits = np.where(lost, np.where(away, bits + 1, bits - 1), bits).view(F64)
    return odd


def fused(a: Bits, b: Bits, c: Bits, mode: str = "RN") -> Bits:
    """Return a * b + c of floats, a double that rounds right to float32 or less: its last bit keeps the error.

    The product of two floats is exact in a double. Its sum with c is not; if it is inexact, the result is made odd
    ("round to odd": Boldo and Melquiond, "Emulation of FMA and Correctly Rounded Sums"). `mode` is that of the
    rounding to come: with RM, a sum of zeros of both signs is -0.
    """
    product, addend = a.astype(F64) * b.astype(F64), c.astype(F64)
    result = to_odd(*two_sum(product, addend))
    if mode == "RM":
        result = np.where((result == 0) & (np.signbit(product) | np.signbit(addend)), -0.0, result)
    return result


def directed(nearest: Bits, above: Bits, below: Bits, mode: str) -> Bits:
    """Return what the mode gives, by the nearest float64 and where the exact result is above or below it."""
    if mode == "RN":
        return nearest
    positive, negative = nearest > 0, nearest < 0
    up = above & {"RP": True, "RZ": negative}.get(mode, False)
    down = below & {"RM": True, "RZ": positive}.get(mode, False)
    return np.where(up, np.nextafter(nearest, np.inf), np.where(down, np.nextafter(nearest, -np.inf), nearest))
