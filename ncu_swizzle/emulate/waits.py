"""Threads that wait for an mbarrier or for their cluster: held until what they wait for has happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW
from ncu_swizzle.emulate.code import MEMORY, SassInstruction
from ncu_swizzle.emulate.effects import operand_number
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.values import Bits, Value, known_in, truth, unknown
from ncu_swizzle.smem.operations import Bools, Ints

# Groups of threads at the same instruction, and the votes of those that wait at a block barrier.


@dataclass
class Group:
    """Threads at the same instruction: at most one diverged part of each warp."""

    pc: int  # the index of their instruction
    warps: Ints
    mask: Bools


@dataclass(eq=False)
class Waiting:
    """Threads that wait at a block barrier."""

    group: Group
    barrier: int
    count: int  # of threads that it waits for; 0 for the whole block
    vote: Value | None = None
    mode: str = ""


def rows(value: Value, chosen: Bools) -> Value:
    """Return a value of some of the warps."""
    known = value.known if isinstance(value.known, bool) else value.known[chosen]
    return Value(value.bits[chosen], known, value.origin, value.tag)


def remember_vote(m: Machine, voted: Value) -> None:
    """Keep the result of BAR.RED for the view's warps until B2R reads it."""
    old = m.voted or Value(np.zeros((m.warps, 1), np.uint32), False, m.now)
    bits = np.broadcast_to(old.bits, (m.warps, 1)).copy()
    known = np.broadcast_to(np.asarray(old.known), (m.warps, 1)).copy()
    bits[m.view.warps], known[m.view.warps] = voted.bits, voted.known
    tag = voted.tag if voted.tag is not None else old.tag
    m.voted = Value(bits, True if known.all() else known, voted.origin, tag)


def vote(mine: list[Waiting], m: Machine, block: int) -> Value | None:
    """Return the vote of the threads of a block, (1, 1)."""
    votes = [waiting for waiting in mine if waiting.vote is not None]
    if not votes:
        return None
    yes = count = 0
    unsure = False
    origin, tag = None, None
    for waiting in votes:
        value = waiting.vote
        assert value is not None
        inside = m.block_of[waiting.group.warps] == block
        mask = waiting.group.mask[inside]
        bits = np.broadcast_to(value.bits, waiting.group.mask.shape)[inside]
        known = np.broadcast_to(np.asarray(value.known), waiting.group.mask.shape)[inside]
        yes += int((bits & mask).sum())
        count += int(mask.sum())
        if (mask & ~known).any():
            unsure, origin = True, value.origin
        tag = tag or value.tag
    outcome = {"OR": int(yes > 0), "AND": int(yes == count), "POPC": yes}[votes[0].mode]
    return Value(np.array([[outcome]], np.uint32), not unsure, origin, tag)


PARITY_BIT = np.uint32(31)  # of the operand of a wait


@dataclass(kw_only=True)
class Held:
    """Warps at a check of an mbarrier's phase: `selected` lanes execute it."""

    group: Group
    selected: Bools
    offset: Ints  # of each warp's barrier
    parity: Ints
    result: int | None  # the predicate's register


