"""Read floating-point operands, and make an instruction of a function of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ncu_swizzle.emulate.code import FLOAT, Operand
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Compute, predicate, raw
from ncu_swizzle.emulate.operations.rounding import BRAIN, F32, F64, Format
from ncu_swizzle.emulate.values import Bits, Value, computed, first_origin, joint, narrowed, wide

Reals = Callable[[Machine], tuple[Bits, tuple[Value, ...]]]
UPPER, LOWER = np.uint32(16), np.uint32(0xFFFF)


def single(operand: Operand) -> Reals:
    """Return a reader of an operand as float32."""
    read = raw(operand)

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        value = read(m)
        return _signed(value.bits.view(F32), operand), (value,)

    return reals


def double(operand: Operand) -> Reals:
    """Return a reader of an operand as float64; 1 in lanes that do not run, where what is left over may take long."""
    low, high = raw(operand, 0, single=False), raw(operand, 1, single=False)

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        first, second = low(m), high(m)
        numbers = _signed(wide(first.bits, second.bits).view(F64), operand)
        return numbers if m.view.full or numbers.shape[1] == 1 else np.where(m.view.mask, numbers, 1.0), (first, second)

    return reals


def _signed(numbers: Bits, operand: Operand) -> Bits:
    if operand.kind == FLOAT:  # its sign is in its bits
        return numbers
    nan = np.isnan(numbers)  # keeps its sign
    numbers = np.where(nan, numbers, np.abs(numbers)) if operand.absolute else numbers
    return np.where(nan, numbers, -numbers) if operand.negated else numbers


def halves(operand: Operand, form: Format) -> Reals:
    """Return a reader of the two halves of a word as float64, the lower first: one more dimension, in front."""
    read = raw(operand)
    low, high = {"H0_H0": (0, 0), "H1_H1": (1, 1)}.get("".join(operand.suffixes), (0, 1))

    used = (int(LOWER) if 0 in (low, high) else 0) | (int(LOWER) << 16 if 1 in (low, high) else 0)

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        value = narrowed(read(m), used)
        parts = [value.bits & LOWER, value.bits >> UPPER]
        return _signed(np.stack([widened(parts[low], form), widened(parts[high], form)]), operand), (value,)

    return reals


def widened(bits: Bits, form: Format) -> Bits:
    """Return 16-bit numbers, in uint32, as float64."""
    if form is BRAIN:
        return (bits << UPPER).view(F32).astype(F64)
    return bits.astype(np.uint16).view(np.float16).astype(F64)


def condition(operand: Operand) -> Reals:
    """Return a reader of a predicate."""
    read = predicate(operand)

    def reals(m: Machine) -> tuple[Bits, tuple[Value, ...]]:
        value = read(m)
        return value.bits, (value,)

    return reals


def calculation(
    readers: Sequence[Reals], function: Callable[..., tuple[Bits, ...]], registers: int = 1, like: type = np.uint32
) -> Compute:
    """Return an instruction whose results, one or two words or a predicate, are a function of its operands' numbers."""

    def compute(m: Machine) -> tuple[Value | None, ...]:
        with np.errstate(all="ignore"):
            read = [reader(m) for reader in readers]
            sources = [value for _, values in read for value in values]
            if joint(*sources) is False:
                return (nothing(*sources, like=like),) * registers
            words = function(*(numbers for numbers, _ in read))
        return tuple(computed(word, *sources) for word in words)

    return compute


def nothing(*sources: Value, like: type = np.uint32) -> Value:
    """Return a value that is unknown because a source is; uniform if all sources are."""
    wide_enough = 1 if all(source.bits.shape[1] == 1 for source in sources) else 32
    return Value(np.zeros((1, wide_enough), like), False, first_origin(*sources))
