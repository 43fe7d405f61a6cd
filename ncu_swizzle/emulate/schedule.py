"""Which threads run next, as on the hardware, until all have exited.

Diverged threads of a warp reconverge at a BSYNC or a WARPSYNC; until then each part issues its instructions
separately. The part at the lowest address runs first, and goes on until it diverges or waits: the uniform registers are
the warp's, and the compiler relies on no other part running between their write and their read. Otherwise the order
changes no count, as long as threads of a warp wait for each other only at barriers in the code. Different warps at the
same instruction execute together, which only saves time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate.control import HANDLERS, Control
from ncu_swizzle.emulate.effects import control_word
from ncu_swizzle.emulate.faults import Broken, Circling, Endless, Restart, Unsupported
from ncu_swizzle.emulate.loops import Circles, Loops
from ncu_swizzle.emulate.state import Decided, Group, Unknown
from ncu_swizzle.emulate.supposed import Supposing
from ncu_swizzle.emulate.traffic import accesses, threads_by_block
from ncu_swizzle.smem.operations import Bools, Ints


@dataclass(kw_only=True)
class Schedule(Control):
    """One run of a program on a machine; with `shortcuts`, one iteration of a loop may represent others."""

    shortcuts: bool = True
    circles: Circles = field(init=False)
    loops: Loops | None = field(init=False)
    onward: bool = False  # whether part of a warp, the last ready one, runs on

    def __post_init__(self) -> None:
        m = self.machine
        m.issued = np.zeros((len(self.program.instructions) + 1, len(m.blocks)), np.int64)
        if self.program.tallies is not None:
            m.tallies = np.zeros((self.program.tallies.rows, len(m.blocks)), np.int64)
        self.circles = Circles(m)
        self.supposing = Supposing(program=self.program, machine=m)
        shortcuts = self.shortcuts and m.stores is None  # all stores are recorded if any is
        self.loops = Loops(self.program, m, self.clock, self.circles) if shortcuts else None

    def run(self) -> Ints:
        """Run until all threads have exited; return how often each instruction was issued, by block: (n, B)."""
        m, program = self.machine, self.program
        self.add(0, m.everyone, m.live.copy())
        while (group := self._next()) is not None:
            if group.pc in program.ends:
                m.live[group.warps] &= ~group.mask
                continue
            if self.loops is not None:
                group = self.loops.arrive(group)
            last = program.flow.last[group.pc]
            if self._rests(group, last):
                continue
            try:
                self.enter(group)
                self._count(group, last)
                for pc, step in program.runs[group.pc]:
                    m.now = pc
                    if m.repeats.active and pc in program.untracked and self.loops is not None:
                        self.loops.untracked(pc)
                    step(m)
                if m.repeats.active and last in program.untracked and self.loops is not None:
                    self.loops.untracked(last)
                if m.missable:
                    self.doubt_missable()
                ready = len(m.ready)
                self._leave(group, last)
                goes_on = len(m.ready) == ready + 1 and np.array_equal(m.ready[-1].mask, group.mask)
                self.onward = goes_on and bool((m.live[group.warps] & ~group.mask).any())
            except (NcuSwizzleError, MemoryError, Restart):
                raise
            except Exception as error:
                raise Broken(program.instructions[m.now].offset, program.instructions[m.now].text, error) from error
        total: Ints = np.cumsum(m.issued, axis=0)[:-1]
        self._doubt_what_depends_on_time(np.asarray(total.any(axis=1)))
        return total

    def _count(self, group: Group, last: int) -> None:
        """Count the instructions of the view's basic block as issued, and the threads that run it."""
        m, tallies = self.machine, self.program.tallies
        per_block = np.bincount(m.block_of[group.warps], minlength=len(m.blocks))
        # Differences, (n + 1, B): plus at the first instruction of the basic block, minus after its last one. The
        # running sum is the count, and a basic block of any length costs two additions.
        m.issued[group.pc] += per_block
        m.issued[last + 1] -= per_block
        if tallies is not None:
            m.tallies[tallies.leaders[group.pc]] += 32 * per_block if m.view.full else threads_by_block(m, group.mask)
        if m.watcher:
            m.watcher.issues(group.warps, group.pc, last)

    def _doubt_what_depends_on_time(self, ran: Bools) -> None:
        """Record what waits make unknown about the instructions that ran, (n,)."""
        program, m = self.program, self.machine
        # What depends on how long the hardware takes is unknown: how often a wait asks, and what follows from it.
        waits = program.timing
        for branch, region in sorted(waits.regions.items()):
            for number in sorted(region) if ran[branch] else ():
                self.doubt(number, waits.source(branch))
        guarded = program.tallies.guarded if program.tallies else {}
        for number in waits.tainted:
            if ran[number] and number in guarded:
                m.unsure.setdefault(guarded[number], Unknown(Decided.PREDICATE, waits.source(number)))
            if ran[number] and program.instructions[number].row.may_be_counted:
                m.log.miss(number, "what it accesses", waits.source(number))
            if ran[number] and m.traffic is not None and accesses(program.instructions[number]):
                m.traffic.miss(number, "what it accesses", waits.source(number))

    def _leave(self, group: Group, last: int) -> None:
        """Execute the control instruction at the end of the basic block, if there is one."""
        instruction = self.program.instructions[last]
        self.machine.now = last
        word = control_word(instruction)
        if instruction.never or (word not in HANDLERS and not instruction.row.control):
            self.add(self.after(last), group.warps, group.mask)
        elif word in HANDLERS:
            HANDLERS[word](self, group, last, instruction)
        else:
            raise Unsupported(instruction.offset, instruction.text)

    # ------------------------------------------------------------------------------------------ who is next

    def _next(self) -> Group | None:
        """Return the threads at the lowest address, over all warps, or those that keep running."""
        m = self.machine
        while not m.ready:
            if m.resting:
                m.ready, m.resting = m.resting, []
            elif not self._release():
                return None
        if len(m.ready) == 1:
            return m.ready.pop()
        pc = m.ready[-1].pc if self.onward else min(group.pc for group in m.ready)
        chosen: list[Group] = []
        taken = np.zeros(m.warps, bool)
        others = []
        for group in reversed(m.ready):
            # Two parts of a warp may be at the same instruction and not have reconverged: they issue it one after the
            # other.
            if group.pc == pc and not taken[group.warps].any():
                taken[group.warps] = True
                chosen.append(group)
            else:
                others.append(group)
        m.ready = others
        if len(chosen) == 1:
            return chosen[0]
        warps = np.concatenate([group.warps for group in chosen])
        mask = np.concatenate([group.mask for group in chosen])
        # Ascending, as a view's warps have to be: the requests of a block are then side by side (`accesses.period_of`).
        order = np.argsort(warps)
        return Group(pc, warps[order], mask[order])

    def _release(self) -> bool:
        """Release complete barriers, including those completed by exits; return whether any thread can run.

        What the hardware does only when it takes long comes last. Raises Stuck.
        """
        for release in (self._release_complete, self.release_barriers, self.time_out, self.go_on_collectively):
            release()
            if self.machine.ready:
                return True
        self.check_stuck()
        return False

    def _release_complete(self) -> None:
        """Release all barriers but those of blocks."""
        self.recheck_convergence()
        self.release_phases()
        self.release_clusters()

    # ------------------------------------------------------------------------------------------ threads in circles

    def _rests(self, group: Group, last: int) -> bool:
        """Return whether the group's threads run in circles until others continue. Raises Endless, Circling.

        How often their loop runs depends on the time of the others, so it is unknown.
        """
        m, instruction = self.machine, self.program.instructions[last]
        self.clock.ran(len(group.warps), last + 1 - group.pc, len(self.program.runs[group.pc]) + 1)
        if self.clock.expired:
            raise Endless(instruction.offset, instruction.text, self.clock.timeout_s, self.clock.issued)
        if not self.circles.closed(group):
            return False
        goes_on = self.circles.first_time(group)
        if goes_on:
            # Make ready what can run besides the current group: resting threads, those whose barriers are complete.
            m.ready, m.resting = m.ready + m.resting, []
            self._release_complete()
            self.release_barriers()
        if not goes_on or not m.ready:
            raise Circling(instruction.offset, instruction.text)
        m.resting.append(group)
        for leader in sorted(self.circles.visited):
            last = self.program.flow.last[leader]
            for number in range(leader, last + 1):
                self.doubt(number, last, f"{Decided.HOW_OFTEN}, waiting for other threads,")
        self.circles.forget()
        return True