@dataclass(kw_only=True)
class Waits:
    """All threads that wait so, and in `released` those that go on."""

    machine: Machine
    after: Callable[[int], int]  # the next instruction
    states: Callable[[int], bool]  # whether an instruction returns the state of an mbarrier
    released: list[Group] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    at_cluster: list[Group] = field(default_factory=list)
    arrived: Ints = field(init=False)  # arrivals of each warp at its cluster's barrier
    given_up: int = -1  # the version of the barriers when all waits last timed out

    def __post_init__(self) -> None:
        self.arrived = np.zeros(self.machine.warps, np.int64)

    @property
    def state(self) -> tuple[object, ...]:
        """What decides who continues, besides the machine."""
        return self.released, self.held, self.at_cluster, self.arrived, self.given_up

    def _continue(self, pc: int, warps: Ints, mask: Bools) -> None:
        self.released.append(Group(pc, warps, mask))

    # -------------------------------------------------------------------------------------------- mbarriers

    def check(self, group: Group, pc: int, instruction: SassInstruction) -> None:
        """Execute SYNCS.PHASECHK: continue the warps whose phase is complete and hold the others."""
        m = self.machine
        guard = operands.guard_operands(instruction.guard)
        selected, doubtful = m.selection(guard(m) if guard else None)
        result = operand_number(instruction.operands[0])
        asked = None if doubtful.any() else self._asked(instruction, selected)
        if asked is None:  # whether it waits, or for what, is unknown: nothing more is known of the order
            ended = truth(True) if self._same_in_all_lanes(instruction) else unknown(pc, bool)
            m.put(result, ended, None if guard is None else guard(m))
            m.unordered = pc if m.unordered is None else m.unordered
            self._continue(self.after(pc), group.warps, group.mask)
            return
        executes = selected.any(axis=1)
        self._continue(self.after(pc), group.warps[~executes], group.mask[~executes])
        warps = Group(pc, group.warps[executes], group.mask[executes])
        offset, parity = (part[executes] for part in asked)
        self.held.append(Held(group=warps, selected=selected[executes], offset=offset, parity=parity, result=result))
        self.release()

    def _asked(self, instruction: SassInstruction, selected: Bools) -> tuple[Ints, Ints] | None:
        """Return the barrier and the parity that each warp waits for; None if unknown or different between its lanes.

        The operand is a parity, or the state that an arrival returned, of which the phase is known.
        """
        memory = next(operand for operand in instruction.operands if operand.kind == MEMORY)
        address = operands.address(memory)(self.machine)
        state = operands.raw(instruction.operands[-1])(self.machine)
        given = known_in(state, selected) or (state.origin is not None and self.states(state.origin))
        if not known_in(address, selected) or not given:
            return None
        offset, parity = _common(address.bits & WINDOW, selected), _common(state.bits >> PARITY_BIT, selected)
        return None if offset is None or parity is None else (offset, parity)

    def _same_in_all_lanes(self, instruction: SassInstruction) -> bool:
        """Say whether all lanes of a warp certainly wait for the same: then they leave the wait together."""
        memory = next(operand for operand in instruction.operands if operand.kind == MEMORY)
        asked = operands.address(memory)(self.machine), operands.raw(instruction.operands[-1])(self.machine)
        return all(value.bits.shape[1] == 1 for value in asked)

    def release(self) -> bool:
        """Continue all warps whose phase is complete; say whether there are any."""
        waiting, self.held = self.held, []
        released = False
        for one in waiting:
            passed = np.zeros(len(one.offset), bool)
            blocks = self.machine.block_of[one.group.warps]
            for offset in np.unique(one.offset).tolist():
                here = one.offset == offset
                passed[here] = self.machine.mbarriers.passed(offset, blocks[here], one.parity[here])
            released |= bool(passed.any())
            self._answer(_part(one, passed), True)
            if not passed.all():
                self.held.append(_part(one, ~passed))
        return released

    def _answer(self, one: Held, complete: bool) -> None:
        if not len(one.group.warps):
            return
        m = self.machine
        m.see(one.group.warps, one.group.mask)
        m.put(one.result, truth(complete), Value(one.selected))
        self._continue(self.after(one.group.pc), one.group.warps, one.group.mask)

    def time_out(self) -> None:
        """Nothing else can run: let copies of unknown size arrive, else let all waits fail once, else let them pass.

        What lets them pass is not modelled; the contents of shared memory are unknown from then on.
        """
        barriers = self.machine.mbarriers
        barriers.settle()
        if self.release() or not self.held:
            return
        waiting, self.held = self.held, []
        passes = self.given_up == barriers.version
        self.given_up = barriers.version
        if passes:
            self.machine.unordered = waiting[0].group.pc
            self._starve(waiting)
        for one in waiting:
            self._answer(one, passes)

    def _starve(self, waiting: list[Held]) -> None:
        """Record the waits that nothing but missing bytes keeps from passing."""
        m = self.machine
        for one in waiting:
            for warp, offset in zip(one.group.warps.tolist(), one.offset.tolist(), strict=True):
                block = int(m.block_of[warp])
                if lacking := m.mbarriers.lacking(offset, block):
                    m.starved.append((block, offset, lacking))

    # -------------------------------------------------------------------------------------------- clusters

    def arrive(self, group: Group, pc: int) -> None:
        """Execute UCGABAR_ARV."""
        self.arrived[group.warps] += 1
        self._continue(self.after(pc), group.warps, group.mask)

    def wait(self, group: Group, pc: int) -> None:
        """Execute UCGABAR_WAIT."""
        self.at_cluster.append(Group(pc, group.warps, group.mask))

    def release_clusters(self) -> None:
        """Continue the warps whose cluster has arrived as often as they have."""
        if not self.at_cluster:
            return
        m = self.machine
        fewest = np.full(len(m.blocks), np.iinfo(np.int64).max)
        live = m.live.any(axis=1)
        np.minimum.at(fewest, m.clusters.base(m.block_of[live]), self.arrived[live])
        waiting, self.at_cluster = self.at_cluster, []
        for group in waiting:
            there = fewest[m.clusters.base(m.block_of[group.warps])] >= self.arrived[group.warps]
            self._continue(self.after(group.pc), group.warps[there], group.mask[there])
            if not there.all():
                self.at_cluster.append(Group(group.pc, group.warps[~there], group.mask[~there]))


def _common(bits: Bits, selected: Bools) -> Ints | None:
    """Return the value that all selected lanes of each warp have; None if they differ."""
    lanes = np.broadcast_to(bits, selected.shape).astype(np.int64)
    highest: Ints = np.where(selected, lanes, 0).max(axis=1)
    return highest if bool(((lanes == highest[:, None]) | ~selected).all()) else None


def _part(one: Held, chosen: Bools) -> Held:
    group = Group(one.group.pc, one.group.warps[chosen], one.group.mask[chosen])
    return Held(
        group=group,
        selected=one.selected[chosen],
        offset=one.offset[chosen],
        parity=one.parity[chosen],
        result=one.result,
    )
