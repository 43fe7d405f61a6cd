"""Fixtures of the front ends' tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ncu_swizzle.engines import emulation
from ncu_swizzle.reports.model import Profile
from tests.support.cute_texts import SEVERAL
from tests.support.python_kernels import FACTORS, SCALE
from tests.support.python_recordings import EXAMPLES, launched, recorded


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
    (work / "scale.py").write_text(SCALE, encoding="utf-8")
    (work / "factors.py").write_text(FACTORS, encoding="utf-8")
    return work


@pytest.fixture
def cute(work: Path) -> Path:
    """Return a folder with the examples, and the functions that are about errors."""
    shutil.copy(EXAMPLES / "cute_kernels.py", work)
    (work / "several.py").write_text(SEVERAL, encoding="utf-8")
    return work


@pytest.fixture(scope="module")
def profiles() -> dict[str, Profile]:
    """Return the profiles of two kernels, computed from the cubins that Triton 3.6 compiled on the H100."""
    cubins = recorded()[1]
    names = {"matmul-tf32-triton3.6": "matmul-tf32-128x128x32", "column-sums-triton3.6": "column-sums"}
    return {key: emulation.emulate_cubin(launched(name), cubins[name]).profile for key, name in names.items()}
