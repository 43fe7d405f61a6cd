"""A diagnosis on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from ncu_swizzle.doctor.diagnosis import Diagnosis, HealthCheck, Status
from ncu_swizzle.render.terminal_tables import PlainTable, line

MARKS = {Status.good: ("✓", "green"), Status.doubtful: ("!", "yellow"), Status.bad: ("✗", "bold red")}


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print a line per check, the fix below it, and a verdict each on measuring and on computing."""
    console.print("To measure, with ncu on a GPU:")
    _show_checks(diagnosis.checks, console)
    if diagnosis.computing:
        console.print()
        console.print("To compute wavefronts, with --engine emulated:")
        _show_checks(diagnosis.computing, console)
    console.print()
    _conclude("measure", diagnosis.obstacles, console)
    if diagnosis.computing:
        _conclude("compute wavefronts", diagnosis.computing_obstacles, console)
    if diagnosis.obstacles and diagnosis.computes:
        console.print("Without a GPU: ncu-swizzle profile kernel2 --engine emulated", soft_wrap=True)
    elif diagnosis.obstacles:
        console.print("Recordings can still be shown: ncu-swizzle profile kernel2 --engine recorded", soft_wrap=True)


def _show_checks(checks: Sequence[HealthCheck], console: Console) -> None:
    table = PlainTable(show_header=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        mark, style = MARKS[check.outcome]
        table.add_row(line((mark, style)), check.name, check.said)
        if check.cure:
            table.add_row("", "", line(f"try: {check.cure}", style="dim"))
    console.print(table)


def _conclude(what: str, obstacles: Sequence[HealthCheck], console: Console) -> None:
    names = ", ".join(check.name for check in obstacles)
    conclusion = f"This machine cannot {what}: {names}." if obstacles else f"This machine can {what}."
    console.print(line(conclusion, style="bold red" if obstacles else "bold"))
