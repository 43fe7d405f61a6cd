"""Which threads run next, as the hardware decides it: divergence, convergence barriers, barriers of a block.

Threads of one warp that are at different places are apart until a BSYNC or a WARPSYNC brings them together again;
each part issues its instructions by itself. The part at the lowest address runs first. That order decides no count, as
long as threads of a warp wait for each other only where the code says so. Different warps that are at the same place
run together here, which only saves time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import Unknown
from ncu_swizzle.emulate.effects import CONTROL, GLOBAL, LOCAL, REGISTERS, SHARED, SHARED_ACCESS
from ncu_swizzle.emulate.faults import Endless, Stuck, Unsupported
from ncu_swizzle.emulate.flow import EXIT
from ncu_swizzle.emulate.machine import LANES, Machine, View
from ncu_swizzle.emulate.memory import forget_local, lose_arrays, lose_everything
from ncu_swizzle.emulate.operations.predicates import conjunction
from ncu_swizzle.emulate.parse import BARRIER, INTEGER, PRED, REG, UPRED, UREG, Instruction, Operand
from ncu_swizzle.emulate.program import Program
from ncu_swizzle.emulate.values import Value, truth
from ncu_swizzle.smem.banks import Bools, Ints


@dataclass
class Group:
    """Threads at one place: at most one part of each warp."""

    place: int
    warps: Ints
    mask: Bools


@dataclass
class Waiting:
    """Threads at a barrier of their block."""

    group: Group
    barrier: int
    count: int  # of threads that it takes, 0 for all of the block
    vote: Value | None = None
    mode: str = ""


@dataclass
class Schedule:
    """One run of a program on a machine."""

    program: Program
    machine: Machine
    limit: int
    ready: list[Group] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    unknown: dict[int, Unknown] = field(default_factory=dict)
    steps: int = 0
    tokens: int = 0
    meeting_places: dict[int, int] = field(default_factory=dict)  # by token, where its threads go on together
    arrivals: dict[tuple[int, int], int] = field(default_factory=dict)  # of BAR.ARV, by barrier and block
    collective: dict[int, int] = field(default_factory=dict)
    arrived: Bools = field(init=False)  # (16, W, 32): lanes that wait at each convergence barrier
    synced: Bools = field(init=False)  # (W, 32): lanes that wait at a WARPSYNC
    wanted: Bools = field(init=False)  # (W, 32): lanes that such a wait is for
    waits_at: Ints = field(init=False)  # (W, 32): the instruction that a waiting lane is at

    def __post_init__(self) -> None:
        warps = self.machine.warps
        self.arrived = np.zeros((16, warps, 32), bool)
        self.synced, self.wanted = np.zeros((warps, 32), bool), np.zeros((warps, 32), bool)
        self.waits_at = np.zeros((warps, 32), np.int64)

    def run(self) -> Ints:
        """Run until all threads have ended; return how often each instruction was issued, by block: (n + 1, B)."""
        m, program = self.machine, self.program
        issued = np.zeros((len(program.instructions) + 1, len(m.blocks)), np.int64)
        self.add(0, m.everyone, m.live.copy())
        while (group := self._next()) is not None:
            last = program.flow.last[group.place]
            per_block = np.bincount(m.block_of[group.warps], minlength=len(m.blocks))
            issued[group.place] += per_block
            issued[last + 1] -= per_block
            self._count_steps(last, group.place)
            self._enter(group)
            for place, step in program.runs[group.place]:
                m.now = place
                step(m)
            self._leave(group, last)
        return np.cumsum(issued, axis=0)[:-1]

    def add(self, place: int, warps: Ints, mask: Bools) -> None:
        """Let the threads of the mask go on at the instruction, those of them that there are."""
        used = mask.any(axis=1)
        if not used.any():
            return
        if not used.all():
            warps, mask = warps[used], mask[used]
        if place == EXIT:
            self._end(warps, mask)
            return
        self.ready.append(Group(place, warps, mask))

    def _count_steps(self, last: int, first: int) -> None:
        self.steps += last - first + 1
        if self.steps > self.limit:
            instruction = self.program.instructions[last]
            raise Endless(instruction.offset, instruction.text, self.limit)

    def _enter(self, group: Group) -> None:
        m = self.machine
        whole = len(group.warps) == m.warps and bool((group.mask == m.live).all())
        m.view = View(group.warps, group.mask, whole)

    # ------------------------------------------------------------------------------------------ who is next

    def _next(self) -> Group | None:
        """Return the threads at the lowest address, of all warps that have such."""
        while not self.ready:
            if not self._release():
                return None
        if len(self.ready) == 1:
            return self.ready.pop()
        place = min(group.place for group in self.ready)
        chosen: list[Group] = []
        taken = np.zeros(self.machine.warps, bool)
        rest = []
        for group in self.ready:
            if group.place == place and not taken[group.warps].any():
                taken[group.warps] = True
                chosen.append(group)
            else:
                rest.append(group)
        self.ready = rest
        if len(chosen) == 1:
            return chosen[0]
        warps = np.concatenate([group.warps for group in chosen])
        mask = np.concatenate([group.mask for group in chosen])
        order = np.argsort(warps)
        return Group(place, warps[order], mask[order])

    def _release(self) -> bool:
        """Let go what waits for threads that have ended or all wait; say whether anything was waiting."""
        self._recheck_convergence()
        if self.ready:
            return True
        if not self.waiting:
            if self.synced.any() or self.arrived.any():
                self._stuck_in_warp()
            return False
        self._release_barriers()
        if not self.ready:
            waiting = self.waiting[0].group
            instruction = self.program.instructions[waiting.place]
            raise Stuck(instruction.offset, instruction.text, "not all threads of the block come to this barrier")
        return True

    def _stuck_in_warp(self) -> None:
        warp, lane = np.argwhere(self.synced | self.arrived.any(axis=0))[0]
        number = int(self.machine.thread[warp, lane])
        instruction = self.program.instructions[int(self.waits_at[warp, lane])]
        raise Stuck(
            instruction.offset, instruction.text, f"thread {number} waits for threads of its warp that never come"
        )

    # ------------------------------------------------------------------------------------------ the end of a block

    def _leave(self, group: Group, last: int) -> None:
        """Carry out the control instruction at the block's end, if there is one."""
        instruction = self.program.instructions[last]
        self.machine.now = last
        handler = _HANDLERS.get(instruction.opcode)
        if handler is not None and not instruction.never:
            handler(self, group, last, instruction)
            return
        if instruction.opcode in CONTROL and not instruction.never:
            raise Unsupported(instruction.offset, instruction.text)
        self.add(self.program.flow.following(last), group.warps, group.mask)

    def known_lanes(self, group: Group, place: int, condition: Value | None) -> tuple[Group, Bools]:
        """Return the group less the warps in which the condition is unknown, and its lanes for which it is true.

        What the warps left out do is unknown from here on, until they are sure to be together again.
        """
        m = self.machine
        if condition is None:
            return group, group.mask
        selected, doubtful = m.certain_mask(condition)
        unsure = doubtful.any(axis=1)
        if not unsure.any():
            return group, selected
        lost = Group(group.place, group.warps[unsure], group.mask[unsure])
        self.lose_track(lost, place, condition.bits.shape[1] == 1, condition.origin)
        kept = Group(group.place, group.warps[~unsure], group.mask[~unsure])
        return kept, selected[~unsure]

    def lose_track(self, group: Group, place: int, uniform: bool, origin: int | None) -> None:
        """Follow threads past a branch that nobody can know: to where all its ways meet."""
        flow, m = self.program.flow, self.machine
        stop = flow.post_dominators[place] if uniform else self._meeting_point(group, place)
        region = set(flow.region(place, stop, whole=stop == EXIT))
        meets = stop != EXIT and not uniform
        for number in region | ({stop} if meets else set()):
            self.unknown.setdefault(number, Unknown("how often it runs", origin))
            if self.program.instructions[number].opcode in SHARED_ACCESS:
                m.log.miss(number, "how often it runs", origin)
        self._enter(group)
        self._forget(region, m.now if origin is None else origin)
        if stop == EXIT:
            self._end(group.warps, group.mask)
        elif meets:
            _HANDLERS[self.program.instructions[stop].opcode](self, group, stop, self.program.instructions[stop])
        else:
            self.add(stop, group.warps, group.mask)

    def _forget(self, region: set[int], origin: int) -> None:
        written = 0
        for number in region:
            written |= self.program.effects[number].writes
        self.machine.forget(written & ((1 << REGISTERS) - 1), origin)
        if written >> SHARED & 1:
            lose_everything(self.machine, origin)
        if written >> GLOBAL & 1:
            lose_arrays(self.machine)
        if written >> LOCAL & 1:
            forget_local(self.machine, origin)

    def _meeting_point(self, group: Group, place: int) -> int:
        """Return the next BSYNC or WARPSYNC that brings all of the group's threads together again, or EXIT."""
        flow, m = self.program.flow, self.machine
        stop = flow.post_dominators[place]
        while stop != EXIT:
            instruction = self.program.instructions[stop]
            if instruction.opcode == "BSYNC":
                tokens = m.tokens[instruction.operands[0].number][group.warps]
                if bool(((tokens != 0) | ~group.mask).all()):
                    return stop
            elif instruction.opcode == "WARPSYNC" and instruction.has("ALL"):
                return stop
            stop = flow.post_dominators[stop]
        return EXIT

    # ------------------------------------------------------------------------------------------ ends and meetings

    def _end(self, warps: Ints, mask: Bools) -> None:
        self.machine.live[warps] &= ~mask

    def meet(self, warps: Ints, mask: Bools, barrier: int, place: int) -> None:
        """Let threads wait at a convergence barrier, and go on where all of its threads are there."""
        m = self.machine
        tokens = m.tokens[barrier][warps]
        mine = np.take_along_axis(tokens, mask.argmax(axis=1)[:, None], axis=1)
        expected = (tokens == mine) & m.live[warps] & (mine != 0)
        self.arrived[barrier][warps] |= mask
        there = self.arrived[barrier][warps] & ((tokens == mine) | mask)
        complete = ~(expected & ~there).any(axis=1)
        self.waits_at[warps] = np.where(mask, place, self.waits_at[warps])
        if complete.any():
            done, lanes = warps[complete], there[complete]
            self._cleared(barrier, done, lanes)
            onward = np.array([self.meeting_places.get(int(token), self.after(place)) for token in mine[complete, 0]])
            for target in np.unique(onward):
                self.add(int(target), done[onward == target], lanes[onward == target])

    def _cleared(self, barrier: int, warps: Ints, lanes: Bools) -> None:
        self.arrived[barrier][warps] &= ~lanes
        self.machine.tokens[barrier][warps] = np.where(lanes, 0, self.machine.tokens[barrier][warps])

    def after(self, place: int) -> int:
        """Return the next instruction."""
        return self.program.flow.following(place)

    def _recheck_convergence(self) -> None:
        """Look again at all convergence barriers: threads that they waited for may have ended or left."""
        m = self.machine
        for barrier in np.flatnonzero(self.arrived.any(axis=(1, 2))):
            for warp in np.flatnonzero(self.arrived[barrier].any(axis=1)):
                tokens = m.tokens[barrier][warp]
                for token in np.unique(tokens[self.arrived[barrier][warp]]):
                    there = self.arrived[barrier][warp] & (tokens == token)
                    if not ((tokens == token) & m.live[warp] & ~there).any():
                        after = self.after(int(self.waits_at[warp][there][0]))
                        self._cleared(int(barrier), np.array([warp]), there[None])
                        self.add(self.meeting_places.get(int(token), after), np.array([warp]), there[None])
        self._recheck_warps()

    def _recheck_warps(self) -> None:
        for warp in np.flatnonzero(self.synced.any(axis=1)):
            there = self.synced[warp]
            if not (self.wanted[warp] & self.machine.live[warp] & ~there).any():
                self._go_on(int(warp), there.copy())

    def _go_on(self, warp: int, lanes: Bools) -> None:
        self.synced[warp] &= ~lanes
        for place in np.unique(self.waits_at[warp][lanes]):
            part = lanes & (self.waits_at[warp] == place)
            self.add(self.after(int(place)), np.array([warp]), part[None])

    def sync_warp(self, group: Group, place: int, wanted: Bools) -> None:
        """Let threads wait for those of their warp that the mask, (G, 32), names."""
        m = self.machine
        self.wanted[group.warps] = wanted
        self.synced[group.warps] |= group.mask
        self.waits_at[group.warps] = np.where(group.mask, place, self.waits_at[group.warps])
        there = self.synced[group.warps]
        complete = ~(wanted & m.live[group.warps] & ~there).any(axis=1)
        alone = (there == group.mask).all(axis=1)
        together = complete & alone
        if together.any():
            self.synced[group.warps[together]] = False
            self.add(self.after(place), group.warps[together], group.mask[together])
        for row in np.flatnonzero(complete & ~alone):
            warp = int(group.warps[row])
            self._go_on(warp, self.synced[warp].copy())

    # ------------------------------------------------------------------------------------------ barriers of a block

    def _release_barriers(self) -> None:
        m = self.machine
        for block in range(len(m.blocks)):
            here = slice(block * m.per_block, (block + 1) * m.per_block)
            live = m.live[here]
            for barrier in {waiting.barrier for waiting in self.waiting}:
                mine = [w for w in self.waiting if w.barrier == barrier and (m.block_of[w.group.warps] == block).any()]
                if mine and self._all_there(mine, here, live, barrier, block):
                    self._open(mine, block)
                    self.arrivals.pop((barrier, block), None)

    def _all_there(self, mine: list[Waiting], here: slice, live: Bools, barrier: int, block: int) -> bool:
        there = np.zeros((self.machine.warps, 32), bool)
        for waiting in mine:
            there[waiting.group.warps] |= waiting.group.mask
        count = max(waiting.count for waiting in mine)
        if not count:
            return not (live & ~there[here]).any()
        arrived = 32 * int(there[here].any(axis=1).sum()) + self.arrivals.get((barrier, block), 0)
        return arrived >= count

    def _open(self, mine: list[Waiting], block: int) -> None:
        m = self.machine
        voted = _vote(mine, m, block)
        for waiting in mine:
            group = waiting.group
            inside = m.block_of[group.warps] == block
            self.waiting.remove(waiting)
            if not inside.all():
                rest = Group(group.place, group.warps[~inside], group.mask[~inside])
                vote = None if waiting.vote is None else _rows(waiting.vote, ~inside)
                self.waiting.append(Waiting(rest, waiting.barrier, waiting.count, vote, waiting.mode))
            if voted is not None:
                self._enter(Group(group.place, group.warps[inside], group.mask[inside]))
                _remember_vote(m, voted)
            self.add(self.after(group.place), group.warps[inside], group.mask[inside])


