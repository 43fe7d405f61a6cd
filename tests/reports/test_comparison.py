"""Launches paired and side by side: which line an access is blamed on, sums of memory, what conflicts cost."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base.errors import NotComparable, UsageError
from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cycles.simulated import Simulated, Span, saved_by
from ncu_swizzle.engines import reader
from ncu_swizzle.gate import verdict
from ncu_swizzle.gate.verdict import Place
from ncu_swizzle.reports import attribution, frames, pack, pairing, remarks
from ncu_swizzle.reports.attribution import FrameOwners
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import DURATION, LaunchId, Profile, UnknownCounts
from ncu_swizzle.reports.pairing import Choice, Forced
from tests.support.places import PROGRAMS
from tests.support.recordings import Recorded
from tests.support.reports import EMPTY, laid_out, launched, program

CUDA = "/usr/local/cuda/include"
MMA: Location = (f"{CUDA}/crt/mma.hpp", 91)
FUNCTOR: Location = ("/home/ci/work/src/functor.cuh", 20)
CUB: Location = ("/home/ci/venv/lib/python3.12/site-packages/nvidia/cu13/include/cub/agent.cuh", 120)
OWN: Location = ("k.cu", 14)


def access(*stack: Location, samples: int = 0) -> Instruction:
    return Instruction(16, "LDSM.16.M88.4 R0, [R1]", "LDSM.16.M88.4", "LDSM", stack, 1, 8, 1, {"stalled": samples})


def profile(*instructions: Instruction) -> Profile:
    return replace(EMPTY, instructions=instructions)


def blamed(*stack: Location) -> tuple[Location, tuple[Location, ...]]:
    (site,) = attribution.sites(profile(access(*stack)))
    return site.line, site.through


def test_headers_lead_to_the_nearest_line_that_the_user_wrote() -> None:
    for own in ("/home/ci/work/src/k.cu", "k.cu", "C:\\work\\k.cu"):
        assert blamed(MMA, (own, 14)) == ((own, 14), (MMA,))
    inner: Location = (f"{CUDA}/sm_20_atomic_functions.hpp", 84)
    outer: Location = (f"{CUDA}/device_atomic_functions.hpp", 112)
    assert blamed(inner, outer, OWN) == (OWN, (inner, outer))
    assert blamed(FUNCTOR, CUB) == (FUNCTOR, ()), "code that a library calls is the user's"
    assert blamed(MMA, FUNCTOR, CUB) == (FUNCTOR, (MMA,))
    line, through = blamed(CUB, (CUB[0], 300))
    assert (line[0], through) == (CUB[0], ()), "a library alone is blamed itself"


def test_a_file_of_the_checkout_beats_one_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "k.cu").touch()
    vendored: Location = ("/home/ci/vendor/tile.cuh", 5)
    launched = profile(access(vendored, ("/home/ci/work/src/k.cu", 14)))
    (site,) = attribution.sites(launched, verdict.files_in(tmp_path))
    assert (site.line, site.through) == (("/home/ci/work/src/k.cu", 14), (vendored,))
    place = verdict.worst(launched, here=verdict.files_in(tmp_path))
    assert verdict.moved(place, tmp_path) == Place("src/k.cu", 14, (Place(*vendored),))
    (tmp_path / "mma.hpp").touch()
    assert verdict.in_checkout(MMA[0], tmp_path) == MMA[0], "a library's header is not sought in the checkout"


def test_the_slowest_line_and_that_of_a_finding_are_the_user_s_too() -> None:
    slow = replace(access(MMA, OWN, samples=9), access="", wavefronts=None, ideal=None)
    assert verdict.worst(profile(slow)) == Place(*OWN)
    shown = access(MMA, OWN)
    assert FrameOwners(profile(shown)).named(shown) == OWN
    below: Location = ("include/cute/arch/copy.hpp", 7)  # of the profile's source folders: as ncu shows it
    assert FrameOwners(profile()).named(access(below, OWN)) == below


def test_sums_of_memory_with_an_unknown_part_are_unknown() -> None:
    rows = [
        Instruction(0, "LDL R0, [R1]", "LDL", executed=8, traffic=Traffic(local_sectors=32)),
        Instruction(16, "LDL R0, [R1+R2]", "LDL", executed=8),
        Instruction(32, "STL [R1], R0", "STL", executed=8, traffic=Traffic(local_sectors=32)),
        Instruction(48, "STL [R1+0x4], R0", "STL", executed=0, traffic=Traffic(local_sectors=0)),
        Instruction(64, "@!PT LDL R0, [R1+0x8]", "LDL", executed=8),
        Instruction(80, "LDG.E R0, [R2.64]", "LDG.E", executed=8, traffic=Traffic(sectors=32, ideal=8, tags=8)),
        Instruction(96, "LDG.E R0, [R4.64]", "LDG.E"),
    ]
    why = UnknownCounts(code="UN001", reason="its address", remedy="", offsets=(16, 64, 96))
    profile = replace(EMPTY, instructions=tuple(rows), unknown_traffic=(why,))
    table = compare([profile]).memory.set_index("access")
    assert {*table.index} == {"LDL", "STL", "LDG"}
    assert table["executed"].dropna().to_dict() == {"LDL": 16, "STL": 8}
    assert table["local_sectors"].dropna().to_dict() == {"STL": 32}
    assert table["sectors"].isna().all()
    sure = replace(profile, instructions=(*rows[:1], *rows[2:-1]), unknown_traffic=())
    assert compare([sure]).memory.set_index("access")["local_sectors"].dropna().to_dict() == {"LDL": 32, "STL": 32}
    assert compare([sure]).memory.set_index("access").loc["LDG", ["sectors", "excessive_bytes"]].tolist() == [32, 768]


@pytest.mark.long
def test_without_times_what_two_simulations_say_of_cycles_is_in_the_verdict(recorded: Recorded) -> None:
    def taking(cycles: float, profile: Profile) -> Profile:
        told = Span(point=cycles, low=cycles, high=cycles)
        return replace(profile, simulated=Simulated(cycles=told, saved=told))

    timed = [taking(1000, recorded("kernel1")), taking(250, recorded("kernel2"))]
    untimed = [
        replace(profile, metrics={name: value for name, value in profile.metrics.items() if name != DURATION})
        for profile in timed
    ]
    both = compare(untimed)
    assert " and would take an estimated 75% fewer cycles on an H100 (" in both.verdict
    assert both.verdict.endswith("both simulated.")
    assert both.saves == saved_by(*(profile.simulated for profile in untimed))
    assert compare(untimed[:1]).saves is None
    assert "simulated" not in compare(timed).verdict, "what was measured says it better"
    assert compare(timed).headline.startswith("kernel2 removes all excessive wavefronts of kernel1 and is 5.56")


Row = tuple[int | None, ...]


def report(*launches: tuple[str, int]) -> list[Profile]:
    """Return a report with launches of these functions in these grids."""
    return [launched(EMPTY, name, index, (grid, 1, 1)) for index, (name, grid) in enumerate(launches)]


def numbers(rows: Sequence[pairing.Row]) -> list[Row]:
    return [tuple(None if one is None else one.launch.index for one in row) for row in rows]


def test_kernels_are_paired_by_function_grid_block_and_occurrence_else_by_bare_name() -> None:
    before = report(("rows(int)", 8), ("rows(int)", 16), ("rows(int)", 8), ("columns(int)", 8))
    after = report(("columns(int)", 8), ("rows(int)", 16), ("rows(int)", 8), ("rows(int)", 8))
    assert numbers(pairing.rows([before, after])) == [(0, 2), (1, 1), (2, 3), (3, 0)]
    before = report(("void a::tile<32>(int)", 8), ("void a::tile<16>(int)", 8), ("gone()", 1))
    after = report(("void b::tile<32, 1>(int)", 4), ("void a::tile<16>(int)", 8), ("new()", 1))
    assert numbers(pairing.rows([before, after])) == [(0, 0), (1, 1), (2, None), (None, 2)]
    assert numbers(pairing.rows([report(("plain()", 1)), report(("swizzled()", 2))])) == [(0, 0)], "one against one"


def test_a_third_report_stands_beside_the_second_and_equal_launches_are_told_apart() -> None:
    before = report(("a()", 1), ("b()", 1))
    rows = pairing.rows([before, report(("b()", 1), ("b()", 1)), report(("a()", 1), ("c()", 1))])
    assert numbers(rows) == [(0, None, 0), (1, 0, None), (None, 1, None), (None, None, 1)]
    twice = pairing.rows([[EMPTY, EMPTY]] * 2)
    assert twice == [(EMPTY, EMPTY)] * 2


def test_a_pair_can_be_forced_by_name_expression_and_number() -> None:
    before, after = report(("a()", 1), ("b()", 1), ("c()", 1)), report(("x()", 1), ("b()", 1), ("a()", 1))
    for forced in ("a=x", "0=0", "regex:^a=regex:x", "a()=x()"):
        rows = numbers(pairing.rows([before, after], [pairing.forced_pair(forced)]))
        assert {(0, 0), (1, 1), (None, 2)} <= set(rows), forced
    with pytest.raises(UsageError, match="second report has no z") as error:
        pairing.rows([before, after], [Forced("a", "z")])
    assert "0 x, 1 b, 2 a" in error.value.hint
    for text in ("a", "=", "a=", "=b", ""):
        with pytest.raises(UsageError, match="is not of the form A=B"):
            pairing.forced_pair(text)


def test_what_has_nothing_in_common_is_not_comparable() -> None:
    with pytest.raises(NotComparable, match="the reports have no kernel in common") as error:
        pairing.rows([report(("a()", 1), ("b()", 1)), report(("c()", 1))])
    assert "--pair A=B" in error.value.hint


LAUNCHES = st.lists(st.tuples(st.sampled_from(["a()", "b<1>()", "b<2>()", "b<3>()"]), st.integers(1, 3)), max_size=8)


@given(LAUNCHES, LAUNCHES)
def test_every_launch_is_in_one_row_and_no_pair_is_missed(
    left: list[tuple[str, int]], right: list[tuple[str, int]]
) -> None:
    sides = (left, right)
    try:
        rows = numbers(pairing.rows([report(*left), report(*right)]))
    except NotComparable:
        rows = [(index, None) for index in range(len(left))] + [(None, index) for index in range(len(right))]
        assert not {name.split("<")[0] for name, _ in left} & {name.split("<")[0] for name, _ in right}
    for number, side in enumerate(sides):
        assert sorted(row[number] or 0 for row in rows if row[number] is not None) == list(range(len(side)))
    if len(left) == len(right) == 1:
        return
    unpaired: list[set[str]] = [set(), set()]
    for row in rows:
        for number, side in enumerate(sides):
            index = row[number]
            if index is not None and row[1 - number] is None:
                unpaired[number].add(side[index][0].split("<")[0])
    assert not unpaired[0] & unpaired[1], "two launches of one function are left, and not paired"
    pairs = [(left[a], right[b]) for a, b in rows if a is not None and b is not None]
    assert sum(a == b for a, b in pairs) == sum(min(left.count(one), right.count(one)) for one in set(left))


def test_launches_are_chosen_by_name_and_number() -> None:
    several = report(("void a::f<int>(int)", 1), ("g()", 1), ("void a::f<float>(int)", 1))
    for choice, indices in (
        (Choice(), [0, 1, 2]),
        (Choice("f"), [0, 2]),
        (Choice("f<int>"), [0]),
        (Choice("regex:a::f<fl"), [2]),
        (Choice(launches=(1, 2)), [1, 2]),
    ):
        assert [one.launch.index for one in choice.chosen(several)] == indices
    with pytest.raises(UsageError, match="no kernel matches --kernel-name h") as error:
        Choice("h").chosen(several)
    assert "0 f<int>, 1 g, 2 f<float>" in error.value.hint
    with pytest.raises(UsageError, match="--launch 9"):
        Choice(launches=(9,)).chosen(several)


def test_sizes_come_from_the_container_where_metrics_do_not_tell(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    assert (profile.launch.grid, profile.launch.block) == (profile.grid, profile.block) == ((64, 16, 4), (128, 1, 1))
    bare = dataclasses.replace(profile, metrics={})
    assert (bare.grid, bare.block) == ((64, 16, 4), (128, 1, 1))
    assert dataclasses.replace(bare, launch=LaunchId()).grid == (0, 0, 0)


def test_launches_are_told_apart_and_judged(recorded: Recorded) -> None:
    comparisons = laid_out(program(recorded)).comparisons
    assert [one.title for one in comparisons] == ["rows<float>", "tile", "rows<double>", "copy"]
    assert [pairing.excessive(one) for one in comparisons] == [16_252_928, 0, 16_252_928, 0]
    assert pairing.worst(comparisons, 9) == [0, 2, 1, 3]
    assert pairing.worst(comparisons, 1) == [0]
    often = laid_out(program(recorded, times=3)).comparisons
    assert often[4].title == "rows<float> #2"
    assert len(pairing.worst(often, 9)) == 4, "only the worst launch of each kernel"


def test_reports_are_called_after_their_files() -> None:
    assert pairing.columns(["old.ncu-rep", "x/new.json"]) == ("old", "new")
    assert pairing.columns(["a/report.ncu-rep", "b/report.ncu-rep"]) == ("before", "after")
    assert pairing.columns(["a/x", "b/x", "c/y"]) == ("x #1", "x #2", "y")


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


@pytest.mark.slow
def test_the_constants_are_those_of_the_bench_and_intervals_hold_on_programs_left_out(
    bench: Callable[[str], ModuleType],
) -> None:
    fitting = bench("figures.calibration")
    data, public = fitting.of_sources(fitting.measured())
    assert fitting.constants(fitting.fitted(data), data) == fitting.TABLE.read_text(encoding="utf-8")
    assert len(data.pairs) >= 120
    assert set(data.program).isdisjoint(public.program)
    tried = fitting.left_out(data)
    assert np.mean([one.held for one in tried]) >= 0.88
    assert np.median([one.width for one in tried]) <= 0.25


FLIPPED: dict[str, dict[str, Any]] = {
    "but no count of executions": {"executed": None},
    "but was never executed": {"executed": 0},
    "has ideal wavefronts alone": {"wavefronts": None},
    "has wavefronts alone": {"ideal": None},
    "does not access it": {"access": "", "opcode": "LDT", "sass": "LDT R5, [R4]"},
}


@pytest.mark.parametrize("said", FLIPPED)
def test_an_access_that_a_flipped_bit_left_without_a_count_is_told_and_never_zero(
    said: str, recorded: Recorded
) -> None:
    profile = recorded("transpose-plain")
    assert not [doubt for doubt in remarks.doubts(profile) if "unreliable" in doubt]
    damaged = tuple(
        replace(each, **FLIPPED[said]) if each.access == "LDS" and each.wavefronts else each
        for each in profile.instructions
    )
    flipped = replace(profile, instructions=damaged)
    assert [doubt for doubt in remarks.doubts(flipped) if said in doubt]
    assert frames.count(flipped).uncounted.total() == (4 if "executed" in FLIPPED[said] and "no count" in said else 0)
