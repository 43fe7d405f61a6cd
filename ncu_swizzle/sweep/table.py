"""The table of a sweep in every format: terminal, CSV, JSON, Markdown, Parquet; and the scales of its charts."""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking
from ncu_swizzle.base.files import brief, is_folder, read_bytes, write_atomically
from ncu_swizzle.base.texts import encodable, in_json, in_markdown, in_words
from ncu_swizzle.render import formats, text
from ncu_swizzle.render.listing import plain_table, table_line
from ncu_swizzle.reports.frames import TEXT, Column, counts, frame, ratios, texts
from ncu_swizzle.reports.model import MachineInfo, UnknownCounts
from ncu_swizzle.reports.options import PROVENANCE, RECORDED
from ncu_swizzle.sweep.folder import PointOutcome, PointValues, Sweep

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

        It is unknown as well if the two are of different GPUs, drivers, ncu or clock modes.
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


def to_frame(sweep: Sweep, more: tuple[Column[PointRow], ...] = ()) -> pd.DataFrame:
    """Return the table: kernel, a column per parameter of the family, `COLUMNS` and `more`. Unknown values are NA."""
    parameters = [parameter.name for parameter in sweep.plan.family.parameters]
    kernel: Column[PointRow] = texts("kernel", "the variant", lambda r: r.kernel)

    def size(name: str) -> Column[PointRow]:
        return counts(name, "size of the problem", lambda r: r.outcome.point.sizes[name])

    return frame((kernel, *map(size, parameters), *COLUMNS, *more), rows_table(sweep))


def to_csv(sweep: Sweep) -> str:
    """Return the table as CSV, unrounded; unknown values are empty."""
    return formats.written(to_frame(sweep))


def to_json(sweep: Sweep) -> str:
    """Return the table and its origin as one JSON object; unknown values are null."""
    records = to_frame(sweep).astype(object).to_dict("records")
    content = {
        "schema": SCHEMA,
        "family": sweep.plan.family.name,
        "engine": sweep.engine,
        "provenance": _provenance(sweep),
        "engine_reason": sweep.reason,
        "varied": list(sweep.plan.varied),
        "notes": list(sweep.notes),
        "points": [
            {str(k): None if pd.isna(v) else v for k, v in record.items()}
            | {"unknowns": [asdict(why) for why in row.unknowns]}
            for record, row in zip(records, rows_table(sweep), strict=True)
        ],
        "folder": str(sweep.folder) if sweep.folder else None,
    }
    return in_json(content, indent=1)


def _provenance(sweep: Sweep) -> str | dict[str, Any]:
    """Return where the numbers of the points come from: times of computed ones may be recorded."""
    origin = PROVENANCE.get(sweep.engine, sweep.engine)
    timed = any(outcome.values and outcome.values.beside for outcome in sweep.outcomes)
    lent = dict.fromkeys(("duration", "speedup"), PROVENANCE[RECORDED])
    return {"*": origin, "points": {"*": origin, **lent}} if timed else origin


def to_markdown(sweep: Sweep) -> str:
    """Return the table as Markdown for a pull request, rounded."""
    varied = sweep.plan.varied
    heads = ["kernel", *varied, "duration", "speedup", "excessive", "degree"]
    marks = [" --- ", *(" ---: " for _ in heads[1:])]
    lines = [f"| {' | '.join(map(in_markdown, heads))} |", f"|{'|'.join(marks)}|"]
    shown = rows_table(sweep)
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
    duration = text.duration_text(row.values.duration_ns or None, unit)
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
    machines = sorted({_machine(profile.machine) for profile in profiles} - {""})
    days = sorted({p.when[:10] for p in profiles if p.when})
    span = days[:1] if len(days) < 2 else [f"{days[0]} to {days[-1]}"]
    said = not profiles or any(profile.beside for profile in profiles)  # by `_computed`
    origin = origins.get(sweep.engine, sweep.engine)
    origin += "" if said else f": {'; '.join([*machines, *span])}"
    fixed = {name: size for name, size in sweep.plan.problems[0].items() if name not in sweep.plan.varied}
    return f"{origin}.{f' At all points: {in_words(fixed)}.' if fixed else ''}"


