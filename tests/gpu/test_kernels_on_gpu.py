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
from tests.support.processes import processes_in, wait_until

SMALL = ("--problem", "n=64", "--baseline", "none", "--reference", "none")


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return process.started(*arguments, env={**os.environ, **environment})


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


def profiled(*words: str) -> Any:
    return json.loads(process.succeeded("profile", *words, "--json", "-"))


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
