"""Find accesses to shared memory that nothing orders, also if they happened one after the other in this run.

Happens-before by vector clocks (Mattern, "Virtual Time and Global States of Distributed Systems"; Flanagan and Freund,
"FastTrack", PLDI 2009). Clocks count events. What advances by itself, an agent, has a component of its own: each warp;
the copies of a warp (cp.async, and bulk copies that read); the wgmmas of a warpgroup; the tcgen05.mma, cp and shift of
a warp, in their order; its tcgen05.st; what an mbarrier counts (bulk and tensor copies that write). An access starts
after what its warp knows, and has ended for whoever knows its agent's component to be at least its event: a warp for
itself at once, for copies once it waited for them.

A second clock has what a warp has made visible to the async proxy (fence.proxy.async).

Shared memory is in units: bytes, or as many as the narrowest access has. Behind them, a block has the places of its
tensor memory. N warps run in a domain, the blocks of a cluster, with A agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.accesses import ATOMIC, READ, WRITE, SharedUse, memory_operands
from ncu_swizzle.emulate.code import INTEGER, STEP, SassInstruction
from ncu_swizzle.emulate.effects import TENSOR_MEMORY, TENSOR_READS, UNCOUNTED, WGMMA
from ncu_swizzle.emulate.events import Event, Hazard, Hazards, Kind, Party, Timeline
from ncu_swizzle.emulate.machine import ALL_MASK, Machine
from ncu_swizzle.emulate.order_steps import GROUPS, PLACES
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.tensor_memory import COLUMNS, ROWS_OF_ONE
from ncu_swizzle.emulate.timeline import timeline_of
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.access import RESERVED_BYTES
from ncu_swizzle.smem.descriptors import CHUNK, WARPS
from ncu_swizzle.smem.operations import Bools, Ints

ALWAYS = np.int32(2**31 - 1)  # a warp knows all of its own accesses
ALL_LANES = -1  # of an access that lanes make together
MBARRIER = 8  # bytes
COUNT = "uses the mbarrier"
WRONG = {
    codes.RACE: "nothing orders them, such as a barrier between the two",
    codes.ASYNC_RACE: "the copy, wgmma or tcgen05 under way is not waited for, or its wait does not reach this warp",
    codes.PROXY_FENCE: "TMA and wgmma see it only after a fence.proxy.async of the threads that write",
    codes.LANES: "they are lanes of one warp, and no __syncwarp() that both take part in orders them",
    codes.MBARRIER: "it is in use as an mbarrier, and no mbarrier.inval has ended that",
    codes.POLLED: "the loop waits for it, and only a fence or atomic orders what follows",
    codes.SAME_VALUE: "both store the same value, so that the race changes nothing",
    codes.SAME_PLACE: "they are lanes of one store, any of which may remain",
}
MOST_POLLING = 16  # instructions of a loop that waits for a flag
POLLING = frozenset(("LDS", "YIELD", "ISETP", "NANOSLEEP", "NOP", "LOP3", "MEMBAR", "MOV", "PRMT"))
IN_WARP = (codes.LANES, codes.SAME_PLACE)
_OFFSET = {Kind.INITIALISE: 1, Kind.COUNT: 1, Kind.PASS: 0, Kind.COPY_IN: 4}  # of their data: an mbarrier's
MOST_UNITS = 1 << 27  # of a table of units and agents
_IN_PIPE = TENSOR_READS | {"UTCSHIFT"}
MOST_LOOKED_AT = 1 << 10  # pairs of accesses in one event that are told apart


class Footprint(NamedTuple):
    """What an event touches, one row for each unit and lane: (K,) each."""

    warps: Ints  # in the domain
    units: Ints
    lanes: Any  # int8


@dataclass(kw_only=True)
class _Mbarrier:
    """An mbarrier's agent, and the clocks of arrivals: in phases that are complete, and in the current one."""

    agent: int
    done: Any  # (2, A): what happened before, and what is visible to the async proxy
    pending: Any
    completed: int


