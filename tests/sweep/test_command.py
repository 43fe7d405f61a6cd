"""``ncu-swizzle sweep``, with an ncu that fails at a point."""

import contextlib
import csv
import io
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ncu_swizzle.base.paths import child_environment
from tests.support import process
from tests.support.marks import NEEDS_ALL
from tests.support.processes import wait_until

Fake = Callable[..., dict[str, str]]
OUT = "swizzle-out/sweep-attention"
SWEEP = ("sweep", "kernel1", "kernel2", "--problem", "seq=1024,2048", "--engine", "ncu")


def command(*arguments: str, at: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return process.run(*arguments, folder=at, env=env)


def launches(work: Path) -> int:
    return len((work.parent / "launches").read_text(encoding="utf-8").splitlines())


def states(work: Path) -> list[str]:
    manifest = json.loads((work / OUT / "sweep.json").read_text(encoding="utf-8"))
    return [point["state"] for point in manifest["points"]]


@pytest.mark.long
def test_a_failing_point_does_not_lose_the_others_and_another_ncu_profiles_all_again(work: Path, fake: Fake) -> None:
    done = command(*SWEEP, "--csv", "points.csv", at=work, env=fake("prepare", 2048))
    assert done.returncode == 4
    assert states(work) == ["done", "done", "failed", "failed"]
    assert "Measured: NVIDIA H100 80GB HBM3" in done.stdout
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80
    assert "failed: kernel1 batch=4 heads=16 seq=2048: ncu could not profile the kernel" in " ".join(
        done.stdout.split()
    )
    assert "error: 2 of 4 points failed" in done.stderr
    assert "compute-sanitizer" in done.stderr
    rows = list(csv.DictReader((work / "points.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["state"] for row in rows] == ["done", "done", "failed", "failed"]
    assert (work / OUT / "report.html").is_file()
    assert launches(work) == 4

    again = command(*SWEEP, "--resume", "--json", "-", at=work, env=fake())
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)
    assert [(point["state"], point["unknowns"]) for point in found["points"]] == [("done", [])] * 4
    assert found["notes"] == ["2 of 4 points were reused from swizzle-out/sweep-attention."]
    assert launches(work) == 6, "only what had failed was launched again"

    program = work.parent / "bin" / "ncu"
    program.write_text(program.read_text().replace("2025.3.1.0", "2026.1.0.0"))
    other = command(*SWEEP, "--resume", "--markdown", "-", at=work, env=fake())
    assert "0 of 4 points were reused" in other.stdout
    assert "is profiled again because of changes to ncu" in other.stdout
    assert launches(work) == 10


@contextlib.contextmanager
def hanging(work: Path, fake: Fake) -> Iterator[subprocess.Popen[str]]:
    """Start the sweep with an ncu that hangs at the third of four points, and wait until it does."""
    with process.opened(*SWEEP, folder=work, env=fake("hang", 2048)) as started:
        third = "points/kernel1/.batch4-heads16-seq2048.*/.ncu-*/kernel1.ncu-rep"
        wait_until(lambda: list((work / OUT).glob(third)))
        yield started


@pytest.mark.long
def test_an_interrupt_keeps_what_is_done(work: Path, fake: Fake) -> None:
    with hanging(work, fake) as started:
        started.send_signal(signal.SIGINT)
        _, said = started.communicate(timeout=60)
    assert started.returncode == 130, said
    assert f"interrupted: 2 of 4 points are saved in {OUT}" in said
    assert "nothing was written" not in said
    assert f"-o {OUT} --resume" in said
    assert states(work) == ["done", "done", "open", "open"]
    assert (work / OUT / "report.html").is_file()
    assert not list((work / OUT).rglob(".*"))
    done = command(*SWEEP, "-o", OUT, "--resume", at=work, env=fake())
    assert done.returncode == 0, done.stderr
    assert states(work) == ["done"] * 4


@pytest.mark.long
def test_after_a_kill_the_next_run_takes_over_what_is_done(work: Path, fake: Fake) -> None:
    with hanging(work, fake) as started:
        started.kill()
    assert list((work / OUT).rglob(".batch4-heads16-seq2048.*"))
    done = command(*SWEEP, "--resume", at=work, env=fake())
    assert done.returncode == 0, done.stderr
    assert states(work) == ["done"] * 4
    assert launches(work) == 5, "two, the one that was killed, and two"
    assert not list((work / OUT).rglob(".*"))


@NEEDS_ALL
def test_kernels_of_a_project_are_swept(project: Path) -> None:
    def swept(*words: str) -> subprocess.CompletedProcess[str]:
        sizes = ("--problem", "n=64,128", "--engine", "emulated")
        return command("sweep", "tile", *sizes, *words, at=project, env=child_environment())

    first = swept("--csv", "-")
    assert first.returncode == 0, first.stderr
    conflicts = [
        (row["kernel"], row["n"], row["excessive"] == "0") for row in csv.DictReader(io.StringIO(first.stdout))
    ]
    assert conflicts == [
        (f"tile-{way}", n, way == "swizzled") for n in ("64", "128") for way in ("rowmajor", "swizzled")
    ]
    assert swept("--resume", "--csv", "-").stdout == first.stdout
    toml = project / "ncu-swizzle.toml"
    toml.write_text(toml.read_text(encoding="utf-8").replace("tolerance = { y = 0 }", "tolerance = { y = 1 }"), "utf-8")
    changed = swept("--resume")
    assert "description" in changed.stdout + changed.stderr, "what was described otherwise is profiled again"
