"""Threads of a warp that part and meet, written in SASS by hand and counted by hand; and programs that are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.emulate import requests
from ncu_swizzle.emulate.code import Code, Sass, SassInstruction
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.faults import Broken, Circling, Endless, MemoryFault, Stuck, Unsupported
from ncu_swizzle.emulate.operands import COMPILERS, Compute
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.emulate.values import Value

ONE_WARP = Launch(grid=(1, 1, 1), block=(32, 1, 1))
THREAD = "S2R R0, SR_TID.X"

ACCESS = "STS [RZ], RZ"  # a kernel that cannot access shared memory is not refused: its counts are zero


def code(*lines: str, shared_bytes: int = 0x1400) -> Code:
    return Code(
        name="test",
        instructions=tuple(Sass(16 * place, line) for place, line in enumerate(lines)),
        shared_bytes=shared_bytes,
    )


def issued(counts: Counts) -> list[int | None]:
    return [row.executed for row in counts.rows]


def test_each_part_of_a_warp_comes_to_the_meeting_point_by_itself() -> None:
    counts = emulate(
        code(
            THREAD,
            "ISETP.GE.AND P0, PT, R0, 0x8, PT",
            "BSSY B0, 0x70",
            "@P0 BRA 0x60",
            "IMAD.SHL.U32 R1, R0, 0x4, RZ",
            "STS [R1+0x400], R0",  # lanes 0 to 7
            "BSYNC B0",
            "EXIT",
        ),
        ONE_WARP,
    )
    assert issued(counts) == [1, 1, 1, 1, 1, 1, 2, 1]
    assert counts.rows[5].wavefronts == counts.rows[5].ideal == 1


@pytest.mark.parametrize("last", ["0x8", "0x20"])
def test_a_shuffle_of_all_lanes_in_a_branch_that_some_take(last: str) -> None:
    lanes = int(last, 16)
    counts = emulate(
        code(
            THREAD,
            f"ISETP.GE.AND P0, PT, R0, {last}, PT",
            "IMAD.SHL.U32 R1, R0, 0x4, RZ",
            "MOV R3, 0xffffffff",
            "MOV R6, 0x10",
            "MOV R7, 0x1f",
            "BSSY B0, 0xd0",
            "@P0 BRA 0xc0",
            "WARPSYNC.COLLECTIVE R3, 0xb0",
            "SHFL.BFLY P1, R4, R1, R6, R7",  # reads lanes 16 to 23, which wait at BSYNC if only 0 to 7 are here
            "ENDCOLLECTIVE",
            "STS [R1], R4",
            "BSYNC B0",
            "STS [R4], R1",
            "EXIT",
        ),
        ONE_WARP,
    )
    assert (counts.rows[11].executed, counts.rows[11].wavefronts) == (1, 1)
    assert (counts.rows[13].wavefronts is None) == (lanes < 32)


def test_a_wait_for_lanes_that_never_come_is_a_deadlock() -> None:
    with pytest.raises(Stuck, match="waits for threads of its warp that never arrive"):
        emulate(
            code(
                THREAD,
                "ISETP.GE.AND P0, PT, R0, 0x8, PT",
                "MOV R3, 0xffffffff",
                "BSSY B0, 0x60",
                "@P0 BRA 0x60",
                "WARPSYNC R3",
                "BSYNC B0",
                "STS [RZ], R0",
                "EXIT",
            ),
            ONE_WARP,
        )


def test_threads_that_leave_a_barrier_or_end_are_not_waited_for() -> None:
    counts = emulate(
        code(
            THREAD,
            "ISETP.GE.AND P0, PT, R0, 0x8, PT",
            "ISETP.GE.AND P1, PT, R0, 0x18, PT",
            "BSSY B0, 0x80",
            "@P1 EXIT",  # lanes 24 to 31
            "@P0 BREAK B0",
            "@P0 BRA 0x90",  # lanes 8 to 23 never come to BSYNC
            "BSYNC B0",
            "NOP",
            "EXIT",
        ),
        ONE_WARP,
    )
    assert issued(counts) == [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]


def test_a_loop_that_lanes_leave_one_by_one() -> None:
    counts = emulate(
        code(
            THREAD,
            "MOV R2, RZ",
            "BSSY B0, 0x80",
            "VIADD R2, R2, 0x1",  # lane i goes round i + 1 times
            "NOP",
            "ISETP.LE.AND P0, PT, R2, R0, PT",
            "@P0 BRA 0x30",
            "BSYNC B0",
            "EXIT",
        ),
        ONE_WARP,
    )
    assert issued(counts) == [1, 1, 1, 32, 32, 32, 32, 32, 1]


def test_instructions_whose_guard_is_false_are_issued_and_ask_for_nothing() -> None:
    counts = emulate(
        code(
            THREAD,
            "ISETP.GE.AND P0, PT, R0, 0x20, PT",  # false in the first of two warps
            "IMAD.SHL.U32 R1, R0, 0x4, RZ",
            "@P0 STS [R1+0x400], R0",
            "@!PT LDS RZ, [RZ]",
            "EXIT",
        ),
        Launch(grid=(5, 1, 1), block=(64, 1, 1)),
    )
    assert issued(counts) == [10] * 6
    store, never = counts.rows[3], counts.rows[4]
    assert (store.wavefronts, store.ideal) == (5, 5)
    assert never.access == ""


def test_an_unknown_branch_makes_unknown_what_it_decides_and_no_more() -> None:
    counts = emulate(
        code(
            THREAD,
            "LDC.64 R4, c[0x0][0x210]",
            "LDG.E R6, desc[UR4][R4.64]",
            "IMAD.WIDE R4, R0, 0x4, R4",
            "LDG.E R7, desc[UR4][R4.64]",
            "ISETP.GE.AND P0, PT, R7, RZ, PT",
            "BSSY B0, 0xb0",
            "@P0 BRA 0xa0",
            "STS [RZ+0x400], R0",
            "VIADD R0, R0, 0x1",
            "BSYNC B0",
            "IMAD.SHL.U32 R1, R0, 0x4, RZ",
            "STS [R1+0x400], R0",
            "STS [RZ+0x400], R0",
            "EXIT",
        ),
        Launch(grid=(1, 1, 1), block=(32, 1, 1), parameters=(1 << 40).to_bytes(8, "little")),
    )
    assert issued(counts) == [1] * 8 + [None] * 3 + [1] * 4
    inside, address_changed, fixed = counts.rows[8], counts.rows[12], counts.rows[13]
    for row in (inside, address_changed):
        assert row.wavefronts is None
        assert row.origin == 0x40
        assert "LDG.E R7" in row.reason
    assert (fixed.wavefronts, fixed.ideal) == (1, 1)


def test_a_uniform_register_that_an_unknown_branch_of_one_warp_writes_is_unknown() -> None:
    counts = emulate(
        code(
            THREAD,
            "LDC.64 R4, c[0x0][0x210]",
            "IMAD.WIDE R4, R0, 0x4, R4",
            "LDG.E R7, desc[UR4][R4.64]",
            "ISETP.GE.AND P0, PT, R7, RZ, PT",
            "ISETP.GE.AND P1, PT, R0, 0x20, PT",
            "@P1 BRA 0xb0",  # the second warp
            "BSSY B0, 0xa0",
            "@P0 BRA 0xa0",
            "UMOV UR6, 0x400",
            "BSYNC B0",
            "STS [UR6], R0",
            "EXIT",
        ),
        Launch(grid=(1, 1, 1), block=(64, 1, 1), parameters=(1 << 40).to_bytes(8, "little")),
    )
    assert counts.rows[9].executed is None
    assert counts.rows[11].wavefronts is None


def test_a_branch_that_all_lanes_take_or_leave_together_needs_no_meeting_point() -> None:
    counts = emulate(
        code(
            "LDC.64 R4, c[0x0][0x210]",
            "LDG.E R6, desc[UR4][R4.64]",  # the same for all
            "ISETP.GE.AND P0, PT, R6, RZ, PT",
            "@P0 BRA 0x50",
            "NOP",
            "STS [RZ+0x400], RZ",
            "EXIT",
        ),
        Launch(grid=(1, 1, 1), block=(32, 1, 1), parameters=(1 << 40).to_bytes(8, "little")),
    )
    assert issued(counts) == [1, 1, 1, 1, None, 1, 1]


def test_an_early_exit_that_data_decide_leaves_nothing_known() -> None:
    counts = emulate(
        code(
            THREAD,
            "LDC.64 R4, c[0x0][0x210]",
            "IMAD.WIDE R4, R0, 0x4, R4",
            "LDG.E R7, desc[UR4][R4.64]",
            "ISETP.GE.AND P0, PT, R7, RZ, PT",
            "@P0 EXIT",
            "STS [RZ+0x400], RZ",
            "EXIT",
        ),
        Launch(grid=(1, 1, 1), block=(32, 1, 1), parameters=(1 << 40).to_bytes(8, "little")),
    )
    assert issued(counts) == [1] * 6 + [None] * 2
    assert counts.unknown == (counts.rows[6],)


@pytest.mark.parametrize(
    ("copy", "first", "wavefronts", "ideal"),  # of lanes below `first` P0 and P1 are false
    [
        ("LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64], !P1", "0x20", 4, 4),
        ("LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64], !P1", "0x9", 6, 6),  # 2 for what is read, 4 for zeros
        ("LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64], !P0", "0x9", 4, 4),  # ncu does not read P0
        (
            "LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64], P0",
            "0x9",
            4,
            4,
        ),  # but takes it for false: nothing but zeros
        ("LDGSTS.E.BYPASS.128.ZFILL [R1+0x400], desc[UR6][R4.64+0xf]", "0x20", 8, 8),  # one byte of each chunk
        ("LDGSTS.E.128 [R1+0x400], desc[UR6][R4.64], !P0", "0x9", 4, 4),
        ("@!P1 LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64]", "0x9", 2, 2),
        ("@P0 LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64]", "0x9", 0, 0),
        ("@!P0 LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64]", "0x9", 4, 4),
        ("@P0 LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64], !P1", "0x9", None, None),
    ],
)
def test_copies_that_write_zeros_or_are_guarded(
    copy: str, first: str, wavefronts: int | None, ideal: int | None
) -> None:
    lines = (
        THREAD,
        f"ISETP.GE.AND P0, PT, R0, {first}, PT",
        f"ISETP.GE.AND P1, PT, R0, {first}, PT",
        "IMAD.SHL.U32 R1, R0, 0x10, RZ",
        "LDC.64 R4, c[0x0][0x210]",
        "IMAD.WIDE.U32 R4, R0, 0x10, R4",
        copy,
        "EXIT",
    )
    launch = Launch(grid=(1, 1, 1), block=(32, 1, 1), parameters=(1 << 40).to_bytes(8, "little"))
    counts = emulate(code(*lines), launch)
    row = counts.rows[6]
    assert (row.executed, row.wavefronts, row.ideal) == (1, wavefronts, ideal)
    assert bool(row.reason) == (wavefronts is None)
    assert ("does not read P0" in " ".join(counts.notes)) == (copy.startswith(("@P0", "@!P0")) or copy.endswith(", P0"))


def test_lanes_that_ncu_counts_although_they_are_off_need_valid_addresses() -> None:
    lines = (
        THREAD,
        "ISETP.GE.AND P0, PT, R0, 0x8, PT",
        "IMAD R1, R0, 0x1000, RZ",
        "LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64]",
        "EXIT",
    )
    counts = emulate(code(*lines[:3], f"@!P0 {lines[3]}", lines[4], shared_bytes=0x9000), ONE_WARP)
    assert counts.rows[3].wavefronts is None
    assert "predicated off" in counts.rows[3].reason


SPIN_LOOP = (
    "BSSY B0, {after:#x}",
    "LDS R2, [R1+0x400]",
    "FADD R3, R2, 1.5",
    "ATOMS.CAST.SPIN R3, [R1+0x400], R2, R3",
    "ISETP.EQ.U32.AND P0, PT, R3, 0x1, PT",
    "@!P0 BRA {again:#x}",
    "BSYNC B0",
)


def spin_loop(at: int) -> list[str]:
    return [line.format(again=16 * (at + 1), after=16 * (at + 7)) for line in SPIN_LOOP]


@pytest.mark.parametrize(("stride", "rounds", "loads"), [(4, 1, 1), (8, 2, 3), (128, 32, 32 * 33 // 2), (132, 1, 1)])
def test_in_a_compare_and_swap_loop_one_lane_per_bank_swaps_each_time(stride: int, rounds: int, loads: int) -> None:
    lines = [THREAD, f"IMAD R1, R0, {stride:#x}, RZ", *spin_loop(2), "EXIT"]
    counts = emulate(code(*lines, shared_bytes=0x3000), Launch(grid=(3, 1, 1), block=(64, 1, 1)))
    load, swap = counts.rows[3], counts.rows[5]
    assert (load.executed, load.wavefronts) == (6 * rounds, 6 * loads)
    assert (swap.executed, swap.wavefronts, swap.ideal) == (6 * rounds, 12 * rounds, 12 * rounds)
    assert not counts.unknown


def test_lanes_that_swap_the_same_word_need_a_barrier_between_them() -> None:
    lines = [THREAD, "LOP3.LUT R1, R0, 0x1f, RZ, 0xc0, !PT", "IMAD.SHL.U32 R1, R1, 0x4, RZ"]
    lines += ["ISETP.GE.AND P1, PT, R0, 0x20, PT", "@P1 BRA 0xc0", *spin_loop(5)]
    second = [f"@!P1 BRA {16 * 21:#x}", *spin_loop(14), "EXIT"]
    launch = Launch(grid=(1, 1, 1), block=(64, 1, 1))
    apart = emulate(code(*lines, "BAR.SYNC.DEFER_BLOCKING 0x0", *second), launch)
    assert [(row.executed, row.wavefronts) for row in apart.rows if row.opcode.startswith("ATOMS")] == [(1, 2), (1, 2)]
    together = emulate(code(*lines, "NOP", *second), launch)
    swaps = [row for row in together.rows if row.opcode.startswith("ATOMS")]
    assert [row.executed for row in swaps] == [None, None]
    assert all("what an atomic operation returns" in row.reason for row in swaps)
    lanes = emulate(code(THREAD, "LOP3.LUT R1, R0, 0x3c, RZ, 0xc0, !PT", *spin_loop(2), "EXIT"), ONE_WARP)
    assert lanes.rows[5].executed is None


def test_a_swap_of_what_was_not_loaded_just_before_is_not_known() -> None:
    loop = spin_loop(2)
    lines = [THREAD, "IMAD.SHL.U32 R1, R0, 0x4, RZ", *loop, "EXIT"]
    other = [line.replace("LDS R2, [R1+0x400]", "LDS R2, [R1+0x404]") for line in lines]
    assert emulate(code(*lines), ONE_WARP).rows[5].executed == 1
    assert emulate(code(*other), ONE_WARP).rows[5].executed is None


def test_an_instruction_that_is_not_emulated_is_named() -> None:
    counts = emulate(code(THREAD, "FOO.BAR R1, R0", "STS [R1+0x400], R0", "EXIT"), ONE_WARP)
    assert counts.rows[2].wavefronts is None
    assert "FOO.BAR R1, R0 at 0x10 (is not emulated)" in counts.rows[2].reason
    assert counts.notes == ("FOO.BAR is not emulated; its result is unknown: FOO.BAR R1, R0 at 0x10",)
    with pytest.raises(Unsupported, match=r"'JMXU UR4' at 0x0"):
        emulate(code("JMXU UR4", "EXIT", ACCESS), ONE_WARP)


# ---------------------------------------------------------------------------------------------- wrong programs


def test_an_address_outside_of_shared_memory_is_the_programs_fault() -> None:
    lines = (THREAD, "IMAD.SHL.U32 R1, R0, 0x4, RZ", "STS [R1+0x400], R0", "EXIT")
    launch = Launch(grid=(3, 1, 1), block=(64, 2, 1))
    assert emulate(code(*lines, shared_bytes=0x500), launch).rows[2].wavefronts == 12
    with pytest.raises(MemoryFault, match=r"shared address 0x480 .* thread \(32, 0, 0\) of block \(0, 0, 0\)") as fault:
        emulate(code(*lines, shared_bytes=0x480), launch)
    assert (fault.value.offset, fault.value.thread) == (0x20, (32, 0, 0))
    assert (
        emulate(code(*lines, shared_bytes=0x480), Launch(grid=(3, 1, 1), block=(64, 2, 1), shared_dynamic=0x80))
        .rows[2]
        .wavefronts
        == 12
    )


def test_an_address_that_is_not_aligned() -> None:
    with pytest.raises(MemoryFault, match=r"0x404 is not a multiple of 8, thread \(1, 0, 0\)"):
        emulate(code(THREAD, "IMAD.SHL.U32 R1, R0, 0x4, RZ", "LDS.64 R2, [R1+0x400]", "EXIT"), ONE_WARP)


def test_a_loop_without_an_end_meets_the_limit() -> None:
    with pytest.raises(Endless, match=r"still running after 0\.1 s"):
        emulate(
            code("MOV R1, RZ", "IMAD R1, R1, 0x5, 0x1", "ISETP.EQ.AND P0, PT, R1, RZ, PT", "@!P0 BRA 0x10", ACCESS),
            ONE_WARP,
            timeout_s=0.1,
        )


def test_a_loop_that_changes_nothing_is_recognized_at_once() -> None:
    for loop in (
        ("NOP", "BRA 0x0"),
        (THREAD, "BSSY B0, 0x20", "BSYNC B0", "ISETP.GE.AND P0, PT, R0, RZ, PT", "@P0 BRA 0x0"),
    ):
        with pytest.raises(Circling, match=r"endless loop at '(@P0 )?BRA 0x0' \(0x[14]0\)"):
            emulate(code(*loop, "EXIT", ACCESS), ONE_WARP, timeout_s=600)


def test_a_loop_that_only_another_warp_ends_is_no_circle() -> None:
    counts = emulate(
        code(
            THREAD,
            "MOV R2, 0x400",
            "ISETP.GE.AND P0, PT, R0, 0x20, PT",
            "STS [R2], RZ",
            "BAR.SYNC 0x0",
            "@P0 BRA 0xb0",
            "LDS R1, [R2]",  # the first warp waits for what the second one writes after its own long loop
            "ISETP.LT.U32.AND P1, PT, R1, 0x1, PT",
            "@P1 BRA 0x60",
            "EXIT",
            "NOP",
            "MOV R3, RZ",
            "VIADD R3, R3, 0x1",
            "ISETP.LT.U32.AND P1, PT, R3, 0x7d0, PT",
            "@P1 BRA 0xc0",
            "STS [R2], R3",
            "EXIT",
        ),
        Launch(grid=(1, 1, 1), block=(64, 1, 1)),
    )
    assert counts.rows[15].executed == 1


def test_a_failure_of_the_emulator_in_a_branch_names_the_instruction_and_the_line_to_report() -> None:
    with pytest.raises(Broken, match=r"fails on 'BSSY' at 0x10") as caught:
        emulate(code("NOP", "BSSY", "EXIT", ACCESS), ONE_WARP)
    assert caught.value.hint.startswith("report this line: BSSY | IndexError in ")
    assert caught.value.offset == 0x10


def test_a_failure_of_the_emulator_in_one_instruction_leaves_the_counts_of_others() -> None:
    counts = emulate(code("STS [RZ], R0", "NOP", "LDS R1", "SHF.L.U32 R0", "STS [R0], R0", "EXIT"), ONE_WARP)
    before, load, after = (counts.rows[number] for number in (0, 2, 4))
    assert (before.executed, before.wavefronts) == (1, 1)
    assert load.executed == after.executed == 1
    assert load.reason == "what LDS accesses depends on LDS R1 at 0x20 (the emulator fails on it)"
    assert after.reason == "its address depends on SHF.L.U32 R0 at 0x30 (the emulator fails on it)"
    assert [note.partition(",")[0] for note in counts.notes] == [
        "the emulator fails on 'LDS R1' at 0x20",
        "the emulator fails on 'SHF.L.U32 R0' at 0x30",
    ]


def test_a_failure_of_the_emulator_while_it_runs_leaves_no_result_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: SassInstruction) -> Compute:
        return lambda m: (Value(np.zeros((m.warps // 0, 1))),)

    monkeypatch.setitem(COMPILERS, "DFMA", failing)
    counts = emulate(code("MOV R4, RZ", "MOV R5, RZ", "DFMA R4, R2, UR4, R6", "STS [R5], R0", "EXIT"), ONE_WARP)
    assert counts.rows[3].reason == "its address depends on DFMA R4, R2, UR4, R6 at 0x20 (the emulator fails on it)"
    assert counts.notes[0].endswith(
        "what it writes is unknown: report ZeroDivisionError in <lambda>: integer division or modulo by zero"
    )


def test_threads_that_wait_for_threads_that_wait_elsewhere() -> None:
    with pytest.raises(Stuck, match="not all threads of the block reach this barrier"):
        emulate(
            code(
                THREAD,
                "ISETP.GE.AND P0, PT, R0, 0x20, PT",
                "@P0 BRA 0x50",
                "BAR.SYNC 0x1",
                "EXIT",
                "BAR.SYNC 0x2",
                "EXIT",
                ACCESS,
            ),
            Launch(grid=(1, 1, 1), block=(64, 1, 1)),
        )


def test_warps_that_have_ended_are_not_waited_for() -> None:
    lines = (THREAD, "ISETP.GE.AND P0, PT, R0, 0x20, PT", "@P0 EXIT", "BAR.SYNC.DEFER_BLOCKING 0x0", "EXIT")
    assert issued(emulate(code(*lines), Launch(grid=(1, 1, 1), block=(64, 1, 1)))) == [2, 2, 2, 1, 1]


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (Launch(grid=(0, 1, 1), block=(32, 1, 1)), "a grid of"),
        (Launch(grid=(1, 1, 1), block=(32, 64, 1)), "2048 threads"),
        (Launch(grid=(1, 1, 1), block=(32, 1, 1), shared_dynamic=1 << 20), "dynamic shared memory"),
    ],
)
def test_launches_that_cannot_be(launch: Launch, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        emulate(code("EXIT"), launch)


def test_parameters_have_to_fit() -> None:
    source = Code(name="test", instructions=(Sass(0, "EXIT"),), parameter_bytes=12)
    with pytest.raises(UsageError, match="8 bytes of parameters, but test takes 12"):
        emulate(source, Launch(grid=(1, 1, 1), block=(32, 1, 1), parameters=bytes(8)))


def test_progress_is_told() -> None:
    told: list[tuple[int, int, int]] = []
    emulate(code("EXIT"), Launch(grid=(7, 1, 1), block=(64, 1, 1)), on_progress=lambda *done: told.append(done))
    assert told[-1] == (7, 7, 2)


def test_progress_is_told_within_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "TOLD_EVERY_S", 0)
    told: list[int] = []
    loop = ("MOV R0, RZ", "IADD3 R0, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R0, 0x5, PT", "@P0 BRA 0x10", "EXIT")
    launch = Launch(grid=(7, 1, 1), block=(32, 1, 1))
    emulate(code(*loop), launch, plain=True, on_progress=lambda covered, _, issued: told.append(issued))
    assert len(set(told)) >= 5
    assert told == sorted(told)


def test_a_generic_address_of_a_local_variable() -> None:
    """The driver fills in what is added to it; what is stored there is loaded as local memory."""
    lines = (
        "LDC R1, c[0x0][0x28]",
        "ULDC.64 UR4, c[0x0][0x20]",
        "IADD3 R1, R1, -0x8, RZ",
        "IADD3 R2, P0, R1, UR4, RZ",
        "IADD3.X R3, RZ, UR5, RZ, P0, !PT",
        "MOV R4, 0x40",
        "ST.E desc[UR6][R2.64+0x4], R4",
        "LDL R5, [R1+0x4]",
        "STS [R5], R4",
        "EXIT",
    )
    code = Code(
        name="test", instructions=tuple(Sass(16 * row, line) for row, line in enumerate(lines)), shared_bytes=0x400
    )
    row = emulate(code, Launch(grid=(1, 1, 1), block=(32, 1, 1))).rows[8]
    assert (row.executed, row.wavefronts) == (1, 1)
