"""How many warp samples shares rest on, and whether they are too few to show as measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real

from ncu_swizzle.reports import pack
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.remarks import MICROSECONDS

# Format numbers for a report; anything but a finite number reads "unknown".


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


def duration_text(nanoseconds: object, unit: TimeUnit | None = None) -> str:
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


# One bar per profile: its duration, divided as its warp samples are divided among the stall reasons.


MOST_BARS = 8
MOST_REASONS = 7  # with a colour of their own
OTHER = "other reasons"
NAMED, NUMBERED = 25.0, 18.0  # percent of the longest bar: wide enough for a number and a name, or a number, on a phone


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One reason's part of a bar; `colour` is its number in the key, `label` is empty if the part is narrow."""

    colour: int
    width: str
    label: str
    title: str


@dataclass(frozen=True, kw_only=True)
class StallBar:
    """One profile's duration, and its parts."""

    label: str
    duration: str
    samples: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, kw_only=True)
class StallBars:
    """The bars, on one scale, and the reasons in the order of their colours."""

    bars: tuple[StallBar, ...]
    reasons: tuple[str, ...]
    unit: str  # of the parts' times
    left_out: int  # profiles beyond those that are drawn


def bars(comparison: Comparison) -> StallBars | None:
    """Return the bars of the profiles with samples and a duration; None if none has both."""
    timed = [
        (label, profile, duration)
        for label, profile in zip(comparison.labels, comparison.profiles, strict=True)
        if (duration := finite(profile.duration_ns)) and sum(profile.stalls.values()) > 0
    ]
    if not timed:
        return None
    shown = timed[:MOST_BARS]
    reasons = _reasons([(profile, duration) for _, profile, duration in shown])
    longest = max(duration for _, _, duration in shown)
    return StallBars(
        bars=tuple(_bar(label, profile, duration, reasons, longest) for label, profile, duration in shown),
        reasons=reasons,
        unit=time_unit([longest]).name,
        left_out=len(timed) - len(shown),
    )


def _reasons(timed: Sequence[tuple[Profile, float]]) -> tuple[str, ...]:
    """Return the reasons with a colour, those that take the most time in any profile, and then all others as one."""
    most: Counter[str] = Counter()
    for profile, duration in timed:
        for reason, time in _times(profile, duration).items():
            most[reason] = max(most[reason], round(time))
    named = [reason for reason, time in most.most_common(MOST_REASONS) if time]
    return (*named, OTHER) if len(named) < sum(time > 0 for time in most.values()) else tuple(named)


def _times(profile: Profile, duration: float) -> dict[str, float]:
    """Return the part of the duration, in ns, that has the reason's share of the samples."""
    samples = sum(profile.stalls.values())
    return {reason: duration * count / samples for reason, count in profile.stalls.items()}


def _bar(label: str, profile: Profile, duration: float, reasons: tuple[str, ...], longest: float) -> StallBar:
    times = _times(profile, duration)
    named = [times.get(reason, 0.0) for reason in reasons]
    if reasons[-1] == OTHER:
        named[-1] = duration - sum(named[:-1])
    segments = (
        _segment(colour, reason, time, longest)
        for colour, (reason, time) in enumerate(zip(reasons, named, strict=True))
        if time > 0
    )
    samples = f"{sum(profile.stalls.values()):,} samples"
    return StallBar(
        label=label, duration=duration_text(duration, time_unit([longest])), samples=samples, segments=tuple(segments)
    )


def _segment(colour: int, reason: str, time: float, longest: float) -> Segment:
    unit, share = time_unit([longest]), 100 * time / longest
    shown = unit.show(time)
    label = f"{shown} {reason}" if share >= NAMED else shown if share >= NUMBERED else ""
    return Segment(colour=colour, width=width(time, longest), label=label, title=f"{reason}: {shown} {unit.name}")


@dataclass(frozen=True)
class Sampled:
    """A profile's number of warp samples, as text; `few` if its shares are no more than an indication."""

    label: str
    samples: int
    few: bool

    @property
    def counted(self) -> str:
        return f"n = {count(self.samples)}" if self.samples else ""


def few(samples: int) -> bool:
    """Return whether shares of so many samples are too uncertain to reason from; without samples there are none."""
    return 0 < samples < least()


def least() -> int:
    """Return the number of samples from which the rule pack reasons."""
    return int(pack.pack("facts").FEW_SAMPLES)


def sampled(comparison: Comparison) -> tuple[Sampled, ...]:
    """Return each profile's number of warp samples."""
    counts = [sum(profile.stalls.values()) for profile in comparison.profiles]
    return tuple(Sampled(label, n, few(n)) for label, n in zip(comparison.labels, counts, strict=True))


def caution(counts: tuple[Sampled, ...]) -> str:
    """Return a sentence naming the profiles with too few samples; empty if all have enough."""
    names = [f"{each.label} ({count(each.samples)})" for each in counts if each.few]
    if not names:
        return ""
    return f"Fewer than {least()} warp samples, too few to tell where warps stall: {listed(names)}."
