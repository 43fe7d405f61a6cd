"""Where threads wait for each other: convergence barriers and WARPSYNC, BAR, mbarriers, barriers of a cluster.

Waiting threads are in the machine's `State`, and move to `ready` once what they wait for has happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW
from ncu_swizzle.emulate.code import MEMORY, SassInstruction
from ncu_swizzle.emulate.deadlocks import Deadlocks
from ncu_swizzle.emulate.effects import operand_number
from ncu_swizzle.emulate.events import Kind
from ncu_swizzle.emulate.faults import Stuck, Unsupported
from ncu_swizzle.emulate.flow import EXIT
from ncu_swizzle.emulate.machine import ALL_MASK, LANE_BITS, Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.state import AtBarrier, AtPhaseCheck, Group
from ncu_swizzle.emulate.values import Bits, Value, known_in, truth, unknown
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.operations import Bools, Ints

PARITY_BIT = np.uint32(31)  # of the operand of a wait for an mbarrier


@dataclass(kw_only=True)
class Waits:
    """The threads that run a program on a machine."""

    program: PreparedCode
    machine: Machine

    def add(self, pc: int, warps: Ints, mask: Bools) -> None:
        """Continue the threads of the mask, (G, 32), if any, at an instruction; at EXIT, end them."""
        used = mask.any(axis=1)
        if not used.any():
            return
        if not used.all():
            warps, mask = warps[used], mask[used]
        if pc == EXIT:
            self.machine.live[warps] &= ~mask
            return
        self.machine.ready.append(Group(pc, warps, mask))

    def after(self, pc: int) -> int:
        """Return the next instruction."""
        return self.program.flow.following(pc)

    def enter(self, group: Group) -> None:
        self.machine.see(group.warps, group.mask)

    # ------------------------------------------------------------------------------------------ convergence barriers

    def reconverge(self, warps: Ints, mask: Bools, barrier: int, pc: int) -> None:
        """Let threads wait at a convergence barrier, and continue those whose barrier is complete."""
        m = self.machine
        tokens = m.tokens[barrier][warps]
        # The token of the first of these lanes says which execution of BSSY all of them joined, and so whom they wait
        # for.
        mine = np.take_along_axis(tokens, mask.argmax(axis=1)[:, None], axis=1)
        expected = (tokens == mine) & m.live[warps] & (mine != 0)
        m.arrived[barrier][warps] |= mask
        there = m.arrived[barrier][warps] & ((tokens == mine) | mask)
        complete = ~(expected & ~there).any(axis=1)
        m.waits_at[warps] = np.where(mask, pc, m.waits_at[warps])
        if complete.any():
            done, lanes = warps[complete], there[complete]
            self._clear(barrier, done, lanes)
            tokens = mine[complete, 0]
            if bool((tokens == tokens[0]).all()):  # mostly
                self.add(self._target(int(tokens[0]), self.after(pc)), done, lanes)
                return
            onward = np.array([self._target(int(token), self.after(pc)) for token in tokens])
            for target in np.unique(onward):
                self.add(int(target), done[onward == target], lanes[onward == target])

    def _target(self, token: int, otherwise: int) -> int:
        """Return where the threads of an execution of BSSY reconverge; token 0 means none."""
        return self.machine.targets[token] if 0 < token < len(self.machine.targets) else otherwise

    def _clear(self, barrier: int, warps: Ints, lanes: Bools) -> None:
        m = self.machine
        m.arrived[barrier][warps] &= ~lanes
        m.tokens[barrier][warps] = np.where(lanes, 0, m.tokens[barrier][warps])

    def awaited_by_others(self, group: Group) -> set[int]:
        """Return where other threads of the group's warps wait, or will wait, to reconverge with it."""
        m = self.machine
        others = m.live[group.warps] & ~group.mask
        split = others.any(axis=1)
        targets: set[int] = set()
        for tokens in m.tokens if split.any() else ():
            mine, theirs = tokens[group.warps] * group.mask, tokens[group.warps] * others
            for row in np.flatnonzero(split & mine.any(axis=1) & theirs.any(axis=1)):
                shared = np.intersect1d(mine[row], theirs[row])
                targets.update(self._target(int(token), EXIT) for token in shared if token)
        return targets

    def recheck_convergence(self) -> None:
        """Check all convergence barriers and WARPSYNCs again: threads that they wait for may have exited or left."""
        m = self.machine
        for barrier in np.flatnonzero(m.arrived.any(axis=(1, 2))):
            for warp in np.flatnonzero(m.arrived[barrier].any(axis=1)):
                tokens = m.tokens[barrier][warp]
                for token in np.unique(tokens[m.arrived[barrier][warp]]):
                    there = m.arrived[barrier][warp] & (tokens == token)
                    if not ((tokens == token) & m.live[warp] & ~there).any():
                        after = self.after(int(m.waits_at[warp][there][0]))
                        self._clear(int(barrier), np.array([warp]), there[None])
                        self.add(self._target(int(token), after), np.array([warp]), there[None])
        for warp in np.flatnonzero(m.synced.any(axis=1)):
            self._leave_warpsync(int(warp))

    def sync_warp(self, group: Group, pc: int, masks: Bits) -> None:
        """Let threads wait for those of their warp in their masks, (G, 32)."""
        m, warps = self.machine, group.warps
        alone = ~m.synced[warps].any(axis=1)
        m.synced[warps] |= group.mask
        m.wanted[warps] = np.where(group.mask, masks, m.wanted[warps])
        m.waits_at[warps] = np.where(group.mask, pc, m.waits_at[warps])
        at_once = alone & (self._may_leave(warps) == group.mask).all(axis=1)
        if self.program.instructions[pc].has("EXCLUSIVE"):
            at_once[:] = False
        if at_once.any():
            self._after_sync(warps[at_once], group.mask[at_once], pc)
        for warp in warps[~at_once].tolist():
            self._leave_warpsync(warp)

    def _may_leave(self, warps: Ints) -> Bools:
        """Return the lanes, (G, 32), at a WARPSYNC for which no other of their mask is missing."""
        m = self.machine
        lacking = ~((m.synced[warps] | ~m.live[warps]) @ LANE_BITS)[:, None]
        complete: Bools = m.synced[warps] & (m.wanted[warps] & lacking == 0)
        return complete

    def _leave_warpsync(self, warp: int, anyway: bool = False) -> None:
        """Let the threads of a warp that may leave their WARPSYNCs do so, or all of them."""
        m, warps = self.machine, np.array([warp])
        lanes = m.synced[warps] if anyway else self._may_leave(warps)
        for pc in np.unique(m.waits_at[warps][lanes]).tolist():
            here, instruction = lanes & (m.waits_at[warps] == pc), self.program.instructions[pc]
            if not instruction.has("EXCLUSIVE"):
                self._after_sync(warps, here, pc)
                continue
            # One mask's threads after another's, until they wait again: they share uniform registers.
            masks = np.unique(m.wanted[warps][here])
            end = self.program.instructions[self.program.flow.last[self.after(pc)]]
            if len(masks) > 1 and end.opcode not in ("BSYNC", "WARPSYNC"):
                raise Unsupported(instruction.offset, instruction.text, "begins more than a basic block")
            for mask in masks:
                self._after_sync(warps, here & (m.wanted[warps] == mask), pc)

    def _after_sync(self, warps: Ints, lanes: Bools, pc: int) -> None:
        """Let lanes, (G, 32), continue from a WARPSYNC."""
        m = self.machine
        if m.notes:
            full = bool((m.wanted[warps][lanes] == ALL_MASK).all())
            m.note(Kind.WARP, warps, None if full else np.where(lanes, m.wanted[warps], 0), number=pc)
        m.synced[warps] &= ~lanes
        self.add(self.after(pc), warps, lanes)

    def go_on_collectively(self) -> None:
        """Let threads continue from a WARPSYNC.COLLECTIVE whose missing threads wait for them at a convergence barrier.

        ptxas writes it around a shuffle or vote in code that may diverge. A program that called one with a full mask in
        a branch that only some threads took ended on an H100; what it read from the others is unknown.
        """
        m = self.machine
        for warp in np.flatnonzero(m.synced.any(axis=1)):
            there = m.synced[warp]
            missing = (np.bitwise_or.reduce(m.wanted[warp][there]) & LANE_BITS != 0) & m.live[warp] & ~there
            instruction = self.program.instructions[int(m.waits_at[warp][there][0])]
            if instruction.has("COLLECTIVE") and not (missing & ~m.arrived[:, warp].any(axis=0)).any():
                self._leave_warpsync(int(warp), anyway=True)

    @cached_property
    def deadlocks(self) -> Deadlocks:
        """What the threads wait for."""
        return Deadlocks(program=self.program, machine=self.machine)

    def judge_meeting(self, group: Group, barrier: int, count: int) -> None:
        """Judge threads that arrive at a barrier of their block."""
        if self.machine.watcher:
            self.machine.watcher.meets(group.warps, group.pc, barrier)
        if self.machine.events is not None:
            self.deadlocks.meets(group, barrier, count)

    def check_stuck(self) -> None:
        """Raise Stuck if threads wait for others of their warp that will not come, or at a barrier of the block."""
        m = self.machine
        self.deadlocks.at_barrier()
        if m.at_barrier:
            instruction = self.program.instructions[m.at_barrier[0].group.pc]
            raise Stuck(instruction.offset, instruction.text, "not all threads of the block reach this barrier")
        waiting = m.synced | m.arrived.any(axis=0)
        if waiting.any():
            warp, lane = np.argwhere(waiting)[0]
            instruction = self.program.instructions[int(m.waits_at[warp, lane])]
            why = f"thread {int(m.thread[warp, lane])} waits for threads of its warp that never arrive"
            raise Stuck(instruction.offset, instruction.text, why)

    # ------------------------------------------------------------------------------------------ barriers of a block

    def release_barriers(self) -> None:
        """Release the threads whose barriers of the block (BAR) are complete."""
        m = self.machine
        for barrier in {waiting.barrier for waiting in m.at_barrier}:
            waiting_here = [waiting for waiting in m.at_barrier if waiting.barrier == barrier]
            complete = self._complete(waiting_here, barrier)
            if not complete.any():
                continue
            if any(waiting.vote is not None for waiting in waiting_here):  # each block has its own vote
                for block in np.flatnonzero(complete):
                    self._open(barrier, np.arange(len(complete)) == block)
            else:
                self._open(barrier, complete)

    def _complete(self, waiting_here: Sequence[AtBarrier], barrier: int) -> Bools:
        """Return the blocks, (B,), all of whose threads are at a barrier, given those that wait there."""
        m = self.machine
        blocks = len(m.blocks)
        there = np.zeros((m.warps, 32), bool)
        used, count = np.zeros(blocks, bool), np.zeros(blocks, np.int64)
        for waiting in waiting_here:
            here = m.block_of[waiting.group.warps]
            there[waiting.group.warps] |= waiting.group.mask
            used[here] = True
            count[here] = np.maximum(count[here], waiting.count)
        missing = (m.live & ~there).reshape(blocks, -1).any(axis=1)
        # A warp counts as 32 threads, whichever of its lanes arrive (PTX ISA, "bar").
        arrived = 32 * there.any(axis=1).reshape(blocks, -1).sum(axis=1)
        for (other, block), arriving in m.arrivals.items():
            arrived[block] += operations.WARP * len(arriving) if other == barrier else 0
        complete: Bools = used & np.where(count == 0, ~missing, arrived >= count)
        return complete

    def fitting(self, arriving: Group, barrier: int, count: int) -> Bools:
        """Return which of the warps that arrive at a named barrier, (G,), its current generation takes.

        It ends with the last of them, whichever wait; the threads of a generation that ended so continue first.
        """
        m = self.machine
        here, there = m.block_of[arriving.warps], [waiting for waiting in m.at_barrier if waiting.barrier == barrier]
        takes = max([count, *(waiting.count for waiting in there)]) // operations.WARP
        room = np.full(len(m.blocks), takes)
        for waiting in there:
            np.subtract.at(room, m.block_of[waiting.group.warps], 1)
        for (other, block), arrived in m.arrivals.items():
            room[block] -= len(arrived) if other == barrier else 0
        over = np.zeros(len(room), bool)
        over[here] = room[here] <= 0
        if over.any():
            self._open(barrier, over, arriving.pc, count)
            room[over] = takes
        rank = np.arange(len(here)) - np.searchsorted(here, here)  # of the warp among those of its block
        return np.asarray(rank < np.maximum(room[here], 1))

    def _open(self, barrier: int, blocks: Bools, pc: int = 0, count: int = 0) -> None:
        """Release the threads of some blocks, (B,), that wait at a barrier; `pc` and `count` if none waits there."""
        m = self.machine
        if m.watcher:
            m.watcher.opens(barrier, blocks)
        opened = [w for w in m.at_barrier if w.barrier == barrier and blocks[m.block_of[w.group.warps]].any()]
        chosen = np.flatnonzero(blocks).tolist()
        voted = _vote(opened, m, chosen[0]) if len(chosen) == 1 else None
        arrived: list[int] = []
        m.epochs[blocks] += not any(w.count for w in opened)
        for block in chosen if m.arrivals or m.meeting or m.claims else ():
            arrived += m.arrivals.pop((barrier, block), [])
            m.meeting.pop((barrier, block), None)
            if m.claims and not any(w.count and block in m.block_of[w.group.warps] for w in opened):
                m.claims[0][block] = 0
        if m.notes:
            through = [np.array(arrived, np.int64)]
            through += [w.group.warps[blocks[m.block_of[w.group.warps]]] for w in opened]
            # Diverged parts of a warp wait together.
            there = np.unique(np.concatenate([through[0][:0], *through[1:]]))
            members = np.concatenate([there, through[0]])
            order = np.argsort(members, kind="stable")
            count, pc = max([count, *(w.count for w in opened)]), opened[0].group.pc if opened else pc
            m.note(Kind.BARRIER, members[order], (barrier, count, order < len(there)), number=pc)
        for waiting in opened:
            inside = blocks[m.block_of[waiting.group.warps]]
            m.at_barrier.remove(waiting)
            if not inside.all():
                vote = None if waiting.vote is None else rows(waiting.vote, ~inside)
                rest = waiting.group.part(~inside)
                m.at_barrier.append(
                    AtBarrier(group=rest, barrier=barrier, count=waiting.count, vote=vote, mode=waiting.mode)
                )
            group = waiting.group.part(inside)
            if voted is not None:
                self.enter(group)
                _remember_vote(m, voted)
            self.add(self.after(group.pc), group.warps, group.mask)

    # ------------------------------------------------------------------------------------------ mbarriers

    def check_phase(self, group: Group, pc: int, instruction: SassInstruction) -> None:
        """Execute SYNCS.PHASECHK: continue the warps whose phase is complete and hold the others."""
        m = self.machine
        guard = operands.guard_operands(instruction.guard)
        condition = guard(m) if guard else None
        selected, doubtful = m.selection(condition)
        result = operand_number(instruction.operands[0])
        if self.program.alone:
            m.put(result, truth(True), condition)
            self.add(self.after(pc), group.warps, group.mask)
            return
        memory = next(operand for operand in instruction.operands if operand.kind == MEMORY)
        address, state = operands.address(memory)(m), operands.raw(instruction.operands[-1])(m)
        asked = None if doubtful.any() else self._asked(address, state, selected)
        if asked is None:  # whether it waits, or for what, is unknown: the order is unknown from here on
            # All lanes of a warp that certainly wait for the same leave the wait together.
            same_in_all_lanes = address.bits.shape[1] == state.bits.shape[1] == 1
            m.put(result, truth(True) if same_in_all_lanes else unknown(pc, bool), condition)
            m.unordered = pc if m.unordered is None else m.unordered
            m.note(Kind.JOIN, group.warps, f"which phase {instruction.text} waits for", number=pc)
            self.add(self.after(pc), group.warps, group.mask)
            return
        executes: Bools = np.asarray(selected.any(axis=1))
        self.add(self.after(pc), group.warps[~executes], group.mask[~executes])
        offset, parity = asked
        here = Group(pc, group.warps, group.mask)
        checks = AtPhaseCheck(group=here, selected=selected, offset=offset, parity=parity, result=result)
        m.at_phase.append(checks.part(executes))
        self.release_phases()

    def _asked(self, address: Value, state: Value, selected: Bools) -> tuple[Ints, Ints] | None:
        """Return the barrier and the parity that each warp waits for; None if unknown or different between its lanes.

        The operand is a parity, or the state that an arrival returned, of which the phase is known.
        """
        arrival = None if state.origin is None else self.program.instructions[state.origin]
        returned = arrival is not None and arrival.opcode == "SYNCS" and arrival.has("ARRIVE")
        if not known_in(address, selected) or not (known_in(state, selected) or returned):
            return None
        offset, parity = _common(address.bits & WINDOW, selected), _common(state.bits >> PARITY_BIT, selected)
        return None if offset is None or parity is None else (offset, parity)

    def release_phases(self) -> bool:
        """Continue all warps whose phase is complete; return whether there are any."""
        m = self.machine
        waiting, m.at_phase = m.at_phase, []
        released = False
        for checks in waiting:
            passed = np.zeros(len(checks.offset), bool)
            blocks = m.block_of[checks.group.warps]
            for offset in np.unique(checks.offset).tolist():
                here = checks.offset == offset
                passed[here] = m.mbarriers.passed(offset, blocks[here], checks.parity[here])
            released |= bool(passed.any())
            self._answer(checks.part(passed), True)
            if not passed.all():
                m.at_phase.append(checks.part(~passed))
        return released

    def _answer(self, checks: AtPhaseCheck, complete: bool, phases: Ints | None = None) -> None:
        if self.machine.watcher:
            self.machine.watcher.passes(self.machine, checks.group.warps, checks.group.pc, checks.offset, checks.parity)
        if len(checks.group.warps):
            self.enter(checks.group)
            if complete and self.machine.notes:
                self._note_passing(checks, phases)
            self.machine.put(checks.result, truth(complete), Value(checks.selected))
            self.add(self.after(checks.group.pc), checks.group.warps, checks.group.mask)

    def _note_passing(self, checks: AtPhaseCheck, phases: Ints | None) -> None:
        """Note which warps continue; `phases`: with an earlier phase than the last complete one."""
        m, warps = self.machine, checks.group.warps
        for offset in np.unique(checks.offset).tolist():
            here = warps[checks.offset == offset]
            if offset in m.mbarriers.at:
                completed = m.mbarriers.at[offset].completed[m.block_of[here]]
                completed = completed if phases is None else phases[checks.offset == offset]
                bits = m.masks(here, checks.selected[checks.offset == offset])
                m.note(Kind.PASS, here, (offset, completed, bits), number=checks.group.pc)

    def time_out(self) -> None:
        """Act when nothing else can run: let copies of unknown size arrive, else all waits fail once, else all pass.

        What lets them pass is not modelled: the contents of shared memory are unknown from then on.
        """
        m = self.machine
        m.mbarriers.settle()
        self._complete_commits()
        if self.release_phases() or self._release_late() or not m.at_phase:
            return
        waiting, m.at_phase = m.at_phase, []
        passes, m.mbarriers.changed = not m.mbarriers.changed, False
        if passes:
            m.unordered = waiting[0].group.pc
            if m.events is not None and not m.order_lost:
                m.at_phase = waiting
                for checks in waiting:
                    self.deadlocks.in_phase(checks)
                m.at_phase = []
            everyone = np.unique(np.concatenate([checks.group.warps for checks in waiting]))
            pc = waiting[0].group.pc
            m.note(Kind.JOIN, everyone, "what lets threads go on that wait for an mbarrier", number=pc)
            for checks in waiting:  # those that only missing bytes keep from passing
                for warp, offset in zip(checks.group.warps.tolist(), checks.offset.tolist(), strict=True):
                    block = int(m.block_of[warp])
                    if lacking := m.mbarriers.lacking(offset, block):
                        m.starved.append((block, offset, lacking))
        for checks in waiting:
            self._answer(checks, passes)

    def _complete_commits(self) -> None:
        """Complete what tcgen05.commit waits for as late as possible: when no thread can continue without it."""
        m = self.machine
        for number, offset, blocks in m.mbarriers.commits:
            here = np.array(blocks)
            m.mbarriers.update(offset, here, np.ones(len(here), np.int64), np.zeros(len(here), np.int64))
            completed = m.mbarriers.at[offset].completed[here]
            m.note(Kind.COUNT, m.everyone[:0], (here, offset, completed, None), number=number)
        m.mbarriers.commits = []

    def _release_late(self) -> bool:
        """Continue warps that are two phases late: what they wait for was complete before nothing could run.

        The next phase completed without waiting for them. In this schedule they now wait for a later phase of the same
        parity; in a faster one they would have passed on the phase they mean. The wait is a hazard by itself, as it may
        never end; continuing shows what else such a thread can do.
        """
        m = self.machine
        if m.events is None or m.order_lost:
            return False
        waiting, m.at_phase = m.at_phase, []
        for checks in waiting:
            late = np.zeros(len(checks.offset), np.int64)
            for row, (warp, offset) in enumerate(zip(checks.group.warps.tolist(), checks.offset.tolist(), strict=True)):
                phase = self._last_passed(warp, offset)
                completed = m.mbarriers.phase(offset, int(m.block_of[warp]))
                if completed is not None and phase < completed and phase % 2 == checks.parity[row]:
                    late[row] = phase + 1
            if (late > 0).any():
                self.deadlocks.overtakes(checks.part(late > 0))
                self._answer(checks.part(late > 0), True, late[late > 0])
            if not (late > 0).all():
                m.at_phase.append(checks.part(late == 0))
        return bool(m.ready)

    def _last_passed(self, warp: int, offset: int) -> int:
        """Return the phases of an mbarrier that were complete when a warp last passed it."""
        m = self.machine
        for event in reversed(m.events.events[: m.happened] if m.events else ()):
            if event.kind is Kind.PASS and event.data[0] == offset and warp in event.warps:
                return int(event.data[1][np.flatnonzero(event.warps == warp)[0]])
            if event.kind is Kind.INITIALISE and int(event.data[1][0]) == offset:
                break
        return 0

    # ------------------------------------------------------------------------------------------ clusters

    def release_clusters(self) -> None:
        """Continue the warps whose cluster has arrived as often as they have."""
        m = self.machine
        if not m.at_cluster:
            return
        fewest = np.full(len(m.blocks), np.iinfo(np.int64).max)  # by first block of a cluster
        live = m.live.any(axis=1)
        np.minimum.at(fewest, m.clusters.base(m.block_of[live]), m.cluster_arrivals[live])
        waiting, m.at_cluster = m.at_cluster, []
        for group in waiting:
            there = fewest[m.clusters.base(m.block_of[group.warps])] >= m.cluster_arrivals[group.warps]
            m.note(Kind.CLUSTER_PASS, group.warps[there], m.cluster_arrivals[group.warps[there]], number=group.pc)
            self.add(self.after(group.pc), group.warps[there], group.mask[there])
            if not there.all():
                m.at_cluster.append(group.part(~there))


