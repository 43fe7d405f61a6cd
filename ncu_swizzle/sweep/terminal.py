"""The table of a sweep on an 80-column terminal."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncu_swizzle.sweep import table
from ncu_swizzle.sweep.outcome import Sweep
from ncu_swizzle.texts import one_line


def show(sweep: Sweep, console: Console) -> None:
    """Print where the values come from, the table, what failed, and where it was written."""
    style = "" if sweep.engine == "ncu" else "bold yellow"
    reason = f" Nothing can be measured here: {sweep.reason}." if sweep.reason else ""
    console.print(Text(f"{table.where(sweep)}{reason}", style=style))
    for note in sweep.notes:
        console.print(Text(note, style="dim"))
    console.print(_table(sweep))
    for outcome in sweep.failed:
        console.print(Text(one_line(f"failed: {outcome.point}: {outcome.error}"), style="red"))
    console.print(Text(f"\nWritten to {sweep.folder}/: report.html, sweep.json, points/"), soft_wrap=True)


def _table(sweep: Sweep) -> Table:
    varied = sweep.plan.varied
    shown = Table(title=one_line(table.title(sweep)), title_justify="left", title_style="bold", box=None,
                  pad_edge=False, padding=(0, 1, 0, 0))  # fmt: skip
    shown.add_column("kernel", overflow="fold")
    for name in (*varied, "duration", "speedup", "excessive", "degree"):
        shown.add_column(name, justify="right")
    for _, group in groupby(table.rows(sweep), key=lambda row: row.outcome.point.problem):
        for row in group:
            style = "red" if row.error or row.count("excessive") else ""
            shown.add_row(*(Text(one_line(cell)) for cell in table.cells(row, varied)), style=style)
        shown.add_section()
    return shown
