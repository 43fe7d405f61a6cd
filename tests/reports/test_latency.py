"""ConflictCost says when it cannot tell, and no rule reasons from a handful of samples."""

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
WAITING = {"short_scoreboard": 300, "mio_throttle": 50, "barrier": 100, "long_scoreboard": 550}
FEW_BLOCKS = {latency.BLOCKS: 64.0}


def findings(stalls: dict[str, int], changed: dict[str, float] | None = None) -> dict[str, Any]:
    """Return the findings for one LDS with a 32-way conflict in a launch with these stalls."""
    access = facts.Instruction(
        executed=10, wavefronts=320, ideal=10, pc=16, sass="LDS R1, [R2]", access="LDS", file="/a.cu", line=7
    )
    counts = {facts.WAVEFRONTS: 320.0, facts.IDEAL: 10.0}
    samples = {f"{facts.STALLED}{reason}": float(n) for reason, n in stalls.items()}
    numbers = {**FITTED, **counts, **samples, **(changed or {})}
    return {finding.rule: finding for finding in rules.decide_all(facts.Facts(numbers, (access,)))}


def cost(stalls: dict[str, int], changed: dict[str, float] | None = None) -> Any:
    return findings(stalls, changed)["ConflictCost"]


@pytest.mark.parametrize("before", ["several", "graph-nodes"])
def test_the_interval_holds_for_launches_of_microseconds(before: str) -> None:
    """Padding saved 9 to 18 % of 5 us on an H100."""
    plain, padded = (reader.read(PROGRAMS / f"{name}.ncu-rep") for name in (before, "several-pad"))
    turns = [(a, b) for a, b in zip(plain, padded, strict=True) if a.kernel.name.startswith("turn")]
    assert len(turns) == 4
    for conflicting, fixed in turns:
        saved = 100 * (1 - (fixed.duration_ns or 0) / (conflicting.duration_ns or 1))
        (estimate,) = rules.decide("ConflictCost", pack.facts(conflicting))
        assert estimate.low <= saved <= estimate.high
        assert estimate.high - estimate.low <= 33  # start and end take a good part of 5 us
        assert estimate.saving == pytest.approx(saved, abs=7)
        assert estimate.kind == "optimization"
        assert "rough, because the launch waits for latency: " in estimate.message
        assert "next to no time" not in estimate.message
        (stalls,) = rules.decide("StallShift", pack.facts(conflicting))
        assert "do not slow this kernel down" not in stalls.message


def test_a_launch_that_waits_for_latency_is_called_so() -> None:
    for changed, reason in (
        (FEW_BLOCKS, "its grid leaves 68 SMs idle"),
        ({latency.DURATION: 9_000.0}, "it takes only 9.0 us"),
        ({latency.OCCUPANCY: 12.5}, "2.0 warps per scheduler"),
    ):
        estimate = cost(WAITING, changed)
        assert f"rough, because the launch waits for latency: {reason}" in estimate.message
        # The pipe spends 20 % of the time on 310 excessive wavefronts of 320; 45 % of the samples wait for it.
        assert estimate.saving == pytest.approx(0.95 * 20 * 310 / 320, abs=0.01)
        assert estimate.low < 0.9 * 20 * 310 / 320 < estimate.saving < estimate.high
    fitted = cost(WAITING)
    assert "rough" not in fitted.message
    assert "Of the 1,000 warp samples" in fitted.message
    assert "rough" not in cost(WAITING, {latency.OCCUPANCY: 12.5, facts.PIPE: 80.0}).message, "few warps on a busy pipe"


def test_no_more_is_saved_than_warps_wait_for() -> None:
    """The pipe is busy with excess 78 % of the time, but 40 % of the samples wait for it: other warps hide the rest."""
    waits = {"short_scoreboard": 300, "mio_throttle": 50, "barrier": 50, "wait": 600}
    estimate = cost(waits, {**FEW_BLOCKS, facts.PIPE: 80.0})
    assert estimate.saving == pytest.approx(0.95 * 40, abs=0.01)
    assert estimate.high == pytest.approx(42 + 0.2, abs=0.01)  # 100 ns of 50 us
    hardly = cost({"long_scoreboard": 999, "short_scoreboard": 1}, {latency.BLOCKS: 8.0, facts.PIPE: 18.0})
    assert "next to no time" in hardly.message


def test_waits_for_global_memory_may_be_waits_for_the_pipe() -> None:
    busy = {**FEW_BLOCKS, facts.PIPE: 80.0}
    alone = cost({"short_scoreboard": 400, "wait": 600}, busy)
    loading = cost({"short_scoreboard": 400, "long_scoreboard": 300, "wait": 300}, busy)
    assert (loading.saving, loading.low) == (alone.saving, alone.low)
    assert loading.high == pytest.approx(alone.high + 0.5 * 0.8 * 30, abs=0.01)


def test_the_estimate_follows_warps_durations_and_the_busiest_sm() -> None:
    many = cost(WAITING, FEW_BLOCKS)
    lone = cost(WAITING, {**FEW_BLOCKS, latency.OCCUPANCY: 100 / 64})
    assert lone.saving == pytest.approx(2 * many.saving, abs=0.02), "a lone warp waits two cycles for each wavefront"
    longer, shorter = (cost(WAITING, {latency.DURATION: ns}) for ns in (15_000.0, 5_000.0))
    assert -12 <= shorter.low < longer.low < longer.saving == shorter.saving
    busiest = cost(WAITING, {**FEW_BLOCKS, latency.BUSIEST: 70.0})
    assert "20% of the time, 70% on the busiest SM" in busiest.message
    assert busiest.saving > many.saving
    assert cost(WAITING, {latency.BUSIEST: 70.0}) == cost(WAITING), "without idle SMs the average counts"


def test_without_enough_samples_there_is_no_estimate_and_no_stall_is_named() -> None:
    for samples, counted in ((0, "no warp samples"), (1, "only 1 warp sample"), (99, "only 99 ")):
        estimate = cost({"short_scoreboard": samples}, {latency.DURATION: 2_000.0})
        assert (estimate.kind, estimate.saving, estimate.low, estimate.high) == ("warning", None, None, None)
        assert counted in estimate.message
        assert "cannot be estimated" in estimate.message
        assert "short_scoreboard has" not in estimate.message
    for samples in (1, 3, 99, 100):
        stalls = findings({"short_scoreboard": samples})["StallShift"]
        told = ("too few to say" in stalls.message, "short_scoreboard" in stalls.message, bool(stalls.focus))
        assert told == ((True, False, False) if samples < 100 else (False, True, True)), samples
