"""The functions of `ncu_swizzle`: for notebooks, scripts and tests."""

import inspect
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ncu_swizzle
from ncu_swizzle import Profile
from ncu_swizzle.base.errors import (
    BadFile,
    DamagedFile,
    GateFailed,
    NcuSwizzleError,
    NotComparable,
    UnknownKernel,
    UsageError,
)
from ncu_swizzle.commands import gate, groups, profile
from ncu_swizzle.engines.settings import FleetOptions
from ncu_swizzle.reports import frames
from tests.support.documentation import DOCS, snippets
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import EXAMPLE
from tests.support.places import DATA
from tests.support.recordings import Recorded, embedded

RECORDED: dict[str, Any] = {"engine": "recorded", "reference": "none"}
OWN: dict[str, Any] = {
    "entry": "transpose", "grid": "n//32,n//32", "block": (32, 8), "problem": {"n": 64},
    "args": ["x=float32[n,n]:random", "y=float32[n,n]:out", "n=int32:n"],
    "reference": "none", "engine": "emulated", "config": "none",
}  # fmt: skip

# ---------------------------------------------------------------------------------------------- the package


def test_everything_that_is_offered_is_there() -> None:
    for name in ncu_swizzle.__all__:
        assert callable(getattr(ncu_swizzle, name))
        assert name in dir(ncu_swizzle)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ncu_swizzle.nonsense


# Formats; an answer has methods.
PRINTED = {"context", "help_all", "json", "csv", "markdown", "junit", "sarif", "github"}
RENAMED = {**groups.RENAMED, "kernels": "kernel"}


def test_functions_take_what_the_commands_take() -> None:
    # Several kernels are several calls; the command alone writes what is captured, and takes times without ncu.
    not_of_python = {*vars(FleetOptions()), "capture", "ncu_args", "no_ncu", "repeats", "seed"}
    table: list[tuple[list[Callable[..., Any]], Callable[..., Any], set[str]]] = [
        ([ncu_swizzle.profile, ncu_swizzle.profile_program], profile.profile, not_of_python),
        ([ncu_swizzle.lint], gate.lint, set()),
        ([ncu_swizzle.profile_sweep], profile.sweep, {"kernel"}),
    ]
    for functions, command, elsewhere in table:
        keywords = {name for function in functions for name in inspect.signature(function).parameters}
        options = {RENAMED.get(name, name) for name in inspect.signature(command).parameters}
        assert options - PRINTED - elsewhere <= keywords
        for function in functions:
            sizes = {"problem": {}} if function is ncu_swizzle.profile_sweep else {}
            with pytest.raises(UsageError, match="unknown option 'no_such'"):
                function("kernel2", no_such=1, **sizes)


def test_mistakes_say_what_to_type(stand_in: Path) -> None:
    file = DATA / "launches" / "counting.launches"
    ncu: dict[str, Any] = {"engine": "ncu", "ncu": stand_in}
    table: list[tuple[Callable[..., Any], Any, dict[str, Any], str]] = [
        (ncu_swizzle.profile, "kernel2", {"engine": "recordet"}, "unknown engine 'recordet', did you mean 'recorded'?"),
        (ncu_swizzle.profile, "kernel2", {"clock_controll": "base"}, "'clock_controll', did you mean 'clock_control'?"),
        (ncu_swizzle.profile, EXAMPLE / "my.cu", {"gird": (1,)}, "unknown option 'gird', did you mean 'grid'"),
        (ncu_swizzle.profile, EXAMPLE / "my.cu", {**OWN, "nvcc": "/nowhere/nvcc"}, "nowhere/nvcc is not"),
        (ncu_swizzle.lint, "my.cu", {"scheduler_file": "s.json", "scheduler": "tcp://nowhere:1"}, "exclude each other"),
        (ncu_swizzle.profile_program, "./app", {"cubin": "app.cubin"}, "--cubin is for launches files"),
        (ncu_swizzle.profile_program, str(file), {"launch_skip": 99}, "only 3 launches"),
        (ncu_swizzle.profile_program, "sh -c true", {**ncu, "kernel_nam": "x"}, "did you mean 'kernel_name'"),
        (ncu_swizzle.profile_program, "sh -c true", {**ncu, "pairs": "x"}, "--pair x is not of the form A=B"),
    ]
    for function, subject, keywords, said in table:
        with pytest.raises(NcuSwizzleError) as caught:
            function(subject, **keywords)
        assert said in str(caught.value)
        assert caught.value.hint, said


# ---------------------------------------------------------------------------------------------- profiling


def test_profile_is_the_main_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded) -> None:
    monkeypatch.chdir(tmp_path)
    result = ncu_swizzle.profile("kernel2", **RECORDED)
    assert result.profile == recorded("kernel2")
    assert [one.kernel.name for one in result.profiles] == ["kernel1", "kernel2"]
    assert result.verdict == result.comparison.verdict
    assert (result.engine, result.folder) == ("recorded", None)
    assert result.html().startswith("<!DOCTYPE html>")
    assert "kernel2 removes all 1,886,388,224" in result._repr_html_()
    assert list(tmp_path.iterdir()) == [], "nothing is kept unasked"


