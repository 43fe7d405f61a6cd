"""The one table of a sweep: a row per point, for CSV, JSON and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ncu_swizzle.profiles.frames import COUNT, RATIO, TEXT, Column, frame
from ncu_swizzle.render import csv_
from ncu_swizzle.render.view import text
from ncu_swizzle.sweep.outcome import PointOutcome, PointValues, Sweep
from ncu_swizzle.texts import in_json, in_markdown, in_words

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

        It is unknown as well if the two are of different GPUs, drivers, ncu or clock modes.
        """
        before, now = self.baseline.values, self.values
        if before is None or now is None or before.conditions != now.conditions:
            return None
        return before.duration_ns * MILLISECOND / self.ms if before.duration_ns and self.ms else None

    def count(self, name: str) -> Any:
        """Return a count or ratio over all shared accesses; without wavefronts nothing conflicts: degree 1."""
        if self.values is None:
            return None
        total = self.values.total
        nothing = total.wavefronts == total.ideal == 0
        return 1.0 if name == "degree" and nothing else getattr(total, name)


COLUMNS: tuple[Column[PointRow], ...] = (
    Column("state", TEXT, "", "done, failed, or open", lambda r: r.outcome.state),
    Column("engine", TEXT, "", "where the values come from", lambda r: r.values.engine if r.values else ""),
    Column("duration", RATIO, "ms", "of one launch", lambda r: r.ms),
    Column("speedup", RATIO, "ratio", "the baseline's duration over this one's", lambda r: r.speedup),
    Column("baseline", TEXT, "", "the variant it is compared with", lambda r: r.baseline.point.kernel),
    Column("executed", COUNT, "warps", "that executed a shared access", lambda r: r.count("executed")),
    Column("wavefronts", COUNT, "wavefronts", "actual", lambda r: r.count("wavefronts")),
    Column("ideal", COUNT, "wavefronts", "the fewest possible", lambda r: r.count("ideal")),
    Column("excessive", COUNT, "wavefronts", "actual minus ideal", lambda r: r.count("excessive")),
    Column("degree", RATIO, "ratio", "actual over ideal", lambda r: r.count("degree")),
    Column("error", TEXT, "", "why there are no values", lambda r: r.error),
    Column("gpu", TEXT, "", "the GPU that it was measured on", lambda r: r.values.machine.gpu if r.values else ""),
)


def rows(sweep: Sweep) -> tuple[PointRow, ...]:
    """Return a row per point, in the order of the plan."""
    by_point = {(outcome.point.kernel, outcome.point.problem): outcome for outcome in sweep.outcomes}
    baselines = sweep.plan.baselines()
    return tuple(
        PointRow(outcome, by_point[baselines[outcome.point.kernel], outcome.point.problem])
        for outcome in sweep.outcomes
    )


def to_frame(sweep: Sweep, more: tuple[Column[PointRow], ...] = ()) -> pd.DataFrame:
    """Return the table: kernel, a column per parameter of the family, `COLUMNS` and `more`. Unknown values are NA."""
    parameters = [parameter.name for parameter in sweep.plan.family.parameters]
    lead: tuple[Column[PointRow], ...] = (Column("kernel", TEXT, "", "the variant", lambda r: r.kernel),)
    sizes = tuple(_size(name) for name in parameters)
    return frame((*lead, *sizes, *COLUMNS, *more), rows(sweep))


def _size(name: str) -> Column[PointRow]:
    return Column(name, COUNT, "", "size of the problem", lambda r: r.outcome.point.sizes[name])


def to_csv(sweep: Sweep) -> str:
    """Return the table as CSV, unrounded; unknown values are empty."""
    return csv_.written(to_frame(sweep))


def to_json(sweep: Sweep) -> str:
    """Return the table and its origin as one JSON object; unknown values are null."""
    records = to_frame(sweep).astype(object).to_dict("records")
    content = {
        "schema": SCHEMA,
        "family": sweep.plan.family.name,
        "engine": sweep.engine,
        "engine_reason": sweep.reason,
        "varied": list(sweep.plan.varied),
        "notes": list(sweep.notes),
        "points": [{str(k): None if pd.isna(v) else v for k, v in record.items()} for record in records],
        "folder": str(sweep.folder) if sweep.folder else None,
    }
    return in_json(content, indent=1)


