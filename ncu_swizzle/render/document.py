"""The view data of a whole page: one comparison in full, or a list of kernels with the worst in full."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.base.files import slug
from ncu_swizzle.render import banks, kernels, mix, pipes, source, summary, tables, text
from ncu_swizzle.render.banks import TilesOf
from ncu_swizzle.render.fragments import FragmentShape, fragment_section
from ncu_swizzle.render.mix import FindingGroup, Foreign, foreign, groups
from ncu_swizzle.render.source import Highlight
from ncu_swizzle.render.tables import Stalls
from ncu_swizzle.render.tables import stalls as stall_tables
from ncu_swizzle.reports import many_launches, remarks
from ncu_swizzle.reports.comparison import METRICS, Comparison
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import DURATION, EXECUTED, IDEAL, STALLED, WAVEFRONTS, Profile

# The shared-memory instructions of a report.


MOST_ROWS = 3_000  # of all profiles together
MOST_FRAMES = 30  # of an instruction's lines
# Not a stall: the warp issued.
NOT_STALLED = frozenset({"selected"})


@dataclass(frozen=True, kw_only=True)
class InstructionRow:
    """One instruction; `source` is its line and the lines it was inlined into, `heat` a shade from 0 to 1.

    `few` if the share of its top stall rests on too few samples.
    """

    offset: str
    sass: str
    source: str
    executed: str
    wavefronts: str
    ideal: str
    excessive: str
    degree: str
    samples: str
    stall: str
    heat: str
    few: bool


@dataclass(frozen=True)
class InstructionTable:
    """One profile's shared-memory instructions, worst first."""

    label: str
    rows: tuple[InstructionRow, ...]
    left_out: int = 0


