"""Run a sweep: each point is saved as soon as it is done, and a failing one does not stop the others.

A saved point is reused if none of its dependencies has changed. Profiles that are compared come from one GPU: the
kernels that share a baseline are, at each size, a unit, which is complete, is finished on the same GPU, or starts over.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base.errors import NcuSwizzleError, ProgramFailed, interruption
from ncu_swizzle.base.files import note_finished, write_atomically
from ncu_swizzle.base.files import replace_file as write
from ncu_swizzle.engines.profiles import engine_for
from ncu_swizzle.engines.settings import (
    ALONE,
    GPUS,
    NEVER,
    Context,
    Done,
    Engine,
    FleetOptions,
    Progress,
    Request,
    silent,
)
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.options import AUTO, NCU, Destination
from ncu_swizzle.reports.run_folder import REPORT
from ncu_swizzle.sweep import worker
from ncu_swizzle.sweep.crew import Crew, crew
from ncu_swizzle.sweep.plan import (
    POINTS,
    PROFILE,
    Fingerprint,
    Plan,
    Point,
    PointOutcome,
    PointValues,
    Sweep,
    choose,
    clear,
    differences,
    is_unfinished,
    load_point,
    point_fingerprint,
    refuse_another,
    save,
    save_point,
    shared_fingerprint,
    tools_fingerprint,
)
from ncu_swizzle.sweep.worker import FleetJob, FleetResult, FleetTask, Whereabouts

SAVED_EVERY_S = 2.0  # sweep.json, which lists all points; the points themselves are saved one by one
SAVING_SHARE = 0.03  # at most, of the time: of 10,000 points it takes half a second


# ---------------------------------------------------------------------------------------------- one point, as work


@dataclass(frozen=True)
class SweepWork:
    """What all points of a sweep share; the plan is without its points, which a worker gets one by one."""

    plan: Plan
    request: Request
    engine: Engine


def _tools(work: SweepWork) -> Fingerprint:
    """Return the dependencies that are specific to this machine."""
    return tools_fingerprint(work.engine, work.request)


def _in_folder(work: SweepWork, root: str) -> SweepWork:
    """Return the work with the family's files below a folder."""
    family = worker.moved_family(work.plan.family, root)
    by_name = {kernel.name: kernel for kernel in family.kernels}
    kernels = tuple(by_name.get(kernel.name, kernel) for kernel in work.plan.kernels)
    return replace(work, plan=replace(work.plan, family=family, kernels=kernels))


def _profile_point(work: SweepWork, point: Point, folder: Path, progress: Progress) -> PointValues:
    """Profile a point, save its profile in the folder, and return its values for tables; here or in a worker."""

    def say(_: str, done: Done) -> None:
        progress(str(point), done)

    context = Context(request=replace(work.request, cycles=NEVER, jobs=1), folder=folder, progress=say)
    profile = work.engine.profile(work.plan.target(point), context)
    write(folder / PROFILE, profile.to_json().encode())
    return PointValues.of(profile)


def _tasks(sweep: Sweep, outcomes: Sequence[PointOutcome]) -> list[FleetTask]:
    """Return the tasks of the points without values; those of a unit prefer the GPU that measured its other points."""
    units = _units(sweep)
    uuids: dict[str, set[str]] = {}
    for outcome in outcomes:
        if outcome.values and outcome.values.where.uuid:
            uuids.setdefault(units.get(str(outcome.point), ""), set()).add(outcome.values.where.uuid)
    tasks = []
    for outcome in outcomes:
        if not outcome.values:
            unit = units.get(str(outcome.point), "")
            prefers = frozenset(uuids.get(unit, ())) if unit else frozenset()
            weight = _weight(sweep.plan, outcome.point)
            tasks.append(FleetTask(str(outcome.point), outcome.point, unit, weight, prefers))
    return tasks


def _units(sweep: Sweep) -> Mapping[str, str]:
    """Return the unit of each point, by their names; none unless points are measured."""
    if not sweep.origin.measured:
        return {}
    baselines = sweep.plan.baselines()
    return {str(point): f"{baselines[point.kernel]} {point.problem}" for point in sweep.plan.points}


