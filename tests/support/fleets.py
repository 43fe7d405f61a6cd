"""What tests of workers share: whether Dask is installed, jobs that workers can run, and clusters that run already."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.errors import ProgramFailed
from ncu_swizzle.fleet.tasks import FleetResult, FleetTask

MISSING = [name for name in ("distributed", "cryptography", "pyarrow") if importlib.util.find_spec(name) is None]
needs_fleet = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: pip install 'ncu-swizzle[fleet]'")


def examined(common: Any) -> dict[str, str]:
    """Say that every machine is the same."""
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}


def worked(common: Path, given: int, folder: Path, progress: Any) -> tuple[int, int]:
    """Square a number; some numbers fail, end their worker the first time, or always do."""
    progress("squaring", 50)
    with (common / f"started-{given}").open("a") as file:
        file.write(f"{os.getpid()}\n")
    (folder / "square.txt").write_text(str(given * given))
    if given == -1:
        raise ProgramFailed("it is negative", "take a positive one")
    if given == -2 and len((common / "started--2").read_text().splitlines()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if given == -3:
        os.kill(os.getpid(), signal.SIGKILL)
    if given == -4:
        time.sleep(60)
    time.sleep(0.02)
    return given * given, os.getpid()


class Collected:
    """Takes results, and gives a folder to each task."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results: dict[int, FleetResult] = {}
        self.files: dict[int, list[str]] = {}
        self.times: dict[int, int] = {}

    @contextmanager
    def place(self, task: FleetTask) -> Iterator[Path]:
        """Yield a fresh folder."""
        folder = self.folder / f"task-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        yield folder

    def take(self, number: int, result: FleetResult, folder: Path) -> None:
        self.results[number] = result
        self.times[number] = self.times.get(number, 0) + 1
        self.files[number] = sorted(file.name for file in folder.iterdir())
