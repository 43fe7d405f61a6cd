"""Special registers, constants, and data exchange between the lanes of a warp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ncu_swizzle.emulate.dependence import Tag, any_way, block_axis, multiple_of
from ncu_swizzle.emulate.machine import LANES, LOCAL_WINDOW, SHARED_WINDOW, Machine
from ncu_swizzle.emulate.operands import constant_bank, integer, predicate, raw
from ncu_swizzle.emulate.operands import guard as operands_guard
from ncu_swizzle.emulate.operations.registry import Compute, operation
from ncu_swizzle.emulate.parse import CONSTANT, PRED, UPRED, SassInstruction
from ncu_swizzle.emulate.values import Bits, Known, Value, computed, constant, derived, truth, unknown
from ncu_swizzle.smem.banks import Bools

AXES = {"X": 0, "Y": 1, "Z": 2}


@operation("S2R", "S2UR")
def s2r(ins: SassInstruction) -> Compute | None:
    """A special register."""
    name = ins.operands[1].text.removeprefix("SR_")
    read = _special(name)
    if read is None:
        return None
    if ins.opcode == "S2UR":
        return lambda m: (first_lane(m.part(read(m)), m.view.mask),)
    return lambda m: (m.part(read(m)),)


def _special(name: str) -> Callable[[Machine], Value] | None:
    base, _, axis = name.partition(".")
    if base == "TID" and axis in AXES:
        return lambda m: _thread(m, AXES[axis])
    if base == "CTAID" and axis in AXES:
        return lambda m: _block(m, AXES[axis])
    if base == "NTID" and axis in AXES:
        return lambda m: constant(m.block[AXES[axis]])
    if base == "NCTAID" and axis in AXES:
        return lambda m: constant(m.grid[AXES[axis]])
    simple: dict[str, Callable[[Machine], Value]] = {
        "TID": _packed_thread,
        "LANEID": lambda m: Value(LANES[None].astype(np.uint32)),
        "EQMASK": lambda m: _lane_mask(1 << LANES),
        "LTMASK": lambda m: _lane_mask((1 << LANES) - 1),
        "LEMASK": lambda m: _lane_mask((2 << LANES) - 1),
        "GTMASK": lambda m: _lane_mask(~((2 << LANES) - 1)),
        "GEMASK": lambda m: _lane_mask(~((1 << LANES) - 1)),
        "SWINHI": lambda m: constant(SHARED_WINDOW),
        "SWINLO": lambda m: constant(0),
        "LWINHI": lambda m: constant(LOCAL_WINDOW),
        "LWINLO": lambda m: constant(0),
        "CgaCtaId": _rank,
        "CTARANK": _rank,
        "VIRTCTA": _rank,
    }
    return simple.get(name)


def _thread(m: Machine, axis: int) -> Value:
    x, y, _ = m.block
    number = m.thread
    index = (number % x, number // x % y, number // (x * y))[axis]
    if m.block[axis] == 1:
        return constant(0)
    return Value(index.astype(np.uint32))


def _packed_thread(m: Machine) -> Value:
    x, y, z = (_thread(m, axis).bits for axis in range(3))
    return Value(x | y << np.uint32(16) | z << np.uint32(26))


def _block(m: Machine, axis: int) -> Value:
    bits = m.blocks[m.block_of, axis].astype(np.uint32)[:, None]
    return Value(bits, tag=block_axis(axis) if m.grid[axis] > 1 else None)


def _rank(m: Machine) -> Value:
    if m.cluster == (1, 1, 1):
        return constant(0)
    tag = multiple_of(m.cluster)
    return Value(m.clusters.ranks[m.block_of].astype(np.uint32)[:, None], tag=tag)


def _lane_mask(bits: Bits) -> Value:
    return Value((bits & 0xFFFFFFFF).astype(np.uint32)[None])


# ---------------------------------------------------------------------------------------------- constants


@operation("LDC", "ULDC", "LDCU")
def ldc(ins: SassInstruction) -> Compute | None:
    """A load from a constant bank."""
    source = ins.operands[1]
    if source.kind != CONSTANT or source.number < 0 or ins.has("IL", "IS", "ISL"):
        uniform = source.kind == CONSTANT and not any(term.kind == "R" for term in source.terms)
        count = 2 if ins.has("64") else 1
        return lambda m: tuple(unknown(m.now, uniform=uniform) for _ in range(count))
    size = 1 if ins.has("U8", "S8") else 2 if ins.has("U16", "S16") else 4
    count = 4 if ins.has("128") else 2 if ins.has("64") else 1

    def compute(m: Machine) -> tuple[Value | None, ...]:
        words = [constant_bank(m, source, 4 * k, size) for k in range(count)]
        if ins.has("S8", "S16"):
            words = [_extended(words[0], 8 * size)]
        return tuple(words)

    return compute


def _extended(value: Value, bits: int) -> Value:
    shift = np.int32(32 - bits)
    extended = (value.bits.view(np.int32) << shift >> shift).view(np.uint32)
    return Value(extended, value.known, value.origin, value.tag)


# ---------------------------------------------------------------------------------------------- from lane to lane


@operation("R2UR")
def r2ur(ins: SassInstruction) -> Compute | None:
    """The value of the first lane that executes it, into a uniform register.

    A predicate before it tells which lanes have another value, so that a loop can serve one value at a time; with .OR,
    lanes for which it was true stay true.
    """
    read, guard = integer(ins.operands[-1]), operands_guard(ins.guard)
    tells = ins.operands[0].kind == PRED
    before = predicate(ins.operands[0]) if tells and ins.has("OR") else None

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value = read(m)
        mask, doubtful = m.selection(guard(m) if guard else None)
        one = first_lane(value, mask | doubtful)
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


def _ballot(m: Machine, value: Value) -> tuple[Bits, Bits, Bits, Bits]:
    """Return the lanes that vote yes, the lanes that vote no, those that are unknown, and all."""
    mask = m.view.mask
    known = np.broadcast_to(np.asarray(value.known), mask.shape)
    yes = mask & known & value.bits
    no = mask & known & ~value.bits
    return yes, no, mask & ~known, mask


@operation("VOTE", "VOTEU")
def vote(ins: SassInstruction) -> Compute | None:
    """Which active lanes vote yes, and whether all do, any does, or all agree."""
    source = predicate(ins.operands[-1])
    kinds = [operand.kind for operand in ins.operands]
    to_register = kinds[0] not in (PRED, UPRED)
    to_predicate = not to_register or (len(kinds) > 2 and kinds[1] in (PRED, UPRED))
    mode = next((word for word in ins.modifiers if word in ("ALL", "ANY", "EQ")), "ALL")

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value = source(m)
        yes, no, maybe, _ = _ballot(m, value)
        tag = any_way(value.tag)
        results: list[Value | None] = []
        if to_register:
            bits = (yes.astype(np.uint64) << LANES.astype(np.uint64)).sum(axis=1, dtype=np.uint64).astype(np.uint32)
            sure = ~maybe.any(axis=1, keepdims=True)
            results.append(Value(bits[:, None], _simple(sure), value.origin, tag))
        if to_predicate:
            results.append(_verdict(mode, yes, no, maybe, value, tag))
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
    if mode is None:
        return None

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value, by, clamp = a(m), b(m), c(m)
        lane, valid = _partner(mode, by.bits, clamp.bits)
        shape = np.broadcast_shapes(m.view.mask.shape, lane.shape)
        lane, valid = np.broadcast_to(lane, shape), np.broadcast_to(valid, shape)
        bits = np.take_along_axis(np.broadcast_to(value.bits, shape), lane, axis=1)
        there = np.take_along_axis(np.broadcast_to(m.view.mask, shape), lane, axis=1)
        known = np.take_along_axis(np.broadcast_to(np.asarray(value.known), shape), lane, axis=1) & there
        rule = derived(bits, by, clamp)
        sure = known & np.asarray(rule.known)
        origin = value.origin if value.known is not True else rule.origin
        tag = value.tag if by.tag is None and clamp.tag is None and value.tag and value.tag.uniform else None
        tag = tag or any_way(value.tag, by.tag, clamp.tag)
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
    read = raw(ins.operands[-1])
    if ins.has("U64", "64"):
        return None
    everyone = ins.has("ALL")

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value = read(m)
        mask = m.view.mask
        bits = np.broadcast_to(value.bits, mask.shape)
        same = (bits[:, :, None] == bits[:, None, :]) & mask[:, None, :] & mask[:, :, None]
        matching = (same.astype(np.uint64) << LANES.astype(np.uint64)).sum(axis=2, dtype=np.uint64).astype(np.uint32)
        sure = _simple((np.asarray(value.known) | ~mask).all(axis=1, keepdims=True))
        tag = any_way(value.tag)
        if not everyone:
            return (Value(matching, sure, value.origin, tag),)
        equal = (same | ~mask[:, None, :] | ~mask[:, :, None]).all(axis=(1, 2))[:, None]
        ballot = np.where(equal, matching, np.uint32(0))
        return Value(equal, sure, value.origin, tag), Value(ballot, sure, value.origin, tag)

    return compute


@operation("REDUX", "CREDUX")
def redux(ins: SassInstruction) -> Compute | None:
    """The sum, minimum, maximum or bitwise reduction of all active lanes' values."""
    read = raw(ins.operands[-1])
    mode = next((word for word in ("SUM", "MIN", "MAX", "AND", "OR", "XOR") if ins.has(word)), "AND")
    is_signed = ins.has("S32")

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value = read(m)
        mask = m.view.mask
        bits = np.broadcast_to(value.bits, mask.shape)
        sure = _simple((np.asarray(value.known) | ~mask).all(axis=1, keepdims=True))
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
    guard = operands_guard(ins.guard)

    def compute(m: Machine) -> tuple[Value | None, ...]:
        mask, doubtful = m.selection(guard(m) if guard else None)
        first = mask.argmax(axis=1)[:, None]
        sure = _simple(~doubtful.any(axis=1, keepdims=True))
        return Value(LANES[None] == first, sure, m.now), Value(first.astype(np.uint32), sure, m.now)

    return compute if ins.operands else None