def instruction_tables(comparison: Comparison) -> tuple[InstructionTable, ...]:
    """Return a table of shared-memory instructions for each profile that has any: the worst, if there are many."""
    named = zip(comparison.labels, comparison.profiles, strict=True)
    all_tables = (_table(label, profile, MOST_ROWS // len(comparison.profiles)) for label, profile in named)
    return tuple(table for table in all_tables if table.rows)


def _table(label: str, profile: Profile, room: int) -> InstructionTable:
    start = min((i.pc for i in profile.instructions), default=0)
    accesses = sorted(
        (i for i in profile.instructions if i.access),
        key=lambda i: (-(i.excessive or 0), -(i.wavefronts or 0), i.pc),
    )
    most = max((i.excessive or 0 for i in accesses), default=0)
    rows = tuple(_instruction(i, start, most) for i in accesses[:room])
    return InstructionTable(label, rows, len(accesses) - len(rows))


def _source(instruction: Instruction) -> str:
    shown = [f"{text.cut(file)}:{line}" for file, line in instruction.stack[:MOST_FRAMES]]
    more = len(instruction.stack) - len(shown)
    return " ← ".join([*shown, f"{more} more"] if more else shown)


def _instruction(instruction: Instruction, start: int, most_excess: int) -> InstructionRow:
    stalled = {reason: n for reason, n in instruction.samples.items() if reason not in NOT_STALLED and n}
    samples = sum(instruction.samples.values())
    top = max(stalled, key=lambda reason: (stalled[reason], reason), default="")
    return InstructionRow(
        offset=f"0x{instruction.pc - start:04x}",
        sass=text.cut(instruction.sass),
        source=_source(instruction),
        executed=text.count(instruction.executed),
        wavefronts=text.count(instruction.wavefronts),
        ideal=text.count(instruction.ideal),
        excessive=text.count(instruction.excessive),
        degree="" if instruction.wavefronts == 0 else text.degree(instruction.degree),
        samples=text.count(samples),
        stall=f"{top} {text.percent(100 * stalled[top] / samples)}" if top else "",
        heat=text.shade(instruction.excessive, most_excess),
        few=text.few(samples),
    )


# The profiles embedded in a page: compressed, as they are most of it otherwise.


MOST_BYTES = 1_200_000  # all profiles together, packed: a page should stay small enough to e-mail


@dataclass(frozen=True)
class Stored:
    """One profile as saved; `key` is its label, behind its section's prefix on a page of several kernels.

    `packed` is Base64 of gzip of the saved JSON, which the page's script unpacks.
    """

    key: str
    file: str
    packed: str


@dataclass(frozen=True)
class DataSection:
    """The profiles that the page embeds, and the names of those left out because of their size."""

    stored: tuple[Stored, ...]
    left_out: tuple[str, ...]


def section(comparisons: Mapping[str, Comparison]) -> DataSection:
    """Return the profiles of the comparisons (keyed by section prefix), in order, as long as they fit."""
    named = [
        (prefix, label if each.title in ("", label) else f"{each.title} {label}", label, profile)
        for prefix, each in comparisons.items()
        for label, profile in zip(each.labels, each.profiles, strict=True)
    ]
    stored: list[Stored] = []
    room = MOST_BYTES
    for prefix, name, label, profile in named:
        packed = _packed(profile)
        room -= len(packed)
        if room < 0:
            break
        stored.append(Stored(f"{prefix}{label}", f"{slug(name)}.json", packed))
    return DataSection(tuple(stored), tuple(name for _, name, _, _ in named[len(stored) :]))


def _packed(profile: Profile) -> str:
    """Return the saved profile, packed; without a time stamp, so that the same profile gives the same text."""
    return base64.b64encode(gzip.compress(profile.to_json().encode(), mtime=0)).decode()


# What a report lacks for a complete page, and the ncu command that collects it.


# What cannot be shown without each required metric.
MEANINGS = {
    WAVEFRONTS: "wavefronts per instruction and source line",
    IDEAL: "ideal wavefronts, hence excess and degree",
    EXECUTED: "execution count per instruction",
    DURATION: "the duration",
    STALLED + "selected": "warp stall samples per source line",
}


@dataclass(frozen=True, kw_only=True)
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
        label=label,
        metrics=tuple((name, MEANINGS[name]) for name in profile.missing),
        figures=tuple(title for title, _, get in METRICS if get(profile) is None),
        command=remarks.command(profile),
    )


MOST_PARTS = 8  # kernels shown in full on one page


@dataclass(frozen=True, kw_only=True)
class Report:
    """A whole report, section by section in page order."""

    title: str
    labels: tuple[str, ...]
    judged: tuple[str, ...]  # the labels of the profiles that the verdict is about
    verdict: str
    headline: str
    state: str
    setting: str
    glance: kernels.Glance
    computed: tuple[str, ...]
    recorded: tuple[str, ...]
    warnings: tuple[str, ...]
    asides: tuple[str, ...]  # those of the warnings that cast no doubt on the figures
    conditions: str
    figures: tuple[summary.KeyFigure, ...]
    overview: tuple[kernels.OverviewRow, ...]
    facts: tuple[summary.Fact, ...]
    launches: tuple[summary.LaunchSummary, ...]
    metrics: tuple[tables.MetricRow, ...]
    accesses: tuple[tables.AccessKind, ...]
    phantoms: tuple[tables.Phantom, ...]
    wgmma: tuple[pipes.Counter, ...]
    tma: tuple[pipes.Counter, ...]
    mix: mix.MixSection | None
    stalls: Stalls
    stall_bars: text.StallBars | None
    units: pipes.UnitSection | None
    fragments: tuple[FragmentShape, ...]
    panels: tuple[source.Panel, ...]
    minor_files: tuple[str, ...]
    instructions: tuple[InstructionTable, ...]
    foreign: tuple[Foreign, ...]
    findings: tuple[FindingGroup, ...]
    raw: tuple[tables.RawRow, ...]
    banks: banks.BankSection | None
    data: DataSection
    lacks: tuple[Lack, ...] = ()
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
        glance=kernels.glance(comparison),
        computed=summary.computed(comparison),
        recorded=summary.recorded(comparison),
        warnings=comparison.warnings,
        asides=comparison.asides,
        conditions=summary.conditions(facts),
        figures=summary.figures(comparison),
        overview=kernels.overview_rows(comparison),
        facts=facts,
        launches=summary.launches(comparison),
        metrics=tables.metrics(comparison),
        accesses=tables.accesses(comparison),
        phantoms=tables.phantoms(comparison),
        tma=pipes.counters(comparison),
        wgmma=pipes.of_wgmma(comparison),
        mix=mix.section(comparison),
        stalls=stall_tables(comparison),
        stall_bars=text.bars(comparison),
        units=pipes.section(comparison),
        fragments=fragment_section(comparison),
        panels=panels,
        minor_files=minor_files,
        instructions=instruction_tables(comparison),
        foreign=foreign(comparison),
        findings=groups(comparison),
        raw=tables.raw(comparison),
        banks=banks.section(comparison, tiles_of),
        data=section({prefix: comparison}),
        lacks=lacks(comparison),
        prefix=prefix,
    )


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of many kernels, shown in full."""

    anchor: str
    name: str
    summary: str
    report: Report


@dataclass(frozen=True, kw_only=True)
class KernelsPage:
    """Many kernels: one row each, and the worst in full."""

    title: str
    verdict: str
    notes: tuple[str, ...]
    recorded: bool
    compares: bool
    rows: tuple[kernels.KernelRow, ...]
    parts: tuple[Part, ...]
    data: DataSection


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
                anchor=rows[index].anchor,
                name=rows[index].name,
                summary=_summary(rows[index]),
                report=build(comparisons[index], highlight, tiles_of, prefix),
            )
            for index, prefix in prefixes.items()
        ),
        data=section({prefix: comparisons[index] for index, prefix in prefixes.items()}),
    )


def _summary(row: kernels.KernelRow) -> str:
    return f"launch {row.number}, grid {row.grid}, block {row.block}, {row.duration}, {row.excessive} excessive"
