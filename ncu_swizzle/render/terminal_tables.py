"""Tables and numbers for an 80-column terminal."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rich.table import Table

FORMATS = {"ms": "{:,.3f}"}  # by unit; other fractions have one decimal


def plain_table(title: str, *columns: str) -> Table:
    """Return a table without borders; `columns` are its text columns, long words folded."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def number(value: Any, form: str) -> str:
    """Return a number in this format; "unknown" for NaN and NA."""
    return "unknown" if pd.isna(value) else form.format(value)


def quantity(value: Any, unit: str) -> str:
    """Return a number with its unit, whole numbers without decimals; "unknown" for NaN and NA."""
    whole = not pd.isna(value) and float(value).is_integer()
    return f"{number(value, '{:,.0f}' if whole else FORMATS.get(unit, '{:,.1f}'))} {unit}".strip()
