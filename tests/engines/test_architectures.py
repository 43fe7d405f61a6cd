"""Other architectures, wgmma and tcgen05: counted as sm_90 where that was measured, unknown otherwise."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.engines import emulation
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.explain import predict
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.run_folder import load_profile
from tests.support import process
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA

ALL = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121")


def source(name: str) -> str:
    return (DATA / "engines" / f"{name}.cu").read_text(encoding="utf-8")


def counts(profile: Profile) -> dict[str, tuple[int | None, ...]]:
    totals: Counter[tuple[str, int]] = Counter()
    for one in profile.shared():
        for place, number in enumerate((one.executed, one.wavefronts, one.ideal)):
            assert number is not None, (one.sass, profile.notes)
            totals[one.access, place] += number
    return {access: tuple(totals[access, place] for place in range(3)) for access, _ in totals}


@NEEDS_ALL
def test_an_architecture_that_was_not_measured_has_the_counts_of_sm_90_and_says_so(
    emulated: Callable[..., Profile],
) -> None:
    matrix = np.zeros((128, 128), np.float32)
    for arch in ("sm_90", *ALL):
        profile = emulated(source("turn"), "turn", arch, [matrix, matrix, 128], (32, 8))
        assert counts(profile) == {"STS": (512, 512, 512), "LDS": (512, 16384, 512)}, arch
        mark = "" if arch.startswith("sm_90") else "rule measured on sm_90"
        assert profile.rule_from == mark, arch
        assert (f"turn: wavefronts: {mark}." in profile.notes) == bool(mark), arch
        assert (f"turn: wavefronts: {mark}." in compare([profile]).warnings) == bool(mark), arch
        (check, *_) = judge([profile], Policy()).checks
        assert check.message.endswith(f" allowed ({mark})" if mark else " allowed"), arch


@NEEDS_ALL
def test_what_no_rule_covers_is_unknown(emulated: Callable[..., Profile]) -> None:
    profile = emulated(source("tcgen05"), "product", "sm_100a", [0, 0, 0, np.zeros(32, np.uint32)], (32,))
    (product,) = [one for one in profile.shared() if one.access == "UTCHMMA"]
    assert product.wavefronts is None
    assert profile.total.excessive is None
    assert any("what ncu counts for UTCHMMA has not been measured" in note for note in profile.notes)


SMALL = {
    "attention": {"batch": 1, "heads": 2, "seq": 192},
    "tma": {"n": 256},
    "wgmma": {"n": 768},
}  # odd multiples of the tiles
EARLY = ("wgmma-none", "wgmma-32", "wgmma-64", "wgmma-128", "wgmma-ring", "wgmma-wide", "wgmma-specialised")
KERNELS = [
    pytest.param(family.name, kernel.name, marks=[pytest.mark.slow] * (kernel.name in EARLY))
    for family, kernel in catalog.shipped()
    if not kernel.library and (kernel.arch or kernel.name.startswith("tma-stream"))
]


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize(("family", "name"), KERNELS)
def test_the_emulator_counts_what_the_tiles_predict(family: str, name: str) -> None:
    target = catalog.shipped().target(name, SMALL[family])
    profile = emulation.emulate_target(target, EmulationSettings(Toolchain())).profile
    checks = predict.checked_against(predict.target_predictions(target), profile)
    assert {check.predicted.access: check.verdict for check in checks} == dict.fromkeys(target.kernel.degree, "equal")


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
