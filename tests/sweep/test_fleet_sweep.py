"""``sweep --workers``: the same counts as without, an interrupt, a killed worker, and a sweep that goes on."""

import csv
import io
from pathlib import Path

import pytest

import ncu_swizzle
from tests.support import process
from tests.support.fleets import needs_fleet
from tests.support.marks import NEEDS_ALL

pytestmark = [needs_fleet, NEEDS_ALL, pytest.mark.long]
SWEEP = ("sweep", "tile", "--problem", "n=64,96,128,160,192,224", "--engine", "emulated", "--csv", "-", "-o", "out")
TWO = ("--workers", "2")


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
