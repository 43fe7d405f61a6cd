"""Fixtures of the front ends' tests."""

import shutil
from pathlib import Path

import pytest

from ncu_swizzle.engines import emulation
from ncu_swizzle.reports.model import Profile
from tests.support.python_kernels import EXAMPLES, TEXTS, launched, recorded


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is the current one, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def kernels(work: Path) -> Path:
    """Return a folder with the examples' tiles, and a function that calls one of another file."""
    shutil.copy(EXAMPLES / "tiles.py", work)
    shutil.copy(EXAMPLES / "gluon_kernels.py", work)
    shutil.copytree(TEXTS / "triton", work, dirs_exist_ok=True)
    return work


@pytest.fixture
def examples(work: Path) -> Path:
    """Return a folder with the modules of examples/python."""
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, work)
    return work


@pytest.fixture
def cute(work: Path) -> Path:
    """Return a folder with the example, and with host functions that launch several kernels, or none."""
    shutil.copy(EXAMPLES / "cute_kernels.py", work)
    shutil.copytree(TEXTS / "cute", work, dirs_exist_ok=True)
    return work


@pytest.fixture(scope="module")
def profiles() -> dict[str, Profile]:
    """Return the profiles of two kernels, computed from the cubins that Triton 3.6 compiled on the H100."""
    cubins = recorded()[1]
    names = {"matmul-tf32-triton3.6": "matmul-tf32-128x128x32", "column-sums-triton3.6": "column-sums"}
    return {key: emulation.emulate_cubin(launched(name), cubins[name]).profile for key, name in names.items()}
