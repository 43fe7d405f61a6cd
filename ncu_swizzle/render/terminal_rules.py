"""The rule pack and its findings, on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from ncu_swizzle.pack.findings import Found
from ncu_swizzle.pack.installation import Listed, Rule
from ncu_swizzle.render.terminal_tables import new_table
from ncu_swizzle.render.view.findings import Grid
from ncu_swizzle.render.view.findings import card as card_of


def show_findings(found: Sequence[Found], console: Console) -> None:
    """Print what the rule pack says of each launch."""
    for one in found:
        console.print(f"[bold]{escape(one.label)}[/]" + ("" if one.findings else ": the rules have nothing to say."))
        for card in map(card_of, one.findings):
            console.print(f"\n  [bold]{escape(card.title)}[/] ({card.rule}, {card.kind})", highlight=False)
            console.print(Padding(escape(card.message), (0, 0, 0, 2)), highlight=False)
            for grid in card.tables:
                console.print(Padding(_grid(grid), (0, 0, 0, 4)))


def _grid(grid: Grid) -> Table:
    table = new_table(grid.title)
    for head, word in zip(grid.heads, grid.words, strict=True):
        table.add_column(head, justify="left" if word else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*map(escape, row))
    return table


def show_pack(sections: Sequence[str], rules: Sequence[Rule], console: Console) -> None:
    """Print the rule pack's sections, each with its rules."""
    for section in sections:
        table = new_table(f"Section {section}", "rule", "what it says")
        for rule in (rule for rule in rules if rule.section == section):
            table.add_row(rule.name, rule.description)
        console.print(table)


def show_listed(ncu: Path, listed: Sequence[Listed], console: Console) -> None:
    """Print which sections and rules of the pack ncu lists."""
    console.print(escape(str(ncu)), highlight=False)
    for one in listed:
        console.print(f"  {'[green]✓[/]' if one.found else '[red]✗ not listed:[/]'} {one.kind} {one.name}")
