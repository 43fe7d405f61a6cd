"""A diagnosis on a terminal."""

from __future__ import annotations

from rich.console import Console

from ncu_swizzle.doctor.diagnosis import Diagnosis, Status
from ncu_swizzle.render.terminal_tables import PlainTable, line

MARKS = {Status.good: ("✓", "green"), Status.doubtful: ("!", "yellow"), Status.bad: ("✗", "bold red")}


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print a line per check, the fix below it, and the conclusion."""
    table = PlainTable(show_header=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in diagnosis.checks:
        mark, style = MARKS[check.outcome]
        table.add_row(line((mark, style)), check.name, check.said)
        if check.cure:
            table.add_row("", "", line(f"try: {check.cure}", style="dim"))
    console.print(table)
    bad = [check.name for check in diagnosis.checks if check.outcome is Status.bad]
    conclusion = f"This machine cannot measure: {', '.join(bad)}." if bad else "This machine can measure."
    console.print()
    console.print(line(conclusion, style="bold red" if bad else "bold"))
    if bad:
        console.print("Recordings can still be shown: ncu-swizzle profile kernel2 --engine recorded")
