"""``sweep --workers gpus`` on stand-ins for the driver and for ncu, which is a process of its own as the real one."""

import contextlib
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import process
from tests.support.fleets import needs_fleet
from tests.support.marks import needs_cc
from tests.support.processes import marked, wait_until

pytestmark = [needs_fleet, needs_cc, pytest.mark.long]
SIZES = (1024, 2048, 3072)
SWEEP = ("sweep", "kernel1", "kernel2", "--problem", f"seq={','.join(map(str, SIZES))}", "--engine", "ncu",
         "--csv", "-", "-o", "out")  # fmt: skip
GPUS = ("--workers", "gpus")
HANGS = b"sleep\x006"  # what the ncu that hangs waits in


def started(folder: Path, environment: dict[str, str], *more: str) -> subprocess.Popen[str]:
    """Start the sweep in a session of its own, as a terminal's shell does."""
    return process.opened(*SWEEP, *GPUS, *more, folder=folder, env=environment, start_new_session=True)


def running(mark: str, name: bytes) -> list[int]:
    """Return those of them that have this in their command line."""
    found = []
    for pid in marked(mark):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if name in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def launches(folder: Path) -> Counter[str]:
    """Return how often ncu was started for each kernel and size."""
    return Counter((folder / "launches").read_text(encoding="utf-8").split())


def test_each_gpu_takes_whole_pairs_and_counts_are_as_without_workers(
    tmp_path: Path, fakes: Callable[..., dict[str, str]]
) -> None:
    alone = process.command(*SWEEP, folder=tmp_path, env=fakes())
    assert alone.returncode == 0, alone.stderr
    two = process.started(*SWEEP, *GPUS, "-f", folder=tmp_path, env=fakes())
    assert two.returncode == 0, two.stderr
    assert two.stdout == alone.stdout
    assert set(launches(tmp_path).values()) == {2}, "once alone, once with workers"
    points = json.loads((tmp_path / "out" / "sweep.json").read_text(encoding="utf-8"))["points"]
    gpus = {(point["problem"]["seq"], point["worker"]) for point in points}
    assert len(gpus) == len(SIZES), "a kernel and its baseline are measured on one GPU"
    assert {worker for _, worker in gpus} == {"gpu-0", "gpu-1"}


@pytest.mark.parametrize("to_group", [False, True], ids=["the command alone", "as Ctrl-C on a terminal"])
def test_an_interrupt_ends_the_ncu_of_every_worker(
    to_group: bool, tmp_path: Path, fakes: Callable[..., dict[str, str]]
) -> None:
    mark = f"NCU_SWIZZLE_TEST={tmp_path}"
    sweep = started(tmp_path, fakes("hang", 2048))
    assert wait_until(lambda: bool(running(mark, HANGS))), "an ncu hangs"
    assert wait_until(lambda: len(list((tmp_path / "out" / "points").glob("*/*/point.json"))) >= 4)
    (os.killpg if to_group else os.kill)(sweep.pid, signal.SIGINT)
    _, said = sweep.communicate(timeout=60)
    assert sweep.returncode == 130, said
    assert "the sweep was interrupted: 4 of 6 points are saved in out" in " ".join(said.split())
    assert "Traceback" not in said
    assert wait_until(lambda: not marked(mark), 20), [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in marked(mark)]
    manifest = json.loads((tmp_path / "out" / "sweep.json").read_text(encoding="utf-8"))
    assert Counter(point["state"] for point in manifest["points"]) == {"done": 4, "open": 2}
    rest = process.started(*SWEEP, *GPUS, "--resume", folder=tmp_path, env=fakes())
    assert rest.returncode == 0, rest.stderr
