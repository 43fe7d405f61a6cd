"""Fixtures of the tests of the API and of the pytest plugin."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import ncu_swizzle
from tests.support import fake_ncu
from tests.support.places import ROOT
from tests.support.recordings import Recorded
from tests.support.reports import join, save_run


@pytest.fixture
def run(tmp_path: Path, recorded: Recorded) -> Path:
    """Return the folder of a run of kernel2 beside kernel1."""
    return save_run(tmp_path / "run", "kernel2", [recorded("kernel1"), recorded("kernel2")])


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded_file: Callable[[str], Path]) -> Path:
    """Return an ncu that leaves a report of three kernels, whatever the program."""
    report = tmp_path / "several.ncu-rep"
    report.write_bytes(join([recorded_file(name) for name in ("transpose-plain", "transpose-xor", "tma-128")]))
    program = fake_ncu.install(tmp_path / "ncu")
    monkeypatch.setenv("FAKE_NCU", "program")
    monkeypatch.setenv("FAKE_NCU_REPORT", str(report))
    return program


@pytest.fixture
def project(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> pytest.Pytester:
    """Return a folder in which pytest finds the plugin as pyproject.toml declares it, and every warning is an error."""
    from tests.support import loaded  # noqa: F401 - a pytest within this one unloads what it loads first

    entries = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][
        "pytest11"
    ]
    site = tmp_path_factory.mktemp("site")
    info = site / "entry_points_of_ncu_swizzle-0.dist-info"
    info.mkdir()
    lines = [f"{name} = {module}" for name, module in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]), encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: entry-points-of-ncu-swizzle\nVersion: 0\n")
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{ROOT}")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings = error\n")
    return pytester


@pytest.fixture
def recorded(recorded: Recorded) -> Callable[[str], ncu_swizzle.Profile]:
    """Return a function that reads a recording as the functions of `ncu_swizzle` return it."""
    return lambda name: ncu_swizzle.Profile.of(recorded(name))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an empty cache, which is used from here on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ncu-swizzle"


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    """Return the file in which programs note their process IDs."""
    return tmp_path / "pids"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a folder to work in, beside an empty temporary folder and one for programs."""
    for name in ("work", "tmp", "bin"):
        (tmp_path / name).mkdir()
    return tmp_path / "work"
