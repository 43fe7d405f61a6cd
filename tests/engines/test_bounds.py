"""Accesses outside of the launch's buffers: found where they are, and never where there are none."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle import profile_binary
from ncu_swizzle.base.errors import TimeLimit
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.code import Code, Sass
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulated_launch, emulation
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import model
from ncu_swizzle.reports.model import Finding, Profile
from tests.support import process
from tests.support.emulation import recorded_code
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA
from tests.support.reports import EMPTY
from tests.support.stress import KERNELS, NEEDS_RECORDING, Recordings

LAUNCH = ("--grid", "4", "--block", "64", "--arg", "x=float32[200]:random", "--arg", "y=float32[200]:out")


def emulated(recordings: Recordings, name: str, less: int) -> list[str]:
    """Return what a recorded kernel accesses outside of its buffers, each by so many bytes smaller than it is."""
    family, kernel = KERNELS[name]
    profile, result, _ = recordings[name]
    cubin = Cubin(result.cubin, name)
    code = recorded_code(cubin, result.function, [(made.pc, made.sass) for made in profile.instructions])
    launch = emulated_launch.launch_of(Target(family, kernel, family.problem()), cubin, result.function)
    smaller = tuple(replace(buffer, size=max(0, buffer.size - less)) for buffer in launch.buffers)
    found = emulate(code, replace(launch, buffers=smaller)).global_accesses
    assert found.blocks
    assert not found.lacking
    return [outside.kind for outside in found.outside]


def lint_middle(work: Path, *more: str) -> str:
    """Lint a kernel of 64 blocks that leaves its buffer in block 7, and in a loop's last step in block 40."""
    shutil.copy(DATA / "engines" / "middle.cu", work)
    done = process.run("lint", "middle.cu", "--grid", "64", "--block", "64", "--arg", "y=float32[4096]:out", *more)
    assert done.returncode == 1, done.stderr
    return done.stdout


@NEEDS_RECORDING
def test_a_buffer_that_is_too_small_is_noticed(recordings: Recordings) -> None:
    names = ("bitonic", "halo", "reduction", "scan", "sgemm-edges", "triangular", "templates-plain")
    assert {name for name in names if not emulated(recordings, name, less=1)} == set()


def run(command: str, *by: str, at: str = "arange") -> subprocess.CompletedProcess[str]:
    given = ("--arg", f"at=int32[200]:{at}", "--arg", "200", "--arg", by[0], *by[1:])
    return process.run(command, "shift.cu", *LAUNCH, *given)


@NEEDS_ALL
@pytest.mark.usefixtures("shift")
def test_a_guarded_tail_and_unknown_indices_are_no_violation() -> None:
    assert run("lint", "0").returncode == 0
    assert run("lint", "0", at="random%100000").returncode == 0, "random contents are not known"


