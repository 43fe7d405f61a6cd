"""Tables as CSV; of profiles, the table of instructions: every SASS instruction, every count, nothing rounded."""

from __future__ import annotations

import pandas as pd

from ncu_swizzle.profiles import frames
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.texts import in_csv


def to_csv(*comparisons: Comparison) -> str:
    """Return one row per instruction and profile: profile, engine, the columns of `frames.INSTRUCTIONS`, stall reasons.

    A count that the report lacks is empty. With several comparisons, a profile is named by its kernel's title, and by
    its label too if the kernel has several profiles.
    """
    return written(frames.of_comparisons(comparisons))


def written(table: pd.DataFrame) -> str:
    """Return a table as CSV that opens in a spreadsheet without running anything: see `texts.in_csv`."""
    cells = [_harmless(column).rename(number) for number, (_, column) in enumerate(table.items())]
    safe = pd.concat(cells, axis=1) if cells else table
    return str(safe.to_csv(index=False, header=[in_csv(str(name)) for name in table.columns], lineterminator="\n"))


def _harmless(column: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    return column.astype(object).map(lambda cell: in_csv(cell) if isinstance(cell, str) else cell)
