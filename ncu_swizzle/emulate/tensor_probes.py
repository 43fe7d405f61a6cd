"""Follow tiles into tcgen05.mma, and judge what a kernel does with tensor memory: allocate, write, read, free.

Asynchronous work is taken as complete at once, but an MMA that is uncommitted when its result is read was never
waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.code import MEMORY, TENSOR, UPRED, SassInstruction
from ncu_swizzle.emulate.copies import Executing, in_warps, registers
from ncu_swizzle.emulate.effects import effects, operand_number
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.scale_factors import ScaleFactors
from ncu_swizzle.emulate.tensor_map import NOTHING
from ncu_swizzle.emulate.tensor_memory import (
    ALL_LANES,
    COLUMNS,
    OF_FACTORS,
    ROWS_OF_ONE,
    SIXTEENTHS,
    UNIT,
    UNITS,
    Umma,
    UmmaOperands,
    WarpAccess,
    copied_rows,
    first_free,
    lane_and_column,
)
from ncu_swizzle.emulate.tile_products import MatrixProduct, OperandSeen
from ncu_swizzle.emulate.tile_record import TileRecord
from ncu_swizzle.smem.descriptors import CHUNK, GROUP, K_BYTES, UmmaDescriptor, UmmaShape
from ncu_swizzle.smem.opcodes import TABLE, Shared
from ncu_swizzle.smem.operations import WORD, Bools, Ints

WARP_LANES, UNIT_BITS = 32, UNIT.bit_length() - 1
NOBODY = -1

Parts = Sequence[int]  # sixteenths of the lanes


@dataclass
class TensorWrite:
    """What wrote columns of tensor memory."""

    offset: int  # of the instruction
    results: bool  # of an MMA
    committed: bool


@dataclass(frozen=True, kw_only=True)
class TensorAccess:
    """What an instruction accesses of one block's tensor memory: `count` columns from the first on, of some lanes."""

    machine: Machine
    offset: int  # of the instruction
    block: int
    first: int
    count: int
    parts: Parts
    what: str  # such as "it loads"

    @property
    def end(self) -> int:
        """The column behind the last."""
        return self.first + self.count

    @property
    def columns(self) -> str:
        """The columns in words."""
        which = f"columns {self.first} to {self.end - 1}" if self.count > 1 else f"column {self.first}"
        return f"{which} of tensor memory"

    @property
    def here(self) -> tuple[Ints, ...]:
        """The index of its places in arrays of (B, 8, 512)."""
        return np.ix_([self.block], self.parts, range(self.first, self.end))


