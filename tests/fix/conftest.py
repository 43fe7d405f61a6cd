"""Fixtures of the fixes' tests: an example to fix, and what launches on a GPU come to."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.engines.emulation import EmulationSettings, Executable, executable
from ncu_swizzle.engines.measured import LaunchJob
from ncu_swizzle.fix import on_gpu
from ncu_swizzle.kernels import gpu
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.fix_corpus import OnceEmulated, specs
from tests.support.fixes_on_gpu import Launches
from tests.support.own_headers import DESCRIBED, TURNED, source
from tests.support.places import DATA, ROOT


@pytest.fixture(scope="session")
def settings() -> EmulationSettings:
    return EmulationSettings(Toolchain(timeout_s=60))


@pytest.fixture
def fix_example(tmp_path: Path) -> Path:
    """Return a copy of examples/fix."""
    shutil.copytree(ROOT / "examples" / "fix", tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    """Return a function that says what the launches of a GPU's process come to."""
    monkeypatch.setattr(gpu, "absent", lambda: "")
    monkeypatch.setattr(gpu, "devices", lambda: [("a GPU", (9, 0))])

    def come_to(
        after: str = "a", took: float = 1.0, old: int = 0, new: int = 0, error: NcuSwizzleError | None = None
    ) -> None:
        facts = {
            "outputs": [{"before": {"y": ["a"] * 3}, "after": {"y": [after] * 3}}],
            "times_ms": {"before": [1.0] * 5, "after": [took] * 5},
        }

        def run_batch(jobs: Sequence[LaunchJob], *_: Any, **__: Any) -> tuple[list[Any], str]:
            assert all(Path(kernel.cubin).is_file() for job in jobs for kernel in job.kernels)
            return [error or facts for _ in jobs], ""

        def found_by(tool: str, jobs: Sequence[LaunchJob], *_: Any) -> int:
            names = [kernel.name for job in jobs for kernel in job.kernels]
            return {"before": old, "after": new}[names[0]] if tool == "racecheck" else 0

        monkeypatch.setattr(on_gpu, "run_batch", run_batch)
        monkeypatch.setattr(on_gpu, "found_by", found_by)

    return come_to


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project whose kernel hands its tile to a function of a header in another folder."""
    for folder in ("src", "include"):
        (tmp_path / folder).mkdir()
    (tmp_path / "include" / "turned.cuh").write_text(f"#pragma once\n{TURNED}")
    source(tmp_path, "floats", "tile")
    (tmp_path / "ncu-swizzle.toml").write_text(DESCRIBED.format(name="floats", source="src/floats.cu"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with two kernels that are given policies of one header."""
    shutil.copytree(DATA / "fix" / "policies", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def once_emulated(settings: EmulationSettings) -> OnceEmulated:
    """Return a function that emulates a kernel of the corpus as it is, once."""

    @cache
    def emulate(name: str) -> Executable:
        return executable(specs()[name], settings)

    return emulate
