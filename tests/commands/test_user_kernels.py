"""The commands with a user's own kernels."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.kernels import family
from tests.support.marks import without_gpu
from tests.support.own_kernel import EXAMPLE, KERNEL, TYPED, VARIANTS, own
from tests.support.process import command


def own_result(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@without_gpu
def test_before_and_after_are_profiled_in_one_run(work: Path, fake: Callable[[str], dict[str, str]]) -> None:
    own(work / "a dir")
    done = command(
        "profile", "a dir/my.cu", "--engine", "ncu", *TYPED, *VARIANTS, "--json", "-", folder=work, env=fake("own")
    )
    found = own_result(done)
    assert found["labels"] == ["transpose (before)", "transpose (after)"]
    assert "removes all" in str(found["verdict"])
    assert found["warnings"] == ["transpose (before), transpose (after): output not checked, as there is no reference."]
    folder = work / "swizzle-out" / "transpose-after"
    assert {file.name for file in folder.iterdir()} == {
        *("run.json", "report.html", "transpose.family.json"),
        *(f"transpose-{way}.{end}" for way in ("before", "after") for end in ("json", "ncu-rep", "facts.json")),
    }
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "output not checked" in page
    again = command("report", "swizzle-out/transpose-after", folder=work)
    assert again.returncode == 0, again.stderr
    assert "transpose (after) removes all" in " ".join(again.stdout.split())
    saved = json.loads((folder / "transpose-after.json").read_text(encoding="utf-8"))
    assert saved["sources"].keys() == {"my.cu"}
    assert family.read(folder / "transpose.family.json").folder == work / "a dir"


@without_gpu
def test_a_project_s_kernel_is_profiled_by_name_and_checked(
    work: Path,
    fake: Callable[[str], dict[str, str]],
) -> None:
    shutil.copytree(EXAMPLE, work / "own")
    (work / "own" / "tile-swizzled").mkdir()  # a folder of the kernel's name is in nobody's way
    done = command(
        *("profile", "tile-swizzled", "--engine", "ncu", "--json", "-"), folder=work / "own", env=fake("own")
    )
    found = own_result(done)
    assert found["labels"] == ["tile-rowmajor", "tile-swizzled"]
    assert found["warnings"] == []
    file = command("profile", "own/my.cu", "--engine", "ncu", folder=work, env=fake("own"))
    assert file.returncode == 0, file.stderr
    assert "tile-swizzled removes all" in " ".join(file.stdout.split())
    gate = command("check", "tile-rowmajor", "--engine", "ncu", folder=work / "own", env=fake("own"))
    assert gate.returncode == 1, gate.stderr
    listed = command("list", folder=work / "own").stdout
    assert "tile-swizzled" in listed
    assert "kernel2" in listed


@without_gpu
def test_hostile_names_stay_text(work: Path, fake: Callable[[str], dict[str, str]]) -> None:
    name = "</script><img src=x onerror=alert(1)> [/bold]"
    own(work, KERNEL.replace("[kernel.tile]", f"[kernel.'{name}']").replace("my.cu", "my <b>.cu"))
    (work / "my.cu").rename(work / "my <b>.cu")
    done = command("profile", name, "--engine", "ncu", folder=work, env=fake("own"))
    assert done.returncode == 0, done.stderr
    assert name.split(" ", maxsplit=1)[0] in done.stdout
    (page,) = work.glob("swizzle-out/*/report.html")
    assert "<img src=x" not in page.read_text(encoding="utf-8")
    assert command("list", folder=work).returncode == 0


@without_gpu
def test_nothing_is_measured_here_and_nothing_is_left(work: Path) -> None:
    own(work)
    done = command("profile", "my.cu", *TYPED, "--engine", "recorded", folder=work)
    assert done.returncode == 3
    assert "was not recorded" in done.stderr
    assert [file.name for file in work.iterdir()] == ["my.cu"]
    for typed, code, said in (
        (("profile", "my.cu"), 2, "transpose has no grid"),
        (("profile", "my.cu", *TYPED, "--arg", "q=float32[z]:out"), 2, "argument q"),
        (("profile", "none.cu", *TYPED), 2, "none.cu does not exist"),
        (("profile", "kernel2", "--grid", "1"), 2, "--grid describes a .cu file"),
        (("report", "my.cu"), 2, "transpose has no grid"),
        (("profile", "--no-ncu", "my.cu", *TYPED), 3, "PyCUDA cannot be imported"),
        (("list", "--catalog", "."), 2, "is not a catalogue"),
        (("profile", "kernel2", "--config", "none.toml"), 2, "none.toml does not exist"),
    ):
        failed = command(*typed, folder=work)
        assert (failed.returncode, said in failed.stderr) == (code, True), (typed, failed.stderr)
        assert "Traceback" not in failed.stderr


@without_gpu
def test_the_child_s_error_comes_through(work: Path, fake: Callable[[str], dict[str, str]]) -> None:
    own(work)
    done = command("profile", "my.cu", "--engine", "ncu", *TYPED, folder=work, env=fake("really"))
    assert done.returncode == 3
    assert "PyCUDA cannot be imported" in done.stderr or "no usable GPU" in done.stderr
    assert [file.name for file in work.iterdir()] == ["my.cu"]


@pytest.mark.parametrize("name", ["profile", "report"])
def test_the_help_names_every_option_of_a_file(name: str, tmp_path: Path) -> None:
    said = command(name, "--help-all", folder=tmp_path).stdout
    for option in ("--kernel", "--grid", "--block", "--arg", "--shared", "-D", "-I", "--std", "--nvcc-option",
                   "--before", "--after", "--config", "--catalog"):  # fmt: skip
        assert option in said
