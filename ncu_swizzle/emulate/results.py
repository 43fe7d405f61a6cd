"""What blocks leave in global memory: the bytes that they store, and the atomic operations that they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import access_width, memory_operands
from ncu_swizzle.emulate.blocks import Setting, run_batch
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.limits import Clock
from ncu_swizzle.emulate.machine import LOCAL_WINDOW, SHARED_WINDOW, Machine
from ncu_swizzle.emulate.operations.registry import Step
from ncu_swizzle.emulate.parse import REG, SassInstruction
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.run import setting_of
from ncu_swizzle.emulate.stand_ins import stand_in
from ncu_swizzle.emulate.values import known_in
from ncu_swizzle.smem.banks import Bools, Ints

STORES = frozenset(("STG", "ST"))
ATOMICS = frozenset(("RED", "REDG", "ATOMG", "ATOM"))
BULK = frozenset(("UTMASTG", "UTMAREDG", "UBLKRED", "UBLKCP", "SUST", "SURED", "SUATOM"))


@dataclass(frozen=True, eq=False)
class Written:
    """Bytes that blocks stored, each address of each block once, with the last value; sorted by block and address."""

    block: Ints
    address: Ints
    value: Ints  # valid where known
    known: Bools
    pc: Ints  # the instruction that stored it last

    @property
    def unknown(self) -> int:
        return int((~self.known).sum())


@dataclass(frozen=True, eq=False)
class Results:
    """What some blocks wrote. `atomics` are sorted: in which order they take place is not defined."""

    written: Written
    atomics: tuple[tuple[int | str, ...], ...]  # block, operation, address and operands; -1 for an unknown operand
    unseen: tuple[str, ...]  # instructions that write global memory in a way that is not followed


@dataclass
class _Recorder:
    stores: list[Ints] = field(default_factory=list)  # columns: block, address, value, known, pc
    atomics: list[tuple[int | str, ...]] = field(default_factory=list)
    unseen: dict[int, str] = field(default_factory=dict)

    def step(self, instruction: SassInstruction) -> Step | None:
        if instruction.never or instruction.opcode not in STORES | ATOMICS | BULK:
            return None
        if instruction.opcode in BULK or not memory_operands(instruction):
            return lambda m: self.unseen.update({m.now: instruction.text})
        return _Write(self, instruction).step


class _Write:
    """A store or an atomic operation that may access global memory."""

    def __init__(self, recorder: _Recorder, instruction: SassInstruction) -> None:
        self.recorder, self.instruction = recorder, instruction
        self.guard = operands.guard(instruction.guard)
        position = memory_operands(instruction)[0]
        self.address = operands.wide_address(instruction.operands[position])
        self.width = access_width(instruction)
        words = max(1, self.width // 4)
        sources = [operand for operand in instruction.operands[position + 1 :] if operand.kind == REG]
        self.data = [operands.raw(source, k) for source in sources for k in range(words)]

    def step(self, m: Machine) -> None:
        selected, doubtful = m.selection(self.guard(m) if self.guard else None)
        address = self.address(m)
        if doubtful.any() or not known_in(address, selected):
            self.recorder.unseen[m.now] = self.instruction.text
            return
        at = np.broadcast_to(address.bits, selected.shape)
        high = at >> np.uint64(32)
        rows, lanes = np.nonzero(selected & (high != SHARED_WINDOW) & (high != LOCAL_WINDOW))
        if not len(rows):
            return
        where = at[rows, lanes].view(np.int64)
        block = m.block_of[m.view.warps[rows]]
        words = [self._lanes(m, number, selected.shape)[:, rows, lanes] for number in range(len(self.data))]
        if self.instruction.opcode in STORES:
            self._store(m, block, where, words)
        else:
            self._atomics(block, where, words)

    def _lanes(self, m: Machine, number: int, shape: tuple[int, ...]) -> Ints:
        value = self.data[number](m)
        known = np.broadcast_to(np.asarray(value.known), shape)
        return np.stack([np.broadcast_to(value.bits, shape).astype(np.int64), known.astype(np.int64)])

    def _store(self, m: Machine, block: Ints, where: Ints, words: Sequence[Ints]) -> None:
        words = words or [np.stack([np.zeros_like(where), np.ones_like(where)])] * max(1, self.width // 4)
        for byte in range(self.width):
            bits, known = words[byte // 4]
            columns = (block, where + byte, bits >> 8 * (byte % 4) & 0xFF, known, np.full_like(where, m.now))
            self.recorder.stores.append(np.stack(columns))

    def _atomics(self, block: Ints, where: Ints, words: Sequence[Ints]) -> None:
        """Record each lane's operation: its name without the cache operators is the instruction's first words."""
        name = self.instruction.mnemonic.partition(".")[2]
        operands_ = [np.where(known != 0, bits, -1) for bits, known in words]
        for row in zip(block.tolist(), where.tolist(), *(bits.tolist() for bits in operands_), strict=True):
            self.recorder.atomics.append((row[0], name, *row[1:]))


def results(code: Code, launch: Launch, blocks: Ints, clock: Clock) -> Results:
    """Execute all instructions of some blocks, (B, 3), and return what they leave. Raises one of `faults`."""
    recorder = _Recorder()
    program = prepare(code, everything=True, arrays=True, probe=recorder.step, instead=stand_in)
    setting: Setting = setting_of(code, launch, program, clock, shortcuts=False)
    batch = run_batch(setting, blocks)
    for number in batch.unknown:  # whether it is executed, or how often, depends on what is not known
        instruction = setting.program.instructions[number]
        if recorder.step(instruction) is not None:
            recorder.unseen.setdefault(number, instruction.text)
    return Results(_last(recorder.stores), tuple(sorted(recorder.atomics, key=repr)), tuple(recorder.unseen.values()))


def _last(stores: Sequence[Ints]) -> Written:
    """Return the last store to each byte, by block."""
    columns = np.concatenate(stores, axis=1) if stores else np.zeros((5, 0), np.int64)
    order = np.lexsort((columns[1], columns[0]))  # stable: of equal places, the last stored comes last
    columns = columns[:, order]
    place = columns[:2]
    last = np.ones(place.shape[1], bool)
    last[:-1] = (place[:, 1:] != place[:, :-1]).any(axis=0)
    block, address, value, known, pc = columns[:, last]
    return Written(block, address, value, known.astype(bool), pc)
