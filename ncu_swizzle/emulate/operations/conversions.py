"""Conversions between integers and floating-point formats, and rounding to integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ncu_swizzle.emulate.code import Operand, SassInstruction
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Compute, operation, raw
from ncu_swizzle.emulate.operations.doubles import QUIET, words
from ncu_swizzle.emulate.operations.reals import LOWER, UPPER, Reals, calculation, double, single, widened
from ncu_swizzle.emulate.operations.rounding import (
    BRAIN,
    F64,
    HALF,
    ROUNDINGS,
    SINGLE,
    STEPS,
    Format,
    directed,
    flushed,
    packed,
    rounded,
    saturated,
)
from ncu_swizzle.emulate.values import Bits, Value, narrowed, wide

FORMATS = {"F16": HALF, "BF16": BRAIN, "F32": SINGLE}
INTEGERS = {f"{sign}{size}": (sign == "S", size) for sign in "SU" for size in (8, 16, 32, 64)}
TO_INTEGER = {"TRUNC": "RZ", "FLOOR": "RM", "CEIL": "RP"}


def _modifiers(ins: SassInstruction, *known: str) -> bool:
    return {*known, *ROUNDINGS, *TO_INTEGER, "FTZ"}.issuperset(ins.modifiers)


def _formats(ins: SassInstruction) -> list[str]:
    """Return the names of the floating-point formats: the result's before the operand's."""
    return [word for word in ins.modifiers if word in FORMATS or word == "F64"]


def _integer_type(ins: SassInstruction) -> tuple[bool, int]:
    """Return whether the integer is signed, and its bits."""
    return next((INTEGERS[word] for word in ins.modifiers if word in INTEGERS), (True, 32))


# ---------------------------------------------------------------------------------------------- from integers


@operation("I2F", "I2FP", "UI2F", "UI2FP")
def i2f(ins: SassInstruction) -> Compute | None:
    """An integer as a float: rounded to nearest, up (.RP), down (.RM) or towards 0 (.RZ)."""
    if not _modifiers(ins, *INTEGERS, *FORMATS, "F64") or ins.operands[1].suffixes:
        return None
    mode = next((word for word in ins.modifiers if word in ROUNDINGS), "RN")
    name = (_formats(ins) or ["F32"])[0]

    def result(magnitude: Bits, minus: Bits) -> tuple[Bits, ...]:
        if name == "F64":
            return words(_as_double(magnitude, minus, mode))
        odd = _odd(magnitude).astype(F64)
        return (packed(rounded(np.where(minus, -odd, odd), FORMATS[name], mode), FORMATS[name]),)

    return calculation_of_integer(ins.operands[1], *_integer_type(ins), result, registers=2 if name == "F64" else 1)


def calculation_of_integer(
    operand: Operand, is_signed: bool, size: int, function: Callable[..., tuple[Bits, ...]], registers: int
) -> Compute:
    """Return a calculation with an integer's magnitude, uint64, and whether it is negative."""
    low, high = raw(operand), raw(operand, 1)

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        values = (low(m), high(m)) if size == 64 else (narrowed(low(m), (1 << size) - 1),)
        shift = np.uint64(64 - size)
        whole = wide(values[0].bits, values[-1].bits) << shift
        number = (whole.view(np.int64) >> shift.astype(np.int64)).view(np.uint64) if is_signed else whole >> shift
        return np.uint64(0) - number if operand.negated else number, values

    def result(number: Bits) -> tuple[Bits, ...]:
        minus = number.view(np.int64) < 0 if is_signed else np.zeros(number.shape, bool)
        return function(np.where(minus, np.uint64(0) - number, number), minus)

    return calculation([reals], result, registers)


def _odd(magnitude: Bits) -> Bits:
    """Return numbers with at most 53 bits that round alike to 24 bits or fewer: the last one keeps what is lost."""
    lost = (magnitude & np.uint64(0x7FF)) != 0
    cut = (magnitude & ~np.uint64(0x7FF)) | np.where(lost, np.uint64(0x800), np.uint64(0))
    return np.where(magnitude >> np.uint64(53) != 0, cut, magnitude)


def _as_double(magnitude: Bits, minus: Bits, mode: str) -> Bits:
    nearest = magnitude.astype(F64)
    top = nearest >= 2.0**64
    back = np.where(top, 0.0, nearest).astype(np.uint64)
    smaller, larger = top | (back > magnitude), ~top & (back < magnitude)  # the exact magnitude, by the nearest
    above, below = np.where(minus, smaller, larger), np.where(minus, larger, smaller)
    return directed(np.where(minus, -nearest, nearest), above, below, mode)


# ---------------------------------------------------------------------------------------------- to integers


