"""Fixtures of the tests of the toolchain."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.build import toolchain
from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.cubin.elf import Cubin
from tests.support.hand_made import Hostile
from tests.support.sources import PLANE_AND_RANKED


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide every toolkit; return a folder that is the only one on PATH."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchain, "TOOLKIT", tmp_path / "toolkit")
    monkeypatch.setattr(toolchain, "packaged", lambda: [tmp_path / "packaged"])
    return tmp_path / "path"


@pytest.fixture(scope="module")
def plane_and_ranked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cubin]:
    """Return the cubin of a source with two kernels, with line tables (and so PTX) and without."""
    folder = tmp_path_factory.mktemp("signatures")
    (folder / "source.cu").write_text(PLANE_AND_RANKED)
    nvcc, made = str(Toolchain().find("nvcc")), {}
    for name, options in (("with", ["-lineinfo"]), ("without", [])):
        out = folder / f"{name}.cubin"
        subprocess.run([nvcc, "-cubin", "-arch=sm_90", *options, "-o", str(out), str(folder / "source.cu")], check=True)
        made[name] = Cubin(out.read_bytes(), out.name)
    return made


@pytest.fixture
def made(tmp_path: Path) -> Hostile:
    return Hostile(tmp_path / "made")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """Return an empty folder, in one that holds a file that must stay as it is."""
    (tmp_path / "around" / "inside").mkdir(parents=True)
    (tmp_path / "around" / "kept").write_text("mine\n")
    return tmp_path / "around" / "inside"
