"""Fixtures of the tests of sweeps."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ncu_swizzle.reports.model import Profile
from ncu_swizzle.sweep import table
from ncu_swizzle.sweep.plan import Sweep
from tests.support import fake_cuda, fake_ncu, process
from tests.support.fleets import Collected
from tests.support.places import ROOT
from tests.support.processes import marked
from tests.support.sweeps import hostile, transposes
from tests.support.writers import poisoned_sweep


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
    file.write_text(table.to_html(poisoned_sweep(transposes(recorded), hostile)), encoding="utf-8")
    return file


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Return a function that gives the environment of an ncu which does well, but for one size: as a scenario says.

    It notes each launch in `launches`; with `once` it does badly the first time only.
    """
    program = fake_ncu.install(
        tmp_path / "bin" / "ncu",
        'case "$*" in *--version*) echo "Version 2025.3.1.0"; exit;; esac',
        "for word; do case $word in seq=*) seq=$word;; esac; kernel=$word; done",
        f'echo "$kernel,$seq" >> {tmp_path}/launches',
        "export FAKE_NCU=ok",
        f'[ "$seq" = "seq=$BAD_SEQ" ] && [ ! -e {tmp_path}/"$BAD_ONCE" ] && FAKE_NCU=$BAD && touch {tmp_path}/happened',
    )
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"

    def environment(bad: str = "ok", seq: int = 0, *, once: bool = False, **more: str) -> dict[str, str]:
        forgets = "happened" if once else "never"
        return process.environment(PATH=path, BAD=bad, BAD_SEQ=str(seq), BAD_ONCE=forgets, **more)

    return environment


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
def fakes(tmp_path: Path, fake: Callable[..., dict[str, str]]) -> Iterator[Callable[..., dict[str, str]]]:
    """Return a function that gives the sweep's environment with two GPUs; whatever it leaves behind is killed."""
    gpus = fake_cuda.install(tmp_path / "cuda")
    yield partial(fake, LD_LIBRARY_PATH=str(gpus), NCU_SWIZZLE_TEST=str(tmp_path))
    for pid in marked(f"NCU_SWIZZLE_TEST={tmp_path}"):
        os.kill(pid, signal.SIGKILL)