@operation("F2I", "UF2I")
def f2i(ins: SassInstruction) -> Compute | None:
    """A float as an integer: to nearest, towards 0 (.TRUNC), down (.FLOOR) or up (.CEIL); saturated out of range."""
    if not _modifiers(ins, *INTEGERS, "F16", "F32", "F64", "NTZ"):
        return None
    is_signed, size = _integer_type(ins)
    step = STEPS[next((TO_INTEGER[word] for word in ins.modifiers if word in TO_INTEGER), "RN")]
    # NaN: 0 with .NTZ, else the smallest signed number.
    nan = np.uint64(0 if ins.has("NTZ") else 1 << max(size, 32) - 1)

    def result(numbers: Bits) -> tuple[Bits, ...]:
        whole = np.where(np.isnan(numbers), nan, _whole(step(numbers.astype(F64)), is_signed, size))
        halves = (whole.astype(np.uint32), (whole >> np.uint64(32)).astype(np.uint32))
        return halves if size == 64 else halves[:1]

    return calculation([_real(ins)], result, registers=2 if size == 64 else 1)


def _whole(numbers: Bits, is_signed: bool, size: int) -> Bits:
    least, most = (-(2.0 ** (size - 1)), 2.0 ** (size - 1)) if is_signed else (0.0, 2.0**size)
    kept = np.where((numbers >= least) & (numbers < most), numbers, 0.0)
    whole = kept.astype(np.int64).view(np.uint64) if is_signed else kept.astype(np.uint64)
    end, start = np.uint64(int(most) - 1), np.uint64(int(least) % (1 << 64))
    return np.where(numbers >= most, end, np.where(numbers < least, start, whole))


def _real(ins: SassInstruction) -> Reals:
    """Return a reader of the operand, in the last format named; a 16-bit one in the lower half, or where it says."""
    name = (_formats(ins) or ["F32"])[-1]
    operand = ins.operands[1]
    if name == "F64":
        return double(operand)
    if name == "F32":
        read = single(operand)
        return read if not ins.has("FTZ") else _flushing(read)
    form, bits, upper = FORMATS[name], raw(operand), "H1" in "".join(operand.suffixes)

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        value = narrowed(bits(m), int(LOWER) << 16 if upper else int(LOWER))
        numbers = widened(value.bits >> UPPER if upper else value.bits & LOWER, form)
        numbers = np.abs(numbers) if operand.absolute else numbers
        return -numbers if operand.negated else numbers, (value,)

    return reals


def _flushing(read: Reals) -> Reals:
    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        numbers, sources = read(m)
        return flushed(numbers), sources

    return reals


# ---------------------------------------------------------------------------------------------- between formats


@operation("F2F", "UF2F")
def f2f(ins: SassInstruction) -> Compute | None:
    """A number in another format."""
    names = _formats(ins)
    if not _modifiers(ins, *FORMATS, "F64", "SAT") or len(names) != 2:
        return None
    return _converted(ins, names[0])


@operation("FRND", "UFRND")
def frnd(ins: SassInstruction) -> Compute | None:
    """A number rounded to an integer."""
    names = _formats(ins)
    if not _modifiers(ins, "F16", "F32", "F64") or len(set(names)) > 1:
        return None
    step = STEPS[next((TO_INTEGER[word] for word in ins.modifiers if word in TO_INTEGER), "RN")]
    return _converted(ins, (names or ["F32"])[0], step)


def _converted(ins: SassInstruction, name: str, step: Callable[[Bits], Bits] = np.positive) -> Compute:
    mode = next((word for word in ins.modifiers if word in ROUNDINGS), "RN")
    keeps_nan = "F64" in _formats(ins)

    def result(numbers: Bits) -> tuple[Bits, ...]:
        exact = step(numbers.astype(F64))
        exact = saturated(exact) if ins.has("SAT") else exact
        if name == "F64":
            return words(exact, exact)
        form = FORMATS[name]
        total = rounded(exact, form, mode)
        word = packed(flushed(total) if ins.has("FTZ") and name == "F32" else total, form)
        return (np.where(np.isnan(exact), _shortened(exact, form), word) if keeps_nan else word,)

    return calculation([_real(ins)], result, registers=2 if name == "F64" else 1)


def _shortened(nan: Bits, form: Format) -> Bits:
    """Return NaN, float64, with as much of its payload as the format has, made quiet."""
    bits, size = nan.view(np.uint64) | QUIET, 32 if form is SINGLE else 16
    sign = bits >> np.uint64(63) << np.uint64(size - 1)
    rest = bits >> np.uint64(53 - form.precision) & np.uint64((1 << size - 1) - 1)
    return (sign | rest).astype(np.uint32)


@operation("F2FP", "UF2FP")
def f2fp(ins: SassInstruction) -> Compute | None:
    """Two floats as two halves of a word, the first one in the upper half."""
    names = _formats(ins)
    if names not in (["F16", "F32"], ["BF16", "F32"]) or not _modifiers(ins, *FORMATS, "RELU", "PACK_AB"):
        return None
    form = FORMATS[names[0]]
    mode = next((word for word in ins.modifiers if word in ROUNDINGS), "RN")
    clamp = ins.has("RELU")

    def half(numbers: Bits) -> Bits:
        total = rounded(numbers.astype(F64), form, mode)
        return packed(np.where(total <= 0, 0.0, total) if clamp else total, form)

    readers = [single(operand) for operand in ins.operands[1:3]]
    return calculation(readers, lambda a, b: (half(a) << UPPER | half(b),))
