"""The kernels compile for every architecture that they are meant for, without spilling."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ncu_swizzle import catalog
from ncu_swizzle.launch import OPTIONS

KERNELS = [(family, kernel) for family, kernel in catalog.load() if not kernel.library]


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("family", "kernel"), KERNELS, ids=[kernel.name for _, kernel in KERNELS])
def test_it_compiles_without_spills(family: catalog.Family, kernel: catalog.Kernel, arch: str, tmp_path: Path) -> None:
    include = f"-I{catalog.include_folder(family.folder)}"
    done = subprocess.run(
        ["nvcc", "-cubin", f"-arch={arch}", *OPTIONS, include, "-Xptxas", "-v", "-Werror", "all-warnings",
         "-o", str(tmp_path / "out.cubin"), str(family.source(kernel))],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"\b0 bytes spill stores, 0 bytes spill loads", done.stderr)
