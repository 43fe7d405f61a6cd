"""Run a sweep: each point is saved as soon as it is done, and a failing one does not stop the others."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base.errors import EnvironmentLacking, Interrupted, ProgramFailed, interruption
from ncu_swizzle.base.files import note_finished, write_atomically
from ncu_swizzle.engines.profiles import engine_for
from ncu_swizzle.engines.settings import Progress, Request, silent
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.options import NCU, Destination, Engine
from ncu_swizzle.reports.run_folder import REPORT
from ncu_swizzle.sweep import cluster, folder, points
from ncu_swizzle.sweep.crew import Crew, crew
from ncu_swizzle.sweep.folder import PointOutcome, Sweep
from ncu_swizzle.sweep.options import ALONE, FleetOptions
from ncu_swizzle.sweep.plan import Fingerprint, Plan, point_fingerprint, shared_fingerprint
from ncu_swizzle.sweep.worker import FleetJob, FleetResult, FleetTask, Whereabouts

OnPoint = Callable[[PointOutcome], None]
SAVED_EVERY_S = 2.0  # sweep.json, which lists all points; the points themselves are saved one by one
SAVING_SHARE = 0.03  # at most, of the time: of 10,000 points it takes half a second


def run(
    plan: Plan,
    request: Request,
    destination: Destination = Destination(),
    resume: bool = False,
    progress: Progress = silent,
    on_point: OnPoint = lambda outcome: None,
    fleet: FleetOptions = ALONE,
) -> Sweep:
    """Profile every point into the sweep's folder and write the page; a failed point becomes a row with its error.

    With `resume`, saved points that are still current are reused. Raises Interrupted after Ctrl-C, SIGTERM or SIGHUP;
    finished points are kept.
    """
    begun = begin(plan, request, destination, resume, fleet)
    path, engine = begun.folder, begun.engine
    with crew(begun.job, fleet, progress) as workers, folder.opened(path):
        if destination.force_overwrite and not resume:
            folder.clear(path)
        sweep = Sweep(
            plan=plan,
            engine=engine.name,
            outcomes=tuple(map(PointOutcome, plan.points)),
            reason=engine.reason,
            folder=path,
        )
        if resume:
            sweep = points.with_saved(sweep, begun.common, [member.facts for member in workers.members])
            sweep = points.on_one_gpu(sweep, {member.uuid for member in workers.members})
        return _Run(sweep, begun.common, workers, on_point).finished()


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What is settled before the first point: the engine, what all points depend on, the work, and the folder."""

    engine: Engine
    common: Fingerprint
    job: FleetJob
    folder: Path


def begin(plan: Plan, request: Request, destination: Destination, resume: bool, fleet: FleetOptions) -> Beginning:
    """Settle it, without starting or writing anything; raises what stops a sweep before its first point."""
    fleet.refuse_nonsense()
    here = request if not fleet.given or request.engine != "auto" else replace(request, engine=_engine_of(fleet))
    engine = engine_for(plan.target(plan.points[0]), here)
    common = shared_fingerprint(plan.family, engine.name, request)
    path = folder.choose(plan.family.name, destination, resume)
    if resume:
        folder.refuse_another(path, plan.family.name)
    return Beginning(engine=engine, common=common, job=points.job_of(plan, request, engine), folder=path)


def planned(plan: Plan, request: Request, destination: Destination, resume: bool, fleet: FleetOptions) -> Sweep:
    """Return the sweep before its first point, with what `resume` would reuse; raises what would stop it here.

    A cluster is not asked. It decides which saved points its workers could have made, so of them nothing is known.
    """
    begun = begin(plan, request, destination, resume, fleet)
    if fleet.given and (missing := cluster.missing()):
        raise EnvironmentLacking(*missing)
    gpus = {uuid for uuid, _ in cluster.chosen_gpus(fleet)} if fleet.own and not fleet.count else {""}
    sweep = Sweep(
        plan=plan,
        engine=begun.engine.name,
        outcomes=tuple(map(PointOutcome, plan.points)),
        reason=begun.engine.reason,
        folder=begun.folder,
    )
    if resume and (fleet.own or not fleet.given):
        sweep = points.with_saved(sweep, begun.common, [points.tools(begun.job.common)])
        return points.on_one_gpu(sweep, gpus)
    if resume:
        return replace(sweep, notes=("The workers of the cluster were not asked which saved points they reuse.",))
    if destination.force_overwrite and (saved := folder.saved(begun.folder)):
        return replace(sweep, notes=(f"-f removes {saved:,} saved points from {begun.folder}.",))
    return sweep