def _computed(profiles: Sequence[PointValues]) -> str:
    """Return what was computed: not the times, if there is a recording."""
    timed = [profile.beside for profile in profiles if profile.beside]
    if not timed:
        return "Computed, not measured; outputs not checked"
    points = "" if len(timed) == len(profiles) else f" of {len(timed):,} of {len(profiles):,} points"
    return f"Wavefronts computed, not measured, and outputs not checked; times{points} {'; '.join(sorted(set(timed)))}"


def _machine(machine: MachineInfo) -> str:
    named = (("", machine.gpu), ("ncu ", machine.ncu), ("clock control ", machine.clock_control))
    return ", ".join(f"{what}{value}" for what, value in named if value)


# The points of a sweep as a Parquet file, for pandas, DuckDB, Polars: `table.COLUMNS`, and where each point ran.

DATASET = "points.parquet"
INSTALL = "pip install 'ncu-swizzle[fleet]'"

# Of the machines; what `table.COLUMNS` lacks because it differs from run to run.
WHERE: tuple[Column[PointRow], ...] = (
    texts("driver", "the GPU's driver", lambda r: r.machine.driver),
    texts("ncu", "the ncu that measured", lambda r: r.machine.ncu),
    texts("clocks", "ncu's clock control", lambda r: r.machine.clock_control),
    texts("when", "the day and time in UTC", lambda r: r.values.when if r.values else ""),
    texts("worker", "the worker; empty: none, one process did it all", lambda r: r.outcome.where.worker),
    texts("host", "the worker's machine", lambda r: r.outcome.where.host),
    texts("gpu_uuid", "the worker's GPU", lambda r: r.outcome.where.uuid),
    ratios("seconds", "with building and checking", lambda r: r.outcome.where.seconds or None, "s"),
)


def write(sweep: Sweep, folder: Path) -> None:
    """Write the dataset into the sweep's folder if pyarrow is installed."""
    if importlib.util.find_spec("pyarrow") is None:
        return
    content = io.BytesIO()
    points = to_frame(sweep, WHERE)
    for name, column in points.items():
        if column.dtype == TEXT:
            points[name] = column.map(encodable)
    points.columns = pd.Index([encodable(str(name)) for name in points.columns])
    points.to_parquet(content, engine="pyarrow", index=False)
    write_atomically(folder / DATASET, content.getvalue())


def load_sweep(path: str | Path) -> pd.DataFrame:
    """Return the points of a sweep, given its folder or its points.parquet: a row per point, unknown values NA.

    The columns are ``kernel``, the problem's sizes, and those that docs/sweep.md lists. Raises BadFile, DamagedFile,
    and EnvironmentLacking without pyarrow.
    """
    path = Path(path)
    if importlib.util.find_spec("pyarrow") is None:
        raise EnvironmentLacking("pyarrow is not installed, which reads and writes Parquet", INSTALL)
    file = path / DATASET if is_folder(path) else path
    if is_folder(path) and not file.exists():
        raise BadFile(
            f"{path} has no {DATASET}: without pyarrow none is written",
            f"{INSTALL}, then add -o {path} --resume to the command of the sweep",
        )
    data = read_bytes(file, "give the folder of a sweep, such as swizzle-out/sweep-gemm")
    try:
        return pd.read_parquet(io.BytesIO(data), engine="pyarrow")
    except Exception as error:  # pyarrow's own, and whatever a damaged file leads to
        raise DamagedFile(f"{file} is damaged: {brief(error)}", "run the sweep again with --resume") from error


# The position of a value on an axis, from 0 (the low end) to 1. Pure.

