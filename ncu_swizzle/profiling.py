"""From a kernel's name to its Profile: measured under ncu now, computed, or recalled from a recording."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ncu_swizzle import child, description, errors, gpu, launchfacts, ncu, paths
from ncu_swizzle.catalog import Catalog, Family, Kernel, in_words
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed, UsageError
from ncu_swizzle.files import slug
from ncu_swizzle.kernelspec import BINARIES
from ncu_swizzle.profile import EMULATED, Profile


@dataclass(frozen=True)
class Request:
    """How profiles are to be had."""

    engine: str = "auto"
    problem: Mapping[str, int] = field(default_factory=dict)
    options: ncu.Options = field(default_factory=ncu.Options)
    ncu: Path | None = None
    timeout_s: float = 600.0
    nvcc: Path | None = None  # of the emulated engine
    exhaustive: bool = False  # the emulated engine runs every block


@dataclass(frozen=True)
class Engine:
    """Where the figures will come from; `reason` says why it is not ncu where `auto` was asked for.

    With `beside`, what the emulated engine does not know is taken from a recording, and so are kernels that it cannot
    emulate.
    """

    name: str
    reason: str = ""
    beside: bool = False


def choose_engine(request: Request) -> Engine:
    """Return what was asked for, or for `auto` the best that there is here.

    That is ncu where a GPU, PyCUDA and ncu are found; else the emulated engine beside the recordings, where there is
    a compiler; else the recordings alone.
    """
    if request.engine != "auto":
        return Engine(request.engine)
    reason = _lacking(request)
    if not reason:
        return Engine("ncu")
    from ncu_swizzle.emulate.toolchain import INSTALL, Toolchain

    if missing := Toolchain(request.nvcc).lacking():
        return Engine("recorded", f"{reason}; to compute wavefronts, {missing}: {INSTALL}")
    return Engine(EMULATED, reason, beside=True)


def engine_for(family: Family, kernel: Kernel, request: Request) -> Engine:
    """Return the engine for one kernel: what is compiled already is not built and launched, but can be emulated."""
    if request.engine == "auto" and not kernel.library and family.source(kernel).suffix in BINARIES:
        return Engine(EMULATED, f"{kernel.file} is compiled already, only sources are built and launched")
    return choose_engine(request)


def _lacking(request: Request) -> str:
    if reason := gpu.absent():
        return reason
    if importlib.util.find_spec("pycuda") is None:
        return "PyCUDA is not installed: pip install 'ncu-swizzle[gpu]'"
    try:
        ncu.find(request.ncu)
    except EnvironmentLacking as error:
        return str(error)
    return ""


def obtain(
    catalog: Catalog, name: str, request: Request, engine: Engine, folder: Path, on_progress: Callable[[float], None]
) -> Profile:
    """Return the kernel's profile and leave its .ncu-rep and facts in the folder."""
    family, kernel = catalog.find(name)
    if engine.name != EMULATED and not kernel.library and family.source(kernel).suffix in BINARIES:
        raise UsageError(f"{kernel.file} is compiled already: it can only be emulated", "--engine emulated")
    if engine.name == "recorded":
        return recall(family, kernel, request.problem, folder)
    if engine.name == EMULATED:
        return compute(family, kernel, request, engine, folder, on_progress)
    return measure(family, kernel, request, folder, on_progress)


# ---------------------------------------------------------------------------------------------- measured


def measure(
    family: Family, kernel: Kernel, request: Request, folder: Path, on_progress: Callable[[float], None]
) -> Profile:
    """Profile one launch under ncu, after the kernel's output was checked in the same process."""
    report = folder / f"{slug(kernel.name)}.ncu-rep"
    facts = launchfacts.facts_path(report)
    program = launch_command(family, [kernel], family.problem(request.problem), "profile", facts.name)
    _describe(family, folder)
    try:
        notes = ncu.collect(
            ncu.find(request.ncu),
            program,
            report,
            request.options,
            request.timeout_s,
            paths.child_environment(),
            on_progress,
        )
    except NcuSwizzleError as error:
        raise _told(facts) or error from None
    launchfacts.seal(report, notes)
    from ncu_swizzle import repfile  # loaded while ncu measures, see `experiment`

    return repfile.read(report)[0]


def time(
    family: Family,
    kernels: Sequence[Kernel],
    problem: Mapping[str, int],
    folder: Path,
    timeout_s: float,
    more: Sequence[str] = (),
) -> dict[str, Any]:
    """Build, check and time the kernels in one process without ncu; return its facts."""
    facts = folder / "time.facts.json"
    command = launch_command(family, kernels, problem, "time", facts.name)
    _describe(family, folder)
    outcome = child.run([*command, *more], timeout_s, folder, paths.child_environment())
    told = _told(facts)
    if told:
        raise told
    if outcome.status:
        raise ProgramFailed(
            f"the program ended with status {outcome.status}; its last lines:\n{child.last_lines(outcome.log)}",
            "run it under compute-sanitizer",
        )
    content: dict[str, Any] = json.loads(facts.read_text(encoding="utf-8"))
    return content


