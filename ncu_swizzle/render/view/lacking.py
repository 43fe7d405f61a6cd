"""What a report lacks for a complete page, and the ncu command that collects it."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.profiles import recollect
from ncu_swizzle.profiles.comparison import METRICS, Comparison
from ncu_swizzle.profiles.model import DURATION, EXECUTED, IDEAL, STALLED, WAVEFRONTS, Profile

# What cannot be shown without each required metric.
MEANINGS = {
    WAVEFRONTS: "wavefronts per instruction and source line",
    IDEAL: "ideal wavefronts, hence excess and degree",
    EXECUTED: "execution count per instruction",
    DURATION: "the duration",
    STALLED + "selected": "warp stall samples per source line",
}


@dataclass(frozen=True)
class Lack:
    """What one profile's report lacks; `figures` are the missing rows of its metric table."""

    label: str
    metrics: tuple[tuple[str, str], ...]  # ncu's name, and what cannot be shown without it
    figures: tuple[str, ...]
    command: str


def lacks(comparison: Comparison) -> tuple[Lack, ...]:
    """Return what each profile lacks; profiles with every required metric are skipped."""
    named = zip(comparison.labels, comparison.profiles, strict=True)
    return tuple(_lack(label, profile) for label, profile in named if profile.missing)


def _lack(label: str, profile: Profile) -> Lack:
    return Lack(
        label,
        tuple((name, MEANINGS[name]) for name in profile.missing),
        tuple(title for title, _, get in METRICS if get(profile) is None),
        recollect.command(profile),
    )
