"""Reports of programs, recorded on an H100 with any section set; the command that collects what one lacks."""

import dataclasses
import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncu_swizzle.base.traffic import METRICS, Traffic
from ncu_swizzle.render import findings, formats
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import container, reader, remarks
from ncu_swizzle.reports.model import KernelId, LaunchId, Profile
from tests.support.pages import Page
from tests.support.places import PROGRAMS
from tests.support.recordings import Recorded
from tests.support.reports import EMPTY, reopened, shown

REPORTS = sorted(PROGRAMS.glob("*.ncu-rep"))
NEUTRAL = ("/tmp/ncu-swizzle-programs/", "/opt/nvidia/nsight-compute/", "/usr/local/cuda")


def read(name: str) -> list[Profile]:
    return reader.read(PROGRAMS / f"{name}.ncu-rep")


@pytest.mark.long
@pytest.mark.parametrize("file", REPORTS, ids=lambda file: file.stem)
def test_it_is_shown_and_what_it_lacks_is_named(file: Path) -> None:
    result = reopened(file.stem)
    page = Page(report.render_all(result.comparisons, result.notes, result.title))
    json.loads(formats.to_json(result))
    assert max(map(len, shown(result).splitlines())) <= 80
    lacking = {name for one in result.comparisons for profile in one.profiles for name in profile.missing}
    assert [name for name in lacking if name not in page.text] == []


def test_none_names_a_folder_but_the_neutral_one() -> None:
    assert REPORTS, "python3 bench/record_programs.py"
    for file in REPORTS:
        folders = [word for word in container.inspect(file).command.split() if word.startswith("/")]
        assert [folder for folder in folders if not folder.startswith(NEUTRAL)] == [], file


def test_a_program_s_launches_are_told_apart() -> None:
    """How they are listed, and what a report lacks, is in tests/data/shown."""
    profiles = read("several")
    assert [(one.kernel.name, one.launch.index, one.launch.occurrence) for one in profiles] == [
        ("turn", 0, 0), ("turn", 1, 1), ("turn", 2, 2), ("turn", 3, 0), ("rowsum", 4, 0), ("scale", 5, 0),
    ]  # fmt: skip
    assert [one.launch.grid for one in profiles] == [one.grid for one in profiles]
    assert [read(name)[0].launch.workload for name in ("basic", "range", "graph")] == ["kernel", "range", "graph"]


def test_source_counters_have_threads_sectors_and_tags() -> None:
    first, *_, scaled = read("source-counters")
    ours = Traffic.total(instruction.traffic for instruction in first.instructions)
    assert {name: first.number(METRICS[name]) for name in ours.known} == ours.known
    loads = [instruction.traffic for instruction in scaled.instructions if instruction.opcode.startswith("LDG")]
    assert [(load.sectors, load.ideal, load.tags, load.excessive) for load in loads] == [(64, 64, 16, 0)]
    assert Profile.from_json(first.to_json()) == first
    assert read("several")[0].instructions[0].traffic == Traffic(), "not collected"


def test_what_ncu_s_own_rules_said_is_readable() -> None:
    first = reopened("source-counters").comparison
    ((_, finding), *_) = findings.foreign(first)
    assert (finding.rule, finding.kind) == ("UncoalescedSharedAccess", "optimization")
    message = findings.plain(finding.message)
    assert "The CUDA Best Practices Guide (https://docs.nvidia.com/cuda/" in message
    assert "@" not in message
    assert message in Page(report.render(first)).text
    links = "See @section:Occupancy:Occupancy@, @sass:4096:LDS@ at @source:/a b.cu:7:b.cu:7@; a@b stays."
    assert findings.plain(links) == "See Occupancy, LDS at b.cu:7; a@b stays."


FOREIGN = KernelId(name="soft", function="void a::soft<float>(float *)", mangled="_ZN1a4softIfEEvPf")
MANGLED = ["--kernel-name-base", "mangled", "-k", FOREIGN.mangled]


def words(profile: Profile) -> list[str]:
    """Return what collects the rest, behind ncu-swizzle profile and before the program."""
    first, command, *rest = shlex.split(remarks.command(profile))
    assert (first, command) == ("ncu-swizzle", "profile")
    return rest[:-2] if rest[-2:] == ["--", "PROGRAM"] else rest


def test_what_collects_the_rest_names_the_very_launch(recorded: Recorded) -> None:
    launched = dataclasses.replace(EMPTY, kernel=FOREIGN)
    assert words(launched) == [*MANGLED, "-c", "1"]
    later = dataclasses.replace(launched, launch=LaunchId(index=7, occurrence=2))
    assert words(later) == [*MANGLED, "-s", "2", "-c", "1"]
    unmangled = dataclasses.replace(FOREIGN, mangled="")
    assert words(dataclasses.replace(launched, kernel=unmangled)) == ["-k", "soft", "-c", "1"]
    assert words(dataclasses.replace(launched, launch=LaunchId(workload="range"))) == []
    assert words(recorded("kernel2")) == ["kernel2"]


@settings(max_examples=25)
@given(st.text(), st.text())
def test_any_report_gets_a_command(function: str, mangled: str) -> None:
    kernel = KernelId(name=function, function=function, mangled=mangled)
    assert "-k" in words(dataclasses.replace(EMPTY, kernel=kernel))
