"""Sweeps for the tests: recorded profiles, enlarged and shrunk as a problem's size would, for what only lays out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ncu_swizzle.base.errors import NcuSwizzleError, WrongOutput
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports.model import DURATION, Metric, Profile
from ncu_swizzle.sweep import plan
from ncu_swizzle.sweep.plan import PointOutcome, PointValues, Sweep
from tests.support.recordings import Recorded


def scaled(profile: Profile, factor: float) -> Profile:
    """Return the profile as if there had been so many times as much to do."""
    longer = {**profile.metrics, DURATION: Metric((profile.duration_ns or 0) * factor, "ns")}
    instructions = tuple(
        replace(one, **{name: None if count is None else int(count * factor) for name, count in counts.items()})
        for one in profile.instructions
        for counts in ({"executed": one.executed, "wavefronts": one.wavefronts, "ideal": one.ideal},)
    )
    return replace(profile, metrics=longer, instructions=instructions)


def transposes(
    recorded: Recorded,
    sizes: Sequence[int] = (512, 1024, 2048, 4096, 8192),
    variants: Sequence[str] = ("plain", "padded", "xor", "sudoku"),
    failing: Mapping[tuple[str, int], NcuSwizzleError] | None = None,
) -> Sweep:
    """Return a sweep of the transpose family; `failing` says which points ended with an error."""
    wrong = {("transpose-xor", 1024): WrongOutput("out differs by 0.5 of its size", "read it as it was written")}
    failing = wrong if failing is None else failing
    planned = plan.make_plan(*catalog.shipped().family_or_kernels(["transpose"]), variants, {"n": sizes})
    outcomes = []
    for point in planned.points:
        error = failing.get((point.kernel, point.sizes["n"]))
        values = None if error else PointValues.of(scaled(recorded(point.kernel), (point.sizes["n"] / 4096) ** 2))
        outcomes.append(PointOutcome(point, values, error))
    return Sweep(plan=planned, engine="recorded", outcomes=tuple(outcomes))


def many(recorded: Recorded) -> Sweep:
    """Return a sweep of ten thousand points: four variants at 2,500 sizes, with times that grow with the size."""
    planned = plan.make_plan(*catalog.shipped().family_or_kernels(["transpose"]), ("plain", "padded", "xor", "sudoku"),
                             {"n": range(512, 3012)})  # fmt: skip
    values = {kernel.name: PointValues.of(recorded(kernel.name)) for kernel in planned.kernels}
    outcomes = tuple(
        PointOutcome(point, replace(values[point.kernel], duration_ns=float(point.sizes["n"] ** 2)))
        for point in planned.points
    )
    return Sweep(plan=planned, engine="recorded", outcomes=outcomes)


HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)>|`[a](http://x)"


def hostile(text: str) -> str:
    """Return the text behind what would be a script, an image or a link if it were not a text."""
    return f"{HOSTILE}{text}"
