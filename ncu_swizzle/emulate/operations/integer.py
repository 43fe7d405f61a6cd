"""Minimum, maximum and absolute value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncu_swizzle.emulate.code import PRED, UPRED, Operand, SassInstruction
from ncu_swizzle.emulate.dependence import Tag, scaled, total
from ncu_swizzle.emulate.effects import operand_number, results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Compute, Reader, integer, operation, pair, predicate, raw
from ncu_swizzle.emulate.values import (
    Bits,
    Value,
    computed,
    dependent,
    derived,
    high_half,
    joint,
    low_half,
    lowest,
    signed,
    wide,
    with_sure,
)

# Integer addition and comparison.


TOP = (1 << 32) - 1


def added(*values: Value) -> Value:
    """Return the sum, modulo 2^32."""
    bits = values[0].bits
    for value in values[1:]:
        bits = bits + value.bits
    return with_sure(derived(bits, *values, tag=total(*(value.tag for value in values))), lowest(*values))


def ordered(m: Machine, a: Value, b: Value, is_signed: bool) -> tuple[Bits, Bits]:
    """Return two numbers to compare, as int64; they do not wrap if `keep_order` applies to them."""
    if m.follows(a, b):
        return no_wrap(m, a, is_signed), no_wrap(m, b, is_signed)
    return (signed(a.bits), signed(b.bits)) if is_signed else (a.bits.astype(np.int64), b.bits.astype(np.int64))


def no_wrap(m: Machine, value: Value, is_signed: bool) -> Bits:
    """Return the numbers as int64, and keep only blocks for which they do not wrap, if `follows` holds."""
    numbers: Bits = signed(value.bits) if is_signed else value.bits.astype(np.int64)
    if value.tag is not None and m.follows(value):
        least, most = (-(1 << 31), (1 << 31) - 1) if is_signed else (0, TOP)
        bounds = np.full((1, 1), least, np.int64), np.full((1, 1), most, np.int64)
        m.keep_within(value.tag, numbers, *bounds, m.view.mask & np.asarray(value.known))
    return numbers


def keep_order(m: Machine, a: Value, b: Value, difference: Bits) -> bool:
    """Keep only blocks for which a - b keeps its sign or stays 0; say whether that was possible."""
    if not m.follows(a, b):
        return False
    tag = total(a.tag, scaled(b.tag, -1))
    if tag is None:
        return True
    if tag.coefficients is None:
        return False
    far = np.int64(1) << 40
    least = np.where(difference > 0, 1, np.where(difference < 0, -far, 0))
    most = np.where(difference > 0, far, np.where(difference < 0, -1, 0))
    m.keep_within(tag, difference, least, most, m.view.mask & np.asarray(joint(a, b)))
    return True


# ---------------------------------------------------------------------------------------------- sums


@operation("IADD3", "UIADD3", "IADD")
def iadd3(ins: SassInstruction) -> Compute | None:
    """a + b + c, with carries out to predicates and in from them (.X)."""
    count = results(ins)
    sources = ins.operands[count:]
    if ins.has("64"):
        return _add64(sources)
    if all(operand_number(operand) is None for operand in ins.operands[1:count]):
        count = 1  # from sm_100 on, carries that nothing reads go to PT
    numbers = [operand for operand in sources if operand.kind not in (PRED, UPRED)]
    carries = [predicate(operand) for operand in sources if operand.kind in (PRED, UPRED)] if ins.has("X") else []
    if ins.has("X"):
        readers = [extended(operand) for operand in numbers]
        return lambda m: sums(m, [read(m) for read in readers], [carry(m) for carry in carries], count)
    readers = [integer(operand) for operand in numbers]
    if count == 1:
        return lambda m: (added(*[read(m) for read in readers]),)
    minus = [operand.negated for operand in numbers]
    plain = [raw(operand) for operand in numbers]
    return lambda m: sums(m, [exact(read(m), n) for read, n in zip(plain, minus, strict=True)], [], count)


def extended(operand: Operand) -> Reader:
    """Return a reader of an operand of an .X instruction: - and ~ both invert, and the carry adds the one."""
    read = raw(operand)
    if operand.negated or operand.inverted:
        return lambda m: flipped_bits(read(m))
    return read


def flipped_bits(value: Value) -> Value:
    """Return ~value."""
    return Value(~value.bits, value.known, value.origin, scaled(value.tag, -1))


class Minus(Value):
    """A number to subtract: ~x + 1, whose carry differs from that of -x if x is 0."""


def exact(value: Value, minus: bool) -> Value:
    """Return the value, or its `Minus`, which gives the right carry."""
    if not minus:
        return value
    flipped = flipped_bits(value)
    return Minus(flipped.bits, flipped.known, flipped.origin, flipped.tag)


def sums(m: Machine, values: Sequence[Value], carries: Sequence[Value], count: int) -> tuple[Value | None, ...]:
    """Return the sum of values and carries, modulo 2^32, and the carries out: `count` results in all."""
    ones = sum(isinstance(value, Minus) for value in values)
    whole = np.full((1, 1), ones, np.uint64)
    for value in values:
        whole = whole + value.bits.astype(np.uint64)
    for carry in carries:
        whole = whole + carry.bits
    everything = [*values, *carries]
    tag = total(*(value.tag for value in values), *(dependent(carry) for carry in carries))
    low = derived(low_half(whole), *everything, tag=tag)
    if count == 1:
        return (low,)
    carry_tag = _decided_carry(m, whole, everything, tag)
    over = whole >> np.uint64(32)
    outs = [derived(over > k, *everything, tag=carry_tag) for k in range(count - 1)]
    return (low, *outs)


def _decided_carry(m: Machine, whole: Bits, sources: Sequence[Value], tag: Tag | None) -> Tag | None:
    """Keep only blocks with the same carry, so that it does not depend on the block."""
    if tag is None:
        return None
    if tag.coefficients is None or not m.follows(*sources):
        return dependent(*sources)
    low = (whole & np.uint64(TOP)).astype(np.int64)
    zero, top = np.zeros((1, 1), np.int64), np.full((1, 1), TOP, np.int64)
    m.keep_within(tag, low, zero, top, m.view.mask & np.asarray(joint(*sources)))
    return None


def _add64(sources: Sequence[Operand]) -> Compute:
    readers = [pair(operand) for operand in sources if operand.kind not in (PRED, UPRED)]

    def compute(m: Machine) -> tuple[Value | None, ...]:
        halves = [read(m) for read in readers]
        whole = np.zeros((1, 1), np.uint64)
        for low, high in halves:
            whole = whole + wide(low.bits, high.bits)
        lows, every = [low for low, _ in halves], [half for both in halves for half in both]
        low = derived(low_half(whole), *lows, tag=total(*(value.tag for value in lows)))
        return low, computed(high_half(whole), *every)

    return compute


@operation("VIADD", "UVIADD")
def viadd(ins: SassInstruction) -> Compute | None:
    """a + b."""
    a, b = (integer(operand) for operand in ins.operands[1:3])
    return lambda m: (added(a(m), b(m)),)


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
    if any(operand.kind in (PRED, UPRED) and operand_number(operand) is not None for operand in between):
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
