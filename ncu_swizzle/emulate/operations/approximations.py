"""What MUFU approximates, bit by bit as an H100 computes it.

`bench/recording/mufu/measure.cu` ran 1/x, 1/sqrt(x), sqrt(x) and 2^x over all mantissas and checked, over all 2^32
operands, how the results for the other exponents follow from these. `operands.py` there did so for log2, sin, cos and
tanh, with sums of the results of all 2^32 operands. A table holds the results for mantissas next to each other: as the
hardware interpolates by parabolas, their second differences are small, and hardly any but those where a power of two
is passed has more than 8 bits.
"""

from __future__ import annotations

import functools
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ncu_swizzle.emulate.operations.rounding import F32, F64
from ncu_swizzle.emulate.values import Bits

TABLES = Path(__file__).parent.parent / "approximations"
NAN, ONE, SIGN = np.uint32(0x7FFFFFFF), np.uint32(0x3F800000), np.uint32(1 << 31)


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


SINGLE = FloatFields(23, 127)
UPPER = FloatFields(20, 1023)


@functools.cache
def words_of(name: str) -> Bits:
    """Return a table's words: of the mantissas of 1, then of 2 if both are there."""
    content = lzma.decompress((TABLES / f"{name}.xz").read_bytes())
    count = int(np.frombuffer(content, "<u4", 1)[0])
    large = np.frombuffer(content, "<u4", 2 * count, 4).reshape(2, count)
    words = np.frombuffer(content, np.int8, offset=4 + 8 * count).astype(np.int32).view(np.uint32)
    words[large[0]] = large[1]
    for _ in range(2):
        np.cumsum(words, out=words)
    return words


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function whose results for all exponents are, but for a power of two, those for the first one or two."""

    name: str
    layout: FloatFields
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
        result = words_of(self.name)[(odd << layout.mantissa) + fraction].astype(np.int64)
        steps = self.power * (distance - odd) // (2 if self.root else 1)
        tiny = (result >> layout.mantissa) + steps <= 0  # never without an exponent: these are zero
        result = np.where(tiny, 0, result + (steps << layout.mantissa))
        result = np.where(exponent == 0, self.at_zero, np.where(distance > layout.bias, self.at_infinity, result))
        negative = bits >> np.uint32(31) != 0
        invalid = (distance > layout.bias) & (fraction != 0) | (negative & (exponent > 0) & self.root)
        signed = result.astype(np.uint32) | (bits & np.uint32(1 << 31))
        return np.where(invalid, NAN, signed)


def _two_to(bits: Bits) -> Bits:
    """Return the words of 2^x: x in steps of 2^-23, towards 0; if negative and no integer, the steps' bits inverted."""
    exponent, negative = SINGLE.exponent(bits), bits >> np.uint32(31) != 0
    mantissa = (SINGLE.fraction(bits) | np.uint32(1 << 23)).astype(np.int64)
    shift = exponent - 127
    steps = np.where(shift < 0, mantissa >> np.clip(-shift, 0, 24), mantissa << np.clip(shift, 0, 7))
    integral = steps & (1 << 23) - 1 == 0
    power = np.where(negative, np.where(integral, -steps, ~steps), steps)
    fraction = power & (1 << 23) - 1
    result = words_of("ex2")[fraction] + ((power >> 23) - 1 << 23)
    result = np.where(power >> 23 < -126, 0, result)
    result = np.where(shift >= 7, np.where(negative, 0, 0x7F800000), result)
    return np.where((exponent == 255) & (SINGLE.fraction(bits) != 0), NAN, result.astype(np.uint32))


# ---------------------------------------------------------------------------------------------- log2

POINT, SQUARE_ROOT = 36, 3474676  # bits behind the point; the first mantissa whose log2 is 1/2 or more, to 24 bits


