"""Fixtures of the tests that read .ncu-rep files."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import nvidia_says, python_kernels
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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, which is the home folder too, with a report of a Triton kernel in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("TRITON_CACHE_DIR", "TRITON_HOME", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.ncu-rep").write_bytes(python_kernels.report())
    return tmp_path


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
