"""Fixtures of the catalogue's tests: checkouts of users."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.catalog.checkout import Checkout
from tests.support.families import FAMILY
from tests.support.own_kernel import KERNEL, own


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


@pytest.fixture
def toy(checkout: Path) -> Callable[[str, str], Path]:
    """Return a function that writes a family.toml with a change, and returns the catalogue's folder."""
    folder = checkout / "kernels" / "toy"
    folder.mkdir(parents=True)
    (folder / "plain.cu").write_text("__global__ void toy_plain(float*) {}\n", encoding="utf-8")

    def write(old: str = "", new: str = "") -> Path:
        assert old in FAMILY
        (folder / "family.toml").write_text(FAMILY.replace(old, new, 1) if old else FAMILY, encoding="utf-8")
        return folder.parent

    return write
