"""What happens before what, by vector clocks: barriers, arrivals, fences, waits.

Happens-before (Mattern, "Virtual Time and Global States of Distributed Systems"; Flanagan and Freund, "FastTrack", PLDI
2009). Clocks count events. Whatever advances by itself, an agent, has its own component: each warp; the copies of a
warp (cp.async, and bulk copies that read); the wgmmas of a warpgroup; the tcgen05.mma, cp and shift of a warp, in their
order; its tcgen05.st; what an mbarrier counts (bulk and tensor copies that write). An access starts after all its
warp knows, and has ended for any agent whose clock has at least its event for its agent: a warp for itself at
once, for copies after a wait. A second clock has what a warp made visible to the async proxy (fence.proxy.async).

N warps run in a domain, the blocks of a cluster, with A agents. Lanes matter where some of a warp arrive, fence or wait
without the others. Lane 0 that arrives at an mbarrier releases its own accesses, and those of other lanes before the
last __syncwarp(): so there is a component for each lane, besides the warp's, which is what holds for all of
them. And lanes that have waited alone know more than the others until the next __syncwarp(): they have their own row
in the table of clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.events import LOCK, Event, Kind
from ncu_swizzle.emulate.machine import ALL_MASK, Machine
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.descriptors import WARPS
from ncu_swizzle.smem.operations import Bools, Ints

ALWAYS = np.int32(2**31 - 1)  # a warp knows all of its own accesses
ALL_LANES = -1  # of an access that lanes make together
LANES = operations.WARP + 1  # components and rows of a warp: of each lane, and of all together
KEPT_PHASES = 8  # of an mbarrier, for warps that are late
_OFFSET = {Kind.INITIALISE: 1, Kind.COUNT: 1, Kind.PASS: 0, Kind.COPY_IN: 4}  # of their data: an mbarrier's
_BY_LANES = (Kind.COUNT, Kind.MEMORY, Kind.PASS)  # what some lanes of a warp may do alone


@dataclass(kw_only=True)
class _Mbarrier:
    """An mbarrier's agent, and the clocks of arrivals: in phases that are complete, and in the current one."""

    agent: int
    done: Any  # (2, A): what happened before, and what is visible to the async proxy
    pending: Any
    completed: int
    history: dict[int, Any] = field(default_factory=dict)  # `done`, by number of complete phases


@dataclass(kw_only=True)
class _Gate:
    """A named barrier of a block: who arrived in its current generation, and what is known about earlier ones."""

    column: int  # of clocks: the event at which the last generation ended that a warp knows of
    generation: int = 0
    opened: int = 0  # the event at which the last one ended
    arrived: list[Any] = field(default_factory=list)  # clocks of BAR.ARV
    # Generations entered by a warp that did not know the previous one had ended: had it been faster, it would
    # have been in that one, in place of another warp. So neither of the two orders anything.
    doubted: frozenset[int] = frozenset()


