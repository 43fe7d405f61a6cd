"""Fixtures of the tests that read .ncu-rep files."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import nvidia_says
from tests.support.recordings import REPORTS


@pytest.fixture(scope="session")
def nvidia() -> dict[Path, list[dict[str, Any]]]:
    """Return what NVIDIA's module says of the recorded reports."""
    return nvidia_says.of(REPORTS)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is read apart from every other test's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
