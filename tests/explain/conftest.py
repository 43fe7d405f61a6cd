"""Fixtures of the tests of `explain`."""

from pathlib import Path

import pytest

from tests.support import own_kernel


@pytest.fixture
def own_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which holds kernels unlike the catalogue's."""
    own_kernel.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
