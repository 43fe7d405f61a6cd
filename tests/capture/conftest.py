"""Fixtures of the tests of capturing."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.base import native
from ncu_swizzle.capture import running
from ncu_swizzle.capture.launches import open_launches
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from tests.support import captures
from tests.support.places import PROGRAMS, ROOT

SUPPORT = ROOT / "tests" / "support"


@pytest.fixture(scope="session")
def cubin() -> bytes:
    with open_launches(captures.recorded("driver")) as file:
        return file.cubin(next(iter(file.manifest.cubins)))


@pytest.fixture(scope="session")
def shared_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``counting`` and ``several``, linked with the shared runtime."""
    folder = tmp_path_factory.mktemp("shared")
    nvcc = str(Toolchain().find(NVCC))
    for name in ("counting", "several"):
        command = [nvcc, "-arch=sm_90", "-lineinfo", "-cudart", "shared", "-o", name, str(PROGRAMS / f"{name}.cu")]
        subprocess.run(command, cwd=folder, check=True)
    return folder


@pytest.fixture(scope="session")
def _fake_program(cubin: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fake")
    (folder / "driver.cubin").write_bytes(cubin)
    compile_ = [native.compiler(), f"-I{running.sources()}"]
    source, driver = str(SUPPORT / "fake_driver.c"), folder / "libcuda.so.1"
    soname = ["-shared", "-fPIC", "-DDRIVER", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*compile_, *soname, "-o", str(driver), source], check=True)
    subprocess.run([*compile_, "-o", str(folder / "app"), source, str(driver), "-ldl", "-lpthread"], check=True)
    return folder


@pytest.fixture
def fake_program(_fake_program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with ``app``, which brings a driver and a CUPTI of its own, and the cubin that it loads."""
    folder = shutil.copytree(_fake_program, tmp_path / "fake")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv(running.VARIABLE, str(folder / "libcuda.so.1"))
    return folder
