"""What a simulation says of a launch: cycles, savings, where warps wait. Importing this loads no emulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ncu_swizzle.base.validate import Count


@dataclass(frozen=True, kw_only=True)
class Span:
    """An estimate with its interval."""

    point: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Waits:
    """The cycles that warps of an SM spend at an instruction, by what they wait for; "issued": one per issue."""

    offset: Count
    cycles: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """What an H100 would take for a launch; without an estimate, `lacking` and `remedy` say why and what to do.

    `saved` is the share of the cycles that removing the excessive wavefronts saves, None if that is not known.
    """

    cycles: Span | None = None
    saved: Span | None = None
    coverage: float = 0.0  # the share of programs for which intervals hold
    unit: str = ""  # the busiest, and its share of what it can do
    used: float = 0.0
    waits: tuple[Waits, ...] = ()
    lacking: str = ""
    remedy: str = ""