@pytest.mark.long
def test_a_run_is_kept_where_it_is_asked_for(tmp_path: Path) -> None:
    how = {**RECORDED, "baseline": "none", "export": tmp_path / "out"}
    result = ncu_swizzle.profile("kernel2", **how)
    assert result.folder == tmp_path / "out"
    assert (tmp_path / "out" / "report.html").is_file()
    assert ncu_swizzle.read(tmp_path / "out")[0] == result.profile
    with pytest.raises(NcuSwizzleError, match="already holds"):
        ncu_swizzle.profile("kernel2", **how)
    ncu_swizzle.profile("kernel2", **how, overwrite=True)


@pytest.mark.long
@NEEDS_ALL
def test_a_source_is_profiled_in_two_ways_with_any_spelling_of_its_launch() -> None:
    both = ncu_swizzle.profile(EXAMPLE / "my.cu", **OWN, before="-DSWIZZLE=0", after=["-DSWIZZLE=1"])
    assert [one.accesses["LDS"].degree for one in both.profiles] == [32, 1]
    assert both.profile is both.profiles[1]
    assert "removes all" in both.verdict
    for grid, block in (((2, 2), (32, 8)), ("n//32,n//32", "32,8"), (["n//32", np.int64(2)], "32, n//8")):
        defined = ncu_swizzle.profile(EXAMPLE / "my.cu", **{**OWN, "grid": grid, "block": block}, define="SWIZZLE=1")
        assert (defined.profile.grid, defined.profile.block) == ((2, 2, 1), (32, 8, 1))
        assert defined.profile.accesses["LDS"].degree == 1


@pytest.mark.long
@NEEDS_ALL
def test_kernels_of_a_project_go_by_their_names() -> None:
    project: dict[str, Any] = {"engine": "emulated", "config": str(EXAMPLE / "ncu-swizzle.toml"), "problem": {"n": 64}}
    compared = ncu_swizzle.compare("tile-rowmajor", "tile-swizzled", **project)
    assert [one.accesses["LDS"].degree for one in compared.profiles] == [32, 1]
    assert ncu_swizzle.check("tile-swizzled", **project).outcome == "pass"
    with pytest.raises(GateFailed):
        ncu_swizzle.check("tile-rowmajor", **project)


@pytest.mark.long
@NEEDS_ALL
def test_a_binary_takes_what_a_source_takes(tmp_path: Path) -> None:
    cubin = tmp_path / "my.cubin"
    cubin.write_bytes(embedded("transpose-plain").data)
    how: dict[str, Any] = {"engine": "emulated", "problem": {"n": 64}, "config": "none"}
    described = ncu_swizzle.profile(
        cubin, entry="transpose_plain", grid="n//32,n//32", block=(32, "n//8"), args=OWN["args"], **how
    )
    assert described.profile.accesses["LDS"].degree == 32
    flat = ncu_swizzle.profile(cubin, grid=2, block=np.int64(32), args=OWN["args"], **how).profile
    assert (flat.grid, flat.block) == ((2, 1, 1), (32, 1, 1)), "a plain number is a grid or a block"
    with pytest.raises(UsageError, match="the arguments do not fit"):
        ncu_swizzle.profile(cubin, grid=2, block=32, args=OWN["args"][:2], **how)


@pytest.mark.long
def test_a_program_has_many_profiles(stand_in: Path, tmp_path: Path) -> None:
    how: dict[str, Any] = {"engine": "ncu", "ncu": stand_in, "folder": tmp_path}
    result = ncu_swizzle.profile_program("sh -c true", kernel_name="regex:transpose", nvtx_include="step/", **how)
    assert [one.kernel.function for one in result.profiles] == ["transpose_plain", "transpose_xor", "tma_128"]
    assert len(result.comparisons) == 3
    assert result.folder is None
    assert set(result.to_frame()["profile"]) == {"transpose_plain", "transpose_xor", "tma_128"}
    assert "transpose_xor" in result.html()
    assert "transpose_xor" in result._repr_html_()
    kept = ncu_swizzle.profile_program(["sh", "-c", "true"], export=tmp_path / "old", **how)
    assert kept.folder == tmp_path / "old"
    paired = ncu_swizzle.profile_program("sh -c true", baseline=tmp_path / "old", pairs="0=1", **how)
    assert {len(one.profiles) for one in paired.comparisons} == {1, 2}


def test_captured_launches_are_a_program() -> None:
    replayed = ncu_swizzle.profile_program(str(DATA / "launches" / "counting.launches"), launch_count=1)
    assert [one.engine for one in replayed.profiles] == ["emulated"]


