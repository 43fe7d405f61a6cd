"""Threads of a warp that diverge and reconverge, written in SASS and counted by hand; and wrong programs."""

from dataclasses import replace

import numpy as np
import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.emulate import requests
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.operands import COMPILERS, Compute
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.emulate.values import Value
from tests.support.programs import ONE_WARP, code, programs

THREAD = "S2R R0, SR_TID.X"
TWO_WARPS = Launch(grid=(1, 1, 1), block=(64, 1, 1))


def test_programs_count_what_was_counted_by_hand() -> None:
    assert [difference for program in programs("threads") for difference in program.differences()] == []


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


def test_parameters_have_to_fit() -> None:
    with pytest.raises(UsageError, match="8 bytes of parameters, but test takes 12"):
        emulate(replace(code("EXIT"), parameter_bytes=12), replace(ONE_WARP, parameters=bytes(8)))


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
