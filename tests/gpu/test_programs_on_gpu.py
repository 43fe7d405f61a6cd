"""``profile -- PROGRAM`` and ``capture`` for real: C++, graphs, several processes, PyTorch, Triton; any section set."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ncu_swizzle
from ncu_swizzle import capture
from ncu_swizzle.capture.launches import Manifest, open_launches
from ncu_swizzle.cubin import names
from ncu_swizzle.engines import machine
from ncu_swizzle.engines.profiles import saved_profiles
from ncu_swizzle.reports import reader
from ncu_swizzle.reports.model import Profile
from tests.support.on_gpu import command, needs
from tests.support.on_gpu import command as profile
from tests.support.places import DATA

FUNCTIONS = ["turn", "turn", "turn", "turn", "rowsum", "scale"]


def data(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_kernel_of_a_program(built: Path) -> None:
    done = profile(built, "profile", "-o", "plain", "-f", "--json", "-", "--", "./several", "--size", "512")
    found = data(done)
    profiles = [profile for one in found["comparisons"] for profile in one["profiles"]]
    assert [one["kernel"]["name"] for one in profiles] == FUNCTIONS
    assert [one["launch"]["index"] for one in profiles] == list(range(6))
    grids = [one["grid"][0] for one in found["kernels"]]
    assert grids == [[16, 16, 1], [8, 8, 1], [16, 16, 1], [8, 8, 1], [512, 1, 1], [2, 1, 1]]
    excessive = [one["excessive"][0] for one in found["kernels"]]
    assert excessive[0] == excessive[2] == 512 * 512 // 32 * 31, "a column of 32 floats is 32-way"
    assert excessive[4:] == [0, 0], "rowsum is conflict-free, scale uses no shared memory"
    assert "several: turned 512 x 512" in (built / "plain" / "program.log").read_text(encoding="utf-8")
    sources = profiles[0]["sources"]
    assert any(path.endswith("several.cu") and "tile[threadIdx.x][row]" in text for path, text in sources.items())
    assert all(one["metrics"]["profiler__replayer_passes"]["value"] <= 7 for one in profiles)


def test_before_and_after_in_one_go(built: Path) -> None:
    assert profile(built, "profile", "-o", "before", "-f", "--", "./several", "--size", "512").returncode == 0
    padded = ("./several", "--size", "512", "--pad")
    arguments = ("profile", "--baseline", "before", "-o", "after", "-f", "--json", "-", "--", *padded)
    found = data(profile(built, *arguments))
    assert [one["labels"] for one in found["kernels"]] == [["before", "several"]] * 6
    for one in found["kernels"][:3]:
        was, now = one["excessive"]
        assert was > 0
        assert now == 0, "a column of padding frees a tile of floats"
    assert found["warnings"] == []


@pytest.mark.parametrize(
    ("filters", "launches"),
    [
        (("-k", "rowsum"), 1),
        (("-k", "regex:^turn", "-s", "1", "-c", "2"), 2),
        (("-k", "regex:double", "--kernel-name-base", "demangled"), 1),
        (("--kernel-id", "::turn:2"), 1),
        (("--target-processes-filter", "several", "-c", "3"), 3),
        (("--ncu-args", "--launch-skip-before-match 4"), 2),
    ],
)
def test_ncu_s_own_filters(filters: tuple[str, ...], launches: int, built: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    found = data(profile(built, "profile", *filters, "-o", out, "--json", "-", "--", "./several", "--size", "512"))
    assert len(found.get("kernels", [None])) == launches


def test_from_the_profiler_s_start_on(built: Path, tmp_path: Path) -> None:
    start = ("profile", "--profile-from-start", "off", "-c", "2", "-o", str(tmp_path / "out"), "--json", "-", "--")
    assert len(data(profile(built, *start, "./several", "--size", "512", "--range"))["kernels"]) == 2
    nothing = profile(built, *start[:3], "-o", str(tmp_path / "none"), "--", "./several", "--size", "512")
    assert nothing.returncode == 4
    assert "ncu saw no kernel" in nothing.stderr


def test_a_graph_s_kernels_are_profiled_one_by_one(built: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    found = data(profile(built, "profile", "-o", out, "--json", "-", "--", "./several", "--size", "512", "--graph"))
    assert len(found["kernels"]) == 6


def test_a_filter_that_matches_nothing_names_what_there_is(built: Path, tmp_path: Path) -> None:
    done = profile(built, "profile", "-k", "nothing", "-o", str(tmp_path / "out"), "--", "./several", "--size", "512")
    assert done.returncode == 4
    assert "rowsum" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_program_that_fails_is_heard(built: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    failed = profile(built, "profile", "-o", out, "--", "./several", "--size", "512", "--fail")
    assert failed.returncode == 4
    assert "exited with code 7" in failed.stderr
    wrong = profile(built, "profile", "-o", out, "--", "./several", "--size", "3")
    assert wrong.returncode == 4
    assert "is no multiple of 64" in wrong.stderr
    assert not (tmp_path / "out").exists()


def test_pytorch_s_histc_has_a_conflict(built: Path, tmp_path: Path) -> None:
    needs("torch")
    arguments = ("--nvtx-include", "histogram/", "-k", "regex:istogram", "-o", str(tmp_path / "out"))
    done = profile(built, "profile", *arguments, "--json", "-", "--", sys.executable, "torch_program.py")
    found = data(done)
    degrees = {row["access"]: row["degree"] for row in found["accesses"]}
    assert degrees["LDS"] > 1.2
    assert (tmp_path / "out" / "program.log").read_text(encoding="utf-8").startswith("torch_program: ")


def test_every_kernel_of_pytorch_is_listed(built: Path, tmp_path: Path) -> None:
    needs("torch")
    out = str(tmp_path / "out")
    done = profile(built, "profile", "-o", out, "--json", "-", "--", sys.executable, "torch_program.py")
    found = data(done)
    titles = [one["title"] for one in found["kernels"]]
    assert len(titles) == len(set(titles)) > 4
    assert all("::" not in title and len(title) <= 70 for title in titles)
    shown = profile(built, "report", out)
    assert shown.returncode == 0
    lines = shown.stdout.split("Written to")[0].splitlines()  # a path is never broken
    assert max(map(len, lines)) <= 80


def test_triton_s_kernels_carry_their_python_source(built: Path, tmp_path: Path) -> None:
    needs("triton")
    out = str(tmp_path / "out")
    arguments = ("profile", "-k", "regex:turn_tiles", "-o", out, "--json", "-", "--")
    found = data(profile(built, *arguments, sys.executable, "triton_program.py"))
    profiles = [profile for one in found["comparisons"] for profile in one["profiles"]]
    assert len(profiles) == 2
    files = {path for one in profiles for stack in one["instructions"]["stacks"] for path, _ in stack}
    assert any(path.endswith("triton_program.py") for path in files)


# ---------------------------------------------------------------------------------------------- any section set

METRICS = ("--metrics", "gpu__time_duration.sum")


@pytest.mark.parametrize(
    ("options", "more", "results", "workload"),
    [
        (("--set", "basic"), (), 6, "kernel"),
        (("--set", "full", "-c", "2"), (), 2, "kernel"),
        (("--section", "SourceCounters"), (), 6, "kernel"),
        (("--replay-mode", "range", *METRICS), ("--range",), 1, "range"),
        (("--graph-profiling", "graph", *METRICS), ("--graph",), 1, "graph"),
    ],
)
def test_reports_of_any_origin_are_shown_with_what_would_complete_them(
    options: tuple[str, ...], more: tuple[str, ...], results: int, workload: str, built: Path, tmp_path: Path
) -> None:
    file = tmp_path / "foreign.ncu-rep"
    command = [str(machine.find()), "--clock-control", "none", *options, "-o", str(file), "./several", "--size", "512"]
    done = subprocess.run([*command, *more], cwd=built, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    profiles = reader.read(file)
    assert len(profiles) == results
    assert {one.launch.workload for one in profiles} == {workload}
    shown = profile(built, "report", str(file), "-o", str(tmp_path / "page.html"))
    assert shown.returncode == 0, shown.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert any(one.missing for one in profiles) == ("Not in the report" in page)


def test_the_command_that_completes_a_report_does(built: Path, tmp_path: Path) -> None:
    file = tmp_path / "basic.ncu-rep"
    command = [str(machine.find()), "--clock-control", "none", "--set", "basic", "-o", str(file)]
    subprocess.run([*command, "./several", "--size", "512"], cwd=built, check=True, capture_output=True)
    found = data(profile(built, "report", str(file), "--launch", "2", "-o", str(tmp_path / "p.html"), "--json", "-"))
    (warning,) = found["warnings"]
    suggested = warning.split("Collect it with: ")[1]
    assert "-s 2 " in suggested
    typed = suggested.removeprefix("ncu-swizzle profile ").replace("PROGRAM", "./several --size 512")
    done = profile(built, "profile", "-o", str(tmp_path / "complete"), *shlex.split(typed))
    assert done.returncode == 0, done.stdout
    (complete,) = ncu_swizzle.read(tmp_path / "complete")
    assert complete.missing == ()
    assert complete.kernel.function == found["profiles"][0]["kernel"]["function"]
    assert list(complete.grid) == [16, 16, 1]


# ---------------------------------------------------------------------------------------------- from Python


# ---------------------------------------------------------------------------------------------- ncu-swizzle capture

SEVERAL = ("./several", "--size", "512")


def captured(folder: Path, out: Path, *words: str) -> Manifest:
    """Capture with these options and return what the file says."""
    done = command(folder, "capture", "-o", str(out), *words)
    assert done.returncode == 0, done.stderr
    with open_launches(out) as file:
        return file.manifest


def counts(profile_: Profile) -> list[tuple[object, ...]]:
    """Return what is counted of the shared-memory accesses, by offset."""
    start = min(instruction.pc for instruction in profile_.instructions)
    return [(i.pc - start, i.executed, i.wavefronts, i.ideal) for i in profile_.instructions if i.access]


def functions(manifest: Manifest) -> list[str]:
    return [names.function(names.demangle(launch.kernel)) for launch in manifest.launches]


@pytest.mark.parametrize(
    "program",
    [SEVERAL, ("./several-shared", "--size", "512", "--pad"), (*SEVERAL, "--graph"), ("./driver",), ("./counting",)],
)
def test_a_replay_counts_what_ncu_counts(program: tuple[str, ...], programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "app.launches"
    captured(programs, out, "--memory", "--", *program)
    measured = command(programs, "profile", "-o", str(tmp_path / "ncu"), "--", *program)
    assert measured.returncode == 0, measured.stderr
    theirs = reader.read(tmp_path / "ncu" / "report.ncu-rep")
    ours = saved_profiles(out)
    assert [counts(one) for one in ours] == [counts(one) for one in theirs]
    assert any(counts(one) for one in ours)


def test_what_is_captured_has_the_counts_that_ncu_measures(programs: Path, tmp_path: Path) -> None:
    done = command(programs, "profile", "-k", "turn", "-o", str(tmp_path / "ncu"), "--", *SEVERAL)
    assert done.returncode == 0, done.stderr
    captured(programs, tmp_path / "app.launches", "-k", "turn", "--", *SEVERAL)
    theirs = reader.read(tmp_path / "ncu" / "report.ncu-rep")
    ours = saved_profiles(tmp_path / "app.launches")
    assert len(theirs) == 4
    assert [counts(one) for one in ours] == [counts(one) for one in theirs]


def test_launches_of_other_kinds(programs: Path, tmp_path: Path) -> None:
    manifest = captured(programs, tmp_path / "app.launches", "--", "./shapes")
    assert functions(manifest) == ["exchange", "together", *["strided"] * 4]
    assert [launch.cluster for launch in manifest.launches[:2]] == [(2, 1, 1), ()]
    strides = [launch.parameters[-1].bytes[0] for launch in manifest.launches[2:]]
    assert strides == [4, 2, 4, 16], "a node's parameters were changed before the second launch"
    assert [launch.graph for launch in manifest.launches] == [False, False, *[True] * 4]


def test_every_process_is_captured(programs: Path, tmp_path: Path) -> None:
    both = ("sh", "-c", "./counting && ./several --size 256")
    manifest = captured(programs, tmp_path / "app.launches", "--", *both)
    assert functions(manifest) == ["count", "permute", "permute", *["turn"] * 4, "rowsum", "scale"]


def test_a_program_that_fails(programs: Path, tmp_path: Path) -> None:
    out = tmp_path / "app.launches"
    failed = command(programs, "capture", "-o", str(out), "--", *SEVERAL, "--fail")
    assert failed.returncode == 4
    assert "exited with status 7" in failed.stderr
    assert not out.exists()


def test_pytorch_and_triton(programs: Path, tmp_path: Path) -> None:
    needs("torch")
    needs("triton")
    manifest = captured(programs, tmp_path / "torch.launches", "--", sys.executable, "torch_program.py", "512")
    assert any("istogram" in name for name in functions(manifest))
    manifest = captured(
        programs, tmp_path / "triton.launches", "-k", "turn_tiles", "--", sys.executable, "triton_program.py", "512"
    )
    assert len({launch.cubin for launch in manifest.launches}) == len(manifest.launches) == 2, "one name, two kernels"


def test_no_layout_is_declared_that_the_headers_do_not_have() -> None:
    headers = Path(shutil.which("nvcc") or "").resolve().parent.parent / "include"
    if not (headers / "cupti_callbacks.h").is_file():
        pytest.skip("CUPTI's headers are not installed")
    folders = (f"-I{headers}", f"-I{Path(capture.__file__).parent}")
    check = ["cc", "-fsyntax-only", *folders, str(DATA / "gpu" / "layouts.c")]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
