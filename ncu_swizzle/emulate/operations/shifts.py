"""Shifts of 32 and 64 bits, and permutations of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncu_swizzle.emulate.code import PRED, UPRED, Operand, SassInstruction
from ncu_swizzle.emulate.dependence import Tag, aligned, function_of, scaled, shifted_right
from ncu_swizzle.emulate.effects import results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Compute, integer, negated, operation, predicate, raw, times
from ncu_swizzle.emulate.operations.integer import added, exact, no_wrap, sums
from ncu_swizzle.emulate.values import (
    Bits,
    Value,
    computed,
    dependent,
    derived,
    high_half,
    low_half,
    same_for_all,
    signed,
    sure_bits,
    wide,
    with_sure,
)

# LEA: a number scaled by a power of two, plus another.


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


@operation("SHF", "USHF")
def shf(ins: SassInstruction) -> Compute | None:
    """Shift the 64 bits of c:a by b; the upper (.HI) or the lower half of the result."""
    a, b, c = (integer(operand) for operand in ins.operands[1:4])
    left = ins.has("L")
    is_signed = ins.has("S32", "S64")
    wraps = ins.has("W")
    high = ins.has("HI")
    of_64 = ins.has("U64", "S64")

    def compute(m: Machine) -> tuple[Value | None, ...]:
        low, count, upper = a(m), b(m), c(m)
        by = count.bits & np.uint32(31 if not of_64 else 63) if wraps else np.minimum(count.bits, 63 if of_64 else 32)
        if left:
            return (_left(m, low, upper=upper, count=count, by=by, high=high),)
        return (_right(m, low, upper=upper, count=count, by=by, high=high, is_signed=is_signed, of_64=of_64),)

    return compute


def _left(m: Machine, low: Value, upper: Value, count: Value, by: Bits, high: bool) -> Value:
    steps = by.astype(np.uint64)
    same = same_for_all(by) if count.known is True and count.tag is None else None
    if high:
        bits = high_half(wide(low.bits, upper.bits) << steps)
        if same is None or not 0 < same < 32:
            return computed(bits, low, upper, count)
        return derived(bits, low, upper, count, tag=high_tag(m, low, upper, same, False))
    bits = low_half(np.where(steps >= 32, np.uint64(0), low.bits.astype(np.uint64) << np.minimum(steps, 63)))
    if same is not None and same < 32:
        return derived(bits, low, count, tag=scaled(low.tag, 1 << same))
    return computed(bits, low, count)


def _right(
    m: Machine, low: Value, upper: Value, count: Value, by: Bits, high: bool, is_signed: bool, of_64: bool
) -> Value:
    if not high:
        whole = wide(low.bits, upper.bits)
        moved = _arithmetic(whole, by) if is_signed and of_64 else whole >> by.astype(np.uint64)
        if same_for_all(upper.bits) == 0 and upper.known is True:
            return derived(low_half(moved), low, count, tag=_right_tag(m, low, count, by, False))
        return computed(low_half(moved), low, upper, count)
    steps = np.minimum(by, np.uint32(31))
    if is_signed:
        bits = (upper.bits.view(np.int32) >> steps.astype(np.int32)).view(np.uint32)
    else:
        bits = np.where(by > 31, np.uint32(0), upper.bits >> steps)
    return derived(bits, upper, count, tag=_right_tag(m, upper, count, by, is_signed))


def _arithmetic(whole: Bits, by: Bits) -> Bits:
    return (whole.view(np.int64) >> by.astype(np.int64)).view(np.uint64)


def _right_tag(m: Machine, value: Value, count: Value, by: Bits, is_signed: bool) -> Tag | None:
    if value.tag is None:
        return dependent(value, count)
    same = same_for_all(by) if count.known is True and count.tag is None else None
    if same is None or not m.follows(value):
        return dependent(value, count)
    fine = aligned(value.tag, same, m.coarsest)
    if fine:
        no_wrap(m, value, is_signed)
        return shifted_right(fine, same)
    if same == 31 and is_signed:  # the sign: keep the blocks with the same sign
        numbers = no_wrap(m, value, True)
        floor = np.where(numbers < 0, -(1 << 31), 0)
        most = np.where(numbers < 0, -1, (1 << 31) - 1)
        m.keep_within(value.tag, numbers, floor, most, m.view.mask & np.asarray(value.known))
        return None
    return dependent(value)


@operation("PRMT", "UPRMT")
def prmt(ins: SassInstruction) -> Compute | None:
    """Four bytes picked from two numbers, by a selector of four digits."""
    mode = next((word for word in ins.modifiers if word in ("F4E", "B4E", "RC8", "ECL", "ECR", "RC16")), None)
    if mode:
        return None
    a, selector, b = (integer(operand) for operand in ins.operands[1:4])

    def compute(m: Machine) -> tuple[Value | None, ...]:
        low, choice, high = a(m), selector(m), b(m)
        selected = same_for_all(choice.bits) if choice.known is True and choice.tag is None else None
        used = _used(selected, low, high)
        tag = function_of((choice.tag, 32), *((value.tag, most) for value, most in used))
        result = (
            _picked(low.bits, choice.bits, high.bits) if selected is None else _bytes(low.bits, selected, high.bits)
        )
        picked = derived(result, choice, *(value for value, _ in used), tag=tag)
        if selected is None or picked.known is True:
            return (picked,)
        return (with_sure(picked, _sure_bytes(selected, low, high)),)

    return compute


def _picked(low: Bits, choice: Bits, high: Bits) -> Bits:
    """Return the picked bytes if each lane has a selector of its own."""
    whole = wide(low, high)
    result: Bits = np.zeros((1, 1), np.uint64)
    for position in range(4):
        digit = choice >> np.uint32(4 * position) & np.uint32(0xF)
        byte = whole >> (8 * (digit & np.uint32(7))).astype(np.uint64) & np.uint64(0xFF)
        filled = np.where(byte >> np.uint64(7) & np.uint64(1), np.uint64(0xFF), np.uint64(0))
        byte = np.where(digit & np.uint32(8), filled, byte)
        result = result | byte << np.uint64(8 * position)
    return low_half(result)


def _bytes(low: Bits, selector: int, high: Bits) -> Bits:
    """Return the picked bytes if all lanes have the same selector: they are copied as bytes."""
    picked = np.empty(np.broadcast_shapes(low.shape, high.shape), np.uint32)
    halves = [np.ascontiguousarray(half)[..., None].view(np.uint8) for half in (low, high)]  # (…, 4) each
    for position in range(4):
        digit = selector >> 4 * position
        byte = halves[digit >> 2 & 1][..., digit & 3]
        picked[..., None].view(np.uint8)[..., position] = np.where(byte & 0x80, 0xFF, 0) if digit & 8 else byte
    return picked


def _sure_bytes(selector: int, low: Value, high: Value) -> Bits:
    """Return which bits of the picked bytes are known."""
    known = wide(sure_bits(low), sure_bits(high))
    sure: Bits = np.zeros((1, 1), np.uint32)
    for position in range(4):
        digit = selector >> 4 * position & 0xF
        byte = low_half(known >> np.uint64(8 * (digit & 7))) & np.uint32(0xFF)
        byte = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0)) if digit & 8 else byte
        sure = sure | byte << np.uint32(8 * position)
    return sure


def _used(selector: int | None, low: Value, high: Value) -> Sequence[tuple[Value, int]]:
    """Return from which of the two numbers the selector picks bytes, and how many of their bits these lie in."""
    if selector is None:
        return ((low, 32), (high, 32))
    digits = [selector >> 4 * position & 7 for position in range(4)]
    highest = (max((d for d in digits if d < 4), default=-1), max((d - 4 for d in digits if d >= 4), default=-1))
    return [(value, 8 * (byte + 1)) for value, byte in zip((low, high), highest, strict=True) if byte >= 0]
