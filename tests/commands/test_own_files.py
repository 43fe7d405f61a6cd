"""check, compare, sweep and baseline save with .cu, cubin and PTX files of one's own, emulated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ncu_swizzle
from ncu_swizzle.base.errors import UsageError
from tests.support.marks import NEEDS_ALL
from tests.support.process import Command
from tests.support.tiles import LAUNCHES

EMULATED = ("--engine", "emulated", "--config", "none")
ODD = ("odd.cu", *LAUNCHES["odd.cu"], *EMULATED)
BOTH = ("--before", "-DPITCH=24", "--after", "-DPITCH=25")


@pytest.mark.long
@NEEDS_ALL
def test_check_judges_a_file_and_of_two_variants_the_latter(command: Command) -> None:
    plain = command("check", *ODD, "-D", "PITCH=24")
    assert plain.returncode == 1, plain.stderr
    assert "odd_rows: 168 excessive wavefronts" in plain.stdout
    after = command("check", *ODD, *BOTH)
    assert after.returncode == 0, after.stderr
    assert "odd_rows (after): 0 excessive wavefronts" in after.stdout


@pytest.mark.long
@NEEDS_ALL
def test_compare_takes_variants_files_and_projects(command: Command) -> None:
    pair = command("report", *ODD, *BOTH, "--json", "-")
    assert pair.returncode == 0, pair.stderr
    content = json.loads(pair.stdout)
    assert content["labels"] == ["odd_rows (before)", "odd_rows (after)"]
    assert "removes all" in content["verdict"]
    files = command("report", "odd.cu", "half", "--engine", "emulated", "--json", "-")
    assert json.loads(files.stdout)["labels"] == ["odd-plain", "odd-padded", "half"]


@pytest.mark.long
@NEEDS_ALL
def test_two_files_with_a_kernel_of_the_same_name_are_told_apart(command: Command, tmp_path: Path) -> None:
    text = (tmp_path / "clean.cu").read_text()
    (tmp_path / "other.cu").write_text(text.replace("31 - threadIdx.x", "31 & threadIdx.x"))
    done = command("report", "clean.cu", "other.cu", *LAUNCHES["clean.cu"], *EMULATED, "--json", "-")
    assert json.loads(done.stdout)["labels"] == ["clean of clean.cu", "clean of other.cu"]


@pytest.mark.long
@NEEDS_ALL
def test_sweep_takes_a_file_over_its_sizes(command: Command) -> None:
    arguments = ("--grid", "n//64,n//64", "--block", "32,8", *LAUNCHES["half.cu"][6:])
    done = command("sweep", "half.cu", *arguments, "--problem", "n=64,128", *EMULATED, "--json", "-")
    assert done.returncode == 0, done.stderr
    rows = [(point["n"], point["excessive"]) for point in json.loads(done.stdout)["points"]]
    assert rows == [(64, 3968), (128, 4 * 3968)]
    both = command("sweep", *ODD, *BOTH, "--csv", "-")
    assert both.returncode == 0, both.stderr
    assert both.stdout.count("odd_rows (after)") >= 1


@pytest.mark.long
@NEEDS_ALL
def test_a_baseline_is_saved_of_a_file(command: Command) -> None:
    saved = command("check", "--save-baseline", *ODD, "-D", "PITCH=24")
    assert saved.returncode == 0, saved.stderr
    assert "odd_rows" in saved.stdout


def test_the_options_of_a_file_need_a_file(command: Command) -> None:
    for name in ("check", "report", "sweep"):
        done = command(name, "kernel1", "--grid", "4")
        assert done.returncode == 2
        assert "--grid describes a .cu file, and kernel1 is not one" in done.stderr


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
