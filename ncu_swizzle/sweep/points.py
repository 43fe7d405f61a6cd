"""Which points of an earlier run can be reused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.base.files import replace as write
from ncu_swizzle.engines.profiles import obtain
from ncu_swizzle.engines.settings import Context, Progress, Request
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.reports.options import NCU, Engine
from ncu_swizzle.sweep import folder, plan, worker
from ncu_swizzle.sweep.folder import PROFILE, PointOutcome, PointValues, Sweep
from ncu_swizzle.sweep.plan import Fingerprint, Plan, Point
from ncu_swizzle.sweep.worker import FleetJob, FleetTask

# One point of a sweep as work: what a worker is told, and what it does. In this process it is the same.


@dataclass(frozen=True)
class SweepWork:
    """What all points of a sweep share."""

    plan: Plan
    request: Request
    engine: Engine


def job_of(plan: Plan, request: Request, engine: Engine) -> FleetJob:
    """Return a sweep's points as the work of a crew."""
    common = SweepWork(plan.alone(), request, engine)
    return FleetJob(
        work=profiled,
        common=common,
        examine=tools,
        measures=engine.name == NCU,
        files=worker.files_of(plan.family),
        moved=moved,
    )


def tools(work: SweepWork) -> Fingerprint:
    """Return what is special about the machine that this runs on."""
    return plan.tools_fingerprint(work.engine.name, work.request)


def moved(work: SweepWork, root: str) -> SweepWork:
    """Return the work with the family's files below a folder."""
    family = worker.moved_family(work.plan.family, root)
    by_name = {kernel.name: kernel for kernel in family.kernels}
    kernels = tuple(by_name.get(kernel.name, kernel) for kernel in work.plan.kernels)
    return replace(work, plan=replace(work.plan, family=family, kernels=kernels))


def profiled(work: SweepWork, point: Point, folder: Path, progress: Progress) -> PointValues:
    """Profile a point, save its profile in the folder, and return what tables show of it."""

    def say(_: str, percent: float) -> None:
        progress(str(point), percent)

    profile = obtain(
        work.plan.target(point), Context(request=work.request, engine=work.engine, folder=folder, progress=say)
    )
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


def with_saved(sweep: Sweep, common: Fingerprint, machines: Sequence[Fingerprint]) -> Sweep:
    """Return the sweep with the points that can be reused, and notes on these and on those that cannot.

    A point is current if any of the machines that are here now would do the same.
    """
    outcomes, stale = [], {}
    assert sweep.folder is not None
    for outcome in sweep.outcomes:
        kept: tuple[PointValues, object] | None = None
        try:
            if loaded := folder.load_point(sweep.folder, outcome.point):
                changed = _changed(sweep, outcome, loaded[1], common, machines)
                kept = None if changed else loaded
                if changed:
                    stale[str(outcome.point)] = f"of changes to {', '.join(changed)}"
        except NcuSwizzleError as error:
            stale[str(outcome.point)] = str(error)
        values = kept[0] if kept else None
        outcomes.append(replace(outcome, values=values, kept=True, where=values.where) if values else outcome)
    reused = sum(1 for outcome in outcomes if outcome.kept)
    notes = [f"{reused} of {len(outcomes)} points were reused from {sweep.folder}."]
    notes += [f"{name} is profiled again because {why}." for name, why in stale.items()]
    return replace(sweep, outcomes=tuple(outcomes), notes=tuple(notes))


def _changed(
    sweep: Sweep, outcome: PointOutcome, kept: object, common: Fingerprint, machines: Sequence[Fingerprint]
) -> list[str]:
    """Return what differs on the machine that comes closest."""
    assert isinstance(kept, dict)
    each = [
        plan.differences(kept, plan.point_fingerprint({**common, **tools}, sweep.plan.family, outcome.point))
        for tools in machines
    ]
    return min(each, key=len)


def on_one_gpu(sweep: Sweep, uuids: set[str]) -> Sweep:
    """Return the sweep without kept points whose unit has to go on, if the GPU that measured them is not here.

    Profiles that are compared come from one GPU: a unit is complete, is finished on the same GPU, or starts over.
    """
    if sweep.engine != NCU:
        return sweep
    names = units(sweep.plan)

    def unit(outcome: PointOutcome) -> tuple[object, ...]:
        return (names[outcome.point.kernel], outcome.point.problem)

    open_units = {unit(outcome) for outcome in sweep.outcomes if not outcome.values}
    used: dict[object, set[str]] = {}
    for outcome in sweep.outcomes:
        if outcome.values:
            used.setdefault(unit(outcome), set()).add(outcome.values.where.uuid)
    again = {key for key in open_units if used.get(key) and (len(used[key]) > 1 or not used[key] <= uuids)}
    outcomes, notes = [], list(sweep.notes)
    for outcome in sweep.outcomes:
        if outcome.values and unit(outcome) in again:
            notes.append(f"{outcome.point} is profiled again: its GPU is not here, and what is compared runs on one.")
            outcome = PointOutcome(outcome.point)  # noqa: PLW2901 - one or the other
        outcomes.append(outcome)
    return replace(sweep, outcomes=tuple(outcomes), notes=tuple(notes))
