"""What the oracle of tiles foretells of other shapes is what a GPU computes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ncu_swizzle.kernels import device
from tests.support.emulation import DATA


def test_the_oracle_foretells_what_a_gpu_computes(tmp_path: Path) -> None:
    if all(capability != (9, 0) for _, capability in device.devices()):
        pytest.skip("wgmma needs compute capability 9.0")
    cubin = tmp_path / "shapes.cubin"
    command = ["nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", str(DATA / "shapes.cu"), "-o", str(cubin)]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.shapes_on_gpu", str(cubin), "1"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.splitlines()[-1].endswith(" agree, 0 differ"), done.stdout
