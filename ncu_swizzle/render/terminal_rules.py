"""The rule pack and its findings on an 80-column terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from ncu_swizzle.pack.findings import LaunchFindings
from ncu_swizzle.pack.installation import Listed, PackRule
from ncu_swizzle.render.terminal_tables import plain_table
from ncu_swizzle.render.view.findings import Grid
from ncu_swizzle.render.view.findings import card as card_of


def show_findings(launches: Sequence[LaunchFindings], console: Console) -> None:
    """Print the rule pack's findings for each launch."""
    for launch in launches:
        console.print(f"[bold]{escape(launch.label)}[/]" + ("" if launch.findings else ": no findings."))
        for card in map(card_of, launch.findings):
            console.print(f"\n  [bold]{escape(card.title)}[/] ({card.rule}, {card.kind})", highlight=False)
            console.print(Padding(escape(card.message), (0, 0, 0, 2)), highlight=False)
            for grid in card.tables:
                console.print(Padding(_grid(grid), (0, 0, 0, 4)))


def _grid(grid: Grid) -> Table:
    table = plain_table(grid.title)
    for head, is_text in zip(grid.heads, grid.words, strict=True):
        table.add_column(head, justify="left" if is_text else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*map(escape, row))
    return table


def show_pack(sections: Sequence[str], rules: Sequence[PackRule], console: Console) -> None:
    """Print the rule pack's sections, each with its rules."""
    for section in sections:
        table = plain_table(f"Section {section}", "rule", "what it says")
        for rule in (rule for rule in rules if rule.section == section):
            table.add_row(rule.name, rule.description)
        console.print(table)


def show_listed(ncu: Path, listed: Sequence[Listed], console: Console) -> None:
    """Print which of the pack's sections and rules ncu lists."""
    console.print(escape(str(ncu)), highlight=False)
    for item in listed:
        console.print(f"  {'[green]✓[/]' if item.found else '[red]✗ not listed:[/]'} {item.kind} {item.name}")
