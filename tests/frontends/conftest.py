"""Fixtures of the front ends' tests."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.engines import emulation
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.model import Profile
from tests.support import process
from tests.support.python_kernels import EXAMPLES, OURS, TEXTS, launched, recorded


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is the current one, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def kernels(work: Path) -> Path:
    """Return a folder with the examples' tiles, and a function that calls one of another file."""
    shutil.copy(EXAMPLES / "tiles.py", work)
    shutil.copy(EXAMPLES / "gluon_kernels.py", work)
    shutil.copytree(TEXTS / "triton", work, dirs_exist_ok=True)
    return work


@pytest.fixture
def examples(work: Path) -> Path:
    """Return a folder with the modules of examples/python."""
    for file in EXAMPLES.glob("*.py"):
        shutil.copy(file, work)
    return work


@pytest.fixture
def cute(work: Path) -> Path:
    """Return a folder with the example, and with kernels of which one calls a function of another file."""
    shutil.copy(EXAMPLES / "cute_kernels.py", work)
    shutil.copytree(TEXTS / "cute", work, dirs_exist_ok=True)
    return work


@pytest.fixture(scope="module")
def profiles() -> dict[str, Profile]:
    """Return the profiles of two kernels, computed from the cubins that Triton 3.6 compiled on the H100."""
    cubins = recorded()[1]
    names = {"matmul-tf32-triton3.6": "matmul-tf32-128x128x32", "column-sums-triton3.6": "column-sums"}
    return {key: emulation.emulate_cubin(launched(name), cubins[name]).profile for key, name in names.items()}


@pytest.fixture
def profiled(work: Path) -> Callable[..., Profile]:
    """Return a function that gives the profile which `profile` writes of its only kernel."""

    def run(*words: str) -> Profile:
        done = process.run("profile", *words, *OURS, "-o", "run", "--force-overwrite", folder=work)
        assert done.returncode == 0, done.stderr
        (profile,) = run_folder.load(work / "run").profiles
        return profile

    return run


@pytest.fixture
def refused(work: Path) -> Callable[..., tuple[str, str]]:
    """Return a function that gives the error and the hint of a `profile` that fails."""

    def run(*words: str) -> tuple[str, str]:
        done = process.run("profile", *words, *OURS, folder=work)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        error, _, hint = done.stderr.partition("\n  try: ")
        return error, hint.strip()

    return run


@pytest.fixture
def linted(work: Path) -> Callable[..., tuple[int, str]]:
    """Return a function that gives the exit code of `lint` and what it prints."""

    def run(*words: str) -> tuple[int, str]:
        done = process.run("lint", *words, "--config", "none", folder=work)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr

    return run
