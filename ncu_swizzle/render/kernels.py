"""Rows of many profiles and of many launches, as every output shows them; bars are drawn by the templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.render import text
from ncu_swizzle.reports import many_launches
from ncu_swizzle.reports.comparison import SHARED_PIPE, Comparison
from ncu_swizzle.reports.model import Profile

# All profiles at a glance: the page's first picture, and one row per profile if there are more than two.


FEWEST = 3  # with fewer, the picture has it all
MOST_BARS = 8  # profiles in the picture; of more, only those of the verdict


@dataclass(frozen=True, kw_only=True)
class OverviewRow:
    """One profile; `pace` is its speed relative to the first."""

    profile: Profile
    label: str
    excessive: str
    degree: str
    duration: str
    pace: str
    pipe: str


@dataclass(frozen=True, kw_only=True)
class Glance:
    """A row per profile; those in the picture, and the largest values of all, which bars are relative to."""

    rows: tuple[OverviewRow, ...]
    drawn: tuple[OverviewRow, ...]
    wavefronts: int
    slowest: float  # ns

    @property
    def timed(self) -> bool:
        return any(row.duration != text.UNKNOWN for row in self.drawn)


def glance(comparison: Comparison) -> Glance:
    """Return the rows of a comparison."""
    durations = [profile.duration_ns for profile in comparison.profiles]
    unit = text.time_unit(durations)
    rows = tuple(
        OverviewRow(
            profile=profile,
            label=label,
            excessive=text.summed(profile.total, "excessive"),
            degree=text.degree(profile.total.degree),
            duration=text.duration_text(profile.duration_ns, unit),
            pace=text.pace(durations[0], profile.duration_ns),
            pipe=text.percent(profile.number(SHARED_PIPE)),
        )
        for label, profile in comparison.named
    )
    return Glance(
        rows=rows,
        drawn=rows if len(rows) <= MOST_BARS else tuple(rows[number] for number in comparison.judged),
        wavefronts=max((profile.total.known.wavefronts or 0 for profile in comparison.profiles), default=0),
        slowest=max((ns or 0.0 for ns in durations), default=0.0),
    )


def overview(comparison: Comparison) -> tuple[OverviewRow, ...]:
    """Return one row per profile; none for one or two profiles."""
    return glance(comparison).rows if len(comparison.profiles) >= FEWEST else ()


# The table of many launches.


ARROW = " → "


@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """One launch, or a pair of launches: values that differ read "before → after"; bars are those of the `last`.

    `number` is the launch's number in its report.
    """

    last: Profile
    number: str
    name: str
    grid: str
    block: str
    duration: str
    excessive: str
    degree: str
    pace: str
    note: str


def rows(comparisons: Sequence[Comparison]) -> tuple[KernelRow, ...]:
    """Return one row per comparison, in order."""
    unit = text.time_unit(p.duration_ns for comparison in comparisons for p in comparison.profiles)
    return tuple(_row(comparison, unit) for comparison in comparisons)


def _row(comparison: Comparison, unit: text.TimeUnit) -> KernelRow:
    pair = comparison.profiles[:2]
    workload, label = comparison.profiles[-1].launch.workload, comparison.labels[0]
    notes = [workload] if workload != "kernel" else []
    if len(comparison.profiles) == 1 and comparison.title not in ("", label):
        notes.append(f"only in {label}")
    return KernelRow(
        last=pair[-1],
        number=_changed([str(p.launch.index) for p in pair]),
        name=comparison.title or comparison.labels[-1],
        grid=_changed([_short_dimensions(p.grid) for p in pair]),
        block=_changed([_short_dimensions(p.block) for p in pair]),
        duration=ARROW.join(text.duration_text(p.duration_ns, unit) for p in pair),
        excessive=ARROW.join(text.count(many_launches.excess(p)) for p in pair),
        degree=ARROW.join(text.degree(p.total.degree) if p.total.ideal else "-" for p in pair),
        pace=f"{comparison.speedup:.2f}×" if comparison.speedup else "",
        note=", ".join(notes),
    )


def _changed(values: Sequence[str]) -> str:
    """Return the value before and after; equal ones once."""
    return ARROW.join(dict.fromkeys(values))


def _short_dimensions(sizes: Sequence[int]) -> str:
    """Return a grid or block as 128x8, without trailing ones; "unknown" if any size is 0."""
    if not all(sizes):
        return text.UNKNOWN
    shown = list(sizes)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "x".join(map(str, shown))
