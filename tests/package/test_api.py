"""The functions of `ncu_swizzle`: for notebooks, scripts and tests."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ncu_swizzle
from ncu_swizzle import Profile
from ncu_swizzle.base.errors import BadFile, DamagedFile, GateFailed, NotComparable, UnknownKernel, UsageError
from ncu_swizzle.commands import lint, profile, sweep
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import frames
from ncu_swizzle.sweep.options import FleetOptions
from tests.support.documentation import DOCS, snippets
from tests.support.imports import HEAVY, imported_by
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import EXAMPLE
from tests.support.places import DATA
from tests.support.recordings import Recorded

# ---------------------------------------------------------------------------------------------- the package


def test_the_import_alone_loads_nothing() -> None:
    loaded = imported_by("import ncu_swizzle")
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("ncu_swizzle")} == {"ncu_swizzle"}


def test_everything_that_is_offered_is_there() -> None:
    for name in ncu_swizzle.__all__:
        assert callable(getattr(ncu_swizzle, name))
        assert name in dir(ncu_swizzle)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ncu_swizzle.nonsense


# ---------------------------------------------------------------------------------------------- functions


def test_profile_is_the_main_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[str] = []
    found = ncu_swizzle.profile(
        "kernel2", engine="recorded", reference="none", on_progress=lambda kernel, percent: seen.append(kernel)
    )
    assert found.profile == recorded("kernel2")
    assert [one.kernel.name for one in found.profiles] == ["kernel1", "kernel2"]
    assert found.verdict == found.comparison.verdict
    assert (found.engine, found.folder) == ("recorded", None)
    assert found.html().startswith("<!DOCTYPE html>")
    assert "kernel2 removes all 1,886,388,224" in found._repr_html_()
    assert list(tmp_path.iterdir()) == [], "nothing is kept unasked"


@pytest.mark.long
def test_a_run_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "out"
    how = {"engine": "recorded", "baseline": "none", "reference": "none", "export": place}
    found = ncu_swizzle.profile("kernel2", **how)
    assert found.folder == place
    assert (place / "report.html").is_file()
    assert ncu_swizzle.read(place)[0] == found.profile
    with pytest.raises(ncu_swizzle.NcuSwizzleError, match="already holds"):
        ncu_swizzle.profile("kernel2", **how)
    ncu_swizzle.profile("kernel2", **how, overwrite=True)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"engine": "recordet"}, "unknown engine 'recordet', did you mean 'recorded'?"),
        ({"clock_controll": "base"}, "unknown option 'clock_controll', did you mean 'clock_control'?"),
        ({"engine": "recorded", "problem": {"seq": 100}}, "seq=100 is not supported: it must be a multiple of 64"),
    ],
)
def test_mistakes_say_what_to_type(how: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        ncu_swizzle.profile("kernel2", **how)
    assert said in str(caught.value)
    assert caught.value.hint


def test_options_of_ncu_go_to_ncu() -> None:
    with pytest.raises(ncu_swizzle.NcuSwizzleError, match="/nowhere is not an executable"):
        ncu_swizzle.profile("kernel2", engine="ncu", ncu=Path("/nowhere"), clock_control="base", extra=("-v",))


PRINTED = {"context", "json", "csv", "markdown", "junit", "sarif", "github"}  # formats; an answer has methods
RENAMED = {"timeout_s": "timeout", "force_overwrite": "overwrite", "pair": "pairs", "kernels": "kernel"}


@pytest.mark.parametrize(
    ("functions", "command", "elsewhere"),
    [
        # Several kernels are several calls; what is captured is written by the command alone.
        (
            (ncu_swizzle.profile, ncu_swizzle.profile_program),
            profile.profile,
            {*vars(FleetOptions()), "capture", "ncu_args"},
        ),
        ((ncu_swizzle.lint,), lint.lint, set()),
        ((ncu_swizzle.profile_sweep,), sweep.sweep, {"kernel"}),
    ],
)
def test_functions_take_what_the_commands_take(
    functions: Sequence[Callable[..., Any]], command: Callable[..., Any], elsewhere: set[str]
) -> None:
    keywords = {name for function in functions for name in inspect.signature(function).parameters}
    options = {RENAMED.get(name, name) for name in inspect.signature(command).parameters}
    assert options - PRINTED - elsewhere <= keywords
    for function in functions:
        with pytest.raises(UsageError, match="unknown option 'no_such'"):
            function("kernel2", no_such=1, **({"problem": {}} if function is ncu_swizzle.profile_sweep else {}))


def test_a_sweep_can_be_planned_alone() -> None:
    swept = ncu_swizzle.profile_sweep("transpose-xor", problem={"n": [64, 128]}, engine="emulated", dry_run=True)
    assert (len(swept.outcomes), len(swept.done), swept.folder) == (2, 0, None)


def test_captured_launches_are_a_program() -> None:
    file = DATA / "launches" / "counting.launches"
    replayed = ncu_swizzle.profile_program(str(file), launch_count=1)
    assert [one.engine for one in replayed.profiles] == ["emulated"]
    with pytest.raises(UsageError, match="--rebuild is for launches files"):
        ncu_swizzle.profile_program("./app", rebuild="nvcc app.cu")


def test_options_are_taken_as_the_commands_have_them(tmp_path: Path) -> None:
    with pytest.raises(ncu_swizzle.NcuSwizzleError, match="nowhere/nvcc is not"):
        ncu_swizzle.profile(EXAMPLE / "my.cu", **OWN, nvcc="/nowhere/nvcc", exhaustive=True)
    with pytest.raises(UsageError, match="exclude each other"):
        ncu_swizzle.lint("my.cu", workers=2, scheduler="tcp://nowhere:1")
    with pytest.raises(UsageError, match="--rebuild is for launches files"):
        ncu_swizzle.lint("my.cu", rebuild="nvcc my.cu")
    swept = ncu_swizzle.profile_sweep("transpose-xor", problem={"n": 64}, engine="emulated", export=tmp_path / "s")
    again = ncu_swizzle.profile_sweep(
        "transpose-xor", problem={"n": 64}, engine="emulated", export=tmp_path / "s", resume=True
    )
    assert (len(swept.done), again.outcomes[0].kept) == (1, True)


# ---------------------------------------------------------------------------------------------- their own kernels

OWN: dict[str, Any] = {
    "entry": "transpose", "grid": "n//32,n//32", "block": (32, 8), "problem": {"n": 64},
    "args": ["x=float32[n,n]:random", "y=float32[n,n]:out", "n=int32:n"],
    "reference": "none", "engine": "emulated", "config": "none",
}  # fmt: skip


@pytest.mark.long
@NEEDS_ALL
def test_a_source_is_profiled_in_two_ways() -> None:
    found = ncu_swizzle.profile(EXAMPLE / "my.cu", **OWN, before="-DSWIZZLE=0", after=["-DSWIZZLE=1"])
    assert [one.accesses["LDS"].degree for one in found.profiles] == [32, 1]
    assert found.profile is found.profiles[1]
    assert "removes all" in found.verdict
    defined = ncu_swizzle.profile(EXAMPLE / "my.cu", **OWN, define="SWIZZLE=1")
    assert defined.profile.accesses["LDS"].degree == 1


@pytest.mark.long
@NEEDS_ALL
def test_kernels_of_a_project_and_of_a_catalogue_go_by_their_names(tmp_path: Path) -> None:
    how: dict[str, Any] = {"engine": "emulated", "reference": "none"}
    project = ncu_swizzle.profile("tile-swizzled", config=str(EXAMPLE / "ncu-swizzle.toml"), problem={"n": 64}, **how)
    assert project.profile.accesses["LDS"].degree == 1
    family = tmp_path / "mine"
    shutil.copytree(DATA / "stress" / "rotate", family)
    known = catalog.load(tmp_path)
    (kernel,) = known.families[0].kernels
    assert ncu_swizzle.profile(kernel.name, catalog=[tmp_path], **how).profile.kernel.name == kernel.name


@pytest.mark.long
@NEEDS_ALL
def test_a_projects_kernels_are_compared_and_checked_by_their_names() -> None:
    how: dict[str, Any] = {"engine": "emulated", "config": str(EXAMPLE / "ncu-swizzle.toml"), "problem": {"n": 64}}
    compared = ncu_swizzle.compare("tile-rowmajor", "tile-swizzled", **how)
    assert [one.accesses["LDS"].degree for one in compared.profiles] == [32, 1]
    assert ncu_swizzle.check("tile-swizzled", **how).outcome == "pass"
    with pytest.raises(GateFailed):
        ncu_swizzle.check("tile-rowmajor", **how)


def test_what_describes_a_source_is_an_option_too() -> None:
    with pytest.raises(UsageError, match=r"--grid describes a \.cu file, and kernel2 is not one"):
        ncu_swizzle.profile("kernel2", grid=(1,))
    with pytest.raises(UsageError, match="unknown option 'gird', did you mean 'grid'"):
        ncu_swizzle.profile(EXAMPLE / "my.cu", gird=(1,))


@pytest.mark.long
def test_a_program_has_many_profiles(stand_in: Path, tmp_path: Path) -> None:
    how: dict[str, Any] = {"engine": "ncu", "ncu": stand_in, "folder": tmp_path}
    found = ncu_swizzle.profile_program("sh -c true", kernel_name="regex:transpose", nvtx_include="step/", **how)
    assert [one.kernel.function for one in found.profiles] == ["transpose_plain", "transpose_xor", "tma_128"]
    assert len(found.comparisons) == 3
    assert found.folder is None
    assert set(found.to_frame()["profile"]) == {"transpose_plain", "transpose_xor", "tma_128"}
    assert "transpose_xor" in found.html()
    assert "transpose_xor" in found._repr_html_()
    kept = ncu_swizzle.profile_program(["sh", "-c", "true"], export=tmp_path / "old", **how)
    assert kept.folder == tmp_path / "old"
    paired = ncu_swizzle.profile_program("sh -c true", baseline=tmp_path / "old", pairs="0=1", **how)
    assert {len(one.profiles) for one in paired.comparisons} == {1, 2}


@pytest.mark.parametrize(
    ("program", "how", "said"),
    [
        ("", {}, "no program follows"),
        ("./nowhere", {}, "nowhere is not an executable"),
        ("sh -c true", {"kernel_nam": "x"}, "unknown option 'kernel_nam', did you mean 'kernel_name'"),
        ("sh -c true", {"pairs": "x"}, "--pair x is not of the form A=B"),
        ("sh -c true", {"baseline": "nowhere"}, "--baseline nowhere does not exist"),
    ],
)
def test_mistakes_about_programs_are_told(program: str, how: dict[str, Any], said: str, stand_in: Path) -> None:
    with pytest.raises(UsageError) as caught:
        ncu_swizzle.profile_program(program, engine="ncu", ncu=stand_in, **how)
    assert said in str(caught.value)


# ---------------------------------------------------------------------------------------------- what is saved


def test_read_takes_whatever_holds_profiles(run: Path, report_file: Path, recorded: Recorded) -> None:
    assert list(ncu_swizzle.read(str(report_file))) == [recorded("kernel2")]
    assert ncu_swizzle.read(run / "kernel1.json")[0] == recorded("kernel1")
    both = ncu_swizzle.read(run)
    assert both == ncu_swizzle.Profiles([recorded("kernel1"), recorded("kernel2")])
    assert both["kernel1"] is both[0]
    assert both[-1:] == ncu_swizzle.Profiles([both["kernel2"]])
    assert repr(both) == "Profiles(kernel1, kernel2)"
    assert len(both.to_frame()) == len(both[0].accesses) + len(both[1].accesses)
    with pytest.raises(UnknownKernel, match="no profile of 'kernel9'"):
        _ = both["kernel9"]
    with pytest.raises(UsageError, match="2 profiles are of 'kernel1'"):
        _ = ncu_swizzle.Profiles([both[0], both[0]])["kernel1"]


def test_read_takes_no_names_and_no_ruins(tmp_path: Path, recorded: Recorded) -> None:
    for path in ("kernel1", tmp_path / "no.json"):
        with pytest.raises(BadFile, match="does not exist"):
            ncu_swizzle.read(path)
    ruin = tmp_path / "half.json"
    ruin.write_text(recorded("kernel1").to_json()[:1000], encoding="utf-8")
    for read in (ncu_swizzle.read, Profile.load):
        with pytest.raises(DamagedFile):
            read(ruin)


@pytest.mark.long
def test_compare_takes_names_files_profiles_and_results(run: Path, recorded: Recorded) -> None:
    first = ncu_swizzle.profile("kernel2", engine="recorded", reference="none")
    found = ncu_swizzle.compare("kernel1", run, first, recorded("kernel1"), first.profiles, engine="recorded")
    assert [one.kernel.name for one in found.profiles] == [
        "kernel1",
        "kernel2",
        "kernel2",
        "kernel1",
        "kernel1",
        "kernel2",
    ]
    assert ncu_swizzle.compare(run).labels == ("kernel1", "kernel2"), "alone, a run is all that is in it"
    assert ncu_swizzle.compare(first).labels == ("kernel1", "kernel2")
    with pytest.raises(NotComparable):
        ncu_swizzle.compare()


@pytest.mark.long
def test_report_is_the_page_of_the_command_line(run: Path, tmp_path: Path) -> None:
    place = tmp_path / "deep" / "page.html"
    text = ncu_swizzle.report(run, out=place)
    assert place.read_text(encoding="utf-8") == text == ncu_swizzle.compare(run).html()
    ncu_swizzle.compare(run).to_html(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == text
    ncu_swizzle.read(run)[0].to_html(tmp_path / "one.html")
    assert "<title>kernel1 · ncu-swizzle</title>" in (tmp_path / "one.html").read_text(encoding="utf-8")


def test_check_is_the_gate(run: Path, recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    assert ncu_swizzle.check(after, allow_recorded=True).outcome == "pass"
    with pytest.raises(NotComparable, match="recorded, not measured"):
        ncu_swizzle.check(after)
    with pytest.raises(GateFailed, match="1,886,388,224 excessive wavefronts"):
        ncu_swizzle.check(before, allow_recorded=True)
    assert ncu_swizzle.check(before, allow_recorded=True, raising=False).outcome == "fail"
    assert ncu_swizzle.check(run, max_degree=1, allow_recorded=True).outcome == "pass", "a run is its kernel"
    limits = {"max_degree": ["LDS=1", "kernel1:LDSM=8"], "max_excessive": "STS=3670016"}
    assert ncu_swizzle.check(before, after, **limits, allow_recorded=True).outcome == "pass"
    assert (
        ncu_swizzle.check(before, kernel_name="kernel2", raising=False, allow_recorded=True).outcome == "inconclusive"
    )
    chosen = ncu_swizzle.check(before, after, kernel_name="regex:nel2$", raising=False, allow_recorded=True)
    assert (chosen.outcome, {check.kernel for check in chosen.checks}) == ("pass", {"kernel2"})
    with pytest.raises(UsageError, match="kernel_name: '\\(' is not a valid regular expression"):
        ncu_swizzle.check(after, kernel_name="regex:(")
    with pytest.raises(UsageError, match="unknown access kind"):
        ncu_swizzle.check(after, max_degree="LDMS=1")
    with pytest.raises(UsageError, match="needs a baseline"):
        ncu_swizzle.check(after, max_regression=5)
    with pytest.raises(BadFile):
        ncu_swizzle.check(after, baseline="no.json")


@pytest.mark.long
@NEEDS_ALL
def test_the_documented_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLE, tmp_path / "examples" / "own-kernel")
    names: dict[str, Any] = {}
    for snippet in [one for one in snippets() if "def test_" not in one]:
        exec(compile(snippet, str(DOCS), "exec"), names)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["after.json", "examples", "page.html"]
    assert [one.accesses["LDS"].degree for one in names["mine"].profiles] == [32, 1]


def test_the_documented_columns_are_those_of_the_tables() -> None:
    text = DOCS.read_text(encoding="utf-8")
    shown = re.search(r"<!-- columns: .*?-->\n(.*?)<!-- end of columns -->", text, re.DOTALL)
    assert shown
    rows = []
    for kind, columns in frames.COLUMNS.items():
        for number, column in enumerate(columns):
            cells = (kind if number == 0 else "", f"`{column.name}`", column.unit, column.meaning)
            rows.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    assert shown[1].splitlines()[2:] == rows


# ---------------------------------------------------------------------------------------------- own kernels


TYPED_ARGS = ("x=float32[n,n]:random", "y=float32[n,n]:out", "n=int32:n")
MINE = {"engine": "emulated", "config": "none", "problem": {"n": 64}, "args": TYPED_ARGS}


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize(("grid", "block"), [((2, 2), (32, 8)), ("n//32,n//32", "32,8"), (["n//32", 2], "32, n//8")])
def test_grid_and_block_take_any_spelling(grid: Any, block: Any) -> None:
    result = ncu_swizzle.profile(EXAMPLE / "my.cu", grid=grid, block=block, **MINE)
    assert (result.profile.grid, result.profile.block) == ((2, 2, 1), (32, 8, 1))


@pytest.mark.long
@NEEDS_ALL
def test_a_plain_number_is_a_grid_or_a_block(tmp_path: Path) -> None:
    (tmp_path / "flat.cu").write_text(
        "__global__ void prescan(float* y) { __shared__ float s[512]; s[threadIdx.x] = y[threadIdx.x];"
        " __syncthreads(); y[threadIdx.x] = s[511 - threadIdx.x]; }"
    )
    how = {"engine": "emulated", "config": "none", "args": "y=float32[512]:zeros:out"}
    profile = ncu_swizzle.profile(tmp_path / "flat.cu", entry="prescan", grid=128, block=np.int64(512), **how).profile
    assert (profile.grid, profile.block) == ((128, 1, 1), (512, 1, 1))


@pytest.mark.long
@NEEDS_ALL
def test_a_binary_takes_what_a_source_takes(tmp_path: Path) -> None:
    nvcc = str(Toolchain().find("nvcc"))
    cubin = tmp_path / "my.cubin"
    command = [nvcc, "-cubin", "-arch=sm_90", "-lineinfo", "-DSWIZZLE=0", "-o", str(cubin), str(EXAMPLE / "my.cu")]
    subprocess.run(command, check=True)
    matrix = np.zeros((64, 64), np.float32)
    described = ncu_swizzle.profile_binary(
        cubin, entry="transpose", grid="n//32,n//32", block=(32, "n//8"), problem={"n": 64}, args=TYPED_ARGS
    )
    for number in (64, np.int32(64), (64).to_bytes(4, "little")):
        given = ncu_swizzle.profile_binary(cubin, grid=(2, 2), block=(32, 8), parameters=[matrix, matrix, number])
        assert given.accesses == described.accesses
    assert described.accesses["LDS"].degree == 32
    with pytest.raises(UsageError, match="does not fit in a parameter of 4 bytes"):
        ncu_swizzle.profile_binary(cubin, grid=2, block=32, parameters=[matrix, matrix, 1 << 40])
    with pytest.raises(UsageError, match="both describe the arguments"):
        ncu_swizzle.profile_binary(cubin, grid=2, block=32, args=TYPED_ARGS, parameters=[matrix], problem={"n": 64})
    with pytest.raises(UsageError, match="the arguments do not fit"):
        ncu_swizzle.profile_binary(cubin, grid=2, block=32, args=TYPED_ARGS[:2], problem={"n": 64})
