"""What warps ask of global and local memory, how many of their threads execute an instruction, and which branches part.

None of it decides what runs, so none of it changes a count of shared memory: it is recorded beside. The rules that turn
requests into counts are in `smem.sectors`.

B blocks run side by side; a view has G warps of 32 lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import access_width, memory_operands, period_of
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.copies import misread
from ncu_swizzle.emulate.dependence import Tag, trailing_zeros
from ncu_swizzle.emulate.effects import GENERIC, GLOBAL_ACCESS, LOCAL_ACCESS, Effects, operand_number
from ncu_swizzle.emulate.flow import Flow
from ncu_swizzle.emulate.machine import LOCAL_WINDOW, SHARED_WINDOW, Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.requests import SEEN_BYTES, Clock
from ncu_swizzle.emulate.state import Unknown
from ncu_swizzle.emulate.values import Value, known_in
from ncu_swizzle.smem import sectors
from ncu_swizzle.smem.operations import LINE, WORD, Bools, Ints

# What is counted of requests: sectors and tags of global memory or tags alone, or sectors of local memory.
GLOBAL, TAGS, LOCAL = "global", "tags", "local"
UNIT = {GLOBAL: LINE, TAGS: LINE, LOCAL: WORD}  # bytes by which a shift changes none of it
# Of an instruction's requests, and which of these an opcode has.
FIGURE_NAMES = "sectors", "ideal", "tags", "local_sectors"
FIGURES = len(FIGURE_NAMES)
FIGURES_OF = {
    **dict.fromkeys(GLOBAL_ACCESS, FIGURE_NAMES[:3]),
    **dict.fromkeys(GENERIC, FIGURE_NAMES),
    **dict.fromkeys(LOCAL_ACCESS, FIGURE_NAMES[3:]),
}
FAR = 1 << 62
PATIENCE = 4_000_000  # effort after which no further blocks or iterations are run for addresses alone

# ---------------------------------------------------------------------------------------------- threads and branches


@dataclass(frozen=True, kw_only=True)
class Tallies:
    """The rows of `State.tallies`, which count threads by basic block, those that a guard selects, and branches."""

    leaders: Mapping[int, int]  # by first instruction of a basic block: threads that run it
    guarded: Mapping[int, int]  # by instruction: threads for which its guard holds
    branches: Mapping[int, int]  # by branch: warps that part

    @property
    def rows(self) -> int:
        return len(self.leaders) + len(set(self.guarded.values())) + len(self.branches)

    @classmethod
    def of(cls, flow: Flow, effects: Sequence[Effects], alive_after: Sequence[int]) -> Tallies:
        """Return a row for each basic block, for each guard whose value is computed, and for each conditional branch.

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
            if instruction.opcode in ("BRA", "JMP") and not instruction.never and flow.conditional(number):
                branches[number] = count
                count += 1
        return cls(leaders=leaders, guarded=guarded, branches=branches)

    def step(self, instruction: SassInstruction, number: int) -> Step | None:
        """Return the step that counts the threads for which a guard holds, at the first instruction of its row."""
        row = self.guarded.get(number)
        if row is None or self._firsts[row] != number:
            return None
        guard = operands.guard_operands(instruction.guard)
        assert guard is not None

        def step(m: Machine) -> None:
            condition = guard(m)
            selected, doubtful = m.certain_mask(condition)
            if doubtful.any():
                m.unsure.setdefault(row, Unknown("whether its predicate holds", condition.origin))
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


@dataclass(kw_only=True)
class MemoryRequests:
    """Requests that some warps made together to one memory, and how often: warp w, of W, makes request w modulo N."""

    space: str
    lanes: Ints  # (N, 32) bytes from the line of the request's lowest address on; local addresses from their word on
    selected: Bools  # (N, 32)
    blocks: Ints  # (W,)
    count: int = 0

    @property
    def repeats(self) -> int:
        return len(self.blocks) // len(self.selected)


@dataclass(frozen=True, kw_only=True)
class LoopTraffic:
    """Requests that an iteration of a loop made, how often, and how their addresses depend on the iteration."""

    number: int  # of the instruction
    seen: MemoryRequests
    times: int
    tag: Tag | None


