"""Nsight Compute's command line: build it, run it, and explain its failures."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle import child, paths
from ncu_swizzle.errors import NcuSwizzleError, TimeLimit
from ncu_swizzle.ncu import diagnosis, installed
from ncu_swizzle.ncu.failures import State
from ncu_swizzle.ncu.options import SECTION, Options
from ncu_swizzle.ncu.progress import Progress
from ncu_swizzle.ncu.system import System
from ncu_swizzle.texts import one_line

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
    on_progress: Callable[[float], None] = lambda percent: None,
    folder: Path | None = None,
    on_output: Callable[[str], None] = lambda text: None,
) -> tuple[str, ...]:
    """Profile the program, run in `folder` (the report's by default), and leave a complete report or none.

    Returns ncu's non-fatal warnings. If another profiler holds the counters, waits and retries (WAITS_S).
    `on_progress` gets the percentage of replay passes done over all launches, `on_output` what ncu and the program
    print. Raises the error that `diagnosis` makes of a failure.
    """
    for wait_s in (*WAITS_S, None):
        follow = _both(Progress(on_progress, options.launch_count).feed, on_output)
        command = _Command(ncu, tuple(program), options, folder or report.parent, environment)
        log, error = _attempt(command, report, timeout_s, follow)
        if error is None:
            return diagnosis.notes(log)
        if wait_s is None or not diagnosis.busy(log):
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


@dataclass(frozen=True)
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
            raise diagnosis.hung(error) from error
        failure = _judge(export, ended)
        if failure is None:
            export.replace(report)
        return ended.log, failure


def _judge(export: Path, ended: child.Exit) -> NcuSwizzleError | None:
    """Return why ncu left no usable report, or None; its exit code alone is not enough to tell."""
    state = state_around(export)
    if ended.status or state.report_bytes is None:
        return diagnosis.diagnose(ended.log, ended.status, state)
    from ncu_swizzle.ncurep import container  # loaded while ncu measures, see `jobs.warm_up`

    try:
        results = container.inspect(export).results
    except NcuSwizzleError as error:
        return diagnosis.half_written(str(error.__cause__ or error), ended.log, state)
    return None if results else diagnosis.nothing_profiled(ended.log, state)


def state_around(export: Path, system: System | None = None) -> State:
    """Return what may explain a failure besides ncu's output."""
    system = system or System()
    home = system.environment.get("HOME", "")
    return State(
        free_bytes=system.free_bytes(export.parent),
        home_writable=bool(home) and system.writable(home),
        lock=installed.foreign_lock(system),
        report_bytes=export.stat().st_size if export.is_file() else None,
    )
