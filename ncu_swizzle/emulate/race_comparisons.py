"""Compare each access with those before it that touch the same units: who last wrote, and who read.

Two that are unordered are a hazard, which is reported with both sides and where it is.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.accesses import memory_operands
from ncu_swizzle.emulate.events import Event, Hazard, Kind, Party
from ncu_swizzle.emulate.flow import Flow
from ncu_swizzle.emulate.happens_before import ALL_LANES, HappensBefore
from ncu_swizzle.emulate.machine import coordinates
from ncu_swizzle.emulate.spins import loads_behind
from ncu_swizzle.emulate.tensor_memory import COLUMNS, ROWS_OF_ONE
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.access import RESERVED_BYTES
from ncu_swizzle.smem.opcodes import ATOMIC, READ, WRITE, Opcode, Shared
from ncu_swizzle.smem.operations import Bools, Ints

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
COUNT = "uses the mbarrier"
MOST_LOOKED_AT = 1 << 10  # pairs of accesses in one event that are told apart


class Footprint(NamedTuple):
    """What an event touches, one row for each unit and lane: (K,) each."""

    warps: Ints  # in the domain
    units: Ints
    lanes: Any  # int8


class _Met(NamedTuple):
    """Two accesses to a unit that nothing orders: the one that happens now, and the one before."""

    now: Event
    does: str
    mine: int  # its agent
    warp: int
    lane: int
    earlier: Event
    before: str  # what that one did
    at: int  # when, as a number of the event
    other: int  # its agent
    others_lane: int
    unit: int


@dataclass(kw_only=True)
class Comparisons(HappensBefore):
    """The last accesses to each unit of the memory of one domain, and what was found."""

    work: int = 0  # units that were looked up
    readers: int = field(init=False)  # agents that may read
    found: dict[tuple[str, int, int], Hazard] = field(default_factory=dict)
    behind: dict[int, frozenset[int]] = field(default_factory=dict)  # by store: the loads that its value comes from
    first: int = field(init=False)  # the domain's first warp in the machine
    events: Sequence[Event] = field(init=False)
    unit: int = field(init=False)  # bytes
    shared_units: int = field(init=False)  # of a block
    per_block: int = field(init=False)  # units; those of tensor memory come after those of shared memory
    polls: frozenset[int] = field(init=False)  # loads of loops that wait for a flag
    loading: Ints = field(init=False)  # by warp: the agent of its tcgen05.ld
    read_event: Any = field(init=False)  # by unit and agent, the last read
    # By event: warps, the words that they store, (words, G, 32), and which of them are known.
    stored: dict[int, tuple[Ints, Any, Any]] = field(default_factory=dict)
    prints: dict[int, Footprint] = field(default_factory=dict)

    @cached_property
    def flow(self) -> Flow:
        return Flow(self.instructions)

    @cached_property
    def allocates(self) -> bool:
        """Whether tensor memory is allocated."""
        return any(each.opcode == "UTCATOMSWS" for each in self.instructions)

    def _begin_tables(self, total: int, rows: Set[Opcode]) -> None:
        """Make the tables, with `total` units."""
        self.write_event, self.write_agent = np.zeros(total, np.int32), np.zeros(total, np.int32)
        self.write_lane = np.zeros(total, np.int8)
        self.read_event = np.zeros((total, self.readers), np.int32)
        self.is_mbarrier = np.zeros(total, np.int32)  # the event that initialised one there
        self.read_lane = np.zeros((total, self.n), np.int8)
        generic = any(row.atomic or row.shared is Shared.GENERIC for row in rows)
        atomics = generic or any(row.name in ("SYNCS", "ARRIVES") for row in rows)
        self.atomic_event = np.zeros((total, self.n), np.int32) if atomics else None
        self.words: dict[int, Any] = {}  # clocks that atomics, or stores to flags, after a fence left, by unit
        self.flags: Any = None  # units, (total,), that loops poll, or that strong loads read
        self.released = np.zeros(self.n, np.int32)  # by warp: the event of its last arrival at an mbarrier

    def _access(
        self,
        footprint: Footprint,
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
        warps, units, lanes = footprint
        self.work += len(units)
        if not len(units):
            return
        if self.fences and does == ATOMIC and not strong:
            self._synchronise(footprint)
        by: Any = warps + self.copies if copies else warps if agent is None else agent
        in_lanes = agent is None and not copies and does != COUNT
        self._after_writes(footprint, does, by, proxy=proxy)
        if does in (WRITE, ATOMIC):
            self._after_reads(footprint, self.read_event, READ, does, by)
        if in_lanes or lane >= 0:
            self._after_lanes(
                footprint if in_lanes else footprint._replace(lanes=np.full(len(units), lane, np.int8)), does, by
            )
        if self.atomic_event is not None and does in (WRITE, READ) and agent is None and not strong:
            self._after_reads(footprint, self.atomic_event, ATOMIC, does, by)
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
                    footprint, over > 0, over, warps, does=does, before="initialises", agent=by, code=codes.MBARRIER
                )
            self.write_event[units], self.write_agent[units], self.write_lane[units] = self.now, by, lanes
            self._together(footprint, by, in_lanes)
        elif self.atomic_event is not None:
            self.atomic_event[units, warps] = self.now

    def _after_writes(self, footprint: Footprint, does: str, by: Any, *, proxy: bool) -> None:
        """Compare with the last write of each unit."""
        units = footprint.units
        last, writer = self.write_event[units], self.write_agent[units]
        unordered = self._later(self.clock, footprint, last, writer, self.write_lane[units])
        self._report(footprint, unordered, last, writer, does=does, before=WRITE, agent=by)
        if proxy:
            # Threads and cp.async write through the generic proxy (PTX ISA, "Async proxy").
            unseen = self._later(self.visible, footprint, last, writer, self.write_lane[units])
            hidden = unseen & (writer < self.tiles) & ~unordered
            self._report(footprint, hidden, last, writer, does=does, before=WRITE, agent=by, code=codes.PROXY_FENCE)

    def _after_lanes(self, footprint: Footprint, does: str, by: Any) -> None:
        """Compare with what other lanes of the same warp did."""
        warps, units, _ = footprint
        last, wrote = self.write_event[units], self.write_lane[units]
        apart = self._unmet(footprint, last, wrote) & (self.write_agent[units] == warps)
        self._report(footprint, apart, last, warps, does=does, before=WRITE, agent=by, code=codes.LANES)
        if does in (WRITE, ATOMIC):
            read, reader = self.read_event[units, warps], self.read_lane[units, warps]
            apart = self._unmet(footprint, read, reader)
            self._report(footprint, apart, read, warps, does=does, before=READ, agent=by, code=codes.LANES)

    def _after_reads(self, footprint: Footprint, table: Any, before: str, does: str, by: Any) -> None:
        """Compare with earlier reads, or atomics, of all agents."""
        events = table[footprint.units]  # (K, agents)
        unordered = events > self.clock[self.rows[footprint.warps, footprint.lanes], : table.shape[1]]
        if unordered.any():
            rows, readers = np.nonzero(unordered)
            chosen = Footprint(footprint.warps[rows], footprint.units[rows], footprint.lanes[rows])
            agent, last = by[rows] if np.ndim(by) else by, events[rows, readers]
            others: Any = ALL_LANES
            if table is self.read_event:
                others = np.where(readers < self.n, self.read_lane[chosen.units, readers % self.n], ALL_LANES)
            where = self._later(self.clock, chosen, last, readers, others)
            self._report(chosen, where, last, readers, does=does, before=before, agent=agent)

    def _after_generic(self, footprint: Footprint, by: int, last: Any, writer: Any) -> None:
        """Report earlier, ordered accesses by threads, and writes by cp.async, without a proxy fence in between.

        `last`: the last write of each unit, by its `writer`.
        Not if the warp has arrived at an mbarrier since: so CUTLASS's pipelines release a stage, without a fence.
        """
        unordered, unseen = (
            self._later(table, footprint, last, writer, ALL_LANES) for table in (self.clock, self.visible)
        )
        hidden = unseen & ~unordered & (writer < self.tiles) & (last > self.released[writer % self.n])
        self._report(footprint, hidden, last, writer, does=WRITE, before=WRITE, agent=by, code=codes.OVERWRITES)
        read = self.read_event[footprint.units, : self.n]
        known = self.clock[self.rows[footprint.warps, footprint.lanes], : self.n]
        hidden = (
            (read > self.visible[self.rows[footprint.warps, footprint.lanes], : self.n])
            & (read > self.released)
            & (read <= known)
        )
        rows, readers = np.nonzero(hidden)
        if len(rows):
            chosen = Footprint(footprint.warps[rows], footprint.units[rows], footprint.lanes[rows])
            every, last = np.ones(len(rows), bool), read[rows, readers]
            self._report(chosen, every, last, readers, does=WRITE, before=READ, agent=by, code=codes.OVERWRITES)

    def _together(self, footprint: Footprint, by: Any, in_lanes: bool) -> None:
        """Report what lanes of one instruction write to the same units."""
        others = self.write_agent[footprint.units]
        apart = others != by
        last = np.full(len(footprint.units), self.now, np.int32)
        self._report(footprint, apart, last, others, does=WRITE, before=WRITE, agent=by)
        if in_lanes:
            lanes = ~apart & (self.write_lane[footprint.units] != footprint.lanes)
            self._report(footprint, lanes, last, others, does=WRITE, before=WRITE, agent=by, code=codes.SAME_PLACE)

    def _synchronise(self, footprint: Footprint) -> None:
        """Let an atomic pass on what its lanes had fenced, and learn what earlier ones passed on."""
        lanes: dict[tuple[int, int], int] = {}
        for unit, warp, lane in zip(
            footprint.units.tolist(), footprint.warps.tolist(), footprint.lanes.tolist(), strict=True
        ):
            lanes[unit, warp] = lanes.get((unit, warp), 0) | 1 << lane
        for (unit, warp), bits in lanes.items():
            if (earlier := self.words.get(unit)) is not None:
                self._acquire(np.array([warp]), earlier, [bits])
            if (mine := self._fenced(warp, bits)) is not None:
                self.words[unit] = mine if earlier is None else np.maximum(earlier, mine)

    def _flag(self, footprint: Footprint, does: str) -> None:
        """Let a store to a flag pass on what its lane had fenced by then, and a load of it learn that."""
        for row in np.flatnonzero(self.flags[footprint.units]).tolist():
            unit, warp, bits = int(footprint.units[row]), int(footprint.warps[row]), 1 << int(footprint.lanes[row])
            if does == READ:
                if unit in self.words:
                    self._acquire(np.array([warp]), self.words[unit], [bits])
            elif (mine := self._fenced(warp, bits)) is not None:
                self.words[unit] = mine
            else:
                self.words.pop(unit, None)

    # ------------------------------------------------------------------------------------------ reports

    def _report(
        self,
        footprint: Footprint,
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
        if self.allocates:  # through CUDA's reserved words, which ptxas orders
            where = where & (footprint.units % self.per_block * self.unit >= RESERVED_BYTES)
        if not where.any() or (self.lost and code not in IN_WARP):
            return
        for row in np.flatnonzero(where)[:MOST_LOOKED_AT].tolist():
            at, other = int(last[row]), int(agents[row])
            unit, warp, lane = int(footprint.units[row]), int(footprint.warps[row]), int(footprint.lanes[row])
            met = _Met(
                now=self.events[self.now - 1], does=does, mine=int(agent[row]) if np.ndim(agent) else int(agent),
                earlier=self.events[at - 1], before=before, at=at, other=other, unit=unit, warp=warp, lane=lane,
                others_lane=self._lane_of(self.events[at - 1], unit, other, lane, other == warp),
            )  # fmt: skip
            kind, wrong = self._judged(met, code)
            key = kind, met.now.number, met.earlier.number
            if kind and key not in self.found:
                parties = (
                    self._party(met.now, does, met.mine, warp, lane),
                    self._party(met.earlier, before, other, other, met.others_lane),
                )
                self._add(kind, parties, unit // self.per_block, wrong, unit=unit % self.per_block, key=key)

    def _judged(self, met: _Met, code: str) -> tuple[str, str]:
        """Return the code of two unordered accesses, this one if given, and what is wrong; "" if it may be nothing."""
        now, earlier = met.now, met.earlier
        aside = met.mine >= self.n or (met.other >= self.n and not self._loaded_by(met.other, met.at))
        kind = code or (codes.ASYNC_RACE if aside else codes.RACE)
        if Kind.MAYBE in (now.kind, earlier.kind) and (kind in IN_WARP or now.number == earlier.number):
            return "", ""  # which lanes do it depends on data: perhaps one alone
        loses = False
        if met.does == met.before == WRITE and kind in (codes.RACE, codes.SAME_PLACE):
            loses = self._updates(now.number, met.unit, met.warp, met.other) or self._updates(
                earlier.number, met.unit, met.other, met.warp
            )
            kind = codes.RACE if loses else codes.SAME_VALUE if self._same_value(met) else kind
        if kind == codes.RACE and self.polls.intersection((now.number, earlier.number)):
            kind = codes.POLLED
        return kind, LOST if loses and kind == codes.RACE else WRONG[kind]

    def _same_value(self, met: _Met) -> bool:
        """Return whether two stores are known to leave the same in a unit."""
        mine = self._stored_at(self.now, met.unit, met.warp, met.lane) if self.stored else None
        return mine is not None and mine == self._stored_at(met.at, met.unit, met.other, met.others_lane)

    def _updates(self, store: int, unit: int, warp: int, other: int) -> bool:
        """Return whether a store to a unit is computed from what its warp read there, unordered with another's."""
        if not 0 <= warp < self.n or not (read := int(self.read_event[unit, warp])):
            return False
        if other == warp:
            ordered = read <= self.in_step[warp]
        else:
            ordered = not 0 <= other < self.n or read <= self.clock[self.rows[other, ALL_LANES], warp]
        if ordered or not self.instructions[store].row.stored or self.instructions[store].row.atomic:
            return False
        if store not in self.behind:
            instruction = self.instructions[store]
            data = memory_operands(instruction)[0] + 1
            self.behind[store] = loads_behind(self.flow, store, data)
        return self.events[read - 1].number in self.behind[store]

    def _stored_at(self, at: int, unit: int, warp: int, lane: int) -> int | None:
        """Return the byte that a lane stored in an event, or the bytes of its unit; None if not known."""
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
            thread = coordinates(int(self.machine.thread[self.first + warp, lane]), self.machine.block)
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

    def _loaded_by(self, agent: int, at: int) -> bool:
        """Return whether an agent makes the tcgen05.ld of a warp, which has waited for the one of an event."""
        warps = np.flatnonzero(self.loading == agent)
        return len(warps) == 1 and int(self.clock[self.rows[warps[0], ALL_LANES], agent]) >= at

    def _add(
        self, code: str, parties: tuple[Party, ...], block: int, what: str, *, unit: int | None = None, key: Any = None
    ) -> None:
        """Record a hazard, at this unit of the block if one is given."""
        x, y, z = self.machine.blocks[self.blocks.start + block].tolist()
        byte, place = None, ""
        if unit is not None and unit < self.shared_units:
            byte = unit * self.unit
        elif unit is not None:
            sixteenth, column = divmod(unit - self.shared_units, COLUMNS)
            place = f"lane {sixteenth * ROWS_OF_ONE}, column {column} of tensor memory"
        hazard = Hazard(code=code, parties=parties, block=(x, y, z), what=what, byte=byte, place=place)
        self.found.setdefault(key or (code, parties[0].offset, -1), hazard)


def whole(warps: Ints, units: Ints) -> Footprint:
    """Return what one warp, or each of several, touches with all lanes together."""
    many = np.repeat(warps, len(units))
    return Footprint(many, np.tile(units, len(warps)), np.full(len(many), ALL_LANES, np.int8))
