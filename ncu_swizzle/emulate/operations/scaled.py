"""LEA: a number scaled by a power of two, plus another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncu_swizzle.emulate.dependence import Tag, aligned, shifted_right
from ncu_swizzle.emulate.effects import results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import integer, negated, predicate, raw, times
from ncu_swizzle.emulate.operations.integer import added, exact, no_wrap, sums
from ncu_swizzle.emulate.operations.registry import Compute, operation
from ncu_swizzle.emulate.parse import PRED, UPRED, Operand, SassInstruction
from ncu_swizzle.emulate.values import Bits, Value, dependent, derived, high_half, same_for_all, signed, wide

FEW = 64  # a coarser stride leaves more kinds of blocks than neighbours with the same quotient do


@operation("LEA", "ULEA")
def lea(ins: SassInstruction) -> Compute | None:
    """(a << s) + b, or with .HI ((c:a) >> (32 - s)) + b."""
    count = results(ins)
    sources = [operand for operand in ins.operands[count:] if operand.kind not in (PRED, UPRED)]
    shift = sources[-1].number & 31
    if ins.has("HI"):
        return _lea_high(ins, sources, shift, count)
    carry = predicate(ins.operands[-1]) if ins.has("X") else None
    a = integer(sources[0])
    b, minus = raw(sources[1]), sources[1].negated

    def compute(m: Machine) -> tuple[Value | None, ...]:
        first = times(a(m), 1 << shift)
        second = b(m)
        if count == 1 and carry is None:
            return (added(first, negated(second) if minus else second),)
        return sums(m, [first, exact(second, minus)], [carry(m)] if carry else [], count)

    return compute


def _lea_high(ins: SassInstruction, sources: Sequence[Operand], shift: int, count: int) -> Compute | None:
    a, b = raw(sources[0]), raw(sources[1])
    minus_a, minus_b = sources[0].negated, sources[1].negated
    sign_extends = ins.has("SX32")
    c = raw(sources[2]) if not sign_extends else None
    carry = predicate(ins.operands[-1]) if ins.has("X") else None

    def compute(m: Machine) -> tuple[Value | None, ...]:
        low = a(m)
        high = c(m) if c else _sign(low)
        whole = wide(low.bits, high.bits)
        if minus_a:
            whole = np.uint64(0) - whole
        bits = high_half(whole << np.uint64(shift)) if shift else high_half(whole)
        upper = derived(bits, low, high, tag=high_tag(m, low, high, shift, sign_extends and not minus_a))
        second = b(m)
        if carry is None and count == 1:
            return (added(upper, negated(second) if minus_b else second),)
        return sums(m, [upper, exact(second, minus_b)], [carry(m)] if carry else [], count)

    return compute


def _sign(value: Value) -> Value:
    bits = (value.bits.view(np.int32) >> 31).view(np.uint32)
    return Value(bits, value.known, value.origin, None)


def high_tag(m: Machine, low: Value, high: Value, shift: int, sign_extends: bool) -> Tag | None:
    """Return the tag of the upper half of a shifted number; a left shift by s and its upper half is >> (32 - s)."""
    if low.tag is None and high.tag is None:
        return None
    down = 32 - shift
    if low.tag is not None and m.follows(low) and (sign_extends or high.tag is None):
        fixed = sign_extends or same_for_all(high.bits) == 0
        fine = aligned(low.tag, down, min(FEW, m.coarsest))
        if fixed and fine:
            no_wrap(m, low, sign_extends)
            return shifted_right(fine, down)
        if fixed:
            return _fixed_quotient(m, low, down, sign_extends)
    return dependent(low, high)


def _fixed_quotient(m: Machine, low: Value, bits: int, is_signed: bool) -> Tag | None:
    """Keep only blocks for which low >> bits is the same."""
    numbers: Bits = signed(low.bits) if is_signed else low.bits.astype(np.int64)
    floor = (numbers >> bits) << bits
    least, most = floor, floor + (1 << bits) - 1
    if is_signed:
        most = np.minimum(most, (1 << 31) - 1)
    m.keep_within(low.tag, numbers, least, most, m.view.mask & np.asarray(low.known))
    return None