def _weight(plan: Plan, point: Point) -> float:
    """Return an estimate of a point's work: its operations or bytes, else its blocks."""
    target = plan.target(point)
    family = target.family
    try:
        work = max(evaluate(family.flops, point.sizes), evaluate(family.bytes, point.sizes))
        return float(work or math.prod(target.launch.grid))
    except (NcuSwizzleError, ArithmeticError):
        return 0.0


# ---------------------------------------------------------------------------------------------- before the first point


def _with_saved(sweep: Sweep, common: Fingerprint, machines: Sequence[Fingerprint]) -> Sweep:
    """Return the sweep with the points that can be reused, and notes on these and on the others.

    A point is current if any of the present machines would reproduce it.
    """
    outcomes, stale = [], {}
    assert sweep.folder is not None
    for outcome in sweep.outcomes:
        try:
            loaded = load_point(sweep.folder, outcome.point)
            if loaded:
                values, depended_on = loaded
                # The differences on the most similar machine.
                changed = min(
                    (
                        differences(
                            depended_on, point_fingerprint({**common, **tools}, sweep.plan.family, outcome.point)
                        )
                        for tools in machines
                    ),
                    key=len,
                )
                if changed:
                    stale[str(outcome.point)] = f"of changes to {', '.join(changed)}"
                else:
                    outcome = replace(outcome, values=values, kept=True, where=values.where)  # noqa: PLW2901
        except NcuSwizzleError as error:
            stale[str(outcome.point)] = str(error)
        outcomes.append(outcome)
    reused = sum(1 for outcome in outcomes if outcome.kept)
    notes = [f"{reused} of {len(outcomes)} points were reused from {sweep.folder}."]
    notes += [f"{name} is profiled again because {why}." for name, why in stale.items()]
    return replace(sweep, outcomes=tuple(outcomes), notes=tuple(notes))


def _on_one_gpu(sweep: Sweep, uuids: set[str]) -> Sweep:
    """Return the sweep without the kept points of an unfinished unit if the GPU that measured them is absent."""
    units = _units(sweep)
    if not units:
        return sweep
    unfinished = {units[str(outcome.point)] for outcome in sweep.outcomes if not outcome.values}
    used: dict[str, set[str]] = {}
    for outcome in sweep.outcomes:
        if outcome.values:
            used.setdefault(units[str(outcome.point)], set()).add(outcome.values.where.uuid)
    again = {unit for unit in unfinished if unit in used and (len(used[unit]) > 1 or not used[unit] <= uuids)}
    outcomes, notes = [], list(sweep.notes)
    for outcome in sweep.outcomes:
        if outcome.values and units[str(outcome.point)] in again:
            notes.append(f"{outcome.point} is profiled again: its GPU is not here, and what is compared runs on one.")
            outcomes.append(PointOutcome(outcome.point))
        else:
            outcomes.append(outcome)
    return replace(sweep, outcomes=tuple(outcomes), notes=tuple(notes))


# ---------------------------------------------------------------------------------------------- while it runs


def run(
    plan: Plan,
    request: Request,
    destination: Destination = Destination(),
    resume: bool = False,
    progress: Progress = silent,
    fleet: FleetOptions = ALONE,
) -> Sweep:
    """Profile every point into the sweep's folder and write the page; a failed point becomes a row with its error.

    With `resume`, or if the same sweep was begun there, saved points that are still current are reused. Raises
    Interrupted after Ctrl-C, SIGTERM or SIGHUP; finished points are kept.
    """
    fleet.refuse_nonsense()
    if fleet.given and request.engine == AUTO and (fleet.workers == GPUS or fleet.gpu):
        request_here = replace(request, engine=NCU)  # a cluster may have the GPUs that this machine lacks
    else:
        request_here = request
    engine = engine_for(plan.target(plan.points[0]), request_here)
    resume = resume or is_unfinished(plan, destination)
    path = choose(plan.family.name, destination, resume)
    if resume:
        refuse_another(path, plan.family.name)
    outcomes = tuple(map(PointOutcome, plan.points))
    sweep = Sweep(plan=plan, engine=engine.name, outcomes=outcomes, reason=engine.reason, folder=path)
    common = shared_fingerprint(plan.family, engine.name, request)
    job = FleetJob(
        work=_profile_point, common=SweepWork(plan.alone(), request, engine), examine=_tools,
        measures=engine.measures, files=worker.files_of(plan.family), moved=_in_folder,
    )  # fmt: skip
    with crew(job, fleet, progress, request.jobs) as workers, run_folder.held(path):
        if destination.force_overwrite and not resume:
            clear(path)
        if resume:
            sweep = _with_saved(sweep, common, [member.facts for member in workers.members])
            sweep = _on_one_gpu(sweep, {member.where.uuid for member in workers.members})
        return _Run(sweep, common, workers).finished()


