"""The state of blocks, which can be copied, compared and gone back to; threads that diverge, counted by hand."""

import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.emulate import requests
from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import COMPILERS, Compute
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.emulate.schedule import Schedule
from ncu_swizzle.emulate.state import AtBarrier, AtPhaseCheck, Group, State, Unknown
from ncu_swizzle.emulate.values import Value, constant
from tests.support.emulation import machine
from tests.support.programs import ONE_WARP, code, programs

# What is set anew before each instruction; requests, which are taken back one by one.
EXECUTION = {"now", "view", "log"}
PROGRAM = code(
    *("S2R R0, SR_TID.X", "STL [R1], R0", "BSSY B0, {meet}", "ISETP.LT.AND P0, PT, R0, 0x10, PT", "@P0 BRA {meet}"),
    *("STS [R0*0x4], R0", "meet: BSYNC B0", "BAR.SYNC 0x0", "MOV R2, RZ", "next: IADD3 R2, R2, 0x4, RZ"),
    *("LDS R3, [R2]", "ISETP.LT.AND P0, PT, R2, 0x64, PT", "@P0 BRA {next}", "EXIT"),
)


def two_blocks() -> Machine:
    memory = {0x1000: bytes(64)}
    constants = {0: bytes(0x400)}
    m = machine([[0, 0, 0], [1, 0, 0]], (2, 1, 1), (64, 1, 1), constants=constants, memory=memory, shared_size=0x1000)
    m.keep_contents()
    return m


def changed(thing: Any) -> Any:
    """Return something else of the same kind."""
    if isinstance(thing, np.ndarray):
        return ~thing if thing.dtype == bool else thing + 1
    if isinstance(thing, list | dict):
        return type(thing)()
    return Value(np.ones((1, 1), np.uint32)) if thing is None else not thing if isinstance(thing, bool) else 7


def filled() -> Machine:
    """Return a machine with something in every list and table."""
    m = two_blocks()
    group = Group(3, np.array([0]), np.ones((1, 32), bool))
    m.local_word(4)
    m.mbarriers.initialise(16, np.array([0]), np.array([2]))
    m.overwritten[0x1000] = np.zeros(64, bool)
    m.registers[2], m.shared_tags[8], m.arrivals[0, 1], m.collective[1] = constant(1), [None, None], 32, 5
    m.ready, m.resting, m.at_cluster = [group], [group], [group]
    m.at_barrier = [AtBarrier(group=group, barrier=0, count=0)]
    none = np.zeros(1, np.int64)
    m.at_phase = [AtPhaseCheck(group=group, selected=group.mask, offset=none, parity=none, result=None)]
    m.claims = (np.zeros((2, 4), np.int64), np.zeros((2, 4), np.int64))
    m.unknown[1] = m.missed[2] = Unknown("its address", None)
    m.wgmma[3] = np.zeros(2, np.int64), 8
    m.starved.append((0, 16, 4))
    m.shared_written = True
    return m


def test_every_field_is_restored() -> None:
    m = filled()
    for field in fields(State):
        saved = m.copy()
        assert m == saved
        setattr(m, field.name, changed(getattr(m, field.name)))
        if field.compare:
            assert m != saved, field.name
        m.restore(saved)
        assert getattr(m, field.name) is getattr(saved, field.name)
        assert m == m.copy()


def test_what_a_copy_holds_does_not_change_with_the_machine() -> None:
    m = filled()
    saved = m.copy()
    m.local[4].write(np.array([0]), np.ones((1, 32), bool), np.zeros((1, 32), np.uint32), constant(9), 4)
    assert m != saved
    m.restore(saved)
    saved = m.copy()
    m.mbarriers.update(16, np.array([0]), np.array([1]), np.array([0]))
    assert m != saved
    m.restore(saved)
    for name in ("shared_known", "claims", "overwritten", "arrived"):
        saved, held = m.copy(), getattr(m, name)
        array = held[0] if isinstance(held, tuple) else held[0x1000] if isinstance(held, dict) else held
        array.flat[0] = True
        assert m != saved
        m.restore(saved)


def test_bytes_that_are_not_known_do_not_matter_and_convergence_barriers_are_compared_by_where_they_lead() -> None:
    m = filled()
    saved = m.copy()
    m.shared.flat[0] = 1
    assert m == saved
    m.targets += [5, 6, 5]
    m.tokens[0, 0] = 1
    saved = m.copy()
    m.tokens[0, 0] = 3
    assert m == saved
    assert m.digest() == saved.digest()
    m.tokens[0, 0] = 2
    assert m != saved
    assert m.digest() != saved.digest()


def test_the_order_of_groups_does_not_matter() -> None:
    m = two_blocks()
    first, second = (Group(pc, np.array([0]), np.ones((1, 32), bool)) for pc in (3, 4))
    m.ready = [first, second]
    saved = m.copy()
    m.ready = [second, Group(3, np.array([0]), np.ones((1, 32), bool))]
    assert m == saved
    assert m.digest() == saved.digest()


def test_nothing_else_changes_during_a_run() -> None:
    program = prepare(PROGRAM)
    m = two_blocks()
    m.log, m.guards = RequestLog(m, program.instructions), program.guards
    _ = m.extents, m.coarsest_stride, m.clusters.size, m.clusters.ranks  # computed once, and kept
    state = {field.name for field in fields(State)}
    before = {name: copy.deepcopy(value) for name, value in vars(m).items() if name not in state | EXECUTION}
    Schedule(program=program, machine=m, clock=Clock()).run()
    after = {name: value for name, value in vars(m).items() if name not in state | EXECUTION}
    assert repr(after) == repr(before)


THREAD = "S2R R0, SR_TID.X"
TWO_WARPS = Launch(grid=(1, 1, 1), block=(64, 1, 1))


@pytest.mark.long
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
    assert told[-1][:2] == (7, 7)
    assert told[-1][2] >= 2
    monkeypatch.setattr(requests, "TOLD_EVERY_S", 0)
    told.clear()
    loop = ("MOV R0, RZ", "IADD3 R0, R0, 0x1, RZ", "ISETP.LT.AND P0, PT, R0, 0x5, PT", "@P0 BRA 0x10", "EXIT")
    emulate(code(*loop), launch, plain=True, on_progress=lambda *done: told.append(done))
    issued = [done[2] for done in told]
    assert len(set(issued)) >= 5
    assert issued == sorted(issued)
