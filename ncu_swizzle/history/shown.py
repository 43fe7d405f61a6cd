"""A history on the terminal and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ncu_swizzle.history.tracks import KeptRun, Track
from ncu_swizzle.profiles.engine import EMULATED
from ncu_swizzle.render.terminal_tables import line, plain_table
from ncu_swizzle.render.view import text
from ncu_swizzle.render.view.text import TimeUnit
from ncu_swizzle.texts import in_json

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
        console.print(line(title(track), style="bold"), soft_wrap=True)
        console.print(shown)
        console.print()
    console.print(line("Excessive wavefronts per access kind; ± is half the range of a run's launches."))


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
