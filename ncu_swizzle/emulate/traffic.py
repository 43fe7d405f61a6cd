"""Warps' requests to global and local memory, how many threads execute an instruction, and which branches diverge.

None of it decides what runs, so none of it changes a count of shared memory: it is recorded apart. The rules that turn
requests into counts are in `smem.wavefronts`.

B blocks run side by side; a view has G warps of 32 lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.base.traffic import SECTOR
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import access_width, memory_operands, period_of
from ncu_swizzle.emulate.code import LOCAL_WINDOW, SHARED_WINDOW, SassInstruction
from ncu_swizzle.emulate.copies import p0_miscount, reads_by_p0, zero_fill
from ncu_swizzle.emulate.dependence import Tag, trailing_zeros
from ncu_swizzle.emulate.effects import Effects, operand_number
from ncu_swizzle.emulate.flow import Flow
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.patterns import MANY, LanePattern, Neighbours, Vector
from ncu_swizzle.emulate.requests import SEEN_BYTES, Clock, LoopRequests, WarpRequests, joined
from ncu_swizzle.emulate.state import Decided, Unknown
from ncu_swizzle.emulate.values import Value, known_in
from ncu_swizzle.smem.access import MOST_THREADS
from ncu_swizzle.smem.opcodes import Copy, Shared
from ncu_swizzle.smem.operations import LINE, WORD, Bools, Ints
from ncu_swizzle.smem.wavefronts import copy_sectors, global_sectors, local_sectors

# What is counted of requests: sectors and tags of global memory, of copies past L1; tags; sectors of local memory.
GLOBAL, COPY, TAGS, LOCAL = "global", "copy", "tags", "local"
UNIT = {GLOBAL: LINE, COPY: LINE, TAGS: LINE, LOCAL: WORD}  # bytes by which a shift changes none of it
# Of an instruction's requests, and which of these an opcode has.
FIGURE_NAMES = "sectors", "ideal", "tags", "local_sectors"
AS_VECTOR = len(FIGURE_NAMES)  # sectors if the first access of a `Vector` were all of it
FIGURES = AS_VECTOR + 1
BRANCHES = frozenset(("BRA", "BRX", "CALL", "JMP", "JMX"))  # ncu has a count of divergence for these
FAR = 1 << 62
PATIENCE = 4_000_000  # effort after which no further blocks or iterations are run for addresses alone

# ---------------------------------------------------------------------------------------------- threads and branches


@dataclass(frozen=True, kw_only=True)
class Tallies:
    """The rows of `State.tallies`, which count threads by basic block, those that a guard selects, and branches."""

    leaders: Mapping[int, int]  # by first instruction of a basic block: threads that run it
    guarded: Mapping[int, int]  # by instruction: threads for which its guard holds
    branches: Mapping[int, int]  # by branch: warps that diverge

    @property
    def rows(self) -> int:
        return len(self.leaders) + len(set(self.guarded.values())) + len(self.branches)

    @classmethod
    def of(cls, flow: Flow, effects: Sequence[Effects], alive_after: Sequence[int]) -> Tallies:
        """Return a row for each basic block, for each guard whose value is computed, and for each branch.

        Instructions of a basic block under the same guard share a row as long as nothing writes the predicate.
        """
        leaders = {leader: row for row, leader in enumerate(flow.leaders)}
        count = len(leaders)
        guarded: dict[int, int] = {}
        branches: dict[int, int] = {}
        rows: dict[tuple[int, bool], int] = {}
        for number, instruction in enumerate(flow.instructions):
            if number in leaders:
                rows = {}
            guard = instruction.guard
            register = operand_number(guard) if guard is not None else None
            if guard is not None and register is not None:
                bit = 1 << register
                if (effects[number].roots | alive_after[number]) & bit:
                    key = (register, guard.negated)
                    if key not in rows:
                        rows[key] = count
                        count += 1
                    guarded[number] = rows[key]
            writes = effects[number].writes
            rows = {key: row for key, row in rows.items() if not writes >> key[0] & 1}
        for number, instruction in enumerate(flow.instructions):
            if instruction.opcode in BRANCHES and not instruction.never:
                branches[number] = count
                count += 1
        return cls(leaders=leaders, guarded=guarded, branches=branches)

    def step(self, instruction: SassInstruction, number: int, *, apart: bool) -> Step | None:
        """Return the step that counts the threads for which a guard holds, at the first instruction of its row.

        `apart`: where it would tell blocks apart, it is left to a run for such counts alone.
        """
        row = self.guarded.get(number)
        if row is None or self._firsts[row] != number:
            return None
        guard = operands.guard_operands(instruction.guard)
        assert guard is not None

        def step(m: Machine) -> None:
            condition = guard(m)
            selected, doubtful = m.counted_mask(condition, apart=apart)
            if doubtful.any():
                m.unsure.setdefault(row, Unknown(Decided.PREDICATE, condition.origin))
            m.tallies[row] += threads_by_block(m, selected)

        return step

    @cached_property
    def _firsts(self) -> dict[int, int]:
        return {row: number for number, row in sorted(self.guarded.items(), reverse=True)}


def threads_by_block(m: Machine, lanes: Bools) -> Ints:
    """Return how many lanes of the view, (G, 32), each block has, (B,)."""
    threads = np.bincount(m.view_blocks(), weights=lanes.sum(axis=1), minlength=len(m.blocks))
    return threads.astype(np.int64)


# ---------------------------------------------------------------------------------------------- requests


class TrafficLog:
    """All requests to global and local memory of one run, by instruction; unknown ones are in the state."""

    def __init__(
        self,
        machine: Machine,
        instructions: Sequence[SassInstruction],
        vectors: Mapping[int, Vector],
        clock: Clock,
        patience: float = PATIENCE,
        apart: bool = False,
    ) -> None:
        self.machine, self.instructions, self.clock, self.patience = machine, instructions, clock, patience
        self.apart = apart  # whether addresses that tell blocks apart are left to a run of their own
        self.vectors = vectors
        self.seen: dict[int, dict[tuple[object, ...], WarpRequests]] = {}
        self._counted: dict[int, Ints] = {}
        self.patterns: dict[int, LanePattern] = {}
        self._neighbours = Neighbours(machine.block)
        self._warps: dict[bytes, tuple[int, Ints]] = {}  # warps by number, and their blocks
        self._bytes = 0

    def miss(self, number: int, reason: str, origin: int | None, code: str = "") -> None:
        """Record that requests of an instruction are unknown; `code` as in `Unknown`."""
        self.machine.unfollowed.setdefault(number, Unknown(reason, origin, code))

    def follows(self, number: int, tag: Tag | None, unit: int) -> bool:
        """Return whether addresses with this tag are followed, and record what they decide: all but a shift by units.

        If that needs an extra block or iteration to run, it is done only while cheap.
        """
        if tag is None:
            return True
        m = self.machine
        bits = trailing_zeros(unit) if tag.uniform else 32
        stride, dims = tag.lattice(bits)
        if m.draw and m.draw.several and (dims >> m.draw.axis & 1 or stride[m.draw.axis] > 1):
            self.miss(number, Decided.ADDRESS, m.draw.origin)
            return False
        blocks = np.unique(m.view_blocks())
        narrowed = not self.apart and bool(m.boxes.narrowed_by(blocks, stride, dims).any())
        if self.clock.effort > self.patience and (narrowed or m.repeats.would_fail(tag)):
            self.miss(number, "its address, in blocks or iterations too many to run,", None, codes.NOT_RUN)
            return False
        m.decide_count(tag, bits, apart=self.apart)
        m.repeats.follow(tag)
        return True

    def record(self, number: int, space: str, address: Value, selected: Bools, target: Value | None = None) -> None:
        """Count one request per warp of the view, of the selected lanes, (G, 32), at known addresses; see `COPY`."""
        m = self.machine
        if m.watcher:
            m.watcher.accesses(m, number, space, address, selected)
        lanes = from_unit(address.bits.astype(np.int64), selected, UNIT[space])
        to = None if target is None else from_unit(target.bits.astype(np.int64), selected, SECTOR)
        key = m.view.warps.tobytes()
        if key not in self._warps:
            self._warps[key] = len(self._warps), m.view_blocks()
        together, blocks = self._warps[key]
        period = period_of(blocks, [lanes, selected, to])
        seen = self._entry(
            number,
            WarpRequests(
                space=space,
                addresses=lanes[:period],
                selected=selected[:period],
                blocks=blocks,
                source=None if to is None else to[:period],
            ),
            together,
        )
        if space == GLOBAL:
            self._look(number, seen, address, selected)
        seen.count += 1
        for repeat in m.repeats.active:
            target_tag = target.tag if target else None
            repeat.traffic.append(LoopRequests(number=number, seen=seen, tag=address.tag, source_tag=target_tag))
        if self._bytes > SEEN_BYTES and not m.repeats.active:
            self.counts()

    def _look(self, number: int, seen: WarpRequests, address: Value, selected: Bools) -> None:
        """Record how addresses of requests depend on the block, and where those of neighbouring warps are."""
        pattern = self.patterns.get(number)
        if pattern is None:
            pattern = self.patterns[number] = LanePattern(width=access_width(self.instructions[number]))
        pattern.follow(address.tag)
        if seen.count:
            return
        m = self.machine
        for axis in (1, 2):
            if self._neighbours.further[axis] and len(pattern.strides[axis]) < MANY:
                first = selected[:, 0]
                threads = (m.view_blocks() * MOST_THREADS + m.thread[m.view.warps, 0])[first]
                at = np.broadcast_to(address.bits, selected.shape)[first, 0].astype(np.int64)
                pattern.strides[axis].update(np.unique(self._neighbours.across(axis, threads, at))[:MANY].tolist())

    def _entry(self, number: int, made: WarpRequests, together: object) -> WarpRequests:
        """Return the earlier entry for the same requests of the same warps, or a new one."""
        to = b"" if made.source is None else made.source.tobytes()
        key = (made.space, made.addresses.tobytes(), made.selected.tobytes(), to, together)
        requests = self.seen.setdefault(number, {})
        seen = requests.get(key)
        if seen is None:
            seen = requests[key] = replace(made, selected=made.selected.copy())
            self._bytes += 2 * made.nbytes
        return seen

    def repeat(self, traffic: Iterable[LoopRequests], axis: int, times: int) -> None:
        """Count an iteration's requests for `times` more, with addresses that change as their tags say."""
        for request in joined(traffic):
            seen, (by, by_to) = request.seen, request.moves(axis)
            unit = UNIT[seen.space]
            if seen.space == GLOBAL:
                self.patterns[request.number].loops.add(by)
            # The k-th further iteration is shifted by k times the change, modulo the unit: a period of them differs.
            by, by_to = by % unit, by_to % SECTOR
            period = max(_period(by, unit), _period(by_to, SECTOR))
            for k in range(1, min(period, times) + 1):
                shifted = self._shifted(request.number, seen, k * by % unit, k * by_to % SECTOR)
                made = request.made(axis, shifted, request.times * ((times - k) // period + 1))
                shifted.count += made.times
                for repeat in self.machine.repeats.active:
                    repeat.traffic.append(made)

    def _shifted(self, number: int, seen: WarpRequests, by: int, by_to: int) -> WarpRequests:
        if not by and not by_to:
            return seen
        lanes = from_unit(seen.addresses + by, seen.selected, UNIT[seen.space])
        to = None if seen.source is None else from_unit(seen.source + by_to, seen.selected, SECTOR)
        return self._entry(number, replace(seen, addresses=lanes, source=to, count=0), seen.blocks.tobytes())

    def counts(self) -> Mapping[int, Ints]:
        """Return the figures of all requests so far, (FIGURES, B), by instruction."""
        for number, requests in self.seen.items():
            width, vector = access_width(self.instructions[number]), self.vectors.get(number)
            for seen in requests.values():
                if not seen.count:  # taken back
                    continue
                once = _figures(seen, width)  # (FIGURES, N)
                if seen.space == GLOBAL:
                    self.patterns[number].see(seen.addresses, seen.selected, once[0] > once[1], self._neighbours)
                    if vector and vector.numbers[0] == number:
                        once[AS_VECTOR] = global_sectors(seen.addresses, seen.selected, vector.size).actual
                figures = once * seen.count
                total = self._counted.setdefault(number, np.zeros((FIGURES, len(self.machine.blocks)), np.int64))
                for row, figure in enumerate(figures):
                    if figure.any():
                        weights = np.tile(figure, seen.repeats)
                        total[row] += np.bincount(seen.blocks, weights, len(self.machine.blocks)).astype(np.int64)
        self.seen.clear()
        self._warps.clear()
        self._bytes = 0
        return self._counted


def from_unit(addresses: Ints, selected: Bools, unit: int) -> Ints:
    """Return addresses, (N, 32), relative to the unit with the lowest of their request; 0 for other lanes."""
    first = np.where(selected, addresses, FAR).min(axis=1, keepdims=True) & -unit
    relative: Ints = np.where(selected, addresses - first, 0)
    return relative


def _period(change: int, unit: int) -> int:
    """Return after how many changes a number repeats, modulo a unit, which is a power of two."""
    return unit // (change & -change) if change else 1


def _figures(requests: WarpRequests, width: int) -> Ints:
    figures = np.zeros((FIGURES, len(requests.addresses)), np.int64)
    if requests.space == LOCAL:
        figures[3] = local_sectors(requests.addresses, requests.selected, width)
    else:
        if requests.source is not None:
            counted = copy_sectors(requests.addresses, requests.source, requests.selected)
        else:
            counted = global_sectors(requests.addresses, requests.selected, width)
        figures[2] = counted.tags
        if requests.space != TAGS:
            figures[:2] = counted.actual, counted.ideal
    return figures


# ---------------------------------------------------------------------------------------------- instructions


def accesses(instruction: SassInstruction) -> bool:
    """Return whether an instruction may access global or local memory at addresses that its lanes give."""
    row = instruction.row
    addressed = row.global_access or row.local_access
    return addressed and not instruction.never and bool(memory_operands(instruction))


def figures_of(instruction: SassInstruction) -> tuple[str, ...]:
    """Return the metrics that ncu reports for an instruction's global accesses, its local ones, or both."""
    row = instruction.row
    if instruction.never or not (row.global_access or row.local_access):
        return ()
    if row.shared is Shared.GENERIC:
        return FIGURE_NAMES
    return FIGURE_NAMES[3:] if row.local_access else FIGURE_NAMES[:3]


def traffic_step(instruction: SassInstruction, index: int) -> Step | None:
    """Return the step that records an instruction's requests; None if it makes none."""
    if not accesses(instruction):
        return None
    row = instruction.row
    kind = _Copy if row.copy is Copy.ASYNC else _Access if row.local_access else _GlobalAccess
    return kind(instruction, index).step


class _Access:
    """LDL and STL, and the base of all accesses."""

    def __init__(self, instruction: SassInstruction, index: int) -> None:
        self.instruction, self.index = instruction, index
        self.guard = operands.guard_operands(instruction.guard)
        self.address = self.reader()

    def reader(self) -> operands.Reader:
        return operands.address(self.instruction.operands[memory_operands(self.instruction)[0]])

    def step(self, m: Machine) -> None:
        log = m.traffic
        if log is None or self.index in m.unfollowed:
            return
        condition = self.guard(m) if self.guard else None
        selected, doubtful = m.counted_mask(condition, apart=log.apart)
        if doubtful.any():
            log.miss(self.index, Decided.PREDICATE, condition.origin if condition else None)
        else:
            self.request(m, selected)

    def request(self, m: Machine, selected: Bools) -> None:
        self.follow(m, LOCAL, self.address(m), selected)

    def follow(self, m: Machine, space: str, address: Value, selected: Bools, target: Value | None = None) -> None:
        """Record the known part of these lanes' request; addresses have the tags of their lower halves."""
        if not selected.any():
            return
        for part, unit in ((address, UNIT[space]), (target, SECTOR)):
            if part is None:
                continue
            if not known_in(part, selected):
                m.traffic.miss(self.index, Decided.ADDRESS, part.origin)
                return
            if not m.traffic.follows(self.index, part.tag, unit):
                return
        m.traffic.record(self.index, space, address, selected, target)


class _GlobalAccess(_Access):
    """Loads, stores and atomics; through a generic address, of global or local memory, or of neither."""

    def reader(self) -> operands.Reader:
        return operands.wide_address(self.instruction.operands[memory_operands(self.instruction)[0]], followed=True)

    def request(self, m: Machine, selected: Bools) -> None:
        address = self.address(m)
        if self.instruction.row.shared is not Shared.GENERIC or not known_in(address, selected):
            self.follow(m, GLOBAL, address, selected)
            return
        high = address.bits >> np.uint64(32)
        in_local = selected & (high == LOCAL_WINDOW)
        in_global = selected & (high != LOCAL_WINDOW) & (high != SHARED_WINDOW)
        self.follow(m, GLOBAL, address, in_global)
        self.follow(m, LOCAL, address, in_local)


class _Copy(_Access):
    """cp.async: what it reads; past L1, the sectors depend on where it writes, too."""

    def __init__(self, instruction: SassInstruction, index: int) -> None:
        super().__init__(instruction, index)
        self.past_l1 = instruction.has("BYPASS")
        self.negated = instruction.guard is not None and instruction.guard.negated
        self.target = operands.address(instruction.operands[memory_operands(instruction)[0]])
        filled = zero_fill(instruction)
        self.reads = operands.predicate(filled) if filled else None

    def reader(self) -> operands.Reader:
        return operands.wide_address(self.instruction.operands[memory_operands(self.instruction)[1]], followed=True)

    def request(self, m: Machine, selected: Bools) -> None:
        address = self.address(m)
        reading = self._reading(m, selected)
        if reading is None:
            return
        if p0_miscount(self.instruction) and not self.negated:  # under P0, ncu takes all lanes for predicated off
            self.follow(m, TAGS, address, reading)
        elif reads_by_p0(self.instruction):
            # On an H100, some warps of a grid count as if P0 were another; a warp by itself does not.
            m.traffic.miss(self.index, "what ncu counts for a copy whose zeros P0 decides", None, codes.NO_RULE)
        elif p0_miscount(self.instruction) and (self.reads or not np.array_equal(selected, m.view.mask)):
            reason = "what ncu counts for lanes that are predicated off, whose addresses may be anything,"
            m.traffic.miss(self.index, reason, None, codes.NO_RULE)
        else:
            space, target = (COPY, self.target(m)) if self.past_l1 else (GLOBAL, None)
            self.follow(m, space, address, reading, target)

    def _reading(self, m: Machine, selected: Bools) -> Bools | None:
        """Return the lanes, (G, 32), that read: the others write zeros, and do not count. None if that is unknown."""
        if self.reads is None:
            return selected
        reads = self.reads(m)
        if not known_in(reads, selected):
            m.traffic.miss(self.index, "which lanes write zeros", reads.origin)
            return None
        m.decide_count(reads.tag, apart=m.traffic.apart)
        if reads.tag is not None:
            m.repeats.decide(reads.tag)
        lanes: Bools = selected & reads.bits
        return lanes