def _common(bits: Bits, selected: Bools) -> Ints | None:
    """Return the value that all selected lanes of each warp have, (G,); None if they differ."""
    lanes = np.broadcast_to(bits, selected.shape).astype(np.int64)
    highest: Ints = np.where(selected, lanes, 0).max(axis=1)
    return highest if bool(((lanes == highest[:, None]) | ~selected).all()) else None


def rows(value: Value, chosen: Bools) -> Value:
    """Return a value of some of the warps, (G,)."""
    known = value.known if isinstance(value.known, bool) else value.known[chosen]
    return Value(value.bits[chosen], known, value.origin, value.tag)


def _remember_vote(m: Machine, voted: Value) -> None:
    """Keep the result of BAR.RED for the view's warps until B2R reads it."""
    old = m.voted or Value(np.zeros((m.warps, 1), np.uint32), False, m.now)
    bits = np.broadcast_to(old.bits, (m.warps, 1)).copy()
    known = np.broadcast_to(np.asarray(old.known), (m.warps, 1)).copy()
    bits[m.view.warps], known[m.view.warps] = voted.bits, voted.known
    tag = voted.tag if voted.tag is not None else old.tag
    m.voted = Value(bits, True if known.all() else known, voted.origin, tag)


def _vote(opened: Sequence[AtBarrier], m: Machine, block: int) -> Value | None:
    """Return the vote of the threads of a block, one number, (1, 1); None if none of them votes."""
    mode, yes, count = "", 0, 0
    unsure = False
    origin, tag = None, None
    for waiting in opened:
        vote = waiting.vote
        if vote is None:
            continue
        mode = mode or waiting.mode
        inside = m.block_of[waiting.group.warps] == block
        mask = waiting.group.mask[inside]
        bits = np.broadcast_to(vote.bits, waiting.group.mask.shape)[inside]
        known = np.broadcast_to(np.asarray(vote.known), waiting.group.mask.shape)[inside]
        yes += int((bits & mask).sum())
        count += int(mask.sum())
        if (mask & ~known).any():
            unsure, origin = True, vote.origin
        tag = tag or vote.tag
    if not mode:
        return None
    outcome = {"OR": int(yes > 0), "AND": int(yes == count), "POPC": yes}[mode]
    return Value(np.array([[outcome]], np.uint32), not unsure, origin, tag)
