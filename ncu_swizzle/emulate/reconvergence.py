"""Where the threads of a warp wait for each other: convergence barriers (BSSY, BSYNC) and WARPSYNC."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate.faults import Stuck
from ncu_swizzle.emulate.flow import EXIT
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.waits import Group
from ncu_swizzle.smem.operations import Bools, Ints

# The threads of a run that are not waiting, in groups at the same instruction.


@dataclass
class Threads:
    """Threads that run a program on a machine."""

    program: PreparedCode
    machine: Machine
    ready: list[Group] = field(default_factory=list, init=False)

    def add(self, pc: int, warps: Ints, mask: Bools) -> None:
        """Continue the threads of the mask, if any, at an instruction."""
        used = mask.any(axis=1)
        if not used.any():
            return
        if not used.all():
            warps, mask = warps[used], mask[used]
        if pc == EXIT:
            self._end(warps, mask)
            return
        self.ready.append(Group(pc, warps, mask))

    def after(self, pc: int) -> int:
        """Return the next instruction."""
        return self.program.flow.following(pc)

    def enter(self, group: Group) -> None:
        self.machine.see(group.warps, group.mask)

    def _end(self, warps: Ints, mask: Bools) -> None:
        self.machine.live[warps] &= ~mask


@dataclass
class Reconverging(Threads):
    """Threads that diverge and reconverge."""

    reconvergence: list[int] = field(default_factory=lambda: [EXIT], init=False)  # by token: where threads reconverge
    arrived: Bools = field(init=False)  # (16, W, 32): lanes that wait at each convergence barrier
    synced: Bools = field(init=False)  # (W, 32): lanes that wait at a WARPSYNC
    wanted: Bools = field(init=False)  # (W, 32): lanes that a WARPSYNC waits for
    waits_at: Ints = field(init=False)  # (W, 32): the instruction that a waiting lane is at

    def __post_init__(self) -> None:
        warps = self.machine.warps
        self.arrived = np.zeros((16, warps, 32), bool)
        self.synced, self.wanted = np.zeros((warps, 32), bool), np.zeros((warps, 32), bool)
        self.waits_at = np.zeros((warps, 32), np.int64)

    def reconverge(self, warps: Ints, mask: Bools, barrier: int, pc: int) -> None:
        """Let threads wait at a convergence barrier, and continue those whose barrier is complete."""
        m = self.machine
        tokens = m.tokens[barrier][warps]
        mine = np.take_along_axis(tokens, mask.argmax(axis=1)[:, None], axis=1)
        expected = (tokens == mine) & m.live[warps] & (mine != 0)
        self.arrived[barrier][warps] |= mask
        there = self.arrived[barrier][warps] & ((tokens == mine) | mask)
        complete = ~(expected & ~there).any(axis=1)
        self.waits_at[warps] = np.where(mask, pc, self.waits_at[warps])
        if complete.any():
            done, lanes = warps[complete], there[complete]
            self._cleared(barrier, done, lanes)
            tokens = mine[complete, 0]
            if bool((tokens == tokens[0]).all()):  # mostly
                self.add(self._target(int(tokens[0]), self.after(pc)), done, lanes)
                return
            onward = np.array([self._target(int(token), self.after(pc)) for token in tokens])
            for target in np.unique(onward):
                self.add(int(target), done[onward == target], lanes[onward == target])

    def _target(self, token: int, otherwise: int) -> int:
        """Return where the threads of an execution of BSSY reconverge; 0 is no token."""
        return self.reconvergence[token] if 0 < token < len(self.reconvergence) else otherwise

    def awaited_by_others(self, group: Group) -> set[int]:
        """Return where other threads of the group's warps wait, or will wait, for it to reconverge."""
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

    def _cleared(self, barrier: int, warps: Ints, lanes: Bools) -> None:
        self.arrived[barrier][warps] &= ~lanes
        self.machine.tokens[barrier][warps] = np.where(lanes, 0, self.machine.tokens[barrier][warps])

    def recheck_convergence(self) -> None:
        """Check all convergence barriers again: threads that they wait for may have exited or left."""
        m = self.machine
        for barrier in np.flatnonzero(self.arrived.any(axis=(1, 2))):
            for warp in np.flatnonzero(self.arrived[barrier].any(axis=1)):
                tokens = m.tokens[barrier][warp]
                for token in np.unique(tokens[self.arrived[barrier][warp]]):
                    there = self.arrived[barrier][warp] & (tokens == token)
                    if not ((tokens == token) & m.live[warp] & ~there).any():
                        after = self.after(int(self.waits_at[warp][there][0]))
                        self._cleared(int(barrier), np.array([warp]), there[None])
                        self.add(self._target(int(token), after), np.array([warp]), there[None])
        self._recheck_warps()

    def _recheck_warps(self) -> None:
        for warp in np.flatnonzero(self.synced.any(axis=1)):
            there = self.synced[warp]
            if not (self.wanted[warp] & self.machine.live[warp] & ~there).any():
                self._go_on(int(warp), there.copy())

    def _go_on(self, warp: int, lanes: Bools) -> None:
        self.synced[warp] &= ~lanes
        for pc in np.unique(self.waits_at[warp][lanes]):
            part = lanes & (self.waits_at[warp] == pc)
            self.add(self.after(int(pc)), np.array([warp]), part[None])

    def sync_warp(self, group: Group, pc: int, wanted: Bools) -> None:
        """Let threads wait for the threads of their warp in a mask, (G, 32)."""
        m = self.machine
        self.wanted[group.warps] = wanted
        self.synced[group.warps] |= group.mask
        self.waits_at[group.warps] = np.where(group.mask, pc, self.waits_at[group.warps])
        there = self.synced[group.warps]
        complete = ~(wanted & m.live[group.warps] & ~there).any(axis=1)
        alone = (there == group.mask).all(axis=1)
        together = complete & alone
        if together.any():
            self.synced[group.warps[together]] = False
            self.add(self.after(pc), group.warps[together], group.mask[together])
        for row in np.flatnonzero(complete & ~alone):
            warp = int(group.warps[row])
            self._go_on(warp, self.synced[warp].copy())

    def go_on_collectively(self) -> None:
        """Let threads go on from a WARPSYNC.COLLECTIVE whose missing threads wait for these at a convergence barrier.

        ptxas writes it around a shuffle or vote in code that may diverge. A program that called one with a full mask in
        a branch that only some threads took ended on an H100; what it read of the others is unknown.
        """
        for warp in np.flatnonzero(self.synced.any(axis=1)):
            there = self.synced[warp]
            missing = self.wanted[warp] & self.machine.live[warp] & ~there
            waiting = self.program.instructions[int(self.waits_at[warp][there][0])]
            if waiting.has("COLLECTIVE") and not (missing & ~self.arrived[:, warp].any(axis=0)).any():
                self._go_on(int(warp), there.copy())

    def check_stuck(self) -> None:
        """Raise Stuck if threads wait for others of their warp, which no longer come."""
        if not self.synced.any() and not self.arrived.any():
            return
        warp, lane = np.argwhere(self.synced | self.arrived.any(axis=0))[0]
        number = int(self.machine.thread[warp, lane])
        instruction = self.program.instructions[int(self.waits_at[warp, lane])]
        raise Stuck(
            instruction.offset, instruction.text, f"thread {number} waits for threads of its warp that never arrive"
        )