@NEEDS_ALL
def test_lint_names_line_thread_and_distance(shift: Path) -> None:
    done = run("lint", "1", "--sarif", "l.sarif")
    assert done.returncode == 1, done.stderr
    assert "write of 4 bytes right past the end of y (800 bytes), thread (7, 0, 0) of block (3, 0, 0)" in done.stdout
    assert "(shift.cu:8)" in done.stdout
    (result,) = json.loads((shift / "l.sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "SW020"
    before = run("lint", "0-3")
    assert (
        "write of 4 bytes 12 bytes before the start of y (800 bytes), thread (0, 0, 0) of block (0, 0, 0), and 2 more"
        in (before.stdout)
    )


@NEEDS_ALL
@pytest.mark.usefixtures("shift")
def test_a_known_index_counts_and_an_atomic_is_one() -> None:
    done = run("lint", "0", at="1000")
    assert done.returncode == 1, done.stderr
    assert "atomic of 4 bytes 3,200 bytes past the end of y" in done.stdout
    assert "(shift.cu:9)" in done.stdout


@NEEDS_ALL
def test_a_block_that_differs_is_checked_and_with_exhaustive_every_block(work: Path) -> None:
    some = lint_middle(work)
    assert "past the end of y (16,384 bytes), thread (0, 0, 0) of block (7, 0, 0), and 63 more" in some
    assert "of the grid's 64 blocks were checked)" in some
    every = lint_middle(work, "--exhaustive")
    assert "block (7, 0, 0), and 63 more (middle.cu:6)" in every, "nothing to say of blocks that were not checked"
    assert "block (40, 0, 0), and 63 more (middle.cu:7)" in every


@NEEDS_ALL
def test_profile_and_check_say_it_too(shift: Path) -> None:
    done = run("profile", "1", "--engine", "emulated", "--json", "p.json", "--markdown", "p.md")
    assert done.returncode == 0, done.stderr
    said = "shift.cu:8: write of 4 bytes right past the end of y"
    folder = shift / "swizzle-out" / "shift"
    page = (folder / "report.html").read_text(encoding="utf-8")
    warnings = json.loads((shift / "p.json").read_text())["warnings"]
    for text in (" ".join(done.stdout.split()), page.replace("&#39;", "'"), " ".join(warnings)):
        assert said in text
        assert "output not checked" in text
    assert "output not checked" in (shift / "p.md").read_text(encoding="utf-8")
    checked = process.run("check", "swizzle-out/shift", "--json", "-")
    assert checked.returncode == 1
    verdict = json.loads(checked.stdout)
    assert {check["criterion"]: check["outcome"] for check in verdict["checks"]}["bounds"] == "fail"
    assert "output not checked" in verdict["notes"][0]
    assert Profile.from_json((folder / "shift.json").read_text(encoding="utf-8")).findings


@pytest.mark.long
@NEEDS_ALL
def test_a_null_pointer_and_one_that_only_the_caller_knows(shift: Path) -> None:
    unit = f'#include "{shift / "shift.cu"}"\n'
    (shift / "s.cubin").write_bytes(Toolchain().compile(unit, ["-lineinfo"], "sm_90", []))
    x, at, numbers = np.ones(200, np.float32), np.zeros(200, np.int32), [struct.pack("<i", n) for n in (200, 0)]

    def messages(y: bytes | np.ndarray) -> list[str]:
        arguments = [x, y, at, *numbers]
        profile = profile_binary(shift / "s.cubin", "shift", grid=(4,), block=(64,), shared=0, parameters=arguments)
        return [found.message for found in model.violations(profile)]

    assert messages(np.ones(200, np.float32)) == []
    assert "write of 4 bytes through a null pointer (address 0x0)" in messages(struct.pack("<Q", 0))[0]
    assert messages(struct.pack("<Q", 0x1234_5678_0000)) == [], "what lies there is not known"
    assert "of parameter 1 (400 bytes)" in messages(np.ones(100, np.float32))[0]


def test_a_title_that_is_no_line_is_none() -> None:
    for title in ("", "k.cu", ":7", "k.cu:", "k.cu:x", "k.cu:٣", f"k.cu:{'9' * 5000}"):
        forged = Finding(rule=model.BOUNDS_RULE, kind="warning", title=title, message="outside")
        found = list(model.violations(replace(EMPTY, findings=(forged,))))
        assert found == [("outside", None, model.BOUNDS_RULE, "SW020")], title[:9]


def test_no_shared_memory_is_called_too_small_because_the_time_was_over() -> None:
    lines = ("S2R R0, SR_TID.X", "LEA R1, R0, 0x1400, 0x2", "STS [R1], R0", "EXIT")
    code = Code(name="k", instructions=tuple(Sass(16 * at, line) for at, line in enumerate(lines)), shared_bytes=0x400)
    launch = Launch(grid=(1, 1, 1), block=(32, 1, 1))
    assert emulation._needed(code, launch, 1 << 16, 60.0) == 0x1080
    assert emulation._needed(code, launch, 1 << 10, 60.0) is None
    with pytest.raises(TimeLimit):
        emulation._needed(code, launch, 1 << 16, 0.0)
