"""Blackwell's tensor memory as threads drive it: columns allocated, accesses, commits, work taken over.

ptxas expands tcgen05.alloc and its like into calls of UTCATOMSWS around words of the reserved shared memory, with
checks that end in a trap. A block has 512 columns of 128 lanes; 32 neighbouring columns are a unit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW
from ncu_swizzle.emulate.code import INSTRUCTION, MEMORY, TENSOR, SassInstruction
from ncu_swizzle.emulate.contents import forget_range, write_known
from ncu_swizzle.emulate.copies import Executing, in_warps, registers, starting_lanes, values_of_rows
from ncu_swizzle.emulate.effects import HALVES, operand_number
from ncu_swizzle.emulate.events import Kind
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step, Use, executes
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.values import Bits, Value, unknown
from ncu_swizzle.smem.descriptors import UmmaDescriptor, UmmaShape
from ncu_swizzle.smem.operations import WARP, WORD, Ints

LANES, COLUMNS, UNIT = 128, 512, 32
UNITS = COLUMNS // UNIT
SIXTEENTHS, ROWS_OF_ONE = 8, 16  # the 128 lanes in parts of 16, which no layout divides
ALL_LANES = tuple(range(SIXTEENTHS))
OF_FACTORS = "4x32dp128bit"  # of UTCCP: 32 rows of 16 bytes, to all four parts of the lanes
# Columns of one LDTM.x1 or STTM.x1, by its shape: the number of lanes times 32 bits is a column.
_WIDE = {"16dp64bit": 2, "16dp128bit": 4, "16dp256bit": 8}
_SHAPE = re.compile(r"(?:\d+x)?(\d+)dp(\d+)bit")  # of UTCCP: bits of a row, and how often rows are copied
RESPONSE = 16  # bytes that clusterlaunchcontrol.try_cancel writes, and its mbarrier counts


def lane_and_column(address: int) -> tuple[int, int]:
    """Return the lane and the column of an address in tensor memory."""
    return address >> 16 & 0xFFFF, address & 0xFFFF


@dataclass(frozen=True)
class WarpAccess:
    """What an LDTM or STTM accesses: columns, of 16 or 32 of its warp's lanes."""

    columns: int
    sixteenths: int

    @classmethod
    def of(cls, instruction: SassInstruction) -> WarpAccess:
        shape = next((word for word in instruction.modifiers if word in (*_WIDE, *HALVES)), "")
        times = next((int(word[1:]) for word in instruction.modifiers if re.fullmatch(r"x\d+", word)), 1)
        packed = 2 if instruction.has("PACK16BIT", "EXPAND16BIT") else 1
        return cls(times * _WIDE.get(shape, 1) * packed, 1 if shape else 2)

    def lane(self, lane: int, warp: int) -> int | None:
        """Return the first lane that a warp of its block accesses, given the address's; None if it may not begin there.

        The hardware uses a warp's own 32 lanes whichever of the four parts the address names (DeepGEMM's pull request
        341); only code for debugging checks it, and traps.
        """
        within = lane % WARP
        return WARP * (warp % 4) + within if within in range(0, WARP, ROWS_OF_ONE * self.sixteenths) else None

    def parts(self, lane: int) -> tuple[int, ...]:
        """Return the sixteenths of the lanes that are accessed from a lane on."""
        first = lane // ROWS_OF_ONE
        return tuple(range(first, min(SIXTEENTHS, first + self.sixteenths)))


class Umma(NamedTuple):
    """A tcgen05.mma as a warp issues it; addresses are of tensor memory."""

    shape: UmmaShape
    bits: int  # of its instruction descriptor
    result: int
    a: int | None  # None if A is in shared memory
    tiles: tuple[tuple[UmmaDescriptor, int], ...]  # in shared memory, each with its side: 0 for A, 1 for B
    scales: list[int]  # the first columns of the scale factors of A and of B; empty without block scaling


class UmmaOperands:
    """The operands of a tcgen05.mma."""

    def __init__(self, instruction: SassInstruction) -> None:
        self.instruction = instruction
        a, b, result = instruction.operands[:3]
        number = next(k for k, operand in enumerate(instruction.operands) if operand.kind == INSTRUCTION)
        factors = next((operand for operand in instruction.operands[number + 1 :] if operand.kind == TENSOR), None)
        self.in_shared, self.scaled = a.kind == MEMORY, factors is not None
        self.readers = [
            operands.address(instruction.operands[number]),
            operands.address(result),
            *registers(b),
            *(registers(a) if self.in_shared else [operands.address(a)]),
            *(registers(factors) if factors else []),
        ]

    def issued(self, values: Sequence[int]) -> Umma:
        """Return the instruction, given what the readers read."""
        bits, result, low, high, first, *others = values
        shape = UmmaShape.of_bits(bits, self.instruction.opcode, self.instruction.modifiers, scaled=self.scaled)
        described = [(first | others[0] << 32, 0)] if self.in_shared else []
        tiles = [(UmmaDescriptor.of_bits(half), side) for half, side in (*described, (low | high << 32, 1))]
        scales = [lane_and_column(address & 0x3FFFFFFF)[1] for address in others[-2:]] if self.scaled else []
        return Umma(shape, bits, result, None if self.in_shared else first, tuple(tiles), scales)


