"""What a sweep found: per point a profile, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.sweep.plan import Plan, Point


@dataclass(frozen=True)
class Outcome:
    """One point: its profile, or the error that it ended with; neither where it was not come to."""

    point: Point
    profile: Profile | None = None
    error: NcuSwizzleError | None = None
    kept: bool = False  # taken over from an earlier start of the sweep

    @property
    def state(self) -> str:
        if self.profile:
            return "done"
        return "failed" if self.error else "open"


@dataclass(frozen=True)
class Sweep:
    """All points of a plan in its order; `notes` say what was taken over and why some was not."""

    plan: Plan
    engine: str
    outcomes: tuple[Outcome, ...]
    reason: str = ""  # why nothing was measured, where "auto" was asked for
    notes: tuple[str, ...] = ()
    folder: Path | None = None

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(one for one in self.outcomes if one.error)

    @property
    def done(self) -> tuple[Outcome, ...]:
        return tuple(one for one in self.outcomes if one.profile)

    @property
    def open(self) -> tuple[Outcome, ...]:
        return tuple(one for one in self.outcomes if one.state == "open")
