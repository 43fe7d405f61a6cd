"""Fixtures of the front ends' tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.cute_texts import SEVERAL
from tests.support.python_kernels import FACTORS, SCALE
from tests.support.python_recordings import EXAMPLES


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
