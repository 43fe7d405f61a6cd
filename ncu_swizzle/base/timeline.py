"""Which warps write, wait and read in shared memory: a record that profiles keep and pages draw."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.base.validate import Count


@dataclass(frozen=True, kw_only=True)
class Step:
    """What warps do in columns [start, end) of a timeline: access a stage, or wait or arrive, with `stage` None."""

    row: Count
    start: Count
    end: Count
    does: str
    stage: Count | None = None
    offset: Count = 0  # of the instruction


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The warps of each row, the bytes [low, high) of each stage, and the steps.

    `cut` says that they continue.
    """

    rows: tuple[str, ...]
    stages: tuple[tuple[tuple[Count, Count], ...], ...]
    steps: tuple[Step, ...]
    cut: bool = False
