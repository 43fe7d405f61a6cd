"""Special functions, special registers and constants."""

from __future__ import annotations

import functools
import lzma
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ncu_swizzle.emulate.addresses import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from ncu_swizzle.emulate.code import CONSTANT, FLOAT, INTEGER, SassInstruction
from ncu_swizzle.emulate.dependence import block_axis, same_at_multiples
from ncu_swizzle.emulate.machine import LANES, Machine, coordinates
from ncu_swizzle.emulate.operands import Compute, apply, constant_bank, operation, raw
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.operations.floats import calculation, single
from ncu_swizzle.emulate.operations.rounding import F32, F64
from ncu_swizzle.emulate.values import Bits, Value, computed, constant, sign_extended, truth, unknown

# MUFU: the functions that the hardware approximates, bit by bit as an H100 computes them.
#
# `bench/recording/mufu/measure.cu` ran each instruction over all mantissas and checked, over all 2^32 operands, how the
# results for the other exponents follow from these. A table holds each result's distance to the correctly rounded one.


TABLES = Path(__file__).parent.parent / "approximations"
NAN = np.uint32(0x7FFFFFFF)


@dataclass(frozen=True)
class FloatFields:
    """Where the fields of a word are: a float, or the upper half of a double."""

    mantissa: int  # bits
    bias: int

    def exponent(self, bits: Bits) -> Bits:
        """Return the biased exponents, as int64."""
        return (bits >> np.uint32(self.mantissa)).astype(np.int64) & (2 * self.bias + 1)

    def fraction(self, bits: Bits) -> Bits:
        """Return the bits of the mantissas."""
        return bits & np.uint32((1 << self.mantissa) - 1)

    def real(self, bits: Bits) -> Bits:
        """Return the words' numbers as float64."""
        if self is SINGLE:
            return bits.view(F32).astype(F64)
        return (bits.astype(np.uint64) << np.uint64(32)).view(F64)

    def nearest(self, numbers: Bits) -> Bits:
        """Return the words nearest to float64 numbers, as int64."""
        if self is SINGLE:
            return numbers.astype(F32).view(np.uint32).astype(np.int64)
        return ((numbers.view(np.uint64) + np.uint64(1 << 31)) >> np.uint64(32)).astype(np.int64)


SINGLE = FloatFields(23, 127)
UPPER = FloatFields(20, 1023)


@functools.cache
def _table(name: str) -> Bits:
    """Return how far each result is from the nearest word: for the mantissas of 1, then of 2 if both are there."""
    return np.frombuffer(lzma.decompress((TABLES / f"{name}.xz").read_bytes()), np.int8)


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function whose results for all exponents are, but for a power of two, those for the first one or two."""

    name: str
    layout: FloatFields
    exact: Callable[[Bits], Bits]
    at_zero: int  # the result's bits without a sign, which is the operand's
    at_infinity: int
    root: bool = False  # whether the parity of the exponent matters, and negative numbers have no result
    power: int = -1  # of two that the result is multiplied by if the operand, or its root, is doubled

    def __call__(self, bits: Bits) -> Bits:
        """Return the results' words."""
        layout = self.layout
        exponent, fraction = layout.exponent(bits), layout.fraction(bits)
        distance = exponent - layout.bias
        odd = distance & 1 if self.root else np.zeros((1, 1), np.int64)
        base = (layout.bias + odd).astype(np.uint32) << np.uint32(layout.mantissa) | fraction
        off = _table(self.name)[(odd << layout.mantissa) + fraction]
        result = layout.nearest(self.exact(layout.real(base))) + off
        steps = self.power * (distance - odd) // (2 if self.root else 1)
        tiny = (result >> layout.mantissa) + steps <= 0  # never without an exponent: these are zero
        result = np.where(tiny, 0, result + (steps << layout.mantissa))
        result = np.where(exponent == 0, self.at_zero, np.where(distance > layout.bias, self.at_infinity, result))
        negative = bits >> np.uint32(31) != 0
        invalid = (distance > layout.bias) & (fraction != 0) | (negative & (exponent > 0) & self.root)
        signed = result.astype(np.uint32) | (bits & np.uint32(1 << 31))
        return np.where(invalid, NAN, signed)


