"""All profiles at a glance, one row each: what a page begins with where there are more than two."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import SHARED_PIPE, Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

FEWEST = 3  # two are told by the key figures


@dataclass(frozen=True)
class Row:
    """One profile; `pace` is its speed, the first one's being 1."""

    label: str
    excessive: str
    degree: str
    duration: str
    pace: str
    pipe: str
    excess_width: str
    time_width: str


def rows(comparison: Comparison) -> tuple[Row, ...]:
    """Return a row per profile; nothing for one or two."""
    profiles = comparison.profiles
    if len(profiles) < FEWEST:
        return ()
    worst = max((profile.total.excessive or 0 for profile in profiles), default=0)
    slowest = max((profile.duration_ns or 0.0 for profile in profiles), default=0.0)
    return tuple(
        _row(label, profile, profiles[0], worst, slowest)
        for label, profile in zip(comparison.labels, profiles, strict=True)
    )


def _row(label: str, profile: Profile, first: Profile, worst: int, slowest: float) -> Row:
    total, ns = profile.total, profile.duration_ns
    return Row(
        label=label,
        excessive=text.count(total.excessive),
        degree=text.degree(total.degree),
        duration=text.UNKNOWN if ns is None else f"{text.fixed(ns * 1e-6, 3)} ms",
        pace=f"{first.duration_ns / ns:.2f}×" if ns and first.duration_ns else text.UNKNOWN,
        pipe=text.percent(profile.number(SHARED_PIPE)),
        excess_width=text.width(total.excessive, worst),
        time_width=text.width(ns, slowest),
    )
