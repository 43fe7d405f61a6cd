"""Nsight Compute's command line: build it, run it, and explain its failures."""

from __future__ import annotations

import logging
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ncu_swizzle.base import child, paths
from ncu_swizzle.base.bounds import last_lines, shortened
from ncu_swizzle.base.errors import EnvironmentLacking, Hint, NcuSwizzleError, ProgramFailed, TimeLimit, Typed
from ncu_swizzle.base.texts import one_line
from ncu_swizzle.engines import failures, machine
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


def diagnose(log: str, status: int, state: failures.MachineState | None = None) -> NcuSwizzleError:
    """Return the error that explains why ncu failed; for an unknown failure it quotes the end of the output."""
    state = state or failures.MachineState()
    known = failures.NcuLog.of(log)
    failure = _recognized(known)
    # A full disk shows as one of these failures, or as nothing that ncu prints.
    if state.full and (failure is None or failure.number in (failures.NO_KERNELS, failures.UNWRITABLE)):
        return disk_full()
    if failure:
        match = failure.match(known)
        assert match
        return failure.error(_filled_in(failure.message, match), failure.hint)
    if state.lock:
        return EnvironmentLacking(
            f"ncu failed, and its lock file {state.lock} belongs to another user", failures.OWN_TMPDIR
        )
    if not state.home_writable:
        return EnvironmentLacking("ncu failed, and the home folder is not writable", failures.WRITABLE_HOME)
    report = "and wrote no report" if state.report_bytes is None else "and left a report that cannot be trusted"
    end = f"was killed by signal {-status}" if status < 0 else f"exited with code {status} {report}"
    return _quoting(f"ncu {end}", log, Hint(failures.WITHOUT_NCU, "; to use another ncu: --ncu PATH"))


def _recognized(log: failures.NcuLog) -> failures.Failure | None:
    """Return the first known failure that matches the log."""
    return next((failure for failure in failures.FAILURES if failure.match(log)), None)


def _filled_in(message: str, match: re.Match[str]) -> str:
    return message.format(**{name: shortened(text) for name, text in match.groupdict().items()})


def busy(log: str) -> bool:
    """Return whether ncu failed because another profiler held the counters, which may be temporary."""
    failure = _recognized(failures.NcuLog.of(log))
    return failure is not None and failure.number == failures.BUSY


def disk_full() -> NcuSwizzleError:
    """Return the error for a full disk."""
    return EnvironmentLacking(
        "the disk is full: ncu could not write its report", "free some space, or write to another disk with -o"
    )


def notes(log: str) -> tuple[str, ...]:
    """Return ncu's non-fatal warnings, each once, in the order of failures.NOTES."""
    known = failures.NcuLog.of(log)
    matches = ((known.find(pattern), meaning) for pattern, meaning in failures.NOTES)
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


def state_around(export: Path, system: System | None = None) -> failures.MachineState:
    """Return machine state that may explain a failure, besides ncu's output."""
    system = system or System()
    home = system.environment.get("HOME", "")
    return failures.MachineState(
        free_bytes=system.free_bytes(export.parent),
        home_writable=bool(home) and system.writable(home),
        lock=machine.foreign_lock(system),
        report_bytes=export.stat().st_size if export.is_file() else None,
    )
