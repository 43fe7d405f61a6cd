"""The per-instruction table of profiles as CSV: every SASS instruction, every count, nothing rounded."""

from __future__ import annotations

from ncu_swizzle.profiles import frames
from ncu_swizzle.profiles.comparison import Comparison


def to_csv(*comparisons: Comparison) -> str:
    """Return one row per instruction and profile: profile, engine, the columns of `frames.INSTRUCTIONS`, stall reasons.

    A count that the report lacks is empty. With several comparisons, a profile is named by its kernel's title, and by
    its label too if the kernel has several profiles.
    """
    return str(frames.of_comparisons(comparisons).to_csv(index=False, lineterminator="\n"))
