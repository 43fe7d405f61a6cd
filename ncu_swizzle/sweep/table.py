"""The one table of a sweep: a row per point, for CSV, JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ncu_swizzle.profiles.frames import COUNT, RATIO, TEXT, Column, frame
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.markdown import escape
from ncu_swizzle.render.view import text
from ncu_swizzle.sweep.outcome import Outcome, Sweep
from ncu_swizzle.texts import in_words

SCHEMA = 1
MILLISECOND = 1e-6  # of a nanosecond


@dataclass(frozen=True)
class Row:
    """One point, and the one that it is held against: the same problem, another variant (or itself)."""

    outcome: Outcome
    baseline: Outcome

    @property
    def kernel(self) -> str:
        return self.outcome.point.kernel

    @property
    def profile(self) -> Profile | None:
        return self.outcome.profile

    @property
    def error(self) -> str:
        return str(self.outcome.error) if self.outcome.error else ""

    @property
    def ms(self) -> float | None:
        """The duration in milliseconds; None where it is unknown."""
        ns = self.profile.duration_ns if self.profile else None
        return ns * MILLISECOND if ns else None

    @property
    def speedup(self) -> float | None:
        """How many times as fast as the baseline variant at the same problem; None where either is unknown."""
        before = self.baseline.profile.duration_ns if self.baseline.profile else None
        return before * MILLISECOND / self.ms if before and self.ms else None

    def count(self, name: str) -> Any:
        """Return a count or ratio of all shared accesses: 0 wavefronts have the degree 1, as nothing conflicts."""
        if self.profile is None:
            return None
        total = self.profile.total
        nothing = total.wavefronts == total.ideal == 0
        return 1.0 if name == "degree" and nothing else getattr(total, name)


COLUMNS: tuple[Column[Row], ...] = (
    Column("state", TEXT, "", "done, failed, or open", lambda r: r.outcome.state),
    Column("engine", TEXT, "", "where the figures come from", lambda r: r.profile.engine if r.profile else ""),
    Column("duration", RATIO, "ms", "of one launch", lambda r: r.ms),
    Column("speedup", RATIO, "ratio", "the baseline's duration over this one's", lambda r: r.speedup),
    Column("baseline", TEXT, "", "the variant that it is held against", lambda r: r.baseline.point.kernel),
    Column("executed", COUNT, "warps", "that executed a shared access", lambda r: r.count("executed")),
    Column("wavefronts", COUNT, "wavefronts", "actual", lambda r: r.count("wavefronts")),
    Column("ideal", COUNT, "wavefronts", "the fewest possible", lambda r: r.count("ideal")),
    Column("excessive", COUNT, "wavefronts", "actual minus ideal", lambda r: r.count("excessive")),
    Column("degree", RATIO, "ratio", "actual over ideal", lambda r: r.count("degree")),
    Column("error", TEXT, "", "why there are no figures", lambda r: r.error),
)


def rows(sweep: Sweep) -> tuple[Row, ...]:
    """Return a row per point, in the order of the plan."""
    by_point = {(one.point.kernel, one.point.problem): one for one in sweep.outcomes}
    baselines = sweep.plan.baselines()
    return tuple(Row(one, by_point[baselines[one.point.kernel], one.point.problem]) for one in sweep.outcomes)


def to_frame(sweep: Sweep) -> pd.DataFrame:
    """Return the table: kernel, one column per parameter of the family, and `COLUMNS`. Unknown values are NA."""
    parameters = [parameter.name for parameter in sweep.plan.family.parameters]
    lead: tuple[Column[Row], ...] = (Column("kernel", TEXT, "", "the variant", lambda r: r.kernel),)
    sizes = tuple(_size(name) for name in parameters)
    return frame((*lead, *sizes, *COLUMNS), rows(sweep))


def _size(name: str) -> Column[Row]:
    return Column(name, COUNT, "", "size of the problem", lambda r: r.outcome.point.sizes[name])


def to_csv(sweep: Sweep) -> str:
    """Return the table as CSV, nothing rounded; what is unknown is empty."""
    return str(to_frame(sweep).to_csv(index=False, lineterminator="\n"))


def to_json(sweep: Sweep) -> str:
    """Return the table and what it was made from as one JSON object; what is unknown is null."""
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
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def to_markdown(sweep: Sweep) -> str:
    """Return the table for a pull request, rounded as a reader wants it."""
    varied = sweep.plan.varied
    heads = ["kernel", *varied, "duration", "speed-up", "excessive", "degree"]
    marks = [" --- ", *(" ---: " for _ in heads[1:])]
    lines = [f"| {' | '.join(map(escape, heads))} |", f"|{'|'.join(marks)}|"]
    lines += [f"| {' | '.join(map(escape, cells(row, varied)))} |" for row in rows(sweep)]
    said = [f"- {escape(f'{one.point}: {one.error}')}" for one in sweep.failed]
    notes = [f"> {escape(note)}" for note in (where(sweep), *sweep.notes)]
    parts = [f"### {escape(title(sweep))}", "\n".join(lines), "\n".join(said), "\n>\n".join(notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def cells(row: Row, varied: Sequence[str]) -> list[str]:
    """Return a row as texts: the kernel, its sizes, duration, speed-up, excess and degree; dashes for no figures."""
    sizes = [f"{row.outcome.point.sizes[name]:,}" for name in varied]
    if not row.profile:
        return [row.kernel, *sizes, row.outcome.state, "-", "-", "-"]
    duration = text.UNKNOWN if row.ms is None else f"{text.fixed(row.ms, 3)} ms"
    speed = text.UNKNOWN if row.speedup is None else f"{row.speedup:.2f}×"
    return [row.kernel, *sizes, duration, speed, text.count(row.count("excessive")), text.degree(row.count("degree"))]


def title(sweep: Sweep) -> str:
    """Return what was swept over what, in a line."""
    over = text.listed(sweep.plan.varied)
    return f"{sweep.plan.family.name}: {len(sweep.plan.kernels)} variants{f' over {over}' if over else ''}"


def where(sweep: Sweep) -> str:
    """Return where the figures come from, in a sentence."""
    engines = {"ncu": "Measured", "recorded": "Recorded, not measured now", "emulated": "Computed, not measured"}
    profiles = [one.profile for one in sweep.done if one.profile]
    places = sorted({", ".join(filter(None, (p.machine.gpu, _ncu(p), _clocks(p)))) for p in profiles} - {""})
    days = sorted({p.when[:10] for p in profiles if p.when})
    span = days[:1] if len(days) < 2 else [f"{days[0]} to {days[-1]}"]
    said = ": ".join([engines.get(sweep.engine, sweep.engine), *(["; ".join([*places, *span])] if profiles else [])])
    fixed = {name: size for name, size in sweep.plan.problems[0].items() if name not in sweep.plan.varied}
    return f"{said}.{f' Everywhere {in_words(fixed)}.' if fixed else ''}"


def _ncu(profile: Profile) -> str:
    return f"ncu {profile.machine.ncu}" if profile.machine.ncu else ""


def _clocks(profile: Profile) -> str:
    return f"clock control {profile.machine.clock_control}" if profile.machine.clock_control else ""
