"""ncu's command line: profile one process under it, and show how far it is; what its failures mean."""

from __future__ import annotations

import logging
import os
import re
import shlex
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.base import child, paths
from ncu_swizzle.base.bounds import last_lines, shortened
from ncu_swizzle.base.errors import (
    CountersForbidden,
    EnvironmentLacking,
    Hint,
    NcuSwizzleError,
    NothingProfiled,
    ProgramFailed,
    TimeLimit,
    Typed,
    UsageError,
)
from ncu_swizzle.base.texts import one_line
from ncu_swizzle.engines import machine
from ncu_swizzle.engines.machine import System
from ncu_swizzle.engines.settings import SECTION, Done, OnDone, Options, unheard

# ncu's progress, from its output.

MARK = "==PROF== Profiling "
BAR = re.compile(MARK + r".*?(?: - (\d{1,9}))?: ([\d%.]+)")
LONGEST_LINE = 4_000  # characters of a line of progress; a longer one is something else


class Progress:
    """Follow ncu's line ``==PROF== Profiling "k" - 0: 0%....50%....100% - 6 passes``, a dot per 10 %.

    Each of `launches` launches counts as an equal part of the whole.
    """

    def __init__(self, on_progress: OnDone, launches: int = 1) -> None:
        self._report = on_progress
        self._launches = launches
        self._line = ""  # what may become a line of ncu's: from its mark on, or what may be a mark's beginning

    def feed(self, text: str) -> None:
        printed = self._line + text
        start, end = printed.rfind(MARK), printed.rfind("\n") + 1
        bar = BAR.match(printed[start : start + LONGEST_LINE]) if start >= 0 else None
        marks = re.search(r"(\d{1,3})%(\.*)$", bar[2]) if bar else None
        if bar and marks:
            launch = (int(marks[1]) + 10 * len(marks[2])) / 100
            self._report(Done(min(1.0, (int(bar[1] or 0) + launch) / self._launches)))
        self._line = printed[start : start + LONGEST_LINE] if start >= end else printed[end:][-len(MARK) :]


# Why ncu failed: from its output, its exit status and the state of the machine to an error. Pure.


def diagnose(log: str, status: int, state: MachineState | None = None) -> NcuSwizzleError:
    """Return the error that explains why ncu failed; for an unknown failure it quotes the end of the output."""
    state = state or MachineState()
    known = NcuLog.of(log)
    failure = _recognized(known)
    # A full disk shows as one of these failures, or as nothing that ncu prints.
    if state.full and (failure is None or failure.number in (NO_KERNELS, UNWRITABLE)):
        return disk_full()
    if failure:
        match = failure.match(known)
        assert match
        return failure.error(_filled_in(failure.message, match), failure.hint)
    if state.lock:
        return EnvironmentLacking(f"ncu failed, and its lock file {state.lock} belongs to another user", OWN_TMPDIR)
    if not state.home_writable:
        return EnvironmentLacking("ncu failed, and the home folder is not writable", WRITABLE_HOME)
    report = "and wrote no report" if state.report_bytes is None else "and left a report that cannot be trusted"
    end = f"was killed by signal {-status}" if status < 0 else f"exited with code {status} {report}"
    return _quoting(f"ncu {end}", log, Hint(WITHOUT_NCU, "; to use another ncu: --ncu PATH"))


def _recognized(log: NcuLog) -> Failure | None:
    """Return the first known failure that matches the log."""
    return next((failure for failure in FAILURES if failure.match(log)), None)


def _filled_in(message: str, match: re.Match[str]) -> str:
    return message.format(**{name: shortened(text) for name, text in match.groupdict().items()})


def busy(log: str) -> bool:
    """Return whether ncu failed because another profiler held the counters, which may be temporary."""
    failure = _recognized(NcuLog.of(log))
    return failure is not None and failure.number == BUSY


def disk_full() -> NcuSwizzleError:
    """Return the error for a full disk."""
    return EnvironmentLacking(
        "the disk is full: ncu could not write its report", "free some space, or write to another disk with -o"
    )


def notes(log: str) -> tuple[str, ...]:
    """Return ncu's non-fatal warnings, each once, in the order of failures.NOTES."""
    known = NcuLog.of(log)
    matches = ((known.find(pattern), meaning) for pattern, meaning in NOTES)
    return tuple(f"{shortened(_filled_in(meaning, match)).rstrip('.')}." for match, meaning in matches if match)


def _quoting(message: str, log: str, hint: str) -> ProgramFailed:
    """Return an error with the last lines of the output, if there are any."""
    last = last_lines(log)
    error = ProgramFailed(f"{message}; its last lines:\n{last}" if last else message, hint)
    error.output = last
    return error