def _engine_of(fleet: FleetOptions) -> str:
    """Return the engine for workers if none was asked for: GPUs measure; a cluster may have what this machine lacks."""
    return NCU if fleet.workers == "gpus" or fleet.gpu else "auto"


class _Run:
    """A sweep while it runs: its outcomes so far, saved as they come."""

    def __init__(self, sweep: Sweep, common: Fingerprint, workers: Crew, on_point: OnPoint) -> None:
        assert sweep.folder is not None
        self._sweep, self._common, self._workers, self._on_point = sweep, common, workers, on_point
        self._folder = sweep.folder
        self._outcomes = list(sweep.outcomes)
        self._numbers = {str(outcome.point): number for number, outcome in enumerate(self._outcomes)}
        self._facts = {member.name: member.facts for member in workers.members}
        self._next_save = 0.0

    def finished(self) -> Sweep:
        """Run what is open, and return the whole sweep."""
        for outcome in self._outcomes:
            if outcome.kept:
                self._on_point(outcome)
        tasks = points.tasks_of(self._sweep.plan, self._outcomes, self._sweep.engine)
        loading = threading.Thread(target=_load_what_the_end_needs)
        loading.start()
        try:
            self._workers.run(tasks, self._place, lambda number, *done: self._take(tasks[number], *done))
            return self._finish()
        except (KeyboardInterrupt, SystemExit) as stop:
            error = interruption(stop)
            if error is None:
                raise
            raise self._stopped(error, self._finish()) from stop
        finally:
            loading.join()  # a thread that imports must not outlive the interpreter

    def _stopped(self, error: type[Interrupted], sweep: Sweep) -> Interrupted:
        done = f"{len(sweep.done)} of {len(sweep.outcomes)} points"
        return error(
            f"the sweep was {error.word}: {done} are saved in {self._folder}",
            f"to continue, add -o {shlex.quote(str(self._folder))} --resume to the same command",
        )

    @contextmanager
    def _place(self, task: FleetTask) -> Iterator[Path]:
        with run_folder.staging(self._folder / folder.POINTS / task.given.folder) as staged:
            yield staged

    def _take(self, task: FleetTask, result: FleetResult, staged: Path) -> None:
        """Keep the outcome of a point; a second one, after its worker was lost, takes the place of the first."""
        if result.error:
            outcome = PointOutcome(task.given, error=result.error, where=result.where)
        else:
            tools = self._tools(result.where)
            depends_on = point_fingerprint({**self._common, **tools}, self._sweep.plan.family, task.given)
            folder.save_point(staged, self._folder, task.given, depends_on, result.where)
            values = replace(result.value, where=result.where)
            outcome = PointOutcome(task.given, values, where=result.where)
        self._outcomes[self._numbers[str(task.given)]] = outcome
        if (now := time.monotonic()) >= self._next_save:
            folder.save(self._current(), self._manifest())
            ended = time.monotonic()
            self._next_save = ended + max(SAVED_EVERY_S, (ended - now) / SAVING_SHARE)
        self._on_point(outcome)

    def _tools(self, where: Whereabouts) -> Fingerprint:
        if where.worker not in self._facts:  # it came later
            self._facts = {member.name: member.facts for member in self._workers.members} | self._facts
        tools: Fingerprint = self._facts[where.worker]
        return tools

    def _manifest(self) -> Fingerprint:
        """Return what the sweep depends on: of machines what the first one has."""
        return {**self._common, **next(iter(self._facts.values()), {})}

    def _current(self) -> Sweep:
        return replace(self._sweep, outcomes=tuple(self._outcomes))

    def _finish(self) -> Sweep:
        """Write the manifest, the dataset and the page of all points so far."""
        from ncu_swizzle.sweep import table, view

        sweep = replace(self._current(), notes=(*self._sweep.notes, *self._workers.notes))
        note_finished(self._folder)
        folder.save(sweep, self._manifest())
        table.write(sweep, self._folder)
        write_atomically(self._folder / REPORT, view.render(sweep).encode())
        return sweep


def _load_what_the_end_needs() -> None:
    """Load pandas, Jinja and the templates while the first points run: it takes most of a second."""
    with suppress(Exception):  # whatever needs it will raise the same error
        from ncu_swizzle.render.page import environment
        from ncu_swizzle.sweep import table, view  # noqa: F401

        environment().get_template("sweep/page.html")


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
