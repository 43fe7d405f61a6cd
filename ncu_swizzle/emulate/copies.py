"""Execute asynchronous copies: cp.async, bulk and tensor copies. What they write is unknown.

ncu counts the requests of cp.async; the bytes of the others arrive at an mbarrier at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.emulate import operands, tensor_map
from ncu_swizzle.emulate.accesses import WINDOW, access_width, memory_operands
from ncu_swizzle.emulate.code import MEMORY, PARAMETER_WINDOW, PRED, REG, UPRED, Operand, SassInstruction
from ncu_swizzle.emulate.contents import forget_range, lose_arrays, lose_tensors, write_known
from ncu_swizzle.emulate.effects import coordinates, wgmma_shape
from ncu_swizzle.emulate.events import Kind
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step, Use, executes
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.state import Decided
from ncu_swizzle.emulate.values import Bits, Value, join_halves, known_in
from ncu_swizzle.smem.descriptors import ROWS
from ncu_swizzle.smem.opcodes import Copy, opcodes_with
from ncu_swizzle.smem.operations import Bools, Ints

# cp.async: which of its lanes ncu counts, which write zeros, and where the others read.
#
# Past L1 (``.BYPASS``), ncu 2025.3 does not read P0 but assumes it is false, and counts accordingly: none for a copy
# guarded by P0; one of all lanes for !P0; no zeros if the lanes of !P0 read, and nothing but zeros if those of P0 do.
# Its counts under other predicates are right (docs/wavefronts.md).


Lanes = tuple[Bools, Bools, Value | None]  # those that the guard selects, those that it might, and the guard


def zero_fill(instruction: SassInstruction) -> Operand | None:
    """Return the predicate of the lanes that read; the others write zeros. None if all read."""
    if instruction.row.copy is not Copy.ASYNC:
        return None
    return next((operand for operand in instruction.operands[::-1] if operand.kind in (PRED, UPRED)), None)


def p0_miscount(instruction: SassInstruction) -> str:
    """Return how ncu miscounts a copy past L1 because it does not read P0; empty if it does not."""
    guard = instruction.guard
    if instruction.row.copy is not Copy.ASYNC or not instruction.has("BYPASS") or guard is None or not _is_p0(guard):
        return ""
    return "as if no lane were predicated off" if guard.negated else "no wavefronts"


def counted_as_zeros(instruction: SassInstruction) -> bool:
    """Return whether ncu counts a copy past L1 as if every lane wrote zeros, as it does not read P0."""
    predicate = zero_fill(instruction)
    past_l1 = instruction.has("BYPASS") and not instruction.has("ZFILL") and instruction.guard is None
    return past_l1 and predicate is not None and _is_p0(predicate) and not predicate.negated


def reads_by_p0(instruction: SassInstruction) -> bool:
    """Return whether P0 says which lanes of a copy past L1 write zeros: its sectors then change from run to run."""
    return instruction.has("BYPASS") and _is_p0(zero_fill(instruction))


def _is_p0(operand: Operand | None) -> bool:
    return operand is not None and operand.kind == PRED and operand.number == 0


class AsyncCopy:
    """One cp.async."""

    def __init__(self, instruction: SassInstruction, index: int) -> None:
        self.instruction, self.index = instruction, index
        self.width = access_width(instruction)
        self.source = operands.address(instruction.operands[memory_operands(instruction)[1]])
        self.predicate = zero_fill(instruction)
        self.reads = operands.predicate(self.predicate) if self.predicate else None
        self.past_l1 = instruction.has("BYPASS")

    def record(self, m: Machine, lanes: Lanes, address: Value) -> bool:
        """Record the request as ncu counts it, or why it is unknown; return whether the written lanes are known."""
        selected, doubtful, condition = lanes
        written = not doubtful.any() and known_in(address, selected)
        counted = selected
        if self.past_l1 and _is_p0(self.instruction.guard):
            under_p0 = self._counted_under_p0(m, selected, address)
            if under_p0 is None:
                return written
            counted = under_p0
        elif doubtful.any():
            return self._miss(m, Decided.PREDICATE, condition)
        if not known_in(address, counted):
            return self._miss(m, Decided.ADDRESS, address)
        m.decide_request(address.tag)
        source = self._source(m, counted)
        if source is not None:
            m.log.record(self.index, address.bits, counted, source.bits, tag=address.tag, source_tag=source.tag)
        return source is not None and written

    def _miss(self, m: Machine, what: str, cause: Value | None) -> bool:
        m.log.miss(self.index, what, cause.origin if cause else m.now)
        return False

    def _counted_under_p0(self, m: Machine, selected: Bools, address: Value) -> Bools | None:
        """Return the lanes that ncu counts: none under P0; under !P0 all.

        None if one that is predicated off has no valid address, which is recorded: its registers may hold anything, and
        only ncu reads them.
        """
        guard = self.instruction.guard
        if guard is None or not guard.negated:
            return np.zeros_like(selected)
        if address.tag is not None:
            m.repeats.decide(address.tag)
        off = m.view.mask & ~selected
        at = (np.broadcast_to(address.bits, off.shape) & WINDOW).astype(np.int64)
        if bool((off & ((at + self.width > m.shared_size) | (at % self.width != 0))).any()):
            self._miss(m, "what ncu counts for lanes that are predicated off, at addresses that are not valid", None)
            return None
        return m.view.mask

    def _source(self, m: Machine, counted: Bools) -> Value | None:
        """Return where each lane reads, -1 for lanes that write zeros; None if that is unknown, which is recorded."""
        reading = self._reading(m, counted)
        if reading is None:
            return None
        source = self.source(m)
        if not known_in(source, reading):
            self._miss(m, "the global address that it reads", source)
            return None
        m.decide_request(source.tag, self.width)
        aligned = source.bits.astype(np.int64) & -self.width  # .ZFILL adds the bytes that are not read
        return Value(np.where(reading, np.broadcast_to(aligned, counted.shape), -1), tag=source.tag)

    def _reading(self, m: Machine, counted: Bools) -> Bools | None:
        """Return the lanes that read, (G, 32), as ncu sees it; None if that is unknown, which is recorded."""
        if self.reads is None or self.predicate is None:
            return counted
        if self.past_l1 and (_is_p0(self.predicate) or _is_p0(self.instruction.guard)):
            if self.instruction.guard or (self.predicate.negated and self.instruction.has("ZFILL")):  # not measured
                self._miss(m, "what ncu counts for a copy with zeros if it does not read P0", None)
                return None
            return np.zeros_like(counted) if counted_as_zeros(self.instruction) else counted
        reads = self.reads(m)
        if not known_in(reads, counted):
            self._miss(m, "which lanes write zeros", reads)
            return None
        m.decide(reads.tag)
        lanes: Bools = counted & reads.bits
        return lanes


EVERY = np.array([-1])  # see `starting_lanes`
GRANULE = 16  # bytes: the unit of a bulk copy's size


def copies_out(instruction: SassInstruction) -> bool:
    """Return whether an instruction copies from shared to global memory."""
    row = instruction.row
    if row.copy is Copy.BULK:
        return instruction.modifiers[0] == "G"
    return row.copy is Copy.TENSOR and not row.copies_to_shared


@executes(*opcodes_with(lambda row: row.copy in (Copy.BULK, Copy.TENSOR, Copy.STORE)))
def _copy(instruction: SassInstruction, _: Use) -> Step:
    copy = instruction.row.copy
    if copies_out(instruction):
        return lose_tensors if copy is Copy.TENSOR else lose_arrays
    return (_StoreToShared if copy is Copy.STORE else ToShared)(instruction).step


class ToShared:
    """UTMALDG, UBLKCP.S, UBLKRED.S: one copy per warp into the shared memory of a block, or of several (.MULTICAST)."""

    def __init__(self, instruction: SassInstruction) -> None:
        self.tensor, self.adds = instruction.opcode == "UTMALDG", instruction.opcode == "UBLKRED"
        self.within = instruction.modifiers[:2] == ("S", "S")
        self.multicast = instruction.has("MULTICAST")
        self.guard = operands.guard_operands(instruction.guard)
        target, source = (operand for operand in instruction.operands if operand.kind == MEMORY)
        self.target, self.barrier = registers(target)
        self.source = registers(source)
        # For GATHER4 and its like, a column and four rows.
        self.corner = [
            operands.raw(target.terms[0], 2 + axis) for axis in range(coordinates(instruction) if self.tensor else 0)
        ]
        self.boxes = 4 if instruction.has("GATHER4") else 1
        self.pair = instruction.has("2CTA")
        extra = instruction.operands[2:]
        self.extra = operands.raw(extra[0]) if extra else None

    def step(self, m: Machine) -> None:
        selected, doubtful = m.selection(self.guard(m) if self.guard else None)
        rows = np.flatnonzero(selected.any(axis=1))
        target, barrier = (first_lane(read(m), m.view.mask) for read in (self.target, self.barrier))
        extra = first_lane(self.extra(m), m.view.mask) if self.extra else None
        sure = target.certain and barrier.certain and (extra is None or extra.certain or not self.multicast)
        if doubtful.any() or not sure:
            m.mbarriers.doubt(m.clusters.around(m.view_blocks()))
            forget_range(m, m.clusters.around(m.view_blocks()))
            m.note(Kind.JOIN, m.view.warps, "where a copy goes, or which mbarrier counts its bytes")
            return
        if self.within and len(rows):  # that it reads its source until the phase completes is not followed
            m.note(Kind.UNKNOWN, m.view.warps)
        starts, waiting, sizes = (
            values_of_rows(target, rows),
            values_of_rows(barrier, rows),
            self._bytes(m, rows, extra),
        )
        if m.watcher:
            m.watcher.copies(m, rows, waiting & WINDOW, sizes, self._box_rows(m, rows))
        for alike, (start, counted, size) in _equal_values(starts & WINDOW, waiting & WINDOW, sizes):
            known = None if size < 0 else size
            forget_range(m, self.blocks(m, rows[alike], starts[alike], extra), start, known)
            blocks = self.counting_blocks(m, rows[alike], waiting[alike], extra)
            for k in alike.tolist() if m.notes and not self.adds else ():
                one = slice(k, k + 1)
                there = (
                    self.blocks(m, rows[one], starts[one], extra),
                    self.counting_blocks(m, rows[one], waiting[one], extra),
                )
                by = starting_lanes(selected[rows[one]])
                m.note(Kind.COPY_IN, m.view.warps[rows[one]], (there[0], start, size, there[1], counted, by))
            if known is None:
                m.mbarriers.blur(counted, blocks)
            else:
                m.mbarriers.update(counted, blocks, np.zeros(len(blocks), np.int64), np.full(len(blocks), -known))
                completed = m.mbarriers.at[counted].completed[blocks]
                m.note(Kind.COUNT, m.view.warps[:0], (blocks, counted, completed, None))

    def blocks(self, m: Machine, rows: Ints, addresses: Bits, extra: Value | None) -> Ints:
        """Return the blocks that the rows' addresses mean: one each, or those in the multicast's mask."""
        return self._reached(m, rows, addresses, extra)[1]

    def _reached(self, m: Machine, rows: Ints, addresses: Bits, extra: Value | None) -> tuple[Ints, Ints]:
        """Return pairs of a row, by its position, and a block."""
        mine = m.view_blocks()[rows]
        if not self.multicast or extra is None:
            return np.arange(len(mine)), m.clusters.at(mine, addresses)
        # A bit per rank in the upper half of the register; the lower half is the size of a bulk copy in units of 16
        # bytes.
        masks = values_of_rows(extra, rows) >> np.uint32(16)
        which, ranks = np.nonzero(masks[:, None] >> np.arange(m.clusters.size, dtype=np.uint32) & np.uint32(1))
        return which, m.clusters.base(mine[which]) + ranks

    def counting_blocks(self, m: Machine, rows: Ints, addresses: Bits, extra: Value | None) -> Ints:
        """Return the blocks whose mbarriers count the bytes, one for each of `blocks`.

        A multicast by a pair (.2CTA) counts those of both at the even or the odd one, as its own mbarrier is
        (PTX ISA, "cp.async.bulk.tensor", .cta_group::2).
        """
        which, receivers = self._reached(m, rows, addresses, extra)
        if not (self.multicast and self.pair):
            return receivers
        parity = m.clusters.ranks[m.clusters.at(m.view_blocks()[rows], addresses)] % 2
        counting: Ints = receivers - m.clusters.ranks[receivers] % 2 + parity[which]
        return counting

    def _bytes(self, m: Machine, rows: Ints, extra: Value | None) -> Ints:
        """Return the bytes that the copy of each of these R warps moves, (R,); -1 if unknown."""
        unknown = np.full(len(rows), -1, np.int64)
        if not self.tensor:
            if extra is None or not extra.certain:
                return unknown
            return (values_of_rows(extra, rows) & np.uint32(0xFFFF)).astype(np.int64) * GRANULE
        low, high = (first_lane(read(m), m.view.mask) for read in self.source)
        if not (low.certain and high.certain):
            return unknown
        maps, which = np.unique(join_halves(values_of_rows(low, rows), values_of_rows(high, rows)), return_inverse=True)
        contents = (map_at(m, int(address)) for address in maps)
        copied = [None if content is None else tensor_map.copied_bytes(content) for content in contents]
        sizes = [None if size is None else self.boxes * size for size in copied]
        return unknown if None in sizes else np.array(sizes, np.int64)[which]

    def _box_rows(self, m: Machine, rows: Ints) -> list[int]:
        """Return how many rows the box of each of these warps' copies has, (R,); 1 if it is unknown or no box."""
        if not self.tensor:
            return [1] * len(rows)
        low, high = (values_of_rows(first_lane(read(m), m.view.mask), rows) for read in self.source)
        contents = (map_at(m, int(address)) for address in join_halves(low, high))
        maps = (None if content is None else tensor_map.decoded_map(content) for content in contents)
        return [math.prod(tiled.box[1:]) if tiled else 1 for tiled in maps]


