"""Fixtures of the tests of the toolchain."""

from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.kernels import toolchain
from ncu_swizzle.kernels.nvcc_options import Checkout
from tests.support.own_kernel import KERNEL, own
from tests.support.repositories import Hostile


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


@pytest.fixture
def made(tmp_path: Path) -> Hostile:
    return Hostile(tmp_path / "made")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """Return an empty folder, in one that holds a file that must stay as it is."""
    (tmp_path / "around" / "inside").mkdir(parents=True)
    (tmp_path / "around" / "kept").write_text("mine\n")
    return tmp_path / "around" / "inside"


@pytest.fixture
def bounded(tmp_path: Path) -> Checkout:
    """Return those of a checkout with an include folder, a header, and a link to a header outside."""
    (tmp_path / "checkout" / "inc").mkdir(parents=True)
    (tmp_path / "checkout" / "own.h").write_text("", encoding="utf-8")
    (tmp_path / "outside.h").write_text("", encoding="utf-8")
    (tmp_path / "checkout" / "link.h").symlink_to(tmp_path / "outside.h")
    return Checkout(tmp_path / "checkout")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with the example's kernel; beside it are the user's own files."""
    own(tmp_path / "checkout", KERNEL)
    own(tmp_path)
    np.save(tmp_path / "x.npy", np.zeros((64, 64), np.float32))
    (tmp_path / "reference.py").write_text("raise SystemExit('it ran')\n", encoding="utf-8")
    (tmp_path / "secret.cuh").write_text("// private\n", encoding="utf-8")
    return tmp_path / "checkout"