def copied_rows(instruction: SassInstruction) -> tuple[int, int]:
    """Return how many rows a UTCCP reads from shared memory, and how many bytes of each, which set its columns."""
    shape = next((match for word in instruction.modifiers if (match := _SHAPE.match(word))), None)
    return (int(shape[1]), int(shape[2]) // 8) if shape else (LANES, 8 * WORD)


def first_free(taken: int, units: int) -> int | None:
    """Return the first aligned range of free units, given a bit per taken unit; None if there is none."""
    step = 1 << max(0, units - 1).bit_length()
    places = range(0, UNITS - units + 1, step) if units > 0 else ()
    return next((first for first in places if not taken >> first & (1 << units) - 1), None)


@executes("UTCATOMSWS")
def _allocation(instruction: SassInstruction, _: Use) -> Step:
    """Return the step that takes columns (.FIND_AND_SET, which says whether there were enough) or gives some back."""
    guard = operands.guard_operands(instruction.guard)
    takes, pair = instruction.has("FIND_AND_SET"), instruction.has("2CTA")
    *targets, operand = instruction.operands
    read = operands.raw(operand)

    def step(m: Machine) -> None:
        condition = guard(m) if guard else None
        selected, doubtful = m.selection(condition)
        source = first_lane(read(m), m.view.mask)
        rows = np.flatnonzero(selected.any(axis=1))
        sure = source.certain and not doubtful.any()
        if not takes:
            if sure:
                np.bitwise_and.at(m.columns, m.view_blocks()[rows], values_of_rows(source, rows).astype(np.int64))
            return
        worked, place = np.ones((len(m.view.warps), 1), bool), np.zeros((len(m.view.warps), 1), np.uint32)
        for row, units in zip(rows.tolist(), values_of_rows(source, rows).tolist(), strict=True) if sure else ():
            first = _take(m, int(m.view_blocks()[row]), units, pair)
            worked[row], place[row] = first is not None, first or 0
        success, column = map(operand_number, targets)
        m.put(success, Value(worked), condition)
        m.put(column, Value(place) if sure else unknown(m.now, uniform=True), condition)

    return step


def _take(m: Machine, block: int, units: int, pair: bool) -> int | None:
    """Take columns, of both blocks of a pair the same ones; return the first unit, or None if too few are free."""
    blocks = list(m.clusters.pair(block)) if pair and m.clusters.size > 1 else [block]
    first = first_free(int(np.bitwise_or.reduce(m.columns[blocks])), units)
    if first is not None:
        m.columns[blocks] |= (1 << units) - 1 << first
    return first


@executes("UTCBAR")
def _commit(instruction: SassInstruction, _: Use) -> Step:
    """Return the step of an arrival at an mbarrier, or at those of several blocks, when earlier work is complete.

    That is when no thread can go on without it: see `waits`.
    """
    memory = next(operand for operand in instruction.operands if operand.kind == MEMORY)
    mask = [operands.raw(instruction.operands[-1])] if instruction.has("MULTICAST") else []

    def commit(m: Machine, warps: Executing) -> None:
        addresses, *masks = warps.columns
        which, blocks = _receivers(m, m.view_blocks()[warps.rows], addresses, masks[0] if masks else None)
        offsets = addresses[which] & int(WINDOW)
        for offset in np.unique(offsets).tolist():
            one = offsets == offset
            here = blocks[one]
            m.mbarriers.commits.append((m.now, offset, tuple(here.tolist())))
            completed = np.array([m.mbarriers.phase(offset, block) or 0 for block in here.tolist()])
            m.note(Kind.COUNT, m.view.warps[warps.rows[which[one]]], (here, offset, completed, None))

    def unknown(m: Machine) -> None:
        m.mbarriers.doubt(m.clusters.around(m.view_blocks()))
        m.note(Kind.JOIN, m.view.warps, "which mbarrier a tcgen05.commit is of")

    return in_warps(instruction, [operands.address(memory), *mask], commit, unknown)


def _receivers(m: Machine, mine: Ints, addresses: Ints, masks: Ints | None) -> tuple[Ints, Ints]:
    """Return pairs of a row and a block that its arrival reaches: by its address, or by a mask of 16 ranks."""
    if masks is None:
        return np.arange(len(mine)), m.clusters.at(mine, addresses)
    rows, ranks = np.nonzero(masks[:, None] >> np.arange(m.clusters.size) & 1)
    return rows, m.clusters.base(mine[rows]) + ranks


@executes("UGETNEXTWORKID")
def _request(instruction: SassInstruction, _: Use) -> Step:
    """Return the step of clusterlaunchcontrol.try_cancel: it names one of `taken`, or says that none is left."""
    memories = [operand for operand in instruction.operands if operand.kind == MEMORY]
    everywhere = instruction.has("BROADCAST")

    def request(m: Machine, warps: Executing) -> None:
        for k, (row, (target, barrier)) in enumerate(warps.each):
            block = m.view_blocks()[row : row + 1]
            blocks = m.clusters.around(block) if everywhere else block
            start, at = target & int(WINDOW), barrier & int(WINDOW)
            write_known(m, blocks, start, _response(m, int(block[0])))
            by = starting_lanes(warps.lanes[k : k + 1])
            m.note(Kind.COPY_IN, m.view.warps[row : row + 1], (blocks, start, RESPONSE, blocks, at, by))
            arrived = np.full(len(blocks), -RESPONSE)
            m.mbarriers.update(at, blocks, np.zeros_like(arrived), arrived)

    def unknown(m: Machine) -> None:
        m.mbarriers.doubt(m.clusters.around(m.view_blocks()))
        forget_range(m, m.clusters.around(m.view_blocks()))

    return in_warps(instruction, [operands.address(memory) for memory in memories], request, unknown)


def _response(m: Machine, block: int) -> Bits:
    """Return the bytes: x, y and z of a block to take over, in 32, 16 and 16 bits, and whether there is one."""
    asked = int(m.requests[block])
    m.requests[block] += 1
    words = np.zeros(RESPONSE // WORD, np.uint32)
    if asked < len(m.taken):
        x, y, z = m.taken[asked]
        words[:3] = x, y | z << 16, 1
    return words.view(np.uint8)