# Failure 17: what makes programs hang under ncu.
HANGS = Hint(
    "raise the limit with ",
    Typed("--timeout SECONDS"),
    ", or profile a smaller --problem; a kernel that waits for another one "
    "hangs because ncu serializes kernels: try --replay-mode application",
)
_turn = threading.Lock()  # a worker reads one report while ncu measures the next, but measures one at a time
WAITS_S = (1.0, 2.0, 4.0)  # before each retry if another profiler holds the counters

_log = logging.getLogger(__name__)


def argv(ncu: Path, export: str, program: Sequence[str], options: Options) -> list[str]:
    """Return the command line that profiles the program with our section."""
    section = ["--section-folder", str(paths.rules()), "--section", SECTION]
    return [
        str(ncu),
        *options.launches.argv(),
        *(["--metrics", options.metrics] if options.metrics else section),
        *("--clock-control", options.clock_control),
        *("--cache-control", options.cache_control),
        *("--replay-mode", options.replay_mode),
        *("--launch-count", str(options.launch_count or 1)),
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
    on_progress: OnDone = unheard,
    folder: Path | None = None,
    on_output: Callable[[str], None] = lambda text: None,
) -> tuple[str, ...]:
    """Profile the program, run in `folder` (the report's by default), and leave a complete report or none.

    Returns ncu's non-fatal warnings. If another profiler holds the counters, waits and retries (WAITS_S).
    `on_progress` gets the fraction of replay passes done over all launches, `on_output` what ncu and the program
    print. Raises the error that `diagnose` makes of a failure.
    """
    folder = folder or report.parent

    def attempt(follow: Callable[[str], None]) -> tuple[str, NcuSwizzleError | None]:
        """Run ncu once; return its output, and the error if there is no report."""
        # Beside the report, so that moving it is a rename; an ncu that is killed leaves nothing under the report's
        # name.
        with tempfile.TemporaryDirectory(dir=report.parent, prefix=".ncu-", ignore_cleanup_errors=True) as unfinished:
            export = Path(unfinished, report.name).absolute()
            words = argv(ncu, os.path.relpath(export, folder), program, options)
            try:
                with _turn:
                    ended = child.run(words, timeout_s, folder, environment, follow)
            except TimeLimit as error:
                raise TimeLimit(str(error), HANGS) from error
            failure = _judge(export, ended)
            if failure is None:
                export.replace(report)
            return ended.log, failure

    for wait_s in (*WAITS_S, None):
        progress = Progress(on_progress, options.launch_count or 1)

        def follow(text: str, progress: Progress = progress) -> None:
            progress.feed(text)
            on_output(text)

        log, error = attempt(follow)
        if error is None:
            return notes(log)
        if wait_s is None or not busy(log):
            raise error
        _log.warning("%s; trying again in %g s", one_line(str(error)), wait_s)
        time.sleep(wait_s)
    raise AssertionError("the last attempt returns or raises")


def _judge(export: Path, ended: child.Exit) -> NcuSwizzleError | None:
    """Return why ncu left no usable report, or None; its exit code alone is not enough to tell."""
    state = state_around(export)
    if ended.status or state.report_bytes is None:
        return diagnose(ended.log, ended.status, state)
    from ncu_swizzle.reports import container  # loaded while ncu measures, see `commands.run_kernel`

    try:
        results = container.inspect(export).results
    except NcuSwizzleError as error:
        if state.full:
            return disk_full()
        reason = f"ncu left a damaged report: {error.__cause__ or error}"
        return _quoting(reason, ended.log, "profile again")
    # An intact report without results: the same failure as if ncu had said so, whatever it printed.
    if not results:
        return diagnose(f"{ended.log}\n==WARNING== No kernels were profiled.", 0, state)
    return None


def state_around(export: Path, system: System | None = None) -> MachineState:
    """Return machine state that may explain a failure, besides ncu's output."""
    system = system or System()
    home = system.environment.get("HOME", "")
    return MachineState(
        free_bytes=system.free_bytes(export.parent),
        home_writable=bool(home) and system.writable(home),
        lock=machine.foreign_lock(system),
        report_bytes=export.stat().st_size if export.is_file() else None,
    )


# The known failures of ncu: the text that identifies each, what it means, and what to do; see `ncu.diagnose`.
#
# The numbers are those of ``docs/failures.md``. ncu mixes the program's output with its own, so a text counts only on
# one of ncu's own lines (``==ERROR==``, ``==WARNING==``, ``==PROF==``), unless no other program would print it.

BUSY = 2  # temporary: another profiler holds the counters
UNWRITABLE, OPTION, TEMPORARY, NO_PROGRAM, NO_KERNELS = 19, 20, 21, 22, 6
FULL_BYTES = 1 << 20  # a disk with less free space counts as full: no report is smaller
OWN = re.compile(r"==(?:ERROR|WARNING|PROF)==")
LONGEST_SAID = 2_000  # characters of one of ncu's lines that are looked at


