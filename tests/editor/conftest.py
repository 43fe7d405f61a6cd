"""A workspace with one kernel whose launch is declared."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.checkouts import DESCRIBED, TURN
from tests.support.places import ROOT


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "turn.cu").write_text(TURN, encoding="utf-8")
    (folder / "ncu-swizzle.toml").write_text(DESCRIBED, encoding="utf-8")
    return folder


@pytest.fixture
def surroundings() -> Mapping[str, str]:
    """Return the environment of an editor's server: this package, this test run's cache."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
