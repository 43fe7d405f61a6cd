"""Whatever changes while blocks run is in their state, which can be copied, compared and gone back to."""

import copy
from dataclasses import fields
from typing import Any

import numpy as np

from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.schedule import Schedule
from ncu_swizzle.emulate.state import AtBarrier, AtPhaseCheck, Group, State, Unknown
from ncu_swizzle.emulate.values import Value, constant
from tests.support.emulation import machine
from tests.support.programs import code

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
    _ = m.extents, m.coarsest, m.clusters.size, m.clusters.ranks  # computed once, and kept
    state = {field.name for field in fields(State)}
    before = {name: copy.deepcopy(value) for name, value in vars(m).items() if name not in state | EXECUTION}
    Schedule(program=program, machine=m, clock=Clock()).run()
    after = {name: value for name, value in vars(m).items() if name not in state | EXECUTION}
    assert repr(after) == repr(before)
