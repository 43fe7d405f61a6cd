"""A kernel over the commits of a history: what changed from run to run, and which run is the last good one.

Counts are exact, so any change is a change. Times are noisy: they changed if they moved by more than both spreads.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console

from ncu_swizzle.base.bounds import some
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.gate import history
from ncu_swizzle.gate.baseline import Baseline, Entry, SavedCounts
from ncu_swizzle.gate.history import RUN, in_utc
from ncu_swizzle.render import text
from ncu_swizzle.render.listing import plain_table, table_line
from ncu_swizzle.render.text import TimeUnit
from ncu_swizzle.reports.model import MachineInfo
from ncu_swizzle.reports.options import EMULATED, PROVENANCE

if TYPE_CHECKING:
    from ncu_swizzle.sweep.view import Chart

CONDITIONS = ("kernel", "engine", "gpu", "compute_capability", "clocks", "ncu", "problem", "grid")


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """A run of one kernel as a baseline has it, and what changed since the last one.

    The entry's time is that of the commit if it is known, else of the run; ISO 8601, UTC. `good`: its counts are known
    and no access kind has more excess than in the last good run, or it was accepted.
    """

    run: str
    commit: str
    accepted: bool
    entry: Entry
    lines: Mapping[str, str]  # by access kind, the source line with the most excess
    launches: int
    why: str = ""  # counts are unknown
    good: bool = False
    changes: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        return self.entry.excessive is not None

    @property
    def duration_ns(self) -> float | None:
        """The median duration of its launches; None if any is unknown."""
        return self.entry.duration_ns if len(self.entry.durations_ns) == self.launches else None


@dataclass(frozen=True)
class Track:
    """A kernel under one set of conditions, oldest run first. Runs of unlike machines or engines are other tracks."""

    conditions: Mapping[str, str]
    runs: tuple[KeptRun, ...]

    @property
    def kernel(self) -> str:
        return self.conditions["kernel"]

    @cached_property
    def last_good(self) -> KeptRun | None:
        return next((run for run in reversed(self.runs) if run.good), None)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The access kinds of all runs."""
        return tuple(sorted({access for run in self.runs for access in run.entry.accesses}))


def load(folder: Path) -> Baseline:
    """Return the last good run of each kernel, engine and machine; raise what `history.load` raises."""
    return Baseline(tuple(entries(tracks(history.load(folder)))), folder, history=True)


def entries(kernel_tracks: Iterable[Track]) -> Iterator[Entry]:
    """Yield the last good run of each track that has one, without durations unless every launch has one."""
    for track in kernel_tracks:
        if run := track.last_good:
            yield run.entry if run.duration_ns else replace(run.entry, durations_ns=())


def tracks(rows: pd.DataFrame) -> tuple[Track, ...]:
    """Return the tracks of a history's rows, by kernel."""
    rows = rows.copy()
    rows.loc[rows["engine"] == EMULATED, ["gpu", "ncu"]] = ""  # what it was computed on does not matter
    rows.loc[rows["problem"] != "", "grid"] = ""
    all_tracks = []
    for key, group in rows.groupby(list(CONDITIONS), sort=True):
        runs: list[KeptRun] = []
        for name, part in group.groupby(RUN):
            run = _track_run(str(name), part)
            # One that was added alone, and again together with others, counts once.
            if not any(replace(other, run=run.run) == run for other in runs):
                runs.append(run)
        # An accepted run follows itself as it was added before.
        runs.sort(key=lambda run: (run.entry.when, run.accepted, run.run))
        all_tracks.append(Track(dict(zip(CONDITIONS, map(str, key), strict=True)), tuple(_judged(runs))))
    return tuple(all_tracks)


def of_kernel(all_tracks: Sequence[Track], kernel: str) -> list[Track]:
    """Return the tracks of a kernel, of all if it is empty; raise UsageError if there are none."""
    chosen = [track for track in all_tracks if kernel in ("", track.kernel)]
    if not chosen:
        names = some(sorted({track.kernel for track in all_tracks}))
        raise UsageError(
            f"the history has no kernel {kernel!r}: it has {names}", "name one of these, or none to see all"
        )
    return chosen


def _track_run(name: str, rows: pd.DataFrame) -> KeptRun:
    """Return a run from its rows: the counts of its worst launch, an unknown one first, and all durations."""
    launches = [_accesses(launch) for _, launch in rows.groupby("launch")]
    excess = [[counts.excessive for counts, _ in launch.values()] for launch in launches]
    worst = launches[max(range(len(launches)), key=lambda at: (None in excess[at], sum(n or 0 for n in excess[at])))]
    first = rows.iloc[0]
    machine = MachineInfo(
        gpu=first["gpu"], compute_capability=first["compute_capability"], driver=first["driver"], cuda=first["cuda"],
        ncu=first["ncu"], clock_control=first["clocks"],
    )  # fmt: skip
    durations = rows.groupby("launch")["duration"].first()
    entry = Entry(
        kernel=first["kernel"], function=first["function"], engine=first["engine"], machine=machine,
        when=in_utc(first["committed"]) or in_utc(rows["when"].max()),
        problem={word.partition("=")[0]: int(word.partition("=")[2]) for word in first["problem"].split()},
        grid=first["grid"], block=first["block"],
        accesses={access: counts for access, (counts, _) in worst.items()},
        durations_ns=tuple(float(ns) for ns in durations if pd.notna(ns) and 0 < ns < math.inf),
    )  # fmt: skip
    return KeptRun(
        run=name, commit=first["commit"], accepted=bool(first["accepted"]), entry=entry,
        lines={access: line for access, (_, line) in worst.items()}, launches=len(launches),
        why=next((why for why in rows["why"] if why), ""),
    )  # fmt: skip


