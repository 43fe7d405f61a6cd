"""What the tests share: the recordings from the H100, read once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ncu_swizzle import catalog, paths, repfile
from ncu_swizzle.profile import Profile

RECORDINGS = paths.recordings() / "h100"


@cache
def _recorded(name: str) -> Profile:
    family, _ = catalog.load().find(name)
    (profile,) = repfile.read(RECORDINGS / family.name / f"{name}.ncu-rep")
    return profile


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], Profile]:
    """Return a function that reads a recording by the kernel's name."""
    return _recorded


@pytest.fixture(scope="session")
def recorded_file() -> Callable[[str], Path]:
    """Return a function that finds a recorded .ncu-rep by the kernel's name."""
    return lambda name: RECORDINGS / catalog.load().find(name)[0].name / f"{name}.ncu-rep"


@pytest.fixture
def report_file(recorded_file: Callable[[str], Path]) -> Path:
    """Return the .ncu-rep of kernel2, as recorded; copy it before changing it."""
    return recorded_file("kernel2")
