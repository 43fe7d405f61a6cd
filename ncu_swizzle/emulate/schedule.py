"""Which threads run next, as on the hardware: divergence, convergence barriers, block barriers.

Diverged threads of a warp reconverge at a BSYNC or a WARPSYNC; until then each part issues its instructions
separately. The part at the lowest address runs first. The order changes no count, as long as threads of a warp wait
for each other only at barriers in the code. Different warps at the same instruction execute together, which only saves
time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate.accesses import Unknown
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.contents import forget_local, lose_arrays, lose_everything
from ncu_swizzle.emulate.effects import CONTROL, GLOBAL, LOCAL, REGISTERS, SHARED, control_word, may_be_counted
from ncu_swizzle.emulate.faults import Broken, Circling, Endless, Restart, Stuck, Unsupported
from ncu_swizzle.emulate.flow import EXIT, until_reconverged
from ncu_swizzle.emulate.loops import Loops
from ncu_swizzle.emulate.reconvergence import Reconverging
from ncu_swizzle.emulate.recurrence import Circles
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.emulate.waits import Group, Waiting, Waits, remember_vote, rows, vote
from ncu_swizzle.smem.operations import Bools, Ints

# Where the threads of a block wait for each other: BAR.


@dataclass
class Synchronising(Reconverging):
    """Threads that wait at barriers of their block."""

    waiting: list[Waiting] = field(default_factory=list, init=False)
    arrivals: dict[tuple[int, int], int] = field(default_factory=dict, init=False)  # of BAR.ARV, by barrier and block

    def release_barriers(self) -> None:
        """Let the threads go on whose barriers are complete."""
        for barrier in {waiting.barrier for waiting in self.waiting}:
            mine = [waiting for waiting in self.waiting if waiting.barrier == barrier]
            complete = self._complete(mine, barrier)
            if not complete.any():
                continue
            if any(waiting.vote is not None for waiting in mine):
                for block in np.flatnonzero(complete):
                    self._open(barrier, np.arange(len(complete)) == block)
            else:
                self._open(barrier, complete)

    def _complete(self, mine: list[Waiting], barrier: int) -> Bools:
        """Return the blocks, (B,), all of whose threads are at a barrier, given those that wait there."""
        m = self.machine
        blocks = len(m.blocks)
        there = np.zeros((m.warps, 32), bool)
        used, count = np.zeros(blocks, bool), np.zeros(blocks, np.int64)
        for waiting in mine:
            here = m.block_of[waiting.group.warps]
            there[waiting.group.warps] |= waiting.group.mask
            used[here] = True
            count[here] = np.maximum(count[here], waiting.count)
        missing = (m.live & ~there).reshape(blocks, -1).any(axis=1)
        arrived = 32 * there.any(axis=1).reshape(blocks, -1).sum(axis=1)
        for (other, block), threads in self.arrivals.items():
            arrived[block] += threads if other == barrier else 0
        complete: Bools = used & np.where(count == 0, ~missing, arrived >= count)
        return complete

    def _open(self, barrier: int, blocks: Bools) -> None:
        """Let the threads of some blocks, (B,), that wait at a barrier go on."""
        m = self.machine
        mine = [w for w in self.waiting if w.barrier == barrier and blocks[m.block_of[w.group.warps]].any()]
        chosen = np.flatnonzero(blocks).tolist()
        voted = vote(mine, m, chosen[0]) if len(chosen) == 1 else None
        for block in chosen:
            self.arrivals.pop((barrier, block), None)
            if not any(waiting.count and block in m.block_of[waiting.group.warps] for waiting in mine):
                m.forget_claims(block)
        for waiting in mine:
            group = waiting.group
            inside = blocks[m.block_of[group.warps]]
            self.waiting.remove(waiting)
            if not inside.all():
                rest = Group(group.pc, group.warps[~inside], group.mask[~inside])
                kept = None if waiting.vote is None else rows(waiting.vote, ~inside)
                self.waiting.append(Waiting(rest, waiting.barrier, waiting.count, kept, waiting.mode))
            if voted is not None:
                self.enter(Group(group.pc, group.warps[inside], group.mask[inside]))
                remember_vote(m, voted)
            self.add(self.after(group.pc), group.warps[inside], group.mask[inside])


Handler = Callable[["Schedule", Group, int, SassInstruction], None]


@dataclass(kw_only=True)
class Schedule(Synchronising):
    """One run of a program on a machine."""

    clock: Clock
    handlers: Mapping[str, Handler]  # of control instructions, by opcode: `control.HANDLERS`
    shortcuts: bool = True  # whether one iteration of a loop may stand for others
    resting: list[Group] = field(default_factory=list, init=False)  # in loops that only other threads can end
    unknown: dict[int, Unknown] = field(default_factory=dict, init=False)
    collective: dict[int, int] = field(default_factory=dict, init=False)
    circles: Circles = field(default_factory=Circles, init=False)
    waits: Waits = field(init=False)
    loops: Loops | None = field(init=False)
    apart: dict[int, frozenset[int]] = field(default_factory=dict, init=False)  # by target: up to a WARPSYNC
    issued: Ints = field(init=False)  # (n + 1, B): changes of how often instructions were issued, from one to the next

    def __post_init__(self) -> None:
        super().__post_init__()
        self.waits = Waits(machine=self.machine, after=self.program.flow.following, states=self.program.returns_state)
        self.issued = np.zeros((len(self.program.instructions) + 1, len(self.machine.blocks)), np.int64)
        shortcuts = self.shortcuts and self.machine.stores is None  # all stores are recorded if any is
        self.loops = Loops(self) if shortcuts else None

    def run(self) -> Ints:
        """Run until all threads have exited; return how often each instruction was issued, by block: (n, B)."""
        m, program, issued = self.machine, self.program, self.issued
        self.add(0, m.everyone, m.live.copy())
        while (group := self._next()) is not None:
            if self.loops is not None:
                group = self.loops.arrive(group)
            last = program.flow.last[group.pc]
            if self._rests(group, last):
                continue
            per_block = np.bincount(m.block_of[group.warps], minlength=len(m.blocks))
            issued[group.pc] += per_block
            issued[last + 1] -= per_block
            try:
                self.enter(group)
                for pc, step in program.runs[group.pc]:
                    m.now = pc
                    if m.repeats.active and pc in program.untracked:
                        self._untracked(pc)
                    step(m)
                if m.repeats.active and last in program.untracked:
                    self._untracked(last)
                self._leave(group, last)
            except (NcuSwizzleError, MemoryError, Restart):
                raise
            except Exception as error:
                raise Broken(program.instructions[m.now].offset, program.instructions[m.now].text, error) from error
        total = np.cumsum(issued, axis=0)[:-1]
        self._doubt_timing(np.asarray(total.any(axis=1)))
        return total

    def _untracked(self, number: int) -> None:
        if self.loops is not None:
            self.loops.untracked(number)

    def resume(self) -> bool:
        """Continue the threads that no longer wait; say whether any thread can run."""
        released, self.waits.released = self.waits.released, []
        for group in released:
            self.add(group.pc, group.warps, group.mask)
        return bool(self.ready)

    def _doubt_timing(self, ran: Bools) -> None:
        """Mark as unknown what depends on how long the hardware takes."""
        waits = self.program.timing
        for branch, region in sorted(waits.regions.items()):
            for number in sorted(region) if ran[branch] else ():
                self._unknown_count(number, waits.source(branch))
        for number in waits.tainted:
            if ran[number] and may_be_counted(self.program.instructions[number].opcode):
                self.machine.log.miss(number, "what it accesses", waits.source(number))

    def doubt_convergence(self, group: Group, branch: int) -> None:
        """Mark as unknown what others of the group's warps may run without it while it waits."""
        for target in self.awaited_by_others(group):
            if target not in self.apart:
                self.apart[target] = until_reconverged(self.program.flow, target)
            for number in self.apart[target]:
                self._unknown_count(number, self.program.timing.source(branch))

    def _unknown_count(self, number: int, origin: int | None, reason: str = "how often it runs") -> None:
        self.unknown.setdefault(number, Unknown(reason, origin))
        if may_be_counted(self.program.instructions[number].opcode):
            self.machine.log.miss(number, reason, origin)

    def _rests(self, group: Group, last: int) -> bool:
        """Say whether the group's threads run in circles until others go on. Raises Endless, Circling."""
        instruction = self.program.instructions[last]
        self.clock.ran(len(group.warps), last + 1 - group.pc)
        if self.clock.expired:
            raise Endless(instruction.offset, instruction.text, self.clock.timeout_s, self.clock.issued)
        if not self.circles.closed(self, group):
            return False
        if not self.circles.rests(self, group):
            raise Circling(instruction.offset, instruction.text)
        return True

    def wake(self) -> None:
        """Make ready what can run besides the current group: resting threads, and those whose barriers are complete."""
        self.ready += self.resting
        self.resting = []
        self.recheck_convergence()
        self.waits.release()
        self.waits.release_clusters()
        self.resume()
        self.release_barriers()

    def forget_counts(self, leaders: list[int]) -> None:
        """Record that basic blocks run an unknown number of times."""
        reason = "how often it runs, waiting for other threads,"
        for leader in leaders:
            last = self.program.flow.last[leader]
            for number in range(leader, last + 1):
                self._unknown_count(number, last, reason)

    # ------------------------------------------------------------------------------------------ who is next

    def _next(self) -> Group | None:
        """Return the threads at the lowest address, over all warps."""
        while not self.ready:
            if self.resting:
                self.ready, self.resting = self.resting, []
            elif not self._release():
                return None
        if len(self.ready) == 1:
            return self.ready.pop()
        pc = min(group.pc for group in self.ready)
        chosen: list[Group] = []
        taken = np.zeros(self.machine.warps, bool)
        rest = []
        for group in self.ready:
            if group.pc == pc and not taken[group.warps].any():
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
        return Group(pc, warps[order], mask[order])

    def _release(self) -> bool:
        """Release barriers that are complete, also because threads have exited; say whether anything was waiting."""
        self.recheck_convergence()
        self.waits.release()
        self.waits.release_clusters()
        if self.resume():
            return True
        self.release_barriers()
        if self.ready:
            return True
        self.waits.time_out()
        if self.resume():
            return True
        self.go_on_collectively()
        if self.ready:
            return True
        if not self.waiting:
            self.check_stuck()
            return False
        waiting = self.waiting[0].group
        instruction = self.program.instructions[waiting.pc]
        raise Stuck(instruction.offset, instruction.text, "not all threads of the block reach this barrier")

    # ------------------------------------------------------------------------------------------ the end of a block

    def _leave(self, group: Group, last: int) -> None:
        """Execute the control instruction at the end of the basic block, if there is one."""
        instruction = self.program.instructions[last]
        self.machine.now = last
        handler = self.handlers.get(control_word(instruction))
        if handler is not None and not instruction.never:
            handler(self, group, last, instruction)
            return
        if control_word(instruction) in CONTROL and not instruction.never:
            raise Unsupported(instruction.offset, instruction.text)
        self.add(self.program.flow.following(last), group.warps, group.mask)

    def known_lanes(self, group: Group, pc: int, condition: Value | None) -> tuple[Group, Bools]:
        """Return the group without the warps in which the condition is unknown, and its lanes for which it is true.

        What the other warps do is unknown until they certainly reconverge.
        """
        m = self.machine
        if condition is None:
            return group, group.mask
        selected, doubtful = m.certain_mask(condition)
        if not doubtful.any():
            return group, selected
        unsure = doubtful.any(axis=1)
        lost = Group(group.pc, group.warps[unsure], group.mask[unsure])
        self.lose_track(lost, pc, condition.bits.shape[1] == 1, condition.origin)
        kept = Group(group.pc, group.warps[~unsure], group.mask[~unsure])
        return kept, selected[~unsure]

    def lose_track(self, group: Group, pc: int, uniform: bool, origin: int | None, anywhere: bool = False) -> None:
        """Move threads past a branch on an unknown condition, to where all its paths reconverge.

        `anywhere`: it goes to an unknown function, which may do anything, so all counts are unknown.
        """
        flow, m = self.program.flow, self.machine
        self.clock.lost += 1
        stop = EXIT if anywhere else flow.post_dominators[pc] if uniform else self._reconvergence_point(group, pc)
        region = set(range(len(flow.instructions)) if anywhere else flow.region(pc, stop, whole=stop == EXIT))
        meets = stop != EXIT and not uniform
        for number in region | ({stop} if meets else set()):
            self._unknown_count(number, origin)
        self.enter(group)
        self._forget(region, m.now if origin is None else origin)
        if stop == EXIT:
            self._end(group.warps, group.mask)
        elif meets:
            self.handlers[self.program.instructions[stop].opcode](self, group, stop, self.program.instructions[stop])
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

    def _reconvergence_point(self, group: Group, pc: int) -> int:
        """Return the next BSYNC or WARPSYNC at which all of the group's threads reconverge, or EXIT."""
        flow, m = self.program.flow, self.machine
        stop = flow.post_dominators[pc]
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
