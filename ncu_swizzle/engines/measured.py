"""The measured engine: kernels launched in a child process, under ncu, or timed without it."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ncu_swizzle.base import bounds, child, errors, paths
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed, UsageError
from ncu_swizzle.base.files import slug, write_atomically
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines import machine, ncu
from ncu_swizzle.engines.settings import Context, Engine, Request
from ncu_swizzle.frontends.contract import Built, built
from ncu_swizzle.kernels import device
from ncu_swizzle.kernels.family import Family, Kernel, Target, write
from ncu_swizzle.kernels.toolchain import ARCH
from ncu_swizzle.reports import container
from ncu_swizzle.reports.comparison import TimedFamily
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import NCU

# What the launching program takes: of a function in a Python file, the kernel that was compiled for this GPU.


def prepared(target: Target, folder: Path, timeout_s: float) -> tuple[Target, Built | None]:
    """Return a target that can be launched, and how it was built, if it is a function in Python."""
    if not target.python:
        return target, None
    devices = device.devices()
    arch = "sm_{}{}".format(*devices[0][1]) if devices else ARCH
    compiled = built(target, arch, timeout_s)
    code = folder / f"{slug(target.name)}.cubin"
    write_atomically(code, compiled.code)
    kernel = replace(compiled.target.kernel, cubin=str(code.absolute()))
    return replace(compiled.target, kernel=kernel, family=replace(compiled.target.family, kernels=(kernel,))), compiled


def launchable_together(
    family: Family, kernels: Sequence[Kernel], problem: Mapping[str, int], folder: Path, timeout_s: float
) -> tuple[Family, Sequence[Kernel]]:
    """Return a family and kernels of it that can be launched in turn; raise UsageError if their launches differ."""
    targets = [prepared(Target(family, kernel, dict(problem)), folder, timeout_s)[0] for kernel in kernels]
    if all(target.family is family for target in targets):
        return family, kernels
    launches = {(target.family.launch, target.family.arguments) for target in targets}
    if len(launches) > 1:
        names = " and ".join(kernel.name for kernel in kernels[:2])
        raise UsageError(
            f"{names} are launched differently, and so not timed in turn",
            f"ncu-swizzle profile --no-ncu {kernels[0].name}",
        )
    compiled = tuple(target.kernel for target in targets)
    return replace(targets[0].family, kernels=compiled), compiled


# Measured now: one launch under ncu, or kernels timed without it, in a separate process (`kernels`).


class MeasuredEngine(Engine):
    """Runs kernels on this machine's GPU, under ncu."""

    name = NCU
    measures = True

    @classmethod
    def lacking(cls, request: Request) -> str:
        if reason := device.absent():
            return reason
        if importlib.util.find_spec("pycuda") is None:
            return "PyCUDA is not installed: pip install 'ncu-swizzle[gpu]'"
        try:
            machine.find(request.ncu)
        except EnvironmentLacking as error:
            return str(error)
        return ""

    def profile(self, target: Target, context: Context) -> Profile:
        self.refuse_compiled(target)
        return measure(target, context)

    def has_library(self, target: Target) -> bool:  # noqa: ARG002 - PyTorch has them all
        return has_torch()


def measure(target: Target, context: Context) -> Profile:
    """Check the kernel's output and profile one launch, in one process under ncu; leave report and facts."""
    target, compiled = prepared(target, context.folder, context.request.timeout_s)
    report = context.folder / f"{slug(target.name)}.ncu-rep"
    facts = container.facts_path(report)
    request = context.request
    command = launch_command(target.family, [target.kernel], target.problem, "profile", facts.name)
    program = [*command, *without_cache(request)]
    _describe(target.family, context.folder)
    try:
        notes = ncu.collect(
            machine.find(request.ncu),
            program,
            report=report,
            options=request.options,
            timeout_s=request.timeout_s,
            environment=paths.child_environment(),
            on_progress=context.on_done(target.name),
        )
    except NcuSwizzleError as error:
        raise _reported(facts) or error from None
    container.seal(report, notes)
    from ncu_swizzle.engines import reader  # loaded while ncu measures, see `commands.run_kernel`

    profile = reader.read(report)[0]
    return compiled.explained(profile) if compiled else profile


def time_together(
    family: Family, kernels: Sequence[Kernel], request: Request, reference: bool, more: Sequence[str] = ()
) -> TimedFamily:
    """Build, check and time kernels of one family in turn, in one process without ncu.

    With a `reference`, so is the library's kernel if PyTorch is installed. `more` are options of the launching program.
    """
    library, problem = family.library(), family.problem(request.problem)
    if reference and library and library not in kernels and has_torch():
        kernels = [*kernels, library]
    with scratch() as folder:
        launched, compiled = launchable_together(family, kernels, problem, folder, request.timeout_s)
        facts = _facts(folder, "time")
        command = launch_command(launched, compiled, problem, "time", facts.name)
        _describe(launched, folder)
        words = [*command, *more, *without_cache(request)]
        outcome = child.run(words, request.timeout_s, folder, paths.child_environment())
        if error := _reported(facts):
            raise error
        if outcome.status:
            raise _failed(outcome)
        return TimedFamily(family, tuple(kernels), json.loads(facts.read_text(encoding="utf-8")))


def has_torch() -> bool:
    """Return whether PyTorch, which calls the libraries' kernels, is installed."""
    return importlib.util.find_spec("torch") is not None


@dataclass(frozen=True, eq=False, kw_only=True)
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
) -> list[dict[str, Any] | NcuSwizzleError]:
    """Run jobs in order in one process; return the facts or the error of each."""
    listed = []
    for job in jobs:
        _describe(job.family, job.folder)
        command = launch_command(job.family, job.kernels, job.problem, action, _facts(job.folder, action).name)
        listed.append({"folder": str(job.folder.absolute()), "arguments": [*command[len(_program()) :], *more]})
    plan = folder / f"{action}.jobs.json"
    write_atomically(plan, in_json(listed).encode())
    command = [*_program(), "--jobs", str(plan.absolute())]
    outcome = child.run(command, timeout_s, folder, paths.child_environment())
    return [_outcome(_facts(job.folder, action), outcome) for job in jobs]


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
        f"the program exited with status {outcome.status}; its last lines:\n{bounds.last_lines(outcome.log)}",
        "run it under compute-sanitizer",
    )


def _facts(folder: Path, action: str) -> Path:
    return folder / f"{action}.facts.json"


def launch_command(
    family: Family, kernels: Sequence[Kernel], problem: Mapping[str, int], action: str, facts: str
) -> list[str]:
    """Return the command line of the child process that launches the kernels."""
    sizes = [part for name, size in problem.items() for part in ("--problem", f"{name}={size}")]
    description = _description(family)
    described = ["--description", description] if description else []
    names = [kernel.name for kernel in kernels]
    return [*_program(), "--action", action, "--facts", facts, *described, *sizes, *names]


def _program() -> list[str]:
    return [_python(), "-m", "ncu_swizzle.kernels"]


def without_cache(request: Request) -> list[str]:
    """Return the child's option to compile without the cache, if the request wants that."""
    return ["--no-cache"] if request.no_cache else []


def _description(family: Family) -> str:
    """Return the file that describes a family to the child; empty for a shipped one, which it finds by itself.

    A shipped family that is compiled for an architecture that was asked for is described, too.
    """
    return "" if family.shipped and not family.arch else f"{slug(family.name)}.family.json"


def _describe(family: Family, folder: Path) -> None:
    """Write the family, as it was read and checked here, to the folder that the child runs in."""
    if description := _description(family):
        write(family, folder / description)


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
    return errors.of_json(error)
