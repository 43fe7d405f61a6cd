"""The distinct requests of each shared-memory instruction, how often each is made, and its wavefronts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.parse import MEMORY, PRED, SassInstruction
from ncu_swizzle.emulate.values import Bits
from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.banks import Bools, Ints
from ncu_swizzle.smem.operations import ADD_ONE, LDMATRIX, LINE, STMATRIX

WINDOW = np.uint32(0xFFFFFF)  # address within a block; in a cluster the bits above select the block
_ATOMICS = {"AND": "and.b32", "OR": "or.b32", "XOR": "xor.b32", "EXCH": "exch.b32", "CAS": "cas.b32"}
_ORDERED = {"ADD": "add", "MIN": "min", "MAX": "max", "INC": "inc", "DEC": "dec"}


def access_width(instruction: SassInstruction) -> int:
    """Return the bytes per lane."""
    sizes = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
    if instruction.opcode in ("LDSM", "STSM"):
        return 16
    return next((sizes[word] for word in instruction.modifiers if word in sizes), 4)


def operation_name(instruction: SassInstruction) -> str | None:
    """Return the smem operation of the instruction; None if no rule gives its wavefronts."""
    opcode, width = instruction.opcode, access_width(instruction)
    if opcode in ("LDS", "LD", "STS", "ST"):
        kinds = {1: "u8", 2: "u16", 4: "b32", 8: "b64", 16: "v4.b32"}
        return f"{opcode[:2].lower()}.shared.{kinds[width]}"
    if opcode in ("LDSM", "STSM"):
        if not instruction.has("M88", "MT88"):
            return None
        count = instruction.modifiers[-1] if instruction.modifiers[-1] in ("1", "2", "4") else "1"
        trans = ".trans" if instruction.has("MT88") else ""
        return f"{LDMATRIX if opcode == 'LDSM' else STMATRIX}.x{count}{trans}"
    if opcode == "LDGSTS":
        return "cp.async.cg.16" if instruction.has("BYPASS") else f"cp.async.ca.{width}"
    return _atomic_name(instruction) if opcode == "ATOMS" else None


def _atomic_name(instruction: SassInstruction) -> str | None:
    if instruction.has("CAST", "64", "F32", "F16x2", "BF16x2", "F16", "F64"):
        return None
    if instruction.has("POPC"):
        return ADD_ONE
    for word in instruction.modifiers:
        if word in _ATOMICS:
            return f"atom.shared.{_ATOMICS[word]}"
        if word in _ORDERED:
            kind = "s32" if instruction.has("S32") and word in ("MIN", "MAX") else "u32"
            return f"atom.shared.{_ORDERED[word]}.{kind}"
    return None


def zero_fill(instruction: SassInstruction) -> bool:
    """Say whether lanes of an LDGSTS may write zeros instead of reading."""
    return instruction.opcode == "LDGSTS" and any(operand.kind == PRED for operand in instruction.operands)


@dataclass
class Seen:
    """Requests that some warps made together, and how often."""

    addresses: Bits
    selected: Bools
    source: Ints | None
    blocks: Ints
    count: int = 0


@dataclass
class Unknown:
    """Why something is unknown, and the index of the instruction that caused it."""

    reason: str
    origin: int | None


@dataclass
class Log:
    """All requests of one run, by instruction index."""

    instructions: Sequence[SassInstruction]
    limit: int  # bytes of shared memory per block
    seen: dict[int, dict[tuple[bytes, ...], Seen]] = field(default_factory=dict)
    unknown: dict[int, Unknown] = field(default_factory=dict)

    def record(self, m: Machine, number: int, addresses: Bits, selected: Bools, source: Bits | None = None) -> None:
        """Count one request per warp of the view; raise MemoryFault for an invalid address."""
        lanes = addresses if addresses.shape == selected.shape else np.broadcast_to(addresses, selected.shape)
        every_lane = m.view.full and selected is m.view.mask
        if not every_lane:
            lanes = np.where(selected, lanes, np.uint32(0))
        origin = None if source is None else _from_first_line(source, selected)
        extra = b"" if origin is None else origin.tobytes()
        key = (lanes.tobytes(), b"" if every_lane else selected.tobytes(), m.view.warps.tobytes(), extra)
        requests = self.seen.setdefault(number, {})
        seen = requests.get(key)
        if seen is None:
            lanes = lanes & WINDOW
            self._check(m, self.instructions[number], lanes, selected)
            seen = requests[key] = Seen(lanes, selected.copy(), origin, m.view_blocks())
        seen.count += 1

    def miss(self, number: int, reason: str, origin: int | None) -> None:
        """Record that a request is unknown."""
        self.unknown.setdefault(number, Unknown(reason, origin))

    def _check(self, m: Machine, instruction: SassInstruction, lanes: Bits, selected: Bools) -> None:
        width = access_width(instruction)
        used = selected
        if instruction.opcode in ("LDSM", "STSM"):
            used = selected & (np.arange(32) < operations.find(operation_name(instruction) or "ldmatrix.x4").addressed)
        wrong = used & ((lanes.astype(np.int64) + width > self.limit) | (lanes % np.uint32(width) != 0))
        if not wrong.any():
            return
        row, lane = (int(index) for index in np.argwhere(wrong)[0])
        warp = int(m.view.warps[row])
        number = int(m.thread[warp, lane])
        x, y, _ = m.block
        thread = (number % x, number // x % y, number // (x * y))
        at = int(lanes[row, lane])
        reason = (
            f"shared address {at:#x} is not a multiple of {width}"
            if at % width
            else f"shared address {at:#x} is outside the block's {self.limit} bytes of shared memory"
        )
        block = tuple(int(index) for index in m.blocks[m.block_of[warp]])
        raise MemoryFault(instruction.offset, instruction.text, reason, thread, block)


def _from_first_line(source: Bits, selected: Bools) -> Ints:
    """Return global addresses relative to the line of each request's lowest address."""
    lanes = np.broadcast_to(source, selected.shape).astype(np.int64)
    first = np.where(selected, lanes, 1 << 40).min(axis=1, keepdims=True) & -LINE
    relative: Ints = np.where(selected, lanes - first, 0)
    return relative


