"""The table of a sweep in every format: terminal, CSV, JSON, Markdown, a page, a notebook's cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import pandas as pd
from rich.console import Console

from ncu_swizzle.base import codes
from ncu_swizzle.base.texts import in_json, in_words
from ncu_swizzle.render import formats, text
from ncu_swizzle.render.listing import plain_table, table_line
from ncu_swizzle.render.page import environment, script_parts
from ncu_swizzle.render.templates import markdown
from ncu_swizzle.reports.frames import Column, counts, frame, ratios, texts
from ncu_swizzle.reports.model import MachineInfo, UnknownCounts
from ncu_swizzle.reports.options import EMULATED, NCU, RECORDED, origin_of
from ncu_swizzle.sweep.plan import PointOutcome, PointValues, Sweep

# The one table of a sweep: a row per point, for CSV, JSON and Markdown.

SCHEMA = 1
MILLISECOND = 1e-6  # of a nanosecond


@dataclass(frozen=True)
class PointRow:
    """One point, and its baseline: the same problem, another variant (or itself)."""

    outcome: PointOutcome
    baseline: PointOutcome

    @property
    def kernel(self) -> str:
        return self.outcome.point.kernel

    @property
    def values(self) -> PointValues | None:
        return self.outcome.values

    @property
    def machine(self) -> MachineInfo:
        """The machine that it was measured on; empty if there are no values."""
        return self.values.machine if self.values else MachineInfo()

    @property
    def error(self) -> str:
        return str(self.outcome.error) if self.outcome.error else ""

    @property
    def ms(self) -> float | None:
        """The duration in milliseconds; None if unknown."""
        ns = self.values.duration_ns if self.values else None
        return ns * MILLISECOND if ns else None

    @property
    def speedup(self) -> float | None:
        """The speedup over the baseline variant at the same problem; None if either duration is unknown.

        It is also unknown if the two have different GPUs, drivers, ncu versions or clock modes.
        """
        before, now = self.baseline.values, self.values
        if before is None or now is None or before.conditions != now.conditions:
            return None
        return before.duration_ns * MILLISECOND / self.ms if before.duration_ns and self.ms else None

    @property
    def unknowns(self) -> Iterator[UnknownCounts]:
        """Why values of a point that was profiled are None."""
        if self.values:
            yield from self.values.unknowns
            if self.ms is None:
                yield UnknownCounts.of(codes.UNTIMED, "no duration was measured")

    def count(self, name: str) -> Any:
        """Return a count or ratio over all shared accesses; without wavefronts nothing conflicts: degree 1."""
        if self.values is None:
            return None
        total = self.values.total
        nothing = total.wavefronts == total.ideal == 0
        return 1.0 if name == "degree" and nothing else getattr(total, name)


COLUMNS: tuple[Column[PointRow], ...] = (
    texts("state", "done, failed, or open", lambda r: r.outcome.state),
    texts("engine", "where the values come from", lambda r: r.values.engine if r.values else ""),
    ratios("duration", "of one launch", lambda r: r.ms, "ms"),
    ratios("speedup", "the baseline's duration over this one's", lambda r: r.speedup),
    texts("baseline", "the variant it is compared with", lambda r: r.baseline.point.kernel),
    counts("executed", "that executed a shared access", lambda r: r.count("executed"), "warps"),
    counts("wavefronts", "actual", lambda r: r.count("wavefronts"), "wavefronts"),
    counts("ideal", "the fewest possible", lambda r: r.count("ideal"), "wavefronts"),
    counts("excessive", "actual minus ideal", lambda r: r.count("excessive"), "wavefronts"),
    ratios("degree", "actual over ideal", lambda r: r.count("degree")),
    texts("error", "why there are no values", lambda r: r.error),
    texts("gpu", "the GPU that it was measured on", lambda r: r.machine.gpu),
)


def rows_table(sweep: Sweep) -> tuple[PointRow, ...]:
    """Return a row per point, in the order of the plan."""
    by_point = {(outcome.point.kernel, outcome.point.problem): outcome for outcome in sweep.outcomes}
    baselines = sweep.plan.baselines()
    return tuple(
        PointRow(outcome, by_point[baselines[outcome.point.kernel], outcome.point.problem])
        for outcome in sweep.outcomes
    )


def to_frame(sweep: Sweep) -> pd.DataFrame:
    """Return the table: kernel, a column per parameter of the family, and `COLUMNS`. Unknown values are NA."""
    parameters = [parameter.name for parameter in sweep.plan.family.parameters]
    kernel: Column[PointRow] = texts("kernel", "the variant", lambda r: r.kernel)

    def size(name: str) -> Column[PointRow]:
        return counts(name, "size of the problem", lambda r: r.outcome.point.sizes[name])

    return frame((kernel, *map(size, parameters), *COLUMNS), rows_table(sweep))


def to_csv(sweep: Sweep) -> str:
    """Return the table as CSV, unrounded; unknown values are empty."""
    return formats.written(to_frame(sweep))


def to_json(sweep: Sweep) -> str:
    """Return the table and its origin as one JSON object; unknown values are null."""
    content = {
        "schema": SCHEMA,
        "family": sweep.plan.family.name,
        "engine": sweep.engine,
        "provenance": _provenance(sweep),
        "engine_reason": sweep.reason,
        "varied": list(sweep.plan.varied),
        "notes": list(sweep.notes),
        "points": [
            record | {"unknowns": [asdict(why) for why in row.unknowns]}
            for record, row in zip(formats.records(to_frame(sweep)), rows_table(sweep), strict=True)
        ],
        "folder": str(sweep.folder) if sweep.folder else None,
    }
    return in_json(content, indent=1)


def _provenance(sweep: Sweep) -> str | dict[str, Any]:
    """Return where the numbers of the points come from: times of computed ones may be recorded."""
    own = sweep.origin.provenance
    timed = any(outcome.values and outcome.values.beside for outcome in sweep.outcomes)
    lent = dict.fromkeys(("duration", "speedup"), origin_of(RECORDED).provenance)
    return {"*": own, "points": {"*": own, **lent}} if timed else own


def to_markdown(sweep: Sweep) -> str:
    """Return the table as Markdown for a pull request, rounded."""
    shown, varied = rows_table(sweep), sweep.plan.varied
    unit = time_unit(shown)
    return markdown(
        "sweep",
        sweep=sweep,
        title=title(sweep),
        heads=["kernel", *varied, "duration", "speedup", "excessive", "degree"],
        rows=[cells(row, varied, unit) for row in shown],
        notes=(where(sweep), *sweep.notes),
    )


def time_unit(shown: Iterable[PointRow]) -> text.TimeUnit:
    """Return the unit for the durations of a table."""
    return text.time_unit(row.values.duration_ns for row in shown if row.values)


def cells(row: PointRow, varied: Sequence[str], unit: text.TimeUnit) -> list[str]:
    """Return a row as texts: kernel, sizes, duration, speedup, excess, degree; dashes if there are no values."""
    sizes = [f"{row.outcome.point.sizes[name]:,}" for name in varied]
    if not row.values:
        return [row.kernel, *sizes, row.outcome.state, "-", "-", "-"]
    duration = text.duration_text(row.values.duration_ns or None, unit)
    speed = text.UNKNOWN if row.speedup is None else f"{row.speedup:.2f}×"
    return [row.kernel, *sizes, duration, speed, text.count(row.count("excessive")), text.degree(row.count("degree"))]


def title(sweep: Sweep) -> str:
    """Return a line with what was swept over which parameters."""
    over = text.in_a_list(sweep.plan.varied)
    return f"{sweep.plan.family.name}: {len(sweep.plan.kernels)} variants{f' over {over}' if over else ''}"


def where(sweep: Sweep) -> str:
    """Return where the values come from, in a sentence."""
    profiles = [outcome.values for outcome in sweep.done if outcome.values]
    origins = {NCU: "Measured", RECORDED: "Recorded, not measured now", EMULATED: _computed(profiles)}
    machines = sorted({_machine(profile.machine) for profile in profiles} - {""})
    days = sorted({p.when[:10] for p in profiles if p.when})
    span = days[:1] if len(days) < 2 else [f"{days[0]} to {days[-1]}"]
    said = not profiles or any(profile.beside for profile in profiles)  # by `_computed`
    origin = origins.get(sweep.engine, sweep.engine)
    origin += "" if said else f": {'; '.join([*machines, *span])}"
    fixed = {name: size for name, size in sweep.plan.problems[0].items() if name not in sweep.plan.varied}
    return f"{origin}.{f' At all points: {in_words(fixed)}.' if fixed else ''}"


def _computed(profiles: Sequence[PointValues]) -> str:
    """Describe what was computed: not the times, if there is a recording."""
    timed = [profile.beside for profile in profiles if profile.beside]
    if not timed:
        return "Computed, not measured; outputs not checked"
    points = "" if len(timed) == len(profiles) else f" of {len(timed):,} of {len(profiles):,} points"
    return f"Wavefronts computed, not measured, and outputs not checked; times{points} {'; '.join(sorted(set(timed)))}"


def _machine(machine: MachineInfo) -> str:
    named = (("", machine.gpu), ("ncu ", machine.ncu), ("clock control ", machine.clock_control))
    return ", ".join(f"{what}{value}" for what, value in named if value)


def show(sweep: Sweep, console: Console) -> None:
    """Print where the values come from, the table, what failed, and where it was written."""
    style = "" if sweep.origin.measured else "bold yellow"
    reason = f" Nothing can be measured here: {sweep.reason}." if sweep.reason else ""
    console.print(table_line(f"{where(sweep)}{reason}", style=style))
    for note in sweep.notes:
        console.print(table_line(note, style="dim"))
    varied = sweep.plan.varied
    shown = plain_table(title(sweep), "kernel")
    for name in (*varied, "duration", "speedup", "excessive", "degree"):
        shown.add_column(name, justify="right")
    rows = rows_table(sweep)
    unit = time_unit(rows)
    for _, group in groupby(rows, key=lambda row: row.outcome.point.problem):
        for row in group:
            style = "red" if row.error or row.count("excessive") else ""
            shown.add_row(*cells(row, varied, unit), style=style)
        shown.add_section()
    console.print(shown)
    for outcome in sweep.failed:
        console.print(table_line(f"failed: {outcome.point}: {outcome.error}", style="red"))
    console.print()
    console.print(table_line(f"Written to {sweep.folder}/: report.html, sweep.json, points/"), soft_wrap=True)


# The page, and a notebook's cell: the same rows.

MOST_POINTS = 1000  # of a page without a search
MOST_ROWS = 50  # a notebook cell lists the first points only


@dataclass(frozen=True)
class PageRow:
    """A row of the page's table; `first` of its problem."""

    row: PointRow
    cells: tuple[str, ...]
    first: bool


