"""Fixtures of the tests of workers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.fleets import Collected
from tests.support.places import ROOT


@pytest.fixture
def collected(tmp_path: Path) -> Collected:
    folder = tmp_path / "collected"
    folder.mkdir()
    return Collected(folder)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the example project."""
    folder = tmp_path / "own"
    shutil.copytree(ROOT / "examples" / "own-kernel", folder)
    return folder


@pytest.fixture
def other_version(tmp_path: Path) -> Path:
    """Return a folder with another ncu-swizzle: one line of it differs."""
    folder = tmp_path / "other"
    shutil.copytree(ROOT / "ncu_swizzle", folder / "ncu_swizzle", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("kernels", "rules", "reports", "recordings"):
        (folder / name).symlink_to(ROOT / name)
    file = folder / "ncu_swizzle" / "smem" / "banks.py"
    file.write_text(file.read_text() + "\n# another version\n")
    return folder
