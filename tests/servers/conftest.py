"""A workspace with one kernel whose launch is declared."""

from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.servers.answer import Caller, Folders, Service
from tests.support.own_kernel import TRANSPOSE
from tests.support.repositories import DESCRIBED, TURN


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "turn.cu").write_text(TURN, encoding="utf-8")
    (folder / "ncu-swizzle.toml").write_text(DESCRIBED, encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: it holds ``t.cu``, a transpose whose reads conflict 32 ways."""
    (tmp_path / "t.cu").write_text(TRANSPOSE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def caller(folder: Path) -> Caller:
    """Return a client that may read the folder, and run nothing."""
    return Caller(Folders((folder,)))


@pytest.fixture
def service(folder: Path) -> Service:
    """Return a server's calls for that client."""
    return Service(Folders((folder,)))


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that the client may not read."""
    other = tmp_path_factory.mktemp("outside")
    (other / "t.cu").write_text(TRANSPOSE, encoding="utf-8")
    np.save(other / "data.npy", np.zeros(4, np.float32))
    return other
