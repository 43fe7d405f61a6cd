"""``profile -- PROGRAM`` with a stand-in for ncu that leaves a recorded report; ``profile KERNEL KERNEL …``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.commands import run_program
from ncu_swizzle.commands.run_program import program_name
from ncu_swizzle.reports import many_launches, reader, run_folder
from ncu_swizzle.reports.model import Profile
from tests.support import triton_caches
from tests.support.fleets import needs_fleet
from tests.support.process import Done, Typed
from tests.support.reports import join
from tests.support.several import LAUNCHED

Shell = Callable[..., Done]


@pytest.fixture
def shell(typed: Typed, app: Path, fake: dict[str, str]) -> Shell:
    """Return a function that runs a line in the folder of ``./app``, with an ncu that does as the scenario says."""
    assert app.is_dir()

    def run(line: str, scenario: str = "program", **more: str) -> Done:
        return typed(line, **{**fake, "FAKE_NCU": scenario, **more})

    return run


def test_every_kernel_of_a_program_is_kept_listed_and_shown_again(app: Path, shell: Shell) -> None:
    done = shell("profile --engine ncu -- ./app --size 4096")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    for row in ("0 transpose_plain #1 128x128 32x8", "3 vectors_4_stride   16384   128", "3 of 4 launches have"):
        assert row in done.stdout
    folder = app / "swizzle-out" / "app"
    assert {file.name for file in folder.iterdir()} == {
        *("000-transpose_plain.json", "001-transpose_xor.json", "002-transpose_plain.json"),
        *("003-vectors_4_stride.json", "report.ncu-rep", "report.facts.json", "report.html", "program.log", "run.json"),
    }
    assert (folder / "program.log").read_text(encoding="utf-8") == f"in {app} with --size 4096\ndone\n"
    profile = Profile.from_json((folder / "002-transpose_plain.json").read_text(encoding="utf-8"))
    assert (profile.launch.index, profile.launch.occurrence) == (2, 1)
    assert profile == reader.read(folder / "report.ncu-rep")[2]
    assert [one.kernel.name for one in run_folder.load(folder).subjects] == [
        name.replace("-", "_") for name in LAUNCHED
    ]

    page = (app / "swizzle-out" / "app" / "report.html").read_bytes()
    done = shell("report swizzle-out/app --json data.json")
    assert done.returncode == 0, done.stderr
    assert (app / "swizzle-out" / "app" / "report.html").read_bytes() == page
    data = json.loads((app / "data.json").read_text(encoding="utf-8"))
    assert [one["excessive"] for one in data["kernels"]] == [[16252928], [0], [16252928], [65011712]]
    one = shell("report swizzle-out/app -k transpose_xor -o one.html --json -")
    assert json.loads(one.stdout)["labels"] == ["transpose_xor"]
    assert json.loads(shell("report swizzle-out/app --launch 3 -o one.html --json -").stdout)["labels"] == [
        "vectors_4_stride"
    ]
    gate = shell("check swizzle-out/app -k transpose_xor --config none --baseline none")
    assert gate.returncode == 0, gate.stderr
    assert shell("check swizzle-out/app --config none --baseline none").returncode == 1


def test_a_program_in_triton_is_shown_again_without_its_cache(app: Path, shell: Shell, tmp_path: Path) -> None:
    report = tmp_path / "triton.ncu-rep"
    report.write_bytes(triton_caches.report())
    cache = triton_caches.fill(app / "cache")
    done = shell("profile --engine ncu -- ./app", FAKE_NCU_REPORT=str(report), TRITON_CACHE_DIR="cache")
    assert done.returncode == 0, done.stderr
    cache.rename(app / "gone")
    again = shell("report swizzle-out/app/report.ncu-rep --launch 0 -o page.html --json -")
    (profile,) = json.loads(again.stdout)["profiles"]
    assert profile["instructions"]["stacks"]
    stacks = {tuple(map(tuple, stack)) for stack in profile["instructions"]["stacks"]}
    assert ((triton_caches.HELPERS, 17), (triton_caches.SOURCE, 14)) in stacks
    assert "source lines end" not in again.stdout


def test_a_baseline_is_paired_by_kernel(
    app: Path, shell: Shell, recorded_file: Callable[[str], Path], tmp_path: Path
) -> None:
    assert shell("profile --engine ncu -o old -- ./app").returncode == 0
    fewer = tmp_path / "fewer.ncu-rep"
    fewer.write_bytes(join([recorded_file(name) for name in ("transpose-xor", "transpose-plain", "gemm-plain")]))
    done = shell("profile --engine ncu --baseline old --json - -- ./app", FAKE_NCU_REPORT=str(fewer))
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert [(one["title"], one["labels"], one["launch"]) for one in data["kernels"]] == [
        ("transpose_plain #1", ["old", "app"], [0, 1]),
        ("transpose_xor", ["old", "app"], [1, 0]),
        ("transpose_plain #2", ["old"], [2]),
        ("vectors_4_stride", ["old"], [3]),
        ("gemm_plain", ["app"], [2]),
    ]
    assert data["warnings"] == [
        "Only in old, not paired: 2 transpose_plain, 3 vectors_4_stride.",
        "Only in app, not paired: 2 gemm_plain.",
    ]
    forced = shell(
        "profile --engine ncu --baseline old --pair vectors_4_stride=gemm_plain --json - -- ./app",
        FAKE_NCU_REPORT=str(fewer),
    )
    pairs = [(one["title"], one["launch"]) for one in json.loads(forced.stdout)["kernels"]]
    assert ("vectors_4_stride → gemm_plain", [3, 2]) in pairs
    run = run_folder.load(app / "swizzle-out" / "app")
    assert run.columns == ("old", "app")
    assert len(run.subjects) == 3
    again = shell("report swizzle-out/app --json -")
    assert json.loads(again.stdout)["kernels"] == data["kernels"]


def test_a_program_with_one_kernel_is_shown_as_a_kernel_is(shell: Shell, report_file: Path, app: Path) -> None:
    done = shell("profile --engine ncu -c 1 -- ./app", FAKE_NCU_REPORT=str(report_file))
    assert done.returncode == 0, done.stderr
    assert "kernel2 has no excessive shared-memory wavefronts" in done.stdout
    assert (app / "swizzle-out" / "app" / "000-kernel2.json").is_file()
    assert shell("report swizzle-out/app kernel1 --json -").returncode == 0


def test_the_limit_that_nobody_asked_for_is_said(
    shell: Shell, tmp_path: Path, recorded_file: Callable[[str], Path]
) -> None:
    many = tmp_path / "many.ncu-rep"
    many.write_bytes(join([recorded_file("tma-32")] * run_program.MOST_LAUNCHES))
    done = shell("profile --engine ncu -- ./app", FAKE_NCU_REPORT=str(many))
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "Only the first 32 launches were profiled; the program may have launched more. -c N profiles more" in said


# ---------------------------------------------------------------------------------------------- what goes wrong


def test_a_program_that_fails_is_heard(shell: Shell, app: Path) -> None:
    done = shell("profile --engine ncu -- ./app --size 3", STATUS="7")
    assert done.returncode == 4
    assert "exited with code 7" in done.stderr
    assert f"app's last output:\nin {app} with --size 3\ndone" in done.stderr
    assert "./app --size 3" in done.stderr.split("try: ")[1]
    assert not (app / "swizzle-out").exists()


def test_no_kernel_names_those_that_there_are(shell: Shell, app: Path) -> None:
    done = shell("profile --engine ncu -k regex:nothing -- ./app", "nothing")
    assert done.returncode == 4
    assert "app launches kernel2" in done.stderr
    assert "-k, -s, -c, --nvtx-include" in done.stderr
    assert not (app / "swizzle-out").exists()


MISTAKES = {  # what is said, and what to type
    "profile --": ("nothing to profile", "ncu-swizzle profile -- ./app"),
    "profile ./app": ("./app is a file, not a kernel", "ncu-swizzle profile -- ./app"),
    "profile -- ./nowhere --x": ("./nowhere is not an executable", "./nowhere --x"),
    "profile --engine recorded -- ./app": ("there are no recordings of your programs", "ncu-swizzle report FILE"),
    "profile --problem n=3 -- ./app": ("--problem: only for kernels of the catalogue", "-- ./app --size 4096"),
    "profile --reference none -- ./app": ("--reference: only for kernels of the catalogue, not for a program", ""),
    "profile -k x -s 2 kernel2": ("--kernel-name, --launch-skip: only for programs, and kernel2 is", "-- ./app"),
    "profile --pair a=b kernel2": ("--pair: only for programs, and kernel2 is a single kernel", ""),
    "profile --engine ncu --pair a -- ./app": ("--pair a is not of the form A=B", ""),
    "profile --engine ncu --baseline nowhere -- ./app": ("--baseline nowhere does not exist", ".ncu-rep"),
    "profile --engine ncu --ncu-args '--x \"' -- ./app": ("--ncu-args", "--sampling-interval"),
    "profile kernel1 kernel2 --json -": ("are for one kernel or program", ""),
    "profile kernel2 app.launches": ("app.launches is profiled alone", ""),
    "profile --workers 2 -- ./app": ("for kernels, not for a program", ""),
    "profile kernel1 kernel2 -k fn": ("only for programs", ""),
    "profile kernel1 nothing-of-the-kind": ("nothing-of-the-kind", ""),
}


def test_mistakes_are_told_before_anything_runs(shell: Shell, app: Path) -> None:
    for line, (said, hint) in MISTAKES.items():
        done = shell(line)
        assert done.returncode == 2, (line, done.stderr)
        assert said in done.stderr, line
        assert hint in done.stderr, line
        assert [file.name for file in app.iterdir()] == ["app"], line


def test_a_program_is_called_after_what_it_runs() -> None:
    names = {
        "./app --size 4096": "app",
        "python train.py --steps 3": "train",
        "/usr/bin/python3.12 -u -X dev -m pkg.module": "pkg.module",
        "python3 -c print()": "python3",
        "pythonic x.py": "pythonic",
        "": "program",
    }
    assert {line: program_name(line.split()) for line in names} == names


@pytest.mark.long
@given(st.text())
def test_any_text_has_a_name_that_can_be_printed(text: str) -> None:
    (column,) = many_launches.columns([text])
    assert all(letter.isprintable() for letter in column) or column == text
    assert program_name([text])


# ---------------------------------------------------------------------------------------------- several kernels

KERNELS = "transpose-xor vectors-4-swizzle tma-32"
RECORDED = "--engine recorded"


def saved(folder: Path) -> dict[str, dict[str, object]]:
    """Return what a folder of runs holds: each run's manifest and profiles."""
    files = sorted(folder.glob("*/*.json"))
    return {str(file.relative_to(folder)): json.loads(file.read_text(encoding="utf-8")) for file in files}


