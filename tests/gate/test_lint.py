"""``ncu-swizzle lint``: lines that conflict, in sources, binaries and families; skipped without CUDA's compiler."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
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
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import description
from tests.support.sources import BINNED, PITCHED, WMMA

LAUNCH = ["--grid", "1", "--block", "32,32", "--arg", "x=float32[32,32]:random", "--arg", "y=float32[32,32]:out"]


def lint(*arguments: str) -> subprocess.CompletedProcess[str]:
    return process.run("lint", *arguments, env={**paths.child_environment(), "COLUMNS": "300"})


@NEEDS_ALL
def test_a_conflict_is_named_with_its_line_and_the_way_out(sources: Path) -> None:
    done = lint("own.cu", "-D", "PITCH=32", *LAUNCH, "--sarif", "l.sarif", "--junit", "l.xml", "--json", "l.json")
    assert done.returncode == 1, done.stderr
    assert "turn, STS: degree 32, at most 1 allowed: 992 excessive wavefronts" in done.stdout
    assert "own.cu:4" in done.stdout
    assert "Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f)) makes all of these" in done.stdout
    (result,) = json.loads((sources / "l.sarif").read_text())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("own.cu", 4)
    assert (result["ruleId"], result["level"]) == ("max-degree", "error")
    assert ElementTree.parse(sources / "l.xml").getroot().get("failures") == "1"
    (check,) = json.loads((sources / "l.json").read_text())["checks"]
    assert (check["outcome"], check["access"], check["actual"], check["limit"]) == ("fail", "STS", 32.0, 1)


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_without_conflicts_it_passes() -> None:
    done = lint("own.cu", "-D", "PITCH=33", *LAUNCH)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 accesses to shared memory, none over its limit" in done.stdout


BINS = ["--grid", "1", "--block", "256", "--problem", "n=1024", "--arg", "y=uint32[256]:out", "--arg", "n=int32:n"]


@NEEDS_ALL
def test_random_inputs_stand_for_the_data_on_request_and_every_line_says_so(sources: Path) -> None:
    (sources / "bins.cu").write_text(BINNED)
    random = [*BINS[:6], "--arg", "x=uint8[n]:random", *BINS[6:]]
    assert lint("bins.cu", *random).returncode == 5
    done = lint("bins.cu", *random, "--sample", "7", "--sarif", "l.sarif")
    assert done.returncode == 1, done.stderr
    assert "excessive wavefronts, in a sample of random inputs (seed 7)" in done.stdout
    assert "counts depend on data" in done.stdout
    (result,) = json.loads((sources / "l.sarif").read_text())["runs"][0]["results"]
    assert "in a sample of random inputs (seed 7)" in result["message"]["text"]
    runs = [lint("bins.cu", *random, "--sample", seed).stdout for seed in ("7", "7", "8")]
    counted = {line for text in runs for line in text.splitlines()}
    assert len([line for line in counted if "degree" in line]) == 2  # the same seed, the same counts

    entry = '[kernel.bins]\nsource = "bins.cu"\ngrid = 1\nblock = 256\nsample = 7\n'
    arguments = '["x=uint8[1024]:random", "y=uint32[256]:out", "n=int32:1024"]'
    (sources / "ncu-swizzle.toml").write_text(f"{entry}args = {arguments}\n")
    assert lint("ncu-swizzle.toml").stdout.splitlines()[0] == done.stdout.splitlines()[0]


MISSING = """import nowhere_installed
NCU_SWIZZLE = {"turn": {"grid": 1, "args": ["x=float32[4]"]}}
"""


@NEEDS_ALL
@pytest.mark.parametrize(
    ("files", "said", "hint"),
    [
        (["lacks.py"], "lacks.py cannot be imported: No module named 'nowhere_installed'", "install nowhere_installed"),
        (["bare.py", "own.cu", "lacks.py"], "lacks.py cannot be imported", "install nowhere_installed"),
        (["bare.py", "own.cu"], "no launch is described", "ncu-swizzle init own.cu"),
        (["bare.py", "other.py"], "no launch is described", "name one, with its launch: ncu-swizzle lint bare.py::"),
    ],
)
def test_the_last_word_is_what_keeps_everything_from_being_linted(
    sources: Path, files: list[str], said: str, hint: str
) -> None:
    (sources / "lacks.py").write_text(MISSING)
    for name in ("bare.py", "other.py"):
        (sources / name).write_text("x = 1\n")
    done = lint(*files)
    assert done.returncode == 5
    assert done.stderr.startswith(f"error: nothing was linted: {said}"), done.stderr
    assert done.stderr.splitlines()[1].startswith(f"  try: {hint}")


GROUPS = """__global__ void groups(const int* weights, const long long* x_ptrs, float* y, const int* sizes) {
    __shared__ float tile[32][32];
    const float* x = reinterpret_cast<const float*>(x_ptrs[blockIdx.x]);
    for (int i = 0; i < sizes[blockIdx.x]; ++i) {
        tile[threadIdx.x][i] = x[i * 32 + threadIdx.x] * weights[threadIdx.x];
        __syncthreads();
        y[i * 32 + threadIdx.x] = tile[i][threadIdx.x];
    }
}"""
GROUPED = ["--grid", "2", "--block", "32", "--arg", "weights=int32[32]:random", "--arg", "y=float32[1024]:out"]


@NEEDS_ALL
def test_the_data_that_decide_are_named_and_not_the_first_buffer(sources: Path) -> None:
    (sources / "groups.cu").write_text(GROUPS)
    pointers = ["--arg", "x_ptrs=int64[2]:random", *GROUPED[6:]]
    done = lint("groups.cu", *GROUPED[:6], *pointers, "--arg", "sizes=int32[2]:random")
    assert done.returncode == 5
    assert done.stderr.splitlines()[-1].startswith("  try: --arg 'sizes=int32[2]:iota%256', or a .npy file")
    assert lint("groups.cu", *GROUPED[:6], *pointers, "--arg", "sizes=int32[2]:iota%256").returncode == 1


SIZED = """__global__ void sized(float* y) {
    extern __shared__ float tile[];
    unsigned bytes;
    asm("mov.u32 %0, %dynamic_smem_size;" : "=r"(bytes));
    tile[bytes / 4 - 1 - threadIdx.x] = 1;
    y[threadIdx.x] = tile[threadIdx.x];
}"""


@NEEDS_ALL
def test_the_size_of_dynamic_shared_memory_is_known_if_it_is_not_rounded(sources: Path) -> None:
    (sources / "sized.cu").write_text(SIZED)
    given = ["sized.cu", "--grid", "1", "--block", "32", "--arg", "y=float32[32]:out"]
    done = lint(*given, "--shared", "1040")
    assert done.returncode == 5
    assert "  try: --shared 1280: what a kernel reads as its size" in done.stderr
    for arch in ("sm_80", "sm_90"):
        done = lint(*given, "--shared", "1280", "--arch", arch)
        assert done.returncode == 0, done.stdout + done.stderr
    assert lint(*given, "--shared", "1280", "--arch", "sm_100").returncode == 5  # where it is there, is not known


SCATTER = """__global__ void scatter(const long long* x_ptrs, const long long* y_ptrs, const int* sizes) {
    __shared__ int tile[32][32];
    for (int group = 0; group < 2; ++group) {
        for (int i = 0; i < sizes[group]; ++i) tile[i][threadIdx.x] = reinterpret_cast<int*>(x_ptrs[group])[i];
        __syncthreads();
        reinterpret_cast<int*>(y_ptrs[group])[threadIdx.x] = tile[0][threadIdx.x];
    }
}"""


@NEEDS_ALL
def test_stores_through_unknown_pointers_are_blamed_for_what_they_may_overwrite(sources: Path) -> None:
    (sources / "scatter.cu").write_text(SCATTER)
    given = ["--grid", "1", "--block", "32", "--arg", "x_ptrs=int64[2]:random"]
    done = lint("scatter.cu", *given, "--arg", "y_ptrs=int64[2]:random", "--arg", "sizes=int32[2]:8")
    assert done.returncode == 5
    hint = done.stderr.splitlines()[-1]
    assert hint.startswith("  try: --arg 'y_ptrs=int64[2]:1099511627776', or a .npy file")
    assert "--sample" not in hint  # random addresses are none
    done = lint("scatter.cu", *given, "--arg", "y_ptrs=int64[2]:1099511627776", "--arg", "sizes=int32[2]:8")
    assert done.returncode == 0, done.stdout + done.stderr


@NEEDS_ALL
def test_given_data_are_no_sample(sources: Path) -> None:
    (sources / "bins.cu").write_text(BINNED)
    np.save(sources / "x.npy", np.arange(1024, dtype=np.uint8))
    done = lint("bins.cu", *BINS[:6], "--arg", "x=x.npy", *BINS[6:], "--sample", "7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sample" not in done.stdout
    turned = lint("own.cu", "-D", "PITCH=32", *LAUNCH, "--sample", "7")
    assert "sample" not in turned.stdout  # its random inputs decide nothing


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
@pytest.mark.parametrize(("arch", "first"), [("sm_75", "0x0"), ("sm_80", "0x0"), ("sm_90a", "0x400")])
def test_the_architecture_that_is_named(arch: str, first: str) -> None:
    done = lint("own.cu", "-D", "PITCH=32", *LAUNCH, "--arch", arch)
    assert done.returncode == 1, done.stderr
    assert f"shared memory from {first} to " in done.stdout
    assert "null pointer" not in done.stdout


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
@pytest.mark.parametrize(("limit", "code"), [("32", 0), ("31.5", 1), ("LDS=1", 1), ("STS=32", 0), ("other:32", 1)])
def test_the_threshold(limit: str, code: int) -> None:
    assert lint("own.cu", "-D", "PITCH=32", *LAUNCH, "--max-degree", limit).returncode == code


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_a_family_is_linted_variant_by_variant() -> None:
    done = lint(str(paths.kernels() / "transpose"))
    assert done.returncode == 1
    found = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(("pass", "fail", "inconclusive"))]
    assert {name.rstrip(":,"): outcome for outcome, name in found} == {
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


@NEEDS_ALL
def test_a_source_that_does_not_compile_is_an_error_and_the_others_are_judged(sources: Path) -> None:
    (sources / "kernels" / "mine").mkdir(parents=True)
    for name, text in (("right.cu", PITCHED.replace("turn", "right")), ("wrong.cu", "nonsense")):
        (sources / "kernels" / "mine" / name).write_text(text.replace("PITCH", "33"))
    (sources / "kernels" / "mine" / "family.toml").write_text("""
