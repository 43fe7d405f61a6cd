"""The reports of programs that were recorded on an H100: read, listed and shown, whatever section set they are of."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from ncu_swizzle.commands import run_kernel
from ncu_swizzle.render import findings, formats
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import container, reader, remarks
from ncu_swizzle.reports.model import Profile
from tests.support.pages import Page
from tests.support.places import PROGRAMS
from tests.support.several import shown

REPORTS = sorted(PROGRAMS.glob("*.ncu-rep"))
FUNCTIONS = ["turn", "turn", "turn", "turn", "rowsum", "scale"]


pytestmark = pytest.mark.skipif(not REPORTS, reason="nothing is recorded: python3 tests/gpu/record_programs.py")


@cache
def read(name: str) -> list[Profile]:
    file = PROGRAMS / f"{name}.ncu-rep"
    if not file.is_file():
        pytest.skip(f"{name} is not recorded")
    return reader.read(file)


@pytest.mark.long
@pytest.mark.parametrize("file", REPORTS, ids=lambda file: file.stem)
def test_it_is_shown_and_what_it_lacks_is_named(file: Path) -> None:
    result = run_kernel.reopen([str(file)])
    page = Page(report.render_all(result.comparisons, result.notes, result.title))
    json.loads(formats.to_json(result))
    assert max(map(len, shown(result).splitlines())) <= 80
    missing = {name for one in result.comparisons for p in one.profiles for name in p.missing}
    for name in missing:
        assert name in page.text


@pytest.mark.parametrize("file", REPORTS, ids=lambda file: file.stem)
def test_it_names_no_folder_but_the_neutral_one(file: Path) -> None:
    for word in container.inspect(file).command.split():
        if word.startswith("/"):
            assert word.startswith(("/tmp/ncu-swizzle-programs/", "/opt/nvidia/nsight-compute/", "/usr/local/cuda"))


def test_a_program_s_kernels_are_told_apart() -> None:
    profiles = read("several")
    assert [one.kernel.name for one in profiles] == FUNCTIONS
    assert [one.launch.index for one in profiles] == list(range(6))
    assert [one.launch.occurrence for one in profiles] == [0, 1, 2, 0, 0, 0]
    assert [one.grid for one in profiles[:3]] == [(16, 16, 1), (8, 8, 1), (16, 16, 1)]
    assert [one.launch.grid for one in profiles] == [one.grid for one in profiles]
    assert [one.total.excessive for one in profiles[:3]] == [8192 * 31, 2048 * 31, 8192 * 31]
    result = run_kernel.reopen([str(PROGRAMS / "several.ncu-rep")])
    titles = [one.title for one in result.comparisons]
    assert titles == [
        "turn<float, 0> #1",
        "turn<float, 0> #2",
        "turn<float, 0> #3",
        "turn<double, 0>",
        "rowsum",
        "scale",
    ]


def test_the_padded_program_is_paired_with_the_plain_one() -> None:
    read("several")
    read("several-pad")
    result = run_kernel.reopen([str(PROGRAMS / f"{name}.ncu-rep") for name in ("several", "several-pad")])
    assert [len(one.profiles) for one in result.comparisons] == [2] * 6
    for one in result.comparisons[:3]:
        assert one.profiles[1].total.excessive == 0
    assert all(a.grid == b.grid for a, b in (one.profiles for one in result.comparisons))


@pytest.mark.parametrize(("name", "workload"), [("basic", "kernel"), ("range", "range"), ("graph", "graph")])
def test_other_section_sets_say_what_would_complete_them(name: str, workload: str) -> None:
    profiles = read(name)
    assert {one.launch.workload for one in profiles} == {workload}
    assert all(one.missing for one in profiles)
    command = remarks.command(profiles[-1])
    assert "./several --size 512" in command
    assert ("--kernel-name" in command) == (workload == "kernel")


def test_source_counters_have_all_that_is_needed() -> None:
    assert not any(one.missing for one in read("source-counters"))


def test_pytorch_s_histc_has_a_conflict() -> None:
    (profile,) = read("torch-histc")
    degree = profile.accesses["LDS"].degree
    assert degree is not None
    assert degree > 1.2


def test_triton_s_kernels_carry_python_lines() -> None:
    profiles = read("triton")
    assert len(profiles) == 2
    assert any(i.file.endswith("triton_program.py") for i in profiles[0].instructions)


def test_what_ncu_s_own_rules_said_is_readable() -> None:
    first = run_kernel.reopen([str(PROGRAMS / "source-counters.ncu-rep")]).comparison
    ((_, said), *_) = findings.foreign(first)
    assert (said.rule, said.kind) == ("UncoalescedSharedAccess", "optimization")
    message = findings.plain(said.message)
    assert "The CUDA Best Practices Guide (https://docs.nvidia.com/cuda/" in message
    assert "@" not in message
    assert message in Page(report.render(first)).text


def test_links_become_their_words() -> None:
    message = "See @section:Occupancy:Occupancy@, @sass:4096:LDS@ at @source:/a b.cu:7:b.cu:7@; a@b stays."
    assert findings.plain(message) == "See Occupancy, LDS at b.cu:7; a@b stays."
