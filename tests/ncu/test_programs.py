"""ncu's command line for a program, its progress, and the program's own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.commands import profile as command
from ncu_swizzle.errors import UsageError
from ncu_swizzle.jobs import profile_program
from ncu_swizzle.ncu import options as options_
from ncu_swizzle.ncu import profiler
from ncu_swizzle.ncu import progress as progress_
from ncu_swizzle.ncu.options import Launches


def test_ncu_gets_its_own_options() -> None:
    launches = Launches.from_options(
        kernel_name="regex:soft", kernel_name_base="demangled", launch_skip=2, nvtx=False,
        nvtx_include=["a/", "b/"], filter_mode="per-launch-config", target_processes_filter="",
    )  # fmt: skip
    line = profiler.argv(
        Path("ncu"), "r.ncu-rep", ["./app", "-x"], options_.Options(launch_count=32, launches=launches)
    )
    assert line[1:14] == [
        *("--kernel-name", "regex:soft", "--kernel-name-base", "demangled", "--launch-skip", "2"),
        *("--filter-mode", "per-launch-config", "--nvtx-include", "a/", "--nvtx-include", "b/", "--nvtx"),
    ]
    assert line[-3:] == ["--", "./app", "-x"]
    assert Launches(nvtx=True, nvtx_include=("a",)).argv() == ["--nvtx", "--nvtx-include", "a"]
    assert Launches().argv() == []


def test_progress_counts_launches() -> None:
    seen: list[float] = []
    progress = progress_.Progress(seen.append, 4)
    progress.feed('==PROF== Profiling "a" - 0: 0%....50%....100% - 6 passes\n==PROF== Profiling "b: c" - 1: 0%....50%')
    assert seen == [37.5]


def test_the_program_s_words_are_told_from_ncu_s() -> None:
    log = "==PROF== Connected to process 1 (/x)\none\n==WARNING== Note\ntwo == three\n==PROF== Disconnected"
    assert profile_program.own_words(log) == "one\ntwo == three\n"
    with pytest.raises(UsageError):
        command._words(["'"])
