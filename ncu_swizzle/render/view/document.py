"""What a report shows, ready to be laid out: every text is final, every width and shade is computed.

Built from a `Comparison` before any markup exists, so that the templates only lay out and a test can look at the
figures without reading HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.profiles import many_launches
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.render.view import (
    banks,
    data,
    findings,
    instructions,
    kernels,
    lacking,
    mix,
    overview,
    source,
    stalls,
    summary,
    tables,
    tma,
)
from ncu_swizzle.render.view.banks import TilesOf
from ncu_swizzle.render.view.instructions import InstructionTable
from ncu_swizzle.render.view.source import Highlight

__all__ = ["Page", "Part", "Report", "build", "build_page"]

MOST_PARTS = 8  # kernels in full on one page


@dataclass(frozen=True)
class Report:
    """A whole report, section by section in the order of the page."""

    title: str
    labels: tuple[str, ...]
    verdict: str
    computed: tuple[str, ...]
    recorded: tuple[str, ...]
    warnings: tuple[str, ...]
    conditions: str
    figures: tuple[summary.Figure, ...]
    overview: tuple[overview.Row, ...]
    facts: tuple[summary.Fact, ...]
    launches: tuple[summary.Launch, ...]
    metrics: tuple[tables.MetricRow, ...]
    accesses: tuple[tables.AccessKind, ...]
    phantoms: tuple[tables.Phantom, ...]
    tma: tuple[tma.Counter, ...]
    mix: mix.Section | None
    stalls: stalls.Stalls
    panels: tuple[source.Panel, ...]
    minor_files: tuple[str, ...]
    instructions: tuple[InstructionTable, ...]
    foreign: tuple[findings.Foreign, ...]
    findings: tuple[findings.Group, ...]
    raw: tuple[tables.RawRow, ...]
    banks: banks.Section | None
    data: data.Section
    lacks: tuple[lacking.Lack, ...] = ()
    prefix: str = ""  # of the names that links of its section go to, on a page of several

    @property
    def compares(self) -> bool:
        """Whether there is a second profile to hold against the first."""
        return len(self.labels) > 1

    @property
    def worst(self) -> source.Jump | None:
        """The worst source line of all, if any line has counts."""
        return next((jump for panel in self.panels for jump in panel.worst), None)


def build(comparison: Comparison, highlight: Highlight, tiles_of: TilesOf, prefix: str = "") -> Report:
    """Return what the report of this comparison shows; `highlight` splits a source into lines of tokens."""
    facts = summary.facts(comparison)
    panels, minor_files = source.panels(comparison, highlight, prefix)
    return Report(
        title=" → ".join(comparison.labels[:2]),
        labels=comparison.labels,
        verdict=comparison.verdict,
        computed=summary.computed(comparison),
        recorded=summary.recorded(comparison),
        warnings=comparison.warnings,
        conditions=summary.conditions(facts),
        figures=summary.figures(comparison),
        overview=overview.rows(comparison),
        facts=facts,
        launches=summary.launches(comparison),
        metrics=tables.metrics(comparison),
        accesses=tables.accesses(comparison),
        phantoms=tables.phantoms(comparison),
        tma=tma.counters(comparison),
        mix=mix.section(comparison),
        stalls=stalls.stalls(comparison),
        panels=panels,
        minor_files=minor_files,
        instructions=instructions.tables(comparison),
        foreign=findings.foreign(comparison),
        findings=findings.groups(comparison),
        raw=tables.raw(comparison),
        banks=banks.section(comparison, tiles_of),
        data=data.section({prefix: comparison}),
        lacks=lacking.lacks(comparison),
        prefix=prefix,
    )


@dataclass(frozen=True)
class Part:
    """One kernel of many, in full."""

    anchor: str
    name: str
    summary: str
    report: Report


@dataclass(frozen=True)
class Page:
    """Many kernels: a row for each, and the worst in full."""

    title: str
    verdict: str
    notes: tuple[str, ...]
    recorded: bool
    compares: bool
    rows: tuple[kernels.Row, ...]
    parts: tuple[Part, ...]
    data: data.Section


def build_page(
    comparisons: Sequence[Comparison],
    notes: Sequence[str],
    title: str,
    highlight: Highlight,
    tiles_of: TilesOf,
    most: int = MOST_PARTS,
) -> Page:
    """Return what the page of several comparisons shows, at most so many of them in full."""
    places = many_launches.worst(comparisons, most)
    rows = kernels.rows(comparisons, places)
    prefixes = {place: f"{kernels.anchor(place)}-" for place in places}
    return Page(
        title=title,
        verdict=many_launches.verdict(comparisons),
        notes=tuple(notes),
        recorded=any(p.engine == "recorded" for one in comparisons for p in one.profiles),
        compares=any(len(one.profiles) > 1 for one in comparisons),
        rows=rows,
        parts=tuple(
            Part(
                rows[place].anchor,
                rows[place].name,
                _summary(rows[place]),
                build(comparisons[place], highlight, tiles_of, prefix),
            )
            for place, prefix in prefixes.items()
        ),
        data=data.section({prefix: comparisons[place] for place, prefix in prefixes.items()}),
    )


def _summary(row: kernels.Row) -> str:
    return f"launch {row.number}, grid {row.grid}, block {row.block}, {row.duration} ms, {row.excessive} excessive"
