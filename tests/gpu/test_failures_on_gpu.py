"""Failures that a real ncu can be made to show, and what doctor says where it works."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support import process
from tests.support.processes import processes_in, wait_until

SMALL = ("--problem", "n=64", "--baseline", "none", "--reference", "none")


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return process.started(*arguments, env={**os.environ, **environment})


def test_doctor_finds_nothing_in_the_way() -> None:
    done = command("doctor", "--json", "-")
    found = json.loads(done.stdout)
    assert done.returncode == 0, [one for one in found["checks"] if one["outcome"] == "bad"]
    assert found["able"]
    trial = next(one for one in found["checks"] if one["name"] == "trial")
    assert "in one pass" in trial["said"]


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ("--section Nope", 3, "did not find the section"),
        ("--bogus-option", 2, "rejected an option"),
    ],
)
def test_what_ncu_refuses_is_explained(options: str, status: int, said: str, tmp_path: Path) -> None:
    done = command("profile", "transpose-xor", *SMALL, "-o", str(tmp_path / "out"), "--ncu-args", options)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_metric_that_ncu_does_not_know_is_named(tmp_path: Path) -> None:
    options = ("--ncu-args", "--metrics nosuch__metric.sum")
    done = command("profile", "transpose-xor", *SMALL, "-o", str(tmp_path / "out"), *options)
    assert done.returncode == 0, done.stderr
    assert "ncu collected nothing for nosuch__metric.sum" in " ".join(done.stdout.split())


def test_a_home_that_cannot_be_written_to_does_not_matter(tmp_path: Path) -> None:
    done = command("profile", "transpose-xor", *SMALL, "-o", str(tmp_path / "out"), HOME="/proc", XDG_CACHE_HOME="/tmp")
    assert done.returncode in (0, 3), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_ncu_and_the_program(number: signal.Signals, status: int, tmp_path: Path) -> None:
    words = ("profile", "kernel1", "--reference", "none", "-o", str(tmp_path / "out"))
    profile = process.opened(*words, folder=tmp_path, env=process.environment())
    assert wait_until(lambda: any("ncu_swizzle.kernels" in line for line in processes_in(tmp_path)), 120)
    profile.send_signal(number)
    _, said = profile.communicate(timeout=60)
    assert profile.returncode == status, said
    time.sleep(1)
    assert not list(processes_in(tmp_path))
    assert not list(tmp_path.iterdir())
