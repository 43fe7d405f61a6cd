"""Data exchange between the lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ncu_swizzle.emulate.code import PRED, UPRED, SassInstruction
from ncu_swizzle.emulate.dependence import Tag, any_way
from ncu_swizzle.emulate.effects import operand_number
from ncu_swizzle.emulate.machine import LANES, Machine
from ncu_swizzle.emulate.operands import Compute, guard_operands, integer, operation, pair, predicate, raw
from ncu_swizzle.emulate.values import Bits, Known, Value, computed, derived, wide
from ncu_swizzle.smem.operations import Bools


@operation("R2UR")
def r2ur(ins: SassInstruction) -> Compute | None:
    """The value of the first lane that executes it, into a uniform register.

    A predicate before it tells which lanes have another value, so that a loop can serve one value at a time; with .OR,
    lanes for which it was true stay true.
    """
    read, executing = integer(ins.operands[-1]), _executing(ins)
    source = operand_number(ins.operands[-1])
    tells = ins.operands[0].kind == PRED
    before = predicate(ins.operands[0]) if tells and ins.has("OR") else None

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value = read(m)
        mask, doubtful = executing(m)
        one = first_lane(value, mask | doubtful)
        if source is not None and not doubtful.any():
            first = mask.argmax(axis=1)[:, None] == LANES
            one = Value(one.bits, one.known, one.origin, m.tag_in(source, first & mask, value))
        if doubtful.any() and value.bits.shape[1] > 1:
            sure = _simple(~doubtful.any(axis=1, keepdims=True) & np.asarray(one.known))
            one = Value(one.bits, sure, m.now if value.certain else value.origin, value.tag)
        if not tells:
            return (one,)
        differs = computed(value.bits != one.bits, value, one)
        if before is not None:
            others = before(m)
            differs = computed(differs.bits | others.bits, differs, others)
        return differs, one

    return compute


def _executing(ins: SassInstruction) -> Callable[[Machine], tuple[Bools, Bools]]:
    """Return what tells the lanes that take part in an exchange, and those for which that is unknown."""
    guard = guard_operands(ins.guard)
    return lambda m: m.selection(guard(m) if guard else None)


def first_lane(value: Value, mask: Bools) -> Value:
    """Return the value of each warp's first lane in the mask, shape (G, 1)."""
    if value.bits.shape[1] == 1:
        return value
    lane = mask.argmax(axis=1)[:, None]
    bits = np.take_along_axis(np.broadcast_to(value.bits, (len(mask), 32)), lane, axis=1)
    known = value.known
    if not isinstance(known, bool):
        known = np.take_along_axis(np.broadcast_to(known, (len(mask), 32)), lane, axis=1)
    return Value(bits, known, value.origin, value.tag)


@operation("VOTE", "VOTEU")
def vote(ins: SassInstruction) -> Compute | None:
    """Which active lanes vote yes, and whether all do, any does, or all agree."""
    source = predicate(ins.operands[-1])
    kinds = [operand.kind for operand in ins.operands]
    to_register = kinds[0] not in (PRED, UPRED)
    to_predicate = not to_register or (len(kinds) > 2 and kinds[1] in (PRED, UPRED))
    mode = next((word for word in ins.modifiers if word in ("ALL", "ANY", "EQ")), "ALL")
    executing = _executing(ins)

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value = source(m)
        mask, doubtful = executing(m)
        known = np.broadcast_to(np.asarray(value.known), mask.shape)
        yes, no, maybe = mask & known & value.bits, mask & known & ~value.bits, (mask & ~known) | doubtful
        tag = any_way(value.tag)
        results: list[Value | None] = []
        if to_register:
            bits = (yes.astype(np.uint64) << LANES.astype(np.uint64)).sum(axis=1, dtype=np.uint64).astype(np.uint32)
            sure = ~maybe.any(axis=1, keepdims=True)
            results.append(Value(bits[:, None], _simple(sure), value.origin, tag))
        if to_predicate:
            results.append(_verdict(mode, yes, no=no, maybe=maybe, value=value, tag=tag))
        return tuple(results)

    return compute


def _simple(known: Any) -> Known:
    return True if np.all(known) else np.asarray(known)


def _verdict(mode: str, yes: Bits, no: Bits, maybe: Bits, value: Value, tag: Tag | None) -> Value:
    any_yes, any_no, any_maybe = (np.asarray(lanes.any(axis=1, keepdims=True)) for lanes in (yes, no, maybe))
    if mode == "ANY":
        bits, known = any_yes, any_yes | ~any_maybe
    elif mode == "ALL":
        bits, known = ~any_no & ~any_maybe, any_no | ~any_maybe
    else:
        bits, known = ~(any_yes & any_no), (any_yes & any_no) | ~any_maybe
    return Value(bits, _simple(known), value.origin, tag)