def plan_json(sweep: Sweep, known: bool) -> str:
    """Return the points of a sweep that was not run as one JSON object; `reused` is null unless that is `known`."""
    content = {
        "schema": SCHEMA,
        "dry_run": True,
        "family": sweep.plan.family.name,
        "engine": sweep.engine,
        "engine_reason": sweep.reason,
        "folder": str(sweep.folder),
        "notes": list(sweep.notes),
        "points": [
            {"kernel": each.point.kernel, "problem": each.point.sizes, "reused": each.kept if known else None}
            for each in sweep.outcomes
        ],
    }
    return in_json(content, indent=1)


def to_markdown(sweep: Sweep) -> str:
    """Return the table as Markdown for a pull request, rounded."""
    varied = sweep.plan.varied
    heads = ["kernel", *varied, "duration", "speedup", "excessive", "degree"]
    marks = [" --- ", *(" ---: " for _ in heads[1:])]
    lines = [f"| {' | '.join(map(in_markdown, heads))} |", f"|{'|'.join(marks)}|"]
    shown = rows(sweep)
    unit = time_unit(shown)
    lines += [f"| {' | '.join(map(in_markdown, cells(row, varied, unit)))} |" for row in shown]
    failures = [f"- {in_markdown(f'{outcome.point}: {outcome.error}')}" for outcome in sweep.failed]
    notes = [f"> {in_markdown(note)}" for note in (where(sweep), *sweep.notes)]
    parts = [f"### {in_markdown(title(sweep))}", "\n".join(lines), "\n".join(failures), "\n>\n".join(notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def time_unit(shown: Iterable[PointRow]) -> text.TimeUnit:
    """Return the unit for the durations of a table."""
    return text.time_unit(row.values.duration_ns for row in shown if row.values)


def cells(row: PointRow, varied: Sequence[str], unit: text.TimeUnit) -> list[str]:
    """Return a row as texts: kernel, sizes, duration, speedup, excess, degree; dashes if there are no values."""
    sizes = [f"{row.outcome.point.sizes[name]:,}" for name in varied]
    if not row.values:
        return [row.kernel, *sizes, row.outcome.state, "-", "-", "-"]
    duration = text.duration(row.values.duration_ns or None, unit)
    speed = text.UNKNOWN if row.speedup is None else f"{row.speedup:.2f}×"
    return [row.kernel, *sizes, duration, speed, text.count(row.count("excessive")), text.degree(row.count("degree"))]


def title(sweep: Sweep) -> str:
    """Return what was swept over which parameters, in one line."""
    over = text.listed(sweep.plan.varied)
    return f"{sweep.plan.family.name}: {len(sweep.plan.kernels)} variants{f' over {over}' if over else ''}"


def where(sweep: Sweep) -> str:
    """Return where the values come from, in a sentence."""
    profiles = [outcome.values for outcome in sweep.done if outcome.values]
    origins = {"ncu": "Measured", "recorded": "Recorded, not measured now", "emulated": _computed(profiles)}
    machines = sorted({", ".join(filter(None, (p.machine.gpu, _ncu(p), _clocks(p)))) for p in profiles} - {""})
    days = sorted({p.when[:10] for p in profiles if p.when})
    span = days[:1] if len(days) < 2 else [f"{days[0]} to {days[-1]}"]
    said = not profiles or any(profile.beside for profile in profiles)  # by `_computed`
    origin = origins.get(sweep.engine, sweep.engine)
    origin += "" if said else f": {'; '.join([*machines, *span])}"
    fixed = {name: size for name, size in sweep.plan.problems[0].items() if name not in sweep.plan.varied}
    return f"{origin}.{f' At all points: {in_words(fixed)}.' if fixed else ''}"


def _computed(profiles: Sequence[PointValues]) -> str:
    """Say what was computed; where there is a recording, the times were not."""
    timed = [profile.beside for profile in profiles if profile.beside]
    if not timed:
        return "Computed, not measured; outputs not checked"
    points = "" if len(timed) == len(profiles) else f" of {len(timed):,} of {len(profiles):,} points"
    return f"Wavefronts computed, not measured, and outputs not checked; times{points} {'; '.join(sorted(set(timed)))}"


def _ncu(profile: PointValues) -> str:
    return f"ncu {profile.machine.ncu}" if profile.machine.ncu else ""


def _clocks(profile: PointValues) -> str:
    return f"clock control {profile.machine.clock_control}" if profile.machine.clock_control else ""
