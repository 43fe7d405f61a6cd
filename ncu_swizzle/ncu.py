"""Nsight Compute's command line: find it, call it, and explain how it failed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle import child, paths
from ncu_swizzle.errors import (
    EnvironmentLacking,
    NcuSwizzleError,
    NothingProfiled,
    ProgramFailed,
    UsageError,
)

SECTION = "SwizzleConflicts"
INSTALLED = Path("/opt/nvidia/nsight-compute")
TOOLKIT = Path("/usr/local/cuda")


@dataclass(frozen=True)
class Options:
    """ncu's own options, by ncu's names; `extra` goes to ncu as it is."""

    clock_control: str = "none"
    cache_control: str = "all"
    replay_mode: str = "kernel"
    launch_count: int = 1
    extra: tuple[str, ...] = ()


def find(given: Path | None = None) -> Path:
    """Return the ncu to use: the one given, on PATH, in the CUDA toolkit, or the newest one installed."""
    if given is not None:
        if not os.access(given, os.X_OK) or given.is_dir():
            raise EnvironmentLacking(f"{given} is no program that can be run", "name ncu itself with --ncu")
        return given
    on_path = shutil.which("ncu")
    named = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_ROOT") if os.environ.get(name)]
    toolkits = [folder / "bin" / "ncu" for folder in (*named, TOOLKIT)]
    installed = sorted(INSTALLED.glob("*/ncu"), key=_version, reverse=True)
    candidates = [Path(on_path)] if on_path else [*toolkits, *installed]
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate
    raise EnvironmentLacking(
        "Nsight Compute (ncu) was not found on PATH, in the CUDA toolkit or in /opt/nvidia/nsight-compute",
        "install it, or name it with --ncu; --engine recorded needs none",
    )


def _version(program: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", program.parent.name)]


def argv(ncu: Path, export: str, program: Sequence[str], options: Options) -> list[str]:
    """Return the command line that profiles the range between the program's profiler start and stop."""
    return [
        str(ncu),
        *("--profile-from-start", "off"),
        *("--section-folder", str(paths.rules())),
        *("--section", SECTION),
        *("--clock-control", options.clock_control),
        *("--cache-control", options.cache_control),
        *("--replay-mode", options.replay_mode),
        *("--launch-count", str(options.launch_count)),
        *options.extra,
        *("--export", export),
        "--force-overwrite",
        "--",
        *program,
    ]


def collect(
    ncu: Path,
    program: Sequence[str],
    report: Path,
    options: Options,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    on_progress: Callable[[float], None] = lambda percent: None,
) -> None:
    """Profile the program, run in the report's folder, and leave the whole report there, or nothing.

    `on_progress` gets percent of the replay passes. Raises what `diagnose` finds, TimeLimit, EnvironmentLacking.
    """
    progress = Progress(on_progress)
    with tempfile.TemporaryDirectory(dir=report.parent, prefix=".ncu-") as unfinished:
        export = Path(unfinished, report.name)
        command = argv(ncu, os.path.relpath(export, report.parent), program, options)
        outcome = child.run(command, timeout_s, report.parent, environment, progress.feed)
        if outcome.status or not export.is_file():
            raise diagnose(outcome.log, outcome.status)
        export.replace(report)


class Progress:
    """Follows ncu's line ``==PROF== Profiling "k" - 0: 0%....50%....100% - 6 passes``, a dot per tenth."""

    def __init__(self, on_progress: Callable[[float], None]) -> None:
        self._report = on_progress
        self._line = ""

    def feed(self, text: str) -> None:
        seen = self._line + text
        self._line = seen.rsplit("\n", 1)[-1]
        bars = re.findall(r"==PROF== Profiling .*: ([\d%.]+)", seen)
        marks = re.search(r"(\d+)%(\.*)$", bars[-1]) if bars else None
        if marks:
            self._report(min(100.0, int(marks[1]) + 10.0 * len(marks[2])))


@dataclass(frozen=True)
class Failure:
    """A text of ncu's, what it means, and the cure."""

    pattern: str
    error: type[NcuSwizzleError]
    message: str
    hint: str


