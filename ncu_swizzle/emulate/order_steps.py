"""Steps that note what orders accesses to shared memory, reads without lane addresses, and the actions of tcgen05.

They run before the instructions themselves (`program.prepare`) and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ncu_swizzle.emulate import operands, tensor_map
from ncu_swizzle.emulate.accesses import WINDOW, access_width
from ncu_swizzle.emulate.code import INTEGER, MEMORY, TENSOR, SassInstruction
from ncu_swizzle.emulate.copies import (
    GRANULE,
    Executing,
    WgmmaTiles,
    copies_out,
    in_warps,
    map_at,
    registers,
    starting_lanes,
)
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
    UmmaOperands,
    WarpAccess,
    copied_rows,
    lane_and_column,
)
from ncu_swizzle.smem.descriptors import CHUNK, K_BYTES, WARPS, Descriptor, UmmaDescriptor, UmmaShape
from ncu_swizzle.smem.opcodes import Shared
from ncu_swizzle.smem.operations import WORD, Ints

PLACES = SIXTEENTHS * COLUMNS
_NOTHING = np.zeros(0, np.int64)


# What tcgen05 reads and writes, in shared and in tensor memory.
#
# A place in tensor memory is a column of 16 lanes; a block has 8 x 512. tcgen05.mma, cp and shift run alongside
# the threads, those of a warp in order; so does tcgen05.st, until its wait. A tcgen05.ld is taken as complete: ptxas
# reduces its wait to scoreboards.


class TensorUse(NamedTuple):
    """What an instruction does in each of some blocks: the 16-byte chunks that it reads, by first byte; places."""

    blocks: tuple[int, ...]
    chunks: Ints = _NOTHING
    reads: Ints = _NOTHING
    writes: Ints = _NOTHING


Use = Callable[[Machine, int, Sequence[int]], TensorUse | None]  # given a row of the view and what its operands hold


def tensor_step(instruction: SassInstruction) -> Step | None:
    """Return the step that notes what an instruction does to tensor memory; None if nothing."""
    opcode, row = instruction.opcode, instruction.row
    if row.shared is Shared.TCGEN05 and opcode != "UTCCP":
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
    def note(m: Machine, warps: Executing) -> None:
        uses = [use(m, row, values) for row, values in warps.each]
        if None in uses:
            note_unknown(m)
        else:
            m.note(Kind.TENSOR, m.view.warps[warps.rows], uses)

    return in_warps(instruction, readers, note, note_unknown)


def note_unknown(m: Machine) -> None:
    """Note that the view's warps may access anything."""
    m.note(Kind.UNKNOWN, m.view.warps)


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
    umma = UmmaOperands(instruction)

    def use(m: Machine, row: int, values: Sequence[int]) -> TensorUse | None:
        issued = umma.issued(values)
        shape, tiles = issued.shape, issued.tiles
        if shape.refused or shape.sparse or any(tile.refused or tile.absolute for tile, _ in tiles):
            return None
        reads = []
        if issued.a is not None:
            lanes, count = shape.a_lanes
            reads.append(_at(issued.a, count, lanes))
        for column, count in zip(issued.scales, shape.scale_columns, strict=False):
            reads.append(_places(column, count, ALL_LANES))
        lanes, count = shape.result_lanes
        return TensorUse(
            blocks=_blocks(m, row, shape.pair),
            chunks=_tiles(tiles, shape),
            reads=np.concatenate([_NOTHING, *reads]),
            writes=_at(issued.result, count, lanes),
        )

    return umma.readers, use


