"""The rule pack and its findings on an 80-column terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding

from ncu_swizzle.pack.findings import LaunchFindings
from ncu_swizzle.pack.installation import Listed, PackRule
from ncu_swizzle.render.terminal_tables import PlainTable, line, plain_table
from ncu_swizzle.render.view.findings import Grid
from ncu_swizzle.render.view.findings import card as card_of


def show_findings(launches: Sequence[LaunchFindings], console: Console) -> None:
    """Print the rule pack's findings for each launch."""
    for launch in launches:
        console.print(line((launch.label, "bold"), "" if launch.findings else ": no findings."))
        for card in map(card_of, launch.findings):
            console.print()
            console.print(line("  ", (card.title, "bold"), f" ({card.rule}, {card.kind})"))
            console.print(Padding(line(card.message), (0, 0, 0, 2)))
            for grid in card.tables:
                console.print(Padding(_grid(grid), (0, 0, 0, 4)))


def _grid(grid: Grid) -> PlainTable:
    table = plain_table(grid.title)
    for head, is_text in zip(grid.heads, grid.words, strict=True):
        table.add_column(head, justify="left" if is_text else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*row)
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
    console.print(line(str(ncu)))
    for item in listed:
        mark = ("✓", "green") if item.found else ("✗ not listed:", "red")
        console.print(line("  ", mark, f" {item.kind} {item.name}"))
