"""Iterations that stand for others, and what launches that take long leave out: the counts are those of all of it."""

import math
import struct
from collections.abc import Callable
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from bench.oracles import random_sass
from ncu_swizzle.base.errors import TimeLimit
from ncu_swizzle.emulate import requests, run
from ncu_swizzle.emulate.code import PRED, Code, Sass, parse_instruction
from ncu_swizzle.emulate.counts import Counts, InstructionCounts, Launch
from ncu_swizzle.emulate.effects import BASES, reads_by_lane
from ncu_swizzle.emulate.faults import MemoryFault, Spent
from ncu_swizzle.emulate.flow import Flow
from ncu_swizzle.emulate.liveness import needed
from ncu_swizzle.emulate.operations import rounding
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.emulate.state import State
from tests.support.programs import ONE_WARP, code
from tests.support.properties import chances, holds

pytestmark = pytest.mark.usefixtures("alone")

BITS = (0, 1)


def counts_all(kind: str) -> Callable[[Random], None]:
    """Return a check that what is run to save time counts what all of a random program counts."""

    def check(chance: Random) -> None:
        expected, found = random_sass.KINDS[kind](chance)
        assert found == expected

    return check


@pytest.mark.long
def test_random_loops() -> None:
    holds(20, counts_all("loops"), chances)


@pytest.mark.long
def test_going_back_at_random_restores_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "__eq__", lambda self, other: False)
    holds(20, counts_all("loops"), chances)


@pytest.mark.parametrize("programs", [3, pytest.param(20, marks=pytest.mark.long)])
def test_what_is_left_out_under_guards_decides_nothing(programs: int) -> None:
    holds(programs, counts_all("guards"), chances)


def same(lines: tuple[str, ...], launch: Launch = ONE_WARP) -> Counts:
    counts = emulate(code(*lines), launch)
    assert counts.rows == emulate(code(*lines), launch, plain=True).rows
    return counts


LOOP = ("MOV R1, RZ", "IADD3 R1, R1, 0x1, RZ", "ISETP.LT.AND P0, PT, R1, 0x64, PT", "@P0 BRA 0x{at:x}", "EXIT")


