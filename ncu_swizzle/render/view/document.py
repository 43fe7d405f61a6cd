"""The view data of a whole page: one comparison in full, or a list of kernels with the worst in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.profiles import many_launches
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.render.view import (
    banks,
    data,
    findings,
    fragments,
    instructions,
    kernels,
    lacking,
    mix,
    overview,
    source,
    stall_bars,
    stalls,
    summary,
    tables,
    tma,
    units,
)
from ncu_swizzle.render.view.banks import TilesOf
from ncu_swizzle.render.view.excerpt import Highlight
from ncu_swizzle.render.view.instructions import InstructionTable

MOST_PARTS = 8  # kernels shown in full on one page


@dataclass(frozen=True)
class Report:
    """A whole report, section by section in page order."""

    title: str
    labels: tuple[str, ...]
    judged: tuple[str, ...]  # the labels of the profiles that the verdict is about
    verdict: str
    headline: str
    state: str
    setting: str
    glance: overview.Glance
    computed: tuple[str, ...]
    recorded: tuple[str, ...]
    warnings: tuple[str, ...]
    asides: tuple[str, ...]  # those of the warnings that cast no doubt on the figures
    conditions: str
    figures: tuple[summary.KeyFigure, ...]
    overview: tuple[overview.OverviewRow, ...]
    facts: tuple[summary.Fact, ...]
    launches: tuple[summary.LaunchSummary, ...]
    metrics: tuple[tables.MetricRow, ...]
    accesses: tuple[tables.AccessKind, ...]
    phantoms: tuple[tables.Phantom, ...]
    wgmma: tuple[tma.Counter, ...]
    tma: tuple[tma.Counter, ...]
    mix: mix.MixSection | None
    stalls: stalls.Stalls
    stall_bars: stall_bars.StallBars | None
    units: units.UnitSection | None
    fragments: tuple[fragments.FragmentShape, ...]
    panels: tuple[source.Panel, ...]
    minor_files: tuple[str, ...]
    instructions: tuple[InstructionTable, ...]
    foreign: tuple[findings.Foreign, ...]
    findings: tuple[findings.FindingGroup, ...]
    raw: tuple[tables.RawRow, ...]
    banks: banks.BankSection | None
    data: data.DataSection
    lacks: tuple[lacking.Lack, ...] = ()
    prefix: str = ""  # of the section's link targets, on a page of several kernels

    @property
    def compares(self) -> bool:
        """Whether there is a second profile to compare with the first."""
        return len(self.labels) > 1

    @property
    def others(self) -> tuple[str, ...]:
        """The labels of the profiles that the verdict is not about."""
        return tuple(label for label in self.labels if label not in self.judged)

    @property
    def doubts(self) -> tuple[str, ...]:
        """The warnings to read before the figures."""
        return tuple(warning for warning in self.warnings if warning not in self.asides)

    @property
    def worst(self) -> source.Jump | None:
        """The worst source line overall, if any line has counts."""
        return next((jump for panel in self.panels for jump in panel.worst), None)


def build(comparison: Comparison, highlight: Highlight, tiles_of: TilesOf, prefix: str = "") -> Report:
    """Return the view data of a comparison; `highlight` splits a source into lines of tokens."""
    facts = summary.facts(comparison)
    judged = tuple(comparison.labels[number] for number in comparison.judged)
    panels, minor_files = source.panels(comparison, highlight, prefix)
    return Report(
        title=" → ".join(judged),
        labels=comparison.labels,
        judged=judged,
        verdict=comparison.verdict,
        headline=comparison.headline,
        state=summary.state(comparison),
        setting=summary.setting(comparison),
        glance=overview.glance(comparison),
        computed=summary.computed(comparison),
        recorded=summary.recorded(comparison),
        warnings=comparison.warnings,
        asides=comparison.asides,
        conditions=summary.conditions(facts),
        figures=summary.figures(comparison),
        overview=overview.rows(comparison),
        facts=facts,
        launches=summary.launches(comparison),
        metrics=tables.metrics(comparison),
        accesses=tables.accesses(comparison),
        phantoms=tables.phantoms(comparison),
        tma=tma.counters(comparison),
        wgmma=tma.of_wgmma(comparison),
        mix=mix.section(comparison),
        stalls=stalls.stalls(comparison),
        stall_bars=stall_bars.bars(comparison),
        units=units.section(comparison),
        fragments=fragments.section(comparison),
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
    """One of many kernels, shown in full."""

    anchor: str
    name: str
    summary: str
    report: Report


@dataclass(frozen=True)
class KernelsPage:
    """Many kernels: one row each, and the worst in full."""

    title: str
    verdict: str
    notes: tuple[str, ...]
    recorded: bool
    compares: bool
    rows: tuple[kernels.KernelRow, ...]
    parts: tuple[Part, ...]
    data: data.DataSection


def build_page(
    comparisons: Sequence[Comparison],
    notes: Sequence[str],
    title: str,
    highlight: Highlight,
    tiles_of: TilesOf,
    most: int = MOST_PARTS,
) -> KernelsPage:
    """Return the view data of several comparisons, at most `most` of them in full."""
    detailed = many_launches.worst(comparisons, most)
    rows = kernels.rows(comparisons, detailed)
    prefixes = {index: f"{kernels.anchor(index)}-" for index in detailed}
    return KernelsPage(
        title=title,
        verdict=many_launches.verdict(comparisons),
        notes=tuple(notes),
        recorded=any(profile.engine == "recorded" for each in comparisons for profile in each.profiles),
        compares=any(len(each.profiles) > 1 for each in comparisons),
        rows=rows,
        parts=tuple(
            Part(
                rows[index].anchor,
                rows[index].name,
                _summary(rows[index]),
                build(comparisons[index], highlight, tiles_of, prefix),
            )
            for index, prefix in prefixes.items()
        ),
        data=data.section({prefix: comparisons[index] for index, prefix in prefixes.items()}),
    )


def _summary(row: kernels.KernelRow) -> str:
    return f"launch {row.number}, grid {row.grid}, block {row.block}, {row.duration}, {row.excessive} excessive"