class _StoreToShared:
    """STAS and REDAS: each lane's bytes arrive at the barrier of the block that they go to."""

    def __init__(self, instruction: SassInstruction) -> None:
        self.guard = operands.guard_operands(instruction.guard)
        self.target, self.barrier = registers(instruction.operands[0])
        self.width = 16 if instruction.has("128") else 8 if instruction.has("64") else 4
        stored = instruction.operands[1] if instruction.opcode == "STAS" else None
        self.data = [operands.raw(stored, k) for k in range(self.width // 4)] if stored else []

    def step(self, m: Machine) -> None:
        selected, doubtful = m.selection(self.guard(m) if self.guard else None)
        target, barrier = self.target(m), self.barrier(m)
        if doubtful.any() or not (known_in(target, selected) and known_in(barrier, selected)):
            m.mbarriers.doubt(m.clusters.around(m.view_blocks()))
            forget_range(m, m.clusters.around(m.view_blocks()))
            return
        rows, lanes = np.nonzero(selected)
        to, at = (np.broadcast_to(value.bits, selected.shape)[rows, lanes] for value in (target, barrier))
        blocks = m.clusters.at(m.view_blocks()[rows], to)
        values = [read(m) for read in self.data]
        sure = bool(values) and all(value.tag is None and known_in(value, selected) for value in values)
        words = [np.broadcast_to(value.bits, selected.shape)[rows, lanes] for value in values] if sure else []
        for number, (block, address) in enumerate(zip(blocks, (to & WINDOW).tolist(), strict=True)):
            if sure:
                content = np.array([word[number] for word in words], np.uint32).view(np.uint8)
                write_known(m, np.array([block]), address, content)
            else:
                forget_range(m, np.array([block]), address, self.width)
        waiting = m.clusters.at(m.view_blocks()[rows], at)
        for block, address, there, counted in zip(blocks, to & WINDOW, waiting, at & WINDOW, strict=True):
            written = np.array([block]), int(address), self.width
            m.note(Kind.COPY_IN, m.view.warps[:1], (*written, np.array([there]), int(counted), EVERY))
        for offset in np.unique(at & WINDOW).tolist():
            here = (at & WINDOW) == offset
            arrived = np.full(int(here.sum()), -self.width, np.int64)
            m.mbarriers.update(offset, waiting[here], np.zeros_like(arrived), arrived)
            completed = m.mbarriers.at[offset].completed[waiting[here]]
            m.note(Kind.COUNT, m.view.warps[:0], (waiting[here], offset, completed, None))


def registers(operand: Operand) -> tuple[Callable[[Machine], Value], Callable[[Machine], Value]]:
    """Return readers of the two registers that an address operand names: [UR8] is UR8 and UR9."""
    return operands.raw(operand.terms[0]), operands.raw(operand.terms[0], 1)


def starting_lanes(selected: Bools) -> Ints:
    """Return the lane that starts a copy, by warp, (G,); -1 for warps of which several lanes execute it as one."""
    return np.where(selected.sum(axis=1) == 1, selected.argmax(axis=1), -1)


def read_in_warps(m: Machine, readers: Sequence[operands.Reader], selected: Bools) -> list[Value] | None:
    """Return what the readers read in each warp of the view; None if any of it is unknown in a selected warp.

    `selected`: lanes, (G, 32).
    """
    values = [first_lane(read(m), m.view.mask) for read in readers]
    warps = np.asarray(selected.any(axis=1))[:, None]
    return values if all(known_in(value, warps) for value in values) else None


@dataclass(frozen=True, eq=False)
class Executing:
    """The warps that execute an instruction, by their row in the view, (G,), with their lanes, (G, 32)."""

    rows: Ints
    lanes: Bools
    values: list[tuple[int, ...]]  # what its operands hold, by warp

    @property
    def each(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Each warp's row, and what its operands hold."""
        return zip(self.rows.tolist(), self.values, strict=True)

    @property
    def columns(self) -> list[Ints]:
        """What each operand holds, (G,), by warp."""
        return [np.array(column, np.int64) for column in zip(*self.values, strict=True)]


def in_warps(
    instruction: SassInstruction,
    readers: Sequence[operands.Reader],
    act: Callable[[Machine, Executing], None],
    unknown: Callable[[Machine], None],
) -> Step:
    """Return the step of an instruction that whole warps execute; `unknown`: which ones, or with what, is unknown."""
    guard = operands.guard_operands(instruction.guard)

    def step(m: Machine) -> None:
        selected, doubtful = m.selection(guard(m) if guard else None)
        values = read_in_warps(m, readers, selected)
        rows = np.flatnonzero(selected.any(axis=1))
        if doubtful.any() or values is None:
            unknown(m)
        elif len(rows):
            held = [tuple(value_of_row(value, row) for value in values) for row in rows.tolist()]
            act(m, Executing(rows, selected[rows], held))

    return step


@dataclass(frozen=True, eq=False, kw_only=True)
class WgmmaTiles:
    """What a wgmma reads in shared memory: of A, unless it is in registers, and of B."""

    columns: int  # 0: its shape is not known
    depth: int  # its K
    sides: str  # AB, or B
    readers: list[operands.Reader]  # of both halves of each descriptor
    rows: list[int]
    mn_major: list[bool]

    @classmethod
    def of(cls, instruction: SassInstruction) -> WgmmaTiles | None:
        """Return the tiles of a wgmma; None for one that only orders others."""
        parts = instruction.operands
        memory = next((operand for operand in parts if operand.kind == MEMORY and operand.terms), None)
        if memory is None or memory.terms[0].text == "URZ":
            return None
        columns, depth = wgmma_shape(instruction)
        # The descriptor of B is in the same two registers if A is in registers.
        sides = "B" if parts[1].kind == REG else "AB"
        return cls(
            columns=columns, depth=depth, sides=sides, rows=[ROWS, columns][-len(sides) :],
            readers=[operands.raw(memory.terms[0], plus) for plus in range(2 if sides == "B" else 0, 4)],
            mn_major=[f"tnsp{side}" in instruction.text for side in sides],
        )  # fmt: skip

    @staticmethod
    def descriptors(values: Sequence[int]) -> list[int]:
        """Return the bits of each descriptor, given its halves."""
        return [low | high << 32 for low, high in zip(values[::2], values[1::2], strict=True)]


def value_of_row(value: Value, row: int) -> int:
    """Return a uniform value of one of the view's warps."""
    return int(value.bits[min(row, len(value.bits) - 1), 0])


def values_of_rows(value: Value, rows: Ints) -> Bits:
    """Return a uniform value of some of the view's warps."""
    bits: Bits = value.bits[np.minimum(rows, len(value.bits) - 1), 0]
    return bits


def _equal_values(*values: Bits | Ints) -> Iterator[tuple[Ints, list[int]]]:
    """Yield the indices of equal values, and these."""
    table = np.stack([each.astype(np.int64) for each in values])
    distinct, which = np.unique(table, axis=1, return_inverse=True)
    for index, column in enumerate(distinct.T.tolist()):
        yield np.flatnonzero(which == index), column


def map_at(m: Machine, address: int) -> bytes | None:
    """Return the tensor map at a global address; None unless it is a known parameter."""
    content = m.constants.get(0, b"")
    offset = address - PARAMETER_WINDOW
    known_bytes = m.known_constants.get(0)
    if not 0 <= offset <= len(content) - tensor_map.TENSOR_MAP_BYTES or known_bytes is None:
        return None
    here = slice(offset, offset + tensor_map.TENSOR_MAP_BYTES)
    return content[here] if known_bytes[here].all() else None
