"""Fixtures of the tests of commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import fake_ncu
from tests.support.process import environment
from tests.support.recordings import Recorded
from tests.support.reports import join, save_run


@pytest.fixture
def files(tmp_path: Path, recorded_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with old.ncu-rep and new.ncu-rep, of several kernels each, and go there."""
    monkeypatch.chdir(tmp_path)
    names = {"old": ("transpose-plain", "transpose-xor"), "new": ("transpose-xor", "transpose-plain", "tma-32")}
    for name, parts in names.items():
        (tmp_path / f"{name}.ncu-rep").write_bytes(join([recorded_file(part) for part in parts]))
    return tmp_path


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Return a function that gives the environment in which `ncu` on PATH behaves as the scenario says."""
    program = fake_ncu.install(tmp_path / "bin" / "ncu")
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return lambda scenario: environment(PATH=path, FAKE_NCU=scenario)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def saved_run(tmp_path: Path, recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a run of kernel2 beside kernel1, and go to the folder above it."""
    monkeypatch.chdir(tmp_path)
    return save_run(tmp_path / "run", "kernel2", [recorded("kernel1"), recorded("kernel2")])