def test_a_sweep_is_run_and_resumed(tmp_path: Path) -> None:
    how: dict[str, Any] = {"engine": "recorded", "export": tmp_path / "sweep"}
    swept = ncu_swizzle.profile_sweep("transpose-xor", problem={"n": 4096}, **how)
    again = ncu_swizzle.profile_sweep("transpose-xor", problem={"n": 4096}, **how, resume=True)
    assert (len(swept.done), again.outcomes[0].kept) == (1, True)


# ---------------------------------------------------------------------------------------------- what is saved


def test_read_takes_whatever_holds_profiles(run: Path, report_file: Path, tmp_path: Path, recorded: Recorded) -> None:
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
    for path in ("kernel1", tmp_path / "no.json"):
        with pytest.raises(BadFile, match="does not exist"):
            ncu_swizzle.read(path)
    ruin = tmp_path / "half.json"
    ruin.write_text(recorded("kernel1").to_json()[:1000], encoding="utf-8")
    for read in (ncu_swizzle.read, Profile.load):
        with pytest.raises(DamagedFile):
            read(ruin)


@pytest.mark.long
def test_compare_and_report_take_names_files_profiles_and_results(
    run: Path, tmp_path: Path, recorded: Recorded
) -> None:
    first = ncu_swizzle.profile("kernel2", **RECORDED)
    many = ncu_swizzle.compare("kernel1", run, first, recorded("kernel1"), first.profiles, engine="recorded")
    names = [one.kernel.name for one in many.profiles]
    assert names == ["kernel1", "kernel2", "kernel2", "kernel1", "kernel1", "kernel2"]
    assert ncu_swizzle.compare(run).labels == ("kernel1", "kernel2"), "alone, a run is all that is in it"
    assert ncu_swizzle.compare(first).labels == ("kernel1", "kernel2")
    with pytest.raises(NotComparable):
        ncu_swizzle.compare()
    page = tmp_path / "deep" / "page.html"
    text = ncu_swizzle.report(run, out=page)
    assert page.read_text(encoding="utf-8") == text == ncu_swizzle.compare(run).html()
    ncu_swizzle.compare(run).to_html(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == text
    ncu_swizzle.read(run)[0].to_html(tmp_path / "one.html")
    assert "<title>kernel1 · ncu-swizzle</title>" in (tmp_path / "one.html").read_text(encoding="utf-8")


def test_check_is_the_gate(run: Path, recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    with pytest.raises(NotComparable, match="recorded, not measured"):
        ncu_swizzle.check(after)
    limits = {"max_degree": ["LDS=1", "kernel1:LDSM=8"], "max_excessive": "STS=3670016"}
    passing: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((after,), {}, "pass"),
        ((run,), {"max_degree": 1}, "pass"),  # a run is its kernel
        ((before, after), limits, "pass"),
        ((before,), {}, "fail"),
        ((before,), {"kernel_name": "kernel2"}, "inconclusive"),
    ]
    for subjects, keywords, outcome in passing:
        assert ncu_swizzle.check(*subjects, **keywords, raising=False, allow_recorded=True).outcome == outcome
    chosen = ncu_swizzle.check(before, after, kernel_name="regex:nel2$", raising=False, allow_recorded=True)
    assert (chosen.outcome, {check.kernel for check in chosen.checks}) == ("pass", {"kernel2"})
    refused: list[tuple[Profile, dict[str, Any], type[Exception], str]] = [
        (before, {"allow_recorded": True}, GateFailed, "1,886,388,224 excessive wavefronts"),
        (after, {"kernel_name": "regex:("}, UsageError, r"kernel_name: '\(' is not a valid regular expression"),
        (after, {"baseline": "no.json"}, BadFile, "no.json"),
    ]
    for subject, keywords, error, said in refused:
        with pytest.raises(error, match=said):
            ncu_swizzle.check(subject, **keywords)


@NEEDS_ALL
def test_a_check_sees_the_races_and_the_comments_that_the_command_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    launch: dict[str, Any] = {"grid": 1, "block": 64, "args": ["y=float32[64]:out"], "config": "none"}
    kernel = "__global__ void turned(float *y) {{ __shared__ float row[64]; row[threadIdx.x] = y[threadIdx.x];\n" \
             "y[threadIdx.x] = row[63 - threadIdx.x]; }} {}\n"  # fmt: skip
    for comment, outcome in (("", "fail"), ("// ncu-swizzle: ignore RACE001", "pass")):
        (tmp_path / "turned.cu").write_text(kernel.format(comment), encoding="utf-8")
        verdict = ncu_swizzle.check("turned.cu", **launch, engine="emulated", raising=False)
        assert verdict.outcome == outcome, comment
        assert "RACE001" in {check.code for check in verdict.checks}


# ---------------------------------------------------------------------------------------------- documentation


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
