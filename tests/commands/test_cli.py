"""The command line as a process: what it prints, writes and returns, with and without an ncu that fails."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from ncu_swizzle.kernels import gpu
from ncu_swizzle.reports.model import Profile
from tests.support.process import command, environment
from tests.support.recordings import Recorded

pytestmark = pytest.mark.skipif(not gpu.absent(), reason="these tests are about machines without a GPU")


@pytest.mark.parametrize(
    "line", ["profile kernel2 --engine recorded --json -", "list", "profile kernel9", "explain --help", "check"]
)
def test_a_forked_command_is_as_any_other(line: str, work: Path) -> None:
    """Nearly all tests of commands fork them from a process that has loaded everything."""
    started = subprocess.run(
        [sys.executable, "-m", "ncu_swizzle", *line.split()],
        capture_output=True, text=True, check=False, cwd=work, env=environment(),
    )  # fmt: skip
    shutil.rmtree(work / "swizzle-out", ignore_errors=True)
    forked = command(*line.split(), folder=work)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def test_the_version_is_the_installed_one(work: Path) -> None:
    done = command("--version", folder=work)
    assert (done.returncode, done.stdout) == (0, f"ncu-swizzle {metadata.version('ncu-swizzle')}\n")
    assert "--version" in command("--help", folder=work).stdout


# ---------------------------------------------------------------------------------------------- without a GPU


def test_the_main_job_shows_what_was_recorded(work: Path, recorded: Recorded) -> None:
    done = command("profile", "kernel2", "--engine", "recorded", folder=work)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Recorded, not measured now: NVIDIA H100 80GB HBM3, ncu 2025.3.1.0, ")
    assert "1,882,718,208" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    folder = work / "swizzle-out" / "kernel2"
    assert {file.name for file in folder.iterdir()} == {
        *("run.json", "report.html"),
        *(f"{name}.{end}" for name in ("kernel1", "kernel2", "reference-attention")
          for end in ("json", "ncu-rep", "facts.json")),
    }  # fmt: skip
    assert Profile.from_json((folder / "kernel2.json").read_text(encoding="utf-8")) == recorded("kernel2")
    assert "Recorded, not measured now" in (folder / "report.html").read_text(encoding="utf-8")
    assert "swizzle-out/kernel2/" in done.stdout


def test_json_is_all_there_is_on_stdout(work: Path) -> None:
    done = command("profile", "kernel2", "--engine", "recorded", "--json", "-", folder=work)
    found = json.loads(done.stdout)
    assert found["engine"] == "recorded"
    assert [profile["engine"] for profile in found["profiles"]] == ["recorded"] * 3
    assert found["labels"] == ["kernel1", "kernel2", "reference-attention"]
    degrees = {(row["label"], row["access"]): row["degree"] for row in found["accesses"]}
    assert degrees["kernel1", "LDSM"] == 8
    assert degrees["kernel2", "LDSM"] == 1
    assert "kernel2 removes all" in found["verdict"]
    worst = max(found["lines"], key=lambda row: (row["excessive"] or 0, -row["samples"]))
    assert (worst["label"], worst["excessive"]) == ("kernel1", 1_886_388_224)


def test_baseline_and_reference_can_be_left_away(work: Path) -> None:
    done = command("profile", "kernel2", "--baseline", "none", "--reference", "none", "--json", "-", folder=work)
    assert json.loads(done.stdout)["labels"] == ["kernel2"]


def test_a_baseline_can_be_a_file(work: Path) -> None:
    command("profile", "kernel1", "-o", "before", folder=work)
    done = command(
        *("profile", "kernel2", "--baseline", "before/kernel1.json", "--reference", "none", "--json", "-"), folder=work
    )
    assert json.loads(done.stdout)["labels"] == ["kernel1", "kernel2"]


def test_compare_takes_whatever_holds_a_profile(work: Path) -> None:
    command("profile", "kernel2", "--engine", "recorded", folder=work)
    run = "swizzle-out/kernel2"
    entries = (f"{run}/kernel1.ncu-rep", f"{run}/kernel2.json", run, "kernel1")
    done = command("report", *entries, "--engine", "recorded", "--json", "-", folder=work)
    found = json.loads(done.stdout)
    assert found["labels"] == ["kernel1 #1", "kernel2 #1", "kernel2 #2", "kernel1 #2"]
    assert found["files"] == []
    assert [profile["engine"] for profile in found["profiles"]] == ["recorded"] * 4, "copies stay what they are"
    whole = command("report", run, "-o", "page/again.html", "--json", "data.json", folder=work)
    assert whole.returncode == 0, whole.stderr
    again = (work / "page" / "again.html").read_bytes()
    assert again == (work / run / "report.html").read_bytes(), "made again from the saved profiles, to the byte"
    assert json.loads((work / "data.json").read_text(encoding="utf-8"))["labels"][0] == "kernel1"
    assert sorted(file.name for file in work.iterdir()) == ["data.json", "page", "swizzle-out"]


def test_list_shows_every_kernel(work: Path) -> None:
    done = command("list", folder=work)
    assert done.returncode == 0
    for word in ("attention", "kernel1", "kernel2", "reference-attention", "h100"):
        assert word in done.stdout
    families = json.loads(command("list", "--json", "-", folder=work).stdout)
    assert families[0]["kernels"][1]["degree"] == {"LDGSTS": 1, "LDSM": 1, "STS": 1, "LDS": 1}


def test_help_is_printed_without_a_command_too(work: Path) -> None:
    printed = command("--help", folder=work)
    assert printed.returncode == 0
    assert printed.stdout == command(folder=work).stdout
    assert "3  something is missing: a GPU, ncu, a permission" in printed.stdout
    for name in ("profile", "report", "explain", "list"):
        assert command(name, "--help", folder=work).returncode == 0


# ---------------------------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("arguments", "status", "said", "hint"),
    [
        (["profile", "kernl2"], 2, "unknown kernel 'kernl2', did you mean 'kernel2'?", "ncu-swizzle list"),
        (["profile", "kernel2", "--problem", "seq=100"], 2, "seq=100 is not supported", "seq=4096"),
        (["profile", "kernel2", "--problem", "depth=1"], 2, "has no parameter 'depth'", "batch (sequences), heads ("),
        (["profile", "kernel2", "--problem", "seq"], 2, "'seq' is not NAME=SIZE", ""),
        (
            ["profile", "kernel2", "--problem", "seq=128", "--engine", "recorded"],
            3,
            "was recorded at batch=4",
            "leave out --problem",
        ),
        (["profile", "kernel2", "--engine", "ncu"], 3, "ncu) was not found", "--engine recorded"),
        (["profile", "kernel2", "--ncu", "/nowhere", "--engine", "ncu"], 3, "/nowhere is not an executable", "--ncu"),
        (["profile", "kernel2", "--baseline", "no.ncu-rep"], 2, "no.ncu-rep does not exist", "ls swizzle-out"),
        (["profile", "kernel2", "-o", "/proc/out"], 2, "cannot write to /proc", "-o"),
        (["report", "dir/nothing"], 2, "dir/nothing does not exist", "ls swizzle-out"),
        (["report", "."], 2, "is not a run's folder", "ls swizzle-out"),
        (["report", "kernel1", "-o", "/proc/x.html"], 2, "cannot write /proc/x.html", "-o"),
        (["profile", "--no-ncu", "kernel2"], 3, "PyCUDA cannot be imported", "pip install 'ncu-swizzle[gpu]'"),
        (["nonsense"], 2, "nonsense", ""),
        (["profile"], 2, "kernel", ""),
    ],
)
def test_mistakes_say_what_to_type_next(arguments: list[str], status: int, said: str, hint: str, work: Path) -> None:
    if "--no-ncu" in arguments and shutil.which("nvidia-smi"):
        pytest.skip("PyCUDA may be here")
    done = command(*arguments, folder=work)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(work.iterdir()) == [], "nothing half-written"


def test_damaged_and_foreign_files_are_told_apart(work: Path, report_file: Path) -> None:
    (work / "cut.ncu-rep").write_bytes(report_file.read_bytes()[:-100])
    (work / "foreign.ncu-rep").write_bytes(b"PK\3\4")
    (work / "cut.json").write_text('{"schema": 1, "dig', encoding="utf-8")
    (work / "foreign.json").write_text("[]", encoding="utf-8")
    for name, said in {
        "cut.ncu-rep": "is damaged",
        "foreign.ncu-rep": "is not an Nsight Compute report",
        "cut.json": "is damaged",
        "foreign.json": "is not a saved profile",
    }.items():
        done = command("report", name, folder=work)
        assert done.returncode == 2
        assert f"{name} {said}" in done.stderr


def test_an_existing_run_is_kept(work: Path) -> None:
    assert command("profile", "tma-128", "--engine", "recorded", "-o", "out", folder=work).returncode == 0
    before = (work / "out" / "run.json").stat().st_mtime_ns
    again = command("profile", "tma-128", "--engine", "recorded", "-o", "out", folder=work)
    assert again.returncode == 2
    assert "already holds" in again.stderr
    assert "-f" in again.stderr
    assert (work / "out" / "run.json").stat().st_mtime_ns == before
    assert command("profile", "tma-128", "--engine", "recorded", "-o", "out", "-f", folder=work).returncode == 0


def seen_on_a_terminal(code: str) -> str:
    """Return what Python code writes to a terminal, without its control sequences."""
    ours, its = pty.openpty()
    env = environment(TERM="xterm", COLUMNS="80")
    with subprocess.Popen([sys.executable, "-c", code], stdin=its, stdout=its, stderr=its, env=env):
        os.close(its)
        shown = b""
        with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
            while part := os.read(ours, 4096):
                shown += part
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


def test_a_terminal_shows_how_far_ncu_is() -> None:
    code = (
        "from ncu_swizzle.commands import output\n"
        "from ncu_swizzle.engines.settings import Done\n"
        "with output.progress() as move:\n"
        "    for part in (0, 0.4, 1): move('gemm [b]<1>', Done(part)); move('other', Done(part / 2))\n"
    )
    shown = seen_on_a_terminal(code)
    assert re.search(r"gemm \[b\]<1> \S+ 100 %", shown)
    assert re.search(r"other +\S+ +50 %", shown)
    nothing = "from ncu_swizzle.commands import output\nwith output.progress(): pass\n"
    assert seen_on_a_terminal(nothing).strip() == ""


def test_a_closed_pipe_is_no_error(work: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m ncu_swizzle list | head -1; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
        cwd=work,
        env=environment(),
    )
    assert done.returncode == 0
    assert done.stderr == ""


# ---------------------------------------------------------------------------------------------- ncu and its failures


def test_a_measured_run_is_told_apart_from_a_recorded_one(work: Path, fake: Callable[[str], dict[str, str]]) -> None:
    measured = ("profile", "kernel2", "--engine", "ncu", "--reference", "none")
    done = command(*measured, "--json", "-", folder=work, env=fake("ok"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["engine"] == "ncu"
    assert [profile["engine"] for profile in found["profiles"]] == ["ncu", "ncu"]
    assert found["labels"] == ["kernel1", "kernel2"]
    assert "Measured on NVIDIA H100" in command(*measured, folder=work, env=fake("ok")).stdout


def test_the_child_s_own_words_are_passed_on(work: Path, fake: Callable[[str], dict[str, str]]) -> None:
    done = command("profile", "kernel2", "--engine", "ncu", folder=work, env=fake("really"))
    assert done.returncode == 3
    assert "PyCUDA cannot be imported" in done.stderr or "no usable GPU" in done.stderr