@functools.cache
def _powers(most: int, least: int) -> Bits:
    """Return 2^(i / 2^least) as float64 for all i of the bits 2^-most to 2^-least, by square roots of integers."""
    one = 1 << 160
    root, powers = 2 * one, [one]
    roots = [root := math.isqrt(root * one) for _ in range(least)]  # 2^(1/2), 2^(1/4), …
    for root in reversed(roots[most - 1 :]):
        powers += [power * root // one for power in powers]
    return np.array([power / one for power in powers])


def _two_to(bits: Bits) -> Bits:
    """Return the words of 2^x: x in steps of 2^-23, towards 0; if negative and no integer, the steps' bits inverted."""
    exponent, negative = SINGLE.exponent(bits), bits >> np.uint32(31) != 0
    mantissa = (SINGLE.fraction(bits) | np.uint32(1 << 23)).astype(np.int64)
    shift = exponent - 127
    steps = np.where(shift < 0, mantissa >> np.clip(-shift, 0, 24), mantissa << np.clip(shift, 0, 7))
    integral = steps & (1 << 23) - 1 == 0
    power = np.where(negative, np.where(integral, -steps, ~steps), steps)
    fraction = power & (1 << 23) - 1
    # Within 2 units in the last place of float64; no 2^x of a float is nearer than 29 to the middle of two floats.
    exact = 2 * _powers(1, 12)[fraction >> 11] * _powers(13, 23)[fraction & (1 << 11) - 1]
    base = SINGLE.nearest(exact) + _table("ex2")[fraction]
    result = base + ((power >> 23) - 1 << 23)
    result = np.where(power >> 23 < -126, 0, result)
    result = np.where(shift >= 7, np.where(negative, 0, 0x7F800000), result)
    return np.where((exponent == 255) & (SINGLE.fraction(bits) != 0), NAN, result.astype(np.uint32))


FUNCTIONS: dict[str, Callable[[Bits], Bits]] = {
    "RCP": Function(name="rcp", layout=SINGLE, exact=np.reciprocal, at_zero=0x7F800000, at_infinity=0),
    "RSQ": Function(
        name="rsq", layout=SINGLE, exact=lambda x: 1 / np.sqrt(x), at_zero=0x7F800000, at_infinity=0, root=True
    ),
    "SQRT": Function(name="sqrt", layout=SINGLE, exact=np.sqrt, at_zero=0, at_infinity=0x7F800000, root=True, power=1),
    "RCP64H": Function(name="rcp64h", layout=UPPER, exact=np.reciprocal, at_zero=0x7FF00000, at_infinity=0),
    "RSQ64H": Function(
        name="rsq64h", layout=UPPER, exact=lambda x: 1 / np.sqrt(x), at_zero=0x7FF00000, at_infinity=0, root=True
    ),
    "EX2": _two_to,
}


@operation("MUFU", "UMUFU")
def mufu(ins: SassInstruction) -> Compute | None:
    """1/x, 1/sqrt(x), sqrt(x) and 2^x, and the first two of a double's upper half."""
    function = FUNCTIONS.get(ins.modifiers[0])
    if function is None or len(ins.modifiers) > 1:
        return None
    operand = ins.operands[1]
    if ins.has("RCP64H", "RSQ64H") and operand.kind == FLOAT:  # an immediate is the double whose upper half is meant
        real = np.float64(-operand.real if operand.negated else operand.real)
        operand = replace(operand, kind=INTEGER, number=int(real.view(np.uint64)) >> 32, negated=False)
    return calculation([single(operand)], lambda numbers: (function(numbers.view(np.uint32)),))


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
