"""The commands with a user's own kernels: measured by a stand-in for ncu, and emulated."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

import ncu_swizzle
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.kernels import family
from tests.support.marks import NEEDS_ALL, without_gpu
from tests.support.own_kernel import EXAMPLE, TYPED, VARIANTS, own
from tests.support.process import Command, Typed
from tests.support.tiles import LAUNCHES

MEASURED = "--engine ncu --json -"
LAUNCH = shlex.join(TYPED)
EMULATED = ("--engine", "emulated", "--config", "none")
ODD = ("odd.cu", *LAUNCHES["odd.cu"], *EMULATED)
BOTH = ("--before", "-DPITCH=24", "--after", "-DPITCH=25")


# ---------------------------------------------------------------------------------------------- measured


@without_gpu
def test_before_and_after_are_profiled_in_one_run(typed: Typed, work: Path, fake: dict[str, str]) -> None:
    own(work / "a dir")
    done = typed(f"profile 'a dir/my.cu' {MEASURED} {LAUNCH}", *VARIANTS, FAKE_NCU="own", **fake)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["labels"] == ["transpose (before)", "transpose (after)"]
    assert "removes all" in content["verdict"]
    unchecked = "transpose (before), transpose (after): output not checked, as there is no reference."
    assert content["warnings"] == [unchecked]
    folder = work / "swizzle-out" / "transpose-after"
    assert {file.name for file in folder.iterdir()} == {
        *("run.json", "report.html", "transpose.family.json"),
        *(f"transpose-{way}.{end}" for way in ("before", "after") for end in ("json", "ncu-rep", "facts.json")),
    }
    assert "output not checked" in (folder / "report.html").read_text(encoding="utf-8")
    again = typed("report swizzle-out/transpose-after")
    assert "transpose (after) removes all" in " ".join(again.stdout.split())
    saved = json.loads((folder / "transpose-after.json").read_text(encoding="utf-8"))
    assert saved["sources"].keys() == {"my.cu"}
    assert family.read(folder / "transpose.family.json").folder == work / "a dir"


@without_gpu
def test_a_project_s_kernel_is_profiled_by_name_and_checked(typed: Typed, work: Path, fake: dict[str, str]) -> None:
    shutil.copytree(EXAMPLE, work / "own")
    (work / "own" / "tile-swizzled").mkdir()  # a folder of the kernel's name is in nobody's way
    file = typed("profile own/my.cu --engine ncu", FAKE_NCU="own", **fake)
    assert "tile-swizzled removes all" in " ".join(file.stdout.split())
    typed.folder = work / "own"
    content = json.loads(typed(f"profile tile-swizzled {MEASURED}", FAKE_NCU="own", **fake).stdout)
    assert (content["labels"], content["warnings"]) == (["tile-rowmajor", "tile-swizzled"], [])
    gate = typed("check tile-rowmajor --engine ncu", FAKE_NCU="own", **fake)
    assert gate.returncode == 1, gate.stderr
    listed = typed("list").stdout
    assert "tile-swizzled" in listed
    assert "kernel2" in listed


REFUSED = {
    f"profile my.cu {LAUNCH} --engine recorded": (3, "was not recorded"),
    "profile my.cu": (2, "transpose has no grid"),
    f"profile my.cu {LAUNCH} --arg q=float32[z]:out": (2, "argument q"),
    f"profile none.cu {LAUNCH}": (2, "none.cu does not exist"),
    "profile kernel2 --grid 1": (2, "--grid describes a .cu file"),
    "check kernel1 --grid 4": (2, "--grid describes a .cu file, and kernel1 is not one"),
    "report kernel1 --grid 4": (2, "--grid describes a .cu file, and kernel1 is not one"),
    "sweep kernel1 --grid 4": (2, "--grid describes a .cu file, and kernel1 is not one"),
    "report my.cu": (2, "transpose has no grid"),
    f"profile --no-ncu my.cu {LAUNCH}": (3, "PyCUDA cannot be imported"),
    "list --catalog .": (2, "is not a catalogue"),
    "profile kernel2 --config none.toml": (2, "none.toml does not exist"),
}


@without_gpu
def test_nothing_is_measured_here_and_nothing_is_left(typed: Typed, work: Path, fake: dict[str, str]) -> None:
    own(work)
    for line, (status, said) in REFUSED.items():
        done = typed(line)
        assert (done.returncode, said in done.stderr) == (status, True), (line, done.stderr)
    child = typed(f"profile my.cu --engine ncu {LAUNCH}", FAKE_NCU="really", **fake)
    assert child.returncode == 3
    assert "PyCUDA cannot be imported" in child.stderr or "no usable GPU" in child.stderr
    assert [file.name for file in work.iterdir()] == ["my.cu"]


# ---------------------------------------------------------------------------------------------- emulated


@pytest.mark.long
@NEEDS_ALL
def test_check_judges_a_file_and_of_two_variants_the_latter(command: Command) -> None:
    plain = command("check", *ODD, "-D", "PITCH=24")
    assert plain.returncode == 1, plain.stderr
    assert "odd_rows: 168 excessive wavefronts" in plain.stdout
    after = command("check", *ODD, *BOTH)
    assert after.returncode == 0, after.stderr
    assert "odd_rows (after): 0 excessive wavefronts" in after.stdout
    saved = command("check", "--save-baseline", *ODD, "-D", "PITCH=24")
    assert "odd_rows" in saved.stdout


@pytest.mark.long
@NEEDS_ALL
def test_report_takes_variants_files_and_projects(command: Command, tmp_path: Path) -> None:
    content = json.loads(command("report", *ODD, *BOTH, "--json", "-").stdout)
    assert content["labels"] == ["odd_rows (before)", "odd_rows (after)"]
    assert "removes all" in content["verdict"]
    files = command("report", "odd.cu", "half", "--engine", "emulated", "--json", "-")
    assert json.loads(files.stdout)["labels"] == ["odd-plain", "odd-padded", "half"]
    text = (tmp_path / "clean.cu").read_text()
    (tmp_path / "other.cu").write_text(text.replace("31 - threadIdx.x", "31 & threadIdx.x"))
    same = command("report", "clean.cu", "other.cu", *LAUNCHES["clean.cu"], *EMULATED, "--json", "-")
    assert json.loads(same.stdout)["labels"] == ["clean of clean.cu", "clean of other.cu"]


@pytest.mark.long
@NEEDS_ALL
def test_sweep_takes_a_file_over_its_sizes(command: Command) -> None:
    arguments = ("--grid", "n//64,n//64", "--block", "32,8", *LAUNCHES["half.cu"][6:])
    done = command("sweep", "half.cu", *arguments, "--problem", "n=64,128", *EMULATED, "--json", "-")
    assert done.returncode == 0, done.stderr
    rows = [(point["n"], point["excessive"]) for point in json.loads(done.stdout)["points"]]
    assert rows == [(64, 3968), (128, 4 * 3968)]
    both = command("sweep", *ODD, *BOTH, "--csv", "-")
    assert both.stdout.count("odd_rows (after)") >= 1


@pytest.mark.long
@NEEDS_ALL
def test_python_functions_take_files(command: Command) -> None:
    own = {"grid": "1", "block": "32", "shared": 4096, "args": ["float32[768]:random", "float32[768]:out"]}
    pair = {"before": "-DPITCH=24", "after": "-DPITCH=25"}
    assert command("list").returncode == 0
    verdict = ncu_swizzle.check("odd.cu", engine="emulated", raising=False, **own, define="PITCH=24")
    assert verdict.outcome.name == "failed"
    assert ncu_swizzle.check("odd.cu", engine="emulated", **own, **pair).outcome.name == "passed"
    compared = ncu_swizzle.compare("odd.cu", engine="emulated", **own, **pair)
    assert compared.labels == ("odd (before)", "odd (after)")
    with pytest.raises(UsageError, match="unknown option 'gird'"):
        ncu_swizzle.compare("odd.cu", engine="emulated", gird="1")
