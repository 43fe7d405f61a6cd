"""Who writes, who waits and who reads in shared memory: a record that profiles keep, and pages draw."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.base.validate import Count


@dataclass(frozen=True, kw_only=True)
class Step:
    """What warps do in columns [start, end) of a timeline: to a stage, or they wait or arrive, and it is None."""

    row: Count
    start: Count
    end: Count
    does: str
    stage: Count | None = None
    offset: Count = 0  # of the instruction


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Who writes, who waits, who reads: the rows' warps, the bytes [low, high) of each stage, and the steps.

    `cut` says that they go on.
    """

    rows: tuple[str, ...]
    stages: tuple[tuple[tuple[Count, Count], ...], ...]
    steps: tuple[Step, ...]
    cut: bool = False
