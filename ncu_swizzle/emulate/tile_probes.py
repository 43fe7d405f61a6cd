"""Follow tiles from tensor maps through shared memory to wgmma's descriptors: which element arrives as which.

A run of its own executes some blocks with all iterations of their loops. It claims nothing of tiles that threads have
written, of copies and descriptors that are not known, and of types other than those of 8, 16 and 32 bits.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, access_width, memory_operands
from ncu_swizzle.emulate.blocks import Setting, run_batch
from ncu_swizzle.emulate.buffers import Buffer
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.copies import ToShared, map_at, of_row, of_rows
from ncu_swizzle.emulate.effects import effects
from ncu_swizzle.emulate.faults import Enough
from ncu_swizzle.emulate.machine import SHARED_WINDOW, Machine
from ncu_swizzle.emulate.misfits import FollowedTiles
from ncu_swizzle.emulate.opcodes import WGMMA
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.operations.registry import Step
from ncu_swizzle.emulate.parse import SassInstruction
from ncu_swizzle.emulate.placed_boxes import UNKNOWN_PHASE, BoxCopy
from ncu_swizzle.emulate.product_probes import EndProbe, ProductProbe, results_of
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.tensor_map import decoded
from ncu_swizzle.emulate.tile_record import TileRecord
from ncu_swizzle.emulate.values import known_in, wide
from ncu_swizzle.errors import ProgramFailed
from ncu_swizzle.smem.banks import Ints
from ncu_swizzle.smem.descriptors import CHUNK

_READERS = frozenset(("ATOMS", "LD", "LDS", "LDSM", "UBLKCP", "UBLKRED", "UTMAREDG", "UTMASTG"))
_WRITERS = frozenset(("ATOMS", "LDGSTS", "ST", "STS", "STSM", "STAS", "REDAS", "UBLKCP"))
Index = tuple[int, int, int]
Source = tuple[int, tuple[int, ...]]  # the tensor map's address, and the box's corner


class TileProbes:
    """The steps that follow tiles in a program."""

    def __init__(self, instructions: Sequence[SassInstruction], buffers: tuple[Buffer, ...]) -> None:
        executed = [instruction for instruction in instructions if not instruction.never]
        others_read = any(instruction.opcode in _READERS for instruction in executed)
        self.record = TileRecord(buffers, others_read=others_read)
        self.results = frozenset(results_of(i) for i in executed if i.opcode in WGMMA)  # registers that are added to

    def step(self, instruction: SassInstruction) -> Step | None:
        """Return the step that follows what an instruction does to tiles; None if that is nothing."""
        if instruction.never:
            return None
        if instruction.opcode == "UTMALDG":
            return _CopyProbe(self.record, instruction).step
        if instruction.opcode in WGMMA:
            return ProductProbe.of(self.record, instruction)
        if instruction.opcode == "STG":
            return _StoreProbe(self.record, instruction).step
        if instruction.opcode in _WRITERS:
            return _WriteProbe(self.record, instruction).step
        written = effects(instruction).writes
        ended = [span for span in self.results if written >> span[0] & (1 << span[1] - span[0]) - 1]
        return EndProbe(self.record, instruction, ended).step if ended else None


class _CopyProbe:
    """Follows a tensor copy to shared memory."""

    def __init__(self, record: TileRecord, instruction: SassInstruction) -> None:
        self.record, self.instruction = record, instruction
        self.copy = ToShared(instruction)

    def step(self, m: Machine) -> None:
        copy, mask = self.copy, m.view.mask
        selected, doubtful = m.selection(copy.guard(m) if copy.guard else None)
        readers = [copy.target, copy.barrier, *copy.source, *([copy.extra] if copy.multicast and copy.extra else [])]
        known = [first_lane(read(m), mask) for read in (*readers, *copy.corner)]
        if doubtful.any() or not all(value.certain for value in known) or not copy.corner:
            self.record.lose(m, "where a tensor copy goes, or what it copies, is not known")
            return
        target, barrier, low, high = known[:4]
        corner = known[len(readers) :]
        extra = known[4] if len(readers) > 4 else None
        addresses = wide(low.bits, high.bits)
        for row in np.flatnonzero(selected.any(axis=1)).tolist():
            where = int(addresses[min(row, len(addresses) - 1), 0])
            at = tuple(int(np.int32(np.uint32(of_row(value, row)))) for value in corner)
            start, waiting = of_row(target, row), of_row(barrier, row)
            here = np.array([row])
            arrivals = copy.blocks(m, here, of_rows(barrier, here), extra).tolist()
            for index, block in enumerate(copy.blocks(m, here, of_rows(target, here), extra).tolist()):
                counted = arrivals[min(index, len(arrivals) - 1)]
                self._place(m, block, (where, at), start & int(WINDOW), (waiting & int(WINDOW), counted))

    def _place(
        self, m: Machine, block: int, source: tuple[int, tuple[int, ...]], start: int, barrier: tuple[int, int]
    ) -> None:
        placed = self.record.placed(m)
        content = map_at(m, source[0])
        tensor = decoded(content) if content else None
        if tensor is None or (tensor.interleave and not tensor.refused):
            kinds = "im2col, interleaved, with element strides, or not a parameter"
            self.record.leave(f"a tensor map is not understood ({kinds})", lost=True)
            placed.overwrite(block, slice(start // CHUNK, None))
            return
        phase = m.mbarriers.phase(*barrier) if barrier[1] == block else None
        counted_in = UNKNOWN_PHASE if phase is None else phase
        copy = BoxCopy(self.instruction.offset, source[0], tensor, source[1], block, barrier[0], counted_in, start)
        self.record.check_map(copy)
        self.record.check_target(copy, start)
        placed.place(copy, copy.addresses(start))
        self.record.check_copy(copy)


class _WriteProbe:
    """Forgets tiles that something else is written to."""

    def __init__(self, record: TileRecord, instruction: SassInstruction) -> None:
        self.record = record
        self.guard = operands.guard(instruction.guard)
        memory = instruction.operands[memory_operands(instruction)[0]]
        self.bulk = instruction.opcode in ("UBLKCP", "STAS", "REDAS")
        self.generic = instruction.opcode == "ST"
        self.address = operands.wide_address(memory) if self.generic else operands.address(memory)
        self.width = access_width(instruction)

    def step(self, m: Machine) -> None:
        if self.bulk:
            self.record.forget(m)
            return
        selected, doubtful = m.selection(self.guard(m) if self.guard else None)
        selected = selected | doubtful
        address = self.address(m)
        if not known_in(address, selected):
            self.record.lose(m, "where a thread stores is not known")
            return
        bits = np.broadcast_to(address.bits, selected.shape)
        if self.generic:
            selected = selected & ((bits >> np.uint64(32)) == SHARED_WINDOW)
        placed = self.record.placed(m)
        for row, block in enumerate(m.view_blocks().tolist()):
            at = (bits[row][selected[row]].astype(np.int64)) & int(WINDOW)
            if len(at):
                placed.overwrite(block, np.unique(np.concatenate([at, at + self.width - 1]) // CHUNK))


class _StoreProbe:
    """Counts the bytes that blocks store to global memory."""

    def __init__(self, record: TileRecord, instruction: SassInstruction) -> None:
        self.record = record
        self.guard = operands.guard(instruction.guard)
        self.address = operands.wide_address(instruction.operands[memory_operands(instruction)[0]])
        self.width = access_width(instruction)

    def step(self, m: Machine) -> None:
        if not self.record.cut:
            return
        selected, doubtful = m.selection(self.guard(m) if self.guard else None)
        address = self.address(m)
        if doubtful.any() or not known_in(address, selected):
            self.record.stored_unknown = True
            return
        bits = np.broadcast_to(address.bits, selected.shape)
        for row, block in enumerate(m.view_blocks().tolist()):
            self.record.store(block, bits[row][selected[row]].astype(np.int64), self.width)


def followed_tiles(code: Code, setting: Setting, buffers: tuple[Buffer, ...]) -> FollowedTiles:
    """Run the blocks at the grid's corners, and return where tiles do not fit."""
    opcodes = {instruction.opcode for instruction in setting.program.instructions if not instruction.never}
    if "UTMALDG" not in opcodes or not opcodes & WGMMA:
        return FollowedTiles()
    probes = TileProbes(setting.program.instructions, buffers)
    program = prepare(code, arrays=bool(setting.memory), probe=probes.step)
    try:
        _run(replace(setting, program=program, shortcuts=False), np.array(_corners(setting.grid)), probes.record)
    except ProgramFailed as error:
        return probes.record.found(str(error))
    return probes.record.found()


def _run(setting: Setting, blocks: Ints, record: TileRecord) -> None:
    with contextlib.suppress(Enough):
        record.check_waits(run_batch(setting, blocks).machine, 0)
    record.finish()


def _corners(grid: Index) -> list[Index]:
    ends = [sorted({0, size - 1}) for size in grid]
    return [(x, y, z) for z, y, x in itertools.product(*ends[::-1])]
