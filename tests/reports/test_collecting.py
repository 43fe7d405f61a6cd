"""The command that collects what a report lacks."""

from __future__ import annotations

import dataclasses
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base import paths
from ncu_swizzle.reports import remarks
from ncu_swizzle.reports.model import KernelId, LaunchId
from tests.support.recordings import Recorded
from tests.support.reports import EMPTY

FOREIGN = KernelId(name="soft", function="void a::soft<float>(float *)", mangled="_ZN1a4softIfEEvPf")


FIRST = LaunchId()


def words(command: str, launch: LaunchId = FIRST, kernel: KernelId = FOREIGN) -> list[str]:
    profile = dataclasses.replace(EMPTY, command=command, launch=launch, kernel=kernel)
    return shlex.split(remarks.command(profile))


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("/opt/ncu/ncu --set basic -o x ./app --size 4096", "./app --size 4096"),
        ("ncu --set=full -f -o x -- python train.py -k 3", "python train.py -k 3"),
        ("ncu --nvtx --nvtx-include a/ -c 3 ./app", "./app"),
        ("ncu --nvtx --csv ./app -- --deep", "./app -- --deep"),
        ("ncu -o x", ""),
        ("ncu", ""),
        ("", ""),
    ],
)
def test_the_program_is_found_behind_ncu_s_options(command: str, program: str) -> None:
    assert remarks.split_command(command).program == program


def test_it_names_section_kernel_and_program() -> None:
    assert words("ncu --set basic -o x ./app --size 4096") == [
        *("ncu", "--section-folder", str(paths.rules()), "--section", "SwizzleConflicts"),
        *("--kernel-name-base", "mangled", "--kernel-name", "_ZN1a4softIfEEvPf", "--launch-count", "1"),
        *("--import-source", "yes", "--export", "complete", "--", "./app", "--size", "4096"),
    ]


def test_it_repeats_how_the_program_was_run_but_not_what_was_collected() -> None:
    said = words(
        "ncu --set full --metrics x -k soft -s 3 -c 9 --clock-control none --nvtx --nvtx-include r/ -o y -f ./app"
    )
    for option in ("--set", "--metrics", "-k", "-s", "-c", "-o", "-f"):
        assert option not in said
    assert said[5:10] == ["--clock-control", "none", "--nvtx", "--nvtx-include", "r/"]


def test_a_later_launch_is_skipped_to_where_its_number_is_the_program_s() -> None:
    second = LaunchId(index=7, occurrence=2)
    assert "--launch-skip 2 --launch-count 1" in " ".join(words("ncu -k soft ./app", second))
    assert "--launch-skip" not in words("ncu -k soft -s 4 ./app", second)


def test_a_long_mangled_name_gives_way_to_the_function_s() -> None:
    said = words("ncu ./app", kernel=dataclasses.replace(FOREIGN, mangled="_Z" + "x" * 500))
    assert said[5:7] == ["--kernel-name", "soft"]
    assert words("", kernel=KernelId(name="odd name", function="odd name"))[-2:] == ["--", "PROGRAM"]


def test_the_kernels_of_a_range_are_replayed_one_by_one() -> None:
    said = words("ncu --replay-mode app-range --target-processes all ./app", LaunchId(workload="range"))
    assert "--replay-mode" not in said
    assert "--kernel-name" not in said
    assert "--target-processes" in said


def test_the_command_for_all_keeps_the_filters() -> None:
    profile = dataclasses.replace(EMPTY, command="ncu --set basic -k regex:s.* -c 5 -o x ./app", kernel=FOREIGN)
    assert "-k 'regex:s.*' -c 5 --import-source yes" in remarks.command_for_all(profile)


def test_a_recording_s_own_command_can_be_repeated(recorded: Recorded) -> None:
    command = remarks.command(recorded("kernel2"))
    assert "--profile-from-start off" in command
    assert command.split(" -- ")[1].startswith("python3")
    assert command.endswith(" kernel2")


@given(st.text(), st.text(), st.text())
def test_any_report_gets_a_command(command: str, function: str, mangled: str) -> None:
    profile = dataclasses.replace(
        EMPTY, command=command, kernel=KernelId(name=function, function=function, mangled=mangled)
    )
    assert remarks.SECTION in remarks.command(profile)
    assert remarks.SECTION in remarks.command_for_all(profile)
