"""What the tests share: the recordings from the H100, read once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ncu_swizzle import paths, repfile
from ncu_swizzle.profile import Profile

RECORDINGS = paths.recordings() / "h100"


@cache
def _recorded(family: str, name: str) -> Profile:
    (profile,) = repfile.read(RECORDINGS / family / f"{name}.ncu-rep")
    return profile


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], Profile]:
    """Return a function that reads an attention kernel's recording by the kernel's name."""
    return lambda name: _recorded("attention", name)


@pytest.fixture
def report_file() -> Path:
    """Return the .ncu-rep of kernel2, as recorded; copy it before changing it."""
    return RECORDINGS / "attention" / "kernel2.ncu-rep"
