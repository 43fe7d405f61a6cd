"""The table of a sweep, or its plan, on an 80-column terminal."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console

from ncu_swizzle.render.terminal_tables import PlainTable, line, plain_table
from ncu_swizzle.render.view import text
from ncu_swizzle.sweep import table
from ncu_swizzle.sweep.outcome import Sweep


def show(sweep: Sweep, console: Console) -> None:
    """Print where the values come from, the table, what failed, and where it was written."""
    style = "" if sweep.engine == "ncu" else "bold yellow"
    reason = f" Nothing can be measured here: {sweep.reason}." if sweep.reason else ""
    console.print(line(f"{table.where(sweep)}{reason}", style=style))
    for note in sweep.notes:
        console.print(line(note, style="dim"))
    console.print(_table(sweep))
    for outcome in sweep.failed:
        console.print(line(f"failed: {outcome.point}: {outcome.error}", style="red"))
    console.print()
    console.print(line(f"Written to {sweep.folder}/: report.html, sweep.json, points/"), soft_wrap=True)


def show_plan(sweep: Sweep, console: Console, known: bool) -> None:
    """Print the points of a sweep that was not run, and which are reused if that is `known`."""
    reason = f" Nothing can be measured here: {sweep.reason}." if sweep.reason else ""
    console.print(line(f"A plan: nothing was run. Engine: {sweep.engine}.{reason}"))
    console.print(line(f"Folder: {sweep.folder}/"), soft_wrap=True)
    for note in sweep.notes:
        console.print(line(note, style="dim"))
    varied = sweep.plan.varied
    shown = plain_table(table.title(sweep), "kernel")
    for name in (*varied, ""):
        shown.add_column(name, justify="right")
    for each in sweep.outcomes:
        state = ("reused" if each.kept else "to run") if known else text.UNKNOWN
        shown.add_row(each.point.kernel, *(f"{each.point.sizes[name]:,}" for name in varied), state)
    console.print(shown)
    console.print()
    reused = sum(each.kept for each in sweep.outcomes)
    rest = f": {reused:,} reused, {len(sweep.outcomes) - reused:,} to run" if known else ""
    console.print(line(f"{len(sweep.outcomes):,} points{rest}."))


def _table(sweep: Sweep) -> PlainTable:
    varied = sweep.plan.varied
    shown = plain_table(table.title(sweep), "kernel")
    for name in (*varied, "duration", "speedup", "excessive", "degree"):
        shown.add_column(name, justify="right")
    rows = table.rows(sweep)
    unit = table.time_unit(rows)
    for _, group in groupby(rows, key=lambda row: row.outcome.point.problem):
        for row in group:
            style = "red" if row.error or row.count("excessive") else ""
            shown.add_row(*table.cells(row, varied, unit), style=style)
        shown.add_section()
    return shown
