"""``sweep --dry-run``: which points would run, and what is reused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import process
from tests.support.fleets import needs_fleet
from tests.support.marks import without_gpu

SIZES = "seq=1024,2048,3072,4096"
SWEEP = ("sweep", "kernel1", "kernel2", "--engine", "ncu", "--problem")
DRY = ("--dry-run", "--json", "-")


def test_nothing_runs_and_nothing_is_written(work: Path, fake: Callable[..., dict[str, str]]) -> None:
    done = process.command(*SWEEP, SIZES, *DRY, folder=work, env=fake())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(point["kernel"], point["problem"]["seq"], point["reused"]) for point in found["points"]] == [
        (kernel, seq, False) for seq in (1024, 2048, 3072, 4096) for kernel in ("kernel1", "kernel2")
    ]
    assert (found["engine"], found["folder"]) == ("ncu", "swizzle-out/sweep-attention")
    assert not list(work.iterdir())
    assert not (work.parent / "launches").exists()


def test_what_resume_reuses_is_listed(work: Path, fake: Callable[..., dict[str, str]]) -> None:
    assert process.command(*SWEEP, "seq=1024,3072", folder=work, env=fake()).returncode == 0
    launched = (work.parent / "launches").read_text(encoding="utf-8")
    found = planned_by(work, fake(), SIZES, "--resume")
    assert [point["problem"]["seq"] for point in found["points"] if point["reused"]] == [1024, 1024, 3072, 3072]
    assert found["notes"] == ["4 of 8 points were reused from swizzle-out/sweep-attention."]
    shown = process.command(*SWEEP, SIZES, "--resume", "--dry-run", folder=work, env=fake())
    assert shown.returncode == 0
    said = " ".join(shown.stdout.split())
    assert "A plan: nothing was run. Engine: ncu." in said
    assert "8 points: 4 reused, 4 to run." in said
    assert said.count("to run") == 1 + 4
    assert max(map(len, shown.stdout.splitlines())) <= 80
    again = planned_by(work, fake(), SIZES, "-f", "-o", "swizzle-out/sweep-attention")
    assert again["notes"] == ["-f removes 4 saved points from swizzle-out/sweep-attention."]
    assert (work.parent / "launches").read_text(encoding="utf-8") == launched, "nothing was launched"


def planned_by(work: Path, environment: dict[str, str], *words: str) -> dict[str, Any]:
    done = process.command(*SWEEP, *words, *DRY, folder=work, env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_fleet
def test_what_a_cluster_reuses_is_unknown(work: Path, fake: Callable[..., dict[str, str]]) -> None:
    found = planned_by(work, fake(), SIZES, "--resume", "--scheduler", "tcp://nowhere:1")
    assert {point["reused"] for point in found["points"]} == {None}
    assert found["notes"] == ["The workers of the cluster were not asked which saved points they reuse."]


@needs_fleet
@without_gpu
def test_it_refuses_what_the_sweep_refuses(work: Path) -> None:
    (work / "taken").mkdir()
    (work / "taken" / "sweep.json").write_text("{}")
    for words, status, said in (
        (("--workers", "gpus"), 3, "--workers gpus: no NVIDIA driver"),
        (("--workers", "0"), 2, "neither gpus nor 1 to 256"),
        (("--csv", "-"), 2, "--dry-run has no results to tabulate"),
        (("-o", "taken"), 2, "taken already holds sweep.json"),
    ):
        done = process.command("sweep", "transpose", "--engine", "recorded", "--dry-run", *words, folder=work)
        assert done.returncode == status, done.stderr
        assert said in " ".join(done.stderr.split())


def test_a_plan_is_no_table(tmp_path: Path) -> None:
    refused = process.command(*SWEEP, SIZES, "--dry-run", "--csv", "-", folder=tmp_path)
    assert refused.returncode == 2
    assert "--json - prints the plan as JSON" in refused.stderr