def _at(address: int, count: int, parts: tuple[int, ...]) -> Ints:
    """Return the places of some columns from an address on; its lane offsets the parts."""
    lane, column = lane_and_column(address)
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
        named, column = lane_and_column(values[0])
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
    (rows, wide), pair = copied_rows(instruction), instruction.has("2CTA")

    def use(m: Machine, row: int, values: Sequence[int]) -> TensorUse | None:
        address, low, high = values
        descriptor = UmmaDescriptor.of_bits(low | high << 32)
        if descriptor.refused or descriptor.absolute:
            return None
        chunks = descriptor.chunks(rows, False)[:, : wide // CHUNK].ravel()
        written = _places(lane_and_column(address)[1], wide // WORD, ALL_LANES)
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
    """tcgen05.dealloc: units of 32 columns whose bits remain set stay allocated."""
    block = int(m.view_blocks()[row])
    gone = int(m.columns[block]) & ~values[0]
    columns = [_places(unit * UNIT, UNIT, ALL_LANES) for unit in range(UNITS) if gone >> unit & 1]
    return TensorUse((block,), writes=np.concatenate([_NOTHING, *columns]))


# Barriers, fences and waits; and tiles that wgmma and copies read.

# What is left of a __syncwarp() where the warp has converged anyway is a NOP. VOTEU is of no vote in the source: ptxas
# writes it, to have a predicate for the whole warp.
_IN_WARP = frozenset(("NOP", "SHFL", "VOTE", "MATCH", "REDUX", "CREDUX", "ELECT"))
_OF_SOME_LANES = frozenset(("NOP", "ELECT"))
_BY_LANES = (Kind.MEMORY, Kind.PROXY)  # fences
FILLS = "UMEMSETS"
GROUPS = "gsb0"  # the scoreboard of a group of wgmmas, which its last one has


def order_step(instruction: SassInstruction) -> Step | None:
    """Return the step that notes an instruction; None for what orders nothing."""
    opcode = instruction.opcode
    if instruction.never:
        return None
    if not instruction.row.modelled:
        return _fill_step(instruction) if opcode == FILLS else note_unknown
    if opcode in _IN_WARP:
        return _in_warp(instruction)
    if note := _note(instruction):
        return _guarded(instruction, *note)
    if copies_out(instruction):
        return _read_out_step(instruction)
    return _tile_step(instruction) if instruction.row.shared is Shared.WGMMA else tensor_step(instruction)


def fences_by_guard(instruction: SassInstruction) -> bool:
    """Return whether an ordering instruction may execute in some blocks and not in others."""
    only = instruction.opcode == "NOP" or _note(instruction) is not None
    return instruction.guard is not None and not instruction.never and only


def _in_warp(instruction: SassInstruction) -> Step:
    if instruction.guard is None or instruction.opcode not in _OF_SOME_LANES:
        return lambda m: m.note_lanes(m.view.warps, m.view.mask)
    guard = operands.guard_operands(instruction.guard)

    def step(m: Machine) -> None:
        selected, doubtful = m.ordering_lanes(guard(m) if guard else None)
        rows = np.asarray((lanes := selected | doubtful).any(axis=1))
        if fences_by_guard(instruction):
            m.count_order(m.view.warps[rows])
        m.note_lanes(m.view.warps[rows], lanes[rows])

    return step


def _note(instruction: SassInstruction) -> tuple[Kind, int | None] | None:
    """Return the event of an ordering instruction, and its number."""
    opcode, has = instruction.opcode, instruction.has
    left = next((operand.number for operand in instruction.operands[::-1] if operand.kind == INTEGER), 0)
    if opcode in ("LDGDEPBAR", "UTMACMDFLUSH"):
        return Kind.COMMIT, None
    if opcode == "DEPBAR" and "SB0" in instruction.text:  # of other scoreboards, the compiler waits for registers
        return Kind.AWAIT, left
    if opcode == "WARPGROUP" and has("DEPBAR"):
        return Kind.AWAIT_TILES, left
    if opcode == "FENCE" and has("ASYNC"):  # of shared, tensor or global memory: fence.proxy.async, tcgen05.wait::st
        return (Kind.PROXY, None) if has("S") else (Kind.STORED, None) if has("T") else None
    return (Kind.MEMORY, None) if opcode == "MEMBAR" else None


def _guarded(instruction: SassInstruction, kind: Kind, number: int | None) -> Step:
    guard = operands.guard_operands(instruction.guard)

    def step(m: Machine) -> None:
        selected, doubtful = m.ordering_lanes(guard(m) if guard else None)
        lanes = selected | doubtful
        executes = np.asarray(lanes.any(axis=1))
        warps = m.view.warps if executes.all() else m.view.warps[executes]
        if guard:  # else it is counted like any instruction, even in code that notes nothing
            m.count_order(warps)
        if len(warps):
            m.note(kind, warps, m.masks(warps, lanes[executes], ended=False) if kind in _BY_LANES else number)

    return step


def _read_out_step(instruction: SassInstruction) -> Step:
    """Return the step of a bulk copy from shared memory: where it reads, and how much."""
    memory = [operand for operand in instruction.operands if operand.kind == MEMORY]
    tensor = instruction.opcode.startswith("UTMA")
    # UTMASTG has the address in shared memory first, UBLKCP.G.S second; the other operand is the map, or the target.
    start = operands.raw(memory[0 if tensor else 1].terms[0])
    size = registers(memory[1]) if tensor else [operands.raw(instruction.operands[-1])]

    def note(m: Machine, warps: Executing) -> None:
        starts, *parts = warps.columns
        sizes = _sizes(m, parts[0], parts[1]) if tensor else (parts[0] & 0xFFFF) * GRANULE
        if sizes is None:
            note_unknown(m)
        else:
            m.note(Kind.READ_OUT, m.view.warps[warps.rows], (starts & int(WINDOW), sizes, starting_lanes(warps.lanes)))

    return in_warps(instruction, [start, *size], note, note_unknown)


def _sizes(m: Machine, low: Ints, high: Ints) -> Ints | None:
    """Return the bytes that each warp's copy by a tensor map moves; None if unknown."""
    contents = [map_at(m, address) for address in (low | high << 32).tolist()]
    sizes = [None if content is None else tensor_map.copied_bytes(content) for content in contents]
    return None if None in sizes else np.array(sizes, np.int64)


def _fill_step(instruction: SassInstruction) -> Step:
    """Return the step of an st.bulk, which fills units of shared memory from an address on."""
    width = access_width(instruction)
    start, count = operands.address(instruction.operands[0]), operands.raw(instruction.operands[-1])

    def note(m: Machine, warps: Executing) -> None:
        starts, units = warps.columns
        filled = starts & int(WINDOW), units * width, starting_lanes(warps.lanes)
        m.note(Kind.FILL, m.view.warps[warps.rows], filled)

    return in_warps(instruction, [start, count], note, note_unknown)


def _tile_step(instruction: SassInstruction) -> Step | None:
    """Return the step of a wgmma: the chunks that its descriptors name."""
    tiles = WgmmaTiles.of(instruction)
    if tiles is None or not tiles.columns or instruction.has("SP"):
        return note_unknown if tiles else None

    def note(m: Machine, warps: Executing) -> None:
        # A warp reads its quarter of A. All four of a warpgroup read B: the first one represents them.
        chunks = []
        for row, values in warps.each:
            read = tuple(zip(tiles.descriptors(values), tiles.rows, tiles.mn_major, strict=True))
            chunks.append(_chunks(read, int(m.view.warps[row]) % m.per_block % WARPS))
        m.note(Kind.TILE, m.view.warps[warps.rows], chunks)

    return in_warps(instruction, tiles.readers, note, note_unknown)


@lru_cache(maxsize=1 << 12)
def _chunks(read: tuple[tuple[int, int, bool], ...], warp: int) -> Ints:
    """Return the first bytes of the chunks of 16 that a warp of a warpgroup reads: of A, if there is one, and of B.

    Descriptors are given as bits, rows, and whether MN is contiguous.
    """
    tiles = [Descriptor.of_bits(bits).chunks(rows, major) for bits, rows, major in read]
    parts = [np.zeros(0, np.int64)]
    if len(tiles) == 2:  # the first axis is M, by rows or by chunks of them
        quarter = len(tiles[0]) // WARPS
        parts.append(tiles[0][warp * quarter : (warp + 1) * quarter].ravel())
    if warp == 0:
        parts.append(tiles[-1].ravel())
    return np.unique(np.concatenate(parts))
