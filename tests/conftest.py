"""What the tests share: the recordings from the H100, read once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ncu_swizzle.catalog import collection
from ncu_swizzle import paths
from ncu_swizzle.ncurep import reader
from ncu_swizzle.profiles.model import Profile

pytest_plugins = ("pytester",)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts what it puts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

RECORDINGS = paths.recordings() / "h100"


def pytest_configure(config: pytest.Config) -> None:
    """Keep what is compiled and disassembled for later runs, apart from the user's own cache."""
    cache = getattr(config, "cache", None)  # its plugin can be switched off
    if cache is not None:
        os.environ["XDG_CACHE_HOME"] = str(cache.mkdir("xdg"))


@pytest.fixture(scope="session")
def recorded(
    recorded_file: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Profile]:
    """Return a function that reads a recording by the kernel's name, once for all workers of a test run."""
    shared = tmp_path_factory.getbasetemp().parent  # each worker's own folder lies in it

    @cache
    def read(name: str) -> Profile:
        saved = shared / f"{name}.profile.json"
        if saved.is_file():
            return Profile.from_json(saved.read_text(encoding="utf-8"))
        (profile,) = reader.read(recorded_file(name))
        if "PYTEST_XDIST_WORKER" in os.environ:  # without workers the folder outlives the run
            profile.save(saved)
        return profile

    return read


@pytest.fixture(scope="session")
def recorded_file() -> Callable[[str], Path]:
    """Return a function that finds a recorded .ncu-rep by the kernel's name."""
    return lambda name: RECORDINGS / collection.shipped().find(name)[0].name / f"{name}.ncu-rep"


@pytest.fixture
def report_file(recorded_file: Callable[[str], Path]) -> Path:
    """Return the .ncu-rep of kernel2, as recorded; copy it before changing it."""
    return recorded_file("kernel2")