def loop(*body: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return a loop of 100 iterations."""
    start, step, test, jump, end = LOOP
    at = 16 * (len(before) + 1)
    return (*before, start, *body, step, test, jump.format(at=at), end)


def test_a_loop_of_four_billion_iterations(skipped: list[int]) -> None:
    lines = ("MOV R1, RZ", "STS [RZ], R1", "VIADD R1, R1, 0x1", "ISETP.NE.AND P0, PT, R1, RZ, PT", "@P0 BRA 0x10")
    row = emulate(code(*lines, "EXIT"), ONE_WARP).rows[1]
    assert row.executed == row.wavefronts == 1 << 32
    assert max(skipped) > 1 << 30


def test_addresses_that_follow_the_iteration_or_change_between_two_buffers(skipped: list[int]) -> None:
    first = ("S2R R0, SR_TID.X", "IMAD.SHL.U32 R2, R0, 0x8, RZ")
    followed = same(loop("STS [R2], R1", "IADD3 R2, R2, 0x44, RZ", before=first))
    assert followed.requests[0x30].times.tolist() == [1] * 100
    assert sum(skipped) > 90
    skipped.clear()
    changed = same(loop("LDS R3, [R2]", "LOP3.LUT R2, R2, 0x404, RZ, 0x3c, !PT", before=first))
    assert changed.requests[0x30].times.tolist() == [50, 50]
    assert sum(skipped) > 20


def test_what_shared_memory_holds_decides(skipped: list[int]) -> None:
    counter = ("STS [RZ], RZ", "MOV R4, RZ")
    same(loop("LDS R3, [RZ]", "IADD3 R3, R3, 0x4, RZ", "STS [RZ], R3", "STS [R3], R4", before=counter))
    assert not skipped
    same(loop("LDS R3, [RZ]", "STS [R3], R4", before=counter))
    assert sum(skipped) > 90


@pytest.mark.long
def test_a_loop_around_others(skipped: list[int]) -> None:
    inner = ("MOV R5, RZ", "STS [RZ], R1", "VIADD R5, R5, 0x1", "ISETP.LT.AND P1, PT, R5, 0x32, PT", "@P1 BRA 0x20")
    counts = same(loop(*inner))
    assert counts.rows[2].executed == 5000
    assert max(skipped) > 90


def test_a_register_that_changes_by_another_number_in_some_lanes(skipped: list[int]) -> None:
    first = ("S2R R0, SR_TID.X", "LOP3.LUT P1, R7, R0, 0x1, RZ, 0xc0, !PT", "MOV R6, RZ")
    lines = loop("@P1 IADD3 R6, R6, 0x1, RZ", "STS [RZ], R1", before=first)
    behind = ("IMAD R2, R6, 0x4, R0", "IMAD R2, R0, 0x3, R2", "STS [R2], R1", "EXIT")
    counts = same((*lines[:-1], *behind))
    assert counts.requests[16 * 11].addresses[0].tolist() == [4 * t + 400 * (t % 2) for t in range(32)]
    assert sum(skipped) > 90


def test_a_loop_of_half_a_warp_leaves_the_registers_of_the_others_alone(skipped: list[int]) -> None:
    first = ("S2R R0, SR_TID.X", "IMAD R2, R0, 0x4, RZ", "MOV R6, RZ", "ISETP.GT.AND P1, PT, R0, 0xf, PT")
    around = (*first, "BSSY B0, {meet}", "@P1 BRA {meet}", "MOV R1, RZ")
    body = ("again: STS [R2], R1", "VIADD R6, R6, 0x40", "VIADD R1, R1, 0x1", "ISETP.LT.AND P0, PT, R1, 0x64, PT")
    counts = same((*around, *body, "@P0 BRA {again}", "meet: BSYNC B0", "IADD3 R2, R6, R2, RZ", "STS [R2], R1", "EXIT"))
    assert counts.rows[-2].wavefronts == 1, "6,400 bytes further on, or where it was: all in different banks"
    assert counts.requests[16 * 14].addresses[0].tolist() == [4 * t + 6400 * (t < 16) for t in range(32)]
    assert sum(skipped) > 90


@pytest.mark.long
def test_a_bound_that_depends_on_the_block_or_the_thread() -> None:
    body = ("MOV R1, RZ", "again: STS [RZ], R1", "VIADD R1, R1, 0x1", "ISETP.LE.AND P0, PT, R1, R6, PT")
    blocks = same(("S2R R6, SR_CTAID.X", *body, "@P0 BRA {again}", "EXIT"), Launch(grid=(60, 1, 1), block=(32, 1, 1)))
    assert blocks.rows[2].executed == sum(range(1, 61))
    assert blocks.classes == 60, "it tells blocks apart"
    threads = same(("S2R R6, SR_TID.X", *body, "@P0 BRA {again}", "EXIT"), Launch(grid=(2, 1, 1), block=(96, 1, 1)))
    assert threads.rows[2].executed == 2 * (32 + 64 + 96), "they leave one after the other"


def test_an_address_that_leaves_shared_memory_is_the_same_fault() -> None:
    lines = loop("STS [R2], R1", "IADD3 R2, R2, 0x100, RZ", before=("MOV R2, RZ",))
    expected, found = random_sass.in_full_and_with_shortcuts(code(*lines), ONE_WARP)
    assert found == expected
    with pytest.raises(MemoryFault, match="0x4000"):
        emulate(code(*lines), ONE_WARP)


TABLE = 0x7F0000000000
DATA = np.random.default_rng(5).integers(-(1 << 31), 1 << 31, 128)
LAUNCH = Launch(
    grid=(2, 1, 1), block=(64, 1, 1), parameters=struct.pack("<Q", TABLE), memory={TABLE: DATA.astype("<i4").tobytes()}
)
LOAD = (
    *("S2R R0, SR_TID.X", "IMAD R4, R0, 0x4, RZ", "LDC.64 R2, c[0x0][0x210]"),
    *("IMAD.WIDE R2, R0, 0x4, R2", "LDG.E R5, desc[UR4][R2.64]", "MOV R6, RZ"),
)
OTHERS = tuple(f"STS [R4+{0x1000 + 0x100 * number:#x}], RZ" for number in range(20))
NEXT = ("VIADD R6, R6, 0x1", "ISETP.LT.U32.AND P1, PT, R6, 0x40, PT")
BRANCHING = ("IMAD R5, R5, 0x5, R0", "ISETP.GT.AND P0, PT, R5, RZ, PT", "BSSY B0, 0xa0", "@P0 BRA 0xa0")


def rows(counts: Counts) -> list[InstructionCounts]:
    return [row for row in counts.rows if row.access]


BEHIND_DATA = code(*LOAD, *BRANCHING, "BSYNC B0", *OTHERS, *NEXT, "@P1 BRA 0x60", "EXIT")
DATA_DECIDE = code(
    *LOAD, *BRANCHING[:2], "BSSY B0, 0xb0", "@P0 BRA 0xb0", "LDS R7, [R4]", "BSYNC B0", *OTHERS, *NEXT,
    "@P1 BRA 0x60", "EXIT",
)  # fmt: skip


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("source", [BEHIND_DATA, DATA_DECIDE])
def test_what_data_do_not_decide_is_known_without_them(source: Code) -> None:
    quick, whole = emulate(source, LAUNCH), emulate(source, LAUNCH, plain=True)
    assert any("its contents are treated as unknown" in note for note in quick.notes)
    assert not any(row.reason for row in rows(whole))
    left = [row.sass for row in rows(quick) if row.reason]
    assert left == (["LDS R7, [R4]"] if source is DATA_DECIDE else [])
    for short, full in zip(rows(quick), rows(whole), strict=True):
        assert short.reason or short == full


@pytest.mark.usefixtures("soon")
def test_data_are_followed_where_they_decide_much() -> None:
    source = code(*LOAD, "LOP3.LUT R5, R5, 0xffc, RZ, 0xc0, !PT", "STS [R5], R0", "EXIT")
    counts = emulate(source, LAUNCH)
    assert counts.rows == emulate(source, LAUNCH, plain=True).rows
    assert not any("taken for unknown" in note for note in counts.notes)


@pytest.mark.long
@pytest.mark.usefixtures("soon")
def test_exhaustive_follows_all_data() -> None:
    counts = emulate(DATA_DECIDE, LAUNCH, exhaustive=True)
    assert counts.rows == emulate(DATA_DECIDE, LAUNCH, plain=True).rows


@pytest.mark.usefixtures("soon")
def test_a_trial_that_follows_every_branch_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "FUTILE_EFFORT", 0)
    source = code(*LOAD, *OTHERS, "STS [R4], R5", *NEXT, "@P1 BRA 0x60", "EXIT")
    counts = emulate(source, LAUNCH)
    assert not any("taken for unknown" in note for note in counts.notes)
    assert counts.rows == emulate(source, LAUNCH, plain=True).rows


def test_unknown_bytes_of_shared_memory_are_no_change(skipped: list[int]) -> None:
    """What a byte held before it became unknown decides nothing: an iteration stands for others."""
    body = ("IMAD R5, R5, 0x5, R0", "STS [R4], R5", "LDS R9, [R4]", "ISETP.EQ.AND P0, PT, R9, RZ, PT")
    source = code(*LOAD, "STS [R4], R0", *body, "@P0 STS [R4+0x800], R0", *NEXT, "@P1 BRA 0x70", "EXIT")
    launch = Launch(grid=LAUNCH.grid, block=LAUNCH.block, parameters=LAUNCH.parameters)
    assert emulate(source, launch).rows == emulate(source, launch, plain=True).rows
    assert max(skipped) > 40


@pytest.mark.parametrize(
    ("between", "live"),
    [
        ((), False),
        (("ISETP.EQ.AND P1, PT, R0, RZ, PT",), False),
        (("ISETP.EQ.AND P0, PT, R0, RZ, PT",), True),  # another guard from here on
        (("BRA 0x20",), False),  # another block
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_what_a_guard_reads_and_wrote_is_not_live_before(between: tuple[str, ...], live: bool, negated: bool) -> None:
    lines = ("@P0 MOV R8, R1", *between, f"@{'!' * negated}P0 IADD3 R9, R8, 0x4, RZ", "STS [R9], RZ", "EXIT")
    flow = Flow([parse_instruction(Sass(16 * at, line)) for at, line in enumerate(lines)])
    assert needed(flow).live[0] >> 8 & 1 == (live or negated)
    assert needed(flow).live[0] >> 9 & 1  # where the guard is false


@pytest.mark.parametrize("signs", [("", ""), ("!", ""), ("", "!"), ("!", "!")])
def test_a_predicate_is_read_only_where_another_leaves_it_an_influence(signs: tuple[str, str]) -> None:
    first, second = BASES[PRED], BASES[PRED] + 1
    for table in range(256):
        line = f"PLOP3.LUT P2, PT, {signs[0]}P0, {signs[1]}P1, PT, {table:#x}, 0x0"
        results = {
            (a, b): table >> 4 * (a ^ len(signs[0])) + 2 * (b ^ len(signs[1])) + 1 & 1 for a in BITS for b in BITS
        }
        without = {(second, a) for a in BITS if results[0, a] == results[1, a]}  # the value with which P0 has none
        without |= {(first, a) for a in BITS if results[a, 0] == results[a, 1]}
        reads = reads_by_lane(parse_instruction(Sass(0, line)))
        selected = {(register, 1 - negated) for register, negated in reads}
        assert all((register, 1 - value) in without for register, value in selected), line
        assert {register for register, _ in selected} == {register for register, _ in without}, line
        assert all(read == 1 << (first if register == second else second) for (register, _), read in reads.items())


def test_what_brings_an_address_to_uniform_registers_reads_no_older_predicate() -> None:
    """The loop that nvcc writes around the copies of a TMA: P1 holds in all lanes at first."""
    loop = "PLOP3.LUT P0, PT, P0, P1, PT, 0xa2, 0x0"
    lines = ("FSETP.GT.AND P0, PT, R2, R3, PT", "PLOP3.LUT P1, PT, PT, PT, PT, 0x80, 0x0", loop,
             "@P1 R2UR P0, UR8, R8", loop, "@P1 R2UR.OR P0, UR4, R12", "@P1 PLOP3.LUT P1, PT, P0, PT, PT, 0x80, 0x0",
             "@P1 BRA.U.ANY 0x20", "EXIT")  # fmt: skip
    flow = Flow([parse_instruction(Sass(16 * at, line)) for at, line in enumerate(lines)])
    assert not needed(flow).needed[0]
    assert needed(flow).needed[5]


def test_both_predicates_of_a_disjunction_are_needed() -> None:
    """Each of them has no influence where the other holds, and one is overwritten: as in nvcc's division of floats."""
    lines = ("FSETP.GT.AND P0, PT, R2, R3, PT", "FSETP.GT.AND P1, PT, R3, R4, PT",
             "PLOP3.LUT P0, PT, P0, P1, PT, 0xa8, 0x0", "@P0 STS [R9], RZ", "EXIT")  # fmt: skip
    flow = Flow([parse_instruction(Sass(16 * at, line)) for at, line in enumerate(lines)])
    assert needed(flow).needed[:3] == (True, True, True)


def test_what_another_lane_reads_is_live_whatever_the_guard() -> None:
    lines = ("@P0 MOV R8, R1", "@P0 SHFL.IDX PT, R9, R8, RZ, 0x1f", "STS [R9], RZ", "EXIT")
    flow = Flow([parse_instruction(Sass(16 * at, line)) for at, line in enumerate(lines)])
    assert needed(flow).live[0] >> 8 & 1


def test_lanes_that_do_not_run_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A double too small for NumPy is computed number by number, but not in lanes that have exited."""
    seen: list[float] = []
    nearest = rounding._nearest

    def noted(exact: rounding.Fraction, mode: str) -> float:
        seen.append(float(exact))
        return nearest(exact, mode)

    monkeypatch.setattr(rounding, "_nearest", noted)
    monkeypatch.setattr(rounding, "compiled", lambda: None)  # C computes it as fast as any other number
    tiny = ("S2R R0, SR_TID.X", "MOV R2, 0x1", "MOV R3, RZ", "ISETP.NE.AND P0, PT, R0, 0x5, PT", "@P0 EXIT")
    source = code(*tiny, "DFMA R4, R2, R2, R2", "LOP3.LUT R6, R4, 0x7c, RZ, 0xc0, !PT", "STS [R6], R0", "EXIT")
    counts = emulate(source, Launch(grid=(1, 1, 1), block=(32, 1, 1)))
    assert rows(counts)[0].wavefronts == 1
    assert seen == [math.ldexp(1, -1074)]


def ask(clock: Clock, steps: int) -> None:
    """Take some of ten steps, as a run does."""
    with clock.limited(10):
        clock.steps += steps
        if clock.expired:
            raise TimeLimit("the run ends")


def test_steps_end_a_run_and_the_time_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr(requests, "time", SimpleNamespace(thread_time=lambda: seconds[0]))
    clock = Clock(timeout_s=60.0, start=0.0)
    ask(clock, 10)
    with pytest.raises(Spent):
        ask(clock, 11)
    assert not clock.expired  # outside there is no limit on steps
    seconds[0] = 61.0
    with pytest.raises(TimeLimit) as late:
        ask(clock, 0)
    assert not isinstance(late.value, Spent)
