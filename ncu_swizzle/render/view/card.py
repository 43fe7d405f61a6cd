"""Profiles in a notebook: one compact table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import Comparison, compare
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import tables, text
from ncu_swizzle.render.view.summary import ENGINES

MOST_ROWS = 50  # a notebook cell lists the first launches only


@dataclass(frozen=True)
class CardRow:
    """One profile; `origin` says which engine produced its numbers, on which GPU, and when."""

    label: str
    grid: str
    duration: str
    excessive: str
    degree: str
    origin: str
    bad: bool


@dataclass(frozen=True)
class NotebookCard:
    """The profiles, and of a comparison its verdict and access table; `more` counts the profiles left out."""

    title: str
    verdict: str
    warnings: tuple[str, ...]
    rows: tuple[CardRow, ...]
    more: int
    accesses: tuple[tables.AccessKind, ...]


def card(profiles: Sequence[Profile], comparison: Comparison | None = None) -> NotebookCard:
    """Return what a notebook shows of a comparison, a single profile, or a list of profiles."""
    if comparison is None and len(profiles) == 1:
        comparison = compare(profiles)
    labels = comparison.labels if comparison else tuple(f"[{n}] {p.kernel.name}" for n, p in enumerate(profiles))
    rows = [_row(label, profile) for label, profile in zip(labels, profiles, strict=True)]
    return NotebookCard(
        title=" → ".join(labels[number] for number in comparison.judged) if comparison else f"{len(profiles)} profiles",
        verdict=comparison.verdict if comparison else "",
        warnings=comparison.warnings if comparison else (),
        rows=tuple(rows[:MOST_ROWS]),
        more=max(0, len(rows) - MOST_ROWS),
        accesses=tables.accesses(comparison) if comparison else (),
    )


def _row(label: str, profile: Profile) -> CardRow:
    total = profile.total
    origin = [ENGINES.get(profile.engine, profile.engine), profile.machine.gpu, profile.when[:10]]
    return CardRow(
        label=label,
        grid=text.dimensions(profile.grid),
        duration=text.duration(profile.duration_ns),
        excessive=text.count(total.excessive),
        degree=text.degree(total.degree),
        origin=", ".join(part for part in origin if part),
        bad=bool(total.excessive),
    )
