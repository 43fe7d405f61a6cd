"""Where threads of a warp that have diverged reconverge, and what they may have run since they were together.

All that were together at a BSSY reconverge at its BSYNC, others at a WARPSYNC. Regions list basic blocks by their first
instructions; they are overestimated, as paths through functions treat a return as one to any caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ncu_swizzle.emulate.code import BARRIER, INTEGER, SassInstruction
from ncu_swizzle.emulate.effects import PHASE_CHECK, Effects, control_word, numbers_in
from ncu_swizzle.emulate.flow import ANYWHERE, EXIT, Flow, reachable
from ncu_swizzle.emulate.machine import ALL_MASK
from ncu_swizzle.emulate.registers import is_uniform

SYNCHRONISING = frozenset(("BSYNC", "WARPSYNC"))
LEAVING = frozenset(("EXIT", "KILL", "BREAK"))


@dataclass(frozen=True, kw_only=True)
class Region:
    """What threads may run between where they were together and where they reconverge."""

    sync: int
    onward: frozenset[int]  # where they continue
    begins: tuple[int, ...]  # the BSSYs
    blocks: frozenset[int]  # by their first instructions
    written: frozenset[int]  # registers that they may write once they have diverged
    leaving: tuple[int, ...]  # where some may end, or no longer be waited for
    closed: bool  # whether every way in passes a BSSY, so that all that were together are waited for
    heals: bool  # whether all of them arrive, except exited ones


def _barriers(instruction: SassInstruction) -> set[int]:
    return {operand.number for operand in instruction.operands if operand.kind == BARRIER}


def of_everyone(warpsync: SassInstruction) -> bool:
    """Return whether a WARPSYNC is for all threads of a warp."""
    masks = [operand.number for operand in warpsync.operands if operand.kind == INTEGER]
    return warpsync.has("ALL") or not warpsync.operands or masks[:1] == [int(ALL_MASK)]


@dataclass(eq=False)
class Regions:
    """The regions of a kernel, for the branches at which lanes of a warp may diverge."""

    instructions: Sequence[SassInstruction]
    flow: Flow
    effects: Sequence[Effects]
    outside: frozenset[int]  # calls of functions that are not part of the module
    divergent: set[int] = field(default_factory=set)
    _regions: dict[int, Region] = field(default_factory=dict)  # by BSYNC or WARPSYNC

    def clear(self) -> None:
        """Forget what followed from fewer divergent branches."""
        self._regions.clear()

    @cached_property
    def synchronising(self) -> tuple[int, ...]:
        return tuple(n for n, each in enumerate(self.instructions) if each.opcode in SYNCHRONISING)

    @cached_property
    def followers(self) -> dict[int, tuple[int, ...]]:
        """By first instruction of a basic block: where its threads may continue, or reconverge."""
        successors = {}
        for leader in self.flow.leaders:
            last = self.flow.last[leader]
            onward = set(self.flow.successors(last))
            if last in self.outside:
                onward = {self.flow.following(last)}
            if self.instructions[last].opcode == "BSYNC":
                onward.update(self._resumed(last))
            successors[leader] = tuple(onward - {EXIT, ANYWHERE})
        return successors

    @cached_property
    def preceding(self) -> dict[int, tuple[int, ...]]:
        before: dict[int, list[int]] = {leader: [] for leader in self.flow.leaders}
        for leader, onward in self.followers.items():
            for target in onward:
                before[target].append(leader)
        return {leader: tuple(found) for leader, found in before.items()}

    @cached_property
    def _joining(self) -> dict[int, tuple[int, ...]]:
        """By BSYNC: the BSSYs whose threads may reconverge there."""
        begins = [n for n, each in enumerate(self.instructions) if each.opcode == "BSSY"]
        moved = any(each.opcode == "BMOV" for each in self.instructions)  # barriers go through registers
        begins_by_end = {}
        for sync in self.synchronising:
            if self.instructions[sync].opcode == "BSYNC":
                barrier, here = self.instructions[sync].operands[0].number, {sync, self.flow.following(sync)}
                same = [n for n in begins if moved or self.instructions[n].operands[0].number == barrier]
                exact = [] if moved else [n for n in same if here.intersection(self.flow.targets(n))]
                begins_by_end[sync] = tuple(exact or same)
        return begins_by_end

    @cached_property
    def _ending(self) -> dict[int, set[int]]:
        """By BSSY: the basic blocks that end with a BSYNC at which its threads may reconverge."""
        blocks_by_begin: dict[int, set[int]] = {}
        for sync, begins in self._joining.items():
            for begin in begins:
                blocks_by_begin.setdefault(begin, set()).add(self.flow.first(sync))
        return blocks_by_begin

    def _resumed(self, sync: int) -> set[int]:
        """Return where threads continue after a BSYNC or WARPSYNC."""
        begins = self._joining.get(sync, (sync,))
        return {self.flow.following(sync), *(t for n in begins for t in self.flow.targets(n))} - {sync}

    def region(self, sync: int) -> Region:
        """Return what threads that reconverge at an instruction may have run since they were together."""
        if sync not in self._regions:
            bsync = self.instructions[sync].opcode == "BSYNC"
            self._regions[sync] = self._since_bssy(sync) if bsync else self._since_any_branch(sync)
        return self._regions[sync]

    def _since_bssy(self, sync: int) -> Region:
        begins = self._joining[sync]
        ends = set[int]().union(*(self._ending[begin] for begin in begins))
        starts = {self.flow.first(begin) for begin in begins}
        reached = self._reach(
            [after for start in starts for after in self.followers[start]], self.followers, ends | starts
        )
        blocks = self._reach(ends, self.preceding, starts, within=reached)
        around = self._reach([0], self.followers, starts) - starts
        # Threads that ask an mbarrier again yield: others do not always wait for them (see `liveness`).
        asks = any(control_word(self.instructions[self.flow.last[leader]]) == PHASE_CHECK for leader in blocks)
        leaving, closed = self._leaving(reached, begins), bool(begins) and not blocks & around and not asks
        return Region(
            sync=sync,
            onward=frozenset(self._resumed(sync)),
            begins=begins,
            blocks=frozenset(blocks),
            written=self._written([b for b in self.divergent if self.flow.first(b) in blocks], blocks, ends),
            leaving=leaving,
            closed=closed,
            heals=closed and not any(self.instructions[n].opcode == "BREAK" for n in leaving),
        )

    def _since_any_branch(self, sync: int) -> Region:
        end = self.flow.first(sync)
        blocks = self._reach([end], self.preceding, set())
        apart = [b for b in self.divergent if self.flow.first(b) in blocks and self._still_apart(b, end)]
        everyone = of_everyone(self.instructions[sync])
        return Region(
            sync=sync,
            onward=frozenset(self._resumed(sync)),
            begins=(),
            blocks=frozenset(blocks),
            written=self._written(apart, blocks, {end}),
            leaving=self._leaving(self._reach([0], self.followers, {end}), ()),
            closed=everyone,
            heals=everyone,
        )

    def _leaving(self, blocks: set[int], begins: Iterable[int]) -> tuple[int, ...]:
        """Return where threads may end in some basic blocks, or leave the barrier of these BSSYs."""
        barriers = {self.instructions[begin].operands[0].number for begin in begins}
        lasts = [self.flow.last[leader] for leader in sorted(blocks)]
        return tuple(
            last for last in lasts
            if self.instructions[last].opcode in LEAVING
            and (self.instructions[last].opcode != "BREAK" or barriers & _barriers(self.instructions[last]))
        )  # fmt: skip

    def _still_apart(self, branch: int, end: int) -> bool:
        """Return whether threads that diverge at a branch may still be apart when they reach a basic block."""
        block = self.flow.first(branch)
        regions = [self.region(sync) for sync in self._joining]
        healing = {self.flow.first(region.sync) for region in regions if region.heals and block in region.blocks}
        return end in self._reach(self.followers[block], self.followers, healing)

    def _written(self, branches: Iterable[int], blocks: set[int], ends: set[int]) -> frozenset[int]:
        """Return the registers that threads may write in some basic blocks after diverging at these branches."""
        bits = 0
        for branch in branches:
            for leader in self._reach(self.followers[self.flow.first(branch)], self.followers, ends, within=blocks):
                for number in range(leader, self.flow.last[leader] + 1):
                    bits |= self.effects[number].writes
        return frozenset(number for number in numbers_in(bits) if not is_uniform(number))

    @staticmethod
    def _reach(
        first: Iterable[int], onward: dict[int, tuple[int, ...]], ends: set[int], within: set[int] | None = None
    ) -> set[int]:
        """Return the basic blocks that can be reached, up to and including `ends`."""
        return reachable(first, lambda leader: () if leader in ends else onward[leader], within)