class TrafficLog:
    """All requests to global and local memory of one run, by instruction; what is unknown of them is in the state."""

    def __init__(self, machine: Machine, instructions: Sequence[SassInstruction], clock: Clock) -> None:
        self.machine, self.instructions, self.clock = machine, instructions, clock
        self.seen: dict[int, dict[tuple[object, ...], MemoryRequests]] = {}
        self._counted: dict[int, Ints] = {}
        self._warps: dict[bytes, tuple[int, Ints]] = {}  # warps by number, and their blocks
        self._bytes = 0

    def miss(self, number: int, reason: str, origin: int | None, code: str = "") -> None:
        """Record that requests of an instruction are unknown; `code` as in `Unknown`."""
        self.machine.unfollowed.setdefault(number, Unknown(reason, origin, code))

    def follows(self, number: int, tag: Tag | None, space: str) -> bool:
        """Return whether addresses with this tag are followed from block to block, and record what that decides.

        Where it would take a block or an iteration of its own, that is done only as long as it does not take long.
        """
        if tag is None:
            return True
        m = self.machine
        bits = trailing_zeros(UNIT[space]) if tag.uniform else 32
        stride, dims = tag.lattice(bits)
        if m.draw and m.draw.several and (dims >> m.draw.axis & 1 or stride[m.draw.axis] > 1):
            self.miss(number, "its address", m.draw.origin)
            return False
        if self.clock.effort > PATIENCE and (dims or max(stride) > 1 or self._runs_each_iteration(tag)):
            self.miss(number, "its address, in blocks or iterations too many to run,", None, codes.NOT_RUN)
            return False
        m.boxes.decide(np.unique(m.view_blocks()), tag, bits)
        m.repeats.follow(tag)
        return True

    def _runs_each_iteration(self, tag: Tag) -> bool:
        return any(tag.per_iteration(repeat.axis) is None for repeat in self.machine.repeats.active)

    def record(self, number: int, space: str, at: Ints, selected: Bools, tag: Tag | None) -> None:
        """Count one request per warp of the view, of the selected lanes at these addresses, (G, 32) or (G, 1)."""
        m = self.machine
        first = np.where(selected, at, FAR).min(axis=1, keepdims=True) & -UNIT[space]
        lanes = np.where(selected, at - first, 0)
        key = m.view.warps.tobytes()
        if key not in self._warps:
            self._warps[key] = len(self._warps), m.view_blocks()
        together, blocks = self._warps[key]
        period = period_of(blocks, [lanes, selected])
        seen = self._entry(number, space, lanes[:period], selected[:period], blocks, together)
        seen.count += 1
        for repeat in m.repeats.active:
            repeat.traffic.append(LoopTraffic(number=number, seen=seen, times=1, tag=tag))
        if self._bytes > SEEN_BYTES and not m.repeats.active:
            self.counts()

    def _entry(
        self, number: int, space: str, lanes: Ints, selected: Bools, blocks: Ints, together: object
    ) -> MemoryRequests:
        key = (space, lanes.tobytes(), selected.tobytes(), together)
        requests = self.seen.setdefault(number, {})
        seen = requests.get(key)
        if seen is None:
            seen = requests[key] = MemoryRequests(space=space, lanes=lanes, selected=selected.copy(), blocks=blocks)
            self._bytes += 2 * (lanes.nbytes + selected.nbytes)
        return seen

    def repeat(self, traffic: Iterable[LoopTraffic], axis: int, times: int) -> None:
        """Count what an iteration made for so many further ones, with addresses that change as their tags say."""
        distinct: dict[tuple[int, Tag | None], LoopTraffic] = {}
        for made in traffic:
            key = (id(made.seen), made.tag)
            earlier = distinct.get(key)
            distinct[key] = replace(made, times=made.times + earlier.times) if earlier else made
        for made in distinct.values():
            unit = UNIT[made.seen.space]
            change = (made.tag.per_iteration(axis) or 0) % unit if made.tag else 0
            # The k-th further iteration is shifted by k times the change, modulo the unit: only so many are different.
            period = 1 if not change else unit // (change & -change)
            outside = made.tag.outside(axis) if made.tag else None
            for k in range(1, min(period, times) + 1):
                often = made.times * ((times - k) // period + 1)
                self._add(replace(made, seen=self._shifted(made, k * change % unit, unit), times=often, tag=outside))

    def _shifted(self, made: LoopTraffic, by: int, unit: int) -> MemoryRequests:
        if not by:
            return made.seen
        seen = made.seen
        lanes = seen.lanes + by
        past = np.where(seen.selected, lanes, FAR).min(axis=1, keepdims=True) & -unit
        lanes = np.where(seen.selected, lanes - past, 0)
        return self._entry(made.number, seen.space, lanes, seen.selected, seen.blocks, seen.blocks.tobytes())

    def _add(self, made: LoopTraffic) -> None:
        # An entry may have been counted, and dropped, since: it is then a new one.
        made.seen.count += made.times
        for repeat in self.machine.repeats.active:
            repeat.traffic.append(made)

    def counts(self) -> Mapping[int, Ints]:
        """Return the figures of all requests so far, (FIGURES, B), by instruction."""
        for number, requests in self.seen.items():
            width = access_width(self.instructions[number])
            for seen in requests.values():
                if not seen.count:  # taken back
                    continue
                figures = _figures(seen, width) * seen.count  # (FIGURES, N)
                total = self._counted.setdefault(number, np.zeros((FIGURES, len(self.machine.blocks)), np.int64))
                for row, figure in enumerate(figures):
                    if figure.any():
                        weights = np.tile(figure, seen.repeats)
                        total[row] += np.bincount(seen.blocks, weights, len(self.machine.blocks)).astype(np.int64)
        self.seen.clear()
        self._warps.clear()
        self._bytes = 0
        return self._counted


def _figures(seen: MemoryRequests, width: int) -> Ints:
    figures = np.zeros((FIGURES, len(seen.lanes)), np.int64)
    if seen.space == LOCAL:
        figures[3] = sectors.local_sectors(seen.lanes, seen.selected, width)
    else:
        counted = sectors.global_sectors(seen.lanes, seen.selected, width)
        figures[2] = counted.tags
        if seen.space == GLOBAL:
            figures[:2] = counted.actual, counted.ideal
    return figures


# ---------------------------------------------------------------------------------------------- instructions


def accesses(instruction: SassInstruction) -> bool:
    """Return whether an instruction may access global or local memory at addresses that its lanes give."""
    opcode = instruction.opcode
    return opcode in GLOBAL_ACCESS | LOCAL_ACCESS and not instruction.never and bool(memory_operands(instruction))


def compiled(instruction: SassInstruction, index: int) -> Step | None:
    """Return the step that records an instruction's requests; None if it makes none."""
    if not accesses(instruction):
        return None
    return (_LocalAccess if instruction.opcode in LOCAL_ACCESS else _GlobalAccess)(instruction, index).step


class _LocalAccess:
    """LDL and STL."""

    def __init__(self, instruction: SassInstruction, index: int) -> None:
        self.instruction, self.index = instruction, index
        self.guard = operands.guard_operands(instruction.guard)
        self.negated = instruction.guard is not None and instruction.guard.negated
        self.address = self.reader()

    def reader(self) -> operands.Reader:
        return operands.address(self.instruction.operands[memory_operands(self.instruction)[0]])

    def step(self, m: Machine) -> None:
        log = m.traffic
        if log is None or self.index in m.unfollowed:
            return
        condition = self.guard(m) if self.guard else None
        selected, doubtful = m.certain_mask(condition)
        if doubtful.any():
            log.miss(self.index, "whether its predicate holds", condition.origin if condition else None)
        else:
            self.request(m, selected)

    def request(self, m: Machine, selected: Bools) -> None:
        self._record(m, LOCAL, self.address(m), selected)

    def _record(self, m: Machine, space: str, address: Value, selected: Bools) -> None:
        """Record the request of these lanes; `address` has the tag of its lower half."""
        if not selected.any():
            return
        if not known_in(address, selected):
            m.traffic.miss(self.index, "its address", address.origin)
        elif m.traffic.follows(self.index, address.tag, space):
            at = address.bits.astype(np.int64)
            m.traffic.record(self.index, space, at, selected, address.tag)


class _GlobalAccess(_LocalAccess):
    """Loads, stores, atomics and copies; through a generic address, of global or local memory, or of neither."""

    def reader(self) -> operands.Reader:
        position = memory_operands(self.instruction)[-1 if self.instruction.opcode == "LDGSTS" else 0]
        return operands.tagged_address(self.instruction.operands[position])

    def request(self, m: Machine, selected: Bools) -> None:
        address = self.address(m)
        if misread(self.instruction):
            if self.negated and not np.array_equal(selected, m.view.mask):
                reason = "what ncu counts for lanes that are predicated off, whose addresses may be anything"
                m.traffic.miss(self.index, reason, None, codes.NO_RULE)
            else:
                self._record(m, GLOBAL if self.negated else TAGS, address, selected)
            return
        if self.instruction.opcode not in GENERIC or not known_in(address, selected):
            self._record(m, GLOBAL, address, selected)
            return
        high = address.bits >> np.uint64(32)
        in_local = selected & (high == LOCAL_WINDOW)
        in_global = selected & (high != LOCAL_WINDOW) & (high != SHARED_WINDOW)
        self._record(m, GLOBAL, address, in_global)
        self._record(m, LOCAL, address, in_local)
