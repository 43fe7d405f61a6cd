"""Special registers and constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ncu_swizzle.emulate.dependence import block_axis, multiple_of
from ncu_swizzle.emulate.machine import LANES, LOCAL_WINDOW, SHARED_WINDOW, Machine
from ncu_swizzle.emulate.operands import constant_bank, raw
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.operations.registry import Compute, operation
from ncu_swizzle.emulate.parse import CONSTANT, SassInstruction
from ncu_swizzle.emulate.values import Bits, Value, computed, constant, truth, unknown

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
    if m.grid[axis] == 1:  # there, the index may be a ticket
        return constant(0)
    bits = m.blocks[m.block_of, axis].astype(np.uint32)[:, None]
    return Value(bits, tag=block_axis(axis))


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
