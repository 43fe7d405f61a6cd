"""Which points of an earlier run can be reused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.profiles.engine import NCU
from ncu_swizzle.sweep import fingerprint, folder, points
from ncu_swizzle.sweep.fingerprint import Fingerprint
from ncu_swizzle.sweep.outcome import PointOutcome, PointValues, Sweep


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
        fingerprint.differences(
            kept, fingerprint.point_fingerprint({**common, **tools}, sweep.plan.family, outcome.point)
        )
        for tools in machines
    ]
    return min(each, key=len)


def on_one_gpu(sweep: Sweep, uuids: set[str]) -> Sweep:
    """Return the sweep without kept points whose unit has to go on, if the GPU that measured them is not here.

    Profiles that are compared come from one GPU: a unit is complete, is finished on the same GPU, or starts over.
    """
    if sweep.engine != NCU:
        return sweep
    names = points.units(sweep.plan)

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
