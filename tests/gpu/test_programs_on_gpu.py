"""``profile -- PROGRAM`` and ``capture`` for real: C++, graphs, several processes, PyTorch, Triton; any section set."""

import importlib.util
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ncu_swizzle
from ncu_swizzle import capture
from ncu_swizzle.capture.launches import Manifest, open_launches
from ncu_swizzle.cubin import names
from ncu_swizzle.engines import machine, reader, replay
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.profiles import saved_profiles
from ncu_swizzle.engines.replay import ReplaySettings
from ncu_swizzle.reports.model import Profile
from tests.support import process
from tests.support.places import DATA

SEVERAL = ("./several", "--size", "512")


def needs(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return process.started(*arguments, folder=folder, env=process.environment())


def succeeded(folder: Path, *arguments: str) -> str:
    """Run a command that has to succeed; return what it prints."""
    return process.succeeded(*arguments, folder=folder, env=process.environment())


def profiled(folder: Path, out: Path, *options: str, program: Sequence[str] = SEVERAL) -> Any:
    """Profile a program and return the JSON."""
    return json.loads(succeeded(folder, "profile", *options, "-o", str(out), "--json", "-", "--", *program))


def profiles_of(found: Any) -> list[Any]:
    return [profile for comparison in found["comparisons"] for profile in comparison["profiles"]]


def test_every_kernel_of_a_program(programs: Path, tmp_path: Path) -> None:
    found = profiled(programs, tmp_path / "plain")
    profiles = profiles_of(found)
    assert [one["kernel"]["name"] for one in profiles] == ["turn", "turn", "turn", "turn", "rowsum", "scale"]
    assert [one["launch"]["index"] for one in profiles] == list(range(6))
    grids = [one["grid"][0] for one in found["kernels"]]
    assert grids == [[16, 16, 1], [8, 8, 1], [16, 16, 1], [8, 8, 1], [512, 1, 1], [2, 1, 1]]
    excessive = [one["excessive"][0] for one in found["kernels"]]
    assert excessive[0] == excessive[2] == 512 * 512 // 32 * 31, "a column of 32 floats is 32-way"
    assert excessive[4:] == [0, 0], "rowsum is conflict-free, scale uses no shared memory"
    assert "several: turned 512 x 512" in (tmp_path / "plain" / "program.log").read_text(encoding="utf-8")
    sources = profiles[0]["sources"]
    assert any(path.endswith("several.cu") and "tile[threadIdx.x][row]" in text for path, text in sources.items())
    assert all(one["metrics"]["profiler__replayer_passes"]["value"] <= 7 for one in profiles)

    after = profiled(programs, tmp_path / "after", "--baseline", str(tmp_path / "plain"), program=(*SEVERAL, "--pad"))
    assert [one["labels"] for one in after["kernels"]] == [["plain", "several"]] * 6
    for one in after["kernels"][:3]:
        was, now = one["excessive"]
        assert was > 0
        assert now == 0, "a column of padding frees a tile of floats"
    assert after["warnings"] == []


@pytest.mark.parametrize(
    ("options", "launches"),
    [
        ("-k rowsum", 1),
        ("-k regex:^turn -s 1 -c 2", 2),
        ("-k regex:double --kernel-name-base demangled", 1),
        ("--kernel-id ::turn:2", 1),
        ("--target-processes-filter several -c 3", 3),
        ("--ncu-args '--launch-skip-before-match 4'", 2),
        ("--profile-from-start off -c 2 -- --range", 2),
        ("-- --graph", 6),
    ],
)
def test_ncu_s_own_filters(options: str, launches: int, programs: Path, tmp_path: Path) -> None:
    """What is behind ``--`` is for the program."""
    filters, _, more = options.partition("-- ")
    found = profiled(programs, tmp_path / "out", *shlex.split(filters), program=(*SEVERAL, *more.split()))
    assert len(found.get("kernels", [None])) == launches


def test_pytorch_s_histc_has_a_conflict(programs: Path, tmp_path: Path) -> None:
    needs("torch")
    filters = ("--nvtx-include", "histogram/", "-k", "regex:istogram")
    found = profiled(programs, tmp_path / "out", *filters, program=(sys.executable, "torch_program.py"))
    assert {row["access"]: row["degree"] for row in found["accesses"]}["LDS"] > 1.2
    assert (tmp_path / "out" / "program.log").read_text(encoding="utf-8").startswith("torch_program: ")


def test_every_kernel_of_pytorch_is_listed(programs: Path, tmp_path: Path) -> None:
    needs("torch")
    found = profiled(programs, tmp_path / "out", program=(sys.executable, "torch_program.py"))
    titles = [one["title"] for one in found["kernels"]]
    assert len(titles) == len(set(titles)) > 4
    assert all("::" not in title and len(title) <= 70 for title in titles)
    shown = succeeded(programs, "report", str(tmp_path / "out"))
    assert max(map(len, shown.split("Written to")[0].splitlines())) <= 80  # a path is never broken


def test_triton_s_kernels_carry_their_python_source(programs: Path, tmp_path: Path) -> None:
    needs("triton")
    program = (sys.executable, "triton_program.py")
    profiles = profiles_of(profiled(programs, tmp_path / "out", "-k", "regex:turn_tiles", program=program))
    assert len(profiles) == 2
    files = {path for one in profiles for stack in one["instructions"]["stacks"] for path, _ in stack}
    assert any(path.endswith("triton_program.py") for path in files)


METRICS = ("--metrics", "gpu__time_duration.sum")


def ncu(folder: Path, file: Path, *options: str, more: Sequence[str] = ()) -> None:
    """Have ncu itself write a report."""
    words = [str(machine.find()), "--clock-control", "none", *options, "-o", str(file), *SEVERAL, *more]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


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
    options: Sequence[str], more: Sequence[str], results: int, workload: str, programs: Path, tmp_path: Path
) -> None:
    file = tmp_path / "foreign.ncu-rep"
    ncu(programs, file, *options, more=more)
    profiles = reader.read(file)
    assert len(profiles) == results
    assert {one.launch.workload for one in profiles} == {workload}
    succeeded(programs, "report", str(file), "-o", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert any(one.missing for one in profiles) == ("Not in the report" in page)


def test_the_command_that_completes_a_report_does(programs: Path, tmp_path: Path) -> None:
    file = tmp_path / "basic.ncu-rep"
    ncu(programs, file, "--set", "basic")
    shown = succeeded(programs, "report", str(file), "--launch", "2", "-o", str(tmp_path / "p.html"), "--json", "-")
    found = json.loads(shown)
    (warning,) = found["warnings"]
    suggested = warning.split("Collect it with: ")[1]
    assert "-s 2 " in suggested
    typed = suggested.removeprefix("ncu-swizzle profile ").replace("PROGRAM", shlex.join(SEVERAL))
    succeeded(programs, "profile", "-o", str(tmp_path / "complete"), *shlex.split(typed))
    (complete,) = ncu_swizzle.read(tmp_path / "complete")
    assert complete.missing == ()
    assert complete.kernel.function == found["profiles"][0]["kernel"]["function"]
    assert list(complete.grid) == [16, 16, 1]


def captured(folder: Path, out: Path, *words: str) -> Manifest:
    """Capture with these options and return what the file says."""
    succeeded(folder, "capture", "-o", str(out), *words)
    with open_launches(out) as file:
        return file.manifest


def counts(profile: Profile) -> list[tuple[object, ...]]:
    """Return what is counted of the shared-memory accesses, by offset."""
    start = min(instruction.pc for instruction in profile.instructions)
    return [(i.pc - start, i.executed, i.wavefronts, i.ideal) for i in profile.instructions if i.access]


def functions(manifest: Manifest) -> list[str]:
    return [names.function(names.demangle(launch.kernel)) for launch in manifest.launches]


@pytest.mark.parametrize(
    ("options", "program"),
    [
        (("--memory",), SEVERAL),
        (("--memory",), ("./several-shared", *SEVERAL[1:], "--pad")),
        (("--memory",), (*SEVERAL, "--graph")),
        (("--memory",), ("./driver",)),
        (("--memory",), ("./counting",)),
        (("-k", "turn"), SEVERAL),
    ],
)
def test_a_replay_counts_what_ncu_counts(
    options: Sequence[str], program: Sequence[str], programs: Path, tmp_path: Path
) -> None:
    captured(programs, tmp_path / "app.launches", *options, "--", *program)
    filters = () if "--memory" in options else options
    succeeded(programs, "profile", *filters, "-o", str(tmp_path / "ncu"), "--", *program)
    theirs = reader.read(tmp_path / "ncu" / "report.ncu-rep")
    ours = saved_profiles(tmp_path / "app.launches")
    assert [counts(one) for one in ours] == [counts(one) for one in theirs]
    assert any(counts(one) for one in ours)
    assert len(ours) == 4 or not filters


def test_launches_of_other_kinds(programs: Path, tmp_path: Path) -> None:
    manifest = captured(programs, tmp_path / "app.launches", "--", "./shapes")
    assert functions(manifest) == ["exchange", "together", *["strided"] * 4]
    assert [launch.cluster for launch in manifest.launches[:2]] == [(2, 1, 1), ()]
    strides = [launch.parameters[-1].bytes[0] for launch in manifest.launches[2:]]
    assert strides == [4, 2, 4, 16], "a node's parameters were changed before the second launch"
    assert [launch.graph for launch in manifest.launches] == [False, False, *[True] * 4]


@pytest.mark.parametrize("program", ["./several --size 128", "./several --size 128 --graph"])
def test_what_a_launch_leaves_is_captured_and_what_executing_it_leaves_is_the_same(
    program: str, programs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "app.launches"
    manifest = captured(programs, out, "--outputs", "--", *program.split())
    settings = ReplaySettings(emulation=EmulationSettings(check=True))
    with replay.opened(out, settings) as launches:
        profiles = launches.profiles()
    for launch, profile in zip(manifest.launches, profiles, strict=True):
        assert bool(launch.outputs) is bool(profile.checked) is not launch.graph, launch.kernel
        assert [each.wrong + each.unknown for each in profile.checked] == [""] * len(profile.checked)
    first = manifest.launches[0]
    assert first.graph or first.outputs != first.contents, "it changes something"


def test_every_process_is_captured_and_of_a_program_that_fails_nothing_is_kept(programs: Path, tmp_path: Path) -> None:
    both = ("sh", "-c", "./counting && ./several --size 256")
    manifest = captured(programs, tmp_path / "app.launches", "--", *both)
    assert functions(manifest) == ["count", "permute", "permute", *["turn"] * 4, "rowsum", "scale"]
    out = tmp_path / "failed.launches"
    assert "exited with status 7" in command(programs, "capture", "-o", str(out), "--", *SEVERAL, "--fail").stderr
    assert not out.exists()


RUNTIME = DATA / "runtime"


@pytest.fixture(scope="module")
def misuse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``misuse`` and ``answers``, of which tests/capture tests what a stand-in does."""
    folder = tmp_path_factory.mktemp("misuse")
    for name in ("misuse", "answers"):
        subprocess.run(["nvcc", "-arch=native", "-o", name, str(RUNTIME / f"{name}.cu")], cwd=folder, check=True)
    return folder


def test_what_cannot_be_is_answered_as_the_stand_in_answers_it(misuse: Path, tmp_path: Path) -> None:
    subprocess.run([str(misuse / "answers"), "found.txt"], cwd=tmp_path, check=True)
    assert (tmp_path / "found.txt").read_text(encoding="utf-8") == (RUNTIME / "answers.txt").read_text(encoding="utf-8")
    manifest = captured(misuse, tmp_path / "answers.launches", "--", "./answers", "found.txt")
    assert functions(manifest) == [*["plain"] * 4, "in_pairs", "together"], "what the driver refused is not among them"


@pytest.mark.parametrize(
    ("what", "kept", "ends"), [("threads", 1600, True), ("exec", 3, False), ("quit", 7, False), ("daemon", 1, True)]
)
def test_threads_exec_and_exit_lose_no_launch(what: str, kept: int, ends: bool, misuse: Path, tmp_path: Path) -> None:
    manifest = captured(misuse, tmp_path / "x.launches", "-c", "2000", "--memory", "--", "./misuse", what)
    assert len(manifest.launches) == kept
    assert ("A process ended by _exit, exec or a signal: more may have been launched." in manifest.notes) != ends


def test_a_fork_of_a_process_that_uses_cuda_launches_nothing(misuse: Path, tmp_path: Path) -> None:
    """The driver refuses what the child asks for."""
    manifest = captured(misuse, tmp_path / "x.launches", "--memory", "--", "./misuse", "fork")
    assert functions(manifest) == ["look"] * 2


def test_pytorch_and_triton(programs: Path, tmp_path: Path) -> None:
    needs("torch", "triton")
    torch, triton = ((sys.executable, f"{name}_program.py", "512") for name in ("torch", "triton"))
    manifest = captured(programs, tmp_path / "torch.launches", "--", *torch)
    assert any("istogram" in name for name in functions(manifest))
    manifest = captured(programs, tmp_path / "triton.launches", "-k", "turn_tiles", "--", *triton)
    assert len({launch.cubin for launch in manifest.launches}) == len(manifest.launches) == 2, "one name, two kernels"


def test_no_layout_is_declared_that_the_headers_do_not_have() -> None:
    headers = Path(shutil.which("nvcc") or "").resolve().parent.parent / "include"
    if not (headers / "cupti_callbacks.h").is_file():
        pytest.skip("CUPTI's headers are not installed")
    folders = (f"-I{headers}", f"-I{Path(capture.__file__).parent}")
    check = ["cc", "-fsyntax-only", *folders, str(DATA / "gpu" / "layouts.c")]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
