"""Data exchange between the lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ncu_swizzle.emulate.code import PRED, SassInstruction
from ncu_swizzle.emulate.dependence import arbitrary_tag
from ncu_swizzle.emulate.effects import operand_number
from ncu_swizzle.emulate.machine import LANES, Machine
from ncu_swizzle.emulate.operands import (
    PREDICATES,
    Compute,
    apply,
    guard_operands,
    integer,
    operation,
    pair,
    predicate,
    raw,
)
from ncu_swizzle.emulate.values import Bits, Known, Value, computed, derived, join_halves
from ncu_swizzle.smem.operations import Bools


def _executing(ins: SassInstruction) -> Callable[[Machine], tuple[Bools, Bools]]:
    """Return a reader of the lanes that take part in an exchange, and those for which that is unknown."""
    guard = guard_operands(ins.guard)
    return lambda m: m.selection(guard(m) if guard else None)


def _known(lanes: Any) -> Known:
    """Return True if a value is known in all lanes, else in which, (warps, 1 or 32)."""
    return True if np.all(lanes) else np.asarray(lanes)


def _bit_set(lanes: Bools) -> Bits:
    """Return the lanes of the last axis as the bits of a number, one dimension less."""
    bits: Bits = (lanes.astype(np.uint64) << LANES.astype(np.uint64)).sum(axis=-1, dtype=np.uint64).astype(np.uint32)
    return bits


@operation("R2UR")
def r2ur(ins: SassInstruction) -> Compute | None:
    """The value of the first lane that executes it, into a uniform register.

    A predicate before it tells which lanes have another value, so that a loop can serve one value at a time; with .OR,
    lanes for which it was true stay true.
    """
    executing, source = _executing(ins), operand_number(ins.operands[-1])
    tells = ins.operands[0].kind == PRED

    def compute(m: Machine, value: Value, *before: Value) -> Sequence[Value]:
        mask, doubtful = executing(m)
        one = first_lane(value, mask | doubtful)
        if source is not None and not doubtful.any():
            first = mask.argmax(axis=1)[:, None] == LANES
            one = Value(one.bits, one.known, one.origin, m.tag_in(source, first & mask, value))
        if doubtful.any() and value.bits.shape[1] > 1:
            sure = _known(~doubtful.any(axis=1, keepdims=True) & np.asarray(one.known))
            one = Value(one.bits, sure, m.now if value.certain else value.origin, value.tag)
        if not tells:
            return (one,)
        differs = computed(value.bits != one.bits, value, one)
        for others in before:
            differs = computed(differs.bits | others.bits, differs, others)
        return differs, one

    before = [predicate(ins.operands[0])] if tells and ins.has("OR") else []
    return apply(compute, integer(ins.operands[-1]), *before)


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
    kinds = [operand.kind for operand in ins.operands]
    to_register = kinds[0] not in PREDICATES
    to_predicate = not to_register or (len(kinds) > 2 and kinds[1] in PREDICATES)
    mode = next((word for word in ins.modifiers if word in ("ALL", "ANY", "EQ")), "ALL")
    executing = _executing(ins)

    def compute(m: Machine, value: Value) -> Sequence[Value]:
        mask, doubtful = executing(m)
        known = np.broadcast_to(np.asarray(value.known), mask.shape)
        yes, no, maybe = mask & known & value.bits, mask & known & ~value.bits, (mask & ~known) | doubtful
        some_yes, some_no, unsure = (np.asarray(lanes.any(axis=1, keepdims=True)) for lanes in (yes, no, maybe))
        # A verdict is known if lanes with an unknown vote cannot change it.
        verdict, sure = {
            "ANY": (some_yes, some_yes | ~unsure),
            "ALL": (~some_no & ~unsure, some_no | ~unsure),
            "EQ": (~(some_yes & some_no), (some_yes & some_no) | ~unsure),
        }[mode]
        tag = arbitrary_tag(value.tag)
        ballot = [Value(_bit_set(yes)[:, None], _known(~unsure), value.origin, tag)] if to_register else []
        return ballot + ([Value(verdict, _known(sure), value.origin, tag)] if to_predicate else [])

    return apply(compute, predicate(ins.operands[-1]))


@operation("SHFL")
def shfl(ins: SassInstruction) -> Compute | None:
    """The value of another lane: by index (.IDX), below (.UP), above (.DOWN), or by XOR (.BFLY)."""
    mode = next((word for word in ins.modifiers if word in ("IDX", "UP", "DOWN", "BFLY")), None)
    if mode is None:
        return None
    executing, source = _executing(ins), operand_number(ins.operands[2])

    def compute(m: Machine, value: Value, by: Value, clamp: Value) -> Sequence[Value]:
        lane, valid = _partner(mode, by.bits, clamp.bits)
        mask, _ = executing(m)
        shape = np.broadcast_shapes(mask.shape, lane.shape)
        lane, valid = np.broadcast_to(lane, shape), np.broadcast_to(valid, shape)
        bits = np.take_along_axis(np.broadcast_to(value.bits, shape), lane, axis=1)
        there = np.broadcast_to(mask & np.asarray(value.known), shape)  # lanes that take part, and know their value
        rule = derived(valid, by, clamp, tag=arbitrary_tag(by.tag, clamp.tag))
        sure = _known(np.take_along_axis(there, lane, axis=1) & np.asarray(rule.known))
        origin = value.origin if value.known is not True else rule.origin
        tag = value.tag
        if by.tag is None and clamp.tag is None and source is not None:
            reading = np.zeros(shape, bool)
            rows, lanes = np.nonzero(np.broadcast_to(mask, shape))
            reading[rows, lane[rows, lanes]] = True
            tag = m.tag_in(source, reading, value)
        if by.tag is not None or clamp.tag is not None or (tag is not None and not tag.uniform):
            tag = arbitrary_tag(tag, by.tag, clamp.tag)
        return rule, Value(bits, sure, m.now if origin is None else origin, tag)

    return apply(compute, *map(integer, ins.operands[2:5]))


def _partner(mode: str, by: Bits, clamp: Bits) -> tuple[Bits, Bits]:
    """Return the lane that each lane reads, and whether it is within its segment (PTX ISA, "shfl.sync")."""
    lane = LANES[None].astype(np.int64)
    steps = by.astype(np.int64) & 31
    limit, segment = clamp.astype(np.int64) & 31, clamp.astype(np.int64) >> 8 & 31
    highest = (lane & segment) | (limit & ~segment)
    other = {
        "UP": lane - steps,
        "DOWN": lane + steps,
        "BFLY": lane ^ steps,
        "IDX": (lane & segment) | (steps & ~segment),
    }[mode]
    valid = other >= highest if mode == "UP" else other <= highest
    return np.where(valid, other, lane), valid


@operation("MATCH")
def match(ins: SassInstruction) -> Compute | None:
    """Which lanes have the same value (.ANY), or whether all do (.ALL)."""
    halves, read = pair(ins.operands[-1]), raw(ins.operands[-1])
    everyone, is_wide = ins.has("ALL"), ins.has("U64")
    executing = _executing(ins)

    def compute(m: Machine) -> Sequence[Value]:
        value = read(m)
        if is_wide:
            low, high = halves(m)
            value = computed(join_halves(low.bits, high.bits), low, high)
        mask, doubtful = executing(m)
        bits = np.broadcast_to(value.bits, mask.shape)
        both = mask[:, None, :] & mask[:, :, None]  # (warps, lanes, lanes)
        same = (bits[:, :, None] == bits[:, None, :]) & both
        matching = _bit_set(same)
        sure = _known(((np.asarray(value.known) | ~mask) & ~doubtful).all(axis=1, keepdims=True))
        tag = arbitrary_tag(value.tag)
        if not everyone:
            return (Value(matching, sure, value.origin, tag),)
        equal = (same | ~both).all(axis=(1, 2))[:, None]
        ballot = np.where(equal, matching, np.uint32(0))
        return Value(equal, sure, value.origin, tag), Value(ballot, sure, value.origin, tag)

    return compute


@operation("MOVM")
def movm(ins: SassInstruction) -> Compute | None:
    """The transpose of 8 x 8 halves, of which each lane holds two neighbours in a row."""
    if not ins.has("MT88") or not ins.has("16") or ins.guard is not None:
        return None
    row, column = LANES // 4, 2 * (LANES % 4)
    # Element (i, j) is in lane 4 * i + j // 2; a lane gets (column, row) and (column + 1, row).
    sources, upper = [4 * (column + k) + row // 2 for k in (0, 1)], row % 2 == 1

    def compute(value: Value) -> Sequence[Value]:
        bits = np.broadcast_to(value.bits, (value.bits.shape[0], 32))
        known = np.broadcast_to(np.asarray(value.known), bits.shape)
        low, high = (
            np.where(upper, bits[:, lane] >> np.uint32(16), bits[:, lane] & np.uint32(0xFFFF)) for lane in sources
        )
        sure = _known(known[:, sources[0]] & known[:, sources[1]])
        return (Value(low | high << np.uint32(16), sure, value.origin, arbitrary_tag(value.tag)),)

    read = raw(ins.operands[1])
    return lambda m: compute(read(m))


REDUCTIONS: dict[str, tuple[np.ufunc, int]] = {  # and the identity, which inactive lanes contribute
    "SUM": (np.add, 0),
    "MIN": (np.minimum, 1 << 40),
    "MAX": (np.maximum, -(1 << 40)),
    "AND": (np.bitwise_and, -1),
    "OR": (np.bitwise_or, 0),
    "XOR": (np.bitwise_xor, 0),
}


@operation("REDUX", "CREDUX")
def redux(ins: SassInstruction) -> Compute | None:
    """The sum, minimum, maximum or bitwise reduction of all active lanes' values."""
    function, empty = REDUCTIONS[next((word for word in REDUCTIONS if ins.has(word)), "AND")]
    like = np.int32 if ins.has("S32") else np.uint32
    executing = _executing(ins)

    def compute(m: Machine, value: Value) -> Sequence[Value]:
        mask, doubtful = executing(m)
        numbers = np.broadcast_to(value.bits, mask.shape).view(like).astype(np.int64)
        result = function.reduce(np.where(mask, numbers, empty), axis=1, keepdims=True)
        sure = _known(((np.asarray(value.known) | ~mask) & ~doubtful).all(axis=1, keepdims=True))
        return (Value((result & 0xFFFFFFFF).astype(np.uint32), sure, value.origin, arbitrary_tag(value.tag)),)

    return apply(compute, raw(ins.operands[-1]))


@operation("ELECT")
def elect(ins: SassInstruction) -> Compute | None:
    """True in the first lane that executes it."""
    executing = _executing(ins)

    def compute(m: Machine) -> Sequence[Value]:
        mask, doubtful = executing(m)
        first = mask.argmax(axis=1)[:, None]
        sure = _known(~doubtful.any(axis=1, keepdims=True))
        return Value(LANES[None] == first, sure, m.now), Value(first.astype(np.uint32), sure, m.now)

    return compute if ins.operands else None
