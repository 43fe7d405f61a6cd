"""A few profiles as a notebook shows them: one compact table, no page around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import Comparison, compare
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import tables, text
from ncu_swizzle.render.view.summary import ENGINES

MOST_ROWS = 50  # a notebook's cell is no page; a report of more kernels is shown by its first ones


@dataclass(frozen=True)
class Row:
    """One profile; where it ran and where its figures come from are in `origin`."""

    label: str
    grid: str
    duration: str
    excessive: str
    degree: str
    origin: str
    bad: bool


@dataclass(frozen=True)
class Card:
    """The profiles, what they say together, and their accesses where they are few."""

    title: str
    verdict: str
    warnings: tuple[str, ...]
    rows: tuple[Row, ...]
    more: int
    accesses: tuple[tables.AccessKind, ...]


def card(profiles: Sequence[Profile], comparison: Comparison | None = None) -> Card:
    """Return what a notebook shows of a comparison, of a single profile, or of a mere list."""
    if comparison is None and len(profiles) == 1:
        comparison = compare(profiles)
    labels = comparison.labels if comparison else tuple(f"[{n}] {p.kernel.name}" for n, p in enumerate(profiles))
    rows = [_row(label, profile) for label, profile in zip(labels, profiles, strict=True)]
    return Card(
        title=" → ".join(labels[:2]) if comparison else f"{len(profiles)} profiles",
        verdict=comparison.verdict if comparison else "",
        warnings=comparison.warnings if comparison else (),
        rows=tuple(rows[:MOST_ROWS]),
        more=max(0, len(rows) - MOST_ROWS),
        accesses=tables.accesses(comparison) if comparison else (),
    )


def _row(label: str, profile: Profile) -> Row:
    total, ns = profile.total, text.known(profile.duration_ns)
    where = [ENGINES.get(profile.engine, profile.engine), profile.machine.gpu, profile.when[:10]]
    return Row(
        label=label,
        grid=" × ".join(f"{size:,}" for size in profile.grid) if all(profile.grid) else text.UNKNOWN,
        duration=text.UNKNOWN if ns is None else f"{text.fixed(ns * 1e-6, 3)} ms",
        excessive=text.count(total.excessive),
        degree=text.degree(total.degree),
        origin=", ".join(part for part in where if part),
        bad=bool(total.excessive),
    )
