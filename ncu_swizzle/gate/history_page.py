"""A history as one HTML file, without scripts: per kernel its counts and times over commits, drawn and as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.gate import tracks
from ncu_swizzle.gate.tracks import KeptRun, Track
from ncu_swizzle.render import text
from ncu_swizzle.render.page import environment
from ncu_swizzle.sweep import table, view
from ncu_swizzle.sweep.table import Scale
from ncu_swizzle.sweep.view import Chart, Sample

LABEL_ROOM = 92  # of a commit below the axis


@dataclass(frozen=True, kw_only=True)
class HistoryRow:
    """A run in the table, with a cell per access kind."""

    commit: str
    day: str
    cells: tuple[str, ...]
    time: str
    notes: str
    state: str  # good, bad or unknown


@dataclass(frozen=True, kw_only=True)
class HistorySection:
    kernel: str
    conditions: str
    summary: str
    kinds: tuple[str, ...]
    unit: str
    charts: tuple[Chart, ...]
    rows: tuple[HistoryRow, ...]


def render(tracks: Sequence[Track]) -> str:
    """Return the document; the same history gives the same bytes."""
    sections = [_section(track) for track in tracks]
    return environment().get_template("history/page.html").render(sections=sections, **view.PLOT)


def _section(track: Track) -> HistorySection:
    unit = tracks.unit_of(track)
    changed = [tracks.commit(run) for run in track.runs if run.changes]
    where = f"changed at {text.listed(changed)}" if changed else "nothing changed"
    last = f"last good: {tracks.commit(track.last_good)}" if track.last_good else "no run is good"
    return HistorySection(
        kernel=track.kernel,
        conditions=tracks.conditions(track),
        summary=f"{len(track.runs)} run{'s' * (len(track.runs) > 1)}; {where}; {last}",
        kinds=tuple(kind or "shared" for kind in track.kinds),
        unit=unit.name,
        charts=tuple(chart for chart in (_counts(track), _times(track, unit)) if chart.series),
        rows=tuple(_row(track, run, unit) for run in track.runs),
    )


def _row(track: Track, run: KeptRun, unit: text.TimeUnit) -> HistoryRow:
    state = "unknown" if not run.known else "good" if run.good else "bad"
    cells = []
    for kind in track.kinds:
        counts = run.entry.accesses.get(kind)
        all_of_them = f" of {text.count(counts.wavefronts)}" if counts and counts.excessive is not None else ""
        cells.append(f"{tracks.excess(run, kind)}{all_of_them}")
    return HistoryRow(
        commit=tracks.commit(run), day=run.entry.when[:10], cells=tuple(cells), time=tracks.duration(run, unit),
        notes="; ".join(tracks.notes(run)), state=state,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------- charts


def _counts(track: Track) -> Chart:
    def value(run: KeptRun, kind: str) -> float | None:
        counts = run.entry.accesses.get(kind)
        return counts.excessive if counts else None

    values = {kind or "shared": [value(run, kind) for run in track.runs] for kind in track.kinds}
    return _chart("Excessive wavefronts", track, values, text.short)


def _times(track: Track, unit: text.TimeUnit) -> Chart:
    values = [run.duration_ns and run.duration_ns / unit.nanoseconds for run in track.runs]
    return _chart(f"Time of one launch, {unit.name}", track, {"time": values}, lambda value: f"{value:g}")


def _chart(
    title: str, track: Track, values: Mapping[str, Sequence[float | None]], label: Callable[[float], str]
) -> Chart:
    """Return the chart of what each kind's values are, a run after the other; of kinds that have any."""
    known = {kind: line for kind, line in values.items() if any(value is not None for value in line)}
    number = len(track.runs)
    # Runs are equally far apart, each in the middle of its share of the axis; only every step-th has room for its name.
    x = Scale(lambda run: (run + 0.5) / number, ())
    y = table.linear([value for line in known.values() for value in line if value is not None])
    step = -(-number * LABEL_ROOM // view.WIDTH)
    series = [
        view.drawn(view.style(colour, kind), [
            Sample(at, value, f"{tracks.commit(run)}: {label(value)}" if value is not None else "")
            for at, (run, value) in enumerate(zip(track.runs, line, strict=True))
        ], x, y)
        for colour, (kind, line) in enumerate(known.items())
    ]  # fmt: skip
    return Chart(
        title=title,
        note="",
        axis="commit",
        xs=tuple(view.x_tick(x, at, tracks.commit(track.runs[at])) for at in range(0, number, step)),
        ys=tuple(view.y_tick(y, tick, label(tick)) for tick in y.ticks),
        series=tuple(series),
    )
