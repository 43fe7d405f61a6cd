"""All profiles at a glance: the page's first picture, and one row per profile if there are more than two."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import SHARED_PIPE, Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

FEWEST = 3  # with fewer, the picture has it all
MOST_BARS = 8  # profiles in the picture; of more, only those of the verdict


@dataclass(frozen=True)
class OverviewRow:
    """One profile; `pace` is its speed relative to the first. Bars are relative to the longest of all rows."""

    label: str
    excessive: str
    degree: str
    duration: str
    pace: str
    pipe: str
    ideal_width: str
    excess_width: str
    time_width: str
    bad: bool


@dataclass(frozen=True)
class Glance:
    """The picture: a bar of ideal and excessive wavefronts and a bar of time per profile; `more` are left out."""

    rows: tuple[OverviewRow, ...]
    timed: bool
    more: int


def glance(comparison: Comparison) -> Glance:
    """Return the picture of a comparison."""
    rows = _rows(comparison)
    shown = rows if len(rows) <= MOST_BARS else tuple(rows[number] for number in comparison.judged)
    return Glance(shown, any(row.duration != text.UNKNOWN for row in shown), len(rows) - len(shown))


def rows(comparison: Comparison) -> tuple[OverviewRow, ...]:
    """Return one row per profile; none for one or two profiles."""
    return _rows(comparison) if len(comparison.profiles) >= FEWEST else ()


@dataclass(frozen=True)
class _Scale:
    """What bars are relative to, and the unit of durations."""

    first: Profile
    wavefronts: int
    slowest: float
    unit: text.TimeUnit


def _rows(comparison: Comparison) -> tuple[OverviewRow, ...]:
    profiles = comparison.profiles
    durations = [profile.duration_ns for profile in profiles]
    scale = _Scale(
        profiles[0],
        max((_least(profile, "wavefronts") or 0 for profile in profiles), default=0),
        max((ns or 0.0 for ns in durations), default=0.0),
        text.time_unit(durations),
    )
    return tuple(_row(label, p, scale) for label, p in zip(comparison.labels, profiles, strict=True))


def _least(profile: Profile, name: str) -> int | None:
    """Return a count over all accesses; if some are unknown, over the others."""
    total = profile.total
    count: int | None = getattr(total, name)
    return getattr(total.counted, name) if count is None and total.counted else count


def _row(label: str, profile: Profile, scale: _Scale) -> OverviewRow:
    total, ns, first = profile.total, profile.duration_ns, scale.first.duration_ns
    wavefronts, excess = _least(profile, "wavefronts") or 0, _least(profile, "excessive")
    return OverviewRow(
        label=label,
        excessive=text.counted(total.excessive, excess),
        degree=text.degree(total.degree),
        duration=text.duration(ns, scale.unit),
        pace=f"{first / ns:.2f}×" if ns and first else text.UNKNOWN,
        pipe=text.percent(profile.number(SHARED_PIPE)),
        ideal_width=text.width(wavefronts - (excess or 0), scale.wavefronts),
        excess_width=text.width(excess, scale.wavefronts),
        time_width=text.width(ns, scale.slowest),
        bad=bool(excess),
    )
