"""The command that collects what a report lacks."""

import dataclasses
import shlex

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


def test_the_program_is_found_behind_ncu_s_options() -> None:
    for command, program in {
        "/opt/ncu/ncu --set basic -o x ./app --size 4096": "./app --size 4096",
        "ncu --set=full -f -o x -- python train.py -k 3": "python train.py -k 3",
        "ncu --nvtx --nvtx-include a/ -c 3 ./app": "./app",
        "ncu --nvtx --csv ./app -- --deep": "./app -- --deep",
        "ncu -o x": "",
        "ncu": "",
        "": "",
    }.items():
        assert remarks.split_command(command).program == program


def test_it_names_section_kernel_and_program() -> None:
    assert words("ncu --set basic -o x ./app --size 4096") == [
        *("ncu", "--section-folder", str(paths.rules()), "--section", "SwizzleConflicts"),
        *("--kernel-name-base", "mangled", "--kernel-name", "_ZN1a4softIfEEvPf", "--launch-count", "1"),
        *("--import-source", "yes", "--export", "complete", "--", "./app", "--size", "4096"),
    ]


def test_it_repeats_how_the_program_was_run_but_not_what_was_collected() -> None:
    collected = "--set full --metrics x -k soft -s 3 -c 9 -o y -f"
    repeated = words(f"ncu {collected} --clock-control none --nvtx --nvtx-include r/ ./app")
    assert not {word for word in collected.split() if word.startswith("-")} & set(repeated)
    assert repeated[5:10] == ["--clock-control", "none", "--nvtx", "--nvtx-include", "r/"]
    profile = dataclasses.replace(EMPTY, command="ncu --set basic -k regex:s.* -c 5 -o x ./app", kernel=FOREIGN)
    assert "-k 'regex:s.*' -c 5 --import-source yes" in remarks.command_for_all(profile), "of all kernels: filters too"


def test_a_later_launch_is_skipped_to_if_its_number_is_the_program_s() -> None:
    second = LaunchId(index=7, occurrence=2)
    assert "--launch-skip 2 --launch-count 1" in " ".join(words("ncu -k soft ./app", second))
    assert "--launch-skip" not in words("ncu -k soft -s 4 ./app", second)


def test_a_long_mangled_name_gives_way_to_the_function_s() -> None:
    long = dataclasses.replace(FOREIGN, mangled="_Z" + "x" * 500)
    assert words("ncu ./app", kernel=long)[5:7] == ["--kernel-name", "soft"]
    assert words("", kernel=KernelId(name="odd name", function="odd name"))[-2:] == ["--", "PROGRAM"]


def test_the_kernels_of_a_range_are_replayed_one_by_one() -> None:
    replayed = words("ncu --replay-mode app-range --target-processes all ./app", LaunchId(workload="range"))
    assert not {"--replay-mode", "--kernel-name"} & set(replayed)
    assert "--target-processes" in replayed


def test_a_recording_s_own_command_can_be_repeated(recorded: Recorded) -> None:
    command = remarks.command(recorded("kernel2"))
    assert "--profile-from-start off" in command
    assert command.split(" -- ")[1].startswith("python3")
    assert command.endswith(" kernel2")


@given(st.text(), st.text(), st.text())
def test_any_report_gets_a_command(command: str, function: str, mangled: str) -> None:
    kernel = KernelId(name=function, function=function, mangled=mangled)
    profile = dataclasses.replace(EMPTY, command=command, kernel=kernel)
    assert remarks.SECTION in remarks.command(profile)
    assert remarks.SECTION in remarks.command_for_all(profile)