@dataclass
class TensorRecord:
    """What each of B blocks has in tensor memory, (B, 8, 512), and what wrote it."""

    record: TileRecord
    guardrails: dict[int, str]  # traps by their offset
    roundings: dict[int, int]  # see `roundings`
    writes: list[TensorWrite] = field(default_factory=list)
    pending: dict[int, list[TensorWrite]] = field(default_factory=dict)  # by warp that issued them, until it commits
    allocations: dict[int, int] = field(default_factory=dict)  # by block: the instruction that last allocated
    unallocated: set[str] = field(default_factory=set)  # what was done to columns while none were allocated
    freed: bool = False  # whether anything was
    starved: tuple[int, int, int] | None = None  # an allocation that failed: its instruction, units, units taken
    scales: ScaleFactors = field(init=False)
    _machine: Machine | None = None
    _owner: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _unread: Bools = field(default_factory=lambda: np.zeros(0, bool))

    def __post_init__(self) -> None:
        self.scales = ScaleFactors(self.record)

    def owner(self, m: Machine) -> Ints:
        """Return the number of the write that each place has last been written by, (B, 8, 512)."""
        if self._machine is not m:
            self._machine, self.pending = m, {}
            self._owner = np.full((len(m.blocks), SIXTEENTHS, COLUMNS), NOBODY, np.int64)
            self._unread = np.zeros(self._owner.shape, bool)
            self.scales.begin(len(m.blocks))
        return self._owner

    def allowed(self, access: TensorAccess) -> bool:
        """Return whether columns exist and are allocated; record it if not."""
        offset, first, end, what = access.offset, access.first, access.end, access.what
        named = f"{what} {access.columns}"
        if end > COLUMNS:
            self.record.add(offset, "columns", f"{named}, which has {COLUMNS}", codes.TENSOR_COLUMNS)
            return False
        taken = int(access.machine.columns[access.block])
        units = range(first // UNIT, -(-end // UNIT))
        if all(taken >> unit & 1 for unit in units):
            return True
        if not taken and what in self.unallocated:  # the cause has been named
            return False
        self.unallocated |= set() if taken else {what}
        has = [unit for unit in range(UNITS) if taken >> unit & 1]
        least = 1 << (max(UNIT, end) - 1).bit_length()
        allocated = f"of which {len(has) * UNIT} are allocated" if has else "of which the block has allocated none"
        fits = f"; an allocation of {least} would fit" if least <= COLUMNS else ""
        self.record.add(offset, "columns", f"{named}, {allocated}{fits}", codes.TENSOR_COLUMNS)
        return False

    def write(self, access: TensorAccess, *, issuer: int | None, adds: bool = False) -> None:
        """Record a write: an MMA's if `issuer` is its warp; its addend must have been written."""
        offset, here, owner = access.offset, access.here, self.owner(access.machine)
        if adds:
            self.read(replace(access, what="it adds to"), by_threads=False)
        if issuer is not None and not adds and bool(self._unread[here].all()):
            self.record.add(
                offset,
                "overwritten",
                f"it overwrites results in {access.columns} that nothing has read",
                codes.TENSOR_ORDER,
            )
        self.scales.overwrite(access.block, slice(access.first, access.end), results=issuer is not None)
        done = TensorWrite(offset, issuer is not None, issuer is None)
        owner[here] = len(self.writes)
        self._unread[here] = issuer is not None
        self.writes.append(done)
        if issuer is not None:
            self.pending.setdefault(issuer, []).append(done)

    def read(self, access: TensorAccess, *, by_threads: bool) -> None:
        """Judge a read: its columns must have been written, and an MMA's committed before threads read them."""
        offset, what, here, owner = access.offset, access.what, access.here, self.owner(access.machine)
        self._unread[here] = False
        numbers = np.unique(owner[here]).tolist()
        # Threads may load more lanes and columns than they want; an MMA uses every column.
        missing = (owner[here] == NOBODY).all(axis=(0, 1))
        named = access.columns
        if missing.all() or (missing.any() and not by_threads):
            some = "which" if missing.all() else "some of which"
            self.record.add(offset, "unwritten", f"{what} {named}, {some} nothing has written", codes.TENSOR_ORDER)
        elif by_threads and any(not self.writes[number].committed for number in numbers if number != NOBODY):
            self.record.add(
                offset,
                "uncommitted",
                f"{what} {named} before tcgen05.commit: no thread can have waited for what writes them",
                codes.TENSOR_ORDER,
            )

    def commit(self, warps: Sequence[int]) -> None:
        """Commit what these warps have issued."""
        for warp in warps:
            for write in self.pending.pop(warp, ()):
                write.committed = True

    def doubt(self, what: str) -> Step:
        """Return the step that records that something is not known."""
        return lambda _: self.record.leave(f"{what} is not known")

    def finish(self) -> None:
        """Record columns that are still allocated when the blocks have ended."""
        m = self._machine
        if self.record.lost and not self.freed:
            return  # unknown code may free them
        for block, offset in self.allocations.items() if m is not None else ():
            left = int(m.columns[block]).bit_count() * UNIT if m is not None else 0
            if left:
                message = f"{left} columns of tensor memory that are allocated here are not freed when the block ends"
                self.record.add(offset, "left", message, codes.TENSOR_ALLOCATION)

    def fail(self) -> None:
        """Record an allocation that never succeeded, in a run that did not end."""
        if self.starved is not None:
            offset, units, taken = self.starved
            left = COLUMNS - taken * UNIT
            message = f"it asks for {units * UNIT} columns of tensor memory, of which {left} are free, and never ends"
            self.record.add(offset, "starved", message, codes.TENSOR_ALLOCATION)


# ---------------------------------------------------------------------------------------------- products


def product_step(tensors: TensorRecord, instruction: SassInstruction) -> Step:
    """Return the step that follows the operands of a tcgen05.mma."""
    record, offset, umma = tensors.record, instruction.offset, UmmaOperands(instruction)
    flag = next(operand for operand in reversed(instruction.operands) if operand.kind == UPRED)

    def judge(m: Machine, warps: Executing) -> None:
        record.check_waits(m, offset)
        for row, (more, *values) in warps.each:
            issued = umma.issued(values)
            shape = issued.shape
            if why := shape.refused:
                what = f"its instruction descriptor {issued.bits:#010x}: {why}"
                record.add(offset, "instruction", what, codes.INSTRUCTION)
                record.leave(f"{instruction.text} is not valid", lost=True)
                continue
            if bound := shape.bound(umma.in_shared):
                record.bound[bound] = None
            blocks = _blocks(m, row, shape.pair)
            product = _Issued(tensors=tensors, machine=m, offset=offset, blocks=blocks, umma=issued)
            product.judge_result(bool(more), int(m.view.warps[row]))
            product.judge_scales()
            chain = blocks[0], issued.result
            if not more:
                record.chains.end(chain)
                tensors.scales.end(chain)
            if issued.a is not None:
                where = "is in tensor memory: whether its K goes with that of B is not known"
                record.leave(f"A of {instruction.text} {where}")
                product.judge_operand(issued.a)
            seen = [_seen(record, offset, shape, "AB"[side], descriptor) for descriptor, side in issued.tiles]
            if shape.sparse or None in seen:
                record.leave(f"{instruction.text} is not followed", lost=True)
                continue
            origins = MatrixProduct(
                record=record,
                placed=record.placed(m),
                instruction=instruction,
                block=blocks[0],
                seen=tuple(filter(None, seen)),
                chain=chain,
            ).judge(m)
            if issued.scales and len(origins) == len("AB"):
                tensors.scales.judge(offset, shape, blocks, issued.scales, chain, (origins[0], origins[1]))
            record.count()

    unknown = f"what {instruction.text} reads is not known"
    readers = [operands.predicate(flag), *umma.readers]
    return in_warps(instruction, readers, judge, lambda m: record.lose(m, unknown))


def _seen(
    record: TileRecord, offset: int, shape: UmmaShape, side: str, descriptor: UmmaDescriptor
) -> OperandSeen | None:
    """Return an operand in shared memory; None if its descriptor is not valid or not followed."""
    mn_major = shape.a_mn_major if side == "A" else shape.b_mn_major
    why = descriptor.refused
    if not why and descriptor.atom > CHUNK and not (mn_major and shape.element == 4):
        why = "128-byte rows with 32-byte atoms are for tf32, MN-major"
    if why:
        record.add(offset, f"descriptor {side}", f"the descriptor of {side}: {why}", codes.DESCRIPTOR)
        return None
    if descriptor.absolute:
        return None
    rows = shape.rows[side == "B"]
    either = shape.opcode != "UTCOMMA" and rows % (CHUNK // shape.element) == 0
    return OperandSeen(
        side=side,
        descriptor=descriptor,
        rows=rows,
        mn_major=mn_major,
        element=shape.element,
        either=either,
        kind=shape.types[side == "B"],
        pair=shape.pair,
    )


def _blocks(m: Machine, row: int, pair: bool) -> tuple[int, ...]:
    """Return the block of a warp of the view, or both blocks of its pair, the leader first."""
    block = int(m.view_blocks()[row])
    return m.clusters.pair(block) if pair else (block,)


@dataclass(frozen=True, kw_only=True)
class _Issued:
    """A tcgen05.mma that has been issued: what it does to tensor memory."""

    tensors: TensorRecord
    machine: Machine
    offset: int
    blocks: Sequence[int]  # those that it works for
    umma: Umma

    def _allowed(self, first: int, count: int, parts: Parts, what: str) -> Iterator[TensorAccess]:
        """Yield the access to each block's columns that are allocated."""
        for block in self.blocks:
            access = TensorAccess(
                machine=self.machine,
                offset=self.offset,
                block=block,
                first=first,
                count=count,
                parts=parts,
                what=what,
            )
            if self.tensors.allowed(access):
                yield access

    def judge_result(self, adds: bool, issuer: int) -> None:
        """Judge where D goes."""
        (lane, column), (parts, count) = lane_and_column(self.umma.result), self.umma.shape.result_lanes
        if lane and not (lane == ROWS_OF_ONE and len(parts) < SIXTEENTHS):
            fits = "0 or 16" if len(parts) < SIXTEENTHS else "0"
            message = f"D begins in lane {lane} of tensor memory: {fits} would fit"
            self.tensors.record.add(self.offset, "lane", message, codes.TENSOR_LANES)
            return
        for access in self._allowed(column, count, [part + lane // ROWS_OF_ONE for part in parts], "it writes D to"):
            self.tensors.write(access, issuer=issuer, adds=adds)

    def judge_operand(self, address: int) -> None:
        """Judge where A comes from."""
        (lane, column), (parts, count) = lane_and_column(address), self.umma.shape.a_lanes
        here = [part + lane // ROWS_OF_ONE for part in parts if part + lane // ROWS_OF_ONE < SIXTEENTHS]
        for access in self._allowed(column, count, here, "it reads A from"):
            self.tensors.read(access, by_threads=False)

    def judge_scales(self) -> None:
        """Judge where the scale factors of A and of B come from, if there are any."""
        for side, column, count in zip("AB", self.umma.scales, self.umma.shape.scale_columns, strict=False):
            for access in self._allowed(column, count, ALL_LANES, f"it reads the scale factors of {side} from"):
                self.tensors.read(access, by_threads=False)


# ---------------------------------------------------------------------------------------------- loads, stores, copies


def _access_step(tensors: TensorRecord, instruction: SassInstruction) -> Step:
    """Return the step that judges an LDTM or STTM: allocated columns, the warp's own lanes, and their contents."""
    offset, loads = instruction.offset, instruction.opcode == "LDTM"
    address = operands.address(next(operand for operand in instruction.operands if operand.kind == TENSOR))
    shape = WarpAccess.of(instruction)

    def judge(m: Machine, warps: Executing) -> None:
        for row, values in warps.each:
            named, column = lane_and_column(values[0])
            lane = shape.lane(named, int(m.view.warps[row]) % m.per_block)
            if lane is None:
                fits = "0 or 16" if shape.sixteenths == 1 else "0"
                message = (
                    f"it begins in lane {named % WARP_LANES} of the warp's 32 lanes of tensor memory: {fits} would fit"
                )
                tensors.record.add(offset, "lane", message, codes.TENSOR_LANES)
                continue
            access = TensorAccess(
                machine=m,
                offset=offset,
                block=int(m.view_blocks()[row]),
                first=column,
                count=shape.columns,
                parts=shape.parts(lane),
                what="it loads" if loads else "it stores to",
            )
            if not tensors.allowed(access):
                continue
            if loads:
                tensors.read(access, by_threads=True)
            else:
                tensors.write(access, issuer=None)

    return in_warps(instruction, [address], judge, tensors.doubt(f"which columns {instruction.text} accesses"))


def _copy_step(tensors: TensorRecord, instruction: SassInstruction) -> Step:
    """Return the step that judges a tcgen05.cp from shared to tensor memory."""
    offset, pair = instruction.offset, instruction.has("2CTA")
    target = next(operand for operand in instruction.operands if operand.kind == TENSOR)
    source = next(operand for operand in instruction.operands if operand.kind == MEMORY)
    columns = copied_rows(instruction)[1] // WORD

    def judge(m: Machine, warps: Executing) -> None:
        for row, (address, low, high) in warps.each:
            column, descriptor = lane_and_column(address)[1], UmmaDescriptor.of_bits(low | high << 32)
            for block in _blocks(m, row, pair):
                access = TensorAccess(
                    machine=m,
                    offset=offset,
                    block=block,
                    first=column,
                    count=columns,
                    parts=ALL_LANES,
                    what="it writes",
                )
                if tensors.allowed(access):
                    tensors.write(access, issuer=None)
                _check_source(tensors.record, m, offset, block, descriptor)
                if instruction.has(OF_FACTORS) and not descriptor.refused:
                    tensors.scales.copy(tensors.record.placed(m), block, column, descriptor)

    readers = [operands.address(target), *registers(source)]
    return in_warps(instruction, readers, judge, tensors.doubt(f"which columns {instruction.text} writes"))


def _shift_step(tensors: TensorRecord, instruction: SassInstruction) -> Step:
    """Return the step that judges a tcgen05.shift: 32 bytes of a warp's 32 lanes, all but the last of which change."""
    offset, pair = instruction.offset, instruction.has("2CTA")
    address = operands.address(instruction.operands[0])

    def judge(m: Machine, warps: Executing) -> None:
        for row, values in warps.each:
            lane, column = lane_and_column(values[0])
            if lane % WARP_LANES:
                message = f"it begins in lane {lane} of tensor memory: {lane // WARP_LANES * WARP_LANES} would fit"
                tensors.record.add(offset, "lane", message, codes.TENSOR_LANES)
                continue
            for block in _blocks(m, row, pair):
                access = TensorAccess(
                    machine=m,
                    offset=offset,
                    block=block,
                    first=column,
                    count=K_BYTES // WORD,
                    parts=range(lane // ROWS_OF_ONE, (lane + WARP_LANES) // ROWS_OF_ONE),
                    what="it moves rows of",
                )
                if tensors.allowed(access):
                    tensors.read(access, by_threads=False)
                    tensors.write(access, issuer=int(m.view.warps[row]), adds=True)

    return in_warps(instruction, [address], judge, tensors.doubt(f"which columns {instruction.text} moves"))


def _check_source(record: TileRecord, m: Machine, offset: int, block: int, descriptor: UmmaDescriptor) -> None:
    """Record a descriptor that is not valid, or whose first eight rows nothing has written."""
    if why := descriptor.refused:
        record.add(offset, "descriptor", f"its descriptor: {why}", codes.DESCRIPTOR)
        return
    chunks = descriptor.chunks(GROUP, False)[:, 0] // CHUNK
    owner = record.placed(m).owner
    if chunks.max() < owner.shape[1] and bool((owner[block, chunks] == NOTHING).all()):
        where = f"{int(chunks[0]) * CHUNK:#x}"
        record.add(
            offset, "source", f"it copies from {where} in shared memory, where nothing has been written", codes.TILE
        )


# ---------------------------------------------------------------------------------------------- allocation and traps


def _allocation_step(tensors: TensorRecord, instruction: SassInstruction) -> Step:
    """Return the step that judges how many columns are requested, and which are freed."""
    offset, takes = instruction.offset, instruction.has("FIND_AND_SET")

    def judge(m: Machine, warps: Executing) -> None:
        owner = tensors.owner(m)
        for row, (number,) in warps.each:
            block = int(m.view_blocks()[row])
            if takes:
                _take(tensors, m, offset, block, number)
                continue
            tensors.freed = True
            freed = [unit for unit in range(UNITS) if int(m.columns[block]) >> unit & 1 and not number >> unit & 1]
            places = [column for unit in freed for column in range(unit * UNIT, (unit + 1) * UNIT)]
            held = np.unique(owner[block][:, places]) if places else np.zeros(0, np.int64)
            if any(number >= 0 and not tensors.writes[number].committed for number in held.tolist()):
                message = "it frees columns of tensor memory that an MMA writes which no tcgen05.commit has followed"
                tensors.record.add(offset, "freed", message, codes.TENSOR_ORDER)
            owner[block][:, places] = NOBODY

    return in_warps(instruction, [operands.raw(instruction.operands[-1])], judge, lambda _: None)


def roundings(instructions: Sequence[SassInstruction]) -> dict[int, int]:
    """Return the shifts that turn columns into units of 32 for an allocation, with its offset, both in bytes.

    The units alone do not show that 48 columns were requested. ptxas shifts constants itself.
    """
    shifts = {}
    for index, allocation in enumerate(instructions):
        if allocation.opcode != "UTCATOMSWS" or not allocation.has("FIND_AND_SET"):
            continue
        wanted = operand_number(allocation.operands[-1])
        for before in reversed(instructions[:index]):
            if wanted is None or not effects(before).writes >> wanted & 1:
                continue
            # SHF.R.U32.HI shifts its last operand.
            if before.opcode in ("SHF", "USHF") and before.has("R") and before.operands[2].number == UNIT_BITS:
                shifts[before.offset] = allocation.offset
            if before.opcode != "R2UR":
                break
            wanted = operand_number(before.operands[1])
    return shifts


def _rounding_step(tensors: TensorRecord, instruction: SassInstruction) -> Step:
    """Return the step that judges how many columns are requested, before they become units."""
    allocation = tensors.roundings[instruction.offset]

    def judge(_: Machine, warps: Executing) -> None:
        for (columns,) in warps.values:
            _judge_size(tensors, allocation, columns)

    return in_warps(instruction, [operands.raw(instruction.operands[-1])], judge, lambda _: None)


def _judge_size(tensors: TensorRecord, offset: int, columns: int) -> bool:
    """Return whether that many columns can be allocated; record it if they cannot."""
    if columns in (32, 64, 128, 256, 512):
        return True
    message = f"it asks for {columns} columns of tensor memory: 32, 64, 128, 256 or 512 would fit"
    tensors.record.add(offset, "size", message, codes.TENSOR_ALLOCATION)
    return False


def _take(tensors: TensorRecord, m: Machine, offset: int, block: int, units: int) -> None:
    tensors.allocations[block] = offset
    if not _judge_size(tensors, offset, units * UNIT):
        return
    if first_free(int(m.columns[block]), units) is None:
        tensors.starved = tensors.starved or (offset, units, int(m.columns[block]).bit_count())


_GUARDRAILS = {
    "phase_invalid_during_alloc": "columns are allocated after tcgen05.relinquish_alloc_permit",
    "unallocated_columns_being_dealloced": "columns are freed that are not allocated",
    "col_being_dealloced_not_returned_by_alloc": "columns are freed from another one on than tcgen05.alloc returned",
}
RETURNS_TO = 2  # the register with the return address of a check's trap
CALL = 16  # bytes


def _trap_step(tensors: TensorRecord, instruction: SassInstruction) -> Step | None:
    """Return the step that records a trap of the checks that ptxas adds to tcgen05; None for other traps."""
    label = tensors.guardrails.get(instruction.offset)
    if label is None:
        return None
    name = label.partition("guardrail_trap_")[2]
    message = _GUARDRAILS.get(name, name.replace("_", " "))
    guard = operands.guard_operands(instruction.guard)

    def step(m: Machine) -> None:
        selected, _ = m.selection(guard(m) if guard else None)
        back = m.get(RETURNS_TO)
        if selected.any() and back.certain:
            offset = int(back.bits.flat[0]) - CALL
            tensors.record.add(offset, "trap", f"{message}: tcgen05 traps here", codes.TENSOR_ALLOCATION)

    return step


def _commit_step(tensors: TensorRecord, instruction: SassInstruction) -> Step:
    guard = operands.guard_operands(instruction.guard)

    def step(m: Machine) -> None:
        selected, doubtful = m.selection(guard(m) if guard else None)
        tensors.commit(m.view.warps[(selected | doubtful).any(axis=1)].tolist())

    return step


_STEPS: dict[str, Callable[[TensorRecord, SassInstruction], Step | None]] = {
    **dict.fromkeys((name for name, row in TABLE.items() if row.shared is Shared.TCGEN05), product_step),
    **dict.fromkeys(("LDTM", "STTM"), _access_step),
    "UTCCP": _copy_step,
    "UTCSHIFT": _shift_step,
    "UTCATOMSWS": _allocation_step,
    "UTCBAR": _commit_step,
    "BPT": _trap_step,
}


def step_of(tensors: TensorRecord, instruction: SassInstruction) -> Step | None:
    """Return the step that judges what an instruction does to tensor memory; None if nothing."""
    make = _rounding_step if instruction.offset in tensors.roundings else _STEPS.get(instruction.opcode)
    return make(tensors, instruction) if make else None
