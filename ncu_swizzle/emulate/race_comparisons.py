"""Compare each access with those before it that touch the same units, and remember it: who last wrote, and who read."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.happens_before import ALL_LANES
from ncu_swizzle.emulate.opcodes import ATOMIC, READ, WRITE, Opcode, Shared
from ncu_swizzle.emulate.race_reports import Footprint, Reports
from ncu_swizzle.smem.operations import Ints

COUNT = "uses the mbarrier"


@dataclass(kw_only=True)
class Comparisons(Reports):
    """The last accesses to each unit of the memory of one domain."""

    work: int = 0  # units that were looked up
    readers: int = field(init=False)  # agents that may read

    def _begin_tables(self, total: int, rows: Set[Opcode]) -> None:
        """Make the tables, of so many units."""
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


def whole(warps: Ints, units: Ints) -> Footprint:
    """Return what one warp touches as a whole, or each of several."""
    many = np.repeat(warps, len(units))
    return Footprint(many, np.tile(units, len(warps)), np.full(len(many), ALL_LANES, np.int8))
