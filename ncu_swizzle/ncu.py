"""Nsight Compute's command line: find it, call it, and explain how it failed."""

from __future__ import annotations

import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from ncu_swizzle import child, failures, installed, paths
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, TimeLimit
from ncu_swizzle.failures import State
from ncu_swizzle.installed import Installed
from ncu_swizzle.system import System
from ncu_swizzle.texts import listed

SECTION = "SwizzleConflicts"
WAITS_S = (1.0, 2.0, 4.0)  # before each further try where somebody else held the counters

_log = logging.getLogger(__name__)


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

    @classmethod
    def of(cls, **given: Any) -> Launches:
        """Return those that were given, by field; several texts come as any sequence, or one alone."""
        several = {one.name for one in fields(cls) if isinstance(one.default, tuple)}
        values: dict[str, Any] = {name: listed(one) if name in several else one for name, one in given.items() if one}
        return cls(**values)

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


# The range between the launching program's profiler start and stop; the compiler and git, which it calls, are let be.
CATALOGUE = Launches(profile_from_start="off", target_processes="application-only")


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
    launches: Launches = CATALOGUE


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
    """Return the command line that profiles the program, all with our section."""
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
    """Profile the program, run in `folder` (the report's by default), and leave the whole report, or nothing.

    Returns what ncu warned of although it went on. Where somebody else holds the counters it waits and tries again,
    WAITS_S long and as often. `on_progress` gets percent of the replay passes of all launches, `on_output` what ncu
    and the program print. Raises what `failures` makes of it.
    """
    for wait_s in (*WAITS_S, None):
        follow = _both(Progress(on_progress, options.launch_count).feed, on_output)
        command = _Command(ncu, tuple(program), options, folder or report.parent, environment)
        log, error = _attempt(command, report, timeout_s, follow)
        if error is None:
            return failures.notes(log)
        if wait_s is None or not failures.busy(log):
            raise error
        _log.warning("%s; trying again in %g s", error, wait_s)
        time.sleep(wait_s)
    raise AssertionError("the last try returns or raises")


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
    """Run ncu once; return what it printed, and why there is no report, where there is none."""
    with tempfile.TemporaryDirectory(dir=report.parent, prefix=".ncu-", ignore_cleanup_errors=True) as unfinished:
        export = Path(unfinished, report.name).absolute()
        words = argv(command.ncu, os.path.relpath(export, command.folder), command.program, command.options)
        try:
            outcome = child.run(words, timeout_s, command.folder, command.environment, on_output)
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
    from ncu_swizzle import container  # loaded while ncu measures, see `experiment`

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