# In the order in which they are looked for: the more specific first. Each was seen of ncu, or is in its manual.
FAILURES = (
    Failure(
        r"ERR_NVGPUCTRPERM",
        EnvironmentLacking,
        "the driver lets only privileged users read the GPU's performance counters (ERR_NVGPUCTRPERM)",
        "run as root, give the container --cap-add=SYS_ADMIN, or load the driver with "
        "'options nvidia NVreg_RestrictProfilingToAdminUsers=0'; on WSL, the NVIDIA control panel allows it",
    ),
    Failure(
        r"driver resource was unavailable",
        EnvironmentLacking,
        "another profiler (often DCGM) holds the GPU's performance counters",
        "pause it: dcgmi profile --pause, or end the other ncu or nsys, then try again",
    ),
    Failure(
        r"Failed to (open|create).*lock file|InterprocessLockFailed",
        EnvironmentLacking,
        "ncu's lock file belongs to another user",
        "set TMPDIR to a folder of your own and try again",
    ),
    Failure(
        r"Cuda driver is not compatible with Nsight Compute",
        EnvironmentLacking,
        "this ncu does not support the installed driver",
        "use an ncu of the driver's CUDA version: --ncu PATH",
    ),
    Failure(
        r"LibraryNotLoaded",
        EnvironmentLacking,
        "ncu could not load the driver's profiling libraries",
        "match ncu with the driver (--ncu PATH); some sandboxes hide those libraries",
    ),
    Failure(
        r"Failed to find metric|Unable to access the following \d+ metrics",
        EnvironmentLacking,
        "this ncu or GPU lacks a metric that was asked for",
        "ncu --query-metrics shows what there is; another version: --ncu PATH",
    ),
    Failure(
        r"Option '--section .*' did not match any section|did not match any section",
        EnvironmentLacking,
        "ncu did not find the section " + SECTION,
        "name its folder with --section-folder, or install ncu-swizzle again",
    ),
    Failure(
        r"Cannot lock GPU clock frequencies on MIG",
        EnvironmentLacking,
        "a MIG instance's clocks cannot be locked",
        "profile with --clock-control none",
    ),
    Failure(
        r"Could not deploy stock|Could not determine user home directory",
        EnvironmentLacking,
        "ncu could not write to the home folder",
        "set HOME to a folder that can be written to",
    ),
    Failure(r"Unsupported GPU", EnvironmentLacking, "this ncu does not support the GPU", "use a newer one: --ncu PATH"),
    Failure(
        r"bad allocation|Failed to save memory for replay",
        ProgramFailed,
        "ncu ran out of memory while saving the kernel's memory between passes",
        "--replay-mode application, or a smaller --problem",
    ),
    Failure(
        r"Failed to prepare kernel for profiling|Failed to profile \"|Unknown Error on device",
        ProgramFailed,
        "ncu could not profile the kernel",
        "run compute-sanitizer over the program: the kernel may read or write out of bounds",
    ),
    Failure(
        r"(unrecognised|unrecognized) option|the argument .* for option|cannot be specified more than once",
        UsageError,
        "ncu did not accept an option that was passed to it",
        "ncu --help shows its options; ours of the same name come before --",
    ),
    Failure(
        r"Unable to write to file",
        EnvironmentLacking,
        "ncu could not write its report",
        "look at the folder's permissions and the free disk space, or name another place with -o",
    ),
    Failure(
        r"The application returned an error code \((?P<code>\d+)\)",
        ProgramFailed,
        "the profiled program ended with exit code {code}",
        "run it without ncu first: ncu-swizzle run KERNEL",
    ),
    Failure(
        r"Connection error detected communicating with target application|"
        r"target process may have exited|terminated before first instrumented API call",
        ProgramFailed,
        "the profiled program ended before ncu saw it launch a kernel",
        "run it without ncu first: ncu-swizzle run KERNEL",
    ),
    Failure(
        r"No kernels were profiled",
        NothingProfiled,
        "ncu saw no kernel to profile",
        "look at the filters that follow --: -k, -s, -c, --nvtx-include",
    ),
)


def diagnose(log: str, status: int) -> NcuSwizzleError:
    """Return the error that explains how ncu failed, with the end of what it printed where nothing does."""
    for failure in FAILURES:
        found = re.search(failure.pattern, log)
        if found:
            return failure.error(failure.message.format(**found.groupdict()), failure.hint)
    end = f"was ended by signal {-status}" if status < 0 else f"ended with exit code {status} and wrote no report"
    said = child.last_lines(log)
    return ProgramFailed(
        f"ncu {end}" + (f"; its last lines:\n{said}" if said else ""),
        "run the program without ncu first: ncu-swizzle run KERNEL; another ncu: --ncu PATH",
    )
