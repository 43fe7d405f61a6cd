"""A diagnosis on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ncu_swizzle.doctor.diagnosis import Diagnosis, Outcome

MARKS = {Outcome.good: ("✓", "green"), Outcome.doubtful: ("!", "yellow"), Outcome.bad: ("✗", "bold red")}


def show(found: Diagnosis, console: Console) -> None:
    """Print a line per check, what to type below it, and what it all means."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in found.checks:
        mark, style = MARKS[one.outcome]
        table.add_row(Text(mark, style=style), Text(one.name), Text(one.said))
        if one.cure:
            table.add_row("", "", Text(f"try: {one.cure}", style="dim"))
    console.print(table)
    bad = [one.name for one in found.checks if one.outcome is Outcome.bad]
    said = f"This machine cannot measure: {', '.join(bad)}." if bad else "This machine can measure."
    console.print(Text(f"\n{said}", style="bold red" if bad else "bold"))
    if bad:
        console.print("What was recorded can be shown all the same: ncu-swizzle profile kernel2 --engine recorded")
