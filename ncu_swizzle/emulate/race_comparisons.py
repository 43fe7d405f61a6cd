"""Compare each access with those before it that touch the same units, and remember it: who last wrote, and who read."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.happens_before import ALL_LANES
from ncu_swizzle.emulate.race_reports import Footprint, Reports
from ncu_swizzle.smem.opcodes import ATOMIC, READ, WRITE, Opcode, Shared
from ncu_swizzle.smem.operations import Ints

COUNT = "uses the mbarrier"


@dataclass(kw_only=True)
class Comparisons(Reports):
    """The last accesses to each unit of the memory of one domain."""

    work: int = 0  # units that were looked up
    readers: int = field(init=False)  # agents that may read

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


def whole(warps: Ints, units: Ints) -> Footprint:
    """Return what one warp, or each of several, touches with all lanes together."""
    many = np.repeat(warps, len(units))
    return Footprint(many, np.tile(units, len(warps)), np.full(len(many), ALL_LANES, np.int8))
