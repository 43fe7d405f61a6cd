"""Nsight Compute's command line: find it, call it, and explain how it failed."""

from __future__ import annotations

import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ncu_swizzle import child, container, failures, installed, paths
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, TimeLimit
from ncu_swizzle.failures import State
from ncu_swizzle.installed import Installed
from ncu_swizzle.system import System

SECTION = "SwizzleConflicts"
WAITS_S = (1.0, 2.0, 4.0)  # before each further try where somebody else held the counters

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """ncu's own options, by ncu's names; `extra` goes to ncu as it is.

    `metrics` are collected in place of our section, where any are named.
    """

    clock_control: str = "none"
    cache_control: str = "all"
    replay_mode: str = "kernel"
    launch_count: int = 1
    extra: tuple[str, ...] = ()
    metrics: str = ""


def find(given: Path | None = None, system: System | None = None) -> Path:
    """Return the ncu to use: the one given, or the newest of those on PATH, in CUDA toolkits and in /opt/nvidia."""
    if given is not None:
        if not (system or System()).executable(given):
            raise EnvironmentLacking(f"{given} is no program that can be run", "name ncu itself with --ncu")
        return given
    found = installed.newest(system) if system else _newest(*map(os.environ.get, ("PATH", *installed.TOOLKITS)))
    if found is None:
        raise EnvironmentLacking(
            "Nsight Compute (ncu) was not found on PATH, in the CUDA toolkit or in /opt/nvidia/nsight-compute",
            "install it, or name it with --ncu; --engine recorded needs none",
        )
    return found.path


@cache
def _newest(*variables: str | None) -> Installed | None:  # noqa: ARG001 - what the answer depends on
    return installed.newest(System())


def argv(ncu: Path, export: str, program: Sequence[str], options: Options) -> list[str]:
    """Return the command line that profiles the range between the program's profiler start and stop."""
    return [
        str(ncu),
        *("--profile-from-start", "off"),
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
) -> tuple[str, ...]:
    """Profile the program, run in the report's folder, and leave the whole report there, or nothing.

    Returns what ncu warned of although it went on. Where somebody else holds the counters it waits and tries again,
    WAITS_S long and as often. `on_progress` gets percent of the replay passes. Raises what `failures` makes of it.
    """
    for wait_s in (*WAITS_S, None):
        log, error = _attempt(ncu, program, report, options, timeout_s, environment, on_progress)
        if error is None:
            return failures.notes(log)
        if wait_s is None or not failures.busy(log):
            raise error
        _log.warning("%s; trying again in %g s", error, wait_s)
        time.sleep(wait_s)
    raise AssertionError("the last try returns or raises")


def _attempt(
    ncu: Path,
    program: Sequence[str],
    report: Path,
    options: Options,
    timeout_s: float,
    environment: Mapping[str, str] | None,
    on_progress: Callable[[float], None],
) -> tuple[str, NcuSwizzleError | None]:
    """Run ncu once; return what it printed, and why there is no report, where there is none."""
    with tempfile.TemporaryDirectory(dir=report.parent, prefix=".ncu-", ignore_cleanup_errors=True) as unfinished:
        export = Path(unfinished, report.name)
        command = argv(ncu, os.path.relpath(export, report.parent), program, options)
        try:
            outcome = child.run(command, timeout_s, report.parent, environment, Progress(on_progress).feed)
        except TimeLimit as error:
            raise failures.hung(error) from error
        failure = _judge(export, outcome)
        if failure is None:
            export.replace(report)
        return outcome.log, failure


def _judge(export: Path, outcome: child.Outcome) -> NcuSwizzleError | None:
    """Return why the report that ncu left is none, or None: its exit code alone does not tell."""
    state = state_around(export)
    if outcome.status or state.report_bytes is None:
        return failures.diagnose(outcome.log, outcome.status, state)
    try:
        results = container.inspect(export).results
    except NcuSwizzleError as error:
        return failures.half_written(str(error.__cause__ or error), outcome.log, state)
    return None if results else failures.nothing(outcome.log, state)


def state_around(export: Path, system: System | None = None) -> State:
    """Return what may explain a failure beside ncu's output."""
    system = system or System()
    home = system.environment.get("HOME", "")
    return State(
        free_bytes=system.free_bytes(export.parent),
        home_writable=bool(home) and system.writable(home),
        lock=installed.foreign_lock(system),
        report_bytes=export.stat().st_size if export.is_file() else None,
    )


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
