"""A history on the terminal and as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

import pandas as pd
from rich.console import Console

from ncu_swizzle.base.bounds import some
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.gate.baseline import spread_of
from ncu_swizzle.gate.history import RUN, in_utc
from ncu_swizzle.render import text
from ncu_swizzle.render.listing import plain_table, table_line
from ncu_swizzle.render.text import TimeUnit
from ncu_swizzle.reports.counts import Ratios
from ncu_swizzle.reports.options import EMULATED

# A kernel over commits, under the same conditions: what changed from run to run, and which run is the last good one.
#
# Counts are exact, so any change is a change. Times are noisy: they changed if they moved by more than both spreads.


CONDITIONS = ("kernel", "engine", "gpu", "compute_capability", "clocks", "ncu", "problem", "grid")


@dataclass(frozen=True, kw_only=True)
class KeptCounts(Ratios):
    """All accesses of a kind in one launch; None if the counts of any are unknown. `line` has the most excess."""

    executed: int | None
    wavefronts: int | None
    ideal: int | None
    line: str = ""

    @property
    def numbers(self) -> tuple[int | None, int | None, int | None]:
        return self.executed, self.wavefronts, self.ideal


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """A run of one kernel: the counts of its worst launch, the durations of all; and what changed since the last one.

    `good`: its counts are known and no access kind has more excess than in the last good one, or it was accepted.
    """

    run: str
    commit: str
    time: str  # of the commit if it is known, else of the run; ISO 8601, UTC
    accepted: bool
    accesses: Mapping[str, KeptCounts]
    durations_ns: tuple[float, ...]
    launches: int
    why: str = ""  # counts are unknown
    driver: str = ""
    cuda: str = ""
    function: str = ""
    block: str = ""
    good: bool = False
    changes: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        return all(counts.excessive is not None for counts in self.accesses.values())

    @property
    def excessive(self) -> int | None:
        """All excessive wavefronts; None if any are unknown."""
        return sum(counts.excessive or 0 for counts in self.accesses.values()) if self.known else None

    def excessive_of(self, access: str) -> int:
        """Return the excess of an access kind, if counts are known."""
        return self.accesses[access].excessive or 0 if access in self.accesses else 0

    @property
    def duration_ns(self) -> float | None:
        """The median duration of its launches; None if any is unknown."""
        return median(self.durations_ns) if self.durations_ns and len(self.durations_ns) == self.launches else None

    @property
    def spread(self) -> float:
        """Half the range of the durations, in percent of the median; SINGLE_SPREAD for a single launch."""
        return spread_of(self.durations_ns)


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
        return tuple(sorted({access for run in self.runs for access in run.accesses}))


def tracks(rows: pd.DataFrame) -> tuple[Track, ...]:
    """Return the tracks of a history's rows, by kernel."""
    given = rows.copy()
    computed = given["engine"] == EMULATED
    given.loc[computed, ["gpu", "ncu"]] = ""  # what it was computed on does not matter
    given.loc[given["problem"] != "", "grid"] = ""
    found = []
    for key, group in given.groupby(list(CONDITIONS), sort=True):
        runs = sorted(_distinct(_track_run(str(run), part) for run, part in group.groupby(RUN)), key=_order)
        found.append(Track(dict(zip(CONDITIONS, map(str, key), strict=True)), tuple(_judged(runs))))
    return tuple(found)


def _distinct(runs: Iterable[KeptRun]) -> list[KeptRun]:
    """Return the runs of one kernel; one that was added alone, and again together with others, counts once."""
    found: list[KeptRun] = []
    for run in runs:
        if not any(replace(other, run=run.run) == run for other in found):
            found.append(run)
    return found


def of_kernel(found: Sequence[Track], kernel: str) -> list[Track]:
    """Return the tracks of a kernel, of all if it is empty; raise UsageError if there are none."""
    chosen = [track for track in found if kernel in ("", track.kernel)]
    if not chosen:
        names = some(sorted({track.kernel for track in found}))
        raise UsageError(
            f"the history has no kernel {kernel!r}: it has {names}", "name one of these, or none to see all"
        )
    return chosen


def _order(run: KeptRun) -> tuple[str, bool, str]:
    return run.time, run.accepted, run.run  # accepted, it follows itself as it was added before


