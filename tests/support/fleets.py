"""What tests of workers share: whether Dask is installed, jobs that workers can run, and clusters that run already."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base.errors import ProgramFailed
from ncu_swizzle.sweep.worker import FleetResult, FleetTask
from tests.support.places import ROOT
from tests.support.processes import wait_until

MISSING = [name for name in ("distributed", "cryptography") if importlib.util.find_spec(name) is None]
needs_fleet = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: pip install 'ncu-swizzle[fleet]'")


def examined(_common: Any) -> dict[str, str]:
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
    def place(self, _task: FleetTask) -> Iterator[Path]:
        """Yield a fresh folder."""
        folder = self.folder / f"task-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        yield folder

    def take(self, number: int, result: FleetResult, folder: Path) -> None:
        self.results[number] = result
        self.times[number] = self.times.get(number, 0) + 1
        self.files[number] = sorted(file.name for file in folder.iterdir())


@contextmanager
def cluster(folder: Path, *paths: str, options: Sequence[str] = (), hidden: Path | None = None) -> Iterator[Path]:
    """Yield the scheduler's file of a cluster that was started by others: a worker per PYTHONPATH in `paths`.

    For the workers the folder `hidden` is empty, as on a host that has no checkout; skips where that cannot be done.
    """
    apart = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(hidden)] if hidden else []
    if apart and subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount: unshare --mount")
    file = folder / "scheduler.json"
    processes = [_dask("scheduler", folder, str(ROOT), "--port", "0", "--no-dashboard", "--scheduler-file", str(file),
                       "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", *options)]  # fmt: skip
    try:
        for number, path in enumerate(paths):
            more = ("--name", f"w{number}", "--nthreads", "1", "--no-dashboard", "--scheduler-file", str(file))
            (folder / f"w{number}").mkdir()
            words = (*more, "--no-nanny", *options)
            processes.append(_dask("worker", folder / f"w{number}", path, *words, before=apart))
        logs = [folder / f"w{number}" / "log" for number in range(len(paths))]
        wait_until(lambda: all("Registered to" in log.read_text() for log in logs), 60)
        yield file
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _dask(what: str, folder: Path, path: str, *words: str, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start a scheduler or a worker as its user would, in a folder that is its own."""
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder)}
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*before, sys.executable, "-m", f"distributed.cli.dask_{what}", *words], env=environment, cwd=folder,
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
