"""Special functions, special registers and constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ncu_swizzle.emulate.code import (
    CONSTANT,
    FLOAT,
    INTEGER,
    LOCAL_WINDOW,
    PARAMETER_WINDOW,
    SHARED_WINDOW,
    SassInstruction,
)
from ncu_swizzle.emulate.dependence import block_axis, same_at_multiples
from ncu_swizzle.emulate.machine import LANES, Machine, coordinates
from ncu_swizzle.emulate.operands import Compute, apply, constant_bank, operation, raw
from ncu_swizzle.emulate.operations.approximations import FUNCTIONS
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.operations.floats import calculation, real_operand, single
from ncu_swizzle.emulate.operations.rounding import (
    BRAIN,
    F32,
    F64,
    HALF,
    Format,
    pack_bits,
    round_to_format,
)
from ncu_swizzle.emulate.values import Bits, Value, computed, constant, sign_extended, truth, unknown

INFINITE = {HALF: 0x7C00, BRAIN: 0x7F80}


@operation("MUFU", "UMUFU")
def mufu(ins: SassInstruction) -> Compute | None:
    """What `approximations` has: of a float, of the upper half of a double; 2^x and tanh of a half."""
    function, operand = FUNCTIONS.get(ins.modifiers[0]), ins.operands[1]
    if ins.modifiers[0] in ("EX2", "TANH") and ins.modifiers[1:] in (("F16",), ("BF16",)):
        return _of_half(ins, HALF if ins.has("F16") else BRAIN)
    if function is None or len(ins.modifiers) > 1:
        return None
    if ins.has("RCP64H", "RSQ64H") and operand.kind == FLOAT:  # an immediate is the double whose upper half is meant
        real = np.float64(-operand.real if operand.negated else operand.real)
        operand = replace(operand, kind=INTEGER, number=int(real.view(np.uint64)) >> 32, negated=False)
    return calculation([single(operand)], lambda numbers: (function(numbers.view(np.uint32)),))


def _of_half(ins: SassInstruction, form: Format) -> Compute:
    """Return a function of a half or bfloat16: that of a float, cut off."""

    def halves(numbers: Bits) -> tuple[Bits]:
        exact = FUNCTIONS[ins.modifiers[0]](numbers.astype(F32).view(np.uint32)).view(F32)
        word = pack_bits(round_to_format(exact.astype(F64), form, "RZ"), form)
        return (np.where(exact >= 2.0 ** (form.most + 1), np.uint32(INFINITE[form]), word),)

    return calculation([real_operand(ins)], halves)


# ---------------------------------------------------------------------------------------------- special registers


Register = Callable[[Machine], Value]


def _by_axis(name: str, read: Callable[[Machine, int], Value]) -> dict[str, Register]:
    """Return the readers of a register that has three dimensions."""

    def reader(axis: int) -> Register:
        return lambda m: read(m, axis)

    return {f"{name}.{axis}": reader(number) for number, axis in enumerate("XYZ")}


def _thread(m: Machine, axis: int) -> Value:
    return constant(0) if m.block[axis] == 1 else Value(coordinates(m.thread, m.block)[axis].astype(np.uint32))


def _packed_thread(m: Machine) -> Value:
    x, y, z = (_thread(m, axis).bits for axis in range(3))
    return Value(x | y << np.uint32(16) | z << np.uint32(26))


def _block(m: Machine, axis: int) -> Value:
    if m.grid[axis] == 1:  # there, the index may be a ticket
        return constant(0)
    # Blocks that are executed represent no others.
    tag = None if m.device is not None else block_axis(axis)
    return Value(m.blocks[m.block_of, axis].astype(np.uint32)[:, None], tag=tag)


def _rank(m: Machine) -> Value:
    if m.cluster == (1, 1, 1):
        return constant(0)
    tag = None if m.device is not None else same_at_multiples(m.cluster)
    return Value(m.clusters.ranks[m.block_of].astype(np.uint32)[:, None], tag=tag)


def _of_lanes(bits: Bits) -> Register:
    value = Value((bits & 0xFFFFFFFF).astype(np.uint32)[None])
    return lambda m: value


SPECIAL_REGISTERS: dict[str, Register] = {
    **_by_axis("TID", _thread),
    **_by_axis("CTAID", _block),
    **_by_axis("NTID", lambda m, axis: constant(m.block[axis])),
    **_by_axis("NCTAID", lambda m, axis: constant(m.grid[axis])),
    "TID": _packed_thread,
    "LANEID": _of_lanes(LANES),
    "EQMASK": _of_lanes(1 << LANES),
    "LTMASK": _of_lanes((1 << LANES) - 1),
    "LEMASK": _of_lanes((2 << LANES) - 1),
    "GTMASK": _of_lanes(~((2 << LANES) - 1)),
    "GEMASK": _of_lanes(~((1 << LANES) - 1)),
    "SWINHI": lambda m: constant(SHARED_WINDOW),
    "LWINHI": lambda m: constant(LOCAL_WINDOW),
    **dict.fromkeys(("SWINLO", "LWINLO"), lambda m: constant(0)),
    **dict.fromkeys(("CgaCtaId", "CTARANK", "VIRTCTA"), _rank),
}


@operation("S2R", "S2UR")
def s2r(ins: SassInstruction) -> Compute | None:
    """A special register."""
    read = SPECIAL_REGISTERS.get(ins.operands[1].text.removeprefix("SR_"))
    if read is None:
        return None
    if ins.opcode == "S2UR":
        return lambda m: (first_lane(m.part(read(m)), m.view.mask),)
    return lambda m: (m.part(read(m)),)


# ---------------------------------------------------------------------------------------------- constants and windows


@operation("LDC", "ULDC", "LDCU")
def ldc(ins: SassInstruction) -> Compute | None:
    """A load from a constant bank."""
    source, count = ins.operands[1], 4 if ins.has("128") else 2 if ins.has("64") else 1
    if source.kind != CONSTANT or source.number < 0 or ins.has("IL", "IS", "ISL"):
        uniform = source.kind == CONSTANT and not any(term.kind == "R" for term in source.terms)
        return lambda m: [unknown(m.now, uniform=uniform)] * count
    size = 1 if ins.has("U8", "S8") else 2 if ins.has("U16", "S16") else 4
    if ins.has("S8", "S16"):
        return lambda m: [sign_extended(constant_bank(m, source, 0, size), 8 * size)]
    return lambda m: [constant_bank(m, source, 4 * k, size) for k in range(count)]


@operation("USETMAXREG")
def usetmaxreg(ins: SassInstruction) -> Compute | None:
    """Whether registers were granted: in the end they are."""
    return (lambda m: (truth(True),)) if ins.has("TRY_ALLOC") else None


@operation("B2R")
def b2r(ins: SassInstruction) -> Compute | None:
    """The result of BAR.RED: a number, and whether it is not 0."""
    if not ins.has("RESULT"):
        return None

    def compute(m: Machine) -> list[Value]:
        voted = m.part(unknown(m.now) if m.voted is None else m.voted)
        return [voted, Value(voted.bits != 0, voted.known, voted.origin, voted.tag)][: len(ins.operands)]

    return compute


@operation("QSPC")
def qspc(ins: SassInstruction) -> Compute | None:
    """Whether a generic address is in shared (.S, .D: the cluster's), local or global memory, by its upper half."""
    windows = [SHARED_WINDOW] * ins.has("S", "D", "G") + [LOCAL_WINDOW] * ins.has("L", "G")
    windows += [PARAMETER_WINDOW >> 32] * ins.has("G")
    terms = ins.operands[-1].terms
    if not windows or not terms:
        return None

    def inside(_: Machine, upper: Value) -> tuple[Value, Value]:
        bits = np.isin(upper.bits, np.array(windows, np.uint32)) != ins.has("G")
        return computed(bits, upper), computed(bits.astype(np.uint32), upper)

    return apply(inside, raw(terms[0], 1 if "64" in terms[0].suffixes else 0))
