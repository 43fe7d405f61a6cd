"""The table of a sweep on an 80-column terminal."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console

from ncu_swizzle.render.terminal_tables import PlainTable, line, plain_table
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
