"""How tables look on a terminal of 80 columns."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rich.table import Table

UNITS = {"ms": "{:,.3f}"}


def new_table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def known(value: Any, form: str) -> str:
    return "unknown" if pd.isna(value) else form.format(value)


def value_text(value: Any, unit: str) -> str:
    whole = not pd.isna(value) and float(value).is_integer()
    return f"{known(value, '{:,.0f}' if whole else UNITS.get(unit, '{:,.1f}'))} {unit}".strip()
