"""Fixtures of the tests of capturing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.build.toolchain import NVCC, Toolchain
from ncu_swizzle.launches import container
from tests.support import captures
from tests.support.places import PROGRAMS


@pytest.fixture
def cubin() -> bytes:
    with container.open_launches(captures.recorded("driver")) as file:
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