@dataclass(kw_only=True)
class HappensBefore:
    """The order of the events of one domain."""

    machine: Machine
    instructions: Sequence[SassInstruction]
    blocks: range  # of the running ones: those of one cluster
    lacking: dict[str, int | None] = field(default_factory=dict)  # what is not followed, and at which byte of the code
    # Whether a wait that is not followed was passed: only lanes of a warp are judged from then on. After a lock, or a
    # flag, until all warps meet at a barrier.
    lost: bool = False
    locked: bool = False
    n: int = field(init=False)  # warps
    copies: int = field(init=False)  # the agent of the first warp's copies, and of the first warpgroup's wgmmas
    tiles: int = field(init=False)
    agents: int = field(init=False)  # that are known beforehand; those of mbarriers follow
    now: int = field(init=False)  # the event, from 1
    # By named barrier: the generations that an earlier pass over the events doubted.
    doubted: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)

    def _begin_clocks(self, events: Sequence[Event]) -> None:
        """Make the clocks; `agents` has been counted."""
        offsets = {int(np.ravel(event.data[_OFFSET[event.kind]])[0]) for event in events if event.kind in _OFFSET}
        named = {event.data[0] for event in events if event.kind in (Kind.ARRIVE, Kind.BARRIER)}
        room = self.agents + (len(offsets) + len(named)) * len(self.blocks)
        self.by_lane = room if any(event.kind in _BY_LANES for event in events) else None
        if self.by_lane is not None:
            room += LANES * self.n
        self.free_column = self.agents
        self.clock, self.visible = np.zeros((2, self.n, room), np.int32)
        np.fill_diagonal(self.clock, ALWAYS)
        self.rows = np.repeat(np.arange(self.n)[:, None], LANES, axis=1)  # (N, 33): where a lane's clock is
        self.spare: list[int] = []  # rows that no lane has
        self.apart: set[int] = set()  # warps whose lanes have several rows
        self.fences: dict[int, list[tuple[int, Any]]] = {}  # by warp: lanes that fenced, and what they passed on
        self.mbarriers: dict[tuple[int, int], _Mbarrier] = {}
        self.gates: dict[tuple[int, int], _Gate] = {}  # by number and block
        self.in_step = np.zeros(self.n, np.int32)  # by warp, the event since which its lanes have waited for each other
        self.in_parts: Any = None  # what each lane knows of each other so, if not all of a warp wait for each other
        self.groups: list[list[int]] = [[] for _ in range(self.n)]
        self.tile_groups: list[list[int]] = [[] for _ in range(-(-self.n // WARPS))]
        self.cluster_arrivals = np.zeros(self.n, np.int64)  # by warp
        self.at_cluster: dict[int, Any] = {}  # clocks of arrivals at the cluster's barrier, by how many
        self.arrived_at = np.zeros(self.n, np.int32)  # by warp: the event of its last arrival there

    # ------------------------------------------------------------------------------------------ clocks

    def _later(self, table: Any, made: Any, last: Any, agents: Any, lanes: Any) -> Bools:
        """Return which accesses, the `last` ones, had not ended for those who make others by `made`, (K,).

        They are of `agents` and, if these are warps, of `lanes` of theirs. `table` is one of the two clocks.
        """
        rows = self.rows[made.warps, made.lanes]
        later: Bools = np.asarray(last > table[rows, agents])
        if self.by_lane is None or not later.any():
            return later
        of_warp = np.asarray(agents) < self.n
        columns = self.by_lane + np.where(of_warp, agents, 0) * LANES + np.asarray(lanes) % LANES
        later &= ~(of_warp & (last <= table[rows, columns]))
        return later

    def _columns(self, warp: int) -> slice:
        """Return the components of a warp's lanes."""
        assert self.by_lane is not None
        return slice(self.by_lane + warp * LANES, self.by_lane + (warp + 1) * LANES)

    def _published(self, warps: Ints, bits: Any = None) -> Any:
        """Return the clocks that warps pass on, (G, 2, columns): what they know now, their own accesses included.

        `bits`: by warp, the lanes that pass it on, if not all do.
        """
        clocks = np.stack([self.clock[self.rows[warps, ALL_LANES]], self.visible[self.rows[warps, ALL_LANES]]], axis=1)
        clocks[np.arange(len(warps)), 0, warps] = self.now
        if self.by_lane is None:
            return clocks
        masks = [ALL_MASK] * len(warps) if bits is None else bits
        for clock, warp, mask in zip(clocks, warps.tolist(), masks, strict=True):
            if mask == ALL_MASK:
                clock[0, self._columns(warp)] = self.now
                continue
            lanes = [lane for lane in range(operations.WARP) if int(mask) >> lane & 1]
            rows = np.unique(self.rows[warp, lanes])
            clock[:] = self.clock[rows].max(axis=0), self.visible[rows].max(axis=0)
            released = np.maximum(clock[0, self._columns(warp)], self.in_step[warp])
            if self.in_parts is not None:
                released = np.maximum(released, self.in_parts[warp][lanes].max(axis=0))
            # ldmatrix and its like are .sync: a lane goes on once all have executed it.
            released[[*lanes, ALL_LANES]] = self.now
            clock[0, self._columns(warp)], clock[0, warp] = released, released.min()
        return clocks

    def _acquire(self, warps: Ints, clock: Any, bits: Any = None) -> None:
        """Let warps, or each one's lanes in `bits`, know what a clock, (2, columns), or each one's own clock does."""
        if bits is not None:
            for at, (warp, mask) in enumerate(zip(warps.tolist(), bits, strict=True)):
                rows = self._rows_of(warp, int(mask))
                self._join(rows, clock if clock.ndim == 2 else clock[at])
            return
        self._join(warps, clock)
        for warp in self.apart.intersection(warps.tolist()) if self.apart else ():
            one = clock if clock.ndim == 2 else clock[int(np.flatnonzero(warps == warp)[0])]
            self._join(np.unique(self.rows[warp]), one)

    def _join(self, rows: Ints, clock: Any) -> None:
        self.clock[rows] = np.maximum(self.clock[rows], clock[..., 0, :])
        self.visible[rows] = np.maximum(self.visible[rows], clock[..., 1, :])

    def _rows_of(self, warp: int, mask: int) -> Ints:
        """Return the rows of some lanes, which no other lane has from now on, and of what all lanes know together."""
        inside = np.array([mask >> lane & 1 for lane in range(operations.WARP)], bool)
        if inside.all():
            return np.unique(self.rows[warp])
        mine = self.rows[warp, :-1]
        shared = np.intersect1d(mine[inside], np.append(mine[~inside], self.rows[warp, ALL_LANES])).tolist()
        for row in shared:
            mine[inside & (mine == row)] = self._copied(row)
        if self.rows[warp, ALL_LANES] in mine:
            self.rows[warp, ALL_LANES] = self._copied(int(self.rows[warp, ALL_LANES]))
        self.apart.add(warp)
        return np.append(np.unique(mine[inside]), self.rows[warp, ALL_LANES])

    def _copied(self, row: int) -> int:
        """Return a new row that holds what another one does."""
        if not self.spare:
            self.spare = list(range(len(self.clock), 2 * len(self.clock)))
            self.clock, self.visible = (
                np.concatenate([table, np.zeros_like(table)]) for table in (self.clock, self.visible)
            )
        new = self.spare.pop()
        self.clock[new], self.visible[new] = self.clock[row], self.visible[row]
        return new

    def _converge(self, warps: Ints) -> None:
        """Let all lanes of warps know what any of them knows."""
        self.in_step[warps] = self.now
        for warp in self.apart.intersection(warps.tolist()) if self.apart else ():
            rows = np.unique(self.rows[warp])
            self.clock[warp], self.visible[warp] = self.clock[rows].max(axis=0), self.visible[rows].max(axis=0)
            self.spare += [row for row in rows.tolist() if row != warp]
            self.rows[warp] = warp
            self.apart.remove(warp)

    def _mbarrier(self, block: int, offset: int) -> _Mbarrier:
        mbarrier = self.mbarriers.get((block, offset))
        if mbarrier is None:
            nothing = np.zeros((2, self.clock.shape[1]), np.int32)
            mbarrier = _Mbarrier(agent=self._column(), done=nothing, pending=nothing.copy(), completed=0)
            self.mbarriers[block, offset] = mbarrier
        return mbarrier

    def _column(self) -> int:
        self.free_column += 1
        return self.free_column - 1

    def _settle(self, mbarrier: _Mbarrier, completed: int) -> None:
        """Order what has arrived at an mbarrier before a phase that is complete by now."""
        if completed > mbarrier.completed:
            mbarrier.done = np.maximum(mbarrier.done, mbarrier.pending)
            mbarrier.done[:, mbarrier.agent] = self.now
            mbarrier.pending[:] = 0
            mbarrier.completed = completed
            mbarrier.history[completed] = mbarrier.done
            mbarrier.history.pop(completed - KEPT_PHASES, None)

    # ------------------------------------------------------------------------------------------ lanes of a warp

    def _in_warp(self, event: Event, warps: Ints, rows: slice) -> None:
        if event.data is None:
            self._converge(warps)
            return
        for warp, masks in zip(warps.tolist(), event.data[rows], strict=True):
            for mask in np.unique(masks).tolist():
                self._in_part(warp, mask)

    def _in_part(self, warp: int, mask: int) -> None:
        """Lanes in a mask wait for each other: each then knows what any of them knew of others."""
        if mask == ALL_MASK:
            self._converge(np.array([warp]))
            return
        if self.in_parts is None:
            self.in_parts = np.zeros((self.n, LANES, LANES), np.int32)
        lanes = [lane for lane in range(operations.WARP) if mask >> lane & 1]
        if not lanes:
            return
        pairs = self.in_parts[warp]
        pairs[lanes] = pairs[lanes].max(axis=0)
        pairs[np.ix_(lanes, lanes)] = self.now
        # The last ones are of all lanes together, ALL_LANES.
        pairs[:-1, -1] = pairs[:-1, :-1].min(axis=1)
        pairs[-1] = pairs[:-1].min(axis=0)
        if warp in self.apart:
            rows = np.unique(self.rows[warp, lanes])
            both = np.stack([self.clock[rows].max(axis=0), self.visible[rows].max(axis=0)])
            self._join(self._rows_of(warp, mask), both)

    def _unmet(self, made: Any, last: Any, others: Any) -> Bools:
        """Return which accesses by `others` of their warp the lanes do not know of, directly or not."""
        unmet: Bools = np.asarray((last > self.in_step[made.warps]) & (others != made.lanes))
        if self.in_parts is not None and unmet.any():
            unmet &= last > self.in_parts[made.warps, made.lanes, others]
        if self.by_lane is not None and unmet.any():  # by way of an mbarrier, say
            columns = self.by_lane + made.warps * LANES + np.asarray(others) % LANES
            unmet &= last > self.clock[self.rows[made.warps, made.lanes], columns]
        return unmet

    # ------------------------------------------------------------------------------------------ barriers of a block

    def _barrier(self, event: Event, warps: Ints, rows: slice) -> None:
        """Warps leave a barrier of their block: each knows what all knew, and those that only arrived.

        If more warps come to a named barrier than a generation takes, the emulator's schedule decides which ones
        meet: such generations order nothing.
        """
        number, count, waits = event.data
        blocks = warps // self.machine.per_block
        for block in np.unique(blocks).tolist():
            inside = blocks == block
            here = warps[inside & waits[rows]]
            self._converge(here)
            if count:
                doubted = self.doubted.get((number, block), frozenset())
                self._open(self._gate(number, block), doubted, here, int(inside.sum()))
            elif len(here):
                self._acquire(here, self._published(here).max(axis=0))
                if self.locked and len(here) == self.n:
                    self.lost = self.locked = False

    def _gate(self, number: int, block: int) -> _Gate:
        gate = self.gates.get((number, block))
        if gate is None:
            gate = self.gates[number, block] = _Gate(column=self._column())
        return gate

    def _arrive(self, event: Event, warps: Ints, _rows: slice) -> None:
        for warp, clock in zip(warps.tolist(), self._published(warps), strict=True):
            gate = self._gate(event.data[0], warp // self.machine.per_block)
            self._enters(gate, warp)
            gate.arrived.append(clock)

    def _enters(self, gate: _Gate, warp: int) -> None:
        """Note whether a warp that comes to a named barrier might have been in the generation before."""
        if any(code == codes.BARRIER_COUNT for code, _, _ in self.machine.hazards):
            return  # that is the cause
        if self.clock[self.rows[warp, ALL_LANES], gate.column] < gate.opened and not self.lost:
            gate.doubted |= {gate.generation}

    def _open(self, gate: _Gate, doubted: frozenset[int], waiting: Ints, members: int) -> None:
        """End a generation of a named barrier, with the warps that waited for it and those that arrived before."""
        for warp in waiting.tolist():
            self._enters(gate, warp)
        arrived, gate.arrived = gate.arrived[: members - len(waiting)], gate.arrived[members - len(waiting) :]
        sure = not doubted.intersection((gate.generation, gate.generation + 1))
        gate.opened, gate.generation = self.now, gate.generation + 1
        if sure and len(waiting):
            clock = np.max([*self._published(waiting), *arrived], axis=0)
            clock[0, gate.column] = self.now
            self._acquire(waiting, clock)

    # ------------------------------------------------------------------------------------------ clusters

    def _cluster_arrive(self, event: Event, warps: Ints, rows: slice) -> None:
        self.arrived_at[warps] = self.now
        self.cluster_arrivals[warps] = event.data[rows]
        for times, clock in zip(event.data[rows].tolist(), self._published(warps), strict=True):
            earlier = self.at_cluster.get(times)
            self.at_cluster[times] = clock if earlier is None else np.maximum(earlier, clock)

    def _cluster_pass(self, event: Event, warps: Ints, rows: slice) -> None:
        self.in_step[warps] = np.maximum(self.in_step[warps], self.arrived_at[warps])
        for warp, times in zip(warps, event.data[rows].tolist(), strict=True):
            # Who has not arrived has ended, which counts as an arrival (PTX ISA, "barrier.cluster").
            ended = np.flatnonzero(self.cluster_arrivals < times)
            clocks = [self.at_cluster[times]] if times in self.at_cluster else []
            if clocks or len(ended):
                self._acquire(np.array([warp]), np.max([*clocks, *self._published(ended)], axis=0))

    # ------------------------------------------------------------------------------------------ copies and fences

    def _commit(self, _event: Event, warps: Ints, _rows: slice) -> None:
        for warp in warps.tolist():
            self.groups[warp].append(self.now)

    def _await(self, event: Event, warps: Ints, _rows: slice) -> None:
        for warp in warps.tolist():
            groups = self.groups[warp]
            if len(groups) > event.data:
                ended = len(groups) - event.data
                self.clock[np.unique(self.rows[warp]), self.copies + warp] = groups[ended - 1]
                del groups[:ended]

    def _await_tiles(self, event: Event, warps: Ints, _rows: slice) -> None:
        for warp in warps.tolist():
            groups = self.tile_groups[warp // WARPS]
            if len(groups) > event.data:
                rows, agent = np.unique(self.rows[warp]), self.tiles + warp // WARPS
                self.clock[rows, agent] = np.maximum(groups[len(groups) - event.data - 1], self.clock[rows, agent])

    def _proxy(self, event: Event, warps: Ints, rows: slice) -> None:
        bits = None if event.data is None else event.data[rows].tolist()
        for at, clock in enumerate(self._published(warps, bits)[:, 0]):
            warp = int(warps[at])
            there = (
                np.unique(self.rows[warp]) if bits is None or bits[at] == ALL_MASK else self._rows_of(warp, bits[at])
            )
            self.visible[there] = np.maximum(self.visible[there], clock)

    def _memory(self, event: Event, warps: Ints, rows: slice) -> None:
        """Keep, by lanes, what the latest fence passes on by the strong stores and atomics that follow it."""
        bits = [int(ALL_MASK)] * len(warps) if event.data is None else event.data[rows].tolist()
        for warp, mask, clock in zip(warps.tolist(), bits, self._published(warps, bits), strict=True):
            kept = [(lanes, passed) for lanes, passed in self.fences.get(warp, ()) if lanes & ~mask]
            self.fences[warp] = [*kept, (mask, clock)]

    def _fenced(self, warp: int, bits: int) -> Any:
        """Return what lanes of a warp have fenced, (2, columns); None if nothing."""
        clocks = [clock for lanes, clock in self.fences.get(warp, ()) if lanes & bits]
        return np.max(clocks, axis=0) if clocks else None

    def _missed(self, event: Event, _warps: Ints, _rows: slice) -> None:
        self.lacking.setdefault(event.data, self.instructions[event.number].offset)

    def _give_up(self, event: Event, _warps: Ints, _rows: slice) -> None:
        """Give up on an order that is not followed: whatever comes next counts as ordered after all before."""
        self.lacking.setdefault(event.data, self.instructions[event.number].offset)
        # A wait that is passed for an unknown reason says nothing about the order of threads that wait for each other.
        if event.data == LOCK:
            self.locked |= not self.lost
            self.lost = True
        elif self.instructions[event.number].opcode == "SYNCS":
            self.lost, self.locked = True, False
        self._converge(np.arange(self.n))
        self.clock[:] = self.visible[:] = self.now
        np.fill_diagonal(self.clock, ALWAYS)
