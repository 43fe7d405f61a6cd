"""Steps that note what tcgen05 reads and writes, in shared and in tensor memory, for `races`.

A place of tensor memory is a column of 16 lanes, of which a block has 8 x 512. tcgen05.mma, cp and shift go on beside
the threads, those of a warp in order; so does tcgen05.st, until its wait. A tcgen05.ld is taken as complete: of its
wait, ptxas leaves nothing but scoreboards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.code import INSTRUCTION, MEMORY, TENSOR, SassInstruction
from ncu_swizzle.emulate.copies import of_row, of_warps, registers
from ncu_swizzle.emulate.effects import UMMA
from ncu_swizzle.emulate.events import Kind
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.tensor_memory import (
    ALL_LANES,
    COLUMNS,
    ROWS_OF_ONE,
    SIXTEENTHS,
    UNIT,
    UNITS,
    WarpAccess,
    copied,
    split,
)
from ncu_swizzle.smem.descriptors import CHUNK, K_BYTES
from ncu_swizzle.smem.operations import WORD, Ints
from ncu_swizzle.smem.tensor_core import UmmaDescriptor, UmmaShape

PLACES = SIXTEENTHS * COLUMNS
_NOTHING = np.zeros(0, np.int64)


class TensorUse(NamedTuple):
    """What an instruction does to each of some blocks: chunks of 16 bytes that it reads, by their first; places."""

    blocks: tuple[int, ...]
    chunks: Ints = _NOTHING
    reads: Ints = _NOTHING
    writes: Ints = _NOTHING


Use = Callable[[Machine, int, Sequence[int]], TensorUse | None]  # given a row of the view and what its operands hold


def tensor_step(instruction: SassInstruction) -> Step | None:
    """Return the step that notes what an instruction does to tensor memory; None if that is nothing."""
    opcode = instruction.opcode
    if opcode in UMMA:
        return _noted(instruction, *_product(instruction))
    if opcode in ("LDTM", "STTM"):
        return _noted(instruction, *_access(instruction))
    if opcode == "UTCCP":
        return _noted(instruction, *_copy(instruction))
    if opcode == "UTCSHIFT":
        return _noted(instruction, *_shift(instruction))
    if opcode == "UTCATOMSWS" and not instruction.has("FIND_AND_SET"):
        return _noted(instruction, [operands.raw(instruction.operands[-1])], _freed)
    return None


def _noted(instruction: SassInstruction, readers: Sequence[operands.Reader], use: Use) -> Step:
    guard = operands.guard_operands(instruction.guard)

    def step(m: Machine) -> None:
        selected, doubtful = m.selection(guard(m) if guard else None)
        values = of_warps(m, readers, selected)
        rows = np.flatnonzero(selected.any(axis=1))
        if doubtful.any() or values is None:
            m.note(Kind.UNKNOWN, m.view.warps)
        elif len(rows):
            uses = [use(m, row, [of_row(value, row) for value in values]) for row in rows.tolist()]
            if None in uses:
                m.note(Kind.UNKNOWN, m.view.warps)
            else:
                m.note(Kind.TENSOR, m.view.warps[rows], uses)

    return step


def _blocks(m: Machine, row: int, pair: bool) -> tuple[int, ...]:
    block = int(m.view_blocks()[row])
    return m.clusters.pair(block) if pair else (block,)


@lru_cache(maxsize=1 << 10)
def _places(first: int, count: int, parts: tuple[int, ...]) -> Ints:
    """Return the places of some columns, in some sixteenths of the lanes."""
    columns = np.arange(first, min(first + count, COLUMNS))
    return (np.array([part for part in parts if part < SIXTEENTHS])[:, None] * COLUMNS + columns).ravel()


def _product(instruction: SassInstruction) -> tuple[Sequence[operands.Reader], Use]:
    """tcgen05.mma: A and B through descriptors, A in tensor memory, scale factors; D."""
    parts = instruction.operands
    number = next(k for k, operand in enumerate(parts) if operand.kind == INSTRUCTION)
    factors = next((operand for operand in parts[number + 1 :] if operand.kind == TENSOR), None)
    sides = [side for side in (0, 1) if parts[side].kind == MEMORY]
    readers = [
        operands.address(parts[number]),
        operands.address(parts[2]),
        *([] if 0 in sides else [operands.address(parts[0])]),
        *(registers(factors) if factors else []),
        *(half for side in sides for half in registers(parts[side])),
    ]

    def use(m: Machine, row: int, values: Sequence[int]) -> TensorUse | None:
        bits, result, *others = values
        shape = UmmaShape.of_bits(bits, instruction.opcode, instruction.modifiers, scaled=factors is not None)
        halves = others[-2 * len(sides) :]
        described = zip(sides, halves[::2], halves[1::2], strict=True)
        tiles = tuple((UmmaDescriptor.of_bits(low | high << 32), side) for side, low, high in described)
        if shape.refused or shape.sparse or any(tile.refused or tile.absolute for tile, _ in tiles):
            return None
        reads = []
        if 0 not in sides:
            lanes, count = shape.a_lanes
            reads.append(_at(others.pop(0), count, lanes))
        if factors:
            for address, count in zip(others, shape.scale_columns, strict=False):
                reads.append(_places(split(address & 0x3FFFFFFF)[1], count, ALL_LANES))
        lanes, count = shape.result_lanes
        return TensorUse(
            blocks=_blocks(m, row, shape.pair),
            chunks=_tiles(tiles, shape),
            reads=np.concatenate([_NOTHING, *reads]),
            writes=_at(result, count, lanes),
        )

    return readers, use


def _at(address: int, count: int, parts: tuple[int, ...]) -> Ints:
    """Return the places of some columns from an address on, whose lane moves the parts."""
    lane, column = split(address)
    return _places(column, count, tuple(part + lane // ROWS_OF_ONE for part in parts))


@lru_cache(maxsize=1 << 12)
def _tiles(tiles: tuple[tuple[UmmaDescriptor, int], ...], shape: UmmaShape) -> Ints:
    """Return the first bytes of the chunks of 16 that a tcgen05.mma reads: by tile, its side is 0 for A or 1 for B."""
    deep, majors = K_BYTES // shape.element, (shape.a_mn_major, shape.b_mn_major)
    parts = [tile.chunks(shape.rows[side], majors[side], deep).ravel() for tile, side in tiles]
    return np.unique(np.concatenate(parts))


def _access(instruction: SassInstruction) -> tuple[Sequence[operands.Reader], Use]:
    """tcgen05.ld and st, in a warp's own lanes."""
    shape, loads = WarpAccess.of(instruction), instruction.opcode == "LDTM"
    address = next(operand for operand in instruction.operands if operand.kind == TENSOR)

    def use(m: Machine, row: int, values: Sequence[int]) -> TensorUse | None:
        named, column = split(values[0])
        lane = shape.lane(named, int(m.view.warps[row]) % m.per_block)
        if lane is None:
            return None
        there, blocks = _places(column, shape.columns, shape.parts(lane)), _blocks(m, row, False)
        return TensorUse(blocks, reads=there) if loads else TensorUse(blocks, writes=there)

    return [operands.address(address)], use


