"""Minimum, maximum and absolute value."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.emulate.effects import number
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import integer, predicate
from ncu_swizzle.emulate.operations.integer import added, keep_order, ordered
from ncu_swizzle.emulate.operations.registry import Compute, operation
from ncu_swizzle.emulate.parse import PRED, UPRED, Operand, SassInstruction
from ncu_swizzle.emulate.values import Value, computed, dependent, derived, signed


@operation("IABS", "UIABS")
def iabs(ins: SassInstruction) -> Compute | None:
    """|a|."""
    a = integer(ins.operands[1])

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value = a(m)
        numbers = signed(value.bits)
        bits = np.abs(numbers).astype(np.uint32)
        if value.tag is None or not m.follows(value):
            return (computed(bits, value),)
        positive = numbers >= 0
        least, most = np.where(positive, 0, -(1 << 31)), np.where(positive, (1 << 31) - 1, -1)
        m.keep_within(value.tag, numbers, least, most, m.view.mask & np.asarray(value.known))
        known_positive = bool((positive | ~m.view.mask).all())
        return (derived(bits, value, tag=value.tag if known_positive else dependent(value)),)

    return compute


@operation("IMNMX", "UIMNMX", "VIMNMX", "UVIMNMX")
def imnmx(ins: SassInstruction) -> Compute | None:
    """The minimum of two numbers if the predicate is true, else the maximum."""
    sources = _compared(ins)
    if sources is None:
        return None
    a, b = map(integer, sources)
    smaller = predicate(ins.operands[-1])
    return lambda m: (_extreme(m, a(m), b(m), smaller(m), not ins.has("U32")),)


def _compared(ins: SassInstruction) -> list[Operand] | None:
    """Return the numbers that are compared. From sm_100 on, two predicates come before them; None if they are read."""
    between = ins.operands[1:-1]
    if any(operand.kind in (PRED, UPRED) and number(operand) is not None for operand in between):
        return None
    return [operand for operand in between if operand.kind not in (PRED, UPRED)]


@operation("VIADDMNMX", "UVIADDMNMX")
def viaddmnmx(ins: SassInstruction) -> Compute | None:
    """The minimum or maximum of a + b and c."""
    a, b, c = (integer(operand) for operand in ins.operands[1:4])
    smaller = predicate(ins.operands[4])
    if ins.has("RELU"):
        return None
    return lambda m: (_extreme(m, added(a(m), b(m)), c(m), smaller(m), not ins.has("U32")),)


@operation("VIMNMX3", "UVIMNMX3")
def vimnmx3(ins: SassInstruction) -> Compute | None:
    """The minimum or maximum of three numbers."""
    a, b, c = (integer(operand) for operand in ins.operands[1:4])
    smaller = predicate(ins.operands[-1])

    def compute(m: Machine) -> tuple[Value | None, ...]:
        way, is_signed = smaller(m), not ins.has("U32")
        return (_extreme(m, _extreme(m, a(m), b(m), way, is_signed), c(m), way, is_signed),)

    return compute


def _extreme(m: Machine, a: Value, b: Value, smaller: Value, is_signed: bool) -> Value:
    first, second = ordered(m, a, b, is_signed)
    take_first = (first < second) == smaller.bits
    bits = np.where(take_first, a.bits, b.bits)
    if a.tag is None and b.tag is None:
        return derived(bits, a, b, smaller, tag=dependent(smaller))
    if not keep_order(m, a, b, first - second):
        return computed(bits, a, b, smaller)
    chosen = a.tag if bool((take_first | ~m.view.mask).all()) else None
    if chosen is None and bool((~take_first | ~m.view.mask).all()):
        return derived(bits, a, b, smaller, tag=b.tag)
    same = a.tag == b.tag or chosen is not None
    return derived(bits, a, b, smaller, tag=a.tag if same else dependent(a, b))
