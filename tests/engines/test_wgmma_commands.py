"""Kernels with wgmma and tcgen05 through `lint`, `check` and `profile`: what is not counted never passes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.run_folder import load_profile
from tests.support import process
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA

ARGUMENTS = ["--arg", "out=float32[128]:out", "--arg", "n=int32:10"]
LAUNCH = ["--kernel", "product", "--grid", "2", "--block", "128", *ARGUMENTS]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return process.run(*arguments, *LAUNCH, env={**paths.child_environment(), "COLUMNS": "200"})


@NEEDS_ALL
def test_wgmma_is_counted(work: Path) -> None:
    shutil.copy(DATA / "engines" / "wgmma.cu", work / "product.cu")
    linted = run("lint", "product.cu", "--json", "-")
    assert linted.returncode == 0, linted.stderr
    assert run("profile", "product.cu", "--engine", "emulated").returncode == 0
    accesses = [i for i in load_profile(work / "swizzle-out" / "product" / "product.json").instructions if i.access]
    assert {access.access for access in accesses} == {"HGMMA"}
    looped = max(accesses, key=lambda access: access.executed or 0)
    assert (looped.executed, looped.wavefronts, looped.ideal) == (2 * 4 * 10, 2 * 10 * 18, 2 * 10 * 18)


@NEEDS_ALL
def test_tcgen05_is_inconclusive_and_gets_no_verdict(work: Path) -> None:
    text = (DATA / "engines" / "tensor_memory.cu").read_text(encoding="utf-8")
    try:
        (work / "product.cubin").write_bytes(Toolchain().compile(text, [], "sm_100a", []))
    except NcuSwizzleError:
        pytest.skip("this nvcc does not compile for sm_100a")
    for command in (("lint",), ("check", "--engine", "emulated")):
        judged = run(command[0], "product.cubin", *command[1:], "--sarif", "found.sarif")
        assert judged.returncode == 5, judged.stdout + judged.stderr
        assert "UTCHMMA" in judged.stdout
        assert "pass" not in judged.stdout
        results = json.loads((work / "found.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
        assert {result["kind"] for result in results} == {"open"}
    shown = run("profile", "product.cubin", "--engine", "emulated").stdout
    assert "cannot be judged" in shown
    assert "no excessive" not in shown
    assert "no excessive" not in (work / "swizzle-out" / "product" / "report.html").read_text(encoding="utf-8")
