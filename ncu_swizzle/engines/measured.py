"""Measured now: one launch under ncu, or kernels timed without it, in a separate process (`launch`)."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle import child, errors, paths
from ncu_swizzle.bounds import quotation
from ncu_swizzle.catalog import family_json
from ncu_swizzle.catalog.family import Family, Kernel
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.context import Context, Request
from ncu_swizzle.engines.launchable import launchable_together, prepared
from ncu_swizzle.errors import NcuSwizzleError, ProgramFailed
from ncu_swizzle.files import slug, write_atomically
from ncu_swizzle.ncu import installed, profiler
from ncu_swizzle.ncurep import launch_facts
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.texts import in_json

BATCH = "ncu_swizzle.launch.batch"


def measure(target: Target, context: Context) -> Profile:
    """Check the kernel's output and profile one launch, in one process under ncu; leave report and facts."""
    target, made = prepared(target, context.folder, context.request.timeout_s)
    report = context.folder / f"{slug(target.name)}.ncu-rep"
    facts = launch_facts.facts_path(report)
    request = context.request
    command = launch_command(target.family, [target.kernel], target.problem, "profile", facts.name)
    program = [*command, *without_cache(request)]
    _describe(target.family, context.folder)
    try:
        notes = profiler.collect(
            installed.find(request.ncu),
            program,
            report,
            request.options,
            request.timeout_s,
            paths.child_environment(),
            context.percent_of(target.name),
        )
    except NcuSwizzleError as error:
        raise _reported(facts) or error from None
    launch_facts.seal(report, notes)
    from ncu_swizzle.ncurep import reader  # loaded while ncu measures, see `jobs.warm_up`

    profile = reader.read(report)[0]
    return made.explained(profile) if made else profile


def time_together(
    family: Family,
    kernels: Sequence[Kernel],
    problem: Mapping[str, int],
    folder: Path,
    timeout_s: float,
    more: Sequence[str] = (),
) -> dict[str, Any]:
    """Build, check and time the kernels in one process without ncu; return its facts."""
    family, kernels = launchable_together(family, kernels, problem, folder, timeout_s)
    facts = _facts(folder, "time")
    command = launch_command(family, kernels, problem, "time", facts.name)
    _describe(family, folder)
    outcome = child.run([*command, *more], timeout_s, folder, paths.child_environment())
    if error := _reported(facts):
        raise error
    if outcome.status:
        raise _failed(outcome)
    content: dict[str, Any] = json.loads(facts.read_text(encoding="utf-8"))
    return content


@dataclass(frozen=True, eq=False)
class LaunchJob:
    """Kernels of one CUDA family to launch as one of several jobs; its folder is its own."""

    family: Family
    kernels: Sequence[Kernel]
    problem: Mapping[str, int]
    folder: Path


def run_batch(
    jobs: Sequence[LaunchJob],
    folder: Path,
    timeout_s: float,
    action: str,
    more: Sequence[str] = (),
    under: Sequence[str] = (),
) -> tuple[list[dict[str, Any] | NcuSwizzleError], str]:
    """Run jobs one after the other in one process; return the facts or the error of each, and what was printed."""
    listed = []
    for job in jobs:
        _describe(job.family, job.folder)
        command = launch_command(job.family, job.kernels, job.problem, action, _facts(job.folder, action).name)
        listed.append({"folder": str(job.folder.absolute()), "arguments": [*command[len(_program()) :], *more]})
    plan = folder / f"{action}.jobs.json"
    write_atomically(plan, in_json(listed).encode())
    command = [*under, _python(), "-m", BATCH, str(plan.absolute())]
    outcome = child.run(command, timeout_s, folder, paths.child_environment())
    return [_outcome(_facts(job.folder, action), outcome) for job in jobs], outcome.log


def _outcome(facts: Path, outcome: child.Exit) -> dict[str, Any] | NcuSwizzleError:
    if error := _reported(facts):
        return error
    try:
        content: dict[str, Any] = json.loads(facts.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # the process ended before
        return _failed(outcome)
    return content


def _failed(outcome: child.Exit) -> ProgramFailed:
    return ProgramFailed(
        f"the program exited with status {outcome.status}; its last lines:\n{quotation.last_lines(outcome.log)}",
        "run it under compute-sanitizer",
    )


def _facts(folder: Path, action: str) -> Path:
    return folder / f"{action}.facts.json"


def launch_command(
    family: Family, kernels: Sequence[Kernel], problem: Mapping[str, int], action: str, facts: str
) -> list[str]:
    """Return the command line of the child process that launches the kernels."""
    sizes = [part for name, size in problem.items() for part in ("--problem", f"{name}={size}")]
    own = ["--description", _description(family)] if _described(family) else []
    names = [kernel.name for kernel in kernels]
    return [*_program(), "--action", action, "--facts", facts, *own, *sizes, *names]


def _program() -> list[str]:
    return [_python(), "-m", "ncu_swizzle.launch"]


def without_cache(request: Request) -> list[str]:
    """Return the child's option to compile without the cache, if the request wants that."""
    return ["--no-cache"] if request.no_cache else []


def _description(family: Family) -> str:
    return f"{slug(family.name)}.family.json"


def _described(family: Family) -> bool:
    """Say whether the child needs a description: of a user's family, or of an architecture."""
    return not family.shipped or bool(family.arch)


def _describe(family: Family, folder: Path) -> None:
    """Write the family, as it was read and checked here, to the folder that the child runs in."""
    if _described(family):
        family_json.write(family, folder / _description(family))


def _python() -> str:
    # The short name if it is the same program: the report shows the command line.
    name = Path(sys.executable).name
    return name if shutil.which(name) == sys.executable else sys.executable


def _reported(facts: Path) -> NcuSwizzleError | None:
    """Return the error in the child's facts, which says more than ncu's."""
    try:
        error = json.loads(facts.read_text(encoding="utf-8"))["error"]
    except (OSError, ValueError, KeyError):
        return None
    return errors.by_name(error["type"])(error["message"], error["hint"])
