"""The results of a sweep: for each point a profile, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.fleet.tasks import HERE, Whereabouts
from ncu_swizzle.profiles.counts import Total
from ncu_swizzle.profiles.model import MachineInfo, Profile
from ncu_swizzle.sweep.plan import Plan, Point


@dataclass(frozen=True)
class PointValues:
    """What tables and the page show of a point's profile; the profile itself stays in the point's folder."""

    engine: str
    machine: MachineInfo
    when: str
    beside: str
    duration_ns: float | None
    total: Total
    where: Whereabouts = HERE

    @classmethod
    def of(cls, profile: Profile, where: Whereabouts = HERE) -> PointValues:
        """Return what is kept of a profile in memory."""
        return cls(
            profile.engine, profile.machine, profile.when, profile.beside, profile.duration_ns, profile.total, where
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        """What has to match before two durations make a ratio: the GPU, its driver, ncu and the clocks."""
        machine = self.machine
        return (machine.gpu, machine.driver, machine.ncu, machine.clock_control, self.where.uuid)


@dataclass(frozen=True)
class PointOutcome:
    """One point: what it has, or the error that it ended with; neither if it was not reached."""

    point: Point
    values: PointValues | None = None
    error: NcuSwizzleError | None = None
    kept: bool = False  # reused from an earlier run of the sweep
    where: Whereabouts = HERE

    @property
    def state(self) -> str:
        if self.values:
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
        return tuple(outcome for outcome in self.outcomes if outcome.values)
