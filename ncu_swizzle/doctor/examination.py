"""All checks in order, then a trial run if none of them is bad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.catalog import collection
from ncu_swizzle.catalog.family import Family
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.doctor import computing, hardware, surroundings, tools
from ncu_swizzle.doctor.diagnosis import Diagnosis, HealthCheck, bad, good
from ncu_swizzle.engines import measured
from ncu_swizzle.engines.context import Context, Request
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.ncu.options import Options
from ncu_swizzle.ncu.system import System
from ncu_swizzle.profiles.engine import NCU, Engine
from ncu_swizzle.unfinished.folders import scratch

KERNEL = "transpose-plain"  # compiles fast and runs on every GPU that the catalogue supports
ONE_PASS = "sm__cycles_elapsed.max"  # a hardware counter: it needs the same permission as all others
TRIAL_S = 180.0

Trial = Callable[[Path | None], HealthCheck]


def examine(
    system: System, ncu: Path | None = None, trial: Trial | None = None, toolchain: Toolchain | None = None
) -> Diagnosis:
    """Return the findings of all checks; the trial comes last, and only if nothing else prevents measuring.

    Without a toolchain, computing is not examined.
    """
    system.ask_ahead([hardware.MIG_MODE, hardware.CLOCKS, *tools.questions(system, ncu)])
    checks = list(_checks(system, ncu))
    if trial is not None and Diagnosis(tuple(checks)).able:
        checks.append(trial(ncu))
    return Diagnosis(tuple(checks), tuple(computing.checks(toolchain)) if toolchain else ())


def _checks(system: System, ncu: Path | None) -> Iterator[HealthCheck]:
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
    yield surroundings.container(system)
    yield surroundings.home(system)
    yield surroundings.temporary(system)
    yield surroundings.disk(system)


def profile_once(ncu: Path | None) -> HealthCheck:
    """Actually profile the catalogue's smallest kernel, in one pass."""
    family, _ = collection.shipped().find(KERNEL)
    target = collection.shipped().target(KERNEL, smallest(family))
    request = Request(NCU, target.problem, Options(metrics=ONE_PASS), ncu, TRIAL_S)
    try:
        return _trial(target, request)
    except NcuSwizzleError as error:
        return bad("trial", f"profiling {KERNEL} failed: {error}", error.hint)


def _trial(target: Target, request: Request) -> HealthCheck:
    with scratch() as folder:
        profile = measured.measure(target, Context(request, Engine(NCU), folder))
    cycles = profile.number(ONE_PASS)
    if not cycles:
        return bad("trial", f"{target.name} was profiled, but {ONE_PASS} has no value", "ncu --query-metrics")
    return good("trial", f"{target.name} was built, checked and profiled in one pass: {cycles:,.0f} cycles")


def smallest(family: Family) -> dict[str, int]:
    """Return the smallest problem that the family's kernels accept."""
    return {parameter.name: parameter.smallest for parameter in family.parameters}
