"""One point of a sweep as work: what a worker is told, and what it does. In this process it is the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.catalog.expressions import evaluate
from ncu_swizzle.engines.context import Context, Progress, Request
from ncu_swizzle.engines.obtain import obtain
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.files import replace as write
from ncu_swizzle.fleet import shipment
from ncu_swizzle.fleet.tasks import FleetJob, FleetTask
from ncu_swizzle.profiles.engine import NCU, Engine
from ncu_swizzle.sweep import fingerprint
from ncu_swizzle.sweep.fingerprint import Fingerprint
from ncu_swizzle.sweep.folder import PROFILE
from ncu_swizzle.sweep.outcome import PointOutcome, PointValues
from ncu_swizzle.sweep.plan import Plan, Point


@dataclass(frozen=True)
class SweepWork:
    """What all points of a sweep share."""

    plan: Plan
    request: Request
    engine: Engine


def job_of(plan: Plan, request: Request, engine: Engine) -> FleetJob:
    """Return a sweep's points as the work of a crew."""
    common = SweepWork(plan.alone(), request, engine)
    return FleetJob(profiled, common, tools, engine.name == NCU, shipment.files_of(plan.family), moved)


def tools(work: SweepWork) -> Fingerprint:
    """Return what is special about the machine that this runs on."""
    return fingerprint.tools_fingerprint(work.engine.name, work.request)


def moved(work: SweepWork, root: str) -> SweepWork:
    """Return the work with the family's files below a folder."""
    family = shipment.moved_family(work.plan.family, root)
    by_name = {kernel.name: kernel for kernel in family.kernels}
    kernels = tuple(by_name.get(kernel.name, kernel) for kernel in work.plan.kernels)
    return replace(work, plan=replace(work.plan, family=family, kernels=kernels))


def profiled(work: SweepWork, point: Point, folder: Path, progress: Progress) -> PointValues:
    """Profile a point, save its profile in the folder, and return what tables show of it."""

    def say(_: str, percent: float) -> None:
        progress(str(point), percent)

    profile = obtain(work.plan.target(point), Context(work.request, work.engine, folder, say))
    write(folder / PROFILE, profile.to_json().encode())
    return PointValues.of(profile)


def tasks_of(plan: Plan, outcomes: Sequence[PointOutcome], engine: str) -> list[FleetTask]:
    """Return the tasks of the points without values. What is measured and compared runs on one GPU, see `units`."""
    names = units(plan) if engine == NCU else {}
    uuids: dict[str, set[str]] = {}
    for outcome in outcomes:
        if outcome.values and outcome.values.where.uuid:
            uuids.setdefault(unit(names, outcome.point), set()).add(outcome.values.where.uuid)
    return [
        FleetTask(
            str(outcome.point),
            outcome.point,
            together := unit(names, outcome.point),
            weight(plan, outcome.point),
            frozenset(uuids.get(together, ())) if together else frozenset(),
        )
        for outcome in outcomes
        if not outcome.values
    ]


def units(plan: Plan) -> dict[str, str]:
    """Return for each kernel the baseline that it is compared with: such kernels share a unit at each size."""
    return plan.baselines()


def unit(names: dict[str, str], point: Point) -> str:
    """Return the name of a point's unit, given those of `units`; empty if it is one of its own."""
    return f"{names[point.kernel]} {point.problem}" if names else ""


def weight(plan: Plan, point: Point) -> float:
    """Return an estimate of a point's work: its operations or bytes, else its blocks."""
    target = plan.target(point)
    family = target.family
    try:
        work = max(evaluate(family.flops, point.sizes), evaluate(family.bytes, point.sizes))
        return float(work or _product(family.geometry(target.kernel, point.sizes)[0]))
    except (NcuSwizzleError, ArithmeticError):
        return 0.0


def _product(sizes: Sequence[int]) -> int:
    number = 1
    for size in sizes:
        number *= size
    return number
