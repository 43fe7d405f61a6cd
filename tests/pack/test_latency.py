"""ConflictCost says when it cannot tell, and no rule reasons from a handful of samples."""

from __future__ import annotations

from typing import Any

import pytest

from ncu_swizzle.ncurep import reader
from ncu_swizzle.pack import bridge
from tests.support.places import PROGRAMS

facts, rules, latency = (bridge.pack(name) for name in ("facts", "rules", "latency"))

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


WAITING = {"short_scoreboard": 300, "barrier": 100, "long_scoreboard": 600}


def test_launches_of_microseconds_get_no_estimate_and_a_bound_that_holds() -> None:
    """Pairs of an H100 that the estimate was not fitted to: padding saved 10 to 16 % of 5 us."""
    before, after = (reader.read(PROGRAMS / f"{name}.ncu-rep") for name in ("several", "several-pad"))
    turns = [(a, b) for a, b in zip(before, after, strict=True) if a.kernel.name.startswith("turn")]
    assert len(turns) == 4
    for plain, padded in turns:
        saved = 1 - (padded.duration_ns or 0) / (plain.duration_ns or 1)
        given = bridge.facts(plain)
        (cost,) = rules.decide("ConflictCost", given)
        assert (cost.kind, cost.saving, cost.low, cost.high) == ("warning", None, None, None)
        assert "cannot be estimated" in cost.message
        assert "next to no time" not in cost.message
        pipe_alone = bridge.pack("cost").estimate(given, given.total.excessive)
        assert saved > pipe_alone.high, "the pipe's utilization alone would be wrong"
        doubt = latency.doubt(given, pipe_alone.high)
        assert saved <= doubt.most <= 0.5
        (stalls,) = rules.decide("StallShift", given)
        assert "do not slow this kernel down" not in stalls.message


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({latency.BLOCKS: 64.0}, "its grid of 64 leaves 68 of 132 SMs idle"),
        ({latency.DURATION: 9_000.0}, "only 9.0 us"),
        ({latency.OCCUPANCY: 12.5}, "2.0 warps per scheduler"),
    ],
)
def test_a_launch_that_waits_for_latency_is_called_so(changed: dict[str, float], reason: str) -> None:
    cost = findings(WAITING, **changed)["ConflictCost"]
    assert cost.saving is None
    assert reason in cost.message
    assert "at most 45%" in cost.message  # 40 % wait for shared memory or at a barrier, and a margin of 5 points


def test_a_launch_like_those_fitted_keeps_its_estimate() -> None:
    cost = findings(WAITING)["ConflictCost"]
    assert cost.saving is not None
    assert "Of the 1,000 warp samples" in cost.message


def test_few_warps_on_a_busy_pipe_keep_their_estimate() -> None:
    assert findings(WAITING, **{latency.OCCUPANCY: 12.5, facts.PIPE: 80.0})["ConflictCost"].saving is not None


def test_if_hardly_any_sample_waits_for_shared_memory_nothing_is_in_doubt() -> None:
    """A small launch whose warps wait for something else saves next to nothing, and that is known."""
    cost = findings({"long_scoreboard": 990, "short_scoreboard": 10}, **{latency.BLOCKS: 8.0, facts.PIPE: 26.0})
    assert cost["ConflictCost"].saving is not None


@pytest.mark.parametrize(("samples", "counted"), [(0, "no warp samples"), (1, "only 1 warp sample"), (99, "only 99 ")])
def test_few_samples_bound_nothing(samples: int, counted: str) -> None:
    found = findings({"short_scoreboard": samples}, **{latency.DURATION: 2_000.0})
    assert counted in found["ConflictCost"].message
    assert "at most" not in found["ConflictCost"].message
    assert "short_scoreboard has" not in found["ConflictCost"].message


@pytest.mark.parametrize("samples", [1, 3, 99, 100])
def test_where_warps_stall_is_not_told_from_few_samples(samples: int) -> None:
    stalls = findings({"short_scoreboard": samples})["StallShift"]
    assert ("too few to say" in stalls.message) == (samples < 100)
    assert ("short_scoreboard" in stalls.message) == (samples >= 100)
    assert bool(stalls.focus) == (samples >= 100)
