"""Control instructions: branches, calls, convergence barriers, block barriers; and what they leave unknown."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.code import BARRIER, INTEGER, LOW, PRED, REG, STEP, UPRED, UREG, Operand, SassInstruction
from ncu_swizzle.emulate.contents import forget_local, lose_arrays, lose_everything
from ncu_swizzle.emulate.effects import GLOBAL, LOCAL, PHASE_CHECK, SHARED, numbers_in
from ncu_swizzle.emulate.events import LOCK, Kind
from ncu_swizzle.emulate.faults import Unsupported
from ncu_swizzle.emulate.flow import EXIT
from ncu_swizzle.emulate.machine import ALL_MASK, LANES, Machine
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.spins import awaits_others
from ncu_swizzle.emulate.state import AtBarrier, Decided, Group, Unknown
from ncu_swizzle.emulate.supposed import Supposing, condition_of
from ncu_swizzle.emulate.traffic import BRANCHES
from ncu_swizzle.emulate.values import Bits, Value, known_in, truth
from ncu_swizzle.emulate.waits import Waits, rows
from ncu_swizzle.smem.opcodes import Registry
from ncu_swizzle.smem.operations import Bools, Ints, new_values

# Functions that are not part of a module: the driver supplies them, such as vprintf, malloc and __assertfail.
#
# Their own use of shared memory is not counted; they return to the instruction after the call, with a result that
# is unknown. A launch in which an assertion fails has no counts, so `__assertfail` returns here, too: its caller
# continues only if no other work is left.


RESULT = 4, 5  # R4 and R5


@dataclass(kw_only=True)
class Control(Waits):
    """Threads whose branches may depend on something unknown."""

    clock: Clock
    supposing: Supposing = field(init=False)
    _apart: dict[int, frozenset[int]] = field(default_factory=dict)  # by target: up to a WARPSYNC
    _awaiting: dict[tuple[int, int], bool] = field(default_factory=dict)  # by branch and where its paths meet

    def doubt(
        self, number: int, origin: int | None, reason: str = Decided.HOW_OFTEN, *, followed: bool = False
    ) -> None:
        """Record that the count of an instruction is unknown; `followed`: what it may request is recorded."""
        self.machine.unknown.setdefault(number, Unknown(reason, origin))
        if self.program.instructions[number].row.may_be_counted:
            self.machine.log.miss(number, reason, origin, followed=followed)

    def doubt_convergence(self, group: Group, branch: int) -> None:
        """Mark as unknown what the rest of the group's warps may run without it while it waits."""
        for target in self.awaited_by_others(group):
            self._doubt_from(target, self.program.timing.source(branch))

    def doubt_missable(self) -> None:
        """Mark as unknown what diverged parts of a warp run if they may have missed each other."""
        for target, origin in self.machine.missable.items():
            self._doubt_from(target, origin)
        self.machine.missable.clear()

    def _doubt_from(self, target: int, origin: int) -> None:
        """Mark as unknown what threads run from an instruction on, until they have certainly reconverged."""
        if target not in self._apart:
            flow = self.program.flow
            self._apart[target] = flow.reached([target], flow.reconverging, whole=True)
        for number in self._apart[target]:
            self.doubt(number, origin)

    def known_lanes(self, group: Group, pc: int, condition: Value | None) -> tuple[Group, Bools]:
        """Return the group without the warps in which the condition is unknown, and its lanes for which it is true.

        What the other warps do is unknown until they certainly reconverge.
        """
        if condition is None:
            return group, group.mask
        selected, doubtful = self.machine.certain_mask(condition)
        if not doubtful.any():
            return group, selected
        unsure: Bools = np.asarray(doubtful.any(axis=1))
        # One thread takes one path, as a whole warp does on a uniform condition.
        alone: Bools = np.asarray(group.mask.sum(axis=1) == 1) | (condition.bits.shape[1] == 1)
        for together in (True, False):
            if (lost := unsure & (alone == together)).any():
                self.lose_track(group.part(lost), pc, together, condition.origin)
        return group.part(~unsure), selected[~unsure]

    def lose_track(self, group: Group, pc: int, uniform: bool, origin: int | None, anywhere: bool = False) -> None:
        """Move threads past a branch on an unknown condition, to where all its paths reconverge.

        `anywhere`: it goes to an unknown function, which may do anything, so all counts are unknown.
        """
        flow, m = self.program.flow, self.machine
        self.clock.lost += 1
        # On a uniform condition the whole warp takes one path, and is together wherever the paths meet. Otherwise the
        # diverged parts stay apart until an instruction makes them reconverge.
        stop = EXIT if anywhere else flow.post_dominators[pc] if uniform else self._reconvergence_point(group, pc)
        region = set(range(len(flow.instructions)) if anywhere else flow.region(pc, stop, whole=stop == EXIT))
        meets = stop != EXIT and not uniform
        followed = not anywhere and self.supposing.follow(group, pc, stop, frozenset(region))
        for number in region | ({stop} if meets else set()):
            self.doubt(number, origin, followed=followed)
        self.enter(group)
        self._note_lost(group, pc, stop, region)
        written = 0
        for number in region:
            written |= self.program.effects[number].writes
        blamed = m.now if origin is None else origin
        m.forget(numbers_in(written), blamed)
        if written >> SHARED & 1:
            lose_everything(m, blamed)
        if written >> GLOBAL & 1:
            lose_arrays(m)
        if written >> LOCAL & 1:
            forget_local(m, blamed)
        if meets:
            HANDLERS[self.program.instructions[stop].opcode](self, group, stop, self.program.instructions[stop])
        else:
            self.add(stop, group.warps, group.mask)

    def _note_lost(self, group: Group, branch: int, stop: int, region: Set[int]) -> None:
        """Note which order, or which accesses, may be missing where threads are moved past a branch."""
        if self.machine.events is None:
            return
        if (branch, stop) not in self._awaiting:
            self._awaiting[branch, stop] = awaits_others(self.program.flow, region)
        rows = [self.program.instructions[number].row for number in region]
        what = f"which way {self.program.instructions[branch].text} goes"
        if self._awaiting[branch, stop]:
            self.machine.note(Kind.JOIN, group.warps, LOCK, number=branch)
        elif any(row.orders_warps for row in rows):  # a barrier, or an arrival, may be missing
            self.machine.note(Kind.JOIN, group.warps, what, number=branch)
        elif any(row.addressed for row in rows):
            self.machine.note(Kind.MISSED, group.warps, what, number=branch)

    def count_divergence(self, pc: int, warps: Ints, ways: Ints) -> None:
        """Count the paths beyond the first by which the threads of each of these warps, (G,), leave a branch."""
        tallies, m = self.program.tallies, self.machine
        if tallies is not None and ways.any():
            np.add.at(m.tallies[tallies.branches[pc]], m.block_of[warps], ways)

    def lose_divergence(self, pc: int, origin: int | None) -> None:
        """Record that it is unknown at which executions of a branch threads diverge."""
        if self.program.tallies is not None:
            row = self.program.tallies.branches[pc]
            self.machine.unsure.setdefault(row, Unknown("which way its threads go", origin))

    def _reconvergence_point(self, group: Group, pc: int) -> int:
        """Return the next BSYNC or WARPSYNC at which all of the group's threads reconverge, or EXIT."""
        flow, m = self.program.flow, self.machine
        stop = flow.post_dominators[pc]
        while stop != EXIT:
            instruction = self.program.instructions[stop]
            if instruction.opcode == "BSYNC":
                # Threads without a token do not wait at this BSYNC.
                tokens = m.tokens[instruction.operands[0].number][group.warps]
                if bool(((tokens != 0) | ~group.mask).all()):
                    return stop
            elif instruction.opcode == "WARPSYNC" and instruction.has("ALL"):
                return stop
            stop = flow.post_dominators[stop]
        return EXIT


