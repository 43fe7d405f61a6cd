"""One bar per profile: its duration, divided as its warp samples are divided among the stall reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

MOST_BARS = 8
MOST_REASONS = 7  # with a colour of their own
OTHER = "other reasons"
NAMED, NUMBERED = 25.0, 18.0  # percent of the longest bar: wide enough for a number and a name, or a number, on a phone


@dataclass(frozen=True)
class Segment:
    """One reason's part of a bar; `colour` is its number in the key, `label` is empty if the part is narrow."""

    colour: int
    width: str
    label: str
    title: str


@dataclass(frozen=True)
class StallBar:
    """One profile's duration, and its parts."""

    label: str
    duration: str
    samples: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
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
        if (duration := text.finite(profile.duration_ns)) and sum(profile.stalls.values()) > 0
    ]
    if not timed:
        return None
    shown = timed[:MOST_BARS]
    reasons = _reasons([(profile, duration) for _, profile, duration in shown])
    longest = max(duration for _, _, duration in shown)
    return StallBars(
        bars=tuple(_bar(label, profile, duration, reasons, longest) for label, profile, duration in shown),
        reasons=reasons,
        unit=text.time_unit([longest]).name,
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
    return StallBar(label, text.duration(duration, text.time_unit([longest])), samples, tuple(segments))


def _segment(colour: int, reason: str, time: float, longest: float) -> Segment:
    unit, share = text.time_unit([longest]), 100 * time / longest
    shown = unit.show(time)
    label = f"{shown} {reason}" if share >= NAMED else shown if share >= NUMBERED else ""
    return Segment(colour, text.width(time, longest), label, f"{reason}: {shown} {unit.name}")