def _rows(value: Value, rows: Bools) -> Value:
    known = value.known if isinstance(value.known, bool) else value.known[rows]
    return Value(value.bits[rows], known, value.origin, value.tag)


def _remember_vote(m: Machine, voted: Value) -> None:
    """Keep what BAR.RED found for the view's warps, until B2R reads it."""
    old = m.voted or Value(np.zeros((m.warps, 1), np.uint32), False, m.now)
    bits = np.broadcast_to(old.bits, (m.warps, 1)).copy()
    known = np.broadcast_to(np.asarray(old.known), (m.warps, 1)).copy()
    bits[m.view.warps], known[m.view.warps] = voted.bits, voted.known
    tag = voted.tag if voted.tag is not None else old.tag
    m.voted = Value(bits, True if known.all() else known, voted.origin, tag)


def _vote(mine: list[Waiting], m: Machine, block: int) -> Value | None:
    """Return what the threads of a block together say, (1, 1)."""
    votes = [waiting for waiting in mine if waiting.vote is not None]
    if not votes:
        return None
    yes = count = 0
    unsure = False
    origin, tag = None, None
    for waiting in votes:
        value = waiting.vote
        assert value is not None
        rows = m.block_of[waiting.group.warps] == block
        mask = waiting.group.mask[rows]
        bits = np.broadcast_to(value.bits, waiting.group.mask.shape)[rows]
        known = np.broadcast_to(np.asarray(value.known), waiting.group.mask.shape)[rows]
        yes += int((bits & mask).sum())
        count += int(mask.sum())
        if (mask & ~known).any():
            unsure, origin = True, value.origin
        tag = tag or value.tag
    found = {"OR": int(yes > 0), "AND": int(yes == count), "POPC": yes}[votes[0].mode]
    return Value(np.array([[found]], np.uint32), not unsure, origin, tag)


