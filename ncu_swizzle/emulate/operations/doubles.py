"""Double precision, rounded once: number by number where NumPy does not do it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ncu_swizzle.emulate.code import TRUE, SassInstruction
from ncu_swizzle.emulate.operands import Compute, operation
from ncu_swizzle.emulate.operations.floating import fsetp
from ncu_swizzle.emulate.operations.reals import calculation, double
from ncu_swizzle.emulate.operations.rounding import F64, ROUNDINGS, directed, to_odd, two_sum
from ncu_swizzle.emulate.values import Bits, high_half, low_half

GENERATED, QUIET = np.uint64(0xFFF80000_00000000), np.uint64(1 << 51)  # NaN, and what makes one quiet
_LARGEST = Fraction(np.finfo(F64).max)
# Numbers within these powers of two neither overflow nor lose bits below the smallest float64 in `_nearest_sum`.
_FACTOR, _ADDEND = 400, 900


@operation("DADD", "DMUL", "DFMA")
def dfma(ins: SassInstruction) -> Compute | None:
    """a + b, a * b and a * b + c."""
    if not set(ROUNDINGS).issuperset(ins.modifiers):
        return None
    mode = ins.modifiers[0] if ins.modifiers else "RN"
    one, zero = np.ones((1, 1), F64), np.full((1, 1), -0.0)

    def result(*numbers: Bits) -> tuple[Bits, ...]:
        a, b = numbers[:2]
        if ins.opcode == "DFMA":
            return words(fused_doubles(a, b, numbers[2], mode), a, numbers[2], b)
        if mode == "RN":
            return words(a + b if ins.opcode == "DADD" else a * b, *numbers)
        if ins.opcode == "DADD":
            return words(fused_doubles(a, one, b, mode), *numbers)
        return words(fused_doubles(a, b, np.copysign(zero, a * b), mode), *numbers)

    return calculation([double(operand) for operand in ins.operands[1:]], result, registers=2)


@operation("DSETP")
def dsetp(ins: SassInstruction) -> Compute | None:
    """A comparison of two doubles; with MIN and MAX, whether the first is it, and whether both are NaN."""
    if not ins.has("MIN", "MAX"):
        return fsetp(ins)
    if ins.operands[4].number != TRUE or ins.operands[4].negated:
        return None
    smaller = ins.has("MIN")

    def result(a: Bits, b: Bits) -> tuple[Bits, ...]:
        one, other = np.isnan(a), np.isnan(b)
        less = (a < b) | ((a == b) & np.signbit(a))
        return ~one & (other | (less == smaller)), one & other

    return calculation([double(operand) for operand in ins.operands[2:4]], result, registers=2, like=bool)


def words(numbers: Bits, *operands: Bits) -> tuple[Bits, Bits]:
    """Return the lower and the upper half of float64 numbers; NaN is the last operand that is NaN, made quiet."""
    bits, nan = numbers.view(np.uint64), np.isnan(numbers)
    if nan.any():  # as it is of an operand that is
        bits = np.where(nan, GENERATED, bits)
        for operand in operands:
            bits = np.where(np.isnan(operand), operand.view(np.uint64) | QUIET, bits)
    return low_half(bits), high_half(bits)


def fused_doubles(a: Bits, b: Bits, c: Bits, mode: str = "RN") -> Bits:
    """Return a * b + c as float64, rounded once: number by number only near the ends of float64's range."""
    one, other, addend = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        near = _within(one, _FACTOR) & _within(other, _FACTOR) & _within(addend, _ADDEND)
        near &= (addend != 0) | ((one != 0) & (other != 0))
        nearest, rest = _nearest_sum(one, other, addend)
        if mode == "RN" and near.all():  # mostly
            return nearest
        product = one * other
        result: Bits = product + addend
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
    return directed(result, above, below, mode)


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
    nearest, rest = two_sum(leading, odd := to_odd(part, lost))
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
