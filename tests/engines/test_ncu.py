"""ncu's command line, its progress, and what its failures mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.engines import machine, ncu
from ncu_swizzle.engines import ncu as progress_
from ncu_swizzle.engines import settings as options_
from ncu_swizzle.engines.machine import System
from ncu_swizzle.engines.settings import Done


def test_the_command_line_says_everything_explicitly() -> None:
    options = options_.Options(extra=("--sampling-interval", "0"))
    assert ncu.argv(Path("/opt/ncu"), "k.ncu-rep", ["python3", "-m", "x"], options) == [
        *("/opt/ncu", "--target-processes", "application-only", "--profile-from-start", "off"),
        *("--section-folder", str(paths.rules()), "--section", "SwizzleConflicts"),
        *("--clock-control", "none", "--cache-control", "all", "--replay-mode", "kernel", "--launch-count", "1"),
        *("--sampling-interval", "0", "--export", "k.ncu-rep", "--force-overwrite", "--", "python3", "-m", "x"),
    ]


def test_the_section_exists_under_its_name() -> None:
    text = (paths.rules() / f"{options_.SECTION}.section").read_text(encoding="utf-8")
    assert f'Identifier: "{options_.SECTION}"' in text


def test_progress_follows_the_replay_passes() -> None:
    seen: list[Done] = []
    progress = progress_.Progress(seen.append)
    # As it arrived from a real one.
    for text in ('==PROF== Profiling "kernel1" - 0: ', "0%", *"....", "50%", "...", ".", "100% - 6 passes\n"):
        progress.feed(text)
    assert [done.fraction for done in seen] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.8, 0.9, 1]


def program(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho Version {version} '(build 1)'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


class Elsewhere(System):
    """A machine whose root is a folder, with nothing on PATH but what the folder's bin has."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def environment(self) -> dict[str, str]:
        return {"CUDA_HOME": str(self.root / "cuda")}

    def which(self, name: str) -> str | None:
        path = self.root / "bin" / name
        return str(path) if path.exists() else None

    def glob(self, pattern: str) -> list[Path]:
        return sorted(self.root.glob(pattern.lstrip("/")))


def test_the_newest_ncu_is_used_unless_one_is_named(tmp_path: Path) -> None:
    here = Elsewhere(tmp_path)
    with pytest.raises(EnvironmentLacking, match="was not found") as lacking:
        machine.find(system=here)
    assert "--engine recorded" in lacking.value.hint
    old = program(tmp_path / "opt/nvidia/nsight-compute/2024.3.2/ncu", "1.0")
    assert machine.find(system=here) == old
    on_path = program(tmp_path / "bin/ncu", "2024.3.2.0")
    assert machine.find(system=here) == on_path, "2024.3.2.0 is no older than 2024.3.2, and PATH comes first"
    newest = program(tmp_path / "opt/nvidia/nsight-compute/2025.10.1/ncu", "1.0")
    program(tmp_path / "opt/nvidia/nsight-compute/2025.9.0/ncu", "1.0")
    assert machine.find(system=here) == newest, "10 is more than 9"
    toolkit = program(tmp_path / "usr/local/cuda-13.1/bin/ncu", "2026.1.0.0")
    assert machine.find(system=here) == toolkit, "the toolkit's is asked for its version"
    (tmp_path / "cuda/bin").mkdir(parents=True)
    (tmp_path / "cuda/bin/ncu").symlink_to(toolkit)
    assert machine.find(system=here).resolve() == toolkit
    assert machine.find(old, here) == old
    with pytest.raises(EnvironmentLacking, match="is not an executable"):
        machine.find(tmp_path, here)


def test_an_ncu_that_does_not_tell_its_version_comes_last(tmp_path: Path) -> None:
    here = Elsewhere(tmp_path)
    silent = program(tmp_path / "bin/ncu", "unknown")
    assert machine.find(system=here) == silent
    telling = program(tmp_path / "usr/local/cuda/bin/ncu", "2023.1.0.0")
    assert machine.find(system=here) == telling
