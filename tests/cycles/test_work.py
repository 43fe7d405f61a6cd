"""What warps execute is written down with what each access costs, and the simulated SM takes its time by that."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.cycles.simulator import Simulator, machine, of_launch
from ncu_swizzle.cycles.work import (
    BYTE,
    IDEAL,
    LINES,
    NEW_PAIR,
    SECTORS,
    Execution,
    Row,
    Work,
    cached_lines,
    execution,
    work_of,
)
from ncu_swizzle.emulate.code import Code
from tests.support.marks import needs_cc
from tests.support.programs import ONE_WARP, POINTER, code

THREAD = ("S2R R0, SR_TID.X", "IMAD.SHL.U32 R1, R0, 0x4, RZ", "IMAD.SHL.U32 R2, R0, 0x80, RZ")
# In a row: one wavefront, 32 in one bank, and a store that no lane does.
STORES = (*THREAD, "STS [R1], R0", "STS [R2], R0", "ISETP.GT.AND P0, PT, R0, 0x40, PT", "@P0 STS [R2], R0", "EXIT")
ADDRESS = ("S2R R0, SR_TID.X", "LDC.64 R2, c[0x0][0x210]")
GLOBAL = replace(ONE_WARP, parameters=POINTER)


def detail(executed: Execution, number: int) -> int:
    """Return the detail of the only execution of an instruction by warp 0."""
    (found,) = executed.details[0][executed.numbers[0] == number].tolist()
    return int(found)


def fresh(executed: Execution, number: int) -> int:
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


def work(given: Code, executed: Execution) -> Work:
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
        return simulator.predicted(launched, replace(of_launch(machine(), launched), removed=removed)).cycles

    clean, excess = cycles("STS [R1], R0"), cycles("STS [R2], R0")
    wave = machine().core_wave  # a sub-core's cycles for each
    assert excess - clean == pytest.approx(16 * 31 * wave, rel=0.1)
    assert cycles("STS [R2], R0", removed=1) == pytest.approx(clean)
    assert cycles("STS [R2], R0", removed=0.5) == pytest.approx((clean + excess) / 2, rel=0.05)
    assert cycles("STS [R1], R0", removed=1) == clean


@needs_cc
def test_a_load_that_misses_does_not_wait_for_the_conflicts_before_it(tmp_path: Path) -> None:
    # As measured: "L2 hit behind 4 STS, 32 wavefronts, 1 warp" in bench/latencies.json takes as long as without them.
    simulator = Simulator(tmp_path)
    load = ("LDC.64 R4, c[0x0][0x210]", "IMAD.WIDE.U32 R4, R0, 0x4, R4")
    taken = []
    for store in ("STS [R1], R0", "STS [R2], R0"):
        given = code(*THREAD, *load, *[store] * 4, "LDG.E R6, [R4.64]", "EXIT")
        launched = work(given, execution(given, GLOBAL, 60))
        sm = replace(of_launch(machine(), launched), of_dram=0.0)
        taken.append(simulator.predicted(launched, sm).cycles)
    assert np.ptp(taken) < 8
