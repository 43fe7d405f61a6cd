"""Users' own .cu files on a real GPU, and failures that a real ncu can be made to show."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import process
from tests.support.own_kernel import VARIANTS
from tests.support.processes import processes_in, wait_until

SMALL = ("--problem", "n=64", "--baseline", "none", "--reference", "none")


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return process.started(*arguments, env={**os.environ, **environment})


def test_doctor_finds_nothing_in_the_way() -> None:
    done = command("doctor", "--json", "-")
    found = json.loads(done.stdout)
    assert done.returncode == 0, [one for one in found["checks"] if one["outcome"] == "bad"]
    assert found["able"]
    trial = next(one for one in found["checks"] if one["name"] == "trial")
    assert "in one pass" in trial["said"]


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ("--section Nope", 3, "did not find the section"),
        ("--bogus-option", 2, "rejected an option"),
    ],
)
def test_what_ncu_refuses_is_explained(options: str, status: int, said: str, tmp_path: Path) -> None:
    done = command("profile", "transpose-xor", *SMALL, "-o", str(tmp_path / "out"), "--ncu-args", options)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_metric_that_ncu_does_not_know_is_named(tmp_path: Path) -> None:
    options = ("--ncu-args", "--metrics nosuch__metric.sum")
    done = command("profile", "transpose-xor", *SMALL, "-o", str(tmp_path / "out"), *options)
    assert done.returncode == 0, done.stderr
    assert "ncu collected nothing for nosuch__metric.sum" in " ".join(done.stdout.split())


def test_a_home_that_cannot_be_written_to_does_not_matter(tmp_path: Path) -> None:
    done = command("profile", "transpose-xor", *SMALL, "-o", str(tmp_path / "out"), HOME="/proc", XDG_CACHE_HOME="/tmp")
    assert done.returncode in (0, 3), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_ncu_and_the_program(number: signal.Signals, status: int, tmp_path: Path) -> None:
    words = ("profile", "kernel1", "--reference", "none", "-o", str(tmp_path / "out"))
    profile = process.opened(*words, folder=tmp_path, env=process.environment())
    assert wait_until(lambda: any("ncu_swizzle.kernels" in line for line in processes_in(tmp_path)), 120)
    profile.send_signal(number)
    _, said = profile.communicate(timeout=60)
    assert profile.returncode == status, said
    time.sleep(1)
    assert not processes_in(tmp_path)
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------------------- users' own kernels


ARGS = ("--arg", "x=float32[n,n]:random", "--arg", "y=float32[n,n]:out", "--arg", "n=int32:n")
TYPED = ("--config", "none", "--grid", "n//32,n//32", "--block", "32,8", "--problem", "n=256", *ARGS)


def profiled(*words: str) -> Any:
    done = command("profile", *words, "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def degrees(found: Any) -> dict[tuple[str, str], float]:
    return {(row["label"], row["access"]): row["degree"] for row in found["accesses"]}


def test_a_described_kernel_is_checked_and_both_variants_are_measured(work: Path) -> None:
    found = profiled("own/my.cu", "--problem", "n=256")
    assert found["engine"] == "ncu"
    assert found["labels"] == ["tile-rowmajor", "tile-swizzled"]
    assert degrees(found)["tile-rowmajor", "LDS"] == 32
    assert degrees(found)["tile-swizzled", "LDS"] == 1
    assert found["warnings"] == []
    for profile in found["profiles"]:
        assert profile["errors"] == {"y": 0}
        assert profile["problem"] == {"n": 256}
        assert profile["sources"].keys() == {"my.cu"}
        assert profile["machine"]["gpu"]
    lines = [row for row in found["lines"] if row["label"] == "tile-rowmajor" and row["excessive"]]
    assert {row["file"] for row in lines} == {"my.cu"}
    worst = max(lines, key=lambda row: row["excessive"])
    text = (work / "own" / "my.cu").read_text(encoding="utf-8").splitlines()
    assert "tile[place(threadIdx.x, row)]" in text[worst["line"] - 1]
    assert (work / "swizzle-out" / "tile-swizzled" / "report.html").is_file()


def test_a_raw_file_is_measured_before_and_after_and_said_to_be_unchecked(work: Path) -> None:
    found = profiled(str(work / "own" / "my.cu"), *TYPED, *VARIANTS)
    assert found["labels"] == ["transpose (before)", "transpose (after)"]
    assert degrees(found)["transpose (before)", "LDS"] == 32
    assert degrees(found)["transpose (after)", "LDS"] == 1
    assert any("output not checked" in warning for warning in found["warnings"])
    assert "output not checked" in (work / "swizzle-out" / "transpose-after" / "report.html").read_text("utf-8")


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("bytes_", [256, 1280, 4096])
def test_a_kernel_reads_the_size_of_its_dynamic_shared_memory_as_it_was_given(bytes_: int) -> None:
    """The emulated engine relies on it, for multiples of 256."""
    (profile,) = profiled("sized", "--problem", f"bytes_={bytes_}", "--trust")["profiles"]
    assert profile["errors"] == {"y": 0}


def test_references_are_held_against_outputs(work: Path) -> None:
    assert command("profile", "--no-ncu", "sum", "--repeats", "2").returncode == 0
    bins = command("profile", "--no-ncu", "bins", "--repeats", "2")
    assert bins.returncode == 0, bins.stderr
    done = command("profile", "bad")
    assert done.returncode == 4
    assert "bad: y differs from the reference: relative error" in done.stderr
    half = command("profile", "half")
    assert half.returncode == 4, "int32 has no NaN: what was not written is wrong all the same"
    assert not (work / "swizzle-out").exists()
    found = profiled("bins")
    assert found["profiles"][0]["errors"] == {"bins": 0}, "in every pass they begin at zero"


@pytest.mark.usefixtures("work")
def test_times_of_a_file_s_variants() -> None:
    facts = profiled("--no-ncu", "own/my.cu", "--problem", "n=1024", "--repeats", "3")
    assert {name: len(times) for name, times in facts["times_ms"].items()} == {"tile-rowmajor": 3, "tile-swizzled": 3}
    table = command("profile", "--no-ncu", "own/my.cu", *TYPED, *VARIANTS, "--repeats", "3")
    assert table.returncode == 0, table.stderr
    assert "not checked" in table.stdout


@pytest.mark.parametrize(
    ("name", "options", "code", "said"),
    [
        ("wild", ("--block", "32", "--arg", "p=int32[32]:zeros"), 4, "compute-sanitizer"),
        ("bounded", ("--block", "128", "--arg", "y=int32[128]:out"), 2, "this kernel allows at most 64"),
        ("bounded", ("--block", "2048", "--arg", "y=int32[128]:out"), 2, "1 to 1024"),
        ("dynamic", ("--block", "32", "--shared", "300000", "--arg", "y=int32[32]:out"), 2, "memory exceed the"),
    ],
)
def test_what_cannot_be_launched_is_told_and_nothing_is_left(
    name: str, options: tuple[str, ...], code: int, said: str, work: Path
) -> None:
    done = command("profile", "others.cu", "--config", "none", "--kernel", name, "--grid", "1", *options)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "  try: " in done.stderr
    assert not (work / "swizzle-out").exists()


@pytest.mark.usefixtures("work")
def test_no_arguments_and_dynamic_shared_memory_work() -> None:
    typed = ("others.cu", "--config", "none", "--grid", "2", "--kernel")
    assert profiled(*typed, "none", "--block", "64")["labels"] == ["none"]
    arguments = ("--block", "32", "--shared", "100000", "--arg", "y=int32[32]:out")
    (profile,) = profiled(*typed, "dynamic", *arguments)["profiles"]
    assert profile["metrics"]["launch__shared_mem_per_block_dynamic"]["value"] in (100000, 100.0)


BY_VALUE = """
struct Params { float *y; int stride; float factor; };
__global__ void columns(Params p) {
    __shared__ float tile[32 * 32];
    tile[threadIdx.x * p.stride] = p.factor * threadIdx.x;
    __syncwarp();
    if (p.y) p.y[threadIdx.x] = tile[threadIdx.x * p.stride];
}
"""


@pytest.mark.parametrize(
    ("struct", "degree"), [("struct:uint64:0,int32:32,float32:1.5", 32), ("bytes:params.bin", 2), ("bytes:24", 1)]
)
def test_a_struct_by_value_reaches_the_kernel(struct: str, degree: int, work: Path) -> None:
    rest = " char rest[8];" if struct == "bytes:24" else ""
    (work / "params.bin").write_bytes(bytes(8) + (2).to_bytes(4, "little") + bytes(4))
    (work / "by_value.cu").write_text(BY_VALUE.replace("float factor;", f"float factor;{rest}"), encoding="utf-8")
    typed = ("--kernel", "columns", "--grid", "1", "--block", "32", "--config", "none", "--arg", f"p={struct}")
    measured = profiled("by_value.cu", *typed)
    emulated = profiled("by_value.cu", *typed, "--engine", "emulated")
    assert (measured["engine"], emulated["engine"]) == ("ncu", "emulated")
    assert degrees(measured)["columns", "STS"] == degree
    assert degrees(emulated) == degrees(measured)
