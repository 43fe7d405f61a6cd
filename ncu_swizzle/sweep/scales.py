"""The position of a value on an axis, from 0 (the low end) to 1. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_TICKS = 7
ZERO_ROOM = 0.12  # of the axis, between 0 and the smallest positive value of a logarithmic one


@dataclass(frozen=True)
class Scale:
    """An axis: the position of a value, and the values to mark."""

    position: Callable[[float], float]
    ticks: tuple[float, ...]


def linear(values: Sequence[float]) -> Scale:
    """Return an axis from 0 to a round number at or above all values."""
    top = max([*values, 0.0]) or 1.0
    step = next(s for s in (m * 10.0**e for e in range(_exponent(top) - 2, _exponent(top) + 2) for m in (1, 2, 5))
                if top / s <= MOST_TICKS - 2)  # fmt: skip
    count = math.ceil(top / step)
    return Scale(lambda value: value / (count * step), tuple(n * step for n in range(count + 1)))


def logarithmic(values: Sequence[float]) -> Scale:
    """Return an axis of positive values, with ticks at 1, 2 and 5 times each power of ten, or at the powers alone."""
    low, high = _span([value for value in values if value > 0])
    exponents = range(_exponent(low), _exponent(high) + 1)
    fine = [m * 10.0**e for e in exponents for m in (1, 2, 5) if low <= m * 10.0**e <= high]
    coarse = [10.0**e for e in exponents if low <= 10.0**e <= high]
    ticks = fine if len(fine) <= MOST_TICKS or len(coarse) < 2 else coarse
    return Scale(_log(low, high), _thinned(ticks))


def counts(values: Sequence[float]) -> Scale:
    """Return a logarithmic axis with a separate position for 0."""
    positive = [value for value in values if value > 0]
    if not positive:
        return Scale(lambda value: 0.0, (0.0,))
    low, high = 10.0 ** _exponent(min(positive)), 10.0 ** math.ceil(math.log10(max(positive)) + 1e-9)
    inner = _log(low, max(high, 10 * low))
    powers = [10.0**e for e in range(_exponent(low), _exponent(max(high, 10 * low)) + 1)]
    return Scale(lambda v: ZERO_ROOM + (1 - ZERO_ROOM) * inner(v) if v > 0 else 0.0, (0.0, *_thinned(powers)))


def degrees(values: Sequence[float]) -> Scale:
    """Return an axis of powers of two, starting at 1."""
    top = max(1, math.ceil(math.log2(max([*values, 1.0])) - 1e-9))
    return Scale(lambda value: math.log2(max(value, 1.0)) / top, tuple(2.0**e for e in range(top + 1)))


def sizes(values: Sequence[int]) -> Scale:
    """Return the axis of a parameter: logarithmic, with every value marked; a single value is in the middle."""
    distinct = sorted(set(values))
    ticks = tuple(map(float, distinct))
    if len(distinct) < 2:
        return Scale(lambda value: 0.5, ticks)
    return Scale(_log(distinct[0], distinct[-1]), ticks)


def _log(low: float, high: float) -> Callable[[float], float]:
    return lambda value: math.log(value / low) / math.log(high / low)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis, slightly beyond the values."""
    if not values:
        return 1.0, 10.0
    ratio = max(values) / min(values)
    margin = max(1.15, ratio**0.05, math.sqrt(2.6 / ratio))  # from 2 to 5 is the widest gap between ticks
    return min(values) / margin, max(values) * margin


def _exponent(value: float) -> int:
    return math.floor(math.log10(value) + 1e-9)


def _thinned(ticks: Sequence[float]) -> tuple[float, ...]:
    return tuple(ticks[:: math.ceil(len(ticks) / MOST_TICKS)]) if ticks else ()
