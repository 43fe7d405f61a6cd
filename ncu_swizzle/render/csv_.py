"""The per-instruction table of profiles as CSV: every SASS instruction, every count, nothing rounded."""

from __future__ import annotations

from ncu_swizzle.profiles import frames
from ncu_swizzle.profiles.comparison import Comparison


def to_csv(*comparisons: Comparison) -> str:
    """Return one row per instruction and profile: the columns of `frames.INSTRUCTIONS` behind profile and engine.

    After them comes one per stall reason. A count that the report lacks is empty. Of several comparisons, a profile is
    called by the kernel's title and, where that has several, its label.
    """
    return str(frames.of_comparisons(comparisons).to_csv(index=False, lineterminator="\n"))