def _accesses(launch: pd.DataFrame) -> dict[str, tuple[SavedCounts, str]]:
    """Return the counts of a launch by access kind, None for what is unknown, and the line with the most excess.

    A kernel without accesses has none; if that is not known, it has unknown ones of the kind "".
    """
    accesses = {}
    for access, rows in launch.groupby("access"):
        if access or rows["wavefronts"].isna().any():
            numbers = (None if rows[name].isna().any() else int(rows[name].sum()) for name in _NUMBERS)
            accesses[str(access)] = SavedCounts(*numbers), _worst_line(rows)
    return accesses


_NUMBERS = ("executed", "wavefronts", "ideal")


def _worst_line(rows: pd.DataFrame) -> str:
    placed = rows[(rows["file"] != "") & rows["wavefronts"].notna() & rows["ideal"].notna()]
    if placed.empty:
        return ""
    excess = (placed["wavefronts"] - placed["ideal"]).to_numpy(dtype="int64")
    worst = placed.iloc[int(excess.argmax())]
    return f"{worst['file']}:{worst['line']}" if pd.notna(worst["line"]) else str(worst["file"])


# ---------------------------------------------------------------------------------------------- over commits


def _judged(runs: Sequence[KeptRun]) -> Iterator[KeptRun]:
    """Yield the runs with their changes since the last one whose values are known, and whether they are good."""
    counted: KeptRun | None = None
    timed: KeptRun | None = None
    good: KeptRun | None = None
    for run in runs:
        changes = (*_count_changes(counted, run), *_time_change(timed, run))
        worse = good is not None and any(
            (run.entry.excessive_of(access) or 0) > (good.entry.excessive_of(access) or 0)
            for access in run.entry.accesses
        )
        judged = replace(run, changes=changes, good=run.known and (run.accepted or not worse))
        counted = judged if judged.known else counted
        timed = judged if judged.duration_ns else timed
        good = judged if judged.good else good
        yield judged


def _count_changes(before: KeptRun | None, now: KeptRun) -> Iterator[str]:
    if before is None or not now.known:
        return
    for access in dict.fromkeys((*before.entry.accesses, *now.entry.accesses)):
        was, is_ = before.entry.accesses.get(access), now.entry.accesses.get(access)
        if was is None or is_ is None:
            yield f"{access} is {'new' if was is None else 'gone'}"
        elif was.excessive != is_.excessive:
            yield f"{access} {was.excessive:,} → {is_.excessive:,} excessive"
        elif was.wavefronts != is_.wavefronts:
            yield f"{access} {was.wavefronts:,} → {is_.wavefronts:,} wavefronts"
        elif was.executed != is_.executed:
            yield f"{access} {was.executed} → {is_.executed} executed"


def _time_change(before: KeptRun | None, now: KeptRun) -> Iterator[str]:
    if before is None or not before.duration_ns or not now.duration_ns:
        return
    percent = 100 * (now.duration_ns / before.duration_ns - 1)
    if abs(percent) > before.entry.spread + now.entry.spread:
        yield f"time {percent:+.1f} %"


SCHEMA = 1
SHORT = 12  # digits of a commit


def show(tracks: Sequence[Track], console: Console) -> None:
    """Print a table per kernel and conditions: a row per run, oldest first."""
    for track in tracks:
        unit = unit_of(track)
        shown = plain_table("", "commit", "day")
        for kind in track.kinds:
            shown.add_column(kind or "shared", justify="right")
        shown.add_column(unit.name, justify="right")
        shown.add_column("changed", overflow="fold")
        for run in track.runs:
            cells = [excess(run, kind) for kind in track.kinds]
            state = "bold red" if not run.good and run.known else "yellow" if not run.known else ""
            day = run.entry.when[:10]
            shown.add_row(commit(run), day, *cells, duration(run, unit), "; ".join(notes(run)), style=state)
        console.print(table_line(f"{track.kernel}: {conditions(track)}", style="bold"), soft_wrap=True)
        console.print(shown)
        console.print()
    console.print(table_line("Excessive wavefronts per access kind; ± is half the range of a run's launches."))


def conditions(track: Track) -> str:
    """Return what has to be equal for two runs to be compared."""
    told = track.conditions
    if told["engine"] == EMULATED:
        machine = f"computed for compute capability {told['compute_capability']}"
    else:
        measured = "" if told["engine"] == "ncu" else f"{told['engine']}: "
        machine = f"{measured}{told['gpu'] or 'unknown GPU'}, ncu {told['ncu'] or 'unknown'}"
        machine += f", clocks {told['clocks'] or 'unknown'}"
    return f"{machine}, {told['problem'] or 'grid ' + told['grid']}"


