"""``ncu-swizzle lint``: lines that conflict, in tests/data/lint and in families; skipped without CUDA."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import EnvironmentLacking, UsageError
from ncu_swizzle.emulate import run
from ncu_swizzle.emulate.contents import GlobalAccesses
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.gate import linting
from ncu_swizzle.gate.linting import LintOptions
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support import process
from tests.support.families import FAMILY
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import description

TURN = ["--grid", "1", "--block", "32,32", "--arg", "x=float32[32,32]:random", "--arg", "y=float32[32,32]:out"]
CONFLICT = ["own.cu", "-D", "PITCH=32", *TURN]
BINS = ["--grid", "1", "--block", "256", "--problem", "n=1024", "--arg", "y=uint32[256]:out", "--arg", "n=int32:n"]
WMMA = ["wmma.cu", "--grid", "1", "--block", "128", "--arg", "a=float16[4096]:random", "--arg", "c=float32[1024]:out"]


def lint(*arguments: str) -> subprocess.CompletedProcess[str]:
    return process.run("lint", *arguments, env={**paths.child_environment(), "COLUMNS": "300"})


def results(sarif: Path) -> list[Any]:
    found: list[Any] = json.loads(sarif.read_text("utf-8"))["runs"][0]["results"]
    return found


@NEEDS_ALL
def test_a_conflict_is_named_with_its_line_and_the_way_out(sources: Path) -> None:
    done = lint(*CONFLICT, "--sarif", "l.sarif", "--junit", "l.xml", "--json", "l.json")
    assert done.returncode == 1, done.stderr
    assert "turn, STS: degree 32, at most 1 allowed: 992 excessive wavefronts" in done.stdout
    assert "own.cu:3" in done.stdout
    assert "Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f)) makes all of these" in done.stdout
    (result,) = results(sources / "l.sarif")
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("own.cu", 3)
    assert (result["ruleId"], result["level"]) == ("SW001", "error")
    assert ElementTree.parse(sources / "l.xml").getroot().get("failures") == "1"
    (check,) = json.loads((sources / "l.json").read_text())["checks"]
    assert (check["outcome"], check["access"], check["actual"], check["limit"]) == ("fail", "STS", 32.0, 1)


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_a_line_passes_within_its_limit() -> None:
    done = lint("own.cu", "-D", "PITCH=33", *TURN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 accesses to shared memory, none over its limit" in done.stdout
    for limit, code in {"32": 0, "31.5": 1, "LDS=1": 1, "STS=32": 0, "other:32": 1}.items():
        assert lint(*CONFLICT, "--max-degree", limit).returncode == code, limit


@NEEDS_ALL
def test_random_inputs_stand_for_the_data_on_request_and_every_line_says_so(sources: Path) -> None:
    random = ["bins.cu", *BINS[:6], "--arg", "x=uint8[n]:random", *BINS[6:]]
    assert lint(*random).returncode == 5
    done = lint(*random, "--sample", "7", "--sarif", "l.sarif")
    assert done.returncode == 1, done.stderr
    assert "excessive wavefronts, in a sample of random inputs (seed 7)" in done.stdout
    assert "counts depend on data" in done.stdout
    (result,) = results(sources / "l.sarif")
    assert "in a sample of random inputs (seed 7)" in result["message"]["text"]
    again, other = (lint(*random, "--sample", seed).stdout for seed in ("7", "8"))
    assert again == done.stdout
    assert other.splitlines()[0] != done.stdout.splitlines()[0], "other data, other counts"

    entry = '[kernel.bins]\nsource = "bins.cu"\ngrid = 1\nblock = 256\nsample = 7\n'
    arguments = '["x=uint8[1024]:random", "y=uint32[256]:out", "n=int32:1024"]'
    (sources / "ncu-swizzle.toml").write_text(f"{entry}args = {arguments}\n")
    assert lint("ncu-swizzle.toml").stdout.splitlines()[0] == done.stdout.splitlines()[0]


@NEEDS_ALL
def test_given_data_are_no_sample(sources: Path) -> None:
    np.save(sources / "x.npy", np.arange(1024, dtype=np.uint8))
    done = lint("bins.cu", *BINS[:6], "--arg", "x=x.npy", *BINS[6:], "--sample", "7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sample" not in done.stdout
    assert "sample" not in lint(*CONFLICT, "--sample", "7").stdout, "its random inputs decide nothing"


# Of files of which none was linted: what is said last, and what to type.
NOTHING = {
    "lacks.py": ("lacks.py cannot be imported: No module named 'nowhere_installed'", "install nowhere_installed"),
    "bare.py own.cu lacks.py": ("lacks.py cannot be imported", "install nowhere_installed"),
    "bare.py own.cu": ("no launch is described", "ncu-swizzle init own.cu"),
    "bare.py other.py": ("no launch is described", "name one, with its launch: ncu-swizzle lint bare.py::"),
}


@NEEDS_ALL
def test_the_last_word_is_what_keeps_everything_from_being_linted(sources: Path) -> None:
    for name in ("bare.py", "other.py"):
        (sources / name).write_text("x = 1\n")
    for files, (said, hint) in NOTHING.items():
        done = lint(*files.split())
        assert done.returncode == 5, files
        assert done.stderr.startswith(f"error: nothing was linted: {said}"), files
        assert done.stderr.splitlines()[1].startswith(f"  try: {hint}"), files


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_the_data_that_decide_are_named_and_not_the_first_buffer() -> None:
    launch = ["--grid", "2", "--block", "32", "--arg", "weights=int32[32]:random"]
    data = ["--arg", "x_ptrs=int64[2]:random", "--arg", "y=float32[1024]:out"]
    done = lint("groups.cu", *launch, *data, "--arg", "sizes=int32[2]:random")
    assert done.returncode == 5
    assert done.stderr.splitlines()[-1].startswith("  try: --arg 'sizes=int32[2]:iota%256', or a .npy file")
    assert lint("groups.cu", *launch, *data, "--arg", "sizes=int32[2]:iota%256").returncode == 1


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_stores_through_unknown_pointers_are_blamed_for_what_they_may_overwrite() -> None:
    launch = ["--grid", "1", "--block", "32", "--arg", "x_ptrs=int64[2]:random"]
    done = lint("scatter.cu", *launch, "--arg", "y_ptrs=int64[2]:random", "--arg", "sizes=int32[2]:8")
    assert done.returncode == 5
    hint = done.stderr.splitlines()[-1]
    assert hint.startswith("  try: --arg 'y_ptrs=int64[2]:1099511627776', or a .npy file")
    assert "--sample" not in hint, "random addresses are none"
    done = lint("scatter.cu", *launch, "--arg", "y_ptrs=int64[2]:1099511627776", "--arg", "sizes=int32[2]:8")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_the_size_of_dynamic_shared_memory_is_known_if_it_is_not_rounded() -> None:
    launch = ["sized.cu", "--grid", "1", "--block", "32", "--arg", "y=float32[32]:out"]
    done = lint(*launch, "--shared", "1040")
    assert done.returncode == 5
    assert "  try: --shared 1280: what a kernel reads as its size" in done.stderr
    for arch, code in {"sm_80": 0, "sm_90": 0, "sm_100": 5}.items():  # where it is there, is not known of the last
        assert lint(*launch, "--shared", "1280", "--arch", arch).returncode == code, arch


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_the_architecture_that_is_named() -> None:
    for arch, first in {"sm_75": "0x0", "sm_80": "0x0", "sm_90a": "0x400"}.items():
        done = lint(*CONFLICT, "--arch", arch)
        assert done.returncode == 1, done.stderr
        assert f"shared memory from {first} to " in done.stdout, arch
        assert "null pointer" not in done.stdout


@pytest.mark.long
@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_a_family_is_linted_variant_by_variant() -> None:
    done = lint(str(paths.kernels() / "transpose"))
    assert done.returncode == 1
    found = re.findall(r"^(pass|fail|inconclusive) +(?:SW001 )?(\S+?)[:,] ", done.stdout, re.MULTILINE)
    assert {name: outcome for outcome, name in found} == {
        "transpose-plain": "fail", "transpose-padded": "pass", "transpose-xor": "pass", "transpose-add": "pass",
        "transpose-sudoku": "pass",
    }  # fmt: skip
    source = lint(str(paths.kernels() / "transpose" / "3_xor.cu"))  # its family describes it
    assert source.returncode == 0, source.stdout + source.stderr
    assert "transpose-xor" in source.stdout


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_a_source_without_a_launch_is_not_judged() -> None:
    done = lint("own.cu")
    assert done.returncode == 2
    assert "turn has no grid and no block" in done.stderr
    several = lint("own.cu", "own.cu")
    assert several.returncode == 5
    assert "own.cu was not run: turn has no grid and no block; ncu-swizzle init own.cu describes it" in several.stdout
    assert "ncu-swizzle init own.cu own.cu" in several.stderr


def test_without_a_compiler_nothing_is_judged(sources: Path) -> None:
    with pytest.raises(EnvironmentLacking, match="nothing can be compiled here"):
        list(linting.lint_kernels(LintOptions(files=("own.cu",)), EmulationSettings(Toolchain(sources / "nowhere"))))


def test_a_limit_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match=r"max-degree is 0\.5"):
        linting.policy(["0.5"])
    with pytest.raises(UsageError, match="unknown access kind 'LDX'"):
        linting.policy(["LDX=2"])


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_an_endless_loop_is_told_with_its_line() -> None:
    done = lint("endless.cu", "--grid", "1", "--block", "32", "--arg", "x=float32[32]:out")
    assert done.returncode == 5, done.stderr
    assert "endless.cu:3: an endless loop at" in done.stdout


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_large_known_arrays_count_as_unknown_and_are_named() -> None:
    launch = ["gather.cu", "--grid", "1", "--block", "32", "--arg", "index=int32[n]:arange", "--arg",
              "y=float32[32]:out"]  # fmt: skip
    small, large = (lint(*launch, "--problem", f"n={size}") for size in (4096, 40_000_000))
    assert (small.returncode, large.returncode) == (0, 5), small.stderr
    assert "the contents of index are not used: its 160,000,000 bytes exceed the 128 MiB kept" in large.stdout


# ---------------------------------------------------------------------------------------------- whose line


@NEEDS_ALL
def test_wmma_is_blamed_on_the_line_that_calls_it_and_advised_to_pad(sources: Path) -> None:
    done = lint(*WMMA, "-D", "PITCH=64", "--sarif", "l.sarif", "--json", "l.json", "--github")
    assert done.returncode == 1, done.stderr
    places = [result["locations"][0]["physicalLocation"] for result in results(sources / "l.sarif")]
    assert {(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places} == {
        ("wmma.cu", 11), ("wmma.cu", 12),
    }  # fmt: skip
    for result in results(sources / "l.sarif"):
        (header,) = result["relatedLocations"]
        assert header["physicalLocation"]["artifactLocation"]["uri"].endswith("include/crt/mma.hpp")
    check = json.loads((sources / "l.json").read_text())["checks"][0]
    assert set(check["place"]) == {"file", "line"}
    assert check["related"][0]["file"].endswith("crt/mma.hpp")
    assert "::error file=wmma.cu,line=11," in done.stdout
    assert "file=/" not in done.stdout
    assert "Swizzle<" not in done.stdout + done.stderr
    assert "padding the rows from 128 to 144 bytes makes all of these accesses conflict-free" in done.stdout
    assert lint(*WMMA, "-D", "PITCH=72").returncode == 0


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_an_atomic_is_blamed_on_the_line_that_calls_it() -> None:
    done = lint("atomics.cu", "--grid", "1", "--block", "1024", "--arg", "y=int32[1024]:out")
    assert done.returncode == 1, done.stderr
    assert "(atomics.cu:5, in " in done.stdout


@NEEDS_ALL
def test_a_header_outside_the_project_is_a_related_location(sources: Path) -> None:
    done = lint("project/own.cu", "-I", "vendored", *TURN, "--json", "l.json")
    assert done.returncode == 1, done.stderr
    (check,) = json.loads((sources / "l.json").read_text())["checks"]
    assert check["place"] == {"file": "vendored/column.cuh", "line": 2}, "both are in the current folder"
    os.chdir(sources / "project")
    lint("own.cu", "-I", "../vendored", *TURN, "--json", "l.json")
    (check,) = json.loads((sources / "project" / "l.json").read_text())["checks"]
    assert check["place"] == {"file": "own.cu", "line": 4}
    assert check["related"] == [{"file": str(sources / "vendored" / "column.cuh"), "line": 2}]


# ---------------------------------------------------------------------------------------------- exit codes


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_the_worst_outcome_sets_the_exit_code_and_each_is_printed_once() -> None:
    for more in ((), ("--github",)):
        both = lint(*CONFLICT, "wrong.cu", *more)
        assert both.returncode == 2, "a conflict, and a kernel that does not compile"
        assert "The gate: error (1 error, 1 fail)" in both.stdout
        printed = both.stdout + both.stderr
        assert printed.count("992 excessive wavefronts") == printed.count('"nonsense" is undefined') == 1
    few = lint("own.cu", "-D", "PITCH=33", *TURN[:-2])
    assert few.returncode == 2
    assert "the arguments do not fit" in few.stderr


@NEEDS_ALL
def test_a_source_that_does_not_compile_is_an_error_and_the_others_are_judged(sources: Path) -> None:
    folder = sources / "kernels" / "toy"
    folder.mkdir(parents=True)
    second = '[[variant]]\nname = "toy-wrong"\ntitle = ""\nlesson = ""\n'
    (folder / "family.toml").write_text(FAMILY + second)
    (folder / "plain.cu").write_text("__global__ void toy_plain(float* x) { *x = 1; }\n")
    (folder / "wrong.cu").write_text("nonsense\n")
    done = lint("kernels/toy", "--json", "-")
    assert done.returncode == 2
    outcomes = {check["kernel"]: check for check in json.loads(done.stdout)["checks"]}
    assert outcomes["toy-plain"]["outcome"] == "pass"
    assert (outcomes["toy-wrong"]["outcome"], outcomes["toy-wrong"]["criterion"]) == ("error", "built")
    assert "could not compile wrong.cu" in outcomes["toy-wrong"]["message"]


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_no_note_is_lost_for_the_words_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a launch is said, whatever the kernel is called and whatever the reason says."""
    launch = description(grid="1", block="32", args=("y=float32[32]:out",))
    options = LintOptions(files=("known.cu",), description=launch)
    for why in ("the block at (0, 0, 0) ended", "a branch on an unknown value"):
        monkeypatch.setattr(run, "global_accesses", lambda *_, why=why: GlobalAccesses(lacking=why))
        (kernel,) = linting.lint_kernels(options, EmulationSettings(cached=False))
        assert f"sum_unknown: the bounds of global accesses were not checked: {why}." in kernel.notes