@dataclass(frozen=True, kw_only=True)
class MachineState:
    """What is known besides ncu's output. The defaults describe a healthy machine."""

    free_bytes: int | None = None  # on the report's disk
    home_writable: bool = True
    lock: str = ""  # the path of ncu's lock file, if another user owns it
    report_bytes: int | None = None  # the report's size, if ncu left one

    @property
    def full(self) -> bool:
        """Whether the disk is full."""
        return self.free_bytes is not None and self.free_bytes < FULL_BYTES


@dataclass(frozen=True)
class NcuLog:
    """What ncu and the program printed, and ncu's own lines in it, from their mark on."""

    text: str
    own: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> NcuLog:
        marked = ((line, OWN.search(line)) for line in text.split("\n"))
        return cls(text, tuple(line[mark.end() : mark.end() + LONGEST_SAID] for line, mark in marked if mark))

    def find(self, pattern: str) -> re.Match[str] | None:
        """Return the first match on one of ncu's own lines."""
        return next(filter(None, (re.search(pattern, line) for line in self.own)), None)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A text that ncu prints, what it means, and the fix. `anywhere`: the text counts on any line."""

    number: int
    pattern: str
    error: type[NcuSwizzleError]
    message: str
    hint: str
    anywhere: bool = False

    def match(self, log: NcuLog) -> re.Match[str] | None:
        return re.search(self.pattern, log.text) if self.anywhere else log.find(self.pattern)


def without_counters(program: Sequence[str], captured: Sequence[str] = (), replayed: Sequence[str] = ()) -> Hint:
    """Return what to type if a program's counters are forbidden, with options for the capture and for its replay.

    A line for the shell, then why it helps. CUPTI's callbacks, which the capture uses, need no permission.
    """
    capture = Typed(shlex.join(["ncu-swizzle", "capture", *captured, "--", *program]))
    replay = Typed(shlex.join(["ncu-swizzle", "profile", "app.launches", *replayed]))
    return Hint(capture, " && ", replay, f"\n  Exact counts by replay, without counters, but no times. {PERMISSION}")


WITHOUT_NCU = "run the program without ncu first; for a catalogue kernel: ncu-swizzle profile --no-ncu KERNEL"
PERMISSION = (
    "To measure: run as root, give the container --cap-add=SYS_ADMIN, or load the driver with 'options nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0'; on WSL, allow it in the NVIDIA Control Panel."
)
OWN_TMPDIR = "use your own folder: mkdir -p ~/tmp && export TMPDIR=~/tmp"
WRITABLE_HOME = "set HOME to a writable folder: export HOME=/tmp/home && mkdir -p $HOME"
OLDER_NCU = "use an ncu of the driver's CUDA version: --ncu PATH, or update the driver; ncu-swizzle doctor shows both"

# In search order. Whatever the cause, ncu also prints that the application returned an error code and that no kernel
# was profiled: those come last.
FAILURES = (
    Failure(
        number=1,
        pattern="ERR_NVGPUCTRPERM",
        error=CountersForbidden,
        message="the driver allows only privileged users to read the GPU's performance counters (ERR_NVGPUCTRPERM)",
        hint=Hint("add ", Typed("--engine emulated"), f": exact counts without counters, but no times. {PERMISSION}"),
        anywhere=True,
    ),
    Failure(
        number=BUSY,
        pattern="driver resource was unavailable",
        error=EnvironmentLacking,
        message="another profiler (often DCGM) holds the GPU's performance counters",
        hint="pause it: dcgmi profile --pause, or end the other ncu or nsys, then try again",
    ),
    Failure(
        number=3,
        pattern=r"Failed to (?:open|create)\S* lock file|InterprocessLockFailed",
        error=EnvironmentLacking,
        message="ncu's lock file belongs to another user",
        hint=OWN_TMPDIR,
        anywhere=True,
    ),
    Failure(
        number=4,
        pattern="(?i:cuda driver is not compatible with nsight compute)",
        error=EnvironmentLacking,
        message="this ncu does not support the installed driver",
        hint=OLDER_NCU,
    ),
    Failure(
        number=5,
        pattern=r"LibraryNotLoaded|failed to connect to the CUDA driver",
        error=EnvironmentLacking,
        message="ncu could not load the driver's profiling libraries",
        hint="use an ncu that matches the driver (--ncu PATH); remove stub folders from LD_LIBRARY_PATH; some "
        "sandboxes and "
        "containers hide these libraries",
    ),
    Failure(
        number=15,
        pattern=r"Unsupported GPU|Profiling is not supported on device",
        error=EnvironmentLacking,
        message="this ncu does not support the GPU",
        hint="ncu --list-chips shows what it supports; to use another ncu: --ncu PATH",
    ),
    Failure(
        number=11,
        pattern="Cannot lock GPU clock frequencies",
        error=EnvironmentLacking,
        message="the clocks of a MIG instance cannot be locked",
        hint="profile with --clock-control none",
    ),
    Failure(
        number=8,
        pattern=r"did not match any section",
        error=EnvironmentLacking,
        message="ncu did not find the section",
        hint="ncu --list-sections shows the available ones; for your own, name the folder with --section-folder; if "
        "it is "
        "SwizzleConflicts, reinstall ncu-swizzle",
    ),
    Failure(
        number=7,
        pattern=r"Failed to find metric|Failed to access the following \d+ metrics?",
        error=EnvironmentLacking,
        message="this ncu or GPU lacks a requested metric",
        hint="ncu --query-metrics shows the available ones; to use another ncu: --ncu PATH",
    ),
    Failure(
        number=10,
        pattern=r"bad allocation|Failed to save memory for replay|ContextSaveFailed",
        error=ProgramFailed,
        message="ncu ran out of memory while saving device memory between passes",
        hint="use --replay-mode application (it needs no copy of the memory), a smaller --problem or fewer metrics",
    ),
    Failure(
        number=UNWRITABLE,
        pattern=r"Unable to write to file|No space left on device",
        error=EnvironmentLacking,
        message="ncu could not write its report",
        hint="check the folder's permissions and the free disk space, or name another path with -o",
    ),
    Failure(
        number=TEMPORARY,
        pattern="Failed to access the temporary directory",
        error=EnvironmentLacking,
        message="ncu cannot write to the temporary folder",
        hint=OWN_TMPDIR,
    ),
    Failure(
        number=NO_PROGRAM,
        pattern=r"'(?P<program>[^']*)' does not exist or is not an executable",
        error=UsageError,
        message="{program} does not exist or is not executable",
        hint="check its path and permissions with ls -l; put the interpreter before a script, for example python",
    ),
    Failure(
        number=9,
        pattern=r"Failed to prepare kernel for profiling|Failed to profile \"|Unknown [Ee]rror on device|UnknownError|"
        r"LaunchFailed",
        error=ProgramFailed,
        message="ncu could not profile the kernel",
        hint="run the program under compute-sanitizer: the kernel may access memory out of bounds; or ncu is newer "
        "than the "
        "CUDA version that the program uses: --ncu PATH",
    ),
    Failure(
        number=OPTION,
        pattern=r"unrecogni[sz]ed option|the argument .{0,200} for option|cannot be specified more than once",
        error=UsageError,
        message="ncu rejected an option that was passed to it",
        hint="ncu --help lists its options; those of ncu-swizzle come before --",
    ),
    Failure(
        number=14,
        pattern="Connection error detected communicating with target application",
        error=ProgramFailed,
        message="the profiled program died while ncu was profiling it",
        hint=Hint(WITHOUT_NCU, "; dmesg shows whether the OOM killer ended it"),
    ),
    Failure(
        number=12,
        pattern=r"The application returned an error code \((?P<code>-?\d+)\)",
        error=ProgramFailed,
        message="the profiled program exited with code {code}",
        hint=WITHOUT_NCU,
    ),
    Failure(
        number=13,
        pattern=r"target process may have exited|terminated before first instrumented API call",
        error=ProgramFailed,
        message="the profiled program ended before ncu saw a kernel launch: it made no CUDA call",
        hint=Hint(WITHOUT_NCU, "; if it starts child processes, --target-processes all profiles them"),
    ),
    Failure(
        number=NO_KERNELS,
        pattern="No kernels were profiled",
        error=NothingProfiled,
        message="ncu saw no kernel to profile",
        hint="check the filters: -k, -s, -c, --nvtx-include, --target-processes",
    ),
    Failure(
        number=16,
        pattern=r"Could not deploy stock|(?i:could not determine user home directory)",
        error=EnvironmentLacking,
        message="ncu could not write to the home folder",
        hint=WRITABLE_HOME,
    ),
)

# Non-fatal warnings of ncu, and what they mean for the results.
NOTES = (
    (
        r"Unable to access the following (?P<count>\d+) metrics?: (?P<names>.*)",
        "ncu could not read {count} metrics: {names}",
    ),
    (
        "Backing up device memory in system memory",
        "GPU memory could not hold a copy of the kernel's data: ncu kept it in host memory and took longer; "
        "--replay-mode application needs no copy",
    ),
    (
        r"Could not deploy stock|(?i:could not determine user home directory)",
        "ncu could not write to the home folder and used its built-in sections; HOME sets that folder",
    ),
)
