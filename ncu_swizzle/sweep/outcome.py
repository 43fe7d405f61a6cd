"""The results of a sweep: for each point a profile, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.sweep.plan import Plan, Point


@dataclass(frozen=True)
class PointOutcome:
    """One point: its profile, or the error that it ended with; neither if it was not reached."""

    point: Point
    profile: Profile | None = None
    error: NcuSwizzleError | None = None
    kept: bool = False  # reused from an earlier run of the sweep

    @property
    def state(self) -> str:
        if self.profile:
            return "done"
        return "failed" if self.error else "open"


@dataclass(frozen=True)
class Sweep:
    """All points of a plan, in its order; `notes` say which points were reused, and why others were not."""

    plan: Plan
    engine: str
    outcomes: tuple[PointOutcome, ...]
    reason: str = ""  # why "auto" did not measure
    notes: tuple[str, ...] = ()
    folder: Path | None = None

    @property
    def failed(self) -> tuple[PointOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.error)

    @property
    def done(self) -> tuple[PointOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.profile)
