"""Tests that need a GPU, PyCUDA and ncu; elsewhere they are skipped, with the reason."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.kernels import device
from tests.support.own_kernel import EXAMPLE
from tests.support.places import DATA, PROGRAMS


def _lacking() -> str:
    if device.absent():
        return device.absent()
    if importlib.util.find_spec("pycuda") is None:
        return "PyCUDA is not installed"
    return "" if shutil.which("ncu") else "ncu is not on PATH"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lacking = _lacking()
    for item in items:
        if lacking and "gpu" in item.path.parent.name:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {lacking}"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the programs, those of C++ built; skip the test where they cannot be compiled."""
    if not shutil.which("nvcc"):
        pytest.skip("nvcc is not on PATH")
    folder = tmp_path_factory.mktemp("programs")
    for file in PROGRAMS.glob("*.*"):
        if file.suffix in (".cu", ".py"):
            shutil.copy(file, folder)
    for options in (
        ("-o", "several", "several.cu"),
        ("-cudart", "shared", "-o", "several-shared", "several.cu"),
        ("-cubin", "-o", "driver.cubin", "driver.cu"),
        ("-lcuda", "-o", "driver", "driver.cu"),
        ("-o", "counting", "counting.cu"),
        ("-o", "shapes", "shapes.cu"),
    ):
        subprocess.run(["nvcc", "-arch=native", "-lineinfo", *options], cwd=folder, check=True)
    return folder


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with spaces in its name, the current one, with the example and others of its kind."""
    folder = tmp_path / "a dir"
    shutil.copytree(EXAMPLE, folder / "own")
    shutil.copytree(DATA / "others", folder, dirs_exist_ok=True)
    monkeypatch.chdir(folder)
    return folder
