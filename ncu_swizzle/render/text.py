"""Numbers as text, for templates, tables and sentences; anything but a finite number reads "unknown"."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

from ncu_swizzle.reports import pack
from ncu_swizzle.reports.counts import Total
from ncu_swizzle.reports.remarks import MICROSECONDS

if TYPE_CHECKING:
    from ncu_swizzle.reports.comparison import Comparison

UNKNOWN = "unknown"
AT_LEAST = "at least "
MINUS = "\N{MINUS SIGN}"


def finite(value: object) -> float | None:
    """Return a value as a float; None for None, NaN, pandas' NA, infinities and anything that is not such a number."""
    try:
        return float(value) if isinstance(value, Real) and math.isfinite(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


def _formatted(number: float | None, form: str) -> str:
    return UNKNOWN if number is None else format(number, form).replace("-", MINUS)


def count(value: object) -> str:
    """Return a count with thousands separators."""
    return _formatted(finite(value), ",.0f")


def counted(value: object, least: object = None) -> str:
    """Return a count; if it is unknown but not less than some count, "at least" that."""
    return f"{AT_LEAST}{count(least)}" if finite(value) is None and finite(least) else count(value)


def summed(total: Total, name: str) -> str:
    """Return a total's count; if some accesses are unknown, "at least" what the others add up to."""
    return counted(getattr(total, name), getattr(total.known, name))


def short(value: object) -> str:
    """Return a count in three or four digits: 12, 4.2 k, 469.8 M."""
    number = finite(value)
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number is not None and abs(number) >= 0.99995 * size:  # what rounds to 1,000 takes the next letter
            return f"{_formatted(number / size, '.1f')} {letter}"
    return count(number)


def fixed(value: object, decimals: int) -> str:
    """Return a number with this many decimals, or three significant digits if it is too small for them."""
    number = finite(value)
    small = number is not None and 0 < abs(number) < 10.0 ** (1 - decimals)
    return _formatted(number, ".3g" if small else f",.{decimals}f")


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
        return _formatted(None if number is None else number / self.nanoseconds, f",.{self.decimals}f")


MS, US = TimeUnit("ms", 1e6, 3), TimeUnit("µs", 1e3, 2)


def time_unit(durations: Iterable[object]) -> TimeUnit:
    """Return the unit for durations in ns: microseconds if the longest is shorter than 0.1 ms."""
    longest = max((number for value in durations if (number := finite(value)) is not None), default=0.0)
    return US if 0 < longest < MICROSECONDS else MS


def duration_text(nanoseconds: object, unit: TimeUnit | None = None) -> str:
    """Return a duration with its unit, by default the one that suits it."""
    unit = unit or time_unit([nanoseconds])
    return UNKNOWN if finite(nanoseconds) is None else f"{unit.show(nanoseconds)} {unit.name}"


def dimensions(sizes: Sequence[int]) -> str:
    """Return a grid or block as "128 × 8 × 1"; "unknown" if any size is 0."""
    return " × ".join(f"{size:,}" for size in sizes) if all(sizes) else UNKNOWN


def pace(before: float | None, after: float | None) -> str:
    """Return how many times as fast the second duration is."""
    return f"{before / after:.2f}×" if before and after else UNKNOWN


def percent(value: object) -> str:
    """Return a percentage with one decimal; a value that rounds to zero has no sign."""
    number = finite(value)
    # -0.0 + 0.0 is 0.0.
    return UNKNOWN if number is None else f"{_formatted(round(number, 1) + 0.0, ',.1f')} %"


def points(before: object, after: object) -> str:
    """Return a difference of two percentages, in percentage points."""
    was, now = finite(before), finite(after)
    if was is None or now is None:
        return UNKNOWN
    return "same" if was == now else f"{_formatted(now - was, '+.1f')} pp"


def change(before: object, after: object) -> str:
    """Return a change: a factor if it is large, else a percentage."""
    was, now = finite(before), finite(after)
    if was is None or now is None:
        return UNKNOWN
    if was == now:
        return "same"
    if not was:
        return f"+{count(now)}"
    ratio = now / was
    if ratio >= 2:
        return f"× {ratio:,.2f}"
    if 0 < ratio <= 0.5:
        return f"÷ {1 / ratio:,.2f}"
    # What one decimal would show as 0.0 % gets one significant digit.
    percents = 100 * (ratio - 1)
    return f"{_formatted(percents, '+.1f' if abs(percents) >= 0.05 else '+.1g')} %"


def difference(before: object, after: object) -> str:
    """Return the signed difference of two counts."""
    was, now = finite(before), finite(after)
    if was is None or now is None:
        return UNKNOWN
    return "same" if was == now else _formatted(now - was, "+,.0f")


def shortened(words: str, most: int = 2_000) -> str:
    """Return a text of bounded length; a note replaces what is left out."""
    return words if len(words) <= most else f"{words[:most]}… ({len(words) - most:,} more characters)"


def in_a_list(names: Sequence[str]) -> str:
    """Return names joined as in a sentence: one, two and three."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def all_digits(value: object) -> str:
    """Return a metric's value with all its digits; text as is."""
    if isinstance(value, str):
        return value
    return UNKNOWN if finite(value) is None else f"{value:,}".removesuffix(".0").replace("-", MINUS)


def width(part: object, whole: object) -> str:
    """Return part of whole as a CSS percentage; "0%" if either is unknown."""
    share = shade(part, whole)
    return f"{100 * float(share):.4g}%" if share else "0%"


def shade(part: object, whole: object) -> str:
    """Return part of whole as a CSS number from 0 to 1; empty if there is nothing to shade."""
    amount, total = finite(part), finite(whole)
    return f"{min(1.0, amount / total):.4g}" if amount and total and amount > 0 else ""


# The number of warp samples behind shares, and whether they are too few to show as measured.


def too_few_samples(samples: int) -> bool:
    """Return whether shares of this many samples are too uncertain to reason from; False without samples."""
    return 0 < samples < least_samples()


def least_samples() -> int:
    """Return the number of samples from which the rule pack reasons."""
    return int(pack.pack("facts").FEW_SAMPLES)


def few_samples_caution(comparison: Comparison) -> str:
    """Return a sentence naming the profiles with too few samples; empty if all have enough."""
    sampled = [(label, profile.all_samples) for label, profile in comparison.named]
    names = [f"{label} ({count(samples)})" for label, samples in sampled if too_few_samples(samples)]
    return (
        f"Fewer than {least_samples()} warp samples, too few to tell where warps stall: {in_a_list(names)}."
        if names
        else ""
    )
