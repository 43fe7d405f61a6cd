"""ConflictCost: what its estimate follows, when it has none, and the calibration of its interval."""

import importlib
from typing import Any

import numpy as np
import pytest

from ncu_swizzle.reports import pack, reader
from tests.support.places import PROGRAMS, ROOT

facts, rules, cost, calibration = (pack.pack(name) for name in ("facts", "rules", "cost", "calibration"))

WAITING = {"short_scoreboard": 300, "mio_throttle": 50, "barrier": 100, "long_scoreboard": 550}
LIKE = {
    cost.DURATION: 50_000.0,
    cost.MOST_WARPS: 16.0,
    cost.OCCUPANCY: 90.0,
    facts.PIPE: 20.0,
    **dict(zip(cost.CAPABILITY, (9.0, 0.0), strict=True)),
}
DRAM = "dram__bytes.sum.pct_of_peak_sustained_elapsed"


def launch(stalls: dict[str, int], changed: dict[str, float] | None = None, sass: str = "LDS R1, [R2]") -> Any:
    """Return one access with a 32-way conflict in a launch with these stalls."""
    opcodes = (sass, "UTMALDG.2D [R8], [R4]") if sass.startswith("LDSM") else (sass,)
    instructions = tuple(
        facts.Instruction(executed=10, wavefronts=320, ideal=10, pc=16 * at, sass=one, access=facts.access(one, 1))
        if one == sass
        else facts.Instruction(executed=10, pc=16 * at, sass=one)
        for at, one in enumerate(opcodes)
    )
    samples = {f"{facts.STALLED}{reason}": float(n) for reason, n in stalls.items()}
    counts = {facts.WAVEFRONTS: 320.0, facts.IDEAL: 10.0}
    return facts.Facts({**LIKE, **counts, **samples, **(changed or {})}, instructions)


def findings(*given: Any) -> dict[str, Any]:
    return {finding.rule: finding for finding in rules.decide_all(launch(*given))}


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
        assert estimate.high - estimate.low <= 30
        assert estimate.kind == "optimization"
        assert f"holds for {100 * calibration.COVERAGE:.0f}% of programs" in estimate.message


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (({},), "there are no warp samples"),
        (({"short_scoreboard": 1},), "there are only 1 warp sample to tell"),
        (({"short_scoreboard": 99},), "only 99 warp samples"),
        ((WAITING, {cost.DURATION: 1_000.0}), "it takes 1.0 us, and the shortest launch measured took"),
        ((WAITING, {cost.CAPABILITY[0]: 8.0}), "it ran on compute capability 8.0, and only 9.0 was measured"),
        ((WAITING, None, "STSM.16.M88.4 [R1], R4"), "whose conflicts are in STSM"),
        ((WAITING, None, "LDSM.16.M88.4 R0, [R1]"), "whose conflicts are in tiles of TMA"),
    ],
)
def test_a_launch_unlike_those_measured_has_no_estimate_and_says_why(given: tuple[Any, ...], reason: str) -> None:
    estimate = findings(*given)["ConflictCost"]
    assert (estimate.kind, estimate.saving, estimate.low, estimate.high) == ("warning", None, None, None)
    assert estimate.code == ("UN026" if "warp sample" in reason else "UN027")
    assert "cannot be estimated" in estimate.message
    assert reason in estimate.message
    assert findings(WAITING)["ConflictCost"].saving is not None


def test_few_samples_name_no_stall() -> None:
    for samples in (1, 3, 99, 100):
        found = findings({"short_scoreboard": samples})
        stalls = found["StallShift"]
        told = ("too few to say" in stalls.message, "short_scoreboard" in stalls.message, bool(stalls.focus))
        assert told == ((True, False, False) if samples < 100 else (False, True, True)), samples
        assert ("short_scoreboard has" in found["ConflictCost"].message) == (samples >= 100)


def test_the_estimate_follows_warps_waits_and_the_busiest_sm() -> None:
    def saving(stalls: dict[str, int], **changed: float) -> float:
        return float(findings(stalls, {**{DRAM: 0.0}, **changed})["ConflictCost"].saving)

    usual = saving(WAITING)
    assert 0 < usual < 20, "the pipe is busy 20 % of the time"
    assert saving({**WAITING, "short_scoreboard": 900}) > usual > saving({"wait": 1000})
    assert saving(WAITING, **{cost.OCCUPANCY: 100 / 64}) > usual, "a lone warp waits two cycles for each wavefront"
    assert saving(WAITING, **{cost.BUSIEST: 70.0}) > 2 * usual
    assert "20% of the time, 70% on the busiest SM" in findings(WAITING, {cost.BUSIEST: 70.0})["ConflictCost"].message


def test_no_more_is_saved_than_other_units_leave() -> None:
    busy = {"short_scoreboard": 900, "selected": 100}
    for dram in (0.0, 40.0, 84.0, 100.0):
        estimate = findings(busy, {facts.PIPE: 95.0, DRAM: dram})["ConflictCost"]
        assert estimate.low <= estimate.saving <= estimate.high
        assert estimate.high <= max(100 - dram, estimate.saving)
        assert estimate.saving <= max(0.0, 100 - dram / 0.85) + 0.01
        assert ("next bottleneck is then DRAM" in estimate.message) == (dram >= 40)


# --------------------------------------------------------------------------------------------------- calibration


@pytest.fixture(name="bench")
def _bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("calibration")


def test_pairs_of_a_program_weigh_as_one_and_too_few_programs_have_no_quantile(bench: Any) -> None:
    scores, one = np.arange(1.0, 20.0), np.ones(19)
    assert bench.hierarchical(scores, one, 0.9) == 18, "the 18th of 19: ceil(0.9 * 20)"
    many = np.concatenate([scores, np.full(50, 100.0)])  # one more program, with 50 pairs that are all worse
    assert bench.hierarchical(many, np.concatenate([one, np.full(50, 1 / 50)]), 0.9) == 19
    with pytest.raises(SystemExit, match="too few programs"):
        bench.hierarchical(scores[:8], one[:8], 0.9)


def test_a_quantile_fit_has_so_many_values_below(bench: Any) -> None:
    rng = np.random.default_rng(3)
    across = rng.uniform(size=400)
    values = 2 * across + rng.exponential(size=400) * across
    terms = np.column_stack([np.ones_like(across), across])
    for quantile in (0.5, 0.7, 0.9):
        below = values < terms @ bench.quantile_fit(terms, values, quantile, np.ones(400))
        assert below.mean() == pytest.approx(quantile, abs=0.02)


@pytest.mark.slow
def test_the_constants_are_those_of_the_bench_and_intervals_hold_on_programs_left_out(bench: Any) -> None:
    data, public = bench.of_sources(bench.measured())
    assert bench.constants(bench.fitted(data), data) == bench.TABLE.read_text(encoding="utf-8")
    assert len(data.pairs) >= 120
    assert set(data.program).isdisjoint(public.program)
    tried = bench.left_out(data)
    assert np.mean([one.held for one in tried]) >= 0.88
    assert np.median([one.width for one in tried]) <= 0.25
