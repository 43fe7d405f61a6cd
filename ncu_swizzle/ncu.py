"""Nsight Compute's command line: find it, call it, and explain how it failed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

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
class Launches:
    """Which launches of a program are profiled, by ncu's names; what is empty is left to ncu."""

    kernel_name: str = ""
    kernel_name_base: str = ""
    kernel_id: str = ""
    launch_skip: int = 0
    filter_mode: str = ""
    nvtx: bool = False
    nvtx_include: tuple[str, ...] = ()
    nvtx_exclude: tuple[str, ...] = ()
    target_processes: str = ""
    target_processes_filter: str = ""
    graph_profiling: str = ""
    app_replay_match: str = ""
    profile_from_start: str = ""
    import_source: str = ""

    def argv(self) -> list[str]:
        """Return them as ncu takes them; NVTX is switched on where a filter needs it."""
        words: list[str] = []
        for option, value in zip(self.given, self.set.values(), strict=True):
            values = value if isinstance(value, tuple) else (value,)
            words += [word for one in values for word in ([option] if one is True else [option, str(one)])]
        needs_nvtx = (self.nvtx_include or self.nvtx_exclude) and not self.nvtx
        return [*words, *(["--nvtx"] if needs_nvtx else [])]

    @property
    def set(self) -> dict[str, Any]:
        """What is set, by field."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name)}

    @property
    def given(self) -> tuple[str, ...]:
        """What is set, as ncu calls it."""
        return tuple(f"--{name.replace('_', '-')}" for name in self.set)


CATALOGUE = Launches(profile_from_start="off")  # the range between the launching program's profiler start and stop


@dataclass(frozen=True)
class Options:
    """ncu's own options, by ncu's names; `extra` goes to ncu as it is."""

    clock_control: str = "none"
    cache_control: str = "all"
    replay_mode: str = "kernel"
    launch_count: int = 1
    extra: tuple[str, ...] = ()
    launches: Launches = CATALOGUE


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
    """Return the command line that profiles the program, all with our section."""
    return [
        str(ncu),
        *options.launches.argv(),
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
    folder: Path | None = None,
    on_output: Callable[[str], None] = lambda text: None,
) -> None:
    """Profile the program, run in `folder` (the report's by default), and leave the whole report, or nothing.

    `on_progress` gets percent of the replay passes of all launches, `on_output` what ncu and the program print.
    Raises what `diagnose` finds, TimeLimit, EnvironmentLacking.
    """
    progress = Progress(on_progress, options.launch_count)

    def follow(text: str) -> None:
        progress.feed(text)
        on_output(text)

    place = folder or report.parent
    with tempfile.TemporaryDirectory(dir=report.parent, prefix=".ncu-") as unfinished:
        export = Path(unfinished, report.name).absolute()
        command = argv(ncu, os.path.relpath(export, place), program, options)
        outcome = child.run(command, timeout_s, place, environment, follow)
        if outcome.status or not export.is_file():
            raise diagnose(outcome.log, outcome.status)
        export.replace(report)


class Progress:
    """Follows ncu's line ``==PROF== Profiling "k" - 0: 0%....50%....100% - 6 passes``, a dot per tenth.

    Of `launches` launches, each is an equal part of the whole.
    """

    def __init__(self, on_progress: Callable[[float], None], launches: int = 1) -> None:
        self._report = on_progress
        self._launches = launches
        self._line = ""

    def feed(self, text: str) -> None:
        seen = self._line + text
        self._line = seen.rsplit("\n", 1)[-1]
        bars = re.findall(r"==PROF== Profiling .*?(?: - (\d+))?: ([\d%.]+)", seen)
        marks = re.search(r"(\d+)%(\.*)$", bars[-1][1]) if bars else None
        if marks:
            done = 100.0 * int(bars[-1][0] or 0)
            self._report(min(100.0, (done + int(marks[1]) + 10.0 * len(marks[2])) / self._launches))


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
