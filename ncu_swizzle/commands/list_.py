"""``ncu-swizzle list``: what can be profiled."""

from __future__ import annotations

import json as json_
import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from ncu_swizzle.catalog import Family


def list_(json: Annotated[bool, typer.Option("--json", help="Print the catalogue as data.")] = False) -> None:
    """Show what can be profiled, and what was recorded."""
    from ncu_swizzle import catalog, paths
    from ncu_swizzle.commands.output import Output

    found = catalog.load()
    reports = {kernel.name: paths.recording(family.name, kernel.name) for family, kernel in found}
    recorded = {name: report.parent.parent.name for name, report in reports.items() if report}
    if json:
        rows = [_row(family, recorded) for family in found.families]
        sys.stdout.write(json_.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    else:
        console = Output()
        for family in found.families:
            console.print(_table(family, recorded))


def _row(family: Family, recorded: dict[str, str]) -> dict[str, object]:
    kernels = [
        {
            "name": kernel.name,
            "title": kernel.title,
            "lesson": kernel.lesson,
            "baseline": kernel.baseline,
            "degree": dict(kernel.degree),
            "recorded": recorded.get(kernel.name),
        }
        for kernel in family.kernels
    ]
    return {"family": family.name, "title": family.title, "problem": family.problem(), "kernels": kernels}


def _table(family: Family, recorded: dict[str, str]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    sizes = ", ".join(f"{parameter.name} {parameter.default}" for parameter in family.parameters)
    title = escape(f"{family.name}: {family.title} ({sizes})")
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in ("kernel", "what it shows", "recorded on"):
        table.add_column(column)
    for kernel in family.kernels:
        before = f" [dim]Compared with {escape(kernel.baseline)}.[/]" if kernel.baseline else ""
        shows = f"{escape(kernel.title)}. {escape(kernel.lesson)}{before}"
        table.add_row(f"[bold]{escape(kernel.name)}[/]", shows, recorded.get(kernel.name, "-"))
    return table