class _Run:
    """A sweep while it runs: its outcomes so far, saved as they come."""

    def __init__(self, sweep: Sweep, common: Fingerprint, workers: Crew) -> None:
        assert sweep.folder is not None
        self._sweep, self._common, self._workers = sweep, common, workers
        self._folder = sweep.folder
        self._outcomes = list(sweep.outcomes)
        self._numbers = {str(outcome.point): number for number, outcome in enumerate(self._outcomes)}
        self._facts = {member.where.worker: member.facts for member in workers.members}
        self._next_save = 0.0

    def finished(self) -> Sweep:
        """Run the open points, and return the whole sweep."""
        tasks = _tasks(self._sweep, self._outcomes)
        try:
            self._workers.run(tasks, self._place, lambda number, *done: self._take(tasks[number], *done))
            return self._finish()
        except (KeyboardInterrupt, SystemExit) as stop:
            error = interruption(stop)
            if error is None:
                raise
            done = len(self._finish().done)
            raise error(
                f"the sweep was {error.word}: {done} of {len(self._outcomes)} points are saved in {self._folder}",
                f"to continue, add -o {shlex.quote(str(self._folder))} --resume to the same command",
            ) from stop

    @contextmanager
    def _place(self, task: FleetTask) -> Iterator[Path]:
        with run_folder.staging(self._folder / POINTS / task.given.folder) as staged:
            yield staged

    def _take(self, task: FleetTask, result: FleetResult, staged: Path) -> None:
        """Keep the outcome of a point; a second one, after its worker was lost, replaces the first."""
        if result.error:
            outcome = PointOutcome(task.given, error=result.error, where=result.where)
        else:
            tools = self._tools(result.where)
            depends_on = point_fingerprint({**self._common, **tools}, self._sweep.plan.family, task.given)
            save_point(staged, self._folder, task.given, depends_on, result.where)
            values = replace(result.value, where=result.where)
            outcome = PointOutcome(task.given, values, where=result.where)
        self._outcomes[self._numbers[str(task.given)]] = outcome
        if (now := time.monotonic()) >= self._next_save:
            save(self._current(), self._manifest())
            ended = time.monotonic()
            # A save that took t seconds is followed by t / SAVING_SHARE without one: that share of the time at most.
            self._next_save = ended + max(SAVED_EVERY_S, (ended - now) / SAVING_SHARE)

    def _tools(self, where: Whereabouts) -> Fingerprint:
        if where.worker not in self._facts:  # it came later
            self._facts = {member.where.worker: member.facts for member in self._workers.members} | self._facts
        tools: Fingerprint = self._facts[where.worker]
        return tools

    def _manifest(self) -> Fingerprint:
        """Return the sweep's dependencies: for machines, those of the first one."""
        return {**self._common, **next(iter(self._facts.values()), {})}

    def _current(self) -> Sweep:
        return replace(self._sweep, outcomes=tuple(self._outcomes))

    def _finish(self) -> Sweep:
        """Write the manifest and the page of all points so far."""
        from ncu_swizzle.sweep import table

        sweep = replace(self._current(), notes=(*self._sweep.notes, *self._workers.notes))
        note_finished(self._folder)
        save(sweep, self._manifest())
        write_atomically(self._folder / REPORT, table.to_html(sweep).encode())
        return sweep


def conclude(sweep: Sweep) -> None:
    """Raise ProgramFailed if any point failed."""
    if sweep.failed:
        first = sweep.failed[0]
        assert first.error is not None
        more = f" (and {len(sweep.failed) - 1} more)" if len(sweep.failed) > 1 else ""
        raise ProgramFailed(
            f"{len(sweep.failed)} of {len(sweep.outcomes)} points failed; {first.point}: {first.error}{more}",
            first.error.hint or f"to retry these, add -o {sweep.folder} --resume to the same command",
        )
