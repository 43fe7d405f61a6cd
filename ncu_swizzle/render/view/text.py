"""Format numbers for a report; anything but a finite number reads "unknown"."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real

from ncu_swizzle.profiles.remarks import MICROSECONDS

UNKNOWN = "unknown"
AT_LEAST = "at least "
MINUS = "\N{MINUS SIGN}"


def finite(value: object) -> float | None:
    """Return a value as a float; None for None, NaN, pandas' NA, infinities and anything that is not such a number."""
    try:
        return float(value) if isinstance(value, Real) and math.isfinite(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


def count(value: object) -> str:
    """Return a count with thousands separators."""
    number = finite(value)
    return UNKNOWN if number is None else f"{number:,.0f}".replace("-", MINUS)


def counted(value: object, least: object = None) -> str:
    """Return a count; if it is unknown but not less than some count, "at least" that."""
    if finite(value) is None and finite(least):
        return f"{AT_LEAST}{count(least)}"
    return count(value)


def short(value: object) -> str:
    """Return a count in three or four digits: 12, 4.2 k, 469.8 M."""
    number = finite(value)
    if number is None:
        return UNKNOWN
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= 0.99995 * size:
            return f"{number / size:.1f} {letter}".replace("-", MINUS)
    return count(number)


def fixed(value: object, decimals: int) -> str:
    """Return a number with so many decimals, or three significant digits if it is too small for them."""
    number = finite(value)
    if number is None:
        return UNKNOWN
    small = 0 < abs(number) < 10.0 ** (1 - decimals)
    return (f"{number:.3g}" if small else f"{number:,.{decimals}f}").replace("-", MINUS)


def degree(value: object) -> str:
    """Return a degree of conflict, with two decimals."""
    return fixed(value, 2)


@dataclass(frozen=True)
class TimeUnit:
    """A unit of time for all durations of a table, so that their decimals align."""

    name: str
    nanoseconds: float
    decimals: int

    def show(self, nanoseconds: object) -> str:
        """Return a duration without its unit."""
        number = finite(nanoseconds)
        return UNKNOWN if number is None else f"{number / self.nanoseconds:,.{self.decimals}f}".replace("-", MINUS)


MS, US = TimeUnit("ms", 1e6, 3), TimeUnit("µs", 1e3, 2)


def time_unit(durations: Iterable[object]) -> TimeUnit:
    """Return the unit for durations in ns: microseconds if the longest is shorter than 0.1 ms."""
    longest = max((number for value in durations if (number := finite(value)) is not None), default=0.0)
    return US if 0 < longest < MICROSECONDS else MS


def duration(nanoseconds: object, unit: TimeUnit | None = None) -> str:
    """Return a duration with its unit, by default the one that suits it."""
    unit = unit or time_unit([nanoseconds])
    return UNKNOWN if finite(nanoseconds) is None else f"{unit.show(nanoseconds)} {unit.name}"


def dimensions(sizes: Sequence[int]) -> str:
    """Return a grid or block as "128 × 8 × 1"; "unknown" if any size is 0."""
    return " × ".join(f"{size:,}" for size in sizes) if all(sizes) else UNKNOWN


def percent(value: object) -> str:
    """Return a percentage with one decimal; what rounds to zero has no sign."""
    number = finite(value)
    return UNKNOWN if number is None else f"{round(number, 1) + 0.0:,.1f} %".replace("-", MINUS)


def points(before: object, after: object) -> str:
    """Return a difference of two percentages, in percentage points."""
    was, now = finite(before), finite(after)
    if was is None or now is None:
        return UNKNOWN
    return "same" if was == now else f"{now - was:+.1f} pp".replace("-", MINUS)


def change(before: object, after: object) -> str:
    """Return a change: a factor if it is large, else a percentage."""
    was, now = finite(before), finite(after)
    if was is None or now is None:
        return UNKNOWN
    if was == now:
        return "same"
    if not was:
        return f"+{count(now)}"
    return _factor(now / was)


def _factor(ratio: float) -> str:
    if ratio >= 2:
        return f"× {ratio:,.2f}"
    if 0 < ratio <= 0.5:
        return f"÷ {1 / ratio:,.2f}"
    percents = 100 * (ratio - 1)
    return f"{percents:+{'.1f' if abs(percents) >= 0.05 else '.1g'}} %".replace("-", MINUS)


@dataclass(frozen=True)
class Delta:
    """A difference as a bar, left of the axis for less, right for more; each width is relative to its side."""

    less: str
    more: str


def delta(amount: object, widest: object) -> Delta:
    """Return the bar of a difference; empty if it is unknown."""
    number = finite(amount) or 0.0
    return Delta(width(max(0.0, -number), widest), width(max(0.0, number), widest))


def difference(before: object, after: object) -> str:
    """Return the signed difference of two counts."""
    was, now = finite(before), finite(after)
    if was is None or now is None:
        return UNKNOWN
    return "same" if was == now else f"{now - was:+,.0f}".replace("-", MINUS)


def cut(words: str, most: int = 2_000) -> str:
    """Return a text of bounded length; a note stands for what is left out."""
    return words if len(words) <= most else f"{words[:most]}… ({len(words) - most:,} more characters)"


def listed(names: Sequence[str]) -> str:
    """Return names joined as in a sentence: one, two and three."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def raw(value: object) -> str:
    """Return a metric's value with all its digits; text as is."""
    if isinstance(value, str):
        return value
    number = finite(value)
    if number is None:
        return UNKNOWN
    return f"{value:,}".removesuffix(".0").replace("-", MINUS)


def width(part: object, whole: object) -> str:
    """Return part of whole as a CSS percentage; "0%" if either is unknown."""
    share = shade(part, whole)
    return f"{100 * float(share):.4g}%" if share else "0%"


def shade(part: object, whole: object) -> str:
    """Return part of whole as a CSS number from 0 to 1; empty if there is nothing to shade."""
    amount, total = finite(part), finite(whole)
    return f"{min(1.0, amount / total):.4g}" if amount and total and amount > 0 else ""
