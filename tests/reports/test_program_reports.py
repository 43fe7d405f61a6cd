"""Recordings from an H100: of the catalogue, and of programs with any section set; no foreign folder is in them."""

import dataclasses
import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncu_swizzle.base import paths, validate
from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.base.traffic import METRICS, Traffic
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.engines import reader
from ncu_swizzle.kernels import catalog, toolchain
from ncu_swizzle.kernels.toolchain import ARCH, NVCC, Toolchain
from ncu_swizzle.render import formats, summary
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import container, remarks
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
    assert REPORTS, "python3 bench/recording/record_programs.py"
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
    ((_, finding), *_) = summary.foreign(first)
    assert (finding.rule, finding.kind) == ("UncoalescedSharedAccess", "optimization")
    message = summary.plain(finding.message)
    assert "The CUDA Best Practices Guide (https://docs.nvidia.com/cuda/" in message
    assert "@" not in message
    assert message in Page(report.render(first)).text
    links = "See @section:Occupancy:Occupancy@, @sass:4096:LDS@ at @source:/a b.cu:7:b.cu:7@; a@b stays."
    assert summary.plain(links) == "See Occupancy, LDS at b.cu:7; a@b stays."


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


SHIPPED = catalog.shipped()
OWN = [(family, kernel) for family, kernel in SHIPPED.run() if not kernel.library]
OUR_FOLDERS = ("/tmp/ncu-swizzle/", "/opt/nvidia/nsight-compute/")
INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*")


@pytest.mark.long
@pytest.mark.xdist_group("recordings")  # all are read once, by one worker
def test_every_recording_has_the_catalogue_s_degrees_few_passes_and_no_foreign_folder(recorded: Recorded) -> None:
    for _, kernel in SHIPPED.run():
        profile = recorded(kernel.name)
        counted = {access: total.degree for access, total in profile.accesses.items() if total.wavefronts}
        assert kernel.library or counted == dict(kernel.degree), kernel.name
        passes = profile.number("profiler__replayer_passes")
        assert passes is not None
        assert passes <= 6, kernel.name
        folders = [word for word in profile.command.split() if word.startswith("/")]
        assert [folder for folder in folders if not folder.startswith(OUR_FOLDERS)] == [], kernel.name


@pytest.mark.xdist_group("recordings")
def test_the_machine_the_check_and_the_sources_are_known(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    machine = profile.machine
    assert (machine.gpu, machine.compute_capability, machine.sm_count) == ("NVIDIA H100 80GB HBM3", "9.0", 132)
    assert (machine.driver, machine.clock_control, profile.engine) == ("580.159.04", "none", "recorded")
    assert (profile.grid, profile.block) == ((64, 16, 4), (128, 1, 1))
    assert 0 < profile.errors["o"] < 1e-2
    assert validate.mismatch(profile) == "", "it has the shape that its classes declare"
    files = {file for instruction in profile.instructions for file, _ in instruction.stack}
    assert files >= {"kernels/attention/attention.cuh", "kernels/attention/2_swizzled.cu", "kernels/common/ptx.cuh"}
    assert not [file for file in files if file.startswith("/tmp")]
    assert files & profile.sources.keys()


def test_recordings_are_small() -> None:
    sizes = {report.stem: report.stat().st_size for report in paths.recordings().glob("*/*/*.ncu-rep")}
    assert set(sizes) == {kernel.name for _, kernel in SHIPPED.run()}
    assert sum(sizes.values()) < 16e6
    # A library's report holds all kernels of the module that it was loaded from.
    assert not {name for name, size in sizes.items() if size > 1e6} & {kernel.name for _, kernel in OWN}


def source_seen(sources: Mapping[str, str], entry: str) -> str:
    """Return the file that defines the entry, what it includes in place: without comments, and whatever their names."""
    by_name = {Path(path).name: text for path, text in sources.items()}

    def with_headers(text: str) -> str:
        return INCLUDE.sub(lambda found: with_headers(by_name[found[1]]) if found[1] in by_name else found[0], text)

    (own,) = [text for path, text in sources.items() if path.endswith(".cu") and f" {entry}(" in text]
    return " ".join(COMMENT.sub(" ", with_headers(own)).split())


@pytest.mark.long
def test_the_recorded_sources_are_today_s_or_compiled_to_compare(recorded: Recorded) -> None:
    others = {
        kernel.name
        for family, kernel in OWN
        if source_seen(recorded(kernel.name).sources, kernel.entry) != source_seen(family.source_texts(), kernel.entry)
    }
    assert others == set(COMPILED), "make record, on a GPU machine; or compare what today's source compiles to"


COMPILED = (
    "cute-8x8-plain", "cute-8x8-swizzled", "cute-128x32-plain", "cute-128x32-swizzled", "cute-columns-plain",
    "cute-columns-half", "cute-columns-swizzled",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name == COMPILED[0] else pytest.mark.slow) for name in COMPILED],
)
def test_today_s_source_compiles_to_the_recorded_instructions(
    name: str, recorded: Recorded, recorded_file: Callable[[str], Path]
) -> None:
    (family, kernel), tools = SHIPPED.named(name), Toolchain()
    if lacking := tools.lacking(NVCC):
        pytest.skip(lacking)
    if tools.version() != recorded(name).machine.cuda:
        pytest.skip(f"recorded with nvcc {recorded(name).machine.cuda}, this one is {tools.version()}")
    try:
        code = toolchain.cubin(family, kernel, ARCH, tools)
    except EnvironmentLacking as headers:
        pytest.skip(str(headers))
    (result,) = container.inspect(recorded_file(name)).results
    today, then = (Cubin(cubin, name).section(f".text.{result.function}") for cubin in (code, result.cubin))
    assert today
    assert today == then, "make record, on a GPU machine"