# ---------------------------------------------------------------------------------------------- control instructions

Handler = Callable[[Schedule, Group, int, Instruction], None]
_HANDLERS: dict[str, Handler] = {}


def handles(*opcodes: str) -> Callable[[Handler], Handler]:
    """Register what carries out a control instruction."""

    def register(handler: Handler) -> Handler:
        _HANDLERS.update(dict.fromkeys(opcodes, handler))
        return handler

    return register


def _condition(m: Machine, instruction: Instruction) -> Value | None:
    """Return the guard, and the predicate among the operands, together; None where there is neither."""
    readers = [operands.guard(instruction.guard)]
    readers += [operands.predicate(o) for o in instruction.operands if o.kind in (PRED, UPRED)]
    values = [read(m) for read in readers if read is not None]
    if not values:
        return None
    return values[0] if len(values) == 1 else conjunction(values[0], values[1])


@handles("BRA", "JMP")
def _branch(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    m = s.machine
    targets = s.program.flow.targets(place)
    if not targets:
        raise Unsupported(instruction.offset, instruction.text)
    if instruction.has("DIV", "CONV"):
        _branch_if_apart(s, group, place, instruction, targets[0])
        return
    condition = _condition(m, instruction)
    kept, taken = s.known_lanes(group, place, condition)
    if instruction.has("ANY"):
        taken = kept.mask & taken.any(axis=1, keepdims=True)
    s.add(s.after(place), kept.warps, kept.mask & ~taken)
    s.add(targets[0], kept.warps, taken)


def _branch_if_apart(s: Schedule, group: Group, place: int, instruction: Instruction, target: int) -> None:
    """Branch where not all living threads of the mask are here (.DIV), or where they are (.CONV)."""
    m = s.machine
    wanted = _lanes_of(m, instruction.operands[0], instruction) & m.live[group.warps]
    together = ~(wanted & ~group.mask).any(axis=1, keepdims=True)
    jumps = together if instruction.has("CONV") else ~together
    taken = group.mask & jumps
    s.add(s.after(place), group.warps, group.mask & ~taken)
    s.add(target, group.warps, taken)


def _lanes_of(m: Machine, operand: Operand, instruction: Instruction) -> Bools:
    """Return the lanes that a mask names, (G, 32)."""
    value = operands.integer(operand)(m)
    if not value.certain:
        raise Unsupported(instruction.offset, instruction.text, "has a mask of lanes that is not known")
    m.pin(value.tag)
    bits = np.broadcast_to(value.bits, m.view.mask.shape) if value.bits.shape[1] > 1 else value.bits
    first = m.view.mask.argmax(axis=1)
    row = bits[:, :1] if bits.shape[1] == 1 else bits[np.arange(len(bits)), first][:, None]
    found: Bools = np.broadcast_to((row >> LANES.astype(np.uint32) & np.uint32(1)).astype(bool), m.view.mask.shape)
    return found


@handles("EXIT", "KILL")
def _exit(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    kept, ended = s.known_lanes(group, place, _condition(s.machine, instruction))
    s.machine.live[kept.warps] &= ~ended
    s.add(s.after(place), kept.warps, kept.mask & ~ended)


@handles("BSSY")
def _bssy(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    s.tokens += 1
    barrier = instruction.operands[0].number
    tokens = s.machine.tokens[barrier]
    tokens[group.warps] = np.where(group.mask, s.tokens, tokens[group.warps])
    s.meeting_places[s.tokens] = s.program.flow.targets(place)[0]
    s.add(s.after(place), group.warps, group.mask)


@handles("BSYNC")
def _bsync(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    kept, selected = s.known_lanes(group, place, _condition(s.machine, instruction))
    rest = kept.mask & ~selected
    used = selected.any(axis=1)
    if used.any():
        s.meet(kept.warps[used], selected[used], instruction.operands[0].number, place)
    s.add(s.after(place), kept.warps, rest)


@handles("BREAK")
def _break(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    """Take threads out of a convergence barrier; the others need not wait for them any more."""
    barriers = [operand.number for operand in instruction.operands if operand.kind == BARRIER]
    kept, selected = s.known_lanes(group, place, _condition(s.machine, instruction))
    tokens = s.machine.tokens[barriers[0]]
    tokens[kept.warps] = np.where(selected, 0, tokens[kept.warps])
    s.add(s.after(place), kept.warps, kept.mask)


@handles("WARPSYNC")
def _warpsync(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    m = s.machine
    if instruction.guard is not None:
        raise Unsupported(instruction.offset, instruction.text)
    if instruction.has("ALL") or not instruction.operands:
        wanted = np.ones(group.mask.shape, bool)
    else:
        wanted = _lanes_of(m, instruction.operands[0], instruction)
    if instruction.has("COLLECTIVE"):
        s.collective[place] = s.program.flow.targets(place)[0]
    s.sync_warp(group, place, wanted)


@handles("ENDCOLLECTIVE")
def _endcollective(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    began = [start for start in s.collective if start < place]
    if not began:
        raise Unsupported(instruction.offset, instruction.text)
    s.add(s.collective[max(began)], group.warps, group.mask)


@handles("CALL")
def _call(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    kept, selected = s.known_lanes(group, place, _condition(s.machine, instruction))
    s.add(s.after(place), kept.warps, kept.mask & ~selected)
    if any(operand.kind in (REG, UREG) for operand in instruction.operands):
        _jump_to_register(s, kept, selected, place, instruction)
        return
    s.add(s.program.flow.targets(place)[0], kept.warps, selected)


@handles("RET")
def _return(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    kept, selected = s.known_lanes(group, place, _condition(s.machine, instruction))
    s.add(s.after(place), kept.warps, kept.mask & ~selected)
    _jump_to_register(s, kept, selected, place, instruction)


@handles("BRX", "JMX")
def _branch_indirect(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    kept, selected = s.known_lanes(group, place, _condition(s.machine, instruction))
    s.add(s.after(place), kept.warps, kept.mask & ~selected)
    plus = instruction.offset + 16 if instruction.opcode == "BRX" else 0
    _jump_to_register(s, kept, selected, place, instruction, plus)


def _jump_to_register(
    s: Schedule, group: Group, selected: Bools, place: int, instruction: Instruction, plus: int = 0
) -> None:
    """Go to the address in a register and, of the operands, the offset; each thread to its own."""
    m = s.machine
    used = selected.any(axis=1)
    if not used.any():
        return
    group = Group(place, group.warps[used], group.mask[used])
    selected = selected[used]
    s._enter(group)
    register = next(operand for operand in instruction.operands if operand.kind in (REG, UREG))
    plus += sum(operand.number for operand in instruction.operands if operand.kind == INTEGER)
    value = operands.raw(register)(m)
    m.pin(value.tag)
    known = np.broadcast_to(np.asarray(value.known), selected.shape)
    if bool((selected & ~known).any()):
        lost = (selected & ~known).any(axis=1)
        s.lose_track(Group(place, group.warps[lost], selected[lost]), place, value.bits.shape[1] == 1, value.origin)
        keep = ~lost
        group, selected = Group(place, group.warps[keep], group.mask[keep]), selected[keep]
        value = Value(np.broadcast_to(value.bits, known.shape)[keep])
    targets = np.broadcast_to(value.bits, selected.shape).astype(np.int64) + plus
    for target in np.unique(targets[selected]):
        s.add(s.program.flow.at(int(target) & 0xFFFFFFFF), group.warps, selected & (targets == target))


@handles("BAR")
def _barrier(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    m = s.machine
    kept, selected = s.known_lanes(group, place, operands_guard(m, instruction))
    s.add(s.after(place), kept.warps, kept.mask & ~selected)
    s._enter(kept)
    numbers = [o for o in instruction.operands if o.kind in (INTEGER, REG, UREG)]
    barrier = _uniform(m, numbers[0], instruction) if numbers else 0
    count = _uniform(m, numbers[1], instruction) if len(numbers) > 1 else 0
    used = selected.any(axis=1)
    part = Group(place, kept.warps[used], selected[used])
    if instruction.has("ARV"):
        for block, warps in zip(*np.unique(m.block_of[part.warps], return_counts=True), strict=True):
            key = (barrier, int(block))
            s.arrivals[key] = s.arrivals.get(key, 0) + 32 * int(warps)
        s.add(s.after(place), part.warps, part.mask)
        return
    vote, mode = None, ""
    if instruction.has("RED"):
        source = next((o for o in instruction.operands if o.kind in (PRED, UPRED)), None)
        value = operands.predicate(source)(m) if source else truth(True)
        vote = _rows(_expanded(value, kept.mask.shape), np.asarray(used))
        mode = next(word for word in ("OR", "AND", "POPC") if instruction.has(word))
    if used.any():
        s.waiting.append(Waiting(part, barrier, count, vote, mode))


def _expanded(value: Value, shape: tuple[int, ...]) -> Value:
    known = value.known if isinstance(value.known, bool) else np.broadcast_to(value.known, shape)
    return Value(np.broadcast_to(value.bits, shape), known, value.origin, value.tag)


def operands_guard(m: Machine, instruction: Instruction) -> Value | None:
    """Return the guard's value."""
    read = operands.guard(instruction.guard)
    return read(m) if read else None


def _uniform(m: Machine, operand: Operand, instruction: Instruction) -> int:
    """Return a number that all threads have to agree on."""
    value = operands.integer(operand)(m)
    m.pin(value.tag)
    lanes = np.broadcast_to(value.bits, m.view.mask.shape)[m.view.mask]
    if not value.certain or len(np.unique(lanes)) > 1:
        raise Unsupported(instruction.offset, instruction.text, "has a barrier whose number is not known")
    return int(lanes[0]) if len(lanes) else 0


@handles("BPT")
def _trap(s: Schedule, group: Group, place: int, instruction: Instruction) -> None:
    """A trap ends the threads that reach it."""
    kept, selected = s.known_lanes(group, place, _condition(s.machine, instruction))
    s.machine.live[kept.warps] &= ~selected
    s.add(s.after(place), kept.warps, kept.mask & ~selected)
