"""Threads of a warp that diverge and reconverge, written in SASS and counted by hand; and programs that are wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.emulate import requests
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.faults import Broken, Circling, Endless, MemoryFault, Stuck, Unsupported
from ncu_swizzle.emulate.operands import COMPILERS, Compute
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.emulate.values import Value
from tests.support.programs import ONE_WARP, POINTER, code, programs

THREAD = "S2R R0, SR_TID.X"
TWO_WARPS = Launch(grid=(1, 1, 1), block=(64, 1, 1))
ACCESS = "STS [RZ], RZ"  # a kernel that cannot access shared memory is not refused: its counts are zero


def test_programs_count_what_was_counted_by_hand() -> None:
    assert [difference for program in programs("threads") for difference in program.differences()] == []


# Copies of lanes below `first`, for which P0 and P1 are false: wavefronts, which are the ideal.
COPIES = [
    ("LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64], !P1", "0x20", 4),
    ("LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64], !P1", "0x9", 6),  # 2 for what is read, 4 for zeros
    ("LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64], !P0", "0x9", 4),  # ncu does not read P0,
    ("LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64], P0", "0x9", 4),  # but takes it for false: nothing but zeros
    ("LDGSTS.E.BYPASS.128.ZFILL [R1+0x400], desc[UR6][R4.64+0xf]", "0x20", 8),  # one byte of each chunk
    ("LDGSTS.E.128 [R1+0x400], desc[UR6][R4.64], !P0", "0x9", 4),
    ("@!P1 LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64]", "0x9", 2),
    ("@P0 LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64]", "0x9", 0),
    ("@!P0 LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64]", "0x9", 4),
    ("@P0 LDGSTS.E.BYPASS.128 [R1+0x400], desc[UR6][R4.64], !P1", "0x9", None),
]


def test_copies_that_write_zeros_or_are_guarded() -> None:
    for copy, first, wavefronts in COPIES:
        lines = (
            *(THREAD, f"ISETP.GE.AND P0, PT, R0, {first}, PT", f"ISETP.GE.AND P1, PT, R0, {first}, PT"),
            *("IMAD.SHL.U32 R1, R0, 0x10, RZ", "LDC.64 R4, c[0x0][0x210]", "IMAD.WIDE.U32 R4, R0, 0x10, R4"),
        )
        counts = emulate(code(*lines, copy, "EXIT"), replace(ONE_WARP, parameters=POINTER))
        row = counts.rows[6]
        assert (row.executed, row.wavefronts, row.ideal) == (1, wavefronts, wavefronts), copy
        assert bool(row.reason) == (wavefronts is None), copy
        without_p0 = any("does not read P0" in note for note in counts.notes)
        assert without_p0 == (copy.startswith(("@P0", "@!P0")) or copy.endswith(", P0")), copy


def spin_loop(label: str, load: str = "LDS R2, [R1+0x400]") -> list[str]:
    """Return an atomic operation on a float, as the compiler writes it: compare and swap until nobody was faster."""
    return [
        f"BSSY B0, {{{label}_end}}",
        f"{label}: {load}",
        "FADD R3, R2, 1.5",
        "ATOMS.CAST.SPIN R3, [R1+0x400], R2, R3",
        "ISETP.EQ.U32.AND P0, PT, R3, 0x1, PT",
        f"@!P0 BRA {{{label}}}",
        "BSYNC B0",
        f"{label}_end: NOP",
    ]


@pytest.mark.parametrize(("stride", "rounds", "loads"), [(4, 1, 1), (8, 2, 3), (128, 32, 32 * 33 // 2), (132, 1, 1)])
def test_in_a_compare_and_swap_loop_one_lane_per_bank_swaps_each_time(stride: int, rounds: int, loads: int) -> None:
    lines = [THREAD, f"IMAD R1, R0, {stride:#x}, RZ", *spin_loop("loop"), "EXIT"]
    counts = emulate(code(*lines), Launch(grid=(3, 1, 1), block=(64, 1, 1)))
    load, swap = counts.rows[3], counts.rows[5]
    assert (load.executed, load.wavefronts) == (6 * rounds, 6 * loads)
    assert (swap.executed, swap.wavefronts, swap.ideal) == (6 * rounds, 12 * rounds, 12 * rounds)
    assert not counts.unknown


def test_lanes_that_swap_the_same_word_need_a_barrier_between_them() -> None:
    address = ("LOP3.LUT R1, R0, 0x1f, RZ, 0xc0, !PT", "IMAD.SHL.U32 R1, R1, 0x4, RZ")
    first = ("ISETP.GE.AND P1, PT, R0, 0x20, PT", "@P1 BRA {meet}", *spin_loop("first"))
    second = ("@!P1 BRA {end}", *spin_loop("second"), "end: EXIT")

    def swaps(between: str) -> list[tuple[int | None, int | None, str]]:
        counts = emulate(code(THREAD, *address, *first, f"meet: {between}", *second), TWO_WARPS)
        return [(row.executed, row.wavefronts, row.reason) for row in counts.rows if row.opcode.startswith("ATOMS")]

    assert swaps("BAR.SYNC.DEFER_BLOCKING 0x0") == [(1, 2, "")] * 2
    for executed, _, reason in swaps("NOP"):
        assert executed is None
        assert "what an atomic operation returns" in reason


def test_what_is_swapped_was_loaded_just_before_by_the_lane_alone() -> None:
    def executed(address: str, load: str = "LDS R2, [R1+0x400]") -> int | None:
        return emulate(code(THREAD, address, *spin_loop("loop", load), "EXIT"), ONE_WARP).rows[5].executed

    assert executed("IMAD.SHL.U32 R1, R0, 0x4, RZ") == 1
    assert executed("IMAD.SHL.U32 R1, R0, 0x4, RZ", "LDS R2, [R1+0x404]") is None
    assert executed("LOP3.LUT R1, R0, 0x3c, RZ, 0xc0, !PT") is None, "several lanes share a word"


def test_an_instruction_that_is_not_emulated_is_named() -> None:
    counts = emulate(code(THREAD, "FOO.BAR R1, R0", "STS [R1+0x400], R0", "EXIT"), ONE_WARP)
    assert counts.rows[2].wavefronts is None
    assert "FOO.BAR R1, R0 at 0x10 (is not emulated)" in counts.rows[2].reason
    assert counts.notes == ("FOO.BAR is not emulated; its result is unknown: FOO.BAR R1, R0 at 0x10",)


# ---------------------------------------------------------------------------------------------- wrong programs


@pytest.mark.parametrize(
    ("lines", "launch", "fault", "message"),
    [
        pytest.param(("JMXU UR4", "EXIT", ACCESS), ONE_WARP, Unsupported, r"'JMXU UR4' at 0x0", id="unknown jump"),
        pytest.param(
            (THREAD, "IMAD.SHL.U32 R1, R0, 0x4, RZ", "LDS.64 R2, [R1+0x400]", "EXIT"),
            ONE_WARP, MemoryFault, r"0x404 is not a multiple of 8, thread \(1, 0, 0\)", id="not aligned",
        ),
        pytest.param(
            (THREAD, "ISETP.GE.AND P0, PT, R0, 0x8, PT", "MOV R3, 0xffffffff", "BSSY B0, {end}", "@P0 BRA {end}",
             "WARPSYNC R3", "end: BSYNC B0", ACCESS, "EXIT"),
            ONE_WARP, Stuck, "waits for threads of its warp that never arrive", id="lanes that never come",
        ),
        pytest.param(
            (THREAD, "ISETP.GE.AND P0, PT, R0, 0x20, PT", "@P0 BRA {second}", "BAR.SYNC 0x1", "EXIT",
             "second: BAR.SYNC 0x2", "EXIT", ACCESS),
            TWO_WARPS, Stuck, "not all threads of the block reach this barrier", id="two barriers",
        ),
        pytest.param(
            ("start: NOP", "BRA {start}", "EXIT", ACCESS),
            ONE_WARP, Circling, r"endless loop at 'BRA 0x0' \(0x10\)", id="circle",
        ),
        pytest.param(
            ("start: S2R R0, SR_TID.X", "BSSY B0, {meet}", "meet: BSYNC B0", "ISETP.GE.AND P0, PT, R0, RZ, PT",
             "@P0 BRA {start}", "EXIT", ACCESS),
            ONE_WARP, Circling, r"endless loop at '@P0 BRA 0x0' \(0x40\)", id="circle with a barrier",
        ),
        pytest.param(
            ("MOV R1, RZ", "again: IMAD R1, R1, 0x5, 0x1", "ISETP.EQ.AND P0, PT, R1, RZ, PT", "@!P0 BRA {again}",
             ACCESS),
            ONE_WARP, Endless, r"still running after 0\.2 s", id="endless",
        ),
        pytest.param(("EXIT",), replace(ONE_WARP, grid=(0, 1, 1)), UsageError, "a grid of", id="no block"),
        pytest.param(("EXIT",), replace(ONE_WARP, block=(32, 64, 1)), UsageError, "2048 threads", id="threads"),
        pytest.param(
            ("EXIT",), replace(ONE_WARP, shared_dynamic=1 << 20), UsageError, "dynamic shared memory", id="shared"
        ),
    ],
)  # fmt: skip
def test_a_program_or_launch_that_is_wrong_is_refused(
    lines: tuple[str, ...], launch: Launch, fault: type[Exception], message: str
) -> None:
    with pytest.raises(fault, match=message):
        emulate(code(*lines, shared_bytes=0x1400), launch, timeout_s=0.2 if fault is Endless else 600)


def test_parameters_have_to_fit() -> None:
    with pytest.raises(UsageError, match="8 bytes of parameters, but test takes 12"):
        emulate(replace(code("EXIT"), parameter_bytes=12), replace(ONE_WARP, parameters=bytes(8)))


def test_an_address_outside_of_shared_memory_is_the_programs_fault() -> None:
    lines = (THREAD, "IMAD.SHL.U32 R1, R0, 0x4, RZ", "STS [R1+0x400], R0", "EXIT")
    launch = Launch(grid=(3, 1, 1), block=(64, 2, 1))
    assert emulate(code(*lines, shared_bytes=0x500), launch).rows[2].wavefronts == 12
    assert emulate(code(*lines, shared_bytes=0x480), replace(launch, shared_dynamic=0x80)).rows[2].wavefronts == 12
    with pytest.raises(MemoryFault, match=r"shared address 0x480 .* thread \(32, 0, 0\) of block \(0, 0, 0\)") as fault:
        emulate(code(*lines, shared_bytes=0x480), launch)
    assert (fault.value.offset, fault.value.thread) == (0x20, (32, 0, 0))


# ---------------------------------------------------------------------------------------------- a broken emulator


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


def test_progress_is_told_by_block_and_within_one(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = Launch(grid=(7, 1, 1), block=(64, 1, 1))
    told: list[tuple[int, int, int]] = []
    emulate(code("EXIT"), launch, on_progress=lambda *done: told.append(done))
    assert told[-1] == (7, 7, 2)
    monkeypatch.setattr(requests, "TOLD_EVERY_S", 0)
    told.clear()
    loop = ("MOV R0, RZ", "IADD3 R0, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R0, 0x5, PT", "@P0 BRA 0x10", "EXIT")
    emulate(code(*loop), launch, plain=True, on_progress=lambda *done: told.append(done))
    issued = [done[2] for done in told]
    assert len(set(issued)) >= 5
    assert issued == sorted(issued)