def _track_run(name: str, rows: pd.DataFrame) -> KeptRun:
    launches = [_accesses(launch) for _, launch in rows.groupby("launch")]
    first = rows.iloc[0]
    durations = rows.groupby("launch")["duration"].first()
    return KeptRun(
        run=name,
        commit=first["commit"],
        time=in_utc(first["committed"]) or in_utc(rows["when"].max()),
        accepted=bool(first["accepted"]),
        accesses=max(launches, key=_badness),
        durations_ns=tuple(float(ns) for ns in durations if pd.notna(ns) and 0 < ns < math.inf),
        launches=len(launches),
        why=next((why for why in rows["why"] if why), ""),
        driver=first["driver"],
        cuda=first["cuda"],
        function=first["function"],
        block=first["block"],
    )


def _badness(accesses: Mapping[str, KeptCounts]) -> tuple[bool, int]:
    excess = [counts.excessive for counts in accesses.values()]
    return None in excess, sum(count or 0 for count in excess)


def _accesses(launch: pd.DataFrame) -> dict[str, KeptCounts]:
    """Return the counts of a launch by access kind; no access has counts of 0, unless they are unknown."""
    accesses = {}
    for access, rows in launch.groupby("access"):
        if access or rows["wavefronts"].isna().any():
            numbers = {name: _sum(rows[name]) for name in ("executed", "wavefronts", "ideal")}
            accesses[str(access)] = KeptCounts(**numbers, line=_worst_line(rows))
    return accesses


def _sum(column: Any) -> int | None:
    return None if column.isna().any() else int(column.sum())


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
        no_worse = good is None or not grown(good, run)
        judged = replace(run, changes=changes, good=run.known and (run.accepted or no_worse))
        counted = judged if judged.known else counted
        timed = judged if judged.duration_ns else timed
        good = judged if judged.good else good
        yield judged


def grown(before: KeptRun, now: KeptRun) -> list[str]:
    """Return the access kinds with more excess than before; the counts of both are known."""
    return [access for access in now.accesses if now.excessive_of(access) > before.excessive_of(access)]


def _count_changes(before: KeptRun | None, now: KeptRun) -> Iterator[str]:
    if before is None or not now.known:
        return
    for access in dict.fromkeys((*before.accesses, *now.accesses)):
        was, is_ = before.accesses.get(access), now.accesses.get(access)
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
    if abs(percent) > before.spread + now.spread:
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
            shown.add_row(commit(run), run.time[:10], *cells, duration(run, unit), "; ".join(notes(run)), style=state)
        console.print(table_line(title(track), style="bold"), soft_wrap=True)
        console.print(shown)
        console.print()
    console.print(table_line("Excessive wavefronts per access kind; ± is half the range of a run's launches."))


def title(track: Track) -> str:
    """Return the kernel and its conditions in one line."""
    return f"{track.kernel}: {conditions(track)}"


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
    counts = run.accesses.get(kind)
    return text.count(counts.excessive) if counts else "-"


def duration(run: KeptRun, unit: TimeUnit) -> str:
    """Return a run's duration with its noise; a dash if none was measured."""
    if run.duration_ns is None:
        return text.UNKNOWN if run.durations_ns else "-"
    return f"{unit.show(run.duration_ns)} ±{run.spread:.1f} %"


def unit_of(track: Track) -> TimeUnit:
    """Return the unit of a track's durations."""
    return text.time_unit(run.duration_ns for run in track.runs)


def notes(run: KeptRun) -> list[str]:
    """Return what changed, and what keeps the run from being compared."""
    accepted = ["accepted"] if run.accepted else []
    return [*run.changes, *accepted, *([f"unknown: {run.why}"] if not run.known else [])]


def to_json(tracks: Sequence[Track]) -> str:
    """Return the tracks as one JSON object; docs/ci.md describes it. What is unknown is null."""
    content = [
        {**track.conditions, "last_good": _name(track), "runs": [_run(r) for r in track.runs]} for track in tracks
    ]
    return in_json({"schema": SCHEMA, "kernels": content}, indent=1)


def _name(track: Track) -> str | None:
    return track.last_good.run if track.last_good else None


def _run(run: KeptRun) -> dict[str, Any]:
    content = {
        key: value for key, value in dataclasses.asdict(run).items() if key not in ("accesses", "why", "launches")
    }
    accesses = [
        {"access": kind, **dataclasses.asdict(counts), "excessive": counts.excessive, "degree": counts.degree}
        for kind, counts in run.accesses.items()
    ]
    spread = run.spread if run.duration_ns else None
    return {
        **content,
        "accesses": accesses,
        "duration_ns": run.duration_ns,
        "spread": spread,
        "unknown": run.why or None,
    }
