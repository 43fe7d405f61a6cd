"""Waits that cannot end, and misused barriers: who waits for whom, and what is missing.

By then all remaining threads wait: what they wait for can only come from each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.events import Hazard, Kind, Party
from ncu_swizzle.emulate.machine import Machine, coordinates
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.state import AtPhaseCheck, Group
from ncu_swizzle.smem.opcodes import Copy, Shared

MOST_PARTIES = 4  # that are named
WAITS = "waits for"  # an mbarrier


@dataclass(kw_only=True)
class Deadlocks:
    """What a machine's threads wait for."""

    program: PreparedCode
    machine: Machine

    def record(self, code: str, parties: tuple[Party, ...], block: int, what: str) -> None:
        """Record a hazard, the first of its kind for each instruction."""
        m = self.machine
        x, y, z = m.blocks[block].tolist()
        key = code, parties[0].offset, parties[1].offset if len(parties) > 1 else -1
        m.hazards.setdefault(key, Hazard(code=code, parties=parties, block=(x, y, z), what=what))

    def party(self, number: int, does: str, warp: int, lane: int, mbarrier: int | None = None) -> Party:
        """Return a thread and what it does at an instruction."""
        m = self.machine
        at = coordinates(int(m.thread[warp, lane]), m.block)
        return Party(offset=self.program.instructions[number].offset, does=does, thread=at, mbarrier=mbarrier)

    def party_of_group(self, group: Group, does: str, block: int, mbarrier: int | None = None) -> Party | None:
        """Return the first thread of a group, of one block; None if it has none there."""
        rows = np.flatnonzero(self.machine.block_of[group.warps] == block)
        if not len(rows):
            return None
        row = int(rows[0])
        return self.party(group.pc, does, int(group.warps[row]), int(group.mask[row].argmax()), mbarrier)

    def waiting(self, block: int) -> Iterator[Party]:
        """Yield the first thread at each place where threads of a block wait."""
        m = self.machine
        for waiting in m.at_barrier:
            does = f"waits at barrier {waiting.barrier}" + (f" for {waiting.count} threads" if waiting.count else "")
            yield from filter(None, [self.party_of_group(waiting.group, does, block)])
        for checks in m.at_phase:
            yield from filter(None, [self.party_of_group(checks.group, WAITS, block, int(checks.offset[0]))])
        for group in m.at_cluster:
            yield from filter(None, [self.party_of_group(group, "waits at the barrier of the cluster", block)])
        held = (m.synced | m.arrived.any(axis=0)) & (m.block_of == block)[:, None]
        for number in np.unique(m.waits_at[held]).tolist():
            warp, lane = np.argwhere(held & (m.waits_at == number))[0].tolist()
            yield self.party(number, "waits for its warp", warp, lane)

    def at_barrier(self) -> None:
        """Record that not all threads of a block reach a barrier, although no other one can go on."""
        m = self.machine
        if m.order_lost or not m.at_barrier:
            return
        waiting = m.at_barrier[0]
        block = int(m.block_of[waiting.group.warps[0]])
        here = m.block_of == block
        there = np.zeros_like(m.live)
        for other in m.at_barrier:
            if other.barrier == waiting.barrier:
                there[other.group.warps] |= other.group.mask
        arrived = 32 * int(there[here].any(axis=1).sum()) + 32 * len(m.arrivals.get((waiting.barrier, block), ()))
        left, ended = int((m.live & ~there)[here].sum()), int((~m.live & (m.thread < m.threads))[here].sum())
        wanted = f"{waiting.count} threads" if waiting.count else "all threads of the block"
        arrived = arrived if waiting.count else int(there[here].sum())
        what = f"barrier {waiting.barrier} waits for {wanted}, of which {arrived} arrive; {left} wait elsewhere"
        what += f", and {ended} have ended" if ended else ""
        places = tuple(dict.fromkeys(self.waiting(block)))[:MOST_PARTIES]
        self.record(codes.STUCK, places, block, what)

    def in_phase(self, checks: AtPhaseCheck) -> None:
        """Record the waits for phases that cannot complete: how many arrivals or bytes are missing."""
        m = self.machine
        for row, (warp, offset) in enumerate(zip(checks.group.warps.tolist(), checks.offset.tolist(), strict=True)):
            block = int(m.block_of[warp])
            barrier = m.mbarriers.followed(offset, block)
            if barrier is None:
                continue
            pending, bytes_ = int(barrier.pending[block]), int(barrier.transactions[block])
            if not pending and self._follows_tiles:  # `tile_record` says how many bytes are missing
                continue
            lacks = [f"{pending} of {int(barrier.expected[block])} arrivals"] if pending else []
            lacks += [f"{bytes_:,} bytes"] if bytes_ > 0 else []
            are = "is" if pending == 1 == len(lacks) else "are"
            missing = [f"{' and '.join(lacks)} {are} missing"] if lacks else []
            missing += [f"{-bytes_:,} bytes more than expected have arrived"] if bytes_ < 0 else []
            lane = int(checks.selected[row].argmax())
            mine = self.party(checks.group.pc, WAITS, warp, lane, offset)
            others = [party for party in dict.fromkeys(self.waiting(block)) if party.offset != mine.offset]
            places = (mine, *self._last_arrival(offset, block), *others)[:MOST_PARTIES]
            what = f"whose phase of parity {int(checks.parity[row])} cannot complete"
            what += f": {'; '.join(missing)}" if missing else ""
            self.record(codes.PHASE if pending else codes.BYTES, places, block, what)

    def overtakes(self, late: AtPhaseCheck) -> None:
        """Record that a phase that threads wait for was followed by the next, which did not wait for them."""
        warp, offset = int(late.group.warps[0]), int(late.offset[0])
        block, lane = int(self.machine.block_of[warp]), int(late.selected[0].argmax())
        mine = self.party(late.group.pc, WAITS, warp, lane, offset)
        what = (
            "whose next phase is complete, too: nothing made it wait for this thread, which may be late for the parity "
            "that it waits for, and wait forever"
        )
        self.record(codes.PHASE, (mine, *self._last_arrival(offset, block)), block, what)

    @cached_property
    def _follows_tiles(self) -> bool:
        rows = [each.row for each in self.program.instructions if not each.never]
        copies = any(row.copy is Copy.TENSOR and row.copies_to_shared for row in rows)
        return copies and any(row.shared is Shared.WGMMA for row in rows)

    def _last_arrival(self, offset: int, block: int) -> Iterator[Party]:
        """Yield the last instruction that arrived at an mbarrier."""
        m = self.machine
        events = [] if m.events is None else m.events.events[: m.happened]
        for event in reversed(events):
            if event.kind is Kind.COUNT and event.data[1] == offset and block in event.data[0]:
                yield Party(offset=self.program.instructions[event.number].offset, does="was the last to arrive")
                return

    def meets(self, group: Group, barrier: int, count: int) -> None:
        """Record threads that are at a barrier with another count than others, or without the rest of their warp."""
        m = self.machine
        blocks = m.block_of[group.warps]
        for block in np.unique(blocks).tolist():
            earlier = m.meeting.setdefault((barrier, block), (count, group.pc))
            if earlier[0] != count:
                mine = self.party_of_group(group, f"waits at barrier {barrier} for {count or 'all'} threads", block)
                other = Party(
                    offset=self.program.instructions[earlier[1]].offset,
                    does=f"waits at barrier {barrier} for {earlier[0] or 'all'} threads",
                )
                if mine is not None:
                    what = f"barrier {barrier} has two counts: {count or 'all'} threads, and {earlier[0] or 'all'}"
                    self.record(codes.BARRIER_COUNT, (mine, other), block, what)
        apart = (m.live[group.warps] & ~group.mask).any(axis=1)
        if apart.any():
            row = int(apart.argmax())
            mine = self.party(group.pc, "is at the barrier", int(group.warps[row]), int(group.mask[row].argmax()))
            some, every = int(group.mask[row].sum()), int(m.live[group.warps[row]].sum())
            what = f"only {some} of the {every} threads of its warp are at the barrier of the block"
            self.record(codes.DIVERGENT, (mine,), int(blocks[row]), what)
