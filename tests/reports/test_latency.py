"""ConflictCost says when it cannot tell, and no rule reasons from a handful of samples."""

from __future__ import annotations

from typing import Any

import pytest

from ncu_swizzle.reports import pack, reader
from tests.support.places import PROGRAMS

facts, rules, latency = (pack.pack(name) for name in ("facts", "rules", "latency"))

# A launch that the estimate was fitted to: 132 SMs, filled for 50 us.
FITTED = {
    latency.DURATION: 50_000.0,
    latency.BLOCKS: 4096.0,
    latency.SMS: 132.0,
    latency.MOST_WARPS: 16.0,
    latency.OCCUPANCY: 90.0,
    facts.PIPE: 20.0,
}


def findings(stalls: dict[str, int], **changed: float) -> dict[str, Any]:
    """Return the findings for one LDS with a 32-way conflict in a launch with these stalls."""
    access = facts.Instruction(
        executed=10, wavefronts=320, ideal=10, pc=16, sass="LDS R1, [R2]", access="LDS", file="/a.cu", line=7
    )
    counts = {facts.WAVEFRONTS: 320.0, facts.IDEAL: 10.0}
    samples = {f"{facts.STALLED}{reason}": float(n) for reason, n in stalls.items()}
    numbers = {**FITTED, **counts, **samples, **changed}
    return {finding.rule: finding for finding in rules.decide_all(facts.Facts(numbers, (access,)))}


WAITING = {"short_scoreboard": 300, "mio_throttle": 50, "barrier": 100, "long_scoreboard": 550}


@pytest.mark.parametrize("before", ["several", "graph-nodes"])
def test_the_interval_holds_for_launches_of_microseconds(before: str) -> None:
    """Padding saved 9 to 18 % of 5 us on an H100."""
    plain, padded = (reader.read(PROGRAMS / f"{name}.ncu-rep") for name in (before, "several-pad"))
    turns = [(a, b) for a, b in zip(plain, padded, strict=True) if a.kernel.name.startswith("turn")]
    assert len(turns) == 4
    for conflicting, fixed in turns:
        saved = 100 * (1 - (fixed.duration_ns or 0) / (conflicting.duration_ns or 1))
        given = pack.facts(conflicting)
        (cost,) = rules.decide("ConflictCost", given)
        assert cost.low <= saved <= cost.high
        assert cost.high - cost.low <= 33  # start and end take a good part of 5 us
        assert cost.saving == pytest.approx(saved, abs=7)
        assert cost.kind == "optimization"
        assert "rough, because the launch waits for latency: " in cost.message
        assert "next to no time" not in cost.message
        (stalls,) = rules.decide("StallShift", given)
        assert "do not slow this kernel down" not in stalls.message


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({latency.BLOCKS: 64.0}, "its grid leaves 68 SMs idle"),
        ({latency.DURATION: 9_000.0}, "it takes only 9.0 us"),
        ({latency.OCCUPANCY: 12.5}, "2.0 warps per scheduler"),
    ],
)
def test_a_launch_that_waits_for_latency_is_called_so(changed: dict[str, float], reason: str) -> None:
    cost = findings(WAITING, **changed)["ConflictCost"]
    assert f"rough, because the launch waits for latency: {reason}" in cost.message
    # The pipe spends 20 % of the time on 310 excessive wavefronts of 320; 45 % of the samples wait for it.
    assert cost.saving == pytest.approx(0.95 * 20 * 310 / 320, abs=0.01)
    assert cost.low < 0.9 * 20 * 310 / 320 < cost.saving < cost.high


def test_no_more_is_saved_than_warps_wait_for() -> None:
    """The pipe is busy with excess 78 % of the time, but 40 % of the samples wait for it: other warps hide the rest."""
    waits = {"short_scoreboard": 300, "mio_throttle": 50, "barrier": 50, "wait": 600}
    cost = findings(waits, **{latency.BLOCKS: 64.0, facts.PIPE: 80.0})["ConflictCost"]
    assert cost.saving == pytest.approx(0.95 * 40, abs=0.01)
    assert cost.high == pytest.approx(42 + 0.2, abs=0.01)  # 100 ns of 50 us