def _log2(bits: Bits) -> Bits:
    """Return the words of log2(x): the exponent and that of the mantissa, fixed-point, cut off to a float.

    From the square root of 2 on, the table has what is left to 1, inverted. A negative sum is inverted, not negated,
    before it is cut off.
    """
    exponent, fraction = SINGLE.exponent(bits), SINGLE.fraction(bits).astype(np.int64)
    part = (words_of("lg2")[fraction].view(F32) * 2.0**POINT).astype(np.int64)
    total = (exponent - 127 << POINT) + np.where(fraction >= SQUARE_ROOT, (1 << POINT) - 1 - part, part)
    size = np.where(total < 0, ~total, total)
    shift = np.maximum(np.frexp(size.astype(F64))[1] - 24, 0).astype(np.int64)  # what is beyond a float's 24 bits
    words = ((size >> shift << shift) * 2.0**-POINT).astype(F32).view(np.uint32)
    words = np.where(total < 0, words | np.uint32(1 << 31), words)
    words = np.where(bits == ONE, np.uint32(0), words)  # which the sum of its exponent and its mantissa is not
    words = np.where(exponent == 255, np.uint32(0x7F800000), words)
    negative = bits >> np.uint32(31) != 0
    invalid = ((exponent == 255) & (fraction != 0)) | (negative & (exponent > 0))
    return np.where(exponent == 0, np.uint32(0xFF800000), np.where(invalid, NAN, words))


# ---------------------------------------------------------------------------------------------- sin and cos

TURN = 25  # bits of a turn that are seen
QUARTER = (1 << TURN - 2) - 1


def _sine(bits: Bits, ahead: int) -> Bits:
    """Return the words of the sine of x turns, towards 0 in steps of 2^-TURN, and so many quarters of a turn ahead.

    In every other quarter the steps within it are inverted. What is negative has the sine of its size, negated.
    """
    exponent, fraction = SINGLE.exponent(bits), SINGLE.fraction(bits).astype(np.int64)
    shift, mantissa = exponent - 127 + TURN - 23, np.where(exponent == 0, 0, fraction | 1 << 23)
    steps = np.where(shift < 0, mantissa >> np.clip(-shift, 0, 24), mantissa << np.clip(shift, 0, TURN))
    quarter = (steps >> TURN - 2) + ahead
    place = np.where(quarter & 1, ~steps, steps) & QUARTER
    words = words_of("sin")[place]
    minus = quarter >> 1 & 1 if ahead else quarter >> 1 & 1 ^ (bits >> np.uint32(31)).astype(np.int64)
    words |= minus.astype(np.uint32) << np.uint32(31)
    return np.where(exponent == 255, NAN, words)


# ---------------------------------------------------------------------------------------------- tanh

# By biased exponent, the last bits of an operand that nothing depends on; below, the result is the operand, above, 1.
UNSEEN = {119: 6, 120: 6, 121: 6, 122: 5, 123: 5, 124: 4, 125: 4, 126: 4, 127: 3, 128: 2, 129: 3}


_COUNTS = [1 << 23 - bits for bits in UNSEEN.values()]
_UNSEEN, _BEGINS = np.zeros((2, 256), np.int64)  # by exponent: the unseen bits, and where the table's words begin
_UNSEEN[[*UNSEEN]], _BEGINS[[*UNSEEN]] = [*UNSEEN.values()], np.cumsum([0, *_COUNTS[:-1]])


def _tanh(bits: Bits) -> Bits:
    """Return the words of tanh(x)."""
    exponent, fraction = SINGLE.exponent(bits), SINGLE.fraction(bits).astype(np.int64)
    seen = _UNSEEN[exponent] > 0
    words = words_of("tanh")[_BEGINS[exponent] + np.where(seen, fraction >> _UNSEEN[exponent], 0)]
    size = bits & ~SIGN
    words = np.where(exponent < min(UNSEEN), size, np.where(exponent > max(UNSEEN), ONE, words)) | bits & SIGN
    return np.where((exponent == 255) & (fraction != 0), NAN, words)


FUNCTIONS: dict[str, Callable[[Bits], Bits]] = {
    "RCP": Function(name="rcp", layout=SINGLE, at_zero=0x7F800000, at_infinity=0),
    "RSQ": Function(name="rsq", layout=SINGLE, at_zero=0x7F800000, at_infinity=0, root=True),
    "SQRT": Function(name="sqrt", layout=SINGLE, at_zero=0, at_infinity=0x7F800000, root=True, power=1),
    "RCP64H": Function(name="rcp64h", layout=UPPER, at_zero=0x7FF00000, at_infinity=0),
    "RSQ64H": Function(name="rsq64h", layout=UPPER, at_zero=0x7FF00000, at_infinity=0, root=True),
    "EX2": _two_to,
    "LG2": _log2,
    "SIN": functools.partial(_sine, ahead=0),
    "COS": functools.partial(_sine, ahead=1),
    "TANH": _tanh,
}
