"""Half precision and bfloat16: two numbers in a word."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ncu_swizzle.emulate.code import FLOAT, TRUE, ZERO, Operand, SassInstruction
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Compute, operation, predicate
from ncu_swizzle.emulate.operations.floating import comparing, extreme
from ncu_swizzle.emulate.operations.predicates import COMBINATIONS
from ncu_swizzle.emulate.operations.reals import UPPER, Reals, calculation, condition, halves, nothing
from ncu_swizzle.emulate.operations.rounding import (
    BRAIN,
    HALF,
    SINGLE,
    Format,
    flushed,
    fused,
    packed,
    rounded,
    saturated,
)
from ncu_swizzle.emulate.values import Bits, Value, computed, joint

ONE = np.ones((1, 1, 1))
PLACES = frozenset({"H0_H0", "H1_H1"})
ARITHMETIC = frozenset({"FTZ", "SAT", "RELU", "BF16_V2", "MMA", "F32"})


def _format(ins: SassInstruction) -> Format:
    return BRAIN if ins.has("BF16_V2") else HALF


def _readers(operands: Sequence[Operand], form: Format) -> list[Reals] | None:
    """Return readers of the operands, two constants as one; None if one selects halves in a way that is not known."""
    readers: list[Reals] = []
    rest = list(operands)
    while rest:
        first = rest.pop(0)
        if not PLACES.issuperset(first.suffixes):
            return None
        if first.kind == FLOAT and rest and rest[0].kind == FLOAT:
            readers.append(_constants(rest.pop(0), first))
        else:
            readers.append(halves(first, form))
    return readers


def _constants(low: Operand, high: Operand) -> Reals:
    numbers = np.array([-each.real if each.negated else each.real for each in (low, high)])[:, None, None]
    return lambda m: (numbers, ())


def _joined(low_and_high: Bits) -> Bits:
    word: Bits = low_and_high[0] | low_and_high[1] << UPPER
    return word


def _arithmetic(ins: SassInstruction, function: Callable[..., Bits]) -> Compute | None:
    form = _format(ins)
    readers = _readers(ins.operands[1:], form)
    if not ARITHMETIC.issuperset(ins.modifiers) or readers is None:
        return None
    flush, to_single = ins.has("FTZ"), ins.has("F32")

    def result(*numbers: Bits) -> tuple[Bits, ...]:
        operands = [flushed(number, form) for number in numbers] if flush else numbers
        exact = function(*operands)
        if to_single:
            return (packed(rounded(exact[0], SINGLE), SINGLE),)
        total = rounded(exact, form)
        total = flushed(total, form) if flush else total
        total = saturated(total) if ins.has("SAT") else total
        return (_joined(packed(np.where(total <= 0, 0.0, total) if ins.has("RELU") else total, form)),)

    return calculation(readers, result)


@operation("HADD2")
def hadd2(ins: SassInstruction) -> Compute | None:
    """a + b; as one float of the lower halves with .F32."""
    return _arithmetic(ins, lambda a, b: fused(a, ONE, b))


@operation("HMUL2")
def hmul2(ins: SassInstruction) -> Compute | None:
    """a * b, exact in a double."""
    return _arithmetic(ins, np.multiply)


@operation("HFMA2")
def hfma2(ins: SassInstruction) -> Compute | None:
    """a * b + c."""
    return _arithmetic(ins, fused)


@operation("HMNMX2")
def hmnmx2(ins: SassInstruction) -> Compute | None:
    """The minima of two halves if the predicate is true, else the maxima."""
    form = _format(ins)
    readers = _readers(ins.operands[1:3], form)
    if len(ins.operands) != 4 or readers is None or not {"FTZ", "NAN", "BF16_V2"}.issuperset(ins.modifiers):
        return None

    def result(a: Bits, b: Bits, smaller: Bits) -> tuple[Bits, ...]:
        first, second = (flushed(a, form), flushed(b, form)) if ins.has("FTZ") else (a, b)
        return (_joined(packed(extreme(first, second, smaller, ins.has("NAN")), form)),)

    return calculation([*readers, condition(ins.operands[3])], result)


@operation("HSET2")
def hset2(ins: SassInstruction) -> Compute | None:
    """Two comparisons, each combined with a predicate, as masks or as 1.0 (.BF)."""
    form = _format(ins)
    compared, combine, readers = _comparison(ins, form, 1)
    if compared is None or combine is None or readers is None:
        return None
    with_this = predicate(ins.operands[-1])
    true = np.uint32(0x3C00 if form is HALF else 0x3F80) if ins.has("BF") else np.uint32(0xFFFF)

    def compute(m: Machine) -> tuple[Value | None, ...]:
        results = [combine(result, with_this(m)) for result in _each(m, compared, readers)]
        low, high = (np.where(result.bits, true, np.uint32(0)) for result in results)
        return (computed(low | high << UPPER, *results),)

    return compute


@operation("HSETP2")
def hsetp2(ins: SassInstruction) -> Compute | None:
    """A comparison of two halves, combined with a predicate; not of two pairs of halves."""
    compared, combine, readers = _comparison(ins, _format(ins), 2)
    constants = {(each.real, each.negated) for each in ins.operands if each.kind == FLOAT}
    alike = len(constants) < 2 and all(
        each.kind == FLOAT or set(each.suffixes) & PLACES or each.number == ZERO for each in ins.operands[2:-1]
    )
    if compared is None or combine is None or readers is None or not alike or ins.operands[1].number != TRUE:
        return None
    with_this = predicate(ins.operands[-1])
    return lambda m: (combine(_each(m, compared, readers)[0], with_this(m)), None)


def _comparison(
    ins: SassInstruction, form: Format, first: int
) -> tuple[Callable[[Bits, Bits], Bits] | None, Callable[[Value, Value], Value] | None, list[Reals] | None]:
    combine = next((COMBINATIONS[word] for word in ins.modifiers if word in COMBINATIONS), None)
    readers = _readers(ins.operands[first:-1], form)
    return comparing(ins, form), combine, readers if readers and len(readers) == 2 else None


def _each(m: Machine, compared: Callable[[Bits, Bits], Bits], readers: Sequence[Reals]) -> tuple[Value, Value]:
    with np.errstate(all="ignore"):
        (a, sources), (b, others) = (read(m) for read in readers)
        if joint(*sources, *others) is False:
            none = nothing(*sources, *others, like=bool)
            return none, none
        low, high = compared(a, b)
    return computed(low, *sources, *others), computed(high, *sources, *others)
