"""A history as one HTML file, without scripts: per kernel its counts and times over commits, drawn and as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ncu_swizzle.gate import tracks
from ncu_swizzle.gate.tracks import KeptRun, Track
from ncu_swizzle.render import text
from ncu_swizzle.render.page import environment

WIDTH, HEIGHT = 560, 220
LEFT, RIGHT, TOP, BOTTOM = 66, 542, 14, 172  # of the plot
COLOURS = 8
LABEL_ROOM = 92  # of a commit below the axis


@dataclass(frozen=True)
class HistoryTick:
    at: float
    label: str


@dataclass(frozen=True, kw_only=True)
class HistoryMark:
    """A run in a chart; a changed one is filled."""

    x: float
    y: float
    tip: str
    changed: bool


@dataclass(frozen=True, kw_only=True)
class HistoryLine:
    """One access kind, or the time: broken where it is unknown. `band` is the area of the noise."""

    label: str
    colour: int
    lines: tuple[str, ...]
    marks: tuple[HistoryMark, ...]
    band: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HistoryChart:
    title: str
    xs: tuple[HistoryTick, ...]
    ys: tuple[HistoryTick, ...]
    lines: tuple[HistoryLine, ...]


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
    charts: tuple[HistoryChart, ...]
    rows: tuple[HistoryRow, ...]


@dataclass(frozen=True, kw_only=True)
class ChartValue:
    """A value of a run with its noise, in one unit."""

    run: int
    value: float
    tip: str
    changed: bool
    noise: float = 0.0


def render(tracks: Sequence[Track]) -> str:
    """Return the document; the same history gives the same bytes."""
    sections = [_section(track) for track in tracks]
    size = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "bottom": BOTTOM}
    return environment().get_template("history/page.html").render(sections=sections, **size)


def _section(track: Track) -> HistorySection:
    unit = tracks.unit_of(track)
    charts = (_counts(track), _times(track, unit))
    changed = [tracks.commit(run) for run in track.runs if run.changes]
    where = f"changed at {text.listed(changed)}" if changed else "nothing changed"
    last = f"last good: {tracks.commit(track.last_good)}" if track.last_good else "no run is good"
    return HistorySection(
        kernel=track.kernel,
        conditions=tracks.conditions(track),
        summary=f"{len(track.runs)} run{'s' * (len(track.runs) > 1)}; {where}; {last}",
        kinds=tuple(kind or "shared" for kind in track.kinds),
        unit=unit.name,
        charts=tuple(chart for chart in charts if chart.lines),
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


def _counts(track: Track) -> HistoryChart:
    values = {
        kind: [
            ChartValue(
                run=at,
                value=counts.excessive,
                tip=f"{tracks.commit(run)}: {kind} {counts.excessive:,} excessive",
                changed=bool(run.changes),
            )
            for at, run in enumerate(track.runs)
            if (counts := run.entry.accesses.get(kind)) and counts.excessive is not None
        ]
        for kind in track.kinds
    }
    return _chart("Excessive wavefronts", track, values, text.short)


def _times(track: Track, unit: text.TimeUnit) -> HistoryChart:
    values = [
        ChartValue(
            run=at,
            value=run.duration_ns,
            tip=f"{tracks.commit(run)}: {tracks.duration(run, unit)}",
            changed=bool(run.changes),
            noise=run.duration_ns * run.entry.spread / 100,
        )
        for at, run in enumerate(track.runs)
        if run.duration_ns
    ]
    return _chart(f"Time of one launch, {unit.name}", track, {"time": values}, unit.show)


def _chart(
    title: str, track: Track, values: dict[str, list[ChartValue]], label: Callable[[object], str]
) -> HistoryChart:
    most = max((value.value + value.noise for kind in values.values() for value in kind), default=0) or 1
    number = len(track.runs)

    # Runs are equally far apart, each in the middle of its share of the axis; only every step-th has room for its name.
    def x(run: int) -> float:
        return round(LEFT + (RIGHT - LEFT) * (run + 0.5) / number, 1)

    def y(value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * value / most, 1)

    step = -(-number * LABEL_ROOM // (RIGHT - LEFT))
    xs = tuple(HistoryTick(x(at), tracks.commit(track.runs[at])) for at in range(0, number, step))
    ys = tuple(HistoryTick(y(part), label(part)) for part in (0, most / 2, most))
    lines = []
    for colour, (kind, known) in enumerate((kind, known) for kind, known in values.items() if known):
        parts = _unbroken(known)
        lines.append(HistoryLine(
            label=kind or "shared", colour=colour % COLOURS,
            lines=tuple("M" + "L".join(f"{x(v.run)},{y(v.value)}" for v in part) for part in parts),
            marks=tuple(HistoryMark(x=x(v.run), y=y(v.value), tip=v.tip, changed=v.changed) for v in known),
            band=tuple(_band([(x(v.run), y(v.value - v.noise), y(v.value + v.noise)) for v in part]) for part in parts
                  if any(v.noise for v in part)),
        ))  # fmt: skip
    return HistoryChart(title=title, xs=xs, ys=ys, lines=tuple(lines))


def _unbroken(values: Sequence[ChartValue]) -> list[list[ChartValue]]:
    """Return the values of runs that follow each other, a list each."""
    parts: list[list[ChartValue]] = []
    for value in values:
        if parts and parts[-1][-1].run == value.run - 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return parts


def _band(edges: Sequence[tuple[float, float, float]]) -> str:
    """Return the area between the lower and the upper edges."""
    there = [f"{x},{low}" for x, low, _ in edges]
    back = [f"{x},{high}" for x, _, high in reversed(edges)]
    return f"M{'L'.join((*there, *back))}Z"
