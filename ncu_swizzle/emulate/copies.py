"""Execute bulk and tensor copies: their bytes arrive at an mbarrier at once, and what they write is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ncu_swizzle.emulate import operands, tensor_map
from ncu_swizzle.emulate.accesses import WINDOW
from ncu_swizzle.emulate.contents import forget_range, lose_arrays, lose_blocks, lose_tensors
from ncu_swizzle.emulate.machine import PARAMETER_WINDOW, Machine
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.operations.registry import Step
from ncu_swizzle.emulate.parse import MEMORY, Operand, SassInstruction
from ncu_swizzle.emulate.values import Bits, Value, known_in, wide
from ncu_swizzle.smem.banks import Ints

GRANULE = 16  # bytes: the unit of a bulk copy's size
ASYNC_STORES = ("STAS", "REDAS")  # a store or reduction per lane that an mbarrier counts


def compiled(instruction: SassInstruction) -> Step | None:
    """Return the step of a copy that writes memory; None for prefetches and the like."""
    opcode = instruction.opcode
    if opcode == "UTMALDG" or (opcode == "UBLKCP" and instruction.modifiers[0] == "S"):
        return ToShared(instruction).step
    if opcode in ASYNC_STORES:
        return _StoreToShared(instruction).step
    if opcode in ("UTMAREDG", "UTMASTG"):
        return lose_tensors
    return lose_arrays if opcode in ("UBLKCP", "UBLKRED") else None


class ToShared:
    """UTMALDG and UBLKCP.S: one copy per warp into the shared memory of one block, or of several (.MULTICAST)."""

    def __init__(self, instruction: SassInstruction) -> None:
        self.tensor = instruction.opcode == "UTMALDG"
        self.multicast = instruction.has("MULTICAST")
        self.guard = operands.guard(instruction.guard)
        target, source = (operand for operand in instruction.operands if operand.kind == MEMORY)
        self.target, self.barrier = _registers(target)
        self.source = _registers(source)
        rank = next((int(word[0]) for word in instruction.modifiers if word[1:] == "D"), 0) if self.tensor else 0
        self.corner = [operands.raw(target.terms[0], 2 + axis) for axis in range(rank)]
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
            lose_blocks(m, m.clusters.around(m.view_blocks()))
            return
        starts, waiting, sizes = of_rows(target, rows), of_rows(barrier, rows), self._bytes(m, rows, extra)
        for alike, (start, counted, size) in _alike(starts & WINDOW, waiting & WINDOW, sizes):
            known = None if size < 0 else size
            forget_range(m, self.blocks(m, rows[alike], starts[alike], extra), start, known)
            _arrive(m, self.blocks(m, rows[alike], waiting[alike], extra), counted, known)

    def blocks(self, m: Machine, rows: Ints, addresses: Bits, extra: Value | None) -> Ints:
        """Return the blocks that the rows' addresses mean: one each, or those in the multicast's mask."""
        mine = m.view_blocks()[rows]
        if not self.multicast or extra is None:
            return m.clusters.at(mine, addresses)
        masks = of_rows(extra, rows) >> np.uint32(16)
        which, ranks = np.nonzero(masks[:, None] >> np.arange(m.clusters.size, dtype=np.uint32) & np.uint32(1))
        return m.clusters.base(mine[which]) + ranks

    def _bytes(self, m: Machine, rows: Ints, extra: Value | None) -> Ints:
        """Return the bytes that the copy of each of these warps moves; -1 if unknown."""
        unknown = np.full(len(rows), -1, np.int64)
        if not self.tensor:
            if extra is None or not extra.certain:
                return unknown
            return (of_rows(extra, rows) & np.uint32(0xFFFF)).astype(np.int64) * GRANULE
        low, high = (first_lane(read(m), m.view.mask) for read in self.source)
        if not (low.certain and high.certain):
            return unknown
        maps, which = np.unique(wide(of_rows(low, rows), of_rows(high, rows)), return_inverse=True)
        sizes = [_map_bytes(m, int(address)) for address in maps]
        return unknown if None in sizes else np.array(sizes, np.int64)[which]


class _StoreToShared:
    """STAS and REDAS: each lane's bytes arrive at the barrier of the block that they go to."""

    def __init__(self, instruction: SassInstruction) -> None:
        self.guard = operands.guard(instruction.guard)
        self.target, self.barrier = _registers(instruction.operands[0])
        self.width = 16 if instruction.has("128") else 8 if instruction.has("64") else 4

    def step(self, m: Machine) -> None:
        selected, doubtful = m.selection(self.guard(m) if self.guard else None)
        target, barrier = self.target(m), self.barrier(m)
        if doubtful.any() or not (known_in(target, selected) and known_in(barrier, selected)):
            m.mbarriers.doubt(m.clusters.around(m.view_blocks()))
            lose_blocks(m, m.clusters.around(m.view_blocks()))
            return
        rows, lanes = np.nonzero(selected)
        to, at = (np.broadcast_to(value.bits, selected.shape)[rows, lanes] for value in (target, barrier))
        blocks = m.clusters.at(m.view_blocks()[rows], to)
        for block, address in zip(blocks, to & WINDOW, strict=True):
            forget_range(m, np.array([block]), int(address), self.width)
        waiting = m.clusters.at(m.view_blocks()[rows], at)
        for offset in np.unique(at & WINDOW).tolist():
            here = (at & WINDOW) == offset
            arrived = np.full(int(here.sum()), -self.width, np.int64)
            m.mbarriers.update(offset, waiting[here], np.zeros_like(arrived), arrived)


def _registers(operand: Operand) -> tuple[Callable[[Machine], Value], Callable[[Machine], Value]]:
    """Return readers of the two registers that an address operand names: [UR8] is UR8 and UR9."""
    return operands.raw(operand.terms[0]), operands.raw(operand.terms[0], 1)


def of_row(value: Value, row: int) -> int:
    """Return a uniform value of one of the view's warps."""
    return int(value.bits[min(row, len(value.bits) - 1), 0])


def of_rows(value: Value, rows: Ints) -> Bits:
    """Return a uniform value of some of the view's warps."""
    bits: Bits = value.bits[np.minimum(rows, len(value.bits) - 1), 0]
    return bits


def _alike(*values: Bits | Ints) -> Iterator[tuple[Ints, list[int]]]:
    """Yield the indices of equal values, and these."""
    table = np.stack([each.astype(np.int64) for each in values])
    distinct, which = np.unique(table, axis=1, return_inverse=True)
    for index, column in enumerate(distinct.T.tolist()):
        yield np.flatnonzero(which == index), column


def _arrive(m: Machine, blocks: Ints, offset: int, size: int | None) -> None:
    if size is None:
        m.mbarriers.blur(offset, blocks)
        return
    m.mbarriers.update(offset, blocks, np.zeros(len(blocks), np.int64), np.full(len(blocks), -size, np.int64))


def _map_bytes(m: Machine, address: int) -> int | None:
    content = map_at(m, address)
    return None if content is None else tensor_map.copied_bytes(content)


def map_at(m: Machine, address: int) -> bytes | None:
    """Return the tensor map at a global address; None unless it is a known parameter."""
    content = m.constants.get(0, b"")
    offset = address - PARAMETER_WINDOW
    given = m.known_constants.get(0)
    if not 0 <= offset <= len(content) - tensor_map.BYTES or given is None:
        return None
    here = slice(offset, offset + tensor_map.BYTES)
    return content[here] if given[here].all() else None
