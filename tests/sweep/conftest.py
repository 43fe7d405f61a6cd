"""Fixtures of the tests of sweeps."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ncu_swizzle.reports.model import Profile
from ncu_swizzle.sweep import table
from ncu_swizzle.sweep.folder import Sweep
from tests.support import fake_cuda, fake_ncu, process
from tests.support.fleets import Collected
from tests.support.places import ROOT
from tests.support.processes import marked
from tests.support.sweeps import hostile, transposes


@pytest.fixture(scope="session")
def sweep(recorded: Callable[[str], Profile]) -> Sweep:
    return transposes(recorded)


@pytest.fixture(scope="session")
def page_file(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sweep") / "report.html"
    file.write_text(table.to_html(sweep), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def hostile_file(recorded: Callable[[str], Profile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sweep") / "hostile.html"
    file.write_text(table.to_html(hostile(recorded)), encoding="utf-8")
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


@pytest.fixture
def collected(tmp_path: Path) -> Collected:
    folder = tmp_path / "collected"
    folder.mkdir()
    return Collected(folder)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of the example project."""
    folder = tmp_path / "own"
    shutil.copytree(ROOT / "examples" / "own-kernel", folder)
    return folder


@pytest.fixture
def other_version(tmp_path: Path) -> Path:
    """Return a folder with another ncu-swizzle: one line of it differs."""
    folder = tmp_path / "other"
    shutil.copytree(ROOT / "ncu_swizzle", folder / "ncu_swizzle", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("kernels", "rules", "reports", "recordings"):
        (folder / name).symlink_to(ROOT / name)
    file = folder / "ncu_swizzle" / "smem" / "operations.py"
    file.write_text(file.read_text() + "\n# another version\n")
    return folder


@pytest.fixture
def gpus(tmp_path: Path) -> Path:
    """Return the folder of a driver with two GPUs."""
    return fake_cuda.install(tmp_path / "cuda")


@pytest.fixture
def ncu(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that installs an ncu which hangs at a size; a negative one: the first time only.

    It notes each launch in `launches`.
    """

    def installed(hang: str) -> Path:
        size, once = hang.removeprefix("-"), hang.startswith("-")
        forgets = f"[ -e {tmp_path}/hangs ] && at=" if once else ":"
        return fake_ncu.install(
            tmp_path / "bin" / "ncu",
            'case "$*" in *--version*) echo "Version 2025.3.1.0"; exit;; esac',
            "for word; do case $word in seq=*) seq=$word;; esac; kernel=$word; done",
            f'echo "$kernel,$seq" >> {tmp_path}/launches',
            f"at=seq={size}",
            forgets,
            "FAKE_NCU=ok",
            f'if [ "$seq" = "$at" ]; then FAKE_NCU=hang; touch {tmp_path}/hangs; fi',
            "export FAKE_NCU",
        )

    return installed


@pytest.fixture
def fakes(gpus: Path, tmp_path: Path, ncu: Callable[[str], Path]) -> Iterator[Callable[..., dict[str, str]]]:
    """Return a function that gives the sweep's environment; whatever it leaves behind is killed."""
    mark = f"NCU_SWIZZLE_TEST={tmp_path}"

    def environment(hang: int = 0) -> dict[str, str]:
        path = f"{ncu(str(hang)).parent}{os.pathsep}{os.environ['PATH']}"
        name, _, value = mark.partition("=")
        return process.environment(PATH=path, LD_LIBRARY_PATH=str(gpus), **{name: value})

    yield environment
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)
