"""All profiles at a glance, one row each, if there are more than two."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import SHARED_PIPE, Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

FEWEST = 3  # the key figures cover one or two


@dataclass(frozen=True)
class OverviewRow:
    """One profile; `pace` is its speed relative to the first."""

    label: str
    excessive: str
    degree: str
    duration: str
    pace: str
    pipe: str
    excess_width: str
    time_width: str


def rows(comparison: Comparison) -> tuple[OverviewRow, ...]:
    """Return one row per profile; none for one or two profiles."""
    profiles = comparison.profiles
    if len(profiles) < FEWEST:
        return ()
    worst = max((profile.total.excessive or 0 for profile in profiles), default=0)
    slowest = max((profile.duration_ns or 0.0 for profile in profiles), default=0.0)
    return tuple(
        _row(label, profile, profiles[0], worst, slowest)
        for label, profile in zip(comparison.labels, profiles, strict=True)
    )


def _row(label: str, profile: Profile, first: Profile, worst: int, slowest: float) -> OverviewRow:
    total, ns = profile.total, profile.duration_ns
    return OverviewRow(
        label=label,
        excessive=text.count(total.excessive),
        degree=text.degree(total.degree),
        duration=text.duration(ns),
        pace=f"{first.duration_ns / ns:.2f}×" if ns and first.duration_ns else text.UNKNOWN,
        pipe=text.percent(profile.number(SHARED_PIPE)),
        excess_width=text.width(total.excessive, worst),
        time_width=text.width(ns, slowest),
    )
