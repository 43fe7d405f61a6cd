"""What blocks leave in global memory in one world: the bytes that they store, and the atomic operations that they
request; and what they load from it.

Everything is recorded per thread and interval between barriers or fences: what other threads may see, and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import access_width, memory_operands
from ncu_swizzle.emulate.addresses import LOCAL_WINDOW, LOW, SHARED_WINDOW
from ncu_swizzle.emulate.blocks import Setting, run_batch
from ncu_swizzle.emulate.code import CONSTANT, INTEGER, MEMORY, REG, UREG, Code, Operand, SassInstruction
from ncu_swizzle.emulate.copies import zero_fill
from ncu_swizzle.emulate.counts import CONSTANTS, Launch
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.program import PreparedCode, prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.run import setting_of
from ncu_swizzle.emulate.stand_ins import stand_in
from ncu_swizzle.emulate.values import Value, known_in, narrowed
from ncu_swizzle.emulate.worlds import World
from ncu_swizzle.smem.opcodes import READ, WRITE, Copy, Memory, Opcode, Shared
from ncu_swizzle.smem.operations import Bools, Ints

THREAD_BITS, EPOCH_BITS = 10, 24  # of the number that encodes thread and time; the block is above them
BANK_BITS = 32  # of the offset in a constant bank, used as an address


@dataclass(frozen=True, eq=False, kw_only=True)
class Written:
    """Bytes that threads stored, each address once between two barriers, with the last value; sorted."""

    who: Ints  # block, thread, and the barriers and fences that it has passed
    address: Ints
    value: Ints  # valid where known
    known: Bools
    pc: Ints  # the instruction that stored it last


@dataclass(frozen=True, eq=False)
class Loads:
    """Loads of single lanes in the order of execution: who, the instruction and the address; constants excluded."""

    who: Ints
    pc: Ints
    address: Ints


@dataclass(frozen=True, eq=False, kw_only=True)
class Results:
    """What some blocks did. `atomics` are sorted, as their order is not defined."""

    written: Written
    loads: Loads
    atomics: tuple[tuple[int | str, ...], ...]  # who, operation, address and operands; -1 for an unknown operand
    unseen: tuple[str, ...]  # instructions that access memory or leave the module in a way that is not followed
    accesses: frozenset[int]  # all instructions that may access global or shared memory, or a table of constants
    executed: frozenset[int]  # those that some lane executed


class _LaneCounts:
    """How often something happened to each lane of the blocks that run, (W, 32)."""

    def __init__(self) -> None:
        self._counts: Ints | None = None

    def of(self, m: Machine) -> Ints:
        if self._counts is None:
            self._counts = np.zeros((m.warps, 32), np.int64)
        return self._counts

    def add(self, m: Machine, selected: Bools) -> None:
        """Count once for each of these lanes of the view, (G, 32)."""
        self.of(m)[m.view.warps] += selected


def _unfollowed(row: Opcode) -> bool:
    """Return whether an opcode writes global memory at other than the lanes' addresses."""
    return row.name in ("SUST", "SURED", "SUATOM") or row.copies_to_global


def _traced(row: Opcode) -> bool:
    """Return whether an opcode accesses shared or local memory, and nothing else: `traces` compares that."""
    return row.local_access or (row.shared is Shared.LANES and not row.atomic and row.copy is Copy.NO)


def _stores(row: Opcode) -> bool:
    return row.global_access and row.does(Memory.GLOBAL) == WRITE


