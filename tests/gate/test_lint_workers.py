"""``lint --workers``: what one process says, in the same order."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support import process
from tests.support.fleets import needs_fleet
from tests.support.marks import NEEDS_ALL
from tests.support.places import ROOT

pytestmark = NEEDS_ALL


@needs_fleet
def test_workers_find_what_one_process_finds(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "own-kernel", tmp_path / "own")
    own = tmp_path / "own"
    (own / "broken.cu").write_text("__global__ void broken(float* y) { y[0] = nothing; }")
    (own / "lone.cu").write_text("__global__ void lone(float* y) { y[0] = 1; }")
    words = ("lint", "my.cu", "lone.cu", "transpose-plain", "transpose-xor", "--json")
    alone = process.command(*words, "alone.json", folder=own)
    assert alone.returncode == 1, alone.stderr
    two = process.command(*words, "two.json", "--workers", "2", folder=own)
    assert (two.returncode, two.stdout, two.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    found, expected = (json.loads((own / f"{name}.json").read_text(encoding="utf-8")) for name in ("two", "alone"))
    assert found == expected
    assert len(found["checks"]) >= 3


@pytest.mark.parametrize(
    ("fleet", "said"), [(("--workers", "gpus"), "lint needs no GPU"), (("--workers", "none"), "neither gpus nor 1 to")]
)
def test_workers_that_lint_cannot_use_are_refused(fleet: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = process.command("lint", "transpose-xor", *fleet, folder=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
