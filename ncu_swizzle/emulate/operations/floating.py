"""Single precision: sums, products, comparisons, and whether a division needs its slow path."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Compute, operation, predicate
from ncu_swizzle.emulate.operations.predicates import COMBINATIONS, COMPARISONS, negation
from ncu_swizzle.emulate.operations.reals import Reals, calculation, condition, double, nothing, single
from ncu_swizzle.emulate.operations.rounding import (
    F32,
    ROUNDINGS,
    SINGLE,
    Format,
    flushed,
    fused,
    packed,
    rounded,
    saturated,
)
from ncu_swizzle.emulate.values import Bits, Value, computed, joint

ONE = np.ones((1, 1), F32)
ARITHMETIC = frozenset({*ROUNDINGS, "FTZ", "SAT"})


def _arithmetic(ins: SassInstruction, function: Callable[..., Bits]) -> Compute | None:
    """Return an instruction that rounds once what the function of its operands and the mode returns."""
    if not ARITHMETIC.issuperset(ins.modifiers):
        return None
    mode = next((word for word in ins.modifiers if word in ROUNDINGS), "RN")
    flush, saturate = ins.has("FTZ"), ins.has("SAT")

    def result(*numbers: Bits) -> tuple[Bits, ...]:
        operands = [flushed(number) for number in numbers] if flush else numbers
        total = rounded(function(*operands, mode), SINGLE, mode)
        total = flushed(total) if flush else total
        return (packed(saturated(total) if saturate else total, SINGLE),)

    return calculation([single(operand) for operand in ins.operands[1:]], result)


@operation("FADD", "UFADD")
def fadd(ins: SassInstruction) -> Compute | None:
    """a + b."""
    return _arithmetic(ins, lambda a, b, mode: fused(a, ONE, b, mode))


@operation("FMUL", "UFMUL")
def fmul(ins: SassInstruction) -> Compute | None:
    """a * b, exact in a double."""
    return _arithmetic(ins, lambda a, b, mode: a.astype(np.float64) * b.astype(np.float64))


@operation("FFMA", "UFFMA")
def ffma(ins: SassInstruction) -> Compute | None:
    """a * b + c."""
    return _arithmetic(ins, fused)


@operation("FCHK")
def fchk(ins: SassInstruction) -> Compute | None:
    """Whether a / b has to take the slow path: by the exponents alone, as measured for all pairs on an H100."""
    readers = [single(operand) for operand in ins.operands[1:3]]
    return calculation(readers, lambda a, b: (needs_slow_path(a, b),), like=bool)


def needs_slow_path(a: Bits, b: Bits) -> Bits:
    """Say for which a / b the fast path is not certain to round right: operands or quotient near the range's ends."""
    over, under = _exponent(a), _exponent(b)
    difference = over - under
    near = (under <= 1) | (under >= 252) | (over <= 24) | (over == 255)
    result: Bits = near | (difference >= 127) | (difference <= -125)
    return result


def _exponent(numbers: Bits) -> Bits:
    return numbers.view(np.int32) >> 23 & 0xFF


# ---------------------------------------------------------------------------------------------- comparisons


@operation("FSETP")
def fsetp(ins: SassInstruction) -> Compute | None:
    """A comparison of two floats or doubles, combined with a predicate, and the opposite, combined too."""
    comparison = comparing(ins)
    combine = next((COMBINATIONS[word] for word in ins.modifiers if word in COMBINATIONS), None)
    if comparison is None or combine is None:
        return None
    read = double if ins.opcode == "DSETP" else single
    a, b = (read(operand) for operand in ins.operands[2:4])
    with_this = predicate(ins.operands[4])

    def compute(m: Machine) -> tuple[Value | None, ...]:
        result = _compared(m, a, b, comparison)
        other = with_this(m)
        return combine(result, other), combine(negation(result), other)

    return compute


@operation("FSET")
def fset(ins: SassInstruction) -> Compute | None:
    """A comparison of two floats, combined with a predicate, as a mask or as 1.0 (.BF)."""
    comparison = comparing(ins)
    combine = next((COMBINATIONS[word] for word in ins.modifiers if word in COMBINATIONS), None)
    if comparison is None or combine is None:
        return None
    a, b = (single(operand) for operand in ins.operands[1:3])
    with_this = predicate(ins.operands[3])
    true = np.uint32(0x3F800000 if ins.has("BF") else 0xFFFFFFFF)

    def compute(m: Machine) -> tuple[Value | None, ...]:
        result = combine(_compared(m, a, b, comparison), with_this(m))
        return (Value(np.where(result.bits, true, np.uint32(0)), result.known, result.origin, result.tag),)

    return compute


def _compared(m: Machine, a: Reals, b: Reals, comparison: Callable[[Bits, Bits], Bits]) -> Value:
    (first, sources), (second, others) = a(m), b(m)
    if joint(*sources, *others) is False:
        return nothing(*sources, *others, like=bool)
    with np.errstate(all="ignore"):
        return computed(comparison(first, second), *sources, *others)


def comparing(ins: SassInstruction, form: Format = SINGLE) -> Callable[[Bits, Bits], Bits] | None:
    """Return the comparison that the modifiers name; with a U (.LTU), it is true if an operand is NaN."""
    relation = next((w for w in ins.modifiers if w.removesuffix("U") in COMPARISONS or w in ("NUM", "NAN")), None)
    if relation is None:
        return None
    flush, unordered = ins.has("FTZ"), relation.endswith("U") or relation == "NAN"
    compare = COMPARISONS.get(relation.removesuffix("U"))

    def compared(a: Bits, b: Bits) -> Bits:
        nan = np.isnan(a) | np.isnan(b)
        if compare is None:
            return nan if unordered else ~nan
        first, second = (flushed(a, form), flushed(b, form)) if flush else (a, b)
        return np.where(nan, unordered, compare(first, second))

    return compared


@operation("FMNMX")
def fmnmx(ins: SassInstruction) -> Compute | None:
    """The minimum of two floats if the predicate is true, else the maximum."""
    if len(ins.operands) > 4 or not {"FTZ", "NAN"}.issuperset(ins.modifiers):
        return None
    flush, propagate = ins.has("FTZ"), ins.has("NAN")

    def result(a: Bits, b: Bits, smaller: Bits) -> tuple[Bits, ...]:
        first, second = (flushed(a), flushed(b)) if flush else (a, b)
        return (packed(extreme(first, second, smaller, propagate), SINGLE),)

    a, b = (single(operand) for operand in ins.operands[1:3])
    return calculation([a, b, condition(ins.operands[3])], result)


def extreme(a: Bits, b: Bits, smaller: Bits, propagate: bool) -> Bits:
    """Return the smaller or larger number, -0 below +0; of a number and NaN the number, unless NaN propagates."""
    first_is_less = (a < b) | ((a == b) & np.signbit(a))
    result = np.where(first_is_less == smaller, a, b)
    one, other = np.isnan(a), np.isnan(b)
    if propagate:
        return np.where(one | other, np.nan, result)
    return np.where(one, b, np.where(other, a, result))
