"""Follow tiles from tensor maps through shared memory to wgmma's descriptors: which element arrives as which.

A run of its own executes some blocks with all iterations of their loops. It claims nothing of tiles that threads have
written, of copies and descriptors that are not known, and of types other than those of 8, 16 and 32 bits.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.base.errors import ProgramFailed
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, access_width, memory_operands
from ncu_swizzle.emulate.blocks import Setting, run_batch
from ncu_swizzle.emulate.code import MEMORY, PRED, REG, TRUE, UPRED, ZERO, Code, Operand, SassInstruction
from ncu_swizzle.emulate.contents import Buffer
from ncu_swizzle.emulate.copies import ToShared, map_at, of_row, of_rows
from ncu_swizzle.emulate.effects import WGMMA, effects
from ncu_swizzle.emulate.faults import Enough
from ncu_swizzle.emulate.machine import SHARED_WINDOW, Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.probes import corners
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.tensor_map import UNKNOWN_PHASE, BoxCopy, decoded
from ncu_swizzle.emulate.tile_products import OperandSeen, WgmmaProduct
from ncu_swizzle.emulate.tile_record import FollowedTiles, TileRecord
from ncu_swizzle.emulate.values import Value, known_in, wide
from ncu_swizzle.smem.descriptors import CHUNK, K_BYTES, ROWS, WARPS, Descriptor
from ncu_swizzle.smem.operations import Ints

# Follow wgmmas: which operands they read, and what they add them to.


_SHAPE = re.compile(r"64x(\d+)x(\d+)")
_FOLLOWED_K = (8, 16, 32)  # of types of 32, 16 and 8 bits
Span = tuple[int, int]


def results_of(instruction: SassInstruction) -> Span:
    """Return the registers that a wgmma adds to: the first, and behind the last."""
    shape = _shape(instruction)
    first = instruction.operands[0].number
    return first, first + (shape[0] // 2 if shape else 1)


def _shape(instruction: SassInstruction) -> Span | None:
    """Return the columns and K of a wgmma; None if they are not known."""
    found = next((match for word in instruction.modifiers if (match := _SHAPE.fullmatch(word))), None)
    return (int(found[1]), int(found[2])) if found else None


def _multiplies(instruction: SassInstruction) -> bool:
    """Say whether it is a product: compilers also emit wgmmas that only order others."""
    memory = [operand for operand in instruction.operands if operand.kind == MEMORY and operand.terms]
    return bool(memory) and memory[0].terms[0].text != "URZ"


@dataclass(kw_only=True)
class ProductProbe:
    """Follows the operands of a wgmma."""

    record: TileRecord
    instruction: SassInstruction
    columns: int
    element: int  # bytes
    memory: Operand = field(init=False)

    def __post_init__(self) -> None:
        given = self.instruction.operands
        self.guard = operands.guard_operands(self.instruction.guard)
        at = next(number for number, operand in enumerate(given) if operand.kind == MEMORY)
        first = given[at].terms[0]
        # With A in registers, the descriptor of B is in the same two registers.
        self.in_registers = given[1].kind == REG
        places = [("B", 2, self.columns)] if self.in_registers else [("A", 0, ROWS), ("B", 2, self.columns)]
        self.operands = [
            (side, operands.raw(first, at), operands.raw(first, at + 1), rows, f"tnsp{side}" in self.instruction.text)
            for side, at, rows in places
        ]
        self.fresh = not any(operand.kind == REG and operand.number != ZERO for operand in given[at + 1 :])
        flag = next((operand for operand in given[at + 1 :] if operand.kind in (PRED, UPRED)), None)
        self.adds = operands.guard_operands(flag)
        self.fresh |= flag is not None and flag.number == TRUE and flag.negated

    @classmethod
    def of(cls, record: TileRecord, instruction: SassInstruction) -> Step | None:
        """Return the step; None for wgmmas that multiply nothing."""
        if not _multiplies(instruction):
            return None
        shape = _shape(instruction)
        if shape is None or shape[1] not in _FOLLOWED_K or instruction.has("SP"):
            return _Unfollowed(record, instruction).step
        return cls(record=record, instruction=instruction, columns=shape[0], element=K_BYTES // shape[1]).step

    def step(self, m: Machine) -> None:
        selected, doubtful = m.selection(self.guard(m) if self.guard else None)
        values = [(first_lane(low(m), m.view.mask), first_lane(high(m), m.view.mask))
                  for _, low, high, *_ in self.operands]  # fmt: skip
        if doubtful.any() or not all(low.certain and high.certain for low, high in values):
            self.record.lose(m, f"what {self.instruction.text} reads is not known")
            return
        self.record.check_waits(m, self.instruction.offset)
        if self.in_registers:
            self.record.leave(
                f"A of {self.instruction.text} is in registers: whether its K goes with that of B is not known"
            )
        for row in np.flatnonzero(selected.any(axis=1)).tolist():
            if int(m.view.warps[row]) % m.per_block % WARPS:
                continue  # the warps of a warpgroup read the same tiles
            self._judge(m, row, values)

    def _judge(self, m: Machine, row: int, values: list[tuple[Value, Value]]) -> None:
        seen = []
        for (side, _, _, rows, mn), (low, high) in zip(self.operands, values, strict=True):
            bits = of_row(low, row) | of_row(high, row) << 32
            seen.append(
                OperandSeen(
                    side=side, descriptor=Descriptor.of_bits(bits), rows=rows, mn_major=mn, element=self.element
                )
            )
        block = int(m.view_blocks()[row])
        chain = int(m.view.warps[row]), self.instruction.operands[0].number
        if self._starts_anew(m, row):
            self.record.chains.end(chain)
        WgmmaProduct(
            record=self.record,
            placed=self.record.placed(m),
            instruction=self.instruction,
            block=block,
            seen=tuple(seen),
            chain=chain,
        ).judge(m)
        self.record.count()

    def _starts_anew(self, m: Machine, row: int) -> bool:
        """Say whether its results are not added to others, as far as is known."""
        if self.fresh or self.adds is None:
            return self.fresh
        adds = first_lane(self.adds(m), m.view.mask)
        return not adds.certain or not of_row(adds, row)


@dataclass
class _Unfollowed:
    """Says that a wgmma is not followed."""

    record: TileRecord
    instruction: SassInstruction

    def step(self, m: Machine) -> None:  # noqa: ARG002 - steps take the machine
        self.record.leave(f"{self.instruction.text} is not followed", lost=True)


@dataclass
class EndProbe:
    """Ends what is added up in registers that another instruction writes."""

    record: TileRecord
    instruction: SassInstruction
    spans: list[Span]

    def step(self, m: Machine) -> None:
        if not self.record.chains.open:
            return
        warps = m.view.warps.tolist()
        for first, end in self.spans:
            self.record.chains.touched(warps, first, end)


_READERS = frozenset(("ATOMS", "LD", "LDS", "LDSM", "UBLKCP", "UBLKRED", "UTMAREDG", "UTMASTG"))
_WRITERS = frozenset(("ATOMS", "LDGSTS", "ST", "STS", "STSM", "STAS", "REDAS", "UBLKCP"))
Index = tuple[int, int, int]
Source = tuple[int, tuple[int, ...]]  # the tensor map's address, and the box's corner


class TileProbes:
    """The steps that follow tiles in a program."""

    def __init__(self, instructions: Sequence[SassInstruction], buffers: tuple[Buffer, ...]) -> None:
        executed = [instruction for instruction in instructions if not instruction.never]
        others_read = any(instruction.opcode in _READERS for instruction in executed)
        self.record = TileRecord(buffers=buffers, others_read=others_read)
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
        copy = BoxCopy(
            offset=self.instruction.offset,
            map_at=source[0],
            tensor=tensor,
            corner=source[1],
            block=block,
            barrier=barrier[0],
            phase=counted_in,
            start=start,
        )
        self.record.check_map(copy)
        self.record.check_target(copy, start)
        placed.place(copy, copy.addresses(start))
        self.record.check_copy(copy)


class _WriteProbe:
    """Forgets tiles that something else is written to."""

    def __init__(self, record: TileRecord, instruction: SassInstruction) -> None:
        self.record = record
        self.guard = operands.guard_operands(instruction.guard)
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
        self.guard = operands.guard_operands(instruction.guard)
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
        _run(replace(setting, program=program, shortcuts=False), np.array(corners(setting.grid)), probes.record)
    except ProgramFailed as error:
        return probes.record.found(str(error))
    return probes.record.found()


def _run(setting: Setting, blocks: Ints, record: TileRecord) -> None:
    with contextlib.suppress(Enough):
        record.check_waits(run_batch(setting, blocks).machine, 0)
    record.finish()
