"""Find unordered accesses to shared memory, even if they happened one after the other in this run.

Shared memory is in units: bytes, or the width of the narrowest access. After them come the places of the block's
tensor memory. `happens_before` says what is ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.accesses import SharedUse
from ncu_swizzle.emulate.events import Event, Kind, Party
from ncu_swizzle.emulate.happens_before import ALL_LANES, ALWAYS
from ncu_swizzle.emulate.machine import LANE_BITS
from ncu_swizzle.emulate.order_steps import GROUPS, PLACES
from ncu_swizzle.emulate.race_comparisons import COUNT, Comparisons, Footprint, whole
from ncu_swizzle.emulate.spins import compared_and_swapped, polling, strong
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.descriptors import CHUNK, WARPS
from ncu_swizzle.smem.opcodes import ATOMIC, READ, WRITE, Copy, Opcode, Shared
from ncu_swizzle.smem.operations import Bools, Ints

MBARRIER = 8  # bytes
MOST_UNITS = 1 << 27  # of a table of units and agents
_ASYNC_WRITES = frozenset(("UBLKCP", "UTMALDG"))
_BY_OTHERS = (Shared.WGMMA, Shared.UNCOUNTED)  # agents other than warps access shared memory
MOST_PASSES = 8  # over the events, until the doubtful generations of named barriers are clear
_OTHER_BLOCKS = (Kind.COUNT, Kind.COPY_IN, Kind.INVALIDATE)  # their data are of blocks, not of warps


def _in_pipe(row: Opcode) -> bool:
    """Return whether the tensor cores execute an opcode, one after the other."""
    return row.tensor and row.name not in ("LDTM", "STTM")


@dataclass(kw_only=True)
class Races(Comparisons):
    """The events of one domain, in the order in which they happened, and what was found."""

    def run(self, events: Sequence[Event]) -> None:
        """Process all events; results go to `found` and `lacking`."""
        m = self.machine
        self.first = self.blocks.start * m.per_block
        self.n = len(self.blocks) * m.per_block
        self.events = events
        self.unit = self._unit(events)
        rows = {self.instructions[event.number].row for event in events}
        tensors = any(row.tensor for row in rows)
        self.shared_units = -(-m.shared_size // self.unit)
        self.per_block = self.shared_units + PLACES * tensors
        total = self.per_block * len(self.blocks)
        self.polls, self.swapped = polling(self.instructions), compared_and_swapped(self.instructions)
        self.copies, self.tiles = self.n, 2 * self.n
        self.agents = self.tiles + (-(-self.n // WARPS) if any(row.shared is Shared.WGMMA for row in rows) else 0)
        self.pipes, self.storing = self._agents_of(_in_pipe), self._agents_of(lambda row: row.name == "STTM")
        has_loaded = any(event.kind is Kind.LOADED for event in events)
        self.loading = self._agents_of(lambda row: row.name == "LDTM") if has_loaded else np.arange(self.n)
        self.readers = self.agents if any(row.tensor or row.shared in _BY_OTHERS for row in rows) else self.n
        if total * self.readers > MOST_UNITS:
            self.lacking["the block has too much shared memory and too many warps to follow"] = None
            return
        reading = {event.number for event in events if event.kind is Kind.ACCESS}
        self.acquiring = self.polls | {number for number in reading if strong(self.instructions[number])}
        for _ in range(MOST_PASSES):
            self._begin(total, rows)
            self._look_at(events)
            doubted = {key: self.doubted.get(key, frozenset()) | gate.doubted for key, gate in self.gates.items()}
            if all(found == self.doubted.get(key, frozenset()) for key, found in doubted.items()):
                break
            self.doubted = doubted  # again, without the order of these generations
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

    def _agents_of(self, issues: Callable[[Opcode], bool]) -> Ints:
        """Return a new agent for each warp that issues tcgen05, (N,); for another warp, the warp itself."""
        here = (event for event in self.events if event.kind is Kind.TENSOR)
        issued = [event.warps for event in here if issues(self.instructions[event.number].row)]
        warps = np.unique(np.concatenate([np.zeros(0, np.int64), *issued])) - self.first
        warps = warps[(warps >= 0) & (warps < self.n)]
        agents = np.arange(self.n)
        agents[warps] = self.agents + np.arange(len(warps))
        self.agents += len(warps)
        return agents

    def _begin(self, total: int, rows: set[Opcode]) -> None:
        """Make the tables, with `total` units."""
        self._begin_clocks(self.events)
        self.found, self.lost, self.locked = {}, False, False
        self._begin_tables(total, rows)
        self.remote: dict[tuple[int, int], tuple[int, int]] = {}  # by block and agent: the last access to another block
        self.elected: dict[int, int] = {}  # by warp: the lane that ptxas has start a copy which the whole warp executes
        self.loads: dict[tuple[int, int], int] = {}  # by warp and offset: the last tcgen05.ld
        self.reading: dict[int, tuple[int, int]] = {}  # by warp, the last copy out of shared memory
        self.stored, self.prints = {}, {}
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
            self._access(whole(warps[:1], units), WRITE)
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
        # What the warp issued that has ended by the arrival: copies, or tcgen05.mma and its like.
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
                self._access(whole(arriving, units), COUNT)
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
            self._access(whole(one, self._units(block, offset, MBARRIER)), COUNT)
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
        self._access(footprint, does, copies=instruction.row.copy is Copy.ASYNC, strong=morally)
        if self.flags is not None and (event.number in self.acquiring or use.does == WRITE):
            self._flag(footprint, use.does)

    def _print(self, event: Event, warps: Ints, rows: slice) -> Footprint:
        """Return what lanes access in the shared memory of their own block."""
        requests, use = event.data, SharedUse.of(self.instructions[event.number])
        footprint = self.prints.get(id(requests))
        if footprint is None:
            which = np.arange(rows.start, rows.stop) % len(requests.selected)
            selected = requests.selected[which]
            if use.matrix:
                selected = selected & (np.arange(operations.WARP) < use.matrix)
            at = np.broadcast_to(requests.addresses, requests.selected.shape)[which].astype(np.int64) // self.unit
            block = warps // self.machine.per_block * self.per_block
            footprint = self.prints[id(requests)] = self._footprint(warps, at + block[:, None], selected, use)
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
        """Keep an access to another block; the warp has to know that this block has begun."""
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
            self._access(whole(issuing, self._units(by - self.blocks.start, offset, MBARRIER)), COUNT)
            written = whole(issuing, units)
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
            footprint = whole(warps[k : k + 1], units)
            self._access(footprint, READ, agent=self.copies + warp, proxy=True, lane=self._starting(warp, lanes[k]))
            self.reading[warp] = self.now, event.number

    def _fill(self, event: Event, warps: Ints, rows: slice) -> None:
        """An st.bulk writes shared memory, as a store of the lane that starts it."""
        starts, sizes, lanes = (part[rows].tolist() for part in event.data)
        for k, warp in enumerate(warps.tolist()):
            units = self._units(warp // self.machine.per_block, starts[k], sizes[k])
            footprint = whole(warps[k : k + 1], units)
            lane = self._starting(warp, lanes[k])
            self._access(footprint._replace(lanes=np.full(len(units), lane, np.int8)), WRITE)

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
            self._access(whole(warps[k : k + 1], units), READ, agent=agent, proxy=True)
            if ends and warp % WARPS == 0:
                self.tile_groups[warp // WARPS].append(self.now)

    def _tensor(self, event: Event, warps: Ints, rows: slice) -> None:
        """tcgen05 reads tiles, and accesses tensor memory."""
        instruction = self.instructions[event.number]
        apart = {"STTM": self.storing, "LDTM": self.loading}
        agents = self.pipes if _in_pipe(instruction.row) else apart.get(instruction.opcode, np.arange(self.n))
        for use, warp in zip(event.data[rows], warps.tolist(), strict=True):
            agent, one = int(agents[warp]), np.array([warp])
            row = self.rows[warp, ALL_LANES]
            known, self.clock[row, agent] = self.clock[row, agent], ALWAYS  # in the order in which it is issued
            units = (use.chunks[:, None] // self.unit + np.arange(CHUNK // self.unit)).ravel()
            for block in (block - self.blocks.start for block in use.blocks):
                base = block * self.per_block
                self._access(whole(one, units[units < self.shared_units] + base), READ, agent=agent, proxy=True)
                self._access(whole(one, use.reads + self.shared_units + base), READ, agent=agent)
                self._access(whole(one, use.writes + self.shared_units + base), WRITE, agent=agent)
                if block != warp // self.machine.per_block:
                    self._reach(block, warp, agent, event)
            self.clock[row, agent] = known
            if instruction.opcode == "LDTM":
                self.loads[warp, instruction.offset] = self.now

    def _stored_tensors(self, _event: Event, warps: Ints, _rows: slice) -> None:
        for warp in warps.tolist():
            self.clock[np.unique(self.rows[warp]), self.storing[warp]] = self.now

    def _loaded(self, event: Event, warps: Ints, _rows: slice) -> None:
        """Retire a warp's tcgen05.ld, which end in the order in which they began."""
        for warp in warps.tolist():
            rows, agent = np.unique(self.rows[warp]), self.loading[warp]
            ended = max((self.loads.get((warp, load), 0) for load in event.data), default=0)
            if ended:
                self.clock[rows, agent] = np.maximum(self.clock[rows, agent], ended)

    def _unknown(self, event: Event, _warps: Ints, _rows: slice) -> None:
        instruction = self.instructions[event.number]
        self.lacking.setdefault(f"what {instruction.text} at {instruction.offset:#x} accesses", instruction.offset)
        if instruction.row.shared is Shared.WGMMA and GROUPS in instruction.text:
            for groups in self.tile_groups:
                groups.append(self.now)

    def _judge_exits(self) -> None:
        """Check that accesses to another block end before it does, and copies out of a block before its threads do."""
        for (block, agent), (at, number) in self.remote.items():
            warps = np.arange(self.n)[self._warps(block)]
            if self._later(self.clock, whole(warps, warps[:1]), at, agent, ALL_LANES).all():
                index = self.machine.blocks[self.blocks.start + block].tolist()
                party = Party(offset=self.instructions[number].offset, does="accesses another block")
                what = f"block {tuple(index)} may have ended by then: nothing that it waits for follows"
                self._add(codes.EXITED, (party,), block, what)
        for warp, (at, number) in self.reading.items():
            if self.clock[self.rows[warp, ALL_LANES], self.copies + warp] < at:
                party = Party(offset=self.instructions[number].offset, does="copies out of shared memory")
                what = "the block may end before this copy has read its source: no wait for its group follows"
                self._add(codes.ASYNC_RACE, (party,), warp // self.machine.per_block, what)


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
