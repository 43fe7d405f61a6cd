"""Run a sweep point by point: each is saved as soon as it is done, and a failing one does not stop the others."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.engines.choice import engine_for
from ncu_swizzle.engines.context import Context, Progress, Request, silent
from ncu_swizzle.engines.obtain import obtain
from ncu_swizzle.errors import NcuSwizzleError, NotWritable, ProgramFailed, interruption
from ncu_swizzle.files import note_finished, write_atomically
from ncu_swizzle.profiles import run_folder
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.profiles.run_folder import REPORT
from ncu_swizzle.sweep import fingerprint, folder, page
from ncu_swizzle.sweep.outcome import PointOutcome, Sweep
from ncu_swizzle.sweep.plan import Plan, Point

OnPoint = Callable[[PointOutcome], None]


def run(
    plan: Plan,
    request: Request,
    destination: Destination = Destination(),
    resume: bool = False,
    progress: Progress = silent,
    on_point: OnPoint = lambda outcome: None,
) -> Sweep:
    """Profile every point into the sweep's folder and write the page; a failed point becomes a row with its error.

    With `resume`, saved points that are still current are reused. Raises Interrupted after Ctrl-C, SIGTERM or SIGHUP;
    finished points are kept.
    """
    engine = engine_for(plan.target(plan.points[0]), request)
    common = fingerprint.shared_fingerprint(plan.family, engine.name, request)
    path = folder.choose(plan.family.name, destination, resume)
    if resume:
        folder.refuse_another(path, plan.family.name)
    with folder.opened(path):
        if destination.force_overwrite and not resume:
            folder.clear(path)
        started = Sweep(plan, engine.name, tuple(map(PointOutcome, plan.points)), engine.reason, folder=path)
        sweep = _resumed(started, common) if resume else started
        try:
            for index, before in enumerate(sweep.outcomes):
                if not before.profile:
                    outcome = _measure(sweep, before.point, Context(request, engine, path, progress), common)
                    sweep = _with(sweep, index, outcome)
                    folder.save(sweep, common)
                on_point(sweep.outcomes[index])
            _finish(sweep, common)
        except (KeyboardInterrupt, SystemExit) as stop:
            error = interruption(stop)
            if error is None:
                raise
            _finish(sweep, common)
            raise error(
                f"the sweep was {error.word}: {len(sweep.done)} of {len(sweep.outcomes)} points are saved in {path}",
                f"to continue, add -o {shlex.quote(str(path))} --resume to the same command",
            ) from stop
    return sweep


def _resumed(sweep: Sweep, common: fingerprint.Fingerprint) -> Sweep:
    """Return the sweep with the points that can be reused, and notes on these and on those that cannot."""
    outcomes, stale = [], {}
    assert sweep.folder is not None
    for outcome in sweep.outcomes:
        now = fingerprint.point_fingerprint(common, sweep.plan.family, outcome.point)
        try:
            kept = folder.load_point(sweep.folder, outcome.point)
        except NcuSwizzleError as error:
            kept, stale[str(outcome.point)] = None, str(error)
        if kept and (changed := fingerprint.differences(kept[1], now)):
            kept, stale[str(outcome.point)] = None, f"of changes to {', '.join(changed)}"
        outcomes.append(replace(outcome, profile=kept[0], kept=True) if kept else outcome)
    reused = sum(1 for outcome in outcomes if outcome.kept)
    notes = [f"{reused} of {len(outcomes)} points were reused from {sweep.folder}."]
    notes += [f"{name} is profiled again because {why}." for name, why in stale.items()]
    return replace(sweep, outcomes=tuple(outcomes), notes=tuple(notes))


def _measure(sweep: Sweep, point: Point, context: Context, common: fingerprint.Fingerprint) -> PointOutcome:
    """Return how one point ended. What would stop every point, such as a full disk, is raised."""
    assert sweep.folder is not None
    try:
        with run_folder.staging(sweep.folder / folder.POINTS / point.folder) as staged:
            profile = obtain(sweep.plan.target(point), _point_context(context, point, staged))
            depends_on = fingerprint.point_fingerprint(common, sweep.plan.family, point)
            folder.save_point(staged, sweep.folder, point, profile, depends_on)
    except NotWritable:
        raise
    except NcuSwizzleError as error:
        return PointOutcome(point, error=error)
    return PointOutcome(point, profile)


def _point_context(context: Context, point: Point, folder: Path) -> Context:
    """Return the context for one point: its own folder, and progress under the point's name."""
    return replace(context, folder=folder, progress=lambda _, percent: context.progress(str(point), percent))


def _with(sweep: Sweep, index: int, outcome: PointOutcome) -> Sweep:
    return replace(sweep, outcomes=(*sweep.outcomes[:index], outcome, *sweep.outcomes[index + 1 :]))


def _finish(sweep: Sweep, common: fingerprint.Fingerprint) -> None:
    """Write the manifest and the page of all points so far."""
    assert sweep.folder is not None
    note_finished(sweep.folder)
    folder.save(sweep, common)
    write_atomically(sweep.folder / REPORT, page.render(sweep).encode())


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
