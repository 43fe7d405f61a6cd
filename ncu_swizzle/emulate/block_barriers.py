"""Where the threads of a block wait for each other: BAR."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate.groups import Group, Waiting, remember_vote, rows, vote
from ncu_swizzle.emulate.reconvergence import Reconverging
from ncu_swizzle.smem.banks import Bools


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
