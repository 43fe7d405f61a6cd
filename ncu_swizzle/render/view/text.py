"""How numbers read in a report. What is not a finite number reads "unknown"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

UNKNOWN = "unknown"
MINUS = "\N{MINUS SIGN}"


def known(value: object) -> float | None:
    """Return a value as a float; None for None, NaN, pandas' NA, an infinity and everything that is no number."""
    return float(value) if isinstance(value, Real) and math.isfinite(value) else None


def count(value: object) -> str:
    number = known(value)
    return UNKNOWN if number is None else f"{number:,.0f}".replace("-", MINUS)


def fixed(value: object, decimals: int) -> str:
    """Return a number with so many decimals, or with three significant digits where they would hide it."""
    number = known(value)
    if number is None:
        return UNKNOWN
    small = 0 < abs(number) < 10.0 ** (1 - decimals)
    return (f"{number:.3g}" if small else f"{number:,.{decimals}f}").replace("-", MINUS)


def degree(value: object) -> str:
    return fixed(value, 2)


def percent(value: object) -> str:
    number = known(value)
    return UNKNOWN if number is None else f"{number:.1f} %"


def points(before: object, after: object) -> str:
    """Return a difference of two percentages, in percentage points."""
    was, now = known(before), known(after)
    if was is None or now is None:
        return UNKNOWN
    return "same" if was == now else f"{now - was:+.1f} pp".replace("-", MINUS)


def change(before: object, after: object) -> str:
    """Return what became of a number: a factor where it is large, else a percentage."""
    was, now = known(before), known(after)
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
    """A bar to the left of an axis for less, to its right for more; the widths are of one side."""

    less: str
    more: str


def delta(amount: object, widest: object) -> Delta:
    """Return the bar of a difference; an empty one where it is unknown."""
    number = known(amount) or 0.0
    return Delta(width(max(0.0, -number), widest), width(max(0.0, number), widest))


def difference(before: object, after: object) -> str:
    """Return a difference of two counts with its sign."""
    was, now = known(before), known(after)
    if was is None or now is None:
        return UNKNOWN
    return "same" if was == now else f"{now - was:+,.0f}".replace("-", MINUS)


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them: one, two and three."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def raw(value: object) -> str:
    """Return a metric's value in full: a number with all its digits, a text as it is."""
    if isinstance(value, str):
        return value
    number = known(value)
    if number is None:
        return UNKNOWN
    return f"{value:,}".removesuffix(".0").replace("-", MINUS)


def width(part: object, whole: object) -> str:
    """Return part of whole as a CSS percentage; "0%" where either is unknown."""
    share = shade(part, whole)
    return f"{100 * float(share):.4g}%" if share else "0%"


def shade(part: object, whole: object) -> str:
    """Return part of whole between 0 and 1 for CSS; empty where there is nothing to shade."""
    amount, total = known(part), known(whole)
    return f"{min(1.0, amount / total):.4g}" if amount and total and amount > 0 else ""
