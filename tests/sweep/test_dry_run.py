"""``sweep --dry-run``: what would run and where, what is reused, and how long it takes as far as anybody knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.catalog import collection
from ncu_swizzle.engines.context import Request
from ncu_swizzle.fleet.options import FleetOptions
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.sweep import durations, folder, forecast, foreseen, plan
from ncu_swizzle.sweep.durations import BETWEEN, BEYOND, NOBODY, SAME, Estimate
from ncu_swizzle.sweep.forecast import Crewing, ForeseenPoint
from tests.support import process
from tests.support.fleets import needs_fleet
from tests.support.marks import without_gpu

SIZES = "seq=1024,2048,3072,4096"
SWEEP = ("sweep", "kernel1", "kernel2", "--engine", "ncu", "--problem")
DRY = ("--dry-run", "--json", "-")


def planned(sizes: Mapping[str, list[int]]) -> plan.Plan:
    return plan.make_plan(collection.shipped(), ["transpose"], ["plain", "xor"], sizes)


def save(place: Path, points: plan.Plan, seconds: Mapping[int, float], engine: str = "emulated") -> None:
    """Write what an earlier sweep left of its points."""
    for point in points.points:
        file = place / folder.POINTS / point.folder / folder.POINT
        file.parent.mkdir(parents=True)
        depends_on = {"engine": engine, "kernel": point.kernel, "problem": json.dumps(point.sizes)}
        file.write_text(json.dumps({"fingerprint": depends_on, "where": {"seconds": seconds[point.sizes["n"]]}}))


def test_a_time_is_that_of_the_point_or_between_its_neighbours(tmp_path: Path) -> None:
    save(tmp_path, planned({"n": [64, 192]}), {64: 1.0, 192: 5.0})
    asked = planned({"n": [64, 128, 192, 256, 32]})
    timed = durations.gathered(asked, "emulated", tmp_path)
    found = {point.sizes["n"]: durations.estimate(timed, asked, point) for point in asked.points}
    assert found[64] == Estimate(1.0, SAME)
    assert found[192] == Estimate(5.0, SAME)
    assert found[128].origin == BETWEEN
    assert 1.0 < (found[128].seconds or 0) < 5.0
    assert found[256] == found[32] == Estimate(None, BEYOND)
    other = durations.gathered(asked, "ncu", tmp_path)
    assert durations.estimate(other, asked, asked.points[0]) == Estimate(None, NOBODY), "of another engine"


@pytest.mark.parametrize("ruin", [b"", b"[]", b'{"fingerprint": 1}', b'{"where": {"seconds": "x"}}', b"[" * 100_000])
def test_what_is_damaged_says_nothing_of_times(ruin: bytes, tmp_path: Path) -> None:
    points = planned({"n": [64]})
    save(tmp_path, points, {64: 1.0})
    for file in tmp_path.rglob(folder.POINT):
        file.write_bytes(ruin)
    assert durations.gathered(points, "emulated", tmp_path) == {"transpose-plain": [], "transpose-xor": []}


def test_units_go_to_the_worker_that_is_free_first(tmp_path: Path) -> None:
    points = planned({"n": [64, 128, 256]})
    found = forecast.forecast(points, Request("recorded"), Destination(tmp_path / "out"), False, FleetOptions())
    timed = tuple(
        ForeseenPoint(each.point, False, f"unit {each.point.sizes['n']}", Estimate(each.point.sizes["n"] / 64, SAME))
        for each in found.points
    )
    known = replace(found, points=timed)
    assert known.known_s == known.seconds == 2 * (1 + 2 + 4)
    assert replace(known, crewing=Crewing("two", 2)).seconds == 8, "256 on one, 128 and 64 on the other"
    assert replace(known, crewing=Crewing("a cluster", None)).seconds is None
    unknown = replace(known, points=(replace(timed[0], estimate=Estimate(None, NOBODY)), *timed[1:]))
    assert (unknown.seconds, unknown.unknown, unknown.known_s) == (None, 1, 13)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "unknown"), (0.44, "0.4 s"), (35.2, "35 s"), (720, "12 min"), (11_000, "3.1 h")],
)
def test_times_in_words(seconds: float | None, words: str) -> None:
    assert foreseen.span(seconds) == words


def test_nothing_runs_and_nothing_is_written(work: Path, fake: Callable[..., dict[str, str]]) -> None:
    done = process.command(*SWEEP, SIZES, *DRY, folder=work, env=fake())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(point["kernel"], point["problem"]["seq"], point["reused"]) for point in found["points"]] == [
        (kernel, seq, False) for seq in (1024, 2048, 3072, 4096) for kernel in ("kernel1", "kernel2")
    ]
    assert len({point["with"] for point in found["points"]}) == 4, "a kernel and its baseline are measured on one GPU"
    assert (found["engine"], found["workers"], found["seconds"], found["points_unknown"]) == ("ncu", 1, None, 8)
    assert {point["seconds_from"] for point in found["points"]} == {NOBODY}
    assert not list(work.iterdir())
    assert not (work.parent / "launches").exists()


def test_what_resume_reuses_and_how_long_the_rest_takes(work: Path, fake: Callable[..., dict[str, str]]) -> None:
    assert process.command(*SWEEP, "seq=1024,3072", folder=work, env=fake()).returncode == 0
    launched = (work.parent / "launches").read_text(encoding="utf-8")
    found = planned_by(work, fake(), SIZES, "--resume")
    assert [point["problem"]["seq"] for point in found["points"] if point["reused"]] == [1024, 1024, 3072, 3072]
    assert found["notes"] == ["4 of 8 points were reused from swizzle-out/sweep-attention."]
    origins = {point["problem"]["seq"]: point["seconds_from"] for point in found["points"]}
    assert origins == {1024: "", 2048: BETWEEN, 3072: "", 4096: BEYOND}
    whole = planned_by(work, fake(), "seq=1024,2048", "--resume")
    assert whole["points_unknown"] == 0
    assert whole["seconds"] == pytest.approx(sum(point["seconds"] for point in whole["points"] if point["seconds"]))
    shown = process.command(*SWEEP, SIZES, "--resume", "--dry-run", folder=work, env=fake())
    assert shown.returncode == 0
    said = " ".join(shown.stdout.split())
    assert "A plan: nothing was run. Engine: ncu." in said
    assert "8 points: 4 reused, 4 to run. What is compared stays on one GPU: 2 units." in said
    assert f"Time: unknown for 2 points ({BEYOND})" in said
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
def test_workers_are_named_and_not_started(tmp_path: Path) -> None:
    def asked(**fleet: Any) -> forecast.Forecast:
        points = planned({"n": [64, 128]})
        return forecast.forecast(points, Request("recorded"), Destination(tmp_path), True, FleetOptions(**fleet))

    two = asked(workers="2")
    assert two.crewing == Crewing("2 processes of this machine", 2)
    joined = asked(scheduler="tcp://nowhere:1")
    assert joined.crewing.words == "the workers of tcp://nowhere:1, which were not asked"
    assert joined.crewing.workers is joined.seconds is None
    assert any("were not asked: they decide which saved points are reused" in note for note in joined.notes)


@needs_fleet
@without_gpu
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--workers", "gpus"), 3, "--workers gpus: no NVIDIA driver"),
        (("--workers", "0"), 2, "neither gpus nor 1 to 256"),
        (("--csv", "-"), 2, "--dry-run has no results to tabulate"),
        (("-o", "taken"), 2, "taken already holds sweep.json"),
    ],
)
def test_it_refuses_what_the_sweep_refuses(words: tuple[str, ...], status: int, said: str, work: Path) -> None:
    (work / "taken").mkdir()
    (work / "taken" / "sweep.json").write_text("{}")
    done = process.command("sweep", "transpose", "--engine", "recorded", "--dry-run", *words, folder=work)
    assert done.returncode == status, done.stderr
    assert said in " ".join(done.stderr.split())


def test_a_plan_is_no_table(tmp_path: Path) -> None:
    refused = process.command(*SWEEP, SIZES, "--dry-run", "--csv", "-", folder=tmp_path)
    assert refused.returncode == 2
    assert "--json - prints the plan as JSON" in refused.stderr
    assert process.command(*SWEEP, SIZES, *DRY, folder=tmp_path).returncode == 0
