"""Format numbers for a report; anything but a finite number reads "unknown"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

UNKNOWN = "unknown"
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


def milliseconds(nanoseconds: object) -> str:
    """Return a duration in milliseconds, without its unit."""
    number = finite(nanoseconds)
    return UNKNOWN if number is None else fixed(number * 1e-6, 3)


def duration(nanoseconds: object) -> str:
    """Return a duration in milliseconds, with its unit."""
    return UNKNOWN if finite(nanoseconds) is None else f"{milliseconds(nanoseconds)} ms"


def dimensions(sizes: Sequence[int]) -> str:
    """Return a grid or block as "128 × 8 × 1"; "unknown" if any size is 0."""
    return " × ".join(f"{size:,}" for size in sizes) if all(sizes) else UNKNOWN


def percent(value: object) -> str:
    """Return a percentage with one decimal."""
    number = finite(value)
    return UNKNOWN if number is None else f"{number:.1f} %"


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
    return f"{100 * (ratio - 1):+.3g} %".replace("-", MINUS)


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
