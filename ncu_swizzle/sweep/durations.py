"""How long points took in earlier sweeps, and what that says of a point that has not run yet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.files import slug
from ncu_swizzle.profiles import run_folder
from ncu_swizzle.sweep import folder, points
from ncu_swizzle.sweep.plan import Plan, Point

NOBODY = "no earlier sweep has timed this kernel with this engine"
BEYOND = "larger or smaller than every size that was timed"
SAME, BETWEEN = "timed before", "between sizes that were timed"


@dataclass(frozen=True)
class Estimate:
    """Seconds, and where they are from; None, and why nobody knows."""

    seconds: float | None
    origin: str


@dataclass(frozen=True)
class TimedPoint:
    """What one point took in an earlier sweep, building and checking included."""

    problem: tuple[tuple[str, int], ...]
    weight: float
    seconds: float


Timed = Mapping[str, list[TimedPoint]]  # by kernel


def gathered(plan: Plan, engine: str, here: Path) -> Timed:
    """Return what the points of these kernels took: in this sweep's folder, and in those of the family beside it."""
    beside = run_folder.DEFAULT.glob(f"sweep-{slug(plan.family.name)}*")
    found: dict[str, list[TimedPoint]] = {kernel.name: [] for kernel in plan.kernels}
    for place in dict.fromkeys((here, *sorted(beside))):
        for kernel in plan.kernels:
            for file in sorted((place / folder.POINTS / slug(kernel.name)).glob(f"*/{folder.POINT}")):
                found[kernel.name] += _read(file, kernel.name, engine, plan)
    return found


def _read(file: Path, kernel: str, engine: str, plan: Plan) -> Iterator[TimedPoint]:
    """Yield what a saved point took; nothing for a damaged one, or one of another kernel or engine."""
    try:
        content: Any = json.loads(file.read_bytes())
        depends_on, seconds = content["fingerprint"], float(content["where"]["seconds"])
        problem = tuple((str(name), int(size)) for name, size in json.loads(depends_on["problem"]).items())
        if seconds > 0 and (depends_on["kernel"], depends_on["engine"]) == (kernel, engine):
            yield TimedPoint(problem, points.weight(plan, Point(kernel, problem)), seconds)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, NcuSwizzleError):
        return


def estimate(timed: Timed, plan: Plan, point: Point) -> Estimate:
    """Return a point's time: the median of its own, or on the line between the sizes below and above it.

    Beyond the sizes that were timed nobody knows: neither a launch nor an emulation need grow as the work does.
    """
    known = timed[point.kernel]
    if same := [each.seconds for each in known if each.problem == point.problem]:
        return Estimate(median(same), SAME)
    if not known:
        return Estimate(None, NOBODY)
    weight = points.weight(plan, point)
    below = max((each for each in known if each.weight <= weight), key=lambda each: each.weight, default=None)
    above = min((each for each in known if each.weight >= weight), key=lambda each: each.weight, default=None)
    if below is None or above is None or not weight:
        return Estimate(None, BEYOND)
    share = (weight - below.weight) / (above.weight - below.weight) if above.weight > below.weight else 0.5
    return Estimate(below.seconds + share * (above.seconds - below.seconds), BETWEEN)
