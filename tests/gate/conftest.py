"""Fixtures of the gate's tests: folders to judge, and a verdict."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.verdict import Verdict
from tests.support.checkouts import Checkout
from tests.support.gate_profiles import measured, named
from tests.support.markers import PYTHON, program
from tests.support.own_kernel import KERNEL, own
from tests.support.places import DATA
from tests.support.recordings import Recorded


@pytest.fixture
def work(tmp_path: Path, recorded: Recorded) -> Path:
    """Return a folder with profiles that were measured: conflicts in before.json, none in after.json."""
    measured(recorded("kernel1")).save(tmp_path / "before.json")
    measured(recorded("kernel2")).save(tmp_path / "after.json")
    named(measured(recorded("kernel2")), "kernel1").save(tmp_path / "fixed.json")
    return tmp_path


@pytest.fixture
def three(recorded: Recorded) -> Verdict:
    """Return a verdict with a failure, a pass, and a recorded kernel that is not judged."""
    return judge([measured(recorded("kernel1")), measured(recorded("kernel2")), recorded("transpose-plain")], Policy())


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, with a copy of tests/data/lint."""
    folder = tmp_path / "lint"
    shutil.copytree(DATA / "lint", folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


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
def checkout(tmp_path: Path) -> Checkout:
    return Checkout.new(tmp_path / "checkout")