@dataclass(kw_only=True)
class Races:
    """The events of one domain, in the order in which they happened, and what was found."""

    machine: Machine
    instructions: Sequence[SassInstruction]
    blocks: range  # of the running ones: those of one cluster
    found: dict[tuple[str, int, int], Hazard] = field(default_factory=dict)
    lacking: dict[str, None] = field(default_factory=dict)
    work: int = 0  # units that were looked up
    lost: bool = False  # whether a wait was passed that is not followed: only lanes of a warp are judged from then on

    @cached_property
    def allocates(self) -> bool:
        """Whether tensor memory is allocated."""
        return any(each.opcode == "UTCATOMSWS" for each in self.instructions)

    def run(self, events: Sequence[Event]) -> None:
        """Look at all events; `found` and `lacking` have what came of it."""
        m = self.machine
        self.first = self.blocks.start * m.per_block
        self.n = len(self.blocks) * m.per_block
        self.events = events
        self.unit = self._unit(events)
        opcodes = {self.instructions[event.number].opcode for event in events}
        tensors = bool(opcodes & TENSOR_MEMORY)
        self.shared_units = -(-m.shared_size // self.unit)
        self.per_block = self.shared_units + PLACES * tensors
        total = self.per_block * len(self.blocks)
        self.polls, self.swapped = polling(self.instructions), compared_and_swapped(self.instructions)
        self.copies, self.tiles = self.n, 2 * self.n
        self.agents = self.tiles + (-(-self.n // WARPS) if opcodes & WGMMA else 0)
        self.pipes, self.storing = (self._agents_of(opcodes) for opcodes in (_IN_PIPE, frozenset(("STTM",))))
        self.readers = self.agents if opcodes & (WGMMA | UNCOUNTED | TENSOR_MEMORY) else self.n
        if total * self.readers > MOST_UNITS:
            self.lacking["the block has too much shared memory and too many warps to follow"] = None
            return
        self._begin(total, opcodes)
        for at, event in enumerate(events, 1):
            self.now = at
            handler = _HANDLERS.get(event.kind)
            if handler is None:
                continue
            low, high = 0, len(event.warps)
            if len(m.blocks) > len(self.blocks) and event.kind not in (Kind.COUNT, Kind.COPY_IN, Kind.INVALIDATE):
                low, high = np.searchsorted(event.warps, (self.first, self.first + self.n)).tolist()
                if low == high:
                    continue
            handler(self, event, event.warps[low:high] - self.first, slice(low, high))
        self._judge_exits()

    def _agents_of(self, opcodes: frozenset[str]) -> Ints:
        """Return the agent of each warp that issues some of tcgen05, (N,), made here; of another warp, itself."""
        here = (event for event in self.events if event.kind is Kind.TENSOR)
        issued = [event.warps for event in here if self.instructions[event.number].opcode in opcodes]
        warps = np.unique(np.concatenate([np.zeros(0, np.int64), *issued])) - self.first
        warps = warps[(warps >= 0) & (warps < self.n)]
        agents = np.arange(self.n)
        agents[warps] = self.agents + np.arange(len(warps))
        self.agents += len(warps)
        return agents

    def _begin(self, total: int, opcodes: set[str]) -> None:
        """Make the tables, of so many units."""
        offsets = {int(np.ravel(event.data[_OFFSET[event.kind]])[0]) for event in self.events if event.kind in _OFFSET}
        room = self.agents + len(offsets) * len(self.blocks)
        self.clock, self.visible = np.zeros((2, self.n, room), np.int32)
        np.fill_diagonal(self.clock, ALWAYS)
        self.fenced: Any = None
        self.mbarriers: dict[tuple[int, int], _Mbarrier] = {}
        self.write_event, self.write_agent = np.zeros(total, np.int32), np.zeros(total, np.int32)
        self.write_lane = np.zeros(total, np.int8)
        self.read_event = np.zeros((total, self.readers), np.int32)
        self.is_mbarrier = np.zeros(total, np.int32)  # the event that initialised one there
        self.read_lane = np.zeros((total, self.n), np.int8)
        atomics = bool(opcodes & {"ATOMS", "ATOM", "SYNCS", "ARRIVES"})
        self.atomic_event = np.zeros((total, self.n), np.int32) if atomics else None
        self.in_step = np.zeros(self.n, np.int32)  # by warp, the event since which its lanes have waited for each other
        self.in_parts: Any = None  # the same of each two lanes, if not all of a warp wait for each other
        self.groups: list[list[int]] = [[] for _ in range(self.n)]
        self.tile_groups: list[list[int]] = [[] for _ in range(-(-self.n // WARPS))]
        self.arrived: dict[tuple[int, int], Any] = {}  # clocks of BAR.ARV, by barrier and block
        self.cluster_arrivals = np.zeros(self.n, np.int64)  # by warp
        self.at_cluster: dict[int, Any] = {}  # clocks of arrivals at the cluster's barrier, by how many
        self.words: dict[int, Any] = {}  # clocks that atomics after a fence left, by unit
        self.remote: dict[tuple[int, int], tuple[int, int]] = {}  # by block and agent: the last access to another block
        # By event: warps, the words that they store, (words, G, 32), and which of them are known.
        self.stored: dict[int, tuple[Ints, Any, Any]] = {}
        self.reading: dict[int, tuple[int, int]] = {}  # by warp, the last copy out of shared memory
        self.prints: dict[int, Footprint] = {}

    def _unit(self, events: Sequence[Event]) -> int:
        """Return the bytes of a unit: those of the narrowest access."""
        numbers = {event.number for event in events if event.kind in (Kind.ACCESS, Kind.MAYBE, Kind.REMOTE)}
        widths = [16, *(SharedUse.of(self.instructions[number]).width for number in numbers)]
        narrow = any(event.kind in (Kind.INITIALISE, Kind.COUNT) for event in events)
        return min(*widths, MBARRIER if narrow else 16)

    # ------------------------------------------------------------------------------------------ clocks

    def _published(self, warps: Ints) -> Any:
        """Return the clocks that warps pass on, (G, 2, A): what they know now, their own accesses so far included."""
        clocks = np.stack([self.clock[warps], self.visible[warps]], axis=1)
        clocks[np.arange(len(warps)), 0, warps] = self.now
        return clocks

    def _acquire(self, warps: Ints, clock: Any) -> None:
        """Let warps know what a clock, (2, A), does, or one for each, (G, 2, A)."""
        self.clock[warps] = np.maximum(self.clock[warps], clock[..., 0, :])
        self.visible[warps] = np.maximum(self.visible[warps], clock[..., 1, :])

    def _mbarrier(self, block: int, offset: int) -> _Mbarrier:
        found = self.mbarriers.get((block, offset))
        if found is None:
            agent = self.agents + len(self.mbarriers)
            nothing = np.zeros((2, self.clock.shape[1]), np.int32)
            found = _Mbarrier(agent=agent, done=nothing, pending=nothing.copy(), completed=0)
            self.mbarriers[block, offset] = found
        return found

    def _settle(self, mbarrier: _Mbarrier, completed: int) -> None:
        """Let what has arrived at an mbarrier have happened before a phase that is complete by now."""
        if completed > mbarrier.completed:
            mbarrier.done = np.maximum(mbarrier.done, mbarrier.pending)
            mbarrier.done[:, mbarrier.agent] = self.now
            mbarrier.pending[:] = 0
            mbarrier.completed = completed

    # ------------------------------------------------------------------------------------------ what orders

    def _in_warp(self, event: Event, warps: Ints, rows: slice) -> None:
        if event.data is None:
            self.in_step[warps] = self.now
            return
        for warp, masks in zip(warps.tolist(), event.data[rows], strict=True):
            for mask in np.unique(masks).tolist():
                self._in_part(warp, mask)

    def _in_part(self, warp: int, mask: int) -> None:
        """Lanes in a mask wait for each other: each then knows what any of them knew of others."""
        if mask == ALL_MASK:
            self.in_step[warp] = self.now
            return
        if self.in_parts is None:
            self.in_parts = np.zeros((self.n, operations.WARP + 1, operations.WARP + 1), np.int32)
        lanes = [lane for lane in range(operations.WARP) if mask >> lane & 1]
        pairs = self.in_parts[warp]
        if lanes:
            pairs[lanes] = pairs[lanes].max(axis=0)
            pairs[np.ix_(lanes, lanes)] = self.now
            # The last ones are of all lanes together, ALL_LANES.
            pairs[:-1, -1] = pairs[:-1, :-1].min(axis=1)
            pairs[-1] = pairs[:-1].min(axis=0)

    def _since(self, made: Footprint, others: Any) -> Any:
        """Return the events since which lanes have waited, directly or not, for other lanes of their warp."""
        since = self.in_step[made.warps]
        if self.in_parts is None:
            return since
        return np.maximum(since, self.in_parts[made.warps, made.lanes, others])

    def _barrier(self, event: Event, warps: Ints, _rows: slice) -> None:
        """Warps leave a barrier of their block: each knows what all knew, and those that only arrived."""
        self.in_step[warps] = self.now
        blocks = warps // self.machine.per_block
        for block in np.unique(blocks).tolist():
            here = warps[blocks == block]
            clock = self._published(here).max(axis=0)
            earlier = self.arrived.pop((event.data, block), None)
            if earlier is not None:
                clock = np.maximum(clock, earlier)
            self._acquire(here, clock)

    def _arrive(self, event: Event, warps: Ints, _rows: slice) -> None:
        for warp, clock in zip(warps.tolist(), self._published(warps), strict=True):
            key = event.data, warp // self.machine.per_block
            earlier = self.arrived.get(key)
            self.arrived[key] = clock if earlier is None else np.maximum(earlier, clock)

    def _cluster_arrive(self, event: Event, warps: Ints, rows: slice) -> None:
        self.in_step[warps] = self.now
        self.cluster_arrivals[warps] = event.data[rows]
        for times, clock in zip(event.data[rows].tolist(), self._published(warps), strict=True):
            earlier = self.at_cluster.get(times)
            self.at_cluster[times] = clock if earlier is None else np.maximum(earlier, clock)

    def _cluster_pass(self, event: Event, warps: Ints, rows: slice) -> None:
        for warp, times in zip(warps, event.data[rows].tolist(), strict=True):
            # Who has not arrived has ended, which counts as an arrival (PTX ISA, "barrier.cluster").
            ended = np.flatnonzero(self.cluster_arrivals < times)
            clocks = [self.at_cluster[times]] if times in self.at_cluster else []
            if clocks or len(ended):
                self._acquire(np.array([warp]), np.max([*clocks, *self._published(ended)], axis=0))

    def _initialise(self, event: Event, warps: Ints, _rows: slice) -> None:
        block, offset = int(event.data[0][0]) - self.blocks.start, int(event.data[1][0])
        self._mbarrier(block, offset).pending[:] = 0
        units = self._units(block, offset, MBARRIER)
        if self.instructions[event.number].opcode == "SYNCS":  # of a store, its access has been noted
            self._access(_together(warps[:1], units), WRITE)
        self.is_mbarrier[units] = self.now

    def _invalidate(self, event: Event, _warps: Ints, _rows: slice) -> None:
        for block, offset in zip(*(part.tolist() for part in event.data), strict=True):
            if block in self.blocks:
                self.is_mbarrier[self._units(block - self.blocks.start, offset, MBARRIER)] = 0

    def _count(self, event: Event, warps: Ints, _rows: slice) -> None:
        """Threads, or bytes of copies (then there are no warps), arrive at mbarriers."""
        blocks, offset, completed = event.data
        inside = (blocks >= self.blocks.start) & (blocks < self.blocks.stop)
        if not inside.any():
            return
        blocks, completed = blocks[inside] - self.blocks.start, completed[inside]
        warps = (event.warps[inside] - self.first) if len(event.warps) else warps
        opcode = self.instructions[event.number].opcode
        # What has ended when the arrival is made: copies, or tcgen05.mma and its like, that the warp has issued.
        ended = {"ARRIVES": np.arange(self.n) + self.copies, "UTCBAR": self.pipes}.get(opcode, np.arange(self.n))
        for block in np.unique(blocks).tolist():
            mbarrier, here = self._mbarrier(block, offset), blocks == block
            if len(warps):
                arriving = np.unique(warps[here])
                clocks = self._published(arriving)
                clocks[np.arange(len(arriving)), 0, ended[arriving]] = self.now
                mbarrier.pending = np.maximum(mbarrier.pending, clocks.max(axis=0))
                units = self._units(block, offset, MBARRIER)
                self._access(_together(arriving, units), COUNT)
                for warp in arriving[arriving // self.machine.per_block != block].tolist():
                    self._reach(block, warp, int(self.pipes[warp]) if opcode == "UTCBAR" else warp, event)
            self._settle(mbarrier, int(completed[here].max()))

    def _pass(self, event: Event, warps: Ints, rows: slice) -> None:
        offset, completed = event.data
        self.in_step[warps] = self.now
        for warp, phases in zip(warps, completed[rows].tolist(), strict=True):
            block, one = int(warp) // self.machine.per_block, np.array([warp])
            mbarrier = self._mbarrier(block, offset)
            self._settle(mbarrier, phases)
            self._access(_together(one, self._units(block, offset, MBARRIER)), COUNT)
            self._acquire(one, mbarrier.done)

    def _commit(self, _event: Event, warps: Ints, _rows: slice) -> None:
        for warp in warps.tolist():
            self.groups[warp].append(self.now)

    def _await(self, event: Event, warps: Ints, _rows: slice) -> None:
        for warp in warps.tolist():
            groups = self.groups[warp]
            if len(groups) > event.data:
                ended = len(groups) - event.data
                self.clock[warp, self.copies + warp] = groups[ended - 1]
                del groups[:ended]

    def _await_tiles(self, event: Event, warps: Ints, _rows: slice) -> None:
        for warp in warps.tolist():
            groups = self.tile_groups[warp // WARPS]
            if len(groups) > event.data:
                ended = groups[len(groups) - event.data - 1]
                agent = self.tiles + warp // WARPS
                self.clock[warp, agent] = max(ended, self.clock[warp, agent])

    def _proxy(self, _event: Event, warps: Ints, _rows: slice) -> None:
        self.visible[warps] = self._published(warps)[:, 0]

    def _memory(self, _event: Event, warps: Ints, _rows: slice) -> None:
        if self.fenced is None:
            self.fenced = np.zeros((self.n, 2, self.clock.shape[1]), np.int32)
        self.fenced[warps] = self._published(warps)

    def _missed(self, event: Event, _warps: Ints, _rows: slice) -> None:
        self.lacking[event.data] = None

    def _join(self, event: Event, _warps: Ints, _rows: slice) -> None:
        """An order that is not followed: whatever comes next is taken to be ordered after all before."""
        self.lacking[event.data] = None
        # A wait that is passed without knowing why says nothing of the order of those who wait for each other.
        self.lost |= self.instructions[event.number].opcode == "SYNCS"
        self.clock[:] = self.visible[:] = self.now
        self.in_step[:] = self.now
        np.fill_diagonal(self.clock, ALWAYS)

    # ------------------------------------------------------------------------------------------ who accesses what

    def _units(self, block: int, first: int, size: int) -> Ints:
        """Return the units of some bytes of a block."""
        low, high = first // self.unit, min(-(-(first + size) // self.unit), self.shared_units)
        return np.arange(low, max(low, high)) + block * self.per_block

    def _values(self, event: Event, _warps: Ints, rows: slice) -> None:
        """Keep what the next event stores."""
        bits, known = event.data
        self.stored[self.now + 1] = event.warps[rows] - self.first, bits[:, rows], known[:, rows]

    def _lanes(self, event: Event, warps: Ints, rows: slice) -> None:
        """Lanes access the shared memory of their own block."""
        instruction, seen = self.instructions[event.number], event.data
        use = SharedUse.of(instruction)
        footprint = self.prints.get(id(seen))
        if footprint is None:
            which = np.arange(rows.start, rows.stop) % len(seen.selected)
            selected = seen.selected[which]
            if use.matrix:
                selected = selected & (np.arange(operations.WARP) < use.matrix)
            at = np.broadcast_to(seen.addresses, seen.selected.shape)[which].astype(np.int64) // self.unit
            block = warps // self.machine.per_block * self.per_block
            footprint = self.prints[id(seen)] = self._footprint(warps, at + block[:, None], selected, use)
        does = ATOMIC if event.number in self.swapped else use.does
        self._access(footprint, does, copies=instruction.opcode == "LDGSTS")

    def _footprint(self, warps: Ints, first: Ints, selected: Bools, use: SharedUse) -> Footprint:
        """Return the units from the first ones on, (G, 32), that lanes access."""
        row, lane = np.nonzero(selected)
        wide = max(1, use.width // self.unit)
        units = (first[row, lane][:, None] + np.arange(wide)).ravel()
        lanes = np.repeat(lane.astype(np.int8), wide)
        if use.matrix:
            lanes[:] = ALL_LANES
        return Footprint(np.repeat(warps[row], wide), units, lanes)

    def _remote(self, event: Event, warps: Ints, rows: slice) -> None:
        """Lanes access another block of the cluster."""
        blocks, at, selected = (part[rows] for part in event.data)
        use = SharedUse.of(self.instructions[event.number])
        first = (blocks - self.blocks.start) * self.per_block + at // self.unit
        self._access(self._footprint(warps, first, selected, use), use.does)
        for row, lane in np.argwhere(selected).tolist():
            warp = int(warps[row])
            self._reach(int(blocks[row, lane]) - self.blocks.start, warp, warp, event)

    def _reach(self, block: int, warp: int, agent: int, event: Event) -> None:
        """Keep an access to another block, of which its warp has to know that it has begun."""
        self.remote[block, agent] = self.now, event.number
        if not self.clock[warp, self._warps(block)].any() and not self.lost:
            party = Party(offset=self.instructions[event.number].offset, does="accesses another block")
            index = tuple(self.machine.blocks[self.blocks.start + block].tolist())
            what = f"block {index} may not have begun by then: no barrier of the cluster comes before"
            self._add(codes.EXITED, (party,), block, what, key=(codes.EXITED, event.number, -2))

    def _warps(self, block: int) -> slice:
        """Return the warps of a block."""
        return slice(block * self.machine.per_block, (block + 1) * self.machine.per_block)

    def _copy_in(self, event: Event, _warps: Ints, _rows: slice) -> None:
        """A bulk or tensor copy writes; an mbarrier counts its bytes."""
        written, start, size, counting, offset = event.data
        warp = event.warps - self.first
        for k, (block, by) in enumerate(zip((written - self.blocks.start).tolist(), counting.tolist(), strict=True)):
            if not 0 <= block < len(self.blocks):
                continue
            if size < 0:
                self.lacking[f"how much {self.instructions[event.number].text} copies"] = None
                return
            mbarrier = self._mbarrier(by - self.blocks.start, offset)
            units = self._units(block, start, size)
            issuing = warp[min(k, len(warp) - 1) : min(k, len(warp) - 1) + 1]
            self._access(_together(issuing, self._units(by - self.blocks.start, offset, MBARRIER)), COUNT)
            self._access(_together(issuing, units), WRITE, agent=mbarrier.agent)

    def _read_out(self, event: Event, warps: Ints, rows: slice) -> None:
        """A bulk copy reads shared memory, in the group of its warp."""
        starts, sizes = (part[rows].tolist() for part in event.data)
        for k, warp in enumerate(warps.tolist()):
            units = self._units(warp // self.machine.per_block, starts[k], sizes[k])
            self._access(_together(warps[k : k + 1], units), READ, agent=self.copies + warp, proxy=True)
            self.reading[warp] = self.now, event.number

    def _tile(self, event: Event, warps: Ints, rows: slice) -> None:
        """wgmmas read their tiles, each for its warpgroup."""
        ends = GROUPS in self.instructions[event.number].text
        for k, warp in enumerate(warps.tolist()):
            chunks = event.data[rows.start + k]
            wide = CHUNK // self.unit
            block = warp // self.machine.per_block
            units = (chunks[:, None] // self.unit + np.arange(wide)).ravel()
            units = units[units < self.shared_units] + block * self.per_block
            agent = self.tiles + warp // WARPS
            self._access(_together(warps[k : k + 1], units), READ, agent=agent, proxy=True)
            if ends and warp % WARPS == 0:
                self.tile_groups[warp // WARPS].append(self.now)

    def _tensor(self, event: Event, warps: Ints, rows: slice) -> None:
        """tcgen05 reads tiles, and accesses tensor memory."""
        opcode = self.instructions[event.number].opcode
        agents = self.storing if opcode == "STTM" else self.pipes if opcode in _IN_PIPE else np.arange(self.n)
        for use, warp in zip(event.data[rows], warps.tolist(), strict=True):
            agent, one = int(agents[warp]), np.array([warp])
            known, self.clock[warp, agent] = self.clock[warp, agent], ALWAYS  # in the order in which it is issued
            units = (use.chunks[:, None] // self.unit + np.arange(CHUNK // self.unit)).ravel()
            for block in (block - self.blocks.start for block in use.blocks):
                base = block * self.per_block
                self._access(_together(one, units[units < self.shared_units] + base), READ, agent=agent)
                self._access(_together(one, use.reads + self.shared_units + base), READ, agent=agent)
                self._access(_together(one, use.writes + self.shared_units + base), WRITE, agent=agent)
                if block != warp // self.machine.per_block:
                    self._reach(block, warp, agent, event)
            self.clock[warp, agent] = known

    def _stored_tensors(self, _event: Event, warps: Ints, _rows: slice) -> None:
        known = self.clock[warps, self.storing[warps]]
        self.clock[warps, self.storing[warps]] = np.maximum(known, self.now)

    def _unknown(self, event: Event, _warps: Ints, _rows: slice) -> None:
        instruction = self.instructions[event.number]
        self.lacking[f"what {instruction.text} at {instruction.offset:#x} accesses"] = None
        if instruction.opcode in WGMMA and GROUPS in instruction.text:
            for groups in self.tile_groups:
                groups.append(self.now)

    def _judge_exits(self) -> None:
        """Accesses to another block have to end before it does, and copies out of a block before its own threads do."""
        for (block, agent), (at, number) in self.remote.items():
            if not (self.clock[self._warps(block), agent] >= at).any():
                index = self.machine.blocks[self.blocks.start + block].tolist()
                party = Party(offset=self.instructions[number].offset, does="accesses another block")
                what = f"block {tuple(index)} may have ended by then: nothing that it waits for follows"
                self._add(codes.EXITED, (party,), block, what)
        for warp, (at, number) in self.reading.items():
            if self.clock[warp, self.copies + warp] < at:
                party = Party(offset=self.instructions[number].offset, does="copies out of shared memory")
                what = "the block may end before this copy has read its source: no wait for its group follows"
                self._add(codes.ASYNC_RACE, (party,), warp // self.machine.per_block, what)

    # ------------------------------------------------------------------------------------------ judgement

    def _access(
        self, made: Footprint, does: str, *, agent: int | None = None, copies: bool = False, proxy: bool = False
    ) -> None:
        """Compare an access with those before it that touch the same units, and remember it.

        `agent` makes it, if not the warps themselves or, with `copies`, their copies; `proxy`: through the async proxy.
        """
        warps, units, lanes = made
        self.work += len(units)
        if not len(units):
            return
        if self.fenced is not None and does == ATOMIC:
            self._synchronise(made)
        by: Any = warps + self.copies if copies else warps if agent is None else agent
        in_lanes = agent is None and not copies and does != COUNT
        self._after_writes(made, does, by, proxy=proxy, in_lanes=in_lanes)
        if does in (WRITE, ATOMIC):
            self._after_reads(made, self.read_event, READ, does, by)
            if in_lanes:
                read = self.read_event[units, warps]
                reader = self.read_lane[units, warps]
                apart = (reader != lanes) & (read > self._since(made, reader))
                self._report(made, apart, read, warps, does=does, before=READ, agent=by, code=codes.LANES)
        if self.atomic_event is not None and does in (WRITE, READ) and agent is None:
            self._after_reads(made, self.atomic_event, ATOMIC, does, by)
        if does == READ:
            self.read_event[units, warps if agent is None else agent] = self.now
            if agent is None:
                self.read_lane[units, warps] = lanes
        elif does == WRITE:
            if self.mbarriers:
                over = self.is_mbarrier[units]
                self._report(
                    made, over > 0, over, warps, does=does, before="initialises", agent=by, code=codes.MBARRIER
                )
            self.write_event[units], self.write_agent[units], self.write_lane[units] = self.now, by, lanes
            self._together(made, by, in_lanes)
        elif self.atomic_event is not None:
            self.atomic_event[units, warps] = self.now

    def _after_writes(self, made: Footprint, does: str, by: Any, *, proxy: bool, in_lanes: bool) -> None:
        """Compare with the last write of each unit."""
        warps, units, lanes = made
        last, writer = self.write_event[units], self.write_agent[units]
        unordered = last > self.clock[warps, writer]
        self._report(made, unordered, last, writer, does=does, before=WRITE, agent=by)
        if proxy:
            # What cp.async wrote, wgmma sees without a fence: PTX's text asks for one, Triton and CUTLASS have none.
            generic = self.n if by >= self.tiles else self.tiles
            hidden = (last > self.visible[warps, writer]) & (writer < generic) & ~unordered
            self._report(made, hidden, last, writer, does=does, before=WRITE, agent=by, code=codes.PROXY_FENCE)
        if in_lanes:
            wrote = self.write_lane[units]
            apart = (writer == warps) & (wrote != lanes) & (last > self._since(made, wrote))
            self._report(made, apart, last, writer, does=does, before=WRITE, agent=by, code=codes.LANES)

    def _after_reads(self, made: Footprint, table: Any, before: str, does: str, by: Any) -> None:
        """Compare with earlier reads, or atomics, of all agents."""
        events = table[made.units]  # (K, agents)
        unordered = events > self.clock[made.warps, : table.shape[1]]
        if unordered.any():
            rows, readers = np.nonzero(unordered)
            chosen = Footprint(made.warps[rows], made.units[rows], made.lanes[rows])
            agent = by[rows] if np.ndim(by) else by
            every = np.ones(len(rows), bool)
            self._report(chosen, every, events[rows, readers], readers, does=does, before=before, agent=agent)

    def _together(self, made: Footprint, by: Any, in_lanes: bool) -> None:
        """Report what lanes of one instruction write to the same units."""
        others = self.write_agent[made.units]
        apart = others != by
        last = np.full(len(made.units), self.now, np.int32)
        self._report(made, apart, last, others, does=WRITE, before=WRITE, agent=by)
        if in_lanes:
            lanes = ~apart & (self.write_lane[made.units] != made.lanes)
            self._report(made, lanes, last, others, does=WRITE, before=WRITE, agent=by, code=codes.SAME_PLACE)

    def _synchronise(self, made: Footprint) -> None:
        """An atomic passes on what its warp had fenced, and knows what earlier ones passed on."""
        for unit, warp in dict.fromkeys(zip(made.units.tolist(), made.warps.tolist(), strict=True)):
            if unit in self.words:
                self._acquire(np.array([warp]), self.words[unit])
            mine = self.fenced[warp]
            earlier = self.words.get(unit)
            self.words[unit] = mine.copy() if earlier is None else np.maximum(earlier, mine)

    def _report(
        self,
        made: Footprint,
        where: Bools,
        last: Any,
        agents: Any,
        *,
        does: str,
        before: str,
        agent: Any,
        code: str = "",
    ) -> None:
        """Record a hazard for each pair of instructions, at the units `where` it is: (K,) each."""
        if self.allocates:  # through words of CUDA's own, in an order that ptxas sees to
            where = where & (made.units % self.per_block * self.unit >= RESERVED_BYTES)
        if not where.any():
            return
        rows = np.flatnonzero(where)[:MOST_LOOKED_AT]
        now = self.events[self.now - 1]
        for row in rows.tolist():
            earlier = self.events[int(last[row]) - 1]
            other = int(agents[row])
            mine = int(agent[row]) if np.ndim(agent) else int(agent)
            kind = code or (codes.ASYNC_RACE if max(other, mine) >= self.n else codes.RACE)
            if self.lost and kind not in IN_WARP:
                continue
            if Kind.MAYBE in (now.kind, earlier.kind) and (kind in IN_WARP or now.number == earlier.number):
                continue  # which lanes do it depends on data: perhaps one alone
            unit, warp, lane = int(made.units[row]), int(made.warps[row]), int(made.lanes[row])
            others_lane = self._lane_of(earlier, unit, other, lane, earlier is now)
            if does == before == WRITE and kind in (codes.RACE, codes.SAME_PLACE) and self.stored:
                mine_stored = self._stored_at(self.now, unit, warp, lane)
                if mine_stored is not None and mine_stored == self._stored_at(int(last[row]), unit, other, others_lane):
                    kind = codes.SAME_VALUE
            if kind == codes.RACE and self.polls.intersection((now.number, earlier.number)):
                kind = codes.POLLED
                if does == READ and self.fenced is not None:  # it goes on once it has seen what the other one stored
                    self._acquire(np.array([warp]), self.fenced[other])
            key = kind, now.number, earlier.number
            if key in self.found:
                continue
            block = unit // self.per_block
            parties = (
                self._party(now, does, mine, warp, lane),
                self._party(earlier, before, other, other, others_lane),
            )
            self._add(kind, parties, block, WRONG[kind], self._place(unit % self.per_block), key)

    def _place(self, unit: int) -> str:
        """Return a unit of a block in words."""
        if unit < self.shared_units:
            return f"byte {unit * self.unit:#x} of shared memory"
        part, column = divmod(unit - self.shared_units, COLUMNS)
        return f"lane {part * ROWS_OF_ONE}, column {column} of tensor memory"

    def _stored_at(self, at: int, unit: int, warp: int, lane: int) -> int | None:
        """Return the byte that a lane stored in an event, or the bytes of its unit; None if that is not known."""
        stored, footprint = self.stored.get(at), self.prints.get(id(self.events[at - 1].data))
        if stored is None or footprint is None or lane < 0:
            return None
        warps, bits, known = stored
        row = int(np.searchsorted(warps, warp))
        first = footprint.units[(footprint.warps == warp) & (footprint.lanes == lane)].min()
        word, byte = divmod((unit - int(first)) * self.unit, operations.WORD)
        if row == len(warps) or warps[row] != warp or word >= len(bits) or not known[word, row, lane]:
            return None
        return int(bits[word, row, lane]) >> 8 * byte & (1 << 8 * min(self.unit, operations.WORD)) - 1

    def _party(self, event: Event, does: str, agent: int, warp: int, lane: int) -> Party:
        instruction = self.instructions[event.number]
        does = "frees" if instruction.opcode == "UTCATOMSWS" else does
        thread = None
        if agent < self.n and warp < self.n and lane >= 0:
            x, y, _ = self.machine.block
            number = int(self.machine.thread[self.first + warp, lane])
            thread = number % x, number // x % y, number // (x * y)
        return Party(offset=instruction.offset, does=does, thread=thread)

    def _lane_of(self, event: Event, unit: int, agent: int, lane: int, same: bool) -> int:
        """Return a lane that touched a unit in an earlier event; in the same one, another lane."""
        footprint = self.prints.get(id(event.data))
        if footprint is None or agent >= self.n:
            return ALL_LANES
        here = (footprint.units == unit) & (footprint.warps == agent)
        if same and (here & (footprint.lanes != lane)).any():
            here &= footprint.lanes != lane
        return int(footprint.lanes[here.argmax()]) if here.any() else ALL_LANES

    def _add(
        self, code: str, parties: tuple[Party, ...], block: int, what: str, place: str = "", key: Any = None
    ) -> None:
        x, y, z = self.machine.blocks[self.blocks.start + block].tolist()
        hazard = Hazard(code=code, parties=parties, block=(x, y, z), what=what, place=place)
        self.found.setdefault(key or (code, parties[0].offset, -1), hazard)


def _stores(parties: Sequence[Party]) -> bool:
    return len(parties) == 2 and all(party.does == WRITE for party in parties)


def polling(instructions: Sequence[SassInstruction]) -> frozenset[int]:
    """Return the loads of loops that do nothing but load until a value has come."""
    found: set[int] = set()
    for end, instruction in enumerate(instructions):
        target = next((operand.number for operand in instruction.operands if operand.kind == INTEGER), None)
        if instruction.opcode != "BRA" or instruction.guard is None or target is None:
            continue
        begin = end - (instruction.offset - target) // STEP
        body = range(max(begin, 0), end)
        opcodes = {instructions[number].opcode for number in body}
        if 0 < end - begin <= MOST_POLLING and not opcodes - POLLING:
            found |= {number for number in body if instructions[number].opcode == "LDS"}
    return frozenset(found)


def compared_and_swapped(instructions: Sequence[SassInstruction]) -> frozenset[int]:
    """Return the loads of what a compare-and-swap then expects at the same address: together, they are an atomic."""
    found: set[int] = set()
    for at, swap in enumerate(instructions):
        if swap.opcode not in ("ATOMS", "ATOM") or not swap.has("SPIN", "CAS"):
            continue
        memory = swap.operands[memory_operands(swap)[0]]
        for number in range(max(0, at - MOST_POLLING), at):
            load = instructions[number]
            if load.opcode in ("LDS", "LD"):
                other = load.operands[memory_operands(load)[0]]
                if (other.terms, other.offset) == (memory.terms, memory.offset):
                    found.add(number)
    return frozenset(found)


def _together(warps: Ints, units: Ints) -> Footprint:
    """Return what one warp touches as a whole, or each of several."""
    many = np.repeat(warps, len(units))
    return Footprint(many, np.tile(units, len(warps)), np.full(len(many), ALL_LANES, np.int8))


_HANDLERS = {
    Kind.ACCESS: Races._lanes,
    Kind.MAYBE: Races._lanes,
    Kind.VALUES: Races._values,
    Kind.REMOTE: Races._remote,
    Kind.COPY_IN: Races._copy_in,
    Kind.READ_OUT: Races._read_out,
    Kind.TILE: Races._tile,
    Kind.TENSOR: Races._tensor,
    Kind.STORED: Races._stored_tensors,
    Kind.UNKNOWN: Races._unknown,
    Kind.WARP: Races._in_warp,
    Kind.BARRIER: Races._barrier,
    Kind.ARRIVE: Races._arrive,
    Kind.INITIALISE: Races._initialise,
    Kind.INVALIDATE: Races._invalidate,
    Kind.COUNT: Races._count,
    Kind.PASS: Races._pass,
    Kind.COMMIT: Races._commit,
    Kind.AWAIT: Races._await,
    Kind.AWAIT_TILES: Races._await_tiles,
    Kind.PROXY: Races._proxy,
    Kind.MEMORY: Races._memory,
    Kind.CLUSTER_ARRIVE: Races._cluster_arrive,
    Kind.CLUSTER_PASS: Races._cluster_pass,
    Kind.MISSED: Races._missed,
    Kind.JOIN: Races._join,
}


MOST_WORK = 1 << 24  # units and agents that are looked at in a launch
MOST_DOMAINS = 16


@dataclass(kw_only=True)
class RaceCheck:
    """The races in a launch: in the first block of each kind, as far as that takes little."""

    plain: Callable[[], PreparedCode] | None = None  # makes the code that notes nothing
    valued: frozenset[int] = frozenset()  # stores whose values are compared
    kinds: set[bytes] = field(default_factory=set)
    found: dict[tuple[str, int, int], Hazard] = field(default_factory=dict)
    lacking: dict[str, None] = field(default_factory=dict)
    blocks: int = 0
    work: int = 0
    domains: int = 0
    timeline: Timeline | None = None

    def add(self, machine: Machine, instructions: Sequence[SassInstruction], kinds: Sequence[bytes]) -> Iterator[Ints]:
        """Look at the events of blocks that ran together; `kinds` are digests of what each of them did.

        Yields blocks of new kinds whose events were not kept: they have to run once more.
        """
        log, size = machine.events, machine.clusters.size
        if log is None:
            return
        self.found = {**machine.hazards, **self.found}
        events = log.events[: machine.happened]
        unnoted = log.full and not (log.events or log.nbytes)
        again: dict[tuple[bytes, ...], Ints] = {}
        for first in range(0, len(kinds), size):
            these = kinds[first : first + size]
            if self.kinds.issuperset(these):
                continue
            if self.domains + len(again) == MOST_DOMAINS or self.work > MOST_WORK:
                self.lacking["more kinds of blocks than are looked at"] = None
                break
            if unnoted or (log.full and len(kinds) > size):
                again.setdefault(tuple(these), np.arange(first, first + size))
                continue
            self.kinds.update(these)
            if log.full:
                self.lacking["more accesses and barriers than are kept"] = None
                continue
            races = Races(machine=machine, instructions=instructions, blocks=range(first, first + size))
            races.run(events)
            self.found = {**races.found, **self.found}
            if not (self.domains or self.valued):
                self.timeline = timeline_of(machine, instructions, events, races.blocks)
            self.lacking.update(races.lacking)
            self.work += races.work
            self.domains += 1
            self.blocks += size
        if unnoted and again:
            yield np.concatenate(list(again.values()))
        elif again:  # too many: those of one cluster may be few enough
            yield from again.values()

    def racing_stores(self, instructions: Sequence[SassInstruction]) -> frozenset[int]:
        """Return the stores that race with stores, whose values may be the same."""
        index = {instruction.offset: number for number, instruction in enumerate(instructions)}
        pairs = (each.parties for each in self.found.values() if each.code in (codes.RACE, codes.SAME_PLACE))
        stores = {index[party.offset] for parties in pairs if _stores(parties) for party in parties}
        return frozenset(number for number in stores if instructions[number].opcode == "STS")

    def tell_apart(self, valued: RaceCheck, sampled: bool) -> None:
        """Take races between stores for harmless that stored the same in another run, whose inputs may be a sample."""
        for key in [key for key in self.found if key[0] in (codes.RACE, codes.SAME_PLACE)]:
            other = {kind: valued.found.get((kind, *key[1:])) for kind in (key[0], codes.SAME_VALUE)}
            if (same := other[codes.SAME_VALUE]) is not None and other[key[0]] is None:
                what = f"in a sample of random inputs, {same.what}" if sampled else same.what
                del self.found[key]
                self.found[codes.SAME_VALUE, key[1], key[2]] = replace(same, what=what)

    def hazards(self) -> Hazards:
        """Return what was found."""
        ordered = tuple(self.found[key] for key in sorted(self.found))
        return Hazards(found=ordered, blocks=self.blocks, lacking=tuple(self.lacking), timeline=self.timeline)