def _copy(instruction: SassInstruction) -> tuple[Sequence[operands.Reader], Use]:
    """tcgen05.cp: rows of shared memory, K-major as a tile's; with 16 bytes of each, its first chunks."""
    target = next(operand for operand in instruction.operands if operand.kind == TENSOR)
    source = next(operand for operand in instruction.operands if operand.kind == MEMORY)
    (rows, wide), pair = copied(instruction), instruction.has("2CTA")

    def use(m: Machine, row: int, values: Sequence[int]) -> TensorUse | None:
        address, low, high = values
        descriptor = UmmaDescriptor.of_bits(low | high << 32)
        if descriptor.refused or descriptor.absolute:
            return None
        chunks = descriptor.chunks(rows, False)[:, : wide // CHUNK].ravel()
        written = _places(split(address)[1], wide // WORD, ALL_LANES)
        return TensorUse(_blocks(m, row, pair), chunks=chunks, writes=written)

    return [operands.address(target), *registers(source)], use


def _shift(instruction: SassInstruction) -> tuple[Sequence[operands.Reader], Use]:
    """tcgen05.shift: 32 lanes of 8 columns."""
    pair = instruction.has("2CTA")

    def use(m: Machine, row: int, values: Sequence[int]) -> TensorUse:
        there = _at(values[0], K_BYTES // WORD, (0, 1))
        return TensorUse(_blocks(m, row, pair), writes=there)

    return [operands.address(instruction.operands[0])], use


def _freed(m: Machine, row: int, values: Sequence[int]) -> TensorUse:
    """tcgen05.dealloc: of the units of 32 columns, the bits that are left stay allocated."""
    block = int(m.view_blocks()[row])
    gone = int(m.columns[block]) & ~values[0]
    columns = [_places(unit * UNIT, UNIT, ALL_LANES) for unit in range(UNITS) if gone >> unit & 1]
    return TensorUse((block,), writes=np.concatenate([_NOTHING, *columns]))
