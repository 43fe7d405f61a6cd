"""Steps that note what orders accesses to shared memory, and what reads it without lanes' addresses.

They run before the instructions themselves (`program.prepare`) and change nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from ncu_swizzle.emulate import operands, tensor_map
from ncu_swizzle.emulate.accesses import WINDOW
from ncu_swizzle.emulate.code import INTEGER, MEMORY, REG, SassInstruction
from ncu_swizzle.emulate.copies import BULK, GRANULE, map_at, of_row, of_rows, registers
from ncu_swizzle.emulate.effects import WGMMA
from ncu_swizzle.emulate.events import Kind
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.tensor_order import tensor_step
from ncu_swizzle.emulate.values import Value, wide
from ncu_swizzle.smem.descriptors import ROWS, WARPS, Descriptor
from ncu_swizzle.smem.operations import Ints

# What is left of a __syncwarp() where the warp has converged anyway is a NOP.
_IN_WARP = frozenset(("NOP", "SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "CREDUX", "ELECT"))
_OUT = frozenset(("UTMASTG", "UTMAREDG"))  # they read shared memory, as UBLKCP.G and UBLKRED.G do
_SHAPE = re.compile(r"64x(\d+)x\d+")
GROUPS = "gsb0"  # the scoreboard of a group of wgmmas, which its last one has


def order_step(instruction: SassInstruction) -> Step | None:
    """Return the step that notes an instruction; None for what orders nothing."""
    opcode = instruction.opcode
    if instruction.never:
        return None
    if opcode in _IN_WARP:
        return lambda m: m.note_lanes(m.view.warps, m.view.mask)
    if opcode in WGMMA:
        return _tile_step(instruction)
    if opcode in _OUT or (opcode in BULK and instruction.modifiers[0] == "G"):
        return _read_out_step(instruction)
    note = _note(instruction)
    return _guarded(instruction, *note) if note else tensor_step(instruction)


def _note(instruction: SassInstruction) -> tuple[Kind, int | None] | None:
    """Return the event of an instruction that only orders, and its number."""
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
        selected, doubtful = m.selection(guard(m) if guard else None)
        executes = np.asarray((selected | doubtful).any(axis=1))
        warps = m.view.warps if executes.all() else m.view.warps[executes]
        if len(warps):
            m.note(kind, warps, number)

    return step


def _read_out_step(instruction: SassInstruction) -> Step:
    """Return the step of a bulk copy from shared memory: where it reads, and how much."""
    guard = operands.guard_operands(instruction.guard)
    memory = [operand for operand in instruction.operands if operand.kind == MEMORY]
    tensor = instruction.opcode.startswith("UTMA")
    # UTMASTG has the address in shared memory first, UBLKCP.G.S second; the other operand is the map, or the target.
    start = operands.raw(memory[0 if tensor else 1].terms[0])
    low, high = registers(memory[1])
    size = None if tensor else operands.raw(instruction.operands[-1])

    def step(m: Machine) -> None:
        selected, doubtful = m.selection(guard(m) if guard else None)
        rows = np.flatnonzero(selected.any(axis=1))
        if not len(rows) and not doubtful.any():
            return
        first = first_lane(start(m), m.view.mask)
        sizes = _sizes(
            m, rows, [first_lane(read(m), m.view.mask) for read in ((low, high) if size is None else (size,))]
        )
        warps = m.view.warps[rows]
        if doubtful.any() or not first.certain or sizes is None:
            m.note(Kind.UNKNOWN, m.view.warps)
        else:
            m.note(Kind.READ_OUT, warps, ((of_rows(first, rows) & WINDOW).astype(np.int64), sizes))

    return step


def _sizes(m: Machine, rows: Ints, known: list[Value]) -> Ints | None:
    """Return the bytes that each warp's copy moves, from a register or a tensor map; None if unknown."""
    if not all(value.certain for value in known):
        return None
    if len(known) == 1:
        return (of_rows(known[0], rows) & np.uint32(0xFFFF)).astype(np.int64) * GRANULE
    maps = wide(of_rows(known[0], rows), of_rows(known[1], rows)).tolist()
    sizes = [None if (content := map_at(m, int(at))) is None else tensor_map.copied_bytes(content) for at in maps]
    return None if None in sizes else np.array(sizes, np.int64)


def _tile_step(instruction: SassInstruction) -> Step | None:
    """Return the step of a wgmma: the chunks that its descriptors name."""
    parts = instruction.operands
    at = next((k for k, operand in enumerate(parts) if operand.kind == MEMORY and operand.terms), None)
    shape = next((match for word in instruction.modifiers if (match := _SHAPE.fullmatch(word))), None)
    if at is None or parts[at].terms[0].text == "URZ":
        return None
    if shape is None or instruction.has("SP"):
        return lambda m: m.note(Kind.UNKNOWN, m.view.warps)
    first, columns = parts[at].terms[0], int(shape[1])
    # The descriptor of B is in the same two registers if A is in registers.
    sides = [("B", 2, columns)] if parts[1].kind == REG else [("A", 0, ROWS), ("B", 2, columns)]
    readers = [
        (operands.raw(first, plus), operands.raw(first, plus + 1), rows, f"tnsp{side}" in instruction.text)
        for side, plus, rows in sides
    ]
    guard = operands.guard_operands(instruction.guard)

    def step(m: Machine) -> None:
        selected, doubtful = m.selection(guard(m) if guard else None)
        halves = [[first_lane(read(m), m.view.mask) for read in reader[:2]] for reader in readers]
        if doubtful.any() or not all(value.certain for pair in halves for value in pair):
            m.note(Kind.UNKNOWN, m.view.warps)
            return
        # A warp reads its quarter of A. All four of a warpgroup read B: the first one stands for them.
        rows = np.flatnonzero(selected.any(axis=1))
        chunks = []
        for row in rows.tolist():
            bits = [of_row(low, row) | of_row(high, row) << 32 for low, high in halves]
            read = tuple((b, r, t) for b, (_, _, r, t) in zip(bits, readers, strict=True))
            chunks.append(_chunks(read, int(m.view.warps[row]) % m.per_block % WARPS))
        if chunks:
            m.note(Kind.TILE, m.view.warps[rows], chunks)

    return step


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
