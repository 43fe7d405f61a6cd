"""Carry a sweep out: point after point, each kept as soon as it is done, a failing one beside the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.engines.choice import choose_engine
from ncu_swizzle.engines.context import Context, Progress, Request, silent
from ncu_swizzle.engines.obtain import obtain
from ncu_swizzle.errors import Interrupted, NcuSwizzleError, NotWritable, ProgramFailed
from ncu_swizzle.files import write_atomically
from ncu_swizzle.profiles import run_folder
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.profiles.run_folder import REPORT
from ncu_swizzle.sweep import fingerprint, folder, page
from ncu_swizzle.sweep.outcome import Outcome, Sweep
from ncu_swizzle.sweep.plan import Plan, Point

OnPoint = Callable[[Outcome], None]


def run(
    plan: Plan,
    request: Request,
    destination: Destination = Destination(),
    resume: bool = False,
    progress: Progress = silent,
    on_point: OnPoint = lambda outcome: None,
) -> Sweep:
    """Profile every point into the sweep's folder, and write its page; what fails is a row with its error.

    With `resume`, points that were kept and rest on what they would now are taken over. Raises Interrupted after
    Ctrl-C: what is done is kept.
    """
    engine = choose_engine(request)
    common = fingerprint.shared(plan.family, engine.name, request)
    place = folder.choose(plan.family.name, destination, resume)
    if resume:
        folder.refuse_another(place, plan.family.name)
    with folder.opened(place):
        if destination.force_overwrite and not resume:
            folder.clear(place)
        started = Sweep(plan, engine.name, tuple(map(Outcome, plan.points)), engine.reason, folder=place)
        sweep = _resumed(started, common) if resume else started
        try:
            for index, one in enumerate(sweep.outcomes):
                if not one.profile:
                    outcome = _measure(sweep, one.point, Context(request, engine, place, progress), common)
                    sweep = _with(sweep, index, outcome)
                    folder.save(sweep, common)
                on_point(sweep.outcomes[index])
        except KeyboardInterrupt as error:
            _finish(sweep, common)
            raise Interrupted(
                f"the sweep was interrupted: {len(sweep.done)} of {len(sweep.outcomes)} points are kept in {place}",
                f"the same command with -o {place} --resume goes on",
            ) from error
        _finish(sweep, common)
    return sweep


def _resumed(sweep: Sweep, common: fingerprint.Fingerprint) -> Sweep:
    """Return the sweep with the points that can be taken over, and notes on these and on those that cannot."""
    outcomes, stale = [], {}
    assert sweep.folder is not None
    for one in sweep.outcomes:
        now = fingerprint.of_point(common, sweep.plan.family, one.point)
        try:
            kept = folder.load_point(sweep.folder, one.point)
        except NcuSwizzleError as error:
            kept, stale[str(one.point)] = None, str(error)
        if kept and (apart := fingerprint.differences(kept[1], now)):
            kept, stale[str(one.point)] = None, f"not the same {', '.join(apart)}"
        outcomes.append(replace(one, profile=kept[0], kept=True) if kept else one)
    taken = sum(1 for one in outcomes if one.kept)
    notes = [f"{taken} of {len(outcomes)} points were taken over from {sweep.folder}."]
    notes += [f"{name} is profiled again: {why}." for name, why in stale.items()]
    return replace(sweep, outcomes=tuple(outcomes), notes=tuple(notes))


def _measure(sweep: Sweep, point: Point, context: Context, common: fingerprint.Fingerprint) -> Outcome:
    """Return how one point ended. What stops every point, such as a full disk, is raised."""
    assert sweep.folder is not None
    try:
        with run_folder.staging(sweep.folder / folder.POINTS / point.folder) as staged:
            profile = obtain(sweep.plan.target(point), _of_point(context, point, staged))
            made_of = fingerprint.of_point(common, sweep.plan.family, point)
            folder.save_point(staged, sweep.folder, point, profile, made_of)
    except NotWritable:
        raise
    except NcuSwizzleError as error:
        return Outcome(point, error=error)
    return Outcome(point, profile)


def _of_point(context: Context, point: Point, folder: Path) -> Context:
    """Return the context of one point: its own folder, and progress under the point's name."""
    return replace(context, folder=folder, progress=lambda _, percent: context.progress(str(point), percent))


def _with(sweep: Sweep, index: int, outcome: Outcome) -> Sweep:
    return replace(sweep, outcomes=(*sweep.outcomes[:index], outcome, *sweep.outcomes[index + 1 :]))


def _finish(sweep: Sweep, common: fingerprint.Fingerprint) -> None:
    """Write the manifest and the page of all that is there."""
    assert sweep.folder is not None
    folder.save(sweep, common)
    write_atomically(sweep.folder / REPORT, page.render(sweep).encode())


def conclude(sweep: Sweep) -> None:
    """Raise ProgramFailed where any point failed."""
    if sweep.failed:
        first = sweep.failed[0]
        assert first.error is not None
        more = f" (and {len(sweep.failed) - 1} more)" if len(sweep.failed) > 1 else ""
        raise ProgramFailed(
            f"{len(sweep.failed)} of {len(sweep.outcomes)} points failed; {first.point}: {first.error}{more}",
            first.error.hint or f"the same command with -o {sweep.folder} --resume tries these again",
        )
