"""Fixtures of the tests of sweeps."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.sweep import page
from ncu_swizzle.sweep.outcome import Sweep
from tests.support import fake_ncu, process
from tests.support.sweeps import hostile, many, transposes


@pytest.fixture(scope="session")
def sweep(recorded: Callable[[str], Profile]) -> Sweep:
    return transposes(recorded)


@pytest.fixture(scope="session")
def page_file(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sweep") / "report.html"
    file.write_text(page.render(sweep), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def many_file(recorded: Callable[[str], Profile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sweep") / "many.html"
    file.write_text(page.render(many(recorded)), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def hostile_file(recorded: Callable[[str], Profile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sweep") / "hostile.html"
    file.write_text(page.render(hostile(recorded)), encoding="utf-8")
    return file


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Return a function that gives the environment of an ncu which does well, but for one size: as a scenario says."""
    program = fake_ncu.install(
        tmp_path / "bin" / "ncu",
        'case "$*" in *--version*) echo "Version 2025.3.1.0"; exit;; esac',
        f'echo "$*" >> {tmp_path}/launches',
        'case "$*" in *"seq=$BAD_SEQ"*) FAKE_NCU=$BAD;; *) FAKE_NCU=ok;; esac',
        "export FAKE_NCU",
    )
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return lambda bad="ok", seq=0: process.environment(PATH=path, BAD=bad, BAD_SEQ=str(seq))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    return place
