"""All checks in order, and the trial where they find nothing in its way."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ncu_swizzle.catalog import collection
from ncu_swizzle.catalog.family import Family
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.doctor import diagnosis, hardware, place, tools
from ncu_swizzle.doctor.diagnosis import Check, Diagnosis, bad, good
from ncu_swizzle.engines import measured
from ncu_swizzle.engines.context import Context, Request
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.ncu.options import Options
from ncu_swizzle.ncu.system import System
from ncu_swizzle.profiles.engine import NCU, Engine

KERNEL = "transpose-plain"  # small to compile, and it runs on every GPU that the catalogue knows
ONE_PASS = "sm__cycles_elapsed.max"  # a hardware counter: reading it takes the permission that all others take
TRIAL_S = 180.0

Trial = Callable[[Path | None], Check]


def examine(system: System, ncu: Path | None = None, trial: Trial | None = None) -> Diagnosis:
    """Return what all checks found; the trial is the last one, made only where nothing else is bad."""
    checks = list(_checks(system, ncu))
    if trial is not None and diagnosis.of(checks).able:
        checks.append(trial(ncu))
    return diagnosis.of(checks)


def _checks(system: System, ncu: Path | None) -> Iterator[Check]:
    yield hardware.driver(system)
    yield from hardware.gpu(system)
    yield from tools.ncu(system, ncu)
    yield hardware.counters(system)
    yield tools.nvcc(system)
    yield tools.pycuda(system)
    yield tools.torch(system)
    yield tools.holders(system)
    yield hardware.mig(system)
    yield hardware.clocks(system)
    yield place.container(system)
    yield place.home(system)
    yield place.temporary(system)
    yield place.disk(system)


def profile_once(ncu: Path | None) -> Check:
    """Profile the smallest kernel of the catalogue for real, in one pass."""
    family, _ = collection.shipped().find(KERNEL)
    target = collection.shipped().target(KERNEL, smallest(family))
    request = Request(NCU, target.problem, Options(metrics=ONE_PASS), ncu, TRIAL_S)
    try:
        return _tried(target, request)
    except NcuSwizzleError as error:
        return bad("trial", f"profiling {KERNEL} failed: {error}", error.hint)


def _tried(target: Target, request: Request) -> Check:
    with tempfile.TemporaryDirectory() as folder:
        profile = measured.measure(target, Context(request, Engine(NCU), Path(folder)))
    cycles = profile.number(ONE_PASS)
    if not cycles:
        return bad("trial", f"{target.name} was profiled, but {ONE_PASS} has no value", "ncu --query-metrics")
    return good("trial", f"{target.name} was built, checked and profiled in one pass: {cycles:,.0f} cycles")


def smallest(family: Family) -> dict[str, int]:
    """Return the smallest problem that the family's kernels can take."""
    return {parameter.name: parameter.smallest for parameter in family.parameters}
