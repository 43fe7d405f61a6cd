"""Commands that take a launches file wherever they take a report, and what they refuse beside one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.captures import changed, recorded
from tests.support.marks import NEEDS_ALL
from tests.support.places import PROGRAMS
from tests.support.process import Command

TURNS = 512 * 512 // 32 * 31  # excessive wavefronts of a column of 32 floats, 512 x 512


pytestmark = pytest.mark.usefixtures("launches_files")


@pytest.mark.long
@NEEDS_ALL
def test_profile_makes_a_run_of_all_launches(command: Command, tmp_path: Path) -> None:
    done = command("profile", "graph.launches", "--engine", "emulated", "--json", "-")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert [row["excessive"][0] for row in content["kernels"]] == [TURNS, TURNS // 4, TURNS, 61440, 0, 0]
    assert [row["launch"][0] for row in content["kernels"]] == list(range(6))
    folder = tmp_path / "swizzle-out" / "graph"
    names = sorted(file.name for file in folder.iterdir())
    assert names[:2] == ["000-turn.json", "001-turn.json"]
    assert {"run.json", "report.html"} < set(names)
    saved = json.loads((folder / "000-turn.json").read_text(encoding="utf-8"))
    assert (folder / saved["report"]).is_file(), "its cubin"
    assert saved["launch"]["grid"] == [16, 16, 1]
    again = command("report", "swizzle-out/graph", "--json", "-")
    assert json.loads(again.stdout)["kernels"] == content["kernels"]


@pytest.mark.long
@NEEDS_ALL
def test_profile_selects_launches_and_pairs_them_with_a_baseline(command: Command) -> None:
    done = command("profile", "graph.launches", "-k", "turn", "-s", "1", "-c", "2", "--json", "-")
    assert len(json.loads(done.stdout)["kernels"]) == 2
    paired = command("profile", "graph.launches", "-k", "rowsum", "--baseline", "graph.launches", "--json", "-")
    rows = json.loads(paired.stdout)["kernels"]
    assert [row["excessive"] for row in rows if len(row["excessive"]) == 2] == [[0, 0]]


@pytest.mark.long
@NEEDS_ALL
def test_lint_names_the_lines(command: Command) -> None:
    done = command("lint", "graph.launches", "driver.launches", "--sarif", "out.sarif")
    assert done.returncode == 1
    assert "turn, LDS: degree 32, at most 1 allowed: 253,952 excessive wavefronts" in done.stdout
    assert "several.cu:32" in done.stdout
    assert "columns, LDS: degree 32" in done.stdout
    assert "rowsum: 5 accesses to shared memory, none over its limit" in done.stdout
    results = json.loads(Path("out.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
    assert {result["ruleId"] for result in results} == {"SW001"}


@NEEDS_ALL
def test_what_is_unknown_is_inconclusive(command: Command, tmp_path: Path) -> None:
    def forget(manifest: dict[str, object]) -> None:
        for launch in manifest["launches"]:  # type: ignore[attr-defined]
            for part in (*launch["buffers"], *launch["variables"]):
                part["contents"] = {"sha256": "", "why": "captured without --memory"}

    changed(recorded("counting"), tmp_path / "bare.launches", forget)
    for name in ("lint", "check"):
        done = command(name, "bare.launches")
        assert done.returncode == 5, done.stdout
        assert "inconclusive" in done.stdout
    assert "ncu-swizzle capture --memory" in command("lint", "bare.launches", "--json", "-").stdout


@pytest.mark.long
@NEEDS_ALL
def test_check_report_and_explain_take_launches(command: Command) -> None:
    checked = command("check", "graph.launches", "--max-degree", "LDS=32", "--max-excessive", "300000")
    assert checked.returncode == 0, checked.stdout
    assert command("check", "driver.launches", "--save-baseline").returncode == 0
    assert command("check", "driver.launches", "--max-excessive", "999999").returncode == 0
    compared = command("report", "graph.launches", "graph.launches", "-k", "rowsum")
    assert compared.returncode == 0, compared.stderr
    shown = command("report", "driver.launches", "--launch", "0", "-o", "page.html")
    assert shown.returncode == 0, shown.stderr
    assert "columns" in Path("page.html").read_text(encoding="utf-8")
    suggested = command("explain", "driver.launches", "--show", "mapping")
    assert "Swizzle<5,0,5>" in suggested.stdout
    drawn = command("explain", "driver.launches", "--show", "map")
    assert drawn.returncode == 0, drawn.stderr


@pytest.mark.long
@NEEDS_ALL
def test_a_pull_request_that_brings_a_conflict_back_fails(command: Command, tmp_path: Path) -> None:
    text = (PROGRAMS / "driver.cu").read_text(encoding="utf-8")
    rebuild = ("check", "driver.launches", "--rebuild", "nvcc -O3 -lineinfo driver.cu -o driver -lcuda")
    (tmp_path / "driver.cu").write_text(text.replace("threadIdx.x * strides.row", "threadIdx.x * 33"), encoding="utf-8")
    good = command(*rebuild)
    assert good.returncode == 0, good.stdout + good.stderr
    (tmp_path / "driver.cu").write_text(text.replace("threadIdx.x * strides.row", "threadIdx.x * 32"), encoding="utf-8")
    bad = command(*rebuild)
    assert bad.returncode == 1
    assert "(driver.cu:27)" in bad.stdout
    (tmp_path / "driver.cu").write_text(text.replace("char odd,", "int odd,"), encoding="utf-8")
    other = command(*rebuild)
    assert other.returncode == 2
    assert "the parameters of columns changed" in other.stderr
    linted = command("lint", "driver.launches", "--rebuild", "nvcc driver.cu")
    assert "the parameters of columns changed" in linted.stderr


@pytest.mark.long
@NEEDS_ALL
def test_cubins_can_be_named(command: Command, tmp_path: Path) -> None:
    from ncu_swizzle.capture.file import open_launches

    with open_launches(recorded("driver")) as file:
        (tmp_path / "new.cubin").write_bytes(file.cubin(next(iter(file.manifest.cubins))))
    done = command("profile", "driver.launches", "--cubin", "new.cubin", "--json", "-")
    same = command("profile", "driver.launches", "--json", "-")
    assert json.loads(done.stdout)["kernels"] == json.loads(same.stdout)["kernels"]


REFUSED = {
    "profile graph.launches --engine ncu": "holds launches, which are emulated",
    "profile graph.launches --grid 1": "--grid describes a .cu file",
    "profile graph.launches --nvtx-include a/": "not for captured launches, which are emulated",
    "profile graph.launches --reference none": "--reference: not for captured launches",
    "profile graph.launches -k nothing": "no kernel matches nothing",
    "profile missing.launches": "missing.launches does not exist",
    "lint missing.launches": "missing.launches does not exist",
    "check missing.launches": "missing.launches does not exist",
    "lint graph.launches --grid 1": "--grid describes a .cu file",
    "profile clean.cu --cubin x.cubin": "--cubin is for launches files, and clean.cu is none",
    "check w.json --rebuild nvcc": "--rebuild is for launches files, and w.json is none",
    "profile graph.launches --baseline nothing.launches": "--baseline nothing.launches does not exist",
    "capture": "no program follows --",
    "capture -- ./nothing": "./nothing is not an executable program",
    "capture -k regex:( -- /bin/true": "is not a valid regular expression",
}


def test_what_does_not_go_together_is_refused(command: Command) -> None:
    for line, said in REFUSED.items():
        done = command(*line.split())
        assert done.returncode == 2, (line, done.stderr)
        assert said in done.stderr, line
        assert "try: " in done.stderr, line


def test_a_damaged_file_is_an_error_everywhere(command: Command, tmp_path: Path) -> None:
    data = recorded("graph").read_bytes()
    (tmp_path / "cut.launches").write_bytes(data[: len(data) // 2])
    for name in ("profile", "lint", "check", "report", "explain"):
        done = command(name, "cut.launches")
        assert done.returncode == 2, (name, done.stderr)
        assert "cut.launches is damaged" in done.stderr
