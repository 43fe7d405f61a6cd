"""What a report would need to have for every figure of the page, and the command that collects it."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.profiles import recollect
from ncu_swizzle.profiles.comparison import METRICS, Comparison
from ncu_swizzle.profiles.model import DURATION, EXECUTED, IDEAL, STALLED, WAVEFRONTS, Profile

# What cannot be shown without a metric that every figure rests on.
MEANINGS = {
    WAVEFRONTS: "wavefronts of each instruction and source line",
    IDEAL: "ideal wavefronts, and with them excess and degree",
    EXECUTED: "how often each instruction was executed",
    DURATION: "the duration",
    STALLED + "selected": "what warps were doing, by source line",
}


@dataclass(frozen=True)
class Lack:
    """What one profile's report has not; `figures` are the rows that the table of metrics lacks for it."""

    label: str
    metrics: tuple[tuple[str, str], ...]  # ncu's name, and what cannot be shown without it
    figures: tuple[str, ...]
    command: str


def lacks(comparison: Comparison) -> tuple[Lack, ...]:
    """Return what each profile lacks; nothing of those whose report has all that figures rest on."""
    named = zip(comparison.labels, comparison.profiles, strict=True)
    return tuple(_lack(label, profile) for label, profile in named if profile.missing)


def _lack(label: str, profile: Profile) -> Lack:
    return Lack(
        label,
        tuple((name, MEANINGS[name]) for name in profile.missing),
        tuple(title for title, _, get in METRICS if get(profile) is None),
        recollect.command(profile),
    )
