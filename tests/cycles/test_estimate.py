"""A simulated launch: what warps execute and each access costs, what is said of it, and for which nothing is."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncu_swizzle.base import codes, native, paths
from ncu_swizzle.cycles import case as cases
from ncu_swizzle.cycles import intervals
from ncu_swizzle.cycles.case import EstimatedCase
from ncu_swizzle.cycles.simulated import Simulated, Span, saved_by
from ncu_swizzle.cycles.simulator import Simulator, machine, machine_for_launch, simulate, work_and_machine
from ncu_swizzle.cycles.work import (
    BYTE,
    IDEAL,
    LINES,
    NEW_PAIR,
    SECTORS,
    BlockExecution,
    Row,
    Work,
    cached_lines,
    execution,
    work_of,
)
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.engines import emulated_launch, emulated_profile, emulation, reader
from ncu_swizzle.engines.emulation import EmulationSettings, Executable
from ncu_swizzle.engines.settings import ALWAYS, AUTO, COMPARED, NEVER
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import pack, remarks
from ncu_swizzle.reports.model import Profile
from tests.support.marks import needs_cc
from tests.support.programs import ONE_WARP, POINTER, code

CONFLICTS, CLEAN = "transpose-plain", "transpose-xor"


def small(kernel: str) -> Target:
    return catalog.shipped().target(kernel).sized({"n": 128})


@cache
def version(kernel: str) -> tuple[Executable, EstimatedCase]:
    target = small(kernel)
    made = emulation.executable(target, EmulationSettings(cached=False))
    binary = made.emulated.binary
    launch = emulated_launch.launch_of(target, binary.cubin, binary.symbol)
    return made, emulated_profile.case_of(target, binary, launch, made.emulated.counts)


@cache
def simulated(kernel: str) -> Simulated:
    made, case = version(kernel)
    return simulate(made.code, case)


@cache
def profile(kernel: str, cycles: str) -> Profile:
    return emulation.emulate_target(small(kernel), EmulationSettings(cached=False, cycles=cycles)).profile


@needs_cc
def test_a_simulation_says_the_same_again() -> None:
    made, case = version(CONFLICTS)
    again = simulate(made.code, case)
    assert again == simulated(CONFLICTS)
    assert again.lacking == ""
    assert again.cycles is not None
    assert again.cycles.low < again.cycles.point < again.cycles.high


@needs_cc
def test_intervals_are_those_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    made, case = version(CONFLICTS)
    monkeypatch.setattr(intervals, "SAVED", (0.25, 0.0))
    monkeypatch.setattr(intervals, "CYCLES", 2.0)
    found = simulate(made.code, case)
    assert found.saved is not None
    assert found.cycles is not None
    assert found.saved.point - found.saved.low == pytest.approx(0.25)
    assert found.cycles.high == pytest.approx(4 * found.cycles.low)


@needs_cc
def test_the_excess_costs_cycles_and_without_any_there_is_nothing_to_save() -> None:
    conflicts, clean = simulated(CONFLICTS), simulated(CLEAN)
    assert conflicts.saved is not None
    assert clean.saved is not None
    assert conflicts.saved.point > 0.01
    assert clean.saved.point == 0
    assert conflicts.cycles is not None
    assert clean.cycles is not None
    assert clean.cycles.point < conflicts.cycles.point


def test_what_is_simulated_has_the_wavefronts_that_were_counted() -> None:
    made, case = version(CONFLICTS)
    work, _ = work_and_machine(made.code, case)
    actual, ideal = work.wavefronts
    counted = [row for row in case.counts.rows if row.access]
    assert actual * case.blocks == sum(row.wavefronts or 0 for row in counted)
    assert ideal * case.blocks == sum(row.ideal or 0 for row in counted)


@needs_cc
def test_what_warps_wait_for_adds_up_to_no_more_than_their_time() -> None:
    made, case = version(CONFLICTS)
    work, _ = work_and_machine(made.code, case)
    found = simulated(CONFLICTS)
    assert found.cycles is not None
    total = sum(sum(waits.cycles.values()) for waits in found.waits)
    assert 0 < sum(waits.cycles.get("selected", 0) for waits in found.waits) <= work.issued
    assert total <= found.cycles.point * work.blocks * work.warps
    assert [waits.offset for waits in found.waits] == sorted(waits.offset for waits in found.waits)


def test_as_many_blocks_fit_on_an_sm_as_ncu_says() -> None:
    for kernel in (CONFLICTS, CLEAN):
        recorded = reader.read(paths.recording("transpose", kernel))[0]
        limits = [recorded.number(f"launch__occupancy_limit_{what}") for what in ("registers", "shared_mem", "warps")]
        assert version(kernel)[1].resident == min(limit for limit in limits if limit)


def test_nothing_is_said_of_what_was_not_judged() -> None:
    made, case = version(CONFLICTS)
    rows = case.counts.rows
    boxes = (*rows[:-1], replace(rows[-1], opcode="UTMALDG.2D"))
    lost = tuple(replace(row, wavefronts=None, reason="?") if row.access else row for row in rows)
    for other, why in (
        (replace(case, sm=80), "only an H100 is simulated, and this is code for sm_80"),
        (replace(case, launch=replace(case.launch, cluster=(2, 1, 1))), "blocks of a cluster were not judged"),
        (
            replace(case, counts=replace(case.counts, rows=boxes)),
            "copies by TMA were judged for few programs, and take up to twice as long as simulated",
        ),
        (replace(case, counts=replace(case.counts, rows=lost)), "wavefronts of some accesses are unknown"),
    ):
        assert simulate(made.code, other) == Simulated(lacking=why)


def test_branches_that_unknown_data_decide_are_not_guessed() -> None:
    made, case = version(CONFLICTS)
    unknown = tuple(replace(row, executed=None, code=codes.DATA) if not row.access else row for row in case.counts.rows)
    found = simulate(made.code, replace(case, counts=replace(case.counts, rows=unknown)))
    assert found.cycles is None
    assert "depends on data" in found.lacking


@needs_cc
def test_savings_of_conflicts_that_too_few_programs_had_are_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made, case = version(CONFLICTS)
    monkeypatch.setattr(intervals, "KINDS", ("ATOMS",))
    found = simulate(made.code, case)
    assert found.cycles is not None
    assert found.saved is None
    assert "too few programs" in found.lacking


def test_without_a_compiler_the_reason_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, case = version(CONFLICTS)
    monkeypatch.setattr(native, "COMPILERS", ())
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = simulate(made.code, case)
    assert found.cycles is None
    assert "there is no C compiler" in found.lacking
    assert "apt-get install gcc" in found.remedy


def finding(shown: Profile) -> Any:
    (cost,) = (found for found in pack.findings(shown) if found.rule == "ConflictCost")
    return cost


@needs_cc
def test_a_computed_profile_says_what_its_conflicts_cost() -> None:
    shown = profile(CONFLICTS, AUTO)
    cost = finding(shown)
    assert shown.simulated is not None
    assert shown.simulated.saved is not None
    assert cost.saving == pytest.approx(100 * shown.simulated.saved.point, abs=0.01)
    assert "simulated, not measured" in cost.message
    (table,) = cost.tables
    assert [row[0].rpartition(":")[0] for row in table.rows] == ["transpose.cuh"] * len(table.rows)
    assert sum(row[1] for row in table.rows) <= 100
    assert Profile.from_json(shown.to_json()) == shown
    assert f"{100 * shown.simulated.saved.point:.0f}% fewer cycles on an H100" in remarks.saving(shown)


def test_a_computed_profile_without_an_estimate_says_why() -> None:
    lacking = Simulated(lacking="there is no C compiler", remedy="apt-get install gcc")
    cost = finding(replace(profile(CONFLICTS, NEVER), simulated=lacking))
    assert cost.saving is None
    assert cost.code == "UN027"
    assert cost.message.endswith("would save: there is no C compiler; apt-get install gcc.")


@needs_cc
def test_what_is_long_is_simulated_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "SHORT_BLOCK", 10)
    assert profile.__wrapped__(CONFLICTS, AUTO).simulated == emulated_profile.TOO_LONG
    asked = profile.__wrapped__(CONFLICTS, ALWAYS).simulated
    assert asked is not None
    assert asked.cycles is not None


@needs_cc
def test_a_launch_without_conflicts_is_simulated_only_if_asked() -> None:
    assert profile(CLEAN, AUTO).simulated is None
    assert profile(CLEAN, ALWAYS).simulated is not None
    assert profile(CONFLICTS, NEVER).simulated is None


@needs_cc
def test_next_to_another_a_launch_without_conflicts_is_simulated_and_lacks_nothing() -> None:
    assert profile(CLEAN, COMPARED).simulated is not None
    made, case = version(CLEAN)
    other = replace(case, launch=replace(case.launch, cluster=(2, 1, 1)))
    assert other.unlike
    binary, launch, counts = made.emulated.binary, other.launch, other.counts
    assert (
        emulated_profile.simulated(
            made.target, binary, launch, counts, wanted=COMPARED, toolchain=Toolchain(), cached=False
        )
        is None
    )


def span(cycles: float) -> Simulated:
    point = Span(point=cycles, low=cycles, high=cycles)
    return Simulated(cycles=point, saved=Span(point=0.1, low=0, high=0.2))


def test_of_two_launches_the_difference_is_what_is_saved() -> None:
    saved = saved_by(span(1000), span(800))
    assert saved is not None
    assert saved.point == pytest.approx(0.2)
    assert saved.high - saved.low == pytest.approx(2 * intervals.BOTH[0])
    assert remarks.fewer_cycles(saved).startswith("an estimated 20% fewer cycles on an H100 (")
    slower = saved_by(span(1000), span(1250))
    assert slower is not None
    least, most = (100 * (0.25 + side * intervals.BOTH[0]) for side in (-1, 1))
    assert remarks.fewer_cycles(slower) == f"an estimated 25% more cycles on an H100 ({least:.0f}% to {most:.0f}%)"
    assert saved_by(span(1000), None) is None
    assert saved_by(span(1000), Simulated(lacking="it is long")) is None


THREAD = ("S2R R0, SR_TID.X", "IMAD.SHL.U32 R1, R0, 0x4, RZ", "IMAD.SHL.U32 R2, R0, 0x80, RZ")
# In a row: one wavefront, 32 in one bank, and a store that no lane does.
STORES = (*THREAD, "STS [R1], R0", "STS [R2], R0", "ISETP.GT.AND P0, PT, R0, 0x40, PT", "@P0 STS [R2], R0", "EXIT")
ADDRESS = ("S2R R0, SR_TID.X", "LDC.64 R2, c[0x0][0x210]")
GLOBAL = replace(ONE_WARP, parameters=POINTER)


def detail(executed: BlockExecution, number: int) -> int:
    """Return the detail of the only execution of an instruction by warp 0."""
    (found,) = executed.details[0][executed.numbers[0] == number].tolist()
    return int(found)


def fresh(executed: BlockExecution, number: int) -> int:
    return detail(executed, number) & NEW_PAIR - 1


def test_each_access_has_its_own_wavefronts() -> None:
    executed = execution(code(*STORES), ONE_WARP, 60)
    assert [(detail(executed, number) & 0xFFFF) - 1 for number in (3, 4, 6)] == [1, 32, 0]
    assert [detail(executed, number) >> IDEAL for number in (3, 4, 6)] == [1, 1, 0]


def test_loads_have_their_lines_and_sectors_and_hit_l1_the_second_time() -> None:
    lines = (*ADDRESS, "IMAD.WIDE.U32 R2, R0, 0x20, R2", "LDG.E R4, [R2.64]", "LDG.E R5, [R2.64]", "EXIT")
    executed = execution(code(*lines), GLOBAL, 60)
    first = detail(executed, 3)
    assert (first >> LINES & BYTE, first >> SECTORS & BYTE, first & NEW_PAIR) == (8, 32, NEW_PAIR)
    assert (fresh(executed, 3), fresh(executed, 4)) == (32, 0)
    assert executed.partly == (0, 0), "all of its lines are whole"


def test_l1_forgets_what_was_used_the_longest_time_ago() -> None:
    # Each load asks for 32 lines, of which a block with that much shared memory keeps 7 * 32.
    loads = tuple(f"LDG.E R4, [R2.64+{hex(4096 * number)}]" for number in (*range(8), 7, 0))
    executed = execution(
        code(*ADDRESS, "IMAD.WIDE.U32 R2, R0, 0x80, R2", *loads, "EXIT", shared_bytes=200 << 10), GLOBAL, 60
    )
    assert [fresh(executed, 3 + number) for number in range(10)] == [32] * 8 + [0, 32]
    assert executed.partly == (1, 0), "one sector of each line"


@pytest.mark.parametrize(
    ("shared", "threads", "grid", "lines"),
    [
        (17664, 128, 528, 56),  # 13 blocks fit, so 228 KB are shared memory; 4 blocks per SM share 28 KB
        (17664, 128, 132, 224),  # as much is carved out for one block per SM
        (1024, 1024, 132, 1984),  # 2 blocks fit: 8 KB
        (227 << 10, 128, 1, 224),
    ],
)
def test_l1_has_what_shared_memory_leaves(shared: int, threads: int, grid: int, lines: int) -> None:
    assert cached_lines(shared, threads, grid) == lines


def work(given: Code, executed: BlockExecution) -> Work:
    """Return a launch of one block whose instructions set and wait for no scoreboards."""
    rows = [
        Row(number=number, opcode=each.text.split()[each.text.startswith("@")], sass=each.text, wavefronts=1)
        for number, each in enumerate(given.instructions)
    ]
    none = (0x7E1 << 41).to_bytes(8, "little")  # a stall count of 1
    return work_of(rows, (bytes(8) + none) * len(rows), executed, grid=1, resident=1, buffers=(0, 0))


@needs_cc
def test_excess_takes_time_and_removing_it_saves_that(tmp_path: Path) -> None:
    simulator = Simulator(tmp_path)

    def cycles(store: str, removed: float = 0) -> float:
        given = code(*THREAD, *[store] * 16, "EXIT")
        launched = work(given, execution(given, ONE_WARP, 60))
        return simulator.predicted(launched, replace(machine_for_launch(machine(), launched), removed=removed)).cycles

    clean, excess = cycles("STS [R1], R0"), cycles("STS [R2], R0")
    wave = machine().core_wave  # a sub-core's cycles for each
    assert excess - clean == pytest.approx(16 * 31 * wave, rel=0.1)
    assert cycles("STS [R2], R0", removed=1) == pytest.approx(clean)
    assert cycles("STS [R2], R0", removed=0.5) == pytest.approx((clean + excess) / 2, rel=0.05)
    assert cycles("STS [R1], R0", removed=1) == clean


@needs_cc
def test_a_load_that_misses_does_not_wait_for_the_conflicts_before_it(tmp_path: Path) -> None:
    # As measured: "L2 hit behind 4 STS, 32 wavefronts, 1 warp" in bench/recording/latencies.json takes as long as
    # without them.
    simulator = Simulator(tmp_path)
    load = ("LDC.64 R4, c[0x0][0x210]", "IMAD.WIDE.U32 R4, R0, 0x4, R4")
    taken = []
    for store in ("STS [R1], R0", "STS [R2], R0"):
        given = code(*THREAD, *load, *[store] * 4, "LDG.E R6, [R4.64]", "EXIT")
        launched = work(given, execution(given, GLOBAL, 60))
        sm = replace(machine_for_launch(machine(), launched), of_dram=0.0)
        taken.append(simulator.predicted(launched, sm).cycles)
    assert np.ptp(taken) < 8
