"""The mbarriers of the running blocks: phases, pending arrivals, transaction counts (PTX ISA, "mbarrier")."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.smem.banks import Bools, Ints


@dataclass
class Barrier:
    """The mbarriers at one address, one per block."""

    expected: Ints  # arrivals of a phase
    pending: Ints  # of the current phase
    transactions: Ints  # bytes that it still waits for; negative if they come first
    phase: Ints  # parity of the current phase
    unsure: Bools  # whether an arrival was unknown: it may complete at any time
    blurred: Bools  # whether bytes were unknown: it completes once nothing else can happen
    completed: Ints  # phases so far

    @classmethod
    def nowhere(cls, blocks: int) -> Barrier:
        """Return barriers that were not initialised: nothing is known of them."""
        pending, transactions, expected, phase, completed = (np.zeros(blocks, np.int64) for _ in range(5))
        return cls(expected, pending, transactions, phase, np.ones(blocks, bool), np.zeros(blocks, bool), completed)

    def complete(self, blocks: Ints) -> None:
        """Start the next phase in these blocks."""
        self.phase[blocks] ^= 1
        self.pending[blocks] = self.expected[blocks]
        self.transactions[blocks] = 0
        self.blurred[blocks] = False
        self.completed[blocks] += 1


@dataclass
class Barriers:
    """All mbarriers, by their offset in shared memory. `version` grows with every change."""

    blocks: int
    at: dict[int, Barrier] = field(default_factory=dict)
    version: int = 0

    def _barrier(self, offset: int) -> Barrier:
        self.version += 1
        if offset not in self.at:
            self.at[offset] = Barrier.nowhere(self.blocks)
        return self.at[offset]

    def initialise(self, offset: int, blocks: Ints, count: Ints) -> None:
        """Start the first phase of the barrier in these blocks."""
        barrier = self._barrier(offset)
        barrier.expected[blocks] = barrier.pending[blocks] = count
        barrier.transactions[blocks] = barrier.phase[blocks] = 0
        barrier.unsure[blocks] = barrier.blurred[blocks] = False

    def update(self, offset: int, blocks: Ints, arrivals: Ints, transactions: Ints, drop: bool = False) -> None:
        """Add arrivals and expected bytes, one row each; a block may be named repeatedly.

        `drop`: the arrivals are not expected again in later phases.
        """
        barrier = self._barrier(offset)
        if drop:
            np.subtract.at(barrier.expected, blocks, arrivals)
        np.subtract.at(barrier.pending, blocks, arrivals)
        np.add.at(barrier.transactions, blocks, transactions)
        barrier.unsure |= barrier.pending < 0
        touched = np.unique(blocks)
        sure = ~barrier.unsure[touched] & ~barrier.blurred[touched]
        done = (barrier.pending[touched] == 0) & (barrier.transactions[touched] == 0) & sure
        barrier.complete(touched[done])

    def doubt(self, blocks: Ints, offset: int | None = None) -> None:
        """Record that something unknown happened to the barrier, or to any of these blocks."""
        for barrier in self.at.values() if offset is None else (self._barrier(offset),):
            barrier.unsure[blocks] = True
        self.version += 1

    def blur(self, offset: int, blocks: Ints) -> None:
        """Record that an unknown number of bytes was expected or has arrived."""
        self._barrier(offset).blurred[blocks] = True

    def settle(self) -> None:
        """Complete the phases that wait for bytes alone, now that every copy has been issued and no thread can run."""
        for barrier in self.at.values():
            done = np.flatnonzero(barrier.blurred & (barrier.pending == 0) & ~barrier.unsure)
            if len(done):
                barrier.complete(done)
                self.version += 1

    def phase(self, offset: int, block: int) -> int | None:
        """Return how many phases of a block's barrier have completed; None if that is not known."""
        barrier = self.at.get(offset)
        if barrier is None or barrier.unsure[block] or barrier.blurred[block]:
            return None
        return int(barrier.completed[block])

    def lacking(self, offset: int, block: int) -> int:
        """Return the bytes that are missing (negative: too many) if nothing else keeps a phase from completing."""
        barrier = self.at.get(offset)
        if barrier is None or barrier.unsure[block] or barrier.blurred[block] or barrier.pending[block]:
            return 0
        return int(barrier.transactions[block])

    def passed(self, offset: int, blocks: Ints, parity: Ints) -> Bools:
        """Say whether the phase of this parity is complete; False if unsure."""
        barrier = self.at.get(offset)
        if barrier is None:
            return np.zeros(len(blocks), bool)
        complete: Bools = (barrier.phase[blocks] != parity) & ~barrier.unsure[blocks]
        return complete
