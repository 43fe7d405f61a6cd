"""Measured now: one launch under ncu, or kernels timed without it, in a separate process (`launch`)."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
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
from ncu_swizzle.files import slug
from ncu_swizzle.ncu import installed, profiler
from ncu_swizzle.ncurep import launch_facts
from ncu_swizzle.profiles.model import Profile

LOG = "log"  # among the facts of a process: what it printed


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
    facts = run_together(family, kernels, problem, folder, timeout_s, "time", more)
    return {name: fact for name, fact in facts.items() if name != LOG}


def run_together(
    family: Family,
    kernels: Sequence[Kernel],
    problem: Mapping[str, int],
    folder: Path,
    timeout_s: float,
    action: str,
    more: Sequence[str] = (),
    under: Sequence[str] = (),
) -> dict[str, Any]:
    """Launch the kernels in one process, `under` another program if one is named; return facts and log."""
    family, kernels = launchable_together(family, kernels, problem, folder, timeout_s)
    facts = folder / f"{action}.facts.json"
    command = launch_command(family, kernels, problem, action, facts.name)
    _describe(family, folder)
    outcome = child.run([*under, *command, *more], timeout_s, folder, paths.child_environment())
    if error := _reported(facts):
        raise error
    if outcome.status:
        raise ProgramFailed(
            f"the program exited with status {outcome.status}; its last lines:\n{quotation.last_lines(outcome.log)}",
            "run it under compute-sanitizer",
        )
    content: dict[str, Any] = json.loads(facts.read_text(encoding="utf-8"))
    return {**content, LOG: outcome.log}


def launch_command(
    family: Family, kernels: Sequence[Kernel], problem: Mapping[str, int], action: str, facts: str
) -> list[str]:
    """Return the command line of the child process that launches the kernels."""
    sizes = [part for name, size in problem.items() for part in ("--problem", f"{name}={size}")]
    own = ["--description", _description(family)] if _described(family) else []
    names = [kernel.name for kernel in kernels]
    return [_python(), "-m", "ncu_swizzle.launch", "--action", action, "--facts", facts, *own, *sizes, *names]


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