def launch_command(
    family: Family, kernels: Sequence[Kernel], problem: Mapping[str, int], action: str, facts: str
) -> list[str]:
    """Return the command line of the child process that launches the kernels."""
    sizes = [part for name, size in problem.items() for part in ("--problem", f"{name}={size}")]
    if family.standalone:
        own = ["--description", _description(family)]
    else:
        own = [] if family.shipped else ["--catalog", str(family.folder.parent)]
    names = [kernel.name for kernel in kernels]
    return [_python(), "-m", "ncu_swizzle.launch", "--action", action, "--facts", facts, *own, *sizes, *names]


def _description(family: Family) -> str:
    return f"{slug(family.name)}.family.json"


def _describe(family: Family, folder: Path) -> None:
    """Write down, in the folder that the child runs in, a family that it finds in no catalogue."""
    if family.standalone:
        description.write(family, folder / _description(family))


def _python() -> str:
    # The short name where it means the same: the command line is kept in the report and shown.
    name = Path(sys.executable).name
    return name if shutil.which(name) == sys.executable else sys.executable


def _told(facts: Path) -> NcuSwizzleError | None:
    """Return the error that the child wrote down itself, which says more than how ncu took it."""
    try:
        error = json.loads(facts.read_text(encoding="utf-8"))["error"]
    except (OSError, ValueError, KeyError):
        return None
    return errors.by_name(error["type"])(error["message"], error["hint"])


# ---------------------------------------------------------------------------------------------- computed


def compute(
    family: Family,
    kernel: Kernel,
    request: Request,
    engine: Engine,
    folder: Path,
    on_progress: Callable[[float], None] = lambda percent: None,
) -> Profile:
    """Emulate one launch and leave the cubin in the folder; with `engine.beside`, add what was recorded of it.

    A kernel that cannot be emulated is then recalled, and its profile notes why.
    """
    from ncu_swizzle.emulate import engine as emulated
    from ncu_swizzle.emulate.toolchain import Toolchain

    problem = family.problem(request.problem)
    if engine.beside and kernel.library:
        return recall(family, kernel, request.problem, folder)
    settings = emulated.Settings(Toolchain(request.nvcc, request.timeout_s), request.exhaustive)
    try:
        made = emulated.of_kernel(family, kernel, problem, settings, on_progress)
    except NcuSwizzleError as error:
        if not (engine.beside and _was_recorded(family, kernel, problem)):
            raise
        profile = recall(family, kernel, request.problem, folder)
        return replace(profile, notes=(*profile.notes, f"{kernel.name} is not computed but recorded: {error}."))
    emulated.save_cubin(made, folder)
    if engine.beside and _was_recorded(family, kernel, problem):
        return emulated.beside(made.profile, recall(family, kernel, request.problem, folder))
    return made.profile


def _recording(family: Family, kernel: Kernel) -> Path | None:
    """Return the report that was recorded of a kernel of ours; None of others', whatever they are called."""
    return paths.recording(family.name, kernel.name) if family.shipped else None


def _was_recorded(family: Family, kernel: Kernel, problem: Mapping[str, int]) -> bool:
    shipped = _recording(family, kernel)
    return shipped is not None and dict(launchfacts.Facts.beside(shipped).content.get("problem", {})) == dict(problem)


# ---------------------------------------------------------------------------------------------- recorded


def recall(family: Family, kernel: Kernel, sizes: Mapping[str, int], folder: Path) -> Profile:
    """Return the recorded profile and copy its files to the folder; raise EnvironmentLacking where none fits."""
    from ncu_swizzle import repfile

    problem = family.problem(sizes)
    shipped = _recording(family, kernel)
    if shipped is None:
        raise EnvironmentLacking(
            f"{kernel.name} was not recorded, and there is nothing here to measure it with",
            "ncu-swizzle list shows what was recorded",
        )
    profile = repfile.read(shipped)[0]
    if dict(profile.problem) != problem:
        raise EnvironmentLacking(
            f"{kernel.name} was recorded at {in_words(profile.problem)}, not at {in_words(problem)}",
            "leave --problem away, or measure on a machine with a GPU and ncu",
        )
    for file in (shipped, launchfacts.facts_path(shipped)):
        shutil.copy(file, folder)
    return profile