@dataclass(frozen=True, kw_only=True)
class SweepPage:
    """A sweep, and derived values for its page."""

    sweep: Sweep
    heads: tuple[str, ...]
    lines: tuple[PageRow, ...]
    baseline: str  # empty if variants have different ones

    @property
    def title(self) -> str:
        return title(self.sweep)

    @property
    def where(self) -> str:
        return where(self.sweep)

    @property
    def summary(self) -> str:
        failed = f", {len(self.sweep.failed):,} failed" if self.sweep.failed else ""
        return f"{len(self.sweep.done):,} of {len(self.lines):,} points are done{failed}."

    @property
    def large(self) -> bool:
        """Whether there are enough points to need a script that searches them."""
        return len(self.lines) > MOST_POINTS


def page_of(sweep: Sweep) -> SweepPage:
    """Return the page of a sweep."""
    rows, varied = rows_table(sweep), sweep.plan.varied
    baselines = set(sweep.plan.baselines().values())
    baseline = baselines.pop() if len(baselines) == 1 else ""
    unit = time_unit(rows)
    lines = [
        PageRow(row, tuple(cells(row, varied, unit)), number == 0)
        for _, group in groupby(rows, key=lambda row: row.outcome.point.problem)
        for number, row in enumerate(group)
    ]
    heads = ("Variant", *varied, "Duration", "Speedup", *([] if baseline else ["Over"]), "Excessive", "Degree")
    return SweepPage(sweep=sweep, heads=heads, lines=tuple(lines), baseline=baseline)


def to_html(sweep: Sweep) -> str:
    """Return the page, one HTML document; the same sweep gives the same bytes."""
    page = page_of(sweep)
    script = script_parts() if page.large else {}
    return environment().get_template("sweep/page.html").render(page=page, **script)


def to_card(sweep: Sweep) -> str:
    """Return a sweep as a notebook shows it: an HTML fragment with inline styles."""
    return environment().get_template("sweep/card.html").render(page=page_of(sweep), most=MOST_ROWS)
