"""Fixtures of the tests of workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fleets import Collected


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
