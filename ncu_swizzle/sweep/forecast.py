"""What a sweep would do, without doing it: its points, where they would run, what is reused, and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.engines.context import Request
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.fleet import cluster
from ncu_swizzle.fleet.options import FleetOptions
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.profiles.engine import NCU
from ncu_swizzle.sweep import durations, folder, points, resumed, running
from ncu_swizzle.sweep.durations import Estimate
from ncu_swizzle.sweep.fingerprint import Fingerprint
from ncu_swizzle.sweep.outcome import PointOutcome, Sweep
from ncu_swizzle.sweep.plan import Plan, Point

NOT_ASKED = "the workers of the cluster were not asked: they decide which saved points are reused"


@dataclass(frozen=True)
class Crewing:
    """Who would do the work: in words, and how many points run at once; None if only the cluster knows."""

    words: str
    workers: int | None
    uuids: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ForeseenPoint:
    """One point: whether it is reused, the points that it stays with on one GPU, and what is known of its time."""

    point: Point
    reused: bool
    unit: str
    estimate: Estimate


@dataclass(frozen=True)
class Forecast:
    """The plan of a sweep. Seconds are without the start of workers; None if a point's time is unknown."""

    plan: Plan
    engine: str
    reason: str
    crewing: Crewing
    folder: Path
    points: tuple[ForeseenPoint, ...]
    notes: tuple[str, ...]

    @property
    def open(self) -> tuple[ForeseenPoint, ...]:
        """The points that would run."""
        return tuple(each for each in self.points if not each.reused)

    @property
    def unknown(self) -> int:
        """How many of these nobody has timed."""
        return sum(each.estimate.seconds is None for each in self.open)

    @property
    def known_s(self) -> float:
        """The work of those whose time is known, as if they ran one after the other."""
        return sum(each.estimate.seconds or 0.0 for each in self.open)

    @property
    def seconds(self) -> float | None:
        """How long the points take on these workers, the heaviest units first."""
        if self.crewing.workers is None or self.unknown:
            return None
        units: dict[str, list[ForeseenPoint]] = {}
        for number, each in enumerate(self.open):
            units.setdefault(each.unit or f"\0{number}", []).append(each)
        weights = {name: sum(points.weight(self.plan, each.point) for each in unit) for name, unit in units.items()}
        ends = [0.0] * self.crewing.workers
        for name in sorted(units, key=lambda name: -weights[name]):
            first = ends.index(min(ends))
            ends[first] += sum(each.estimate.seconds or 0.0 for each in units[name])
        return max(ends)


def forecast(plan: Plan, request: Request, destination: Destination, resume: bool, fleet: FleetOptions) -> Forecast:
    """Return what `running.run` would do; raises what it would raise before its first point."""
    begun = running.begin(plan, request, destination, resume, fleet)
    crewing = _crewing(fleet)
    sweep = Sweep(plan, begun.engine.name, tuple(map(PointOutcome, plan.points)), begun.engine.reason,
                  folder=begun.folder)  # fmt: skip
    notes = []
    joined = fleet.given and not fleet.own
    if resume and (tools := _tools(begun.job.common, joined)) is not None:
        sweep = resumed.with_saved(sweep, begun.common, [tools])
        if not joined:
            sweep = resumed.on_one_gpu(sweep, set(crewing.uuids) or {""})
    if resume and joined:
        notes.append(f"{NOT_ASKED[0].upper()}{NOT_ASKED[1:]}.")
    if destination.force_overwrite and not resume and (saved := folder.saved(begun.folder)):
        notes.append(f"-f removes {saved:,} saved points from {begun.folder}.")
    timed = durations.gathered(plan, begun.engine.name, begun.folder)
    names = points.units(plan) if begun.engine.name == NCU else {}
    foreseen = tuple(
        ForeseenPoint(
            outcome.point, outcome.kept and outcome.values is not None, points.unit(names, outcome.point),
            durations.estimate(timed, plan, outcome.point),
        )
        for outcome in sweep.outcomes
    )  # fmt: skip
    return Forecast(plan, begun.engine.name, begun.engine.reason, crewing, begun.folder, foreseen,
                    (*sweep.notes, *notes))  # fmt: skip


def _tools(work: points.SweepWork, joined: bool) -> Fingerprint | None:
    """Return what is special about this machine; None if it lacks what only a cluster's workers need."""
    try:
        return points.tools(work)
    except NcuSwizzleError:
        if not joined:
            raise
        return None


def _crewing(fleet: FleetOptions) -> Crewing:
    if not fleet.given:
        return Crewing("this process, one point at a time", 1)
    if missing := cluster.missing():
        raise EnvironmentLacking(*missing)
    if not fleet.own:
        return Crewing(f"the workers of {fleet.scheduler or fleet.scheduler_file}, which were not asked", None)
    if fleet.count:
        return Crewing(f"{fleet.count} processes of this machine", fleet.count)
    gpus = cluster.chosen_gpus(fleet)
    return Crewing(f"{_named([name for _, name in gpus])} of this machine, a worker each", len(gpus),
                   frozenset(uuid for uuid, _ in gpus))  # fmt: skip


def _named(names: Sequence[str]) -> str:
    """Return GPUs in words: 2 × NVIDIA H200."""
    return " and ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


def as_sweep(found: Forecast) -> Sweep:
    """Return the sweep before its first point, for what titles and sizes need of it."""
    return replace(Sweep(found.plan, found.engine, tuple(PointOutcome(each.point) for each in found.points)),
                   folder=found.folder)  # fmt: skip
