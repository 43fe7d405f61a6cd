"""Double precision, rounded once: number by number where NumPy does not do it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ncu_swizzle.emulate.operations.floating import fsetp
from ncu_swizzle.emulate.operations.reals import calculation, double
from ncu_swizzle.emulate.operations.registry import Compute, operation
from ncu_swizzle.emulate.operations.rounding import F64, ROUNDINGS, directed
from ncu_swizzle.emulate.parse import TRUE, SassInstruction
from ncu_swizzle.emulate.values import Bits, high_half, low_half

GENERATED, QUIET = np.uint64(0xFFF80000_00000000), np.uint64(1 << 51)  # NaN, and what makes one quiet
_LARGEST = Fraction(np.finfo(F64).max)


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
    bits = np.where(np.isnan(numbers), GENERATED, numbers.view(np.uint64))
    for operand in operands:
        bits = np.where(np.isnan(operand), operand.view(np.uint64) | QUIET, bits)
    return low_half(bits), high_half(bits)


def fused_doubles(a: Bits, b: Bits, c: Bits, mode: str = "RN") -> Bits:
    """Return a * b + c as float64, rounded once."""
    one, other, addend = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        product = one * other
        result: Bits = product + addend
    finite = np.isfinite(one) & np.isfinite(other) & np.isfinite(addend)
    zero = finite & (addend == 0) & ((one == 0) | (other == 0))
    if mode == "RM":
        result = np.where(zero & (np.signbit(product) | np.signbit(addend)), -0.0, result)
    above, below = np.zeros(result.shape, bool), np.zeros(result.shape, bool)
    for index in zip(*np.nonzero(finite & ~zero), strict=True):
        exact = Fraction(float(one[index])) * Fraction(float(other[index])) + Fraction(float(addend[index]))
        nearest = _nearest(exact, mode)
        result[index] = nearest
        if exact and np.isfinite(nearest):
            above[index], below[index] = exact > Fraction(nearest), exact < Fraction(nearest)
    return directed(result, above, below, mode)


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