[family]
name = "mine"
title = "Mine"
[launch]
grid = [1, 1, 1]
block = [32, 32, 1]
[[argument]]
name = "x"
dtype = "float32"
shape = ["1024"]
[[argument]]
name = "y"
dtype = "float32"
shape = ["1024"]
output = true
[[variant]]
name = "right"
title = ""
lesson = ""
[[variant]]
name = "wrong"
title = ""
lesson = ""
""")
    done = lint("kernels/mine", "--json", "-")
    assert done.returncode == 2
    outcomes = {check["kernel"]: check for check in json.loads(done.stdout)["checks"]}
    assert outcomes["right"]["outcome"] == "pass"
    assert (outcomes["wrong"]["outcome"], outcomes["wrong"]["criterion"]) == ("error", "built")
    assert "could not compile wrong.cu" in outcomes["wrong"]["message"]


def test_without_a_compiler_nothing_is_judged(sources: Path) -> None:
    with pytest.raises(EnvironmentLacking, match="nothing can be compiled here"):
        list(linting.lint_kernels(LintOptions(files=("own.cu",)), EmulationSettings(Toolchain(sources / "nowhere"))))


def test_a_limit_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match=r"max-degree is 0\.5"):
        linting.policy(["0.5"])
    with pytest.raises(UsageError, match="unknown access kind 'LDX'"):
        linting.policy(["LDX=2"])


@NEEDS_ALL
def test_an_endless_loop_is_told_with_its_line(sources: Path) -> None:
    (sources / "endless.cu").write_text(
        "__global__ void endless(volatile float* x) { __shared__ volatile float s[32];\n"
        "  for (;;) s[threadIdx.x] += 1.f; }\n",
        encoding="utf-8",
    )
    done = lint("endless.cu", "--grid", "1", "--block", "32", "--arg", "x=float32[32]:out")
    assert done.returncode == 5, done.stderr
    assert "endless.cu:2: an endless loop at" in done.stdout


@NEEDS_ALL
def test_large_known_arrays_count_as_unknown_and_are_named(sources: Path) -> None:
    (sources / "gather.cu").write_text(
        "__global__ void gather(const int* index, float* y) { __shared__ float s[1024];\n"
        "  s[threadIdx.x] = 1.f; __syncthreads();\n"
        "  y[threadIdx.x] = s[index[threadIdx.x] & 1023]; }\n",
        encoding="utf-8",
    )
    launch = ("--grid", "1", "--block", "32", "--arg", "y=float32[32]:out")
    small = lint("gather.cu", *launch[:4], "--arg", "index=int32[n]:arange", *launch[4:], "--problem", "n=4096")
    assert small.returncode == 0, small.stderr
    large = lint("gather.cu", *launch[:4], "--arg", "index=int32[n]:arange", *launch[4:], "--problem", "n=40000000")
    assert large.returncode == 5, large.stderr
    assert "the contents of index are not used: its 160,000,000 bytes exceed the 128 MiB kept" in large.stdout


# ---------------------------------------------------------------------------------------------- whose line


@NEEDS_ALL
def test_wmma_is_blamed_on_the_line_that_calls_it(sources: Path) -> None:
    (sources / "wmma.cu").write_text(WMMA, encoding="utf-8")
    launch = ("--grid", "1", "--block", "128", "--arg", "a=float16[4096]:random", "--arg", "c=float32[1024]:out")
    done = lint("wmma.cu", "-D", "PITCH=64", *launch, "--sarif", "l.sarif", "--json", "l.json", "--github")
    assert done.returncode == 1, done.stderr
    results = json.loads((sources / "l.sarif").read_text())["runs"][0]["results"]
    lines = {result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in results}
    assert lines == {12, 13}
    for result in results:
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "wmma.cu"
        (header,) = result["relatedLocations"]
        assert header["physicalLocation"]["artifactLocation"]["uri"].endswith("include/crt/mma.hpp")
    check = json.loads((sources / "l.json").read_text())["checks"][0]
    assert set(check["place"]) == {"file", "line"}
    assert check["related"][0]["file"].endswith("crt/mma.hpp")
    assert "::error file=wmma.cu,line=12," in done.stdout
    assert "file=/" not in done.stdout


@NEEDS_ALL
def test_wmma_is_advised_to_pad_by_what_frees_it_of_conflicts(sources: Path) -> None:
    (sources / "wmma.cu").write_text(WMMA, encoding="utf-8")
    launch = ("--grid", "1", "--block", "128", "--arg", "a=float16[4096]:random", "--arg", "c=float32[1024]:out")
    done = lint("wmma.cu", "-D", "PITCH=64", *launch)
    assert "Swizzle<" not in done.stdout + done.stderr
    assert "padding the rows from 128 to 144 bytes makes all of these accesses conflict-free" in done.stdout
    assert lint("wmma.cu", "-D", "PITCH=72", *launch).returncode == 0


@NEEDS_ALL
def test_an_atomic_is_blamed_on_the_line_that_calls_it(sources: Path) -> None:
    (sources / "bins.cu").write_text(
        "__global__ void bins(int* y) { __shared__ int b[1024];\n"
        "  b[threadIdx.x] = 0; __syncthreads();\n"
        "  atomicAdd(&b[threadIdx.x * 32 % 1024], 1); __syncthreads();\n"
        "  y[threadIdx.x] = b[threadIdx.x]; }\n",
        encoding="utf-8",
    )
    done = lint("bins.cu", "--grid", "1", "--block", "1024", "--arg", "y=int32[1024]:out")
    assert done.returncode == 1, done.stderr
    assert "(bins.cu:3, in " in done.stdout


@NEEDS_ALL
def test_a_header_outside_the_project_is_a_related_location(sources: Path) -> None:
    vendored, project = sources / "vendored", sources / "project"
    vendored.mkdir()
    project.mkdir()
    (vendored / "column.cuh").write_text(
        "__device__ __forceinline__ void put(float (*tile)[32], float x) {\n  tile[threadIdx.x][threadIdx.y] = x;\n}\n",
        encoding="utf-8",
    )
    (project / "own.cu").write_text(
        '#include "column.cuh"\n'
        "__global__ void turn(const float* x, float* y) {\n"
        "  __shared__ float tile[32][32];\n"
        "  put(tile, x[threadIdx.y * 32 + threadIdx.x]);\n"
        "  __syncthreads();\n"
        "  y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.y][threadIdx.x];\n}\n",
        encoding="utf-8",
    )
    done = lint("project/own.cu", "-I", "vendored", *LAUNCH, "--json", "l.json")
    assert done.returncode == 1, done.stderr
    (check,) = json.loads((sources / "l.json").read_text())["checks"]
    assert check["place"] == {"file": "vendored/column.cuh", "line": 2}, "both are in the current folder"
    os.chdir(project)
    done = lint("own.cu", "-I", "../vendored", *LAUNCH, "--json", "l.json")
    (check,) = json.loads((project / "l.json").read_text())["checks"]
    assert check["place"] == {"file": "own.cu", "line": 4}
    assert check["related"] == [{"file": str(vendored / "column.cuh"), "line": 2}]


# ---------------------------------------------------------------------------------------------- exit codes


@NEEDS_ALL
def test_the_worst_outcome_sets_the_exit_code(sources: Path) -> None:
    launch = ("--grid", "1", "--block", "32,32", "--arg", "x=float32[1024]:random")
    (sources / "wrong.cu").write_text("__global__ void wrong(float* x) { x[0] = nonsense; }\n", encoding="utf-8")
    both = lint("own.cu", "wrong.cu", "-D", "PITCH=32", *LAUNCH)
    assert both.returncode == 2, "a conflict, and a kernel that does not compile"
    assert "The gate: error (1 error, 1 fail)" in both.stdout
    few = lint("own.cu", "-D", "PITCH=33", *launch)
    assert few.returncode == 2
    assert "the arguments do not fit" in few.stderr


@NEEDS_ALL
@pytest.mark.parametrize("annotations", [(), ("--github",)])
def test_a_failure_is_printed_once(annotations: tuple[str, ...], sources: Path) -> None:
    (sources / "wrong.cu").write_text("__global__ void wrong(float* x) { x[0] = nonsense; }\n", encoding="utf-8")
    done = lint("own.cu", "wrong.cu", "-D", "PITCH=32", *LAUNCH, *annotations)
    printed = done.stdout + done.stderr
    assert printed.count("992 excessive wavefronts") == printed.count('"nonsense" is undefined') == 1


@NEEDS_ALL
@pytest.mark.parametrize("why", ["the block at (0, 0, 0) ended", "a branch on an unknown value"])
def test_no_note_is_lost_for_the_words_in_it(why: str, sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a launch is said, whatever the kernel is called and whatever the reason says."""
    (sources / "known.cu").write_text("__global__ void sum_unknown(float* y) { y[threadIdx.x] = 1.f; }\n", "utf-8")
    monkeypatch.chdir(sources)
    monkeypatch.setattr(run, "global_accesses", lambda *_: GlobalAccesses(lacking=why))
    given = description(grid="1", block="32", args=("y=float32[32]:out",))
    (kernel,) = linting.lint_kernels(
        LintOptions(files=("known.cu",), description=given), EmulationSettings(cached=False)
    )
    assert f"sum_unknown: the bounds of global accesses were not checked: {why}." in kernel.notes
