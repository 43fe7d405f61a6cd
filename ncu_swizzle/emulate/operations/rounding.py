"""Round exact results to the formats of the hardware, in its four modes; sums and products rounded to odd before.

What takes long is done in C if there is a compiler, else in NumPy, with the same results.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ncu_swizzle.base import native, paths
from ncu_swizzle.emulate.values import Bits, high_half, low_half

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
TENSOR = Format(precision=11, least=-126, most=127, nan=0x7FFFE000)  # tf32, in the upper bits of a float
DOUBLE = Format(precision=53, least=-1022, most=1023, nan=0x7FF8 << 48)
E5M2 = Format(precision=3, least=-14, most=15, nan=0x7F)  # the upper byte of a half
E4M3 = Format(precision=4, least=-6, most=8, nan=0x7F)  # no infinity; where 480 would be is NaN
LARGEST_E4M3 = 448.0


def round_to_format(numbers: Bits, target: Format, mode: str = "RN") -> Bits:
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


def flush_denormals(numbers: Bits, target: Format = SINGLE) -> Bits:
    """Return the numbers with those below the smallest normal one as zeros of the same sign (.FTZ)."""
    return np.where(np.abs(numbers) < target.tiny, np.copysign(numbers.dtype.type(0), numbers), numbers)


def saturate(numbers: Bits) -> Bits:
    """Return the numbers between 0 and 1, NaN as 0 (.SAT)."""
    return np.where(numbers > 0, np.minimum(numbers, 1.0), 0.0)


def pack_bits(numbers: Bits, target: Format) -> Bits:
    """Return the bits of numbers that the format can represent, as uint32; NaN in its canonical form."""
    if target in (HALF, E5M2, E4M3):  # as a half, E4M3 has the same fields if 2^8 is taken from its exponent
        halves = numbers / 256 if target is E4M3 else numbers
        bits = halves.astype(np.float16).view(np.uint16).astype(np.uint32)
        if target is E5M2:
            bits = bits >> np.uint32(8)
        if target is E4M3:
            bits = bits >> np.uint32(8) & np.uint32(0x80) | bits >> np.uint32(7) & np.uint32(0x7F)
    else:
        bits = numbers.astype(F32, copy=False).view(np.uint32)
        bits = bits >> np.uint32(16) if target is BRAIN else bits
    return np.where(np.isnan(numbers), np.uint32(target.nan), bits)


def unpack_bits(bits: Bits, form: Format) -> Bits:
    """Return halves or bfloat16 numbers, in uint32, as float64."""
    if form is BRAIN:
        return (bits << np.uint32(16)).view(F32).astype(F64)
    return bits.astype(np.uint16).view(np.float16).astype(F64)


@functools.cache
def byte_numbers(form: Format) -> Bits:
    """Return the numbers of all 256 bytes, E4M3 or E5M2, as float32."""
    codes = np.arange(256, dtype=np.uint16)
    if form is E5M2:
        return (codes << np.uint16(8)).view(np.float16).astype(F32)
    numbers = ((codes & np.uint16(0x80)) << np.uint16(8) | (codes & np.uint16(0x7F)) << np.uint16(7)).view(np.float16)
    return np.where(codes & np.uint16(0x7F) == 0x7F, F32(np.nan), numbers.astype(F32) * F32(256))


@functools.cache
def compiled() -> ctypes.CDLL | None:
    """Return the library of sums.c; None without a C compiler."""
    library = native.library(paths.package() / "emulate" / "sums.c", "-O3", "-Wno-psabi", "-ffp-contract=off")
    for function in (library.fused_doubles, library.fused_floats, library.odd_sums) if library else ():
        function.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_long]
    return library


def _in_c(function: Any, like: Any, *operands: Bits) -> Bits:
    """Return a function of sums.c of three operands, all numbers of one type."""
    shape = np.broadcast(*operands).shape
    result: Bits = np.empty(shape, like)
    arrays = [
        np.ascontiguousarray(each if each.shape == shape else np.broadcast_to(each, shape), like) for each in operands
    ]
    function(*(each.ctypes.data for each in (*arrays, result)), result.size)
    return result


def two_sum(a: Bits, b: Bits) -> tuple[Bits, Bits]:
    """Return the nearest float64 of a sum, and the error, which is a float64 too (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def round_to_odd(nearest: Bits, error: Bits) -> Bits:
    """Return an exact number, given as its nearest float64 and the rest, with an odd last bit if it is inexact."""
    bits = nearest.view(np.int64)
    lost = np.isfinite(nearest) & (error != 0) & ((bits & 1) == 0)
    away = (error > 0) == (nearest > 0)
    odd: Bits = np.where(lost, np.where(away, bits + 1, bits - 1), bits).view(F64)
    return odd


def multiply_add(a: Bits, b: Bits, c: Bits, mode: str = "RN") -> Bits:
    """Return a * b + c of floats, a double that rounds right to float32 or less: its last bit keeps the error.

    The product of two floats is exact in a double. Its sum with c is not; if it is inexact, the result is made odd
    ("round to odd": Boldo and Melquiond, "Emulation of FMA and Correctly Rounded Sums"). `mode` is that of the
    rounding to come: with RM, a sum of zeros of both signs is -0.
    """
    if mode != "RM" and (library := compiled()):
        return _in_c(library.odd_sums, F64, a, b, c)
    product, addend = a.astype(F64) * b.astype(F64), c.astype(F64)
    result = round_to_odd(*two_sum(product, addend))
    if mode == "RM":
        result = np.where((result == 0) & (np.signbit(product) | np.signbit(addend)), -0.0, result)
    return result


def multiply_add_floats(a: Bits, b: Bits, c: Bits) -> Bits:
    """Return a * b + c of floats, rounded once to the nearest float32."""
    if library := compiled():
        return _in_c(library.fused_floats, F32, a, b, c)
    return multiply_add(a, b, c).astype(F32)


def round_directed(nearest: Bits, above: Bits, below: Bits, mode: str) -> Bits:
    """Round in a mode, given the nearest float64 and where the exact result is above or below it."""
    if mode == "RN":
        return nearest
    positive, negative = nearest > 0, nearest < 0
    up = above & {"RP": True, "RZ": negative}.get(mode, False)
    down = below & {"RM": True, "RZ": positive}.get(mode, False)
    return np.where(up, np.nextafter(nearest, np.inf), np.where(down, np.nextafter(nearest, -np.inf), nearest))


# ---------------------------------------------------------------------------------------------- doubles


GENERATED, QUIET = np.uint64(0xFFF80000_00000000), np.uint64(1 << 51)  # NaN, and what makes one quiet
_LARGEST = Fraction(np.finfo(F64).max)
# Numbers within these powers of two neither overflow nor lose bits below the smallest float64 in `_nearest_sum`.
_FACTOR, _ADDEND = 400, 900


def with_nan_of(numbers: Bits, *operands: Bits) -> Bits:
    """Return float64 numbers with each NaN that of the last operand that is NaN, made quiet."""
    nan = np.isnan(numbers)
    if not nan.any():
        return numbers
    bits = np.where(nan, GENERATED, numbers.view(np.uint64))
    for operand in operands:
        bits = np.where(np.isnan(operand), operand.view(np.uint64) | QUIET, bits)
    result: Bits = bits.view(F64)
    return result


def words(numbers: Bits, *operands: Bits) -> tuple[Bits, Bits]:
    """Return the lower and the upper half of float64 numbers; of NaN, those of `with_nan_of`."""
    bits = with_nan_of(numbers, *operands).view(np.uint64)
    return low_half(bits), high_half(bits)


def multiply_add_doubles(a: Bits, b: Bits, c: Bits, mode: str = "RN") -> Bits:
    """Return a * b + c as float64, rounded once: number by number only near the ends of float64's range."""
    if mode == "RN" and (library := compiled()):
        return _in_c(library.fused_doubles, F64, a, b, c)
    one, other, addend = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        near = _within(one, _FACTOR) & _within(other, _FACTOR) & _within(addend, _ADDEND)
        near &= (addend != 0) | ((one != 0) & (other != 0))
        nearest, rest = _nearest_sum(one, other, addend)
        if mode == "RN" and near.all():  # mostly
            return nearest
        product = one * other
        overflown = np.isinf(product) & np.isfinite(one) & np.isfinite(other)  # finite, next to an infinite addend
        result: Bits = np.where(overflown & np.isinf(addend), addend, product + addend)
        finite = np.isfinite(one) & np.isfinite(other) & np.isfinite(addend)
        zero = finite & (addend == 0) & ((one == 0) | (other == 0))
        if mode == "RM":
            result = np.where(zero & (np.signbit(product) | np.signbit(addend)), -0.0, result)
    if mode == "RM":
        nearest = np.where((nearest == 0) & (rest == 0), -0.0, nearest)
    result = np.where(near, nearest, result)
    above, below = near & (rest > 0), near & (rest < 0)
    for index in zip(*np.nonzero(finite & ~zero & ~near), strict=True):
        exact = Fraction(float(one[index])) * Fraction(float(other[index])) + Fraction(float(addend[index]))
        single = _nearest(exact, mode)
        result[index] = single
        if exact and np.isfinite(single):
            above[index], below[index] = exact > Fraction(single), exact < Fraction(single)
    return round_directed(result, above, below, mode)


def _within(numbers: Bits, exponent: int) -> Bits:
    size = np.abs(numbers)
    inside: Bits = (size == 0) | ((size >= 2.0**-exponent) & (size <= 2.0**exponent))
    return inside


def _nearest_sum(a: Bits, b: Bits, c: Bits) -> tuple[Bits, Bits]:
    """Return the float64 nearest to a * b + c, and a number with the sign of the rest.

    Boldo and Melquiond, "Emulation of FMA and Correctly Rounded Sums": all but the leading part is rounded to odd, so
    that the sum with the leading part rounds as the exact one does. What the last sum loses is a multiple of the odd
    part's last bit, so that it has the sign of the whole rest unless it is 0.
    """
    high, low = _product(a, b)
    upper, first = two_sum(c, low)
    leading, second = two_sum(high, upper)
    part, lost = two_sum(first, second)
    nearest, rest = two_sum(leading, odd := round_to_odd(part, lost))
    return nearest, np.where(rest != 0, rest, (part - odd) + lost)


def _product(a: Bits, b: Bits) -> tuple[Bits, Bits]:
    """Return the nearest float64 of a product, and the error, which is a float64 too (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(numbers: Bits) -> tuple[Bits, Bits]:
    """Return two halves of 26 bits that sum up to the numbers (Veltkamp)."""
    scaled = numbers * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - numbers)
    return high, numbers - high


def _nearest(exact: Fraction, mode: str) -> float:
    """Return the float64 nearest to a number; beyond the range, infinity or the largest number."""
    if not exact:
        return -0.0 if mode == "RM" else 0.0
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = np.inf if exact > 0 else -np.inf
    if np.isinf(nearest) and mode in ("RZ", "RM" if exact > 0 else "RP"):
        return float(_LARGEST) if exact > 0 else -float(_LARGEST)
    if nearest == 0:
        return -0.0 if exact < 0 else 0.0
    return nearest
