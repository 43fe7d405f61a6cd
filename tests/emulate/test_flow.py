"""Where control goes: traps that no thread of a launch that succeeds reaches, and calls by address."""

from __future__ import annotations

from ncu_swizzle.emulate.code import STEP, Sass, parse_instruction
from ncu_swizzle.emulate.effects import MODELLED
from ncu_swizzle.emulate.flow import Flow


def flow(*lines: str) -> Flow:
    return Flow([parse_instruction(Sass(STEP * number, line)) for number, line in enumerate(lines)])


def test_what_only_leads_into_a_trap_is_fatal() -> None:
    found = flow("@P0 BRA 0x40", "MOV R0, R1", "@P1 BRA 0x30", "BPT.TRAP 0x1", "EXIT", "@P0 BPT.TRAP 0x1", "EXIT")
    assert found.fatal == {1, 2, 3}


def test_a_call_by_address_may_go_to_any_function_and_comes_back() -> None:
    by_address = "CALL.REL.NOINC R10 0x0"  # the address counts from 0x0, which is not where it goes
    found = flow("MOV R20, 0x30", "NOP", by_address, "EXIT", "STS [R2], R3", "RET.REL.NODEC R20 0x0")
    assert found.targets(2) == ()
    assert set(found.successors(2)) == {0, 3, 4}
    assert 4 in found.region(2, 3) or 4 in found.region(1, 3)


def test_without_a_function_a_call_by_address_leaves_the_code_and_comes_back() -> None:
    assert flow("CALL.ABS.NOINC R10", "EXIT").successors(0) == (1,)


def test_moving_a_matrix_between_lanes_does_not_access_shared_memory() -> None:
    assert "MOVM" in MODELLED
