"""Fixtures of the fixes' tests: projects to fix, and the corpus's kernels, each emulated once."""

import shutil
from functools import cache
from pathlib import Path

import pytest

from ncu_swizzle.engines.emulation import EmulationSettings, Executable, executable
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.fixes import CORPUS, OnceEmulated, Projects, specs


@pytest.fixture(scope="session")
def settings() -> EmulationSettings:
    return EmulationSettings(Toolchain(timeout_s=60))


@pytest.fixture(scope="session")
def once_emulated(settings: EmulationSettings) -> OnceEmulated:
    """Return a function that emulates a kernel of the corpus as it is, once."""

    @cache
    def emulate(name: str) -> Executable:
        return executable(specs()[name], settings)

    return emulate


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Projects:
    """Return a function that copies a folder of tests/data/fix/projects, and goes there."""

    def copied(name: str) -> Path:
        shutil.copytree(CORPUS / "projects" / name, tmp_path, dirs_exist_ok=True)
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return copied