@operation("SHFL")
def shfl(ins: SassInstruction) -> Compute | None:
    """The value of another lane: by index (.IDX), below (.UP), above (.DOWN), or by XOR (.BFLY)."""
    mode = next((word for word in ins.modifiers if word in ("IDX", "UP", "DOWN", "BFLY")), None)
    a, b, c = (integer(operand) for operand in ins.operands[2:5])
    source = operand_number(ins.operands[2])
    executing = _executing(ins)
    if mode is None:
        return None

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value, by, clamp = a(m), b(m), c(m)
        lane, valid = _partner(mode, by.bits, clamp.bits)
        mask, _ = executing(m)
        shape = np.broadcast_shapes(mask.shape, lane.shape)
        lane, valid = np.broadcast_to(lane, shape), np.broadcast_to(valid, shape)
        bits = np.take_along_axis(np.broadcast_to(value.bits, shape), lane, axis=1)
        there = np.take_along_axis(np.broadcast_to(mask, shape), lane, axis=1)
        known = np.take_along_axis(np.broadcast_to(np.asarray(value.known), shape), lane, axis=1) & there
        rule = derived(bits, by, clamp)
        sure = known & np.asarray(rule.known)
        origin = value.origin if value.known is not True else rule.origin
        tag = value.tag
        if by.tag is None and clamp.tag is None and source is not None:
            reading = np.zeros(shape, bool)
            rows, lanes = np.nonzero(np.broadcast_to(mask, shape))
            reading[rows, lane[rows, lanes]] = True
            tag = m.tag_in(source, reading, value)
        if by.tag is not None or clamp.tag is not None or (tag is not None and not tag.uniform):
            tag = any_way(tag, by.tag, clamp.tag)
        received = Value(bits, _simple(sure), m.now if origin is None else origin, tag)
        return Value(valid, rule.known, rule.origin, any_way(by.tag, clamp.tag)), received

    return compute


def _partner(mode: str, by: Bits, clamp: Bits) -> tuple[Bits, Bits]:
    """Return the lane that each lane reads, and whether it is within its segment (PTX ISA, "shfl.sync")."""
    lane = LANES[None].astype(np.int64)
    steps = by.astype(np.int64) & 31
    limit, segment = clamp.astype(np.int64) & 31, clamp.astype(np.int64) >> 8 & 31
    highest = (lane & segment) | (limit & ~segment)
    lowest = lane & segment
    if mode == "UP":
        other = lane - steps
        valid = other >= highest
    elif mode == "DOWN":
        other = lane + steps
        valid = other <= highest
    elif mode == "BFLY":
        other = lane ^ steps
        valid = other <= highest
    else:
        other = lowest | (steps & ~segment)
        valid = other <= highest
    return np.where(valid, other, lane), valid


@operation("MATCH")
def match(ins: SassInstruction) -> Compute | None:
    """Which lanes have the same value (.ANY), or whether all do (.ALL)."""
    halves = pair(ins.operands[-1])
    read = raw(ins.operands[-1])
    everyone, is_wide = ins.has("ALL"), ins.has("U64")
    executing = _executing(ins)

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value = _joined(*halves(m)) if is_wide else read(m)
        mask, doubtful = executing(m)
        bits = np.broadcast_to(value.bits, mask.shape)
        same = (bits[:, :, None] == bits[:, None, :]) & mask[:, None, :] & mask[:, :, None]
        matching = (same.astype(np.uint64) << LANES.astype(np.uint64)).sum(axis=2, dtype=np.uint64).astype(np.uint32)
        sure = _simple(((np.asarray(value.known) | ~mask) & ~doubtful).all(axis=1, keepdims=True))
        tag = any_way(value.tag)
        if not everyone:
            return (Value(matching, sure, value.origin, tag),)
        equal = (same | ~mask[:, None, :] | ~mask[:, :, None]).all(axis=(1, 2))[:, None]
        ballot = np.where(equal, matching, np.uint32(0))
        return Value(equal, sure, value.origin, tag), Value(ballot, sure, value.origin, tag)

    return compute


def _joined(low: Value, high: Value) -> Value:
    return computed(wide(low.bits, high.bits), low, high)


@operation("REDUX", "CREDUX")
def redux(ins: SassInstruction) -> Compute | None:
    """The sum, minimum, maximum or bitwise reduction of all active lanes' values."""
    read = raw(ins.operands[-1])
    mode = next((word for word in ("SUM", "MIN", "MAX", "AND", "OR", "XOR") if ins.has(word)), "AND")
    is_signed = ins.has("S32")
    executing = _executing(ins)

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value = read(m)
        mask, doubtful = executing(m)
        bits = np.broadcast_to(value.bits, mask.shape)
        sure = _simple(((np.asarray(value.known) | ~mask) & ~doubtful).all(axis=1, keepdims=True))
        return (Value(reduced(bits, mask, mode, is_signed), sure, value.origin, any_way(value.tag)),)

    return compute


def reduced(bits: Bits, mask: Bits, mode: str, is_signed: bool) -> Bits:
    """Return (G, 1): the reduction over the lanes of the mask."""
    numbers = bits.view(np.int32).astype(np.int64) if is_signed else bits.astype(np.int64)
    empty = {"SUM": 0, "AND": -1, "OR": 0, "XOR": 0, "MIN": 1 << 40, "MAX": -(1 << 40)}[mode]
    function = {
        "SUM": np.add,
        "AND": np.bitwise_and,
        "OR": np.bitwise_or,
        "XOR": np.bitwise_xor,
        "MIN": np.minimum,
        "MAX": np.maximum,
    }[mode]
    result = function.reduce(np.where(mask, numbers, empty), axis=1, keepdims=True)
    return (result & 0xFFFFFFFF).astype(np.uint32)


@operation("ELECT")
def elect(ins: SassInstruction) -> Compute | None:
    """True in the first lane that executes it."""
    executing = _executing(ins)

    def compute(m: Machine) -> tuple[Value | None, ...]:
        mask, doubtful = executing(m)
        first = mask.argmax(axis=1)[:, None]
        sure = _simple(~doubtful.any(axis=1, keepdims=True))
        return Value(LANES[None] == first, sure, m.now), Value(first.astype(np.uint32), sure, m.now)

    return compute if ins.operands else None