Handler = Callable[[Control, Group, int, SassInstruction], None]
HANDLERS: Registry[Handler] = Registry()  # of control instructions
handles = HANDLERS.register


def _executing(s: Control, group: Group, pc: int, instruction: SassInstruction) -> tuple[Group, Bools]:
    """Return the threads whose behaviour is known, and the lanes that execute; the others continue."""
    kept, selected = s.known_lanes(group, pc, condition_of(s.machine, instruction))
    s.add(s.after(pc), kept.warps, kept.mask & ~selected)
    return kept, selected


@handles("BRA", "JMP")
def _branch(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    m = s.machine
    targets = s.program.flow.targets(pc)
    if not targets:
        raise Unsupported(instruction.offset, instruction.text)
    if instruction.has("DIV", "CONV"):
        _branch_if_apart(s, group, pc, instruction, targets[0])
        return
    if pc in s.program.timing.asking_again:
        s.doubt_convergence(group, pc)
    condition = _without_traps(s, pc, targets[0], condition_of(m, instruction))
    kept, taken = s.known_lanes(group, pc, condition)
    if instruction.has("ANY"):
        taken = kept.mask & taken.any(axis=1, keepdims=True)
    if len(kept.warps) < len(group.warps):
        s.lose_divergence(pc, condition.origin if condition else None)
    both = taken.any(axis=1) & (kept.mask & ~taken).any(axis=1)
    s.count_divergence(pc, kept.warps, np.asarray(both, np.int64))
    s.add(s.after(pc), kept.warps, kept.mask & ~taken)
    s.add(targets[0], kept.warps, taken)


def _without_traps(s: Control, pc: int, target: int, condition: Value | None) -> Value | None:
    """Return a branch's condition; if one path ends in a trap, threads whose condition is unknown take the other."""
    fatal = s.program.flow.fatal
    falls, jumps = s.after(pc) in fatal, target in fatal
    if condition is None or condition.known is True or falls == jumps:
        return condition
    return Value(np.where(condition.known, condition.bits, falls), tag=condition.tag)


def _branch_if_apart(s: Control, group: Group, pc: int, instruction: SassInstruction, target: int) -> None:
    """Branch if not all live threads of the mask are here (.DIV), or if they are (.CONV)."""
    m = s.machine
    wanted = _lanes_of(m, instruction.operands[0], instruction) & m.live[group.warps]
    together = ~(wanted & ~group.mask).any(axis=1, keepdims=True)
    jumps = together if instruction.has("CONV") else ~together
    taken = group.mask & jumps
    s.add(s.after(pc), group.warps, group.mask & ~taken)
    s.add(target, group.warps, taken)


def _lanes_of(m: Machine, operand: Operand, instruction: SassInstruction) -> Bools:
    """Return the lanes in the first lane's mask operand, (G, 32)."""
    bits = _masks_of(m, operand, instruction)
    row = np.take_along_axis(bits, m.view.mask.argmax(axis=1)[:, None], axis=1)
    lanes: Bools = (row >> LANES.astype(np.uint32) & np.uint32(1)).astype(bool)
    return lanes


def _masks_of(m: Machine, operand: Operand, instruction: SassInstruction) -> Bits:
    """Return the mask that each lane gives, (G, 32)."""
    value = operands.integer(operand)(m)
    if not bool((np.asarray(value.known) | ~m.view.mask).all()):
        raise Unsupported(instruction.offset, instruction.text, "has an unknown lane mask")
    m.decide(value.tag)
    masks: Bits = np.broadcast_to(value.bits, m.view.mask.shape)
    return masks


@handles("EXIT", "KILL")
def _exit(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    kept, ended = _executing(s, group, pc, instruction)
    s.machine.live[kept.warps] &= ~ended


@handles("BSSY")
def _bssy(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    token = len(s.machine.targets)
    s.machine.targets.append(s.program.flow.targets(pc)[0])
    tokens = s.machine.tokens[instruction.operands[0].number]
    tokens[group.warps] = np.where(group.mask, token, tokens[group.warps])
    s.add(s.after(pc), group.warps, group.mask)


@handles("BSYNC")
def _bsync(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    kept, selected = s.known_lanes(group, pc, condition_of(s.machine, instruction))
    used = selected.any(axis=1)
    if used.any():
        s.reconverge(kept.warps[used], selected[used], instruction.operands[0].number, pc)
    s.add(s.after(pc), kept.warps, kept.mask & ~selected)


@handles("BREAK")
def _break(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    """Remove threads from a convergence barrier; the others no longer wait for them."""
    barrier = next(operand.number for operand in instruction.operands if operand.kind == BARRIER)
    kept, selected = s.known_lanes(group, pc, condition_of(s.machine, instruction))
    tokens = s.machine.tokens[barrier]
    tokens[kept.warps] = np.where(selected, 0, tokens[kept.warps])
    s.add(s.after(pc), kept.warps, kept.mask)


@handles("WARPSYNC")
def _warpsync(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    m = s.machine
    if not {"ALL", "EXCLUSIVE", "COLLECTIVE"}.issuperset(instruction.modifiers):
        raise Unsupported(instruction.offset, instruction.text)
    if instruction.guard is not None:
        group, selected = _executing(s, group, pc, instruction)
        executes: Bools = np.asarray(selected.any(axis=1))
        group = Group(pc, group.warps[executes], selected[executes])
        s.enter(group)
    if instruction.has("ALL") or not instruction.operands:
        masks = np.full(group.mask.shape, ALL_MASK)
    else:
        masks = _masks_of(m, instruction.operands[0], instruction)
    if instruction.has("COLLECTIVE"):
        m.collective[pc] = s.program.flow.targets(pc)[0]
    s.sync_warp(group, pc, masks)


@handles("ENDCOLLECTIVE")
def _endcollective(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    collective = s.machine.collective
    began = [start for start in collective if start < pc]
    if not began:
        raise Unsupported(instruction.offset, instruction.text)
    s.add(collective[max(began)], group.warps, group.mask)


@handles("CALL")
def _call(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    kept, selected = _executing(s, group, pc, instruction)
    if any(operand.kind in (REG, UREG) for operand in instruction.operands):
        _jump_to_register(s, kept, selected, pc, instruction)
    elif any(operand.number & LOW in s.program.externals for operand in instruction.operands):
        _call_external(s, kept, selected, pc)
    else:
        s.add(s.program.flow.targets(pc)[0], kept.warps, selected)


def _call_external(s: Control, group: Group, selected: Bools, pc: int) -> None:
    """Continue after the call of a function that is not part of the module; what it returns is unknown."""
    s.enter(Group(pc, group.warps, selected))
    s.machine.forget(RESULT, pc)
    s.add(s.after(pc), group.warps, selected)


@handles("RET")
def _return(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    kept, selected = _executing(s, group, pc, instruction)
    _jump_to_register(s, kept, selected, pc, instruction)


@handles("BRX", "BRXU", "JMX", "JMXU")
def _branch_indirect(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    kept, selected = _executing(s, group, pc, instruction)
    plus = instruction.offset + STEP if instruction.opcode in ("BRX", "BRXU") else 0  # from the next instruction on
    _jump_to_register(s, kept, selected=selected, pc=pc, instruction=instruction, plus=plus)


def _jump_to_register(
    s: Control, group: Group, selected: Bools, pc: int, instruction: SassInstruction, plus: int = 0
) -> None:
    """Send each thread to the address in its register plus the offset operands."""
    m = s.machine
    used: Bools = np.asarray(selected.any(axis=1))
    if not used.any():
        return
    group, selected = group.part(used), selected[used]
    s.enter(group)
    register = next(operand for operand in instruction.operands if operand.kind in (REG, UREG))
    plus += sum(operand.number for operand in instruction.operands if operand.kind == INTEGER)
    value = operands.raw(register)(m)
    m.decide(value.tag)
    known = np.broadcast_to(np.asarray(value.known), selected.shape)
    if bool((selected & ~known).any()):
        lost: Bools = np.asarray((selected & ~known).any(axis=1))
        uniform, anywhere = value.bits.shape[1] == 1, instruction.opcode == "CALL"
        if instruction.opcode in BRANCHES:
            s.lose_divergence(pc, value.origin)
        s.lose_track(Group(pc, group.warps[lost], selected[lost]), pc, uniform, value.origin, anywhere)
        group, selected = group.part(~lost), selected[~lost]
        value = Value(np.broadcast_to(value.bits, known.shape)[~lost])
    targets = np.broadcast_to(value.bits, selected.shape).astype(np.int64) + plus
    if instruction.opcode in BRANCHES:
        ways: Ints = new_values(np.sort(np.where(selected, targets, -1), axis=1)).sum(axis=1)
        ways += (group.mask & ~selected).any(axis=1)
        s.count_divergence(pc, group.warps, ways - 1)
    for target in np.unique(targets[selected]):
        goes = selected & (targets == target)
        if int(target) & LOW in s.program.externals:
            _call_external(s, group, goes, pc)
            continue
        start = s.program.flow.at(int(target) & LOW)
        if start != EXIT and start not in s.program.runs:
            raise Unsupported(instruction.offset, instruction.text, f"goes to {target:#x}, inside a basic block")
        s.add(start, group.warps, goes)


@handles("BPT")
def _trap(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    """End the threads that certainly reach a trap; a trap on an unknown condition is taken not to occur."""
    condition = condition_of(s.machine, instruction)
    selected = group.mask if condition is None else s.machine.certain_mask(condition)[0]
    s.machine.live[group.warps] &= ~selected
    s.add(s.after(pc), group.warps, group.mask & ~selected)


# ---------------------------------------------------------------------------------------------- waits for other warps


@handles("BAR")
def _block_barrier(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    m = s.machine
    guard = operands.guard_operands(instruction.guard)
    kept, selected = s.known_lanes(group, pc, guard(m) if guard else None)
    s.add(s.after(pc), kept.warps, kept.mask & ~selected)
    if s.program.alone:
        s.add(s.after(pc), kept.warps, selected)
        return
    s.enter(kept)
    named, vote = _named_barriers(m, instruction, selected), _vote_of(m, instruction)
    mode = next((word for word in ("OR", "AND", "POPC") if instruction.has(word)), "") if vote else ""
    executing = selected.any(axis=1)
    asked = named[executing]
    asked = asked[:1] if (asked == asked[:1]).all() else np.unique(asked, axis=0)  # mostly all for the same
    for barrier, count in asked.tolist():
        used = executing & (named == (barrier, count)).all(axis=1)
        m.count_order(kept.warps[used])
        s.judge_meeting(Group(pc, kept.warps[used], selected[used]), barrier, count)
        while used.any():  # a generation of a named barrier after another
            now = used.copy()
            if count:
                now[used] = s.fitting(Group(pc, kept.warps[used], selected[used]), barrier, count)
            arriving = Group(pc, kept.warps[now], selected[now])
            used &= ~now
            if instruction.has("ARV"):
                m.note(Kind.ARRIVE, arriving.warps, (barrier, count))
                for warp, block in zip(arriving.warps.tolist(), m.block_of[arriving.warps].tolist(), strict=True):
                    m.arrivals.setdefault((barrier, block), []).append(warp)
                s.add(s.after(pc), arriving.warps, arriving.mask)
            else:
                chosen = None if vote is None else rows(vote, now)
                m.at_barrier.append(AtBarrier(group=arriving, barrier=barrier, count=count, vote=chosen, mode=mode))


def _vote_of(m: Machine, instruction: SassInstruction) -> Value | None:
    """Return what each thread votes for at a BAR.RED; None at other barriers."""
    if not instruction.has("RED"):
        return None
    source = next((o for o in instruction.operands if o.kind in (PRED, UPRED)), None)
    value = operands.predicate(source)(m) if source else truth(True)
    known = value.known if isinstance(value.known, bool) else np.broadcast_to(value.known, m.view.mask.shape)
    return Value(np.broadcast_to(value.bits, m.view.mask.shape), known, value.origin, value.tag)


def _named_barriers(m: Machine, instruction: SassInstruction, selected: Bools) -> Ints:
    """Return the number of each warp's barrier and the threads that it waits for, (G, 2); 0 for the whole block.

    A register given twice holds both: the number in its lower bits, the threads in its upper half.
    """
    numbers = [o for o in instruction.operands if o.kind in (INTEGER, REG, UREG)]
    named = np.zeros((len(selected), 2), np.int64)
    for column, operand in enumerate(numbers[:2]):
        constant = operand.kind == INTEGER and not operand.negated and not operand.inverted
        named[:, column] = operand.number if constant else _per_warp(m, operand, instruction, selected)
    if len(numbers) > 1 and numbers[0].kind != INTEGER and numbers[0] == numbers[1]:
        named[:, 1] = named[:, 1] >> 16 & 0xFFF
        named[:, 0] &= 15
    return named


def _per_warp(m: Machine, operand: Operand, instruction: SassInstruction, selected: Bools) -> Ints:
    """Return a number that must be known, and the same in all threads of a warp."""
    value = operands.integer(operand)(m)
    m.decide(value.tag)
    lanes = np.broadcast_to(value.bits, selected.shape).astype(np.int64)
    highest: Ints = np.where(selected, lanes, 0).max(axis=1)
    if not known_in(value, selected) or bool(((lanes != highest[:, None]) & selected).any()):
        raise Unsupported(instruction.offset, instruction.text, "has an unknown barrier number")
    return highest


@handles(PHASE_CHECK)
def _phase_check(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    s.check_phase(group, pc, instruction)


@handles("UCGABAR_ARV", "UCGABAR_WAIT")
def _cluster_barrier(s: Control, group: Group, pc: int, instruction: SassInstruction) -> None:
    if instruction.opcode == "UCGABAR_WAIT" and not s.program.alone:
        s.machine.at_cluster.append(Group(pc, group.warps, group.mask))
        return
    s.machine.cluster_arrivals[group.warps] += 1
    s.machine.note(Kind.CLUSTER_ARRIVE, group.warps, s.machine.cluster_arrivals[group.warps])
    s.add(s.after(pc), group.warps, group.mask)
