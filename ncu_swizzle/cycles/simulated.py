"""Results of simulated launches: cycles, savings, where warps wait. Importing this loads no emulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ncu_swizzle.base.validate import Count
from ncu_swizzle.cycles import intervals


@dataclass(frozen=True, kw_only=True)
class Span:
    """An estimate with its interval."""

    point: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class InstructionWaits:
    """The cycles that warps of an SM spend at an instruction, by what they wait for, in ncu's words."""

    offset: Count
    cycles: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """An H100's estimated cycles for a launch; without an estimate, `lacking` and `remedy` say why and what to do.

    `saved` is the share of the cycles that removing the excessive wavefronts saves, None if that is not known.
    """

    cycles: Span | None = None
    saved: Span | None = None
    coverage: float = 0.0  # the share of programs for which intervals hold
    unit: str = ""  # the busiest, and its share of what it can do
    used: float = 0.0
    waits: tuple[InstructionWaits, ...] = ()
    lacking: str = ""
    remedy: str = ""


def with_interval(point: float, spread: tuple[float, float]) -> Span:
    """Return a saving with its interval; `spread` is how far off it may be: always, and per saving."""
    always, per_saving = spread
    off = always + per_saving * abs(point)
    return Span(point=point, low=point - off, high=min(1.0, point + off))


def saved_by(before: Simulated | None, after: Simulated | None) -> Span | None:
    """Return the share of the cycles that the second launch saves, which may cost some; None if one has no estimate."""
    if not (before and after and before.cycles and after.cycles and before.saved and after.saved):
        return None
    return with_interval(1 - after.cycles.point / before.cycles.point, intervals.BOTH)
