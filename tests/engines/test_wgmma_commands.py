"""Kernels with wgmma and tcgen05 through `lint`, `check` and `profile`: what is not counted never passes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.reports.run_folder import load_profile
from tests.support import process
from tests.support.marks import NEEDS_ALL

WGMMA = r"""
#include <cstdint>
extern "C" __global__ void __launch_bounds__(128) product(float *out, int n) {
    __shared__ __align__(1024) char tile[16384];
    float d[4] = {};
    uint64_t a = (uint64_t)((uint32_t)__cvta_generic_to_shared(tile) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll 1
    for (int i = 0; i < n; i++)
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
                     "{%0, %1, %2, %3}, %4, %4, p, 1, 1, 0, 0;\n}"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
"""
TENSOR_MEMORY = r"""
#include <cstdint>
extern "C" __global__ void __launch_bounds__(128) product(float *out, int n) {
    __shared__ __align__(1024) char tile[16384];
    uint64_t a = (uint64_t)((uint32_t)__cvta_generic_to_shared(tile) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
    if (threadIdx.x == 0)
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
                     "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %2, p;\n}" ::"r"(0), "l"(a), "r"(n) : "memory");
    out[threadIdx.x] = 1;
}
"""
LAUNCH = (
    "--kernel",
    "product",
    "--grid",
    "2",
    "--block",
    "128",
    "--arg",
    "out=float32[128]:out",
    "--arg",
    "n=int32:10",
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return process.run(*arguments, *LAUNCH, env={**paths.child_environment(), "COLUMNS": "200"})


@NEEDS_ALL
def test_wgmma_is_counted(work: Path) -> None:
    (work / "product.cu").write_text(WGMMA)
    linted = run("lint", "product.cu", "--json", "-")
    assert linted.returncode == 0, linted.stderr
    assert run("profile", "product.cu", "--engine", "emulated").returncode == 0
    accesses = [i for i in load_profile(work / "swizzle-out" / "product" / "product.json").instructions if i.access]
    assert {access.access for access in accesses} == {"HGMMA"}
    looped = max(accesses, key=lambda access: access.executed or 0)
    assert (looped.executed, looped.wavefronts, looped.ideal) == (2 * 4 * 10, 2 * 10 * 18, 2 * 10 * 18)


@NEEDS_ALL
@pytest.mark.parametrize("command", [("lint",), ("check", "--engine", "emulated")], ids=["lint", "check"])
def test_tcgen05_is_inconclusive(command: tuple[str, ...], work: Path) -> None:
    (work / "product.cu").write_text(TENSOR_MEMORY)
    compiled = ["nvcc", "-arch=sm_100a", "-cubin", "product.cu", "-o", "product.cubin"]
    if subprocess.run(compiled, capture_output=True, check=False).returncode:
        pytest.skip("this nvcc does not compile for sm_100a")
    judged = run(command[0], "product.cubin", *command[1:], "--sarif", "found.sarif")
    assert judged.returncode == 5, judged.stdout + judged.stderr
    assert "UTCHMMA" in judged.stdout
    assert "pass" not in judged.stdout
    results = json.loads((work / "found.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
    assert {result["kind"] for result in results} == {"open"}


@NEEDS_ALL
def test_the_profile_of_tcgen05_gives_no_verdict(work: Path) -> None:
    (work / "product.cu").write_text(TENSOR_MEMORY)
    compiled = ["nvcc", "-arch=sm_100a", "-cubin", "product.cu", "-o", "product.cubin"]
    if subprocess.run(compiled, capture_output=True, check=False).returncode:
        pytest.skip("this nvcc does not compile for sm_100a")
    shown = run("profile", "product.cubin", "--engine", "emulated").stdout
    assert "cannot be judged" in shown
    assert "no excessive" not in shown
    assert "no excessive" not in (work / "swizzle-out" / "product" / "report.html").read_text(encoding="utf-8")