class _Recorder:
    """Makes the steps, and holds what they record."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.stores: list[Ints] = []  # (5, lanes): who, address, value, known, pc
        self.loads: list[Ints] = []  # (3, lanes): who, pc, address
        self.atomics: list[tuple[int | str, ...]] = []
        self.unseen: dict[int, str] = {}
        self.executed: set[int] = set()
        self._epochs = _LaneCounts()  # barriers and fences that each lane has passed

    def step(self, instruction: SassInstruction) -> Step | None:
        row, guard = instruction.row, operands.guard_operands(instruction.guard)

        def selected(m: Machine) -> Bools:
            return m.selection(guard(m) if guard else None)[0]

        def mark(m: Machine) -> None:
            if m.now not in self.executed and selected(m).any():
                self.executed.add(m.now)

        if _unfollowed(row) and not instruction.never:
            return lambda m: self.unseen.update({m.now: instruction.text})
        if (row.writes == Memory.VOTED or row.name == "MEMBAR") and not instruction.never:
            return lambda m: self._epochs.add(m, selected(m))
        if not accesses(instruction):
            return None
        if _traced(row):
            return mark
        return (_Write if row.atomic or _stores(row) else _Load)(self, instruction).step

    def who(self, m: Machine, rows: Ints, lanes: Ints) -> Ints:
        """Encode these lanes and the time: see `Written`."""
        warps = m.view.warps[rows]
        thread = m.block_of[warps] << THREAD_BITS | m.thread[warps, lanes]
        who: Ints = thread << EPOCH_BITS | self._epochs.of(m)[warps, lanes]
        return who


def accesses(instruction: SassInstruction) -> bool:
    """Return whether an instruction accesses memory, or a table of constants at a computed address."""
    row = instruction.row
    if instruction.never:
        return False
    if instruction.opcode in CONSTANTS:
        return any(o.kind == CONSTANT and o.terms for o in instruction.operands)
    return row.global_access or row.atomic or _traced(row)


class _ComparedAccess:
    """An instruction that may access global memory."""

    def __init__(self, recorder: _Recorder, instruction: SassInstruction, memory: Operand) -> None:
        self.recorder, self.instruction = recorder, instruction
        self.guard = operands.guard_operands(instruction.guard)
        wide = memory.kind == MEMORY and instruction.row.global_access
        self.address = operands.wide_address(memory) if wide else operands.address(memory)
        self.width = access_width(instruction)
        self.bank = memory.number + 1 << BANK_BITS if memory.kind == CONSTANT else 0

    def places(self, m: Machine, reads: Value | None = None) -> tuple[Ints, Ints, Ints]:
        """Return rows, lanes and addresses of global accesses; none if unknown, which is noted."""
        selected, doubtful = m.selection(self.guard(m) if self.guard else None)
        address = self.address(m)
        if doubtful.any() or not known_in(address, selected) or (reads and not known_in(reads, selected)):
            self.recorder.unseen[m.now] = self.instruction.text
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        if selected.any():
            self.recorder.executed.add(m.now)
        at = np.broadcast_to(address.bits, selected.shape).astype(np.uint64)
        high = at >> np.uint64(32)
        chosen = selected & (high != SHARED_WINDOW) & (high != LOCAL_WINDOW)
        rows, lanes = np.nonzero(chosen if reads is None else chosen & reads.bits)
        return rows, lanes, at[rows, lanes].view(np.int64) + self.bank


class _Load(_ComparedAccess):
    """A load, or a copy to shared memory."""

    def __init__(self, recorder: _Recorder, instruction: SassInstruction) -> None:
        if instruction.opcode in CONSTANTS:
            memory = next(operand for operand in instruction.operands if operand.kind == CONSTANT)
        else:
            memory = instruction.operands[memory_operands(instruction)[-1]]
        super().__init__(recorder, instruction, memory)
        filled = zero_fill(instruction)
        self.reads = operands.predicate(filled) if filled else None

    def step(self, m: Machine) -> None:
        rows, lanes, where = self.places(m, self.reads(m) if self.reads else None)
        self.recorder.loads.append(np.stack([self.recorder.who(m, rows, lanes), np.full_like(where, m.now), where]))


class _Write(_ComparedAccess):
    """A store or an atomic operation; of those in shared memory, the operands."""

    def __init__(self, recorder: _Recorder, instruction: SassInstruction) -> None:
        position = memory_operands(instruction)[0]
        super().__init__(recorder, instruction, instruction.operands[position])
        words = max(1, self.width // 4)
        sources = [operand for operand in instruction.operands[position + 1 :] if operand.kind == REG]
        self.data = [operands.raw(source, k) for source in sources for k in range(words)]

    def step(self, m: Machine) -> None:
        rows, lanes, where = self.places(m)
        if not len(rows):
            return
        shape = m.view.mask.shape
        words: list[tuple[Ints, Bools]] = []  # of each of these lanes, and where it is known
        for read in self.data:
            value = narrowed(read(m), (1 << 8 * min(self.width, 4)) - 1)
            bits, known = (np.broadcast_to(part, shape)[rows, lanes] for part in (value.bits, value.known))
            words.append((bits.astype(np.int64), known))
        who, block = self.recorder.who(m, rows, lanes), m.block_of[m.view.warps[rows]]
        if _stores(self.instruction.row):
            words = words or [(np.zeros_like(where), np.ones(len(where), bool))] * max(1, self.width // 4)
            for byte in range(self.width):
                bits, known = words[byte // 4]
                stored = bits >> 8 * (byte % 4) & 0xFF
                columns = who, where + byte, stored, known.astype(np.int64), np.full_like(where, m.now)
                self.recorder.stores.append(np.stack(columns))
                self.recorder.world.write(block, where + byte, stored)
            return
        if self.instruction.row.shared is Shared.LANES:  # where is compared by `traces`
            where = np.zeros_like(where)
        else:
            for byte in range(self.width):
                self.recorder.world.change(block, where + byte)
        # The name without the cache operators, which are the instruction's first words.
        name = self.instruction.mnemonic.partition(".")[2]
        values = [np.where(known, bits, -1).tolist() for bits, known in words]
        for row in zip(who.tolist(), where.tolist(), *values, strict=True):
            self.recorder.atomics.append((row[0], name, *row[1:]))


def results(code: Code, launch: Launch, blocks: Ints, clock: Clock, world: World) -> Results:
    """Execute all instructions of some blocks, (B, 3), in a world, and return what they do. Raises one of `faults`."""
    recorder = _Recorder(world)
    program = prepare(code, Demand(everything=True, arrays=True), recorder.step, stand_in)
    setting: Setting = setting_of(code, launch, program, clock, shortcuts=False)
    banks = {
        bank: world.constant(bank, content, setting.known_constants[bank])
        for bank, content in setting.constants.items()
        if bank in setting.known_constants
    }
    loads = (n for n, each in enumerate(program.instructions) if each.row.does(Memory.GLOBAL) == READ)
    world.polled = frozenset(number for number in loads if program.instructions[number].has("STRONG"))
    setting = replace(setting, world=world, constants={**setting.constants, **banks}, known_constants={})
    batch = run_batch(setting, blocks)
    for number in batch.machine.unknown:  # whether it executes, or how often, depends on unknowns
        instruction = setting.program.instructions[number]
        if _unfollowed(instruction.row) or (not _traced(instruction.row) and accesses(instruction)):
            recorder.unseen.setdefault(number, instruction.text)
    for number in np.flatnonzero(batch.issued.any(axis=1)).tolist():
        if _leaves(program, number):
            recorder.unseen.setdefault(number, program.instructions[number].text)
    return Results(
        written=_last(recorder.stores),
        loads=Loads(*np.concatenate([np.zeros((3, 0), np.int64), *recorder.loads], axis=1)),
        atomics=tuple(sorted(recorder.atomics, key=repr)),
        unseen=tuple(recorder.unseen.values()),
        accesses=frozenset(number for number, each in enumerate(program.instructions) if accesses(each)),
        executed=frozenset(recorder.executed),
    )


def _leaves(program: PreparedCode, number: int) -> bool:
    """Return whether an instruction may call a function outside of the module, such as vprintf."""
    instruction = program.instructions[number]
    targets = [operand for operand in instruction.operands if operand.kind in (REG, UREG) or operand.kind == INTEGER]
    outside = any(each.kind != INTEGER or each.number & LOW in program.externals for each in targets)
    return bool(program.externals) and instruction.opcode == "CALL" and not instruction.never and outside


def _last(stores: Sequence[Ints]) -> Written:
    """Return the last store of each thread to each byte between two barriers."""
    columns = np.concatenate([np.zeros((5, 0), np.int64), *stores], axis=1)
    order = np.lexsort((columns[1], columns[0]))  # stable: of equal addresses, the last store comes last
    columns = columns[:, order]
    place = columns[:2]
    last = np.ones(place.shape[1], bool)
    last[:-1] = (place[:, 1:] != place[:, :-1]).any(axis=0)
    who, address, value, known, pc = columns[:, last]
    return Written(who=who, address=address, value=value, known=known.astype(bool), pc=pc)
