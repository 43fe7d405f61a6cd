"""Fixtures of the tests of the toolchain."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.build import toolchain


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide every toolkit; return a folder that is the only one on PATH."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "TOOLKIT", tmp_path / "toolkit")
    monkeypatch.setattr(toolchain, "packaged", lambda: [tmp_path / "packaged"])
    return tmp_path / "path"
