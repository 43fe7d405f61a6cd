"""MUFU: the functions that the hardware approximates, bit by bit as an H100 computes them.

`bench/mufu/measure.cu` ran each instruction over all mantissas and checked, over all 2^32 operands, how the results
for the other exponents follow from these. A table holds how far each result is from the correctly rounded one.
"""

from __future__ import annotations

import functools
import lzma
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ncu_swizzle.emulate.operations.reals import calculation, single
from ncu_swizzle.emulate.operations.registry import Compute, operation
from ncu_swizzle.emulate.operations.rounding import F32, F64
from ncu_swizzle.emulate.parse import SassInstruction
from ncu_swizzle.emulate.values import Bits

TABLES = Path(__file__).parent.parent / "approximations"
NAN = np.uint32(0x7FFFFFFF)


@dataclass(frozen=True)
class Layout:
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


SINGLE = Layout(23, 127)
UPPER = Layout(20, 1023)


@functools.cache
def _table(name: str) -> Bits:
    """Return how far each result is from the nearest word: for the mantissas of 1, then of 2 if both are there."""
    return np.frombuffer(lzma.decompress((TABLES / f"{name}.xz").read_bytes()), np.int8)


@dataclass(frozen=True)
class Function:
    """A function whose results for all exponents are, but for a power of two, those for the first one or two."""

    name: str
    layout: Layout
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
    whole = steps & (1 << 23) - 1 == 0
    place = np.where(negative, np.where(whole, -steps, ~steps), steps)
    fraction = place & (1 << 23) - 1
    # Within 2 units in the last place of float64; no 2^x of a float is nearer than 29 to the middle of two floats.
    exact = 2 * _powers(1, 12)[fraction >> 11] * _powers(13, 23)[fraction & (1 << 11) - 1]
    base = SINGLE.nearest(exact) + _table("ex2")[fraction]
    result = base + ((place >> 23) - 1 << 23)
    result = np.where(place >> 23 < -126, 0, result)
    result = np.where(shift >= 7, np.where(negative, 0, 0x7F800000), result)
    return np.where((exponent == 255) & (SINGLE.fraction(bits) != 0), NAN, result.astype(np.uint32))


FUNCTIONS: dict[str, Callable[[Bits], Bits]] = {
    "RCP": Function("rcp", SINGLE, np.reciprocal, 0x7F800000, 0),
    "RSQ": Function("rsq", SINGLE, lambda x: 1 / np.sqrt(x), 0x7F800000, 0, root=True),
    "SQRT": Function("sqrt", SINGLE, np.sqrt, 0, 0x7F800000, root=True, power=1),
    "RCP64H": Function("rcp64h", UPPER, np.reciprocal, 0x7FF00000, 0),
    "RSQ64H": Function("rsq64h", UPPER, lambda x: 1 / np.sqrt(x), 0x7FF00000, 0, root=True),
    "EX2": _two_to,
}


@operation("MUFU", "UMUFU")
def mufu(ins: SassInstruction) -> Compute | None:
    """1/x, 1/sqrt(x), sqrt(x) and 2^x, and the first two of a double's upper half."""
    function = FUNCTIONS.get(ins.modifiers[0])
    if function is None or len(ins.modifiers) > 1:
        return None
    return calculation([single(ins.operands[1])], lambda numbers: (function(numbers.view(np.uint32)),))
