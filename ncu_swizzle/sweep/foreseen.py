"""A sweep's plan for the terminal and as JSON."""

from __future__ import annotations

from rich.console import Console

from ncu_swizzle.render.terminal_tables import PlainTable, line, plain_table
from ncu_swizzle.sweep import table
from ncu_swizzle.sweep.forecast import Forecast, ForeseenPoint, as_sweep
from ncu_swizzle.texts import in_json

SCHEMA = 1
MOST_ROWS = 40  # of points; of more, a row per kernel
UNKNOWN = "unknown"
MINUTE_S, HOUR_S = 60, 3600


def to_json(found: Forecast) -> str:
    """Return the plan as one JSON object; unknown times are null, with the reason."""
    content = {
        "schema": SCHEMA,
        "dry_run": True,
        "family": found.plan.family.name,
        "engine": found.engine,
        "engine_reason": found.reason,
        "where": found.crewing.words,
        "workers": found.crewing.workers,
        "folder": str(found.folder),
        "points": [_record(each) for each in found.points],
        "seconds": found.seconds,
        "seconds_known": round(found.known_s, 3),
        "points_unknown": found.unknown,
        "notes": list(found.notes),
    }
    return in_json(content, indent=1)


def _record(each: ForeseenPoint) -> dict[str, object]:
    return {
        "kernel": each.point.kernel,
        "problem": each.point.sizes,
        "reused": each.reused,
        "with": each.unit,
        "seconds": None if each.reused else each.estimate.seconds,
        "seconds_from": "" if each.reused else each.estimate.origin,
    }


def show(found: Forecast, console: Console) -> None:
    """Print what would run where, what is reused, and how long it takes as far as that is known."""
    reason = f" Nothing can be measured here: {found.reason}." if found.reason else ""
    console.print(line(f"A plan: nothing was run. Engine: {found.engine}.{reason}"))
    console.print(line(f"Where: {found.crewing.words}. Folder: {found.folder}/"))
    for note in found.notes:
        console.print(line(note, style="dim"))
    console.print(_points(found) if len(found.points) <= MOST_ROWS else _kernels(found))
    console.print()
    console.print(line(_counted(found)))
    console.print(line(_timed(found)))


def _points(found: Forecast) -> PlainTable:
    varied = found.plan.varied
    shown = plain_table(table.title(as_sweep(found)), "kernel")
    for name in (*varied, "", "time"):
        shown.add_column(name, justify="right")
    for each in found.points:
        sizes = [f"{each.point.sizes[name]:,}" for name in varied]
        shown.add_row(each.point.kernel, *sizes, "reused" if each.reused else "runs",
                      "" if each.reused else span(each.estimate.seconds))  # fmt: skip
    return shown


def _kernels(found: Forecast) -> PlainTable:
    shown = plain_table(table.title(as_sweep(found)), "kernel")
    for name in ("points", "reused", "run", "known time", "of points"):
        shown.add_column(name, justify="right")
    for kernel in found.plan.kernels:
        own = [each for each in found.points if each.point.kernel == kernel.name]
        runs = [each for each in own if not each.reused]
        known = [each.estimate.seconds for each in runs if each.estimate.seconds is not None]
        counts = (f"{len(own):,}", f"{len(own) - len(runs):,}", f"{len(runs):,}")
        shown.add_row(kernel.name, *counts, span(sum(known)) if known else UNKNOWN, f"{len(known):,}")
    return shown


def _counted(found: Forecast) -> str:
    reused = len(found.points) - len(found.open)
    units = {each.unit for each in found.open if each.unit}
    together = f" What is compared stays on one GPU: {len(units):,} units." if units else ""
    return f"{len(found.points):,} points: {reused:,} reused, {len(found.open):,} to run.{together}"


def _timed(found: Forecast) -> str:
    if not found.open:
        return "Time: nothing is left to run."
    if found.unknown:
        known = len(found.open) - found.unknown
        why = ", ".join(dict.fromkeys(each.estimate.origin for each in found.open if each.estimate.seconds is None))
        rest = f"; the other {known:,} take {span(found.known_s)} one after the other" if known else ""
        return f"Time: unknown for {found.unknown:,} points ({why}){rest}."
    work = f"{span(found.known_s)} one after the other, as in earlier sweeps"
    if found.seconds is None:
        return f"Time: {work}; how many workers share that, only the cluster knows."
    start = ", and the start of the workers" if found.crewing.workers != 1 else ""
    return f"Time: about {span(found.seconds)} ({work}){start}."


def span(seconds: float | None) -> str:
    """Return a time in words: 0.4 s, 35 s, 12 min, 3.1 h."""
    if seconds is None:
        return UNKNOWN
    if seconds < MINUTE_S * 2:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / MINUTE_S:.0f} min" if seconds < HOUR_S * 2 else f"{seconds / HOUR_S:.1f} h"
