"""What MUFU approximates, bit by bit as an H100 computes it.

`bench/recording/mufu/measure.cu` ran 1/x, 1/sqrt(x), sqrt(x) and 2^x over all mantissas and checked, over all 2^32
operands, how the results for the other exponents follow from these. `operands.py` there did so for log2, sin, cos and
tanh, with sums of the results of all 2^32 operands. A table holds each result's distance to what is computed here.
"""

from __future__ import annotations

import functools
import lzma
import math
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
def _table(name: str, size: type = np.int8) -> Bits:
    """Return how far each result is from the nearest word: for the mantissas of 1, then of 2 if both are there."""
    return np.frombuffer(lzma.decompress((TABLES / f"{name}.xz").read_bytes()), size)


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


# ---------------------------------------------------------------------------------------------- log2

POINT, SQUARE_ROOT = 36, 3474676  # bits behind the point; the first mantissa whose log2 is 1/2 or more, to 24 bits
SLACK = 1 << 14  # in units of the last of these bits: more than any result is off


@functools.cache
def _steps_of_log2() -> Bits:
    """Return log2(1 + i / 4096), by squaring: each time that a square reaches 2, a bit of the result is 1."""
    steps = []
    for i in range(1 << 12):
        number, result = (1 << 12) + i << 48, 0
        for _ in range(52):
            number = number * number >> 60
            result = result << 1 | number >> 61
            number >>= number >> 61
        steps.append(result / (1 << 52))
    return np.array(steps)


def nearest_log2(fraction: Bits) -> Bits:
    """Return nearly log2 of mantissas, with POINT bits; from the square root of 2 on, what is left to 1, inverted."""
    high, low = fraction >> 11, fraction & (1 << 11) - 1
    small = low / ((1 << 23) + (high << 11)).astype(F64)  # m = (1 + high / 4096) (1 + small)
    series = small * (1 - small * (1 / 2 - small * (1 / 3 - small / 4)))
    log2 = np.rint((_steps_of_log2()[high] + series * 1.4426950408889634) * 2.0**POINT).astype(np.int64)
    result: Bits = np.where(fraction >= SQUARE_ROOT, (1 << POINT) - 1 - log2, log2)
    return result


def bits_beyond(numbers: Bits) -> Bits:
    """Return how many bits of whole numbers are beyond the 24 of a float."""
    beyond: Bits = np.maximum(np.frexp(numbers.astype(F64))[1] - 24, 0).astype(np.int64)
    return beyond


def _log2(bits: Bits) -> Bits:
    """Return the words of log2(x): the exponent and that of the mantissa, fixed-point, cut off to a float.

    A negative sum is inverted, not negated, before it is cut off.
    """
    exponent, fraction = SINGLE.exponent(bits), SINGLE.fraction(bits).astype(np.int64)
    near = nearest_log2(fraction)
    shift = bits_beyond(np.maximum(near - SLACK, 0))
    part = (near >> shift) + _table("lg2", np.int16)[fraction] << shift
    total = (exponent - 127 << POINT) + np.where(fraction >= SQUARE_ROOT, (1 << POINT) - 1 - part, part)
    size = np.where(total < 0, ~total, total)
    shift = bits_beyond(size)
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


@functools.cache
def _rotations(most: int, least: int) -> Bits:
    """Return e^(i pi/2 j / 2^least) for all j of the bits 2^-most to 2^-least, by square roots of integers."""
    one, root = 1 << 160, (0, 1 << 160)
    roots = []
    for _ in range(least):  # half the angle
        cosine = math.isqrt(one * (one + root[0]) // 2)
        root = cosine, one * root[1] // (2 * cosine)
        roots.append(root)
    turned = [(one, 0)]
    for x, y in reversed(roots[most - 1 :]):
        turned += [((a * x - b * y) // one, (a * y + b * x) // one) for a, b in turned]
    return np.array([complex(a / one, b / one) for a, b in turned])


def nearest_sine(place: Bits) -> Bits:
    """Return the words of the sine of places in a quarter of a turn, nearly, as int64."""
    coarse, fine = _rotations(1, 12)[place >> 11], _rotations(13, 23)[place & (1 << 11) - 1]
    return SINGLE.nearest(coarse.real * fine.imag + coarse.imag * fine.real)


def _sine(bits: Bits, ahead: int) -> Bits:
    """Return the words of the sine of x turns, towards 0 in steps of 2^-TURN, and so many quarters of a turn ahead.

    In every other quarter the steps within it are inverted. What is negative has the sine of its size, negated.
    """
    exponent, fraction = SINGLE.exponent(bits), SINGLE.fraction(bits).astype(np.int64)
    shift, mantissa = exponent - 127 + TURN - 23, np.where(exponent == 0, 0, fraction | 1 << 23)
    steps = np.where(shift < 0, mantissa >> np.clip(-shift, 0, 24), mantissa << np.clip(shift, 0, TURN))
    quarter = (steps >> TURN - 2) + ahead
    place = np.where(quarter & 1, ~steps, steps) & QUARTER
    words = (nearest_sine(place) + _table("sin", np.int16)[place]).astype(np.uint32)
    minus = quarter >> 1 & 1 if ahead else quarter >> 1 & 1 ^ (bits >> np.uint32(31)).astype(np.int64)
    words |= minus.astype(np.uint32) << np.uint32(31)
    return np.where(exponent == 255, NAN, words)


# ---------------------------------------------------------------------------------------------- tanh

# By biased exponent, the last bits of an operand that nothing depends on; below, the result is the operand, above, 1.
UNSEEN = {119: 6, 120: 6, 121: 6, 122: 5, 123: 5, 124: 4, 125: 4, 126: 4, 127: 3, 128: 2, 129: 3}


@functools.cache
def _tanh_words() -> tuple[Bits, Bits, Bits]:
    """Return the words of tanh, one exponent behind the other, and by exponent where they begin, and the unseen bits.

    The table has the first two words of each exponent, then second differences, of which the first two do not count.
    """
    content = lzma.decompress((TABLES / "tanh.xz").read_bytes())
    ends = np.frombuffer(content[: 8 * len(UNSEEN)], "<i4").reshape(-1, 2).astype(np.int64)
    bends = np.frombuffer(content[8 * len(UNSEEN) :], "<i2").astype(np.int64)
    words, begins, unseen, at = [], np.zeros(256, np.int64), np.zeros(256, np.int64), 0
    for (exponent, bits), (first, second) in zip(UNSEEN.items(), ends, strict=True):
        count = 1 << 23 - bits
        part = bends[at : at + count].copy()
        part[:2] = first, second - 2 * first
        words.append(part.cumsum().cumsum().astype(np.uint32))
        begins[exponent], unseen[exponent], at = at, bits, at + count
    return np.concatenate(words), begins, unseen


def _tanh(bits: Bits) -> Bits:
    """Return the words of tanh(x)."""
    table, begins, unseen = _tanh_words()
    exponent, fraction = SINGLE.exponent(bits), SINGLE.fraction(bits).astype(np.int64)
    words = table[begins[exponent] + np.where(begins[exponent] | unseen[exponent], fraction >> unseen[exponent], 0)]
    size = bits & ~SIGN
    words = np.where(exponent < min(UNSEEN), size, np.where(exponent > max(UNSEEN), ONE, words)) | bits & SIGN
    return np.where((exponent == 255) & (fraction != 0), NAN, words)


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
    "LG2": _log2,
    "SIN": functools.partial(_sine, ahead=0),
    "COS": functools.partial(_sine, ahead=1),
    "TANH": _tanh,
}
