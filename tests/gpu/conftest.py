"""Tests that need a GPU, PyCUDA and ncu; elsewhere they are skipped, with the reason."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.kernels import device
from tests.support.own_kernel import EXAMPLE
from tests.support.places import DATA, PROGRAMS
from tests.support.python_kernels import EXAMPLES


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


def _sources(folder: Path) -> Path:
    """Return the folder with the programs' sources in it; skip the test where they cannot be compiled."""
    if not shutil.which("nvcc"):
        pytest.skip("nvcc is not on PATH")
    for file in PROGRAMS.glob("*.*"):
        if file.suffix in (".cu", ".py"):
            shutil.copy(file, folder)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``./several`` and the Python programs."""
    folder = _sources(tmp_path_factory.mktemp("programs"))
    subprocess.run(["nvcc", "-arch=native", "-lineinfo", "-o", "several", "several.cu"], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the programs, built."""
    folder = _sources(tmp_path_factory.mktemp("captured"))
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


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of examples/python with Triton's transpose."""
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    sys.modules.pop("tiles", None)
    return pytest.importorskip("tiles")


@pytest.fixture
def launch() -> dict[str, Any]:
    """Return the launch of a transpose on tensors that are on the GPU."""
    torch = pytest.importorskip("torch")
    x = torch.randn(256, 256, device="cuda")
    return {"grid": (8, 8), "args": [x, torch.empty_like(x), 256, 256], "BM": 32, "BN": 32, "outputs": "y"}