def test_waits_for_global_memory_may_be_waits_for_the_pipe() -> None:
    waits = {"short_scoreboard": 400, "wait": 600}
    busy = {latency.BLOCKS: 64.0, facts.PIPE: 80.0}
    alone = findings(waits, **busy)["ConflictCost"]
    loading = findings({"short_scoreboard": 400, "long_scoreboard": 300, "wait": 300}, **busy)["ConflictCost"]
    assert loading.saving == alone.saving
    assert loading.low == alone.low
    assert loading.high == pytest.approx(alone.high + 0.5 * 0.8 * 30, abs=0.01)


def test_a_lone_warp_waits_two_cycles_for_each_wavefront() -> None:
    many = findings(WAITING, **{latency.BLOCKS: 64.0})["ConflictCost"]
    lone = findings(WAITING, **{latency.BLOCKS: 64.0, latency.OCCUPANCY: 100 / 64})["ConflictCost"]
    assert lone.saving == pytest.approx(2 * many.saving, abs=0.02)


def test_the_shorter_the_launch_the_wider_the_interval() -> None:
    longer, shorter = (findings(WAITING, **{latency.DURATION: ns})["ConflictCost"] for ns in (15_000.0, 5_000.0))
    assert shorter.low < longer.low < longer.saving == shorter.saving
    assert shorter.low >= -12


def test_with_idle_sms_the_busiest_one_counts() -> None:
    average = findings(WAITING, **{latency.BLOCKS: 64.0})["ConflictCost"]
    busiest = findings(WAITING, **{latency.BLOCKS: 64.0, latency.BUSIEST: 70.0})["ConflictCost"]
    assert "20% of the time, 70% on the busiest SM" in busiest.message
    assert busiest.saving > average.saving
    assert findings(WAITING, **{latency.BUSIEST: 70.0})["ConflictCost"] == findings(WAITING)["ConflictCost"]


def test_a_launch_like_those_fitted_keeps_its_estimate() -> None:
    cost = findings(WAITING)["ConflictCost"]
    assert "rough" not in cost.message
    assert "Of the 1,000 warp samples" in cost.message


def test_few_warps_on_a_busy_pipe_keep_their_estimate() -> None:
    assert "rough" not in findings(WAITING, **{latency.OCCUPANCY: 12.5, facts.PIPE: 80.0})["ConflictCost"].message


def test_if_hardly_any_sample_waits_for_shared_memory_next_to_nothing_is_saved() -> None:
    cost = findings({"long_scoreboard": 999, "short_scoreboard": 1}, **{latency.BLOCKS: 8.0, facts.PIPE: 18.0})
    assert "next to no time" in cost["ConflictCost"].message


@pytest.mark.parametrize(("samples", "counted"), [(0, "no warp samples"), (1, "only 1 warp sample"), (99, "only 99 ")])
def test_without_enough_samples_there_is_no_estimate(samples: int, counted: str) -> None:
    found = findings({"short_scoreboard": samples}, **{latency.DURATION: 2_000.0})
    cost = found["ConflictCost"]
    assert (cost.kind, cost.saving, cost.low, cost.high) == ("warning", None, None, None)
    assert counted in cost.message
    assert "cannot be estimated" in cost.message
    assert "short_scoreboard has" not in cost.message


@pytest.mark.parametrize("samples", [1, 3, 99, 100])
def test_where_warps_stall_is_not_told_from_few_samples(samples: int) -> None:
    stalls = findings({"short_scoreboard": samples})["StallShift"]
    assert ("too few to say" in stalls.message) == (samples < 100)
    assert ("short_scoreboard" in stalls.message) == (samples >= 100)
    assert bool(stalls.focus) == (samples >= 100)