@operation("USETMAXREG")
def usetmaxreg(ins: SassInstruction) -> Compute | None:
    """Whether registers were granted: in the end they are."""
    return (lambda m: (truth(True),)) if ins.has("TRY_ALLOC") else None


@operation("B2R")
def b2r(ins: SassInstruction) -> Compute | None:
    """The result of BAR.RED: a number and a predicate."""
    if not ins.has("RESULT"):
        return None
    predicate_only = len(ins.operands) > 1

    def compute(m: Machine) -> tuple[Value | None, ...]:
        voted = m.voted
        if voted is None:
            voted = unknown(m.now)
        voted = m.part(voted)
        as_truth = Value(voted.bits != 0, voted.known, voted.origin, voted.tag)
        return (voted, as_truth) if predicate_only else (voted,)

    return compute


@operation("QSPC")
def qspc(ins: SassInstruction) -> Compute | None:
    """Whether a generic address is in shared (.S), local (.L) or global (.G) memory, by its upper half."""
    window = SHARED_WINDOW if ins.has("S") else LOCAL_WINDOW if ins.has("L") else None
    memory = ins.operands[-1]
    if window is None or not memory.terms:
        return None
    high = raw(memory.terms[0], 1 if "64" in memory.terms[0].suffixes else 0)

    def compute(m: Machine) -> tuple[Value | None, ...]:
        upper = high(m)
        inside = computed(upper.bits == window, upper)
        return inside, computed(inside.bits.astype(np.uint32), upper)

    return compute
