"""``sweep --workers``: the same counts as without, an interrupt, a killed worker, and a sweep that goes on."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import ncu_swizzle
from tests.support import process
from tests.support.fleets import needs_fleet
from tests.support.marks import NEEDS_ALL
from tests.support.processes import wait_until, workers_of

pytestmark = [needs_fleet, NEEDS_ALL, pytest.mark.long]
SWEEP = ("sweep", "tile", "--problem", "n=64,96,128,160,192,224", "--engine", "emulated", "--csv", "-", "-o", "out")
TWO = ("--workers", "2")


def points(folder: Path) -> list[Path]:
    return list((folder / "out" / "points").glob("*/*/point.json"))


def wait_for_points(folder: Path, number: int, sweep: subprocess.Popen[str]) -> None:
    wait_until(lambda: len(points(folder)) >= number or sweep.poll() is not None)


def test_workers_give_what_one_process_gives(project: Path) -> None:
    alone = process.command(*SWEEP, folder=project)
    frame = ncu_swizzle.load_sweep(project / "out")
    assert set(frame.worker) == {""}
    two = process.command(*SWEEP, *TWO, "-f", folder=project)
    assert two.returncode == 0, two.stderr
    assert two.stdout == alone.stdout
    assert len(list(csv.DictReader(io.StringIO(two.stdout)))) == 12
    frame = ncu_swizzle.load_sweep(project / "out")
    assert set(frame.worker) == {"worker-0", "worker-1"}
    assert frame.excessive.sum() > 0
    assert frame.duration.isna().all(), "unknown, not zero"
    again = process.command(*SWEEP, "--resume", folder=project)
    assert again.stdout == alone.stdout
    assert "is profiled again" not in again.stderr


@pytest.mark.slow
def test_a_killed_worker_loses_no_point(project: Path) -> None:
    alone = process.command(*SWEEP, folder=project)
    shutil.rmtree(project / "out")
    sweep = process.opened(
        *SWEEP, *TWO, "--json", "all.json", "--no-cache", folder=project, env=process.environment()
    )  # compiles at each point, which takes long enough
    try:
        wait_for_points(project, 1, sweep)
        workers = workers_of(sweep.pid)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        said, complained = sweep.communicate(timeout=300)
    finally:
        sweep.kill()
    assert sweep.returncode == 0, complained
    assert said == alone.stdout
    notes = json.loads((project / "all.json").read_text(encoding="utf-8"))["notes"]
    assert any("was started again: the worker worker-" in note for note in notes), notes


@pytest.mark.slow
def test_an_interrupt_ends_the_workers_and_keeps_what_is_done(project: Path) -> None:
    sweep = process.opened(*SWEEP, *TWO, "--no-cache", folder=project, env=process.environment())
    try:
        wait_for_points(project, 2, sweep)
        workers = workers_of(sweep.pid)
        sweep.send_signal(signal.SIGINT)
        _, complained = sweep.communicate(timeout=60)
    finally:
        sweep.kill()
    assert sweep.returncode == 130, complained
    assert "the sweep was interrupted: " in complained
    assert "Traceback" not in complained
    assert len(workers) == 2
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers), 10)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    done = len(points(project))
    assert 2 <= done < 12
    rest = process.command(*SWEEP, "--resume", "--json", "all.json", folder=project)
    assert rest.returncode == 0, rest.stderr
    notes = json.loads((project / "all.json").read_text(encoding="utf-8"))["notes"]
    assert notes[0] == f"{done} of 12 points were reused from out."


def test_a_point_that_fails_is_a_row(project: Path) -> None:
    wrong = ("--problem", "n=64,128", "--problem", "m=0", "--engine", "emulated", *TWO)
    done = process.command("sweep", "tile", *wrong, folder=project)
    assert done.returncode == 2, "a size that the kernel does not have is said before anything starts"
    broken = project / "my.cu"
    broken.write_text(broken.read_text().replace("#if SWIZZLE", "#if SWIZZLE\n#error no swizzle today", 1))
    failing = process.command(*SWEEP, *TWO, folder=project)
    assert failing.returncode == 4, failing.stderr
    states = [row["state"] for row in csv.DictReader(io.StringIO(failing.stdout))]
    assert sorted(set(states)) == ["done", "failed"]
