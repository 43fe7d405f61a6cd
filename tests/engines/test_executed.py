"""Outputs of kernels that are executed without a GPU, against their references."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.base import codes
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.engines import executed
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.kernels import catalog, fills, naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from ncu_swizzle.reports.model import Profile, violations
from tests.support.marks import NEEDS_ALL
from tests.support.process import Typed

pytestmark = NEEDS_ALL
SIZES = {
    "attention": {"batch": 1, "heads": 1, "seq": 128},
    "gemm": {"n": 256},
    "transpose": {"n": 100},
    "vectors": {"tiles": 64},
    "tma": {"n": 128},
    "wgmma": {"n": 256},
}
LIGHT = ("transpose", "vectors", "tma")  # families without tensor cores
KERNELS = [
    pytest.param(kernel.name, marks=() if family.name in LIGHT else pytest.mark.long)
    for family, kernel in catalog.shipped()
    if family.name in SIZES and not kernel.library
]
SOURCE = """
extern "C" __global__ void turned(float *out, const float *x, int n) {
    __shared__ float tile[32][32];
    const int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    tile[threadIdx.y][threadIdx.x ^ threadIdx.y] = x[row * n + column];
    __syncthreads();
    if (GUARD) out[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][COLUMN];
}
"""
DESCRIPTION = """
[kernel.turned]
source = "turned.cu"
problem = { n = { default = 64, multiple = 32 } }
grid = "n // 32, n // 32"
block = "32, 32"
args = ["out=float32[n,n]:out", "x=float32[n,n]:random", "n=int32:n"]
reference = "reference.py:turned"
"""


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    return Typed(tmp_path, monkeypatch, capsys)


def described(folder: Path, column: str = "threadIdx.y ^ threadIdx.x", guard: str = "true") -> None:
    """Write a kernel that transposes through a tile, and how it is launched and checked."""
    (folder / "turned.cu").write_text(SOURCE.replace("COLUMN", column).replace("GUARD", guard), encoding="utf-8")
    (folder / "ncu-swizzle.toml").write_text(DESCRIPTION, encoding="utf-8")
    (folder / "reference.py").write_text("def turned(x):\n    return x.T\n", encoding="utf-8")


def saved(typed: Typed) -> Profile:
    return Profile.from_json((typed.folder / "swizzle-out" / "turned" / "turned.json").read_text("utf-8"))


@pytest.mark.parametrize("name", KERNELS)
def test_outputs_of_the_catalogue_are_right(name: str) -> None:
    family = catalog.shipped().target(name).family
    target = catalog.shipped().target(name, SIZES[family.name])
    for checked in executed.check_outputs(target, EmulationSettings()):
        assert not checked.wrong, checked.wrong
        assert not checked.unknown
        assert checked.checked > 0
        assert checked.error <= checked.tolerance
        assert not checked.inexact


def test_a_large_problem_is_checked_at_a_smaller_size() -> None:
    target = executed.checked_size(catalog.shipped().target("transpose-xor", {"n": 4096}))
    assert target.problem == {"n": 256}
    assert executed.checked_size(target) == target


def test_a_right_kernel_passes_the_gate(typed: Typed) -> None:
    described(typed.folder)
    done = typed("profile turned --engine emulated --check")
    assert "output out checked at n=64, 4,096 of 4,096 elements, largest relative error 0." in " ".join(
        done.stdout.split()
    )
    assert "not checked" not in done.stdout
    (output,) = saved(typed).checked
    assert (output.error, output.inexact, output.blocks) == (0, (), 4)
    assert typed("check swizzle-out/turned").returncode == 0


@pytest.mark.parametrize(
    ("column", "guard", "said"),
    [
        ("threadIdx.y ^ (threadIdx.x & 15)", "true", "written by thread (16, 0, 0) of block (0, 0, 0) at turned.cu:7"),
        ("threadIdx.y ^ threadIdx.x", "threadIdx.x != 3", "out[0, 3] was never written; it should be"),
    ],
)
def test_a_wrong_kernel_is_found_with_who_wrote_it(typed: Typed, column: str, guard: str, said: str) -> None:
    described(typed.folder, column, guard)
    assert typed("profile turned --engine emulated --check").returncode == 0
    (found,) = violations(saved(typed))
    assert found.code == codes.WRONG_OUTPUT
    assert said in found.message
    gate = typed("check swizzle-out/turned")
    assert gate.returncode == 1
    assert codes.WRONG_OUTPUT in gate.stdout


def test_without_a_reference_there_is_nothing_to_compare_with(typed: Typed) -> None:
    described(typed.folder)
    text = (typed.folder / "ncu-swizzle.toml").read_text("utf-8")
    (typed.folder / "ncu-swizzle.toml").write_text(text.replace('reference = "reference.py:turned"', ""), "utf-8")
    done = typed("profile turned --engine emulated --check")
    assert done.returncode == 2
    assert "has no reference" in done.stderr


def test_a_large_launch_is_checked_in_some_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described(tmp_path)
    monkeypatch.setattr(fills, "MOST_LANES", 2 * 1024)
    monkeypatch.setattr(executed, "checked_size", lambda target: target)
    (output,) = executed.check_outputs(of_project(tmp_path), EmulationSettings())
    assert (output.blocks, output.all_blocks, output.checked, output.wrong) == (2, 4, 2048, "")


def of_project(folder: Path) -> Target:
    sources = CatalogOptions(config=str(folder / "ncu-swizzle.toml"))
    return naming.resolve(["turned"], replace(KernelDescription(), sources=sources))[0].targets[-1]


def test_arrays_in_and_out(tmp_path: Path) -> None:
    described(tmp_path)
    target = of_project(tmp_path)
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    ran = executed.run(target, {"x": x})
    (out,) = ran.outputs
    assert (ran.array(out) == x.T).all()
    with pytest.raises(UsageError, match=r"x has shape \[64\], not \[64, 64\]"):
        executed.run(target, {"x": x[0]})
    with pytest.raises(UsageError, match="no buffer 'y'"):
        executed.run(target, {"y": x})
