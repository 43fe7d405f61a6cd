"""What a report shows, ready to be laid out: every text is final, every width and shade is computed.

Built from a `Comparison` before any markup exists, so that the templates only lay out and a test can look at the
figures without reading HTML.
"""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.compare import Comparison
from ncu_swizzle.view import banks, data, instructions, mix, overview, source, stalls, summary, tables, tma
from ncu_swizzle.view.instructions import InstructionTable
from ncu_swizzle.view.source import Highlight

__all__ = ["Report", "build"]


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
    findings: tuple[tables.FindingRow, ...]
    raw: tuple[tables.RawRow, ...]
    banks: banks.Section | None
    data: data.Section

    @property
    def compares(self) -> bool:
        """Whether there is a second profile to hold against the first."""
        return len(self.labels) > 1

    @property
    def worst(self) -> source.Jump | None:
        """The worst source line of all, if any line has counts."""
        return next((jump for panel in self.panels for jump in panel.worst), None)


def build(comparison: Comparison, highlight: Highlight) -> Report:
    """Return what the report of this comparison shows; `highlight` splits a source into lines of tokens."""
    facts = summary.facts(comparison)
    panels, minor_files = source.panels(comparison, highlight)
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
        findings=tables.findings(comparison),
        raw=tables.raw(comparison),
        banks=banks.section(comparison),
        data=data.section(comparison),
    )
