"""``ncu-swizzle profile -- PROGRAM``, with a stand-in for ncu that runs the program and leaves a recorded report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.commands import run_program
from ncu_swizzle.reports import reader, run_folder
from ncu_swizzle.reports.model import Profile
from tests.support import triton_caches
from tests.support.reports import join
from tests.support.several import LAUNCHED
from tests.support.stand_in import Shell


def test_every_kernel_of_a_program_is_kept_and_listed(app_folder: Path, shell: Shell) -> None:
    done = shell("profile --engine ncu -- ./app --size 4096")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    for row in ("0 transpose_plain #1 128x128 32x8", "3 vectors_4_stride   16384   128", "3 of 4 launches have"):
        assert row in done.stdout
    folder = app_folder / "swizzle-out" / "app"
    assert {file.name for file in folder.iterdir()} == {
        *("000-transpose_plain.json", "001-transpose_xor.json", "002-transpose_plain.json"),
        *("003-vectors_4_stride.json", "report.ncu-rep", "report.facts.json", "report.html", "program.log", "run.json"),
    }
    assert (folder / "program.log").read_text(encoding="utf-8") == f"in {app_folder} with --size 4096\ndone\n"
    profile = Profile.from_json((folder / "002-transpose_plain.json").read_text(encoding="utf-8"))
    assert (profile.launch.index, profile.launch.occurrence) == (2, 1)
    assert profile == reader.read(folder / "report.ncu-rep")[2]
    assert [one.kernel.name for one in run_folder.load(folder).subjects] == [
        name.replace("-", "_") for name in LAUNCHED
    ]


def test_a_saved_run_of_a_program_is_shown_again(app_folder: Path, shell: Shell) -> None:
    shell("profile --engine ncu -- ./app")
    page = (app_folder / "swizzle-out" / "app" / "report.html").read_bytes()
    done = shell("report swizzle-out/app --json data.json")
    assert done.returncode == 0, done.stderr
    assert (app_folder / "swizzle-out" / "app" / "report.html").read_bytes() == page
    data = json.loads((app_folder / "data.json").read_text(encoding="utf-8"))
    assert [one["excessive"] for one in data["kernels"]] == [[16252928], [0], [16252928], [65011712]]
    one = shell("report swizzle-out/app -k transpose_xor -o one.html --json -")
    assert json.loads(one.stdout)["labels"] == ["transpose_xor"]
    assert json.loads(shell("report swizzle-out/app --launch 3 -o one.html --json -").stdout)["labels"] == [
        "vectors_4_stride"
    ]
    gate = shell("check swizzle-out/app -k transpose_xor --config none --baseline none")
    assert gate.returncode == 0, gate.stderr
    assert shell("check swizzle-out/app --config none --baseline none").returncode == 1


def test_a_program_in_triton_is_shown_again_without_its_cache(app_folder: Path, shell: Shell, tmp_path: Path) -> None:
    report = tmp_path / "triton.ncu-rep"
    report.write_bytes(triton_caches.report())
    cache = triton_caches.fill(app_folder / "cache")
    done = shell("profile --engine ncu -- ./app", FAKE_NCU_REPORT=str(report), TRITON_CACHE_DIR="cache")
    assert done.returncode == 0, done.stderr
    cache.rename(app_folder / "gone")
    again = shell("report swizzle-out/app/report.ncu-rep --launch 0 -o page.html --json -")
    (profile,) = json.loads(again.stdout)["profiles"]
    assert profile["instructions"]["stacks"]
    stacks = {tuple(map(tuple, stack)) for stack in profile["instructions"]["stacks"]}
    assert ((triton_caches.HELPERS, 17), (triton_caches.SOURCE, 14)) in stacks
    assert "source lines end" not in again.stdout


def test_a_baseline_is_paired_by_kernel(
    app_folder: Path, shell: Shell, recorded_file: Callable[[str], Path], tmp_path: Path
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
    run = run_folder.load(app_folder / "swizzle-out" / "app")
    assert run.columns == ("old", "app")
    assert len(run.subjects) == 3
    again = shell("report swizzle-out/app --json -")
    assert json.loads(again.stdout)["kernels"] == data["kernels"]


def test_a_program_with_one_kernel_is_shown_as_a_kernel_is(shell: Shell, report_file: Path, app_folder: Path) -> None:
    done = shell("profile --engine ncu -c 1 -- ./app", FAKE_NCU_REPORT=str(report_file))
    assert done.returncode == 0, done.stderr
    assert "kernel2 has no excessive shared-memory wavefronts" in done.stdout
    assert (app_folder / "swizzle-out" / "app" / "000-kernel2.json").is_file()
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


def test_a_program_that_fails_is_heard(shell: Shell, app_folder: Path) -> None:
    done = shell("profile --engine ncu -- ./app --size 3", STATUS="7")
    assert done.returncode == 4
    assert "exited with code 7" in done.stderr
    assert f"app's last output:\nin {app_folder} with --size 3\ndone" in done.stderr
    assert "./app --size 3" in done.stderr.split("try: ")[1]
    assert not (app_folder / "swizzle-out").exists()


def test_no_kernel_names_those_that_there_are(shell: Shell, app_folder: Path) -> None:
    done = shell("profile --engine ncu -k regex:nothing -- ./app", "nothing")
    assert done.returncode == 4
    assert "app launches kernel2" in done.stderr
    assert "-k, -s, -c, --nvtx-include" in done.stderr
    assert not (app_folder / "swizzle-out").exists()


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("profile", "nothing to profile: give a kernel, or a program after --", "ncu-swizzle profile -- ./app"),
        ("profile --", "nothing to profile", "ncu-swizzle profile -- ./app"),
        ("profile ./app", "./app is a file, not a kernel", "ncu-swizzle profile -- ./app"),
        ("profile -- ./nowhere --x", "./nowhere is not an executable", "./nowhere --x"),
        ("profile --engine recorded -- ./app", "there are no recordings of your programs", "ncu-swizzle report FILE"),
        (
            "profile --problem n=3 -- ./app",
            "--problem: only for kernels of the catalogue, not for a program",
            "-- ./app --size 4096",
        ),
        ("profile --reference none -- ./app", "--reference: only for kernels of the catalogue, not for a program", ""),
        (
            "profile -k x -s 2 kernel2",
            "--kernel-name, --launch-skip: only for programs, and kernel2 is a single kernel",
            "-- ./app",
        ),
        ("profile --pair a=b kernel2", "--pair: only for programs, and kernel2 is a single kernel", ""),
        ("profile --engine ncu --pair a -- ./app", "--pair a is not of the form A=B", ""),
        ("profile --engine ncu --baseline nowhere -- ./app", "--baseline nowhere does not exist", ".ncu-rep"),
        ("profile --engine ncu --ncu-args '--x \"' -- ./app", "--ncu-args", "--sampling-interval"),
        ("report app --pair a=b --launch 2", "is not an Nsight Compute report", ""),
    ],
)
def test_mistakes_are_told_before_anything_runs(
    line: str, said: str, hint: str, shell: Shell, app_folder: Path
) -> None:
    done = shell(line)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
    assert [file.name for file in app_folder.iterdir()] == ["app"]


def test_what_follows_a_kernel_still_goes_to_ncu(shell: Shell) -> None:
    done = shell(
        "profile kernel2 --engine ncu --baseline none --reference none --json - --ncu-args '--sampling-interval 0'",
        "ok",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["labels"] == ["kernel2"]
