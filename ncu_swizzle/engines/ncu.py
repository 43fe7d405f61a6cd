"""Nsight Compute's command line: build it, run it, and explain its failures."""

from __future__ import annotations

import logging
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.base import child, paths
from ncu_swizzle.base.bounds import last_lines, shortened
from ncu_swizzle.base.errors import EnvironmentLacking, Hint, NcuSwizzleError, ProgramFailed, TimeLimit, Typed
from ncu_swizzle.base.texts import one_line
from ncu_swizzle.engines import machine
from ncu_swizzle.engines.failures import (
    BUSY,
    FAILURES,
    NO_KERNELS,
    NOTES,
    OWN_TMPDIR,
    UNWRITABLE,
    WITHOUT_NCU,
    WRITABLE_HOME,
    Failure,
    Log,
    MachineState,
)
from ncu_swizzle.engines.machine import System
from ncu_swizzle.engines.settings import SECTION, Done, OnDone, Options, unheard

# ncu's progress, from what it prints.


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
        seen = self._line + text
        start, end = seen.rfind(MARK), seen.rfind("\n") + 1
        bar = BAR.match(seen[start : start + LONGEST_LINE]) if start >= 0 else None
        marks = re.search(r"(\d{1,3})%(\.*)$", bar[2]) if bar else None
        if bar and marks:
            launch = (int(marks[1]) + 10 * len(marks[2])) / 100
            self._report(Done(min(1.0, (int(bar[1] or 0) + launch) / self._launches)))
        self._line = seen[start : start + LONGEST_LINE] if start >= end else seen[end:][-len(MARK) :]


# Why ncu failed: from its output, its exit status and the state of the machine to an error. Pure.


def diagnose(log: str, status: int, state: MachineState | None = None) -> NcuSwizzleError:
    """Return the error that explains why ncu failed; for an unknown failure it quotes the end of the output."""
    state = state or MachineState()
    known = Log.of(log)
    failure = _recognized(known)
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
    return ProgramFailed(
        f"ncu {_end(status, state)}{quoted_end(log)}", f"{WITHOUT_NCU}; to use another ncu: --ncu PATH"
    )


def nothing_profiled(log: str, state: MachineState) -> NcuSwizzleError:
    """Return the error for an ncu that succeeded but left a report without kernels."""
    return diagnose(f"{log}\n==WARNING== No kernels were profiled.", 0, state)


def recognized_failure(log: str) -> Failure | None:
    """Return the first known failure that matches the log."""
    return _recognized(Log.of(log))


def _recognized(log: Log) -> Failure | None:
    return next((failure for failure in FAILURES if failure.match(log)), None)


def _filled_in(message: str, match: re.Match[str]) -> str:
    return message.format(**{name: shortened(text) for name, text in match.groupdict().items()})


def busy(log: str) -> bool:
    """Return whether ncu failed because another profiler held the counters, which may be temporary."""
    failure = recognized_failure(log)
    return failure is not None and failure.number == BUSY


def disk_full() -> NcuSwizzleError:
    """Return the error for a full disk."""
    return EnvironmentLacking(
        "the disk is full: ncu could not write its report", "free some space, or write to another disk with -o"
    )


def hung(error: TimeLimit) -> TimeLimit:
    """Return the time limit's error with a hint on what makes programs hang under ncu (failure 17)."""
    return TimeLimit(
        str(error),
        Hint(
            "raise the limit with ",
            Typed("--timeout SECONDS"),
            ", or profile a smaller --problem; a kernel that waits for another one "
            "hangs because ncu serializes kernels: try --replay-mode application",
        ),
    )


def half_written(reason: str, log: str, state: MachineState) -> NcuSwizzleError:
    """Return the error for an ncu that succeeded but left a damaged report."""
    if state.full:
        return disk_full()
    return ProgramFailed(f"ncu left a damaged report: {reason}{quoted_end(log)}", "profile again")