MOST_TICKS = 7
ZERO_ROOM = 0.12  # of the axis, between 0 and the smallest positive value of a logarithmic one


@dataclass(frozen=True)
class Scale:
    """An axis: the position of a value, and the values to mark."""

    position: Callable[[float], float]
    ticks: tuple[float, ...]


def linear(values: Sequence[float]) -> Scale:
    """Return an axis from 0 to a round number at or above all values."""
    top = max([*values, 0.0]) or 1.0
    # The smallest of 1, 2 or 5 times a power of ten that divides the axis into few enough steps.
    step = next(s for s in (m * 10.0**e for e in range(_exponent(top) - 2, _exponent(top) + 2) for m in (1, 2, 5))
                if top / s <= MOST_TICKS - 2)  # fmt: skip
    count = math.ceil(top / step)
    return Scale(lambda value: value / (count * step), tuple(n * step for n in range(count + 1)))


def logarithmic(values: Sequence[float]) -> Scale:
    """Return an axis of positive values, with ticks at 1, 2 and 5 times each power of ten, or at the powers alone."""
    low, high = _span([value for value in values if value > 0])
    exponents = range(_exponent(low), _exponent(high) + 1)
    fine = [m * 10.0**e for e in exponents for m in (1, 2, 5) if low <= m * 10.0**e <= high]
    coarse = [10.0**e for e in exponents if low <= 10.0**e <= high]
    ticks = fine if len(fine) <= MOST_TICKS or len(coarse) < 2 else coarse
    return Scale(_log(low, high), _thinned(ticks))


def from_zero(values: Sequence[float]) -> Scale:
    """Return a logarithmic axis with a separate position for 0."""
    positive = [value for value in values if value > 0]
    if not positive:
        return Scale(lambda value: 0.0, (0.0,))
    # From the power of ten at or below the smallest value to the one at or above the largest; 1e-9 absorbs rounding.
    low, high = 10.0 ** _exponent(min(positive)), 10.0 ** math.ceil(math.log10(max(positive)) + 1e-9)
    inner = _log(low, max(high, 10 * low))
    powers = [10.0**e for e in range(_exponent(low), _exponent(max(high, 10 * low)) + 1)]
    return Scale(lambda v: ZERO_ROOM + (1 - ZERO_ROOM) * inner(v) if v > 0 else 0.0, (0.0, *_thinned(powers)))


def degrees(values: Sequence[float]) -> Scale:
    """Return an axis of powers of two, starting at 1."""
    top = max(1, math.ceil(math.log2(max([*values, 1.0])) - 1e-9))
    return Scale(lambda value: math.log2(max(value, 1.0)) / top, tuple(2.0**e for e in range(top + 1)))


def sizes(values: Sequence[int]) -> Scale:
    """Return the axis of a parameter: logarithmic, with every value marked; a single value is in the middle."""
    distinct = sorted(set(values))
    ticks = tuple(map(float, distinct))
    if len(distinct) < 2:
        return Scale(lambda value: 0.5, ticks)
    return Scale(_log(distinct[0], distinct[-1]), ticks)


def _log(low: float, high: float) -> Callable[[float], float]:
    return lambda value: math.log(value / low) / math.log(high / low)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis, slightly beyond the values."""
    if not values:
        return 1.0, 10.0
    ratio = max(values) / min(values)
    margin = max(1.15, ratio**0.05, math.sqrt(2.6 / ratio))  # from 2 to 5 is the widest gap between ticks
    return min(values) / margin, max(values) * margin


def _exponent(value: float) -> int:
    return math.floor(math.log10(value) + 1e-9)


def _thinned(ticks: Sequence[float]) -> tuple[float, ...]:
    return tuple(ticks[:: math.ceil(len(ticks) / MOST_TICKS)]) if ticks else ()


def show(sweep: Sweep, console: Console) -> None:
    """Print where the values come from, the table, what failed, and where it was written."""
    style = "" if sweep.engine == "ncu" else "bold yellow"
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