@dataclass(frozen=True, eq=False)
class AccessCounts:
    """One instruction's wavefronts by block, and its distinct requests."""

    op: str
    wavefronts: Ints  # (B,)
    ideal: Ints  # (B,)
    known: bool
    addresses: Ints  # (N, 32)
    active: Bools
    source: Ints | None
    times: Ints  # (N, B)


def count_accesses(op: str, requests: Sequence[Seen], blocks: int) -> AccessCounts:
    """Count the wavefronts of all requests of one instruction, by block."""
    operation = operations.find(op)
    addresses = np.concatenate([np.broadcast_to(r.addresses, r.selected.shape) for r in requests]).astype(np.int64)
    active = np.concatenate([r.selected for r in requests])
    owner = np.concatenate([r.blocks for r in requests])
    counts = np.concatenate([np.full(len(r.blocks), r.count, np.int64) for r in requests])
    sources = [r.source for r in requests if r.source is not None]
    source = np.concatenate(sources) if sources else None
    rows, which = _unique(addresses, active, source)
    times = np.zeros((len(rows), blocks), np.int64)
    np.add.at(times, (which, owner), counts)
    addresses, active = addresses[rows], active[rows]
    source = source[rows] if source is not None else None
    actual, ideal, known = _count(operation, addresses, active, source)
    return AccessCounts(op, actual @ times, ideal @ times, bool(known.all()), addresses, active, source, times)


def _unique(addresses: Ints, active: Bools, source: Ints | None) -> tuple[Ints, Ints]:
    """Return the first row of each distinct request, and for every row the index of its request."""
    parts = [addresses, active.astype(np.int64), *([source] if source is not None else [])]
    table = np.ascontiguousarray(np.concatenate(parts, axis=1))
    as_bytes = table.view(np.dtype((np.void, table.dtype.itemsize * table.shape[1]))).ravel()
    _, rows, which = np.unique(as_bytes, return_index=True, return_inverse=True)
    return rows, which.ravel()


def _count(
    operation: operations.Operation, addresses: Ints, active: Bools, source: Ints | None
) -> tuple[Ints, Ints, Bools]:
    """Return actual and ideal wavefronts and whether they are known; requests without active lanes take none."""
    actual, ideal = np.zeros(len(addresses), np.int64), np.zeros(len(addresses), np.int64)
    known = np.ones(len(addresses), bool)
    matrix = operation.kind in (LDMATRIX, STMATRIX)
    given = active[:, : operation.addressed]
    rows = np.flatnonzero(given.all(axis=1) if matrix else active.any(axis=1))
    if matrix:
        known &= given.all(axis=1) | ~active.any(axis=1)
    if len(rows):
        counted = wavefronts(operation.name, addresses[rows], active[rows], None if source is None else source[rows])
        actual[rows], ideal[rows], known[rows] = counted.actual, counted.ideal, counted.known
    return np.where(known, actual, 0), ideal, known


def memory_operands(instruction: SassInstruction) -> list[int]:
    """Return the positions of the operands that are addresses."""
    return [position for position, operand in enumerate(instruction.operands) if operand.kind == MEMORY]
