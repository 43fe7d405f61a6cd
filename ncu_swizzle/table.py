"""The per-instruction table of profiles as CSV: every SASS instruction, every count, nothing rounded."""

from __future__ import annotations

from ncu_swizzle import frames
from ncu_swizzle.compare import Comparison


def to_csv(comparison: Comparison) -> str:
    """Return one row per instruction and profile: the columns of `frames.INSTRUCTIONS` behind profile and engine.

    After them comes one per stall reason. A count that the report lacks is empty.
    """
    return str(frames.of_comparison(comparison).to_csv(index=False, lineterminator="\n"))
