"""Shifts of 32 and 64 bits, and permutations of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncu_swizzle.emulate.dependence import Tag, aligned, function_of, scaled, shifted_right
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import integer
from ncu_swizzle.emulate.operations.integer import no_wrap
from ncu_swizzle.emulate.operations.registry import Compute, operation
from ncu_swizzle.emulate.operations.scaled import high_tag
from ncu_swizzle.emulate.parse import SassInstruction
from ncu_swizzle.emulate.partial import sure_bits, with_sure
from ncu_swizzle.emulate.values import (
    Bits,
    Value,
    computed,
    dependent,
    derived,
    high_half,
    low_half,
    same_for_all,
    wide,
)


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
            return (_left(m, low, upper, count, by, high),)
        return (_right(m, low, upper, count, by, high, is_signed, of_64),)

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
