"""Fixtures of the gate's tests: folders to judge, and a verdict."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ncu_swizzle.reports.model import Profile
from tests.support.gate_profiles import lasting, measured, named
from tests.support.marks import PYTHON, program
from tests.support.own_kernel import KERNEL, own
from tests.support.places import DATA
from tests.support.recordings import Recorded
from tests.support.repositories import repository

if TYPE_CHECKING:
    from ncu_swizzle.gate.verdict import Verdict


@pytest.fixture
def kernel1(recorded: Recorded) -> Profile:
    """Return kernel1, which has conflicts, as if it had been measured now."""
    return measured(recorded("kernel1"))


@pytest.fixture
def kernel2(recorded: Recorded) -> Profile:
    """Return kernel2, which has none, as if it had been measured now."""
    return measured(recorded("kernel2"))


@pytest.fixture
def work(tmp_path: Path, kernel1: Profile, kernel2: Profile) -> Path:
    """Return a folder with profiles: kernel1 before it is fixed, and fixed, also slow; kernel2."""
    fixed = named(kernel2, "kernel1")
    profiles = {"before": kernel1, "after": kernel2, "fixed": fixed, "slow": lasting(fixed, 2e6)}
    for name, profile in profiles.items():
        profile.save(tmp_path / f"{name}.json")
    return tmp_path


@pytest.fixture
def three(kernel1: Profile, kernel2: Profile, recorded: Recorded) -> Verdict:
    """Return a verdict with a failure, a pass, and a recorded kernel that is not judged."""
    from ncu_swizzle.gate.baseline import Policy
    from ncu_swizzle.gate.judge import judge

    return judge([kernel1, kernel2, recorded("transpose-plain")], Policy())


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a copy of tests/data/lint."""
    folder = tmp_path / "lint"
    shutil.copytree(DATA / "lint", folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def inner_project(sources: Path) -> Path:
    """Return a folder of the sources, whose header lies outside of it."""
    os.chdir(sources / "project")
    return sources / "project"


@pytest.fixture
def counted_bytes(sources: Path) -> None:
    """Put numbers from 0 to 255, four times, into x.npy."""
    import numpy as np

    np.save(sources / "x.npy", np.arange(1024, dtype=np.uint8))


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """Return the file that exists once anything of the checkout has run."""
    return tmp_path / "marker"


@pytest.fixture
def hostile(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the example's kernel, an `evil` program, and the current folder's modules shadowed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "checkout"
    own(folder, KERNEL)
    program(folder / "evil", marker, 'exec gcc "$@"')
    for module in ("json", "numpy", "ncu_report", "typer", "rich", "pycuda", "torch", "sitecustomize"):
        (folder / f"{module}.py").write_text(PYTHON.format(marker=str(marker)), encoding="utf-8")
    return folder


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Return a repository of three commits: the first does not compile, the last brings a conflict."""
    repository(tmp_path / "r", 3, planted=2, broken=(0,))
    return tmp_path / "r"