def test_each_of_several_kernels_has_the_folder_that_it_has_alone(typed: Typed, work: Path) -> None:
    done = typed(f"profile {KERNELS} {RECORDED}")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (work / "swizzle-out").iterdir()) == sorted(KERNELS.split())
    together = saved(work / "swizzle-out")
    alone = typed(f"profile tma-32 {RECORDED} -o alone/tma-32")
    assert {name: text for name, text in together.items() if name.startswith("tma-32/")} == saved(work / "alone")
    assert alone.stdout.replace("alone/tma-32", "swizzle-out/tma-32").strip() in done.stdout


@needs_fleet
@pytest.mark.long
def test_workers_give_what_one_process_gives(typed: Typed, work: Path) -> None:
    alone = typed(f"profile {KERNELS} {RECORDED} -o out")
    expected = saved(work / "out")
    two = typed(f"profile {KERNELS} {RECORDED} -o out -f --workers 2")
    assert two.returncode == 0, two.stderr
    assert saved(work / "out") == expected
    assert [line for line in two.stdout.splitlines() if "dashboard" not in line] == alone.stdout.splitlines()


def test_one_that_fails_does_not_stop_the_others_and_nothing_is_written_over(typed: Typed, work: Path) -> None:
    failing = typed(f"profile gemm-plain transpose-xor {RECORDED} --problem n=4096 -o out")
    assert failing.returncode == 4, failing.stderr
    assert "failed: gemm-plain: " in failing.stdout
    assert "1 of 2 kernels failed; gemm-plain: " in " ".join(failing.stderr.split())
    assert [path.name for path in (work / "out").iterdir()] == ["transpose-xor"]
    refused = typed(f"profile {KERNELS} {RECORDED} -o out")
    assert refused.returncode == 2
    assert "already holds run.json" in " ".join(refused.stderr.split())
    assert [path.name for path in (work / "out").iterdir()] == ["transpose-xor"]