def commit(run: KeptRun) -> str:
    """Return a commit's short name, with what says that sources were changed."""
    name, dash, more = run.commit.partition("-")
    return f"{name[:SHORT]}{dash}{more}" or text.UNKNOWN


def excess(run: KeptRun, kind: str) -> str:
    """Return the excess of an access kind; a dash if the kernel has no such access."""
    counts = run.entry.accesses.get(kind)
    return text.count(counts.excessive) if counts else "-"


def duration(run: KeptRun, unit: TimeUnit) -> str:
    """Return a run's duration with its noise; a dash if none was measured."""
    if run.duration_ns is None:
        return text.UNKNOWN if run.entry.durations_ns else "-"
    return f"{unit.show(run.duration_ns)} ±{run.entry.spread:.1f} %"


def unit_of(track: Track) -> TimeUnit:
    """Return the unit of a track's durations."""
    return text.time_unit(run.duration_ns for run in track.runs)


def notes(run: KeptRun) -> list[str]:
    """Return what changed, and what keeps the run from being compared."""
    accepted = ["accepted"] if run.accepted else []
    return [*run.changes, *accepted, *([f"unknown: {run.why}"] if not run.known else [])]


def to_json(tracks: Sequence[Track]) -> str:
    """Return the tracks as one JSON object; docs/ci.md describes it. What is unknown is null."""
    kernels = [
        {
            **track.conditions,
            "provenance": PROVENANCE.get(track.conditions.get("engine", ""), ""),
            "last_good": track.last_good.run if track.last_good else None,
            "runs": [_to_data(run) for run in track.runs],
        }
        for track in tracks
    ]
    return in_json({"schema": SCHEMA, "kernels": kernels}, indent=1)


def _to_data(run: KeptRun) -> dict[str, Any]:
    entry = run.entry
    accesses = [
        {
            "access": kind, **dataclasses.asdict(counts), "line": run.lines[kind],
            "excessive": counts.excessive, "degree": counts.degree,
        }
        for kind, counts in entry.accesses.items()
    ]  # fmt: skip
    return {
        "run": run.run, "commit": run.commit, "time": entry.when, "accepted": run.accepted, "accesses": accesses,
        "durations_ns": entry.durations_ns, "driver": entry.machine.driver, "cuda": entry.machine.cuda,
        "function": entry.function, "block": entry.block, "good": run.good, "changes": run.changes,
        "duration_ns": run.duration_ns, "spread": entry.spread if run.duration_ns else None,
        "unknown": run.why or None,
    }  # fmt: skip


# A history as one HTML file, without scripts: per kernel its counts and times over commits, drawn and as a table.

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


def render(all_tracks: Sequence[Track]) -> str:
    """Return the document; the same history gives the same bytes."""
    from ncu_swizzle.render.page import environment  # Jinja and what a page needs, which a check does without
    from ncu_swizzle.sweep import view

    sections = [_section(track) for track in all_tracks]
    return environment().get_template("history/page.html").render(sections=sections, **view.PLOT)


def _section(track: Track) -> HistorySection:
    unit = unit_of(track)
    changed = [commit(run) for run in track.runs if run.changes]
    where = f"changed at {text.listed(changed)}" if changed else "nothing changed"
    last = f"last good: {commit(track.last_good)}" if track.last_good else "no run is good"
    return HistorySection(
        kernel=track.kernel,
        conditions=conditions(track),
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
        cells.append(f"{excess(run, kind)}{all_of_them}")
    return HistoryRow(
        commit=commit(run), day=run.entry.when[:10], cells=tuple(cells), time=duration(run, unit),
        notes="; ".join(notes(run)), state=state,
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
    from ncu_swizzle.sweep import table, view
    from ncu_swizzle.sweep.table import Scale
    from ncu_swizzle.sweep.view import Chart, Sample

    known = {kind: line for kind, line in values.items() if any(value is not None for value in line)}
    number = len(track.runs)
    # Runs are equally far apart, each in the middle of its share of the axis; only every step-th has room for its name.
    x = Scale(lambda run: (run + 0.5) / number, ())
    y = table.linear([value for line in known.values() for value in line if value is not None])
    step = -(-number * LABEL_ROOM // view.WIDTH)
    series = [
        view.drawn(view.style(colour, kind), [
            Sample(at, value, f"{commit(run)}: {label(value)}" if value is not None else "")
            for at, (run, value) in enumerate(zip(track.runs, line, strict=True))
        ], x, y)
        for colour, (kind, line) in enumerate(known.items())
    ]  # fmt: skip
    return Chart(
        title=title,
        note="",
        axis="commit",
        xs=tuple(view.x_tick(x, at, commit(track.runs[at])) for at in range(0, number, step)),
        ys=tuple(view.y_tick(y, tick, label(tick)) for tick in y.ticks),
        series=tuple(series),
    )
