"""Fixtures of the tests of cubins."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.reports import container
from tests.support.sources import NAMED


@pytest.fixture(scope="session")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> Cubin:
    """Return what nvcc makes of NAMED."""
    if not shutil.which("nvcc"):
        pytest.skip("needs nvcc")
    folder = tmp_path_factory.mktemp("symbols")
    (folder / "k.cu").write_text(NAMED, encoding="utf-8")
    subprocess.run(["nvcc", "-cubin", "-arch=sm_90", "k.cu", "-o", "k.cubin"], cwd=folder, check=True)
    return Cubin((folder / "k.cubin").read_bytes(), "k.cu")


@pytest.fixture(scope="session")
def recorded_cubin(recorded_file: Callable[[str], Path]) -> bytes:
    """Return the cubin of a recorded kernel."""
    return container.inspect(recorded_file("transpose-xor")).results[0].cubin
