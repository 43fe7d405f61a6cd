"""Lines and tables for an 80-column terminal; no text in them is read as markup, or takes more than its line."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ncu_swizzle.texts import one_line


def line(*parts: str | tuple[str, str], style: str = "") -> Text:
    """Return one line of text for a terminal; a part with a style is a pair."""
    texts = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(*((one_line(text), styled) for text, styled in texts), style=style)


class PlainTable(Table):
    """A table without borders whose strings are plain text, a line each."""

    def __init__(self, title: str = "", gap: int = 1, **settings: Any) -> None:
        shown = line(title, style="bold") if title else None
        super().__init__(title=shown, title_justify="left", box=None, pad_edge=False, padding=(0, gap, 0, 0),
                         **settings)  # fmt: skip

    def add_column(self, header: RenderableType = "", *rest: Any, **settings: Any) -> None:
        super().add_column(_cell(header), *rest, **settings)

    def add_row(self, *cells: RenderableType | None, **settings: Any) -> None:
        super().add_row(*map(_cell, cells), **settings)


def _cell(content: RenderableType | None) -> Any:
    return line(content) if isinstance(content, str) else content


def plain_table(title: str, *columns: str) -> PlainTable:
    """Return a table without borders; `columns` are its text columns, long words folded."""
    table = PlainTable(title)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
