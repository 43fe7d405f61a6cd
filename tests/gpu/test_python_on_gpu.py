"""On a real GPU: functions in Python, fixed kernels, and what the oracle of tiles foretells of other shapes."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ncu_swizzle
from bench import fixes_on_gpu
from ncu_swizzle.commands.answers import Profile
from ncu_swizzle.fix import on_gpu
from ncu_swizzle.fix.claims import About, ClaimState
from ncu_swizzle.kernels import device
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support import fixes
from tests.support.emulation import DATA
from tests.support.fixes import FIXES, specs, with_text


def test_a_function_with_live_tensors_is_measured(
    ncu_profile: Callable[..., Profile], tiles: Any, launch: dict[str, Any]
) -> None:
    profile = ncu_profile(tiles.transpose, **launch)
    assert profile.engine == "ncu"
    assert profile.machine.gpu
    ncu_swizzle.assert_no_excess(profile)


def test_fixed_kernels_are_the_same_and_no_slower(tmp_path: Path) -> None:
    pairs = {name: fixes.apply(name, tmp_path / "after" / name) for name in FIXES}
    claims = fixes_on_gpu.measured(pairs, tmp_path)
    print(fixes_on_gpu.table(claims))
    for name, each in claims.items():
        assert [claim.about for claim in each] == [About.OUTPUTS, About.SANITIZER, About.TIME], name
        assert all(claim.held for claim in each[:2]), (name, each)
        assert each[2].state is not ClaimState.FAILED, (name, each)


def test_a_wrong_fix_is_noticed(tmp_path: Path) -> None:
    target, fix = specs()["rows-transpose"], FIXES["rows-transpose"]
    (old, new), *_ = fix.edits
    wrong = with_text(target, fix.text(target).replace(new, old), tmp_path / "after")
    pair = on_gpu.compiled_pair(target, wrong, tmp_path / "pair", Toolchain())
    ((outputs, *_),) = on_gpu.measure([pair], tmp_path, Toolchain())
    assert outputs.about is About.OUTPUTS
    assert outputs.state is ClaimState.FAILED


def test_the_oracle_foretells_what_a_gpu_computes(tmp_path: Path) -> None:
    if all(capability != (9, 0) for _, capability in device.devices()):
        pytest.skip("wgmma needs compute capability 9.0")
    cubin = tmp_path / "shapes.cubin"
    command = ["nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", str(DATA / "shapes.cu"), "-o", str(cubin)]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "bench.shapes_on_gpu", str(cubin), "1"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.splitlines()[-1].endswith(" agree, 0 differ"), done.stdout