def notes(log: str) -> tuple[str, ...]:
    """Return ncu's non-fatal warnings, each once, in the order of NOTES."""
    known = Log.of(log)
    matches = ((known.find(pattern), meaning) for pattern, meaning in NOTES)
    return tuple(f"{shortened(_filled_in(meaning, match)).rstrip('.')}." for match, meaning in matches if match)


def quoted_end(log: str) -> str:
    """Return the last lines of a program's output, to append to a message; empty if there are none."""
    last = last_lines(log)
    return f"; its last lines:\n{last}" if last else ""


def _end(status: int, state: MachineState) -> str:
    report = "and wrote no report" if state.report_bytes is None else "and left a report that cannot be trusted"
    return f"was killed by signal {-status}" if status < 0 else f"exited with code {status} {report}"


WAITS_S = (1.0, 2.0, 4.0)  # before each retry if another profiler holds the counters

_log = logging.getLogger(__name__)


def argv(ncu: Path, export: str, program: Sequence[str], options: Options) -> list[str]:
    """Return the command line that profiles the program with our section."""
    return [
        str(ncu),
        *options.launches.argv(),
        *_collected(options),
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


def _collected(options: Options) -> list[str]:
    if options.metrics:
        return ["--metrics", options.metrics]
    return ["--section-folder", str(paths.rules()), "--section", SECTION]


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
    print. Raises the error that `diagnosis` makes of a failure.
    """
    for wait_s in (*WAITS_S, None):
        follow = _both(Progress(on_progress, options.launch_count).feed, on_output)
        command = _Command(
            ncu=ncu, program=tuple(program), options=options, folder=folder or report.parent, environment=environment
        )
        log, error = _attempt(command, report, timeout_s, follow)
        if error is None:
            return notes(log)
        if wait_s is None or not busy(log):
            raise error
        _log.warning("%s; trying again in %g s", one_line(str(error)), wait_s)
        time.sleep(wait_s)
    raise AssertionError("the last attempt returns or raises")


_turn = threading.Lock()  # a worker reads one report while ncu measures the next, but measures one at a time


def _both(first: Callable[[str], None], second: Callable[[str], None]) -> Callable[[str], None]:
    def follow(text: str) -> None:
        first(text)
        second(text)

    return follow


@dataclass(frozen=True, kw_only=True)
class _Command:
    ncu: Path
    program: tuple[str, ...]
    options: Options
    folder: Path
    environment: Mapping[str, str] | None


def _attempt(
    command: _Command, report: Path, timeout_s: float, on_output: Callable[[str], None]
) -> tuple[str, NcuSwizzleError | None]:
    """Run ncu once; return what it printed, and the error if there is no report."""
    with tempfile.TemporaryDirectory(dir=report.parent, prefix=".ncu-", ignore_cleanup_errors=True) as unfinished:
        export = Path(unfinished, report.name).absolute()
        words = argv(command.ncu, os.path.relpath(export, command.folder), command.program, command.options)
        try:
            with _turn:
                ended = child.run(words, timeout_s, command.folder, command.environment, on_output)
        except TimeLimit as error:
            raise hung(error) from error
        failure = _judge(export, ended)
        if failure is None:
            export.replace(report)
        return ended.log, failure


def _judge(export: Path, ended: child.Exit) -> NcuSwizzleError | None:
    """Return why ncu left no usable report, or None; its exit code alone is not enough to tell."""
    state = state_around(export)
    if ended.status or state.report_bytes is None:
        return diagnose(ended.log, ended.status, state)
    from ncu_swizzle.reports import container  # loaded while ncu measures, see `commands.run_kernel`

    try:
        results = container.inspect(export).results
    except NcuSwizzleError as error:
        return half_written(str(error.__cause__ or error), ended.log, state)
    return None if results else nothing_profiled(ended.log, state)


def state_around(export: Path, system: System | None = None) -> MachineState:
    """Return what may explain a failure besides ncu's output."""
    system = system or System()
    home = system.environment.get("HOME", "")
    return MachineState(
        free_bytes=system.free_bytes(export.parent),
        home_writable=bool(home) and system.writable(home),
        lock=machine.foreign_lock(system),
        report_bytes=export.stat().st_size if export.is_file() else None,
    )
