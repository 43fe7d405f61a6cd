"""Find accesses to shared memory that nothing orders, also if they happened one after the other in this run.

Shared memory is in units: bytes, or as many as the narrowest access has. Behind them, a block has the places of its
tensor memory. `happens_before` says what is ordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.accesses import ATOMIC, READ, WRITE, SharedUse, memory_operands
from ncu_swizzle.emulate.effects import TENSOR_MEMORY, TENSOR_READS, UNCOUNTED, WGMMA
from ncu_swizzle.emulate.events import Event, Hazard, Kind, Party
from ncu_swizzle.emulate.flow import Flow
from ncu_swizzle.emulate.happens_before import ALL_LANES, ALWAYS, HappensBefore
from ncu_swizzle.emulate.machine import LANE_BITS
from ncu_swizzle.emulate.order_steps import GROUPS, PLACES
from ncu_swizzle.emulate.spins import compared_and_swapped, loads_behind, polling, strong
from ncu_swizzle.emulate.tensor_memory import COLUMNS, ROWS_OF_ONE
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.access import RESERVED_BYTES
from ncu_swizzle.smem.descriptors import CHUNK, WARPS
from ncu_swizzle.smem.operations import Bools, Ints

MBARRIER = 8  # bytes
COUNT = "uses the mbarrier"
WRONG = {
    codes.RACE: "nothing orders them, such as a barrier between the two",
    codes.ASYNC_RACE: "the copy, wgmma or tcgen05 under way is not waited for, or its wait does not reach this warp",
    codes.PROXY_FENCE: "TMA, wgmma and tcgen05 see it only after a fence.proxy.async of the threads that write",
    codes.OVERWRITES: "nothing but a barrier lies between, and no fence.proxy.async of the threads that read or write",
    codes.LANES: "they are lanes of one warp, and no __syncwarp() that both take part in orders them",
    codes.MBARRIER: "it is in use as an mbarrier, and no mbarrier.inval has ended that",
    codes.POLLED: "the loop waits for it, and only a fence or atomic orders what follows",
    codes.SAME_VALUE: "both store the same value, so that the race changes nothing",
    codes.SAME_PLACE: "they are lanes of one store, any of which may remain",
}
LOST = "what each stores is computed from what was there before, so that one of the two is lost"
IN_WARP = (codes.LANES, codes.SAME_PLACE)
MOST_UNITS = 1 << 27  # of a table of units and agents
_ASYNC_WRITES = frozenset(("UBLKCP", "UTMALDG"))
_IN_PIPE = TENSOR_READS | {"UTCSHIFT"}
MOST_LOOKED_AT = 1 << 10  # pairs of accesses in one event that are told apart
MOST_PASSES = 8  # over the events, until it is clear which generations of named barriers are
_OTHER_BLOCKS = (Kind.COUNT, Kind.COPY_IN, Kind.INVALIDATE)  # their data are of blocks, not of warps


class Footprint(NamedTuple):
    """What an event touches, one row for each unit and lane: (K,) each."""

    warps: Ints  # in the domain
    units: Ints
    lanes: Any  # int8


@dataclass(kw_only=True)
class Races(HappensBefore):
    """The events of one domain, in the order in which they happened, and what was found."""

    found: dict[tuple[str, int, int], Hazard] = field(default_factory=dict)
    work: int = 0  # units that were looked up
    behind: dict[int, frozenset[int]] = field(default_factory=dict)  # by store: the loads that its value comes from

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
        known = any(event.kind is Kind.LOADED for event in events)
        self.loading = self._agents_of(frozenset(("LDTM",))) if known else np.arange(self.n)
        self.readers = self.agents if opcodes & (WGMMA | UNCOUNTED | TENSOR_MEMORY) else self.n
        if total * self.readers > MOST_UNITS:
            self.lacking["the block has too much shared memory and too many warps to follow"] = None
            return
        reading = {event.number for event in events if event.kind is Kind.ACCESS}
        self.acquiring = self.polls | {number for number in reading if strong(self.instructions[number])}
        for _ in range(MOST_PASSES):
            self._begin(total, opcodes)
            self._look_at(events)
            doubted = {key: self.doubted.get(key, frozenset()) | gate.doubted for key, gate in self.gates.items()}
            if all(found == self.doubted.get(key, frozenset()) for key, found in doubted.items()):
                break
            self.doubted = doubted  # once more, without the order of these generations
        else:
            self.lacking["which warps meet at a named barrier"] = None

    def _look_at(self, events: Sequence[Event]) -> None:
        for at, event in enumerate(events, 1):
            self.now = at
            handler = _HANDLERS.get(event.kind)
            if handler is None:
                continue
            low, high = 0, len(event.warps)
            if len(self.machine.blocks) > len(self.blocks) and event.kind not in _OTHER_BLOCKS:
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
        self._begin_clocks(self.events)
        self.found, self.lost, self.locked = {}, False, False
        self.write_event, self.write_agent = np.zeros(total, np.int32), np.zeros(total, np.int32)
        self.write_lane = np.zeros(total, np.int8)
        self.read_event = np.zeros((total, self.readers), np.int32)
        self.is_mbarrier = np.zeros(total, np.int32)  # the event that initialised one there
        self.read_lane = np.zeros((total, self.n), np.int8)
        atomics = bool(opcodes & {"ATOMS", "ATOM", "ST", "SYNCS", "ARRIVES"})
        self.atomic_event = np.zeros((total, self.n), np.int32) if atomics else None
        self.words: dict[int, Any] = {}  # clocks that atomics, or stores to flags, after a fence left, by unit
        self.flags: Any = None  # units, (total,), that loops poll, or that strong loads read
        self.released = np.zeros(self.n, np.int32)  # by warp: the event of its last arrival at an mbarrier
        self.remote: dict[tuple[int, int], tuple[int, int]] = {}  # by block and agent: the last access to another block
        # By event: warps, the words that they store, (words, G, 32), and which of them are known.
        self.stored: dict[int, tuple[Ints, Any, Any]] = {}
        self.elected: dict[int, int] = {}  # by warp: the lane that ptxas has start a copy which the whole warp executes
        self.loads: dict[tuple[int, int], int] = {}  # by warp and offset: the last tcgen05.ld
        self.reading: dict[int, tuple[int, int]] = {}  # by warp, the last copy out of shared memory
        self.prints: dict[int, Footprint] = {}
        for event in self.events if self.acquiring else ():
            if event.kind is Kind.ACCESS and event.number in self.acquiring:
                low, high = np.searchsorted(event.warps, (self.first, self.first + self.n)).tolist()
                if self.flags is None:
                    self.flags = np.zeros(total, bool)
                self.flags[self._print(event, event.warps[low:high] - self.first, slice(low, high)).units] = True

    def _unit(self, events: Sequence[Event]) -> int:
        """Return the bytes of a unit: those of the narrowest access, st.async among them."""
        numbers = {event.number for event in events if event.kind in (Kind.ACCESS, Kind.MAYBE, Kind.REMOTE)}
        widths = [16, *(SharedUse.of(self.instructions[number]).width for number in numbers)]
        copied = {int(event.data[1]) | int(event.data[2]) for event in events if event.kind is Kind.COPY_IN}
        copied |= {
            int(np.bitwise_or.reduce(event.data[0] | event.data[1])) for event in events if event.kind is Kind.FILL
        }
        widths += [ends & -ends for ends in copied if ends > 0]
        narrow = any(event.kind in (Kind.INITIALISE, Kind.COUNT) for event in events)
        return min(*widths, MBARRIER if narrow else 16)

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
        blocks, offset, completed, lanes = event.data
        inside = (blocks >= self.blocks.start) & (blocks < self.blocks.stop)
        if not inside.any():
            return
        blocks, completed = blocks[inside] - self.blocks.start, completed[inside]
        warps = (event.warps[inside] - self.first) if len(event.warps) else warps
        opcode = self.instructions[event.number].opcode
        # What has ended when the arrival is made: copies, or tcgen05.mma and its like, that the warp has issued.
        ended = {"ARRIVES": np.arange(self.n) + self.copies, "UTCBAR": self.pipes}.get(opcode)
        for block in np.unique(blocks).tolist():
            mbarrier, here = self._mbarrier(block, offset), blocks == block
            if len(warps):
                arriving, which = np.unique(warps[here], return_inverse=True)
                bits = None
                if lanes is not None:
                    bits = np.zeros(len(arriving), np.uint32)
                    np.bitwise_or.at(bits, which, LANE_BITS[lanes[inside][here]])
                clocks = self._published(arriving, bits)
                self.released[arriving] = self.now
                if ended is not None:
                    clocks[np.arange(len(arriving)), 0, ended[arriving]] = self.now
                mbarrier.pending = np.maximum(mbarrier.pending, clocks.max(axis=0))
                units = self._units(block, offset, MBARRIER)
                self._access(_together(arriving, units), COUNT)
                for warp in arriving[arriving // self.machine.per_block != block].tolist():
                    self._reach(block, warp, int(self.pipes[warp]) if opcode == "UTCBAR" else warp, event)
            self._settle(mbarrier, int(completed[here].max()))

    def _pass(self, event: Event, warps: Ints, rows: slice) -> None:
        offset, completed, bits = event.data
        masks = [None] * len(warps) if bits is None else bits[rows].tolist()
        for warp, phases, mask in zip(warps, completed[rows].tolist(), masks, strict=True):
            block, one = int(warp) // self.machine.per_block, np.array([warp])
            mbarrier = self._mbarrier(block, offset)
            self._settle(mbarrier, phases)
            self._access(_together(one, self._units(block, offset, MBARRIER)), COUNT)
            done = mbarrier.history.get(phases, mbarrier.done)
            self._acquire(one, done, None if mask is None else [mask])

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
        instruction = self.instructions[event.number]
        use = SharedUse.of(instruction)
        footprint = self._print(event, warps, rows)
        morally = strong(instruction)
        does = ATOMIC if event.number in self.swapped or (morally and use.does == WRITE) else use.does
        self._access(footprint, does, copies=instruction.opcode == "LDGSTS", strong=morally)
        if self.flags is not None and (event.number in self.acquiring or use.does == WRITE):
            self._flag(footprint, use.does)

    def _print(self, event: Event, warps: Ints, rows: slice) -> Footprint:
        """Return what lanes access in the shared memory of their own block."""
        seen, use = event.data, SharedUse.of(self.instructions[event.number])
        footprint = self.prints.get(id(seen))
        if footprint is None:
            which = np.arange(rows.start, rows.stop) % len(seen.selected)
            selected = seen.selected[which]
            if use.matrix:
                selected = selected & (np.arange(operations.WARP) < use.matrix)
            at = np.broadcast_to(seen.addresses, seen.selected.shape)[which].astype(np.int64) // self.unit
            block = warps // self.machine.per_block * self.per_block
            footprint = self.prints[id(seen)] = self._footprint(warps, at + block[:, None], selected, use)
        return footprint

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
        warps, row = self._warps(block), self.rows[warp, ALL_LANES]
        lanes = slice(self._columns(warps.start).start, self._columns(warps.stop).start) if self.by_lane else slice(0)
        if not self.clock[row, warps].any() and not self.clock[row, lanes].any() and not self.lost:
            party = Party(offset=self.instructions[event.number].offset, does="accesses another block")
            index = tuple(self.machine.blocks[self.blocks.start + block].tolist())
            what = f"block {index} may not have begun by then: no barrier of the cluster comes before"
            self._add(codes.EXITED, (party,), block, what, key=(codes.EXITED, event.number, -2))

    def _warps(self, block: int) -> slice:
        """Return the warps of a block."""
        return slice(block * self.machine.per_block, (block + 1) * self.machine.per_block)

    def _copy_in(self, event: Event, _warps: Ints, _rows: slice) -> None:
        """A bulk or tensor copy writes; an mbarrier counts its bytes."""
        written, start, size, counting, offset, lanes = event.data
        warp = event.warps - self.first
        for k, (block, by) in enumerate(zip((written - self.blocks.start).tolist(), counting.tolist(), strict=True)):
            if not 0 <= block < len(self.blocks):
                continue
            if size < 0:
                instruction = self.instructions[event.number]
                self.lacking[f"how much {instruction.text} copies"] = instruction.offset
                return
            mbarrier = self._mbarrier(by - self.blocks.start, offset)
            units = self._units(block, start, size)
            issuing = warp[min(k, len(warp) - 1) : min(k, len(warp) - 1) + 1]
            self._access(_together(issuing, self._units(by - self.blocks.start, offset, MBARRIER)), COUNT)
            written = _together(issuing, units)
            before = self.write_event[units], self.write_agent[units]  # the copy's own write comes next
            self._access(written, WRITE, agent=mbarrier.agent, lane=self._starting(int(issuing[0]), int(lanes[0])))
            if self.instructions[event.number].opcode in _ASYNC_WRITES:
                self._after_generic(written, mbarrier.agent, *before)

    def _starting(self, warp: int, lane: int) -> int:
        return lane if lane >= 0 else self.elected.get(warp, ALL_LANES)

    def _elect(self, event: Event, warps: Ints, rows: slice) -> None:
        self._in_warp(event, warps, rows)
        instruction = self.instructions[event.number]
        elects = instruction.opcode == "ELECT" and instruction.guard is not None and event.data is not None
        for at, warp in enumerate(warps.tolist()):
            self.elected.pop(warp, None)
            if elects and (lanes := int(np.ravel(event.data[rows][at])[0])):
                self.elected[warp] = (lanes & -lanes).bit_length() - 1

    def _read_out(self, event: Event, warps: Ints, rows: slice) -> None:
        """A bulk copy reads shared memory, in the group of its warp."""
        starts, sizes, lanes = (part[rows].tolist() for part in event.data)
        for k, warp in enumerate(warps.tolist()):
            units = self._units(warp // self.machine.per_block, starts[k], sizes[k])
            made = _together(warps[k : k + 1], units)
            self._access(made, READ, agent=self.copies + warp, proxy=True, lane=self._starting(warp, lanes[k]))
            self.reading[warp] = self.now, event.number

    def _fill(self, event: Event, warps: Ints, rows: slice) -> None:
        """An st.bulk writes shared memory, as a store of the lane that starts it."""
        starts, sizes, lanes = (part[rows].tolist() for part in event.data)
        for k, warp in enumerate(warps.tolist()):
            units = self._units(warp // self.machine.per_block, starts[k], sizes[k])
            made = _together(warps[k : k + 1], units)
            lane = self._starting(warp, lanes[k])
            self._access(made._replace(lanes=np.full(len(units), lane, np.int8)), WRITE)

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
        beside = {"STTM": self.storing, "LDTM": self.loading, **dict.fromkeys(_IN_PIPE, self.pipes)}
        agents = beside.get(opcode, np.arange(self.n))
        for use, warp in zip(event.data[rows], warps.tolist(), strict=True):
            agent, one = int(agents[warp]), np.array([warp])
            row = self.rows[warp, ALL_LANES]
            known, self.clock[row, agent] = self.clock[row, agent], ALWAYS  # in the order in which it is issued
            units = (use.chunks[:, None] // self.unit + np.arange(CHUNK // self.unit)).ravel()
            for block in (block - self.blocks.start for block in use.blocks):
                base = block * self.per_block
                self._access(_together(one, units[units < self.shared_units] + base), READ, agent=agent, proxy=True)
                self._access(_together(one, use.reads + self.shared_units + base), READ, agent=agent)
                self._access(_together(one, use.writes + self.shared_units + base), WRITE, agent=agent)
                if block != warp // self.machine.per_block:
                    self._reach(block, warp, agent, event)
            self.clock[row, agent] = known
            if opcode == "LDTM":
                self.loads[warp, self.instructions[event.number].offset] = self.now

    def _stored_tensors(self, _event: Event, warps: Ints, _rows: slice) -> None:
        for warp in warps.tolist():
            self.clock[np.unique(self.rows[warp]), self.storing[warp]] = self.now

    def _loaded(self, event: Event, warps: Ints, _rows: slice) -> None:
        """Those of a warp end in the order in which they began."""
        for warp in warps.tolist():
            rows, agent = np.unique(self.rows[warp]), self.loading[warp]
            ended = max((self.loads.get((warp, load), 0) for load in event.data), default=0)
            if ended:
                self.clock[rows, agent] = np.maximum(self.clock[rows, agent], ended)

    def _unknown(self, event: Event, _warps: Ints, _rows: slice) -> None:
        instruction = self.instructions[event.number]
        self.lacking.setdefault(f"what {instruction.text} at {instruction.offset:#x} accesses", instruction.offset)
        if instruction.opcode in WGMMA and GROUPS in instruction.text:
            for groups in self.tile_groups:
                groups.append(self.now)

    def _judge_exits(self) -> None:
        """Accesses to another block have to end before it does, and copies out of a block before its own threads do."""
        for (block, agent), (at, number) in self.remote.items():
            warps = np.arange(self.n)[self._warps(block)]
            if self._later(self.clock, _together(warps, warps[:1]), at, agent, ALL_LANES).all():
                index = self.machine.blocks[self.blocks.start + block].tolist()
                party = Party(offset=self.instructions[number].offset, does="accesses another block")
                what = f"block {tuple(index)} may have ended by then: nothing that it waits for follows"
                self._add(codes.EXITED, (party,), block, what)
        for warp, (at, number) in self.reading.items():
            if self.clock[self.rows[warp, ALL_LANES], self.copies + warp] < at:
                party = Party(offset=self.instructions[number].offset, does="copies out of shared memory")
                what = "the block may end before this copy has read its source: no wait for its group follows"
                self._add(codes.ASYNC_RACE, (party,), warp // self.machine.per_block, what)

    # ------------------------------------------------------------------------------------------ judgement

    def _access(
        self,
        made: Footprint,
        does: str,
        *,
        agent: int | None = None,
        copies: bool = False,
        proxy: bool = False,
        strong: bool = False,
        lane: int = ALL_LANES,
    ) -> None:
        """Compare an access with those before it that touch the same units, and remember it.

        `agent` makes it, if not the warps themselves or, with `copies`, their copies, and `lane` alone has it start;
        `proxy`: through the async proxy; `strong`: as a load or store that no other strong one races with.
        """
        warps, units, lanes = made
        self.work += len(units)
        if not len(units):
            return
        if self.fences and does == ATOMIC and not strong:
            self._synchronise(made)
        by: Any = warps + self.copies if copies else warps if agent is None else agent
        in_lanes = agent is None and not copies and does != COUNT
        self._after_writes(made, does, by, proxy=proxy)
        if does in (WRITE, ATOMIC):
            self._after_reads(made, self.read_event, READ, does, by)
        if in_lanes or lane >= 0:
            self._after_lanes(made if in_lanes else made._replace(lanes=np.full(len(units), lane, np.int8)), does, by)
        if self.atomic_event is not None and does in (WRITE, READ) and agent is None and not strong:
            self._after_reads(made, self.atomic_event, ATOMIC, does, by)
        if does == READ and strong:  # a plain store is compared when the next such load finds its value
            return
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

    def _after_writes(self, made: Footprint, does: str, by: Any, *, proxy: bool) -> None:
        """Compare with the last write of each unit."""
        units = made.units
        last, writer = self.write_event[units], self.write_agent[units]
        unordered = self._later(self.clock, made, last, writer, self.write_lane[units])
        self._report(made, unordered, last, writer, does=does, before=WRITE, agent=by)
        if proxy:
            # What threads and cp.async write, they write through the generic proxy (PTX ISA, "Async proxy").
            unseen = self._later(self.visible, made, last, writer, self.write_lane[units])
            hidden = unseen & (writer < self.tiles) & ~unordered
            self._report(made, hidden, last, writer, does=does, before=WRITE, agent=by, code=codes.PROXY_FENCE)

    def _after_lanes(self, made: Footprint, does: str, by: Any) -> None:
        """Compare with what other lanes of the same warp did."""
        warps, units, _ = made
        last, wrote = self.write_event[units], self.write_lane[units]
        apart = self._unmet(made, last, wrote) & (self.write_agent[units] == warps)
        self._report(made, apart, last, warps, does=does, before=WRITE, agent=by, code=codes.LANES)
        if does in (WRITE, ATOMIC):
            read, reader = self.read_event[units, warps], self.read_lane[units, warps]
            apart = self._unmet(made, read, reader)
            self._report(made, apart, read, warps, does=does, before=READ, agent=by, code=codes.LANES)

    def _after_reads(self, made: Footprint, table: Any, before: str, does: str, by: Any) -> None:
        """Compare with earlier reads, or atomics, of all agents."""
        events = table[made.units]  # (K, agents)
        unordered = events > self.clock[self.rows[made.warps, made.lanes], : table.shape[1]]
        if unordered.any():
            rows, readers = np.nonzero(unordered)
            chosen = Footprint(made.warps[rows], made.units[rows], made.lanes[rows])
            agent, last = by[rows] if np.ndim(by) else by, events[rows, readers]
            others: Any = ALL_LANES
            if table is self.read_event:
                others = np.where(readers < self.n, self.read_lane[chosen.units, readers % self.n], ALL_LANES)
            where = self._later(self.clock, chosen, last, readers, others)
            self._report(chosen, where, last, readers, does=does, before=before, agent=agent)

    def _after_generic(self, made: Footprint, by: int, last: Any, writer: Any) -> None:
        """Report accesses by threads, and writes by cp.async, that come before, in order, without a fence of proxies.

        `last`: the last write of each unit, by its `writer`.
        Not if the warp has arrived at an mbarrier since: so CUTLASS's pipelines release a stage, without a fence.
        """
        unordered, unseen = (self._later(table, made, last, writer, ALL_LANES) for table in (self.clock, self.visible))
        hidden = unseen & ~unordered & (writer < self.tiles) & (last > self.released[writer % self.n])
        self._report(made, hidden, last, writer, does=WRITE, before=WRITE, agent=by, code=codes.OVERWRITES)
        read = self.read_event[made.units, : self.n]
        known = self.clock[self.rows[made.warps, made.lanes], : self.n]
        hidden = (
            (read > self.visible[self.rows[made.warps, made.lanes], : self.n])
            & (read > self.released)
            & (read <= known)
        )
        rows, readers = np.nonzero(hidden)
        if len(rows):
            chosen = Footprint(made.warps[rows], made.units[rows], made.lanes[rows])
            every, last = np.ones(len(rows), bool), read[rows, readers]
            self._report(chosen, every, last, readers, does=WRITE, before=READ, agent=by, code=codes.OVERWRITES)

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
        """An atomic passes on what its lanes had fenced, and knows what earlier ones passed on."""
        lanes: dict[tuple[int, int], int] = {}
        for unit, warp, lane in zip(made.units.tolist(), made.warps.tolist(), made.lanes.tolist(), strict=True):
            lanes[unit, warp] = lanes.get((unit, warp), 0) | 1 << lane
        for (unit, warp), bits in lanes.items():
            if (earlier := self.words.get(unit)) is not None:
                self._acquire(np.array([warp]), earlier, [bits])
            if (mine := self._fenced(warp, bits)) is not None:
                self.words[unit] = mine if earlier is None else np.maximum(earlier, mine)

    def _flag(self, made: Footprint, does: str) -> None:
        """A store to a flag passes on what its lane had fenced by then; a load of it knows that."""
        for row in np.flatnonzero(self.flags[made.units]).tolist():
            unit, warp, bits = int(made.units[row]), int(made.warps[row]), 1 << int(made.lanes[row])
            if does == READ:
                if unit in self.words:
                    self._acquire(np.array([warp]), self.words[unit], [bits])
            elif (mine := self._fenced(warp, bits)) is not None:
                self.words[unit] = mine
            else:
                self.words.pop(unit, None)

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
            others_lane = self._lane_of(earlier, unit, other, lane, other == warp)
            told = WRONG[kind]
            both_write = does == before == WRITE and kind in (codes.RACE, codes.SAME_PLACE)
            if both_write and (
                self._updates(now.number, unit, warp, other) or self._updates(earlier.number, unit, other, warp)
            ):
                kind, told = codes.RACE, LOST
            elif both_write and self.stored:
                mine_stored = self._stored_at(self.now, unit, warp, lane)
                if mine_stored is not None and mine_stored == self._stored_at(int(last[row]), unit, other, others_lane):
                    kind = codes.SAME_VALUE
                    told = WRONG[kind]
            if kind == codes.RACE and self.polls.intersection((now.number, earlier.number)):
                kind = codes.POLLED
                told = WRONG[kind]
            key = kind, now.number, earlier.number
            if key in self.found:
                continue
            block = unit // self.per_block
            parties = (
                self._party(now, does, mine, warp, lane),
                self._party(earlier, before, other, other, others_lane),
            )
            self._add(kind, parties, block, told, self._place(unit % self.per_block), key)

    def _updates(self, store: int, unit: int, warp: int, other: int) -> bool:
        """Return whether a store to a unit is computed from what its warp read there, with no order to another's."""
        if not 0 <= warp < self.n or not (read := int(self.read_event[unit, warp])):
            return False
        if other == warp:
            ordered = read <= self.in_step[warp]
        else:
            ordered = not 0 <= other < self.n or read <= self.clock[self.rows[other, ALL_LANES], warp]
        if ordered or self.instructions[store].opcode not in ("STS", "ST"):
            return False
        if store not in self.behind:
            instruction = self.instructions[store]
            data = memory_operands(instruction)[0] + 1
            self.behind[store] = loads_behind(self.flow, store, data)
        return self.events[read - 1].number in self.behind[store]

    @cached_property
    def flow(self) -> Flow:
        return Flow(self.instructions)

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
    Kind.FILL: Races._fill,
    Kind.TILE: Races._tile,
    Kind.TENSOR: Races._tensor,
    Kind.STORED: Races._stored_tensors,
    Kind.LOADED: Races._loaded,
    Kind.UNKNOWN: Races._unknown,
    Kind.WARP: Races._elect,
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
    Kind.JOIN: Races._give_up,
}
