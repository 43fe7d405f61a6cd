"""Follow what threads store to shared memory back to where they loaded it: tiles without a tensor map.

Every two bytes carry the address in global memory that they came from. LDG gives one to registers, MOV and PRMT with a
constant pass it on, stores and cp.async bring it to shared memory. Computed values have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, access_width, memory_operands
from ncu_swizzle.emulate.code import INTEGER, REG, SHARED_WINDOW, Operand, SassInstruction
from ncu_swizzle.emulate.copies import zero_fill
from ncu_swizzle.emulate.effects import effects, operand_number
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.tensor_map import NO_SOURCE, SOURCE_BYTES, PlacedBoxes
from ncu_swizzle.emulate.values import known_in
from ncu_swizzle.smem.opcodes import WRITE, Copy, Memory, Opcode, Shared
from ncu_swizzle.smem.operations import WORD, Bools, Ints

_MOVES = ("MOV", "IMAD", "PRMT")
_HALVES = np.arange(0, WORD, SOURCE_BYTES)
Source = tuple[int, int]  # of a register's lower or upper half: a register, and which half of it
Sources = Callable[[Machine, Bools], Ints | None]  # (G, 32, halves), of what lanes store


def stores(row: Opcode) -> bool:
    """Return whether an opcode stores words to shared memory, or copies them there, lane by lane."""
    return row.addressed and row.does(Memory.SHARED) == WRITE and not row.matrix


def _moved(instruction: SassInstruction) -> tuple[Source | None, ...] | None:
    """Return where both halves of a copied register come from; None for an instruction that computes."""
    parts = instruction.operands
    if instruction.opcode == "PRMT" and parts[2].kind == INTEGER:
        digits = [parts[2].number >> 4 * place & 15 for place in range(WORD)]
        both = [operand_number(parts[1]), operand_number(parts[3])]
        halves: list[Source | None] = []
        for low, high in (digits[:2], digits[2:]):
            register = both[low // WORD] if low < 2 * WORD and low % 2 == 0 and high == low + 1 else None
            halves.append(None if register is None else (register, low % WORD // SOURCE_BYTES))
        return tuple(halves)
    plain = instruction.opcode == "MOV" or (instruction.opcode == "IMAD" and instruction.has("MOV"))
    number = operand_number(parts[-1]) if plain and parts[-1].kind == REG else None
    return None if number is None else ((number, 0), (number, 1))


def _data(instruction: SassInstruction) -> list[int]:
    """Return the registers that a store stores."""
    at = memory_operands(instruction)[0] + 1
    first = operand_number(instruction.operands[at]) if at < len(instruction.operands) else None
    return [] if first is None else list(range(first, first + max(1, access_width(instruction) // WORD)))


@dataclass
class Stores:
    """Where stored registers come from in global memory: (W, 32, 2) each, by register number."""

    placed: Callable[[Machine], PlacedBoxes]
    followed: set[int] = field(default_factory=set)  # the registers
    registers: dict[int, Ints] = field(default_factory=dict)
    _machine: Machine | None = None

    def watch(self, instructions: Sequence[SassInstruction]) -> None:
        """Find the registers whose contents are stored to shared memory."""
        for instruction in instructions:
            if stores(instruction.row) and instruction.row.copy is Copy.NO:
                self.followed.update(_data(instruction))
        moves = [one for one in instructions if one.opcode in _MOVES]
        before = -1
        while before < len(self.followed):
            before = len(self.followed)
            for one in moves:
                if operand_number(one.operands[0]) in self.followed:
                    self.followed.update(source[0] for source in _moved(one) or () if source)

    def step_of(self, instruction: SassInstruction) -> Step | None:
        """Return the step that follows what an instruction does to these registers, or to shared memory."""
        if stores(instruction.row):
            return self._store(instruction)
        written = effects(instruction).writes
        results = [register for register in self.followed if written >> register & 1]
        if not results:
            return None
        guard = operands.guard_operands(instruction.guard)
        make = self._load(instruction) if instruction.opcode == "LDG" else self._move(_moved(instruction))

        def step(m: Machine) -> None:
            self._begin(m)
            selected, doubtful = m.selection(guard(m) if guard else None)
            warps, made = m.view.warps, make(m, selected)
            for register in results:
                new = made.get(register)
                old = self.registers.setdefault(register, np.full((m.warps, 32, 2), NO_SOURCE))
                here = old[warps]
                here[selected] = NO_SOURCE if new is None else new[selected]
                here[np.broadcast_to(doubtful, selected.shape)] = NO_SOURCE
                old[warps] = here

        return step

    def _begin(self, m: Machine) -> None:
        if self._machine is not m:
            self._machine, self.registers = m, {}

    def _load(self, instruction: SassInstruction) -> Callable[[Machine, Bools], dict[int, Ints]]:
        first, width = operand_number(instruction.operands[0]) or 0, access_width(instruction)
        address_of = operands.wide_address(instruction.operands[memory_operands(instruction)[0]])

        def made(m: Machine, selected: Bools) -> dict[int, Ints]:
            address = address_of(m)
            if not known_in(address, selected) or width < SOURCE_BYTES:
                return {}
            at = np.broadcast_to(address.bits, selected.shape).astype(np.int64)
            words = {first + k: at[..., None] + k * WORD + _HALVES for k in range(max(1, width // WORD))}
            if width == SOURCE_BYTES:
                words[first][..., 1] = NO_SOURCE
            return words

        return made

    def _move(self, halves: tuple[Source | None, ...] | None) -> Callable[[Machine, Bools], dict[int, Ints]]:
        def made(m: Machine, selected: Bools) -> dict[int, Ints]:
            nothing = np.full((*selected.shape, 2), NO_SOURCE)
            parts = [nothing[..., 0] if one is None else self._of(m, one[0])[..., one[1]] for one in halves or ()]
            return dict.fromkeys(self.followed, np.stack(parts, axis=-1)) if parts else {}

        return made

    def _of(self, m: Machine, register: int) -> Ints:
        """Return the sources of a register in the view's warps, (G, 32, 2)."""
        sources = self.registers.get(register)
        return np.full((len(m.view.warps), 32, 2), NO_SOURCE) if sources is None else sources[m.view.warps]

    def _store(self, instruction: SassInstruction) -> Step:
        """Return the step that remembers what a thread's store brings; it has been taken for a write before."""
        width, guard = access_width(instruction), operands.guard_operands(instruction.guard)
        target, *source = (instruction.operands[place] for place in memory_operands(instruction))
        generic = instruction.row.shared is Shared.GENERIC
        address_of = operands.wide_address(target) if generic else operands.address(target)
        offsets = np.arange(0, width, SOURCE_BYTES)
        brought = self._copied(instruction, source[0]) if source else self._kept(_data(instruction))

        def step(m: Machine) -> None:
            self._begin(m)
            selected, doubtful = m.selection(guard(m) if guard else None)
            perhaps = np.broadcast_to(doubtful, selected.shape)
            address, sources = address_of(m), brought(m, selected)
            if not known_in(address, selected | perhaps):
                return
            at = np.broadcast_to(address.bits, selected.shape)
            lanes = selected | perhaps
            if generic:
                lanes = lanes & (at >> np.uint64(32) == SHARED_WINDOW)
            places = (at.astype(np.int64) & int(WINDOW))[..., None] + offsets
            known = np.full(places.shape, NO_SOURCE)
            if sources is not None and width >= SOURCE_BYTES:
                known = np.where(perhaps[..., None], NO_SOURCE, sources[..., : len(offsets)])
            blocks = np.broadcast_to(m.view_blocks()[:, None, None], places.shape)
            self.placed(m).bring(blocks[lanes].ravel(), places[lanes].ravel(), known[lanes].ravel())

        return step

    def _kept(self, registers: list[int]) -> Sources:
        return lambda m, _: np.concatenate([self._of(m, one) for one in registers], axis=-1) if registers else None

    @staticmethod
    def _copied(instruction: SassInstruction, memory: Operand) -> Sources:
        source_of, reads = operands.wide_address(memory), zero_fill(instruction)
        filled = operands.predicate(reads) if reads else None
        offsets = np.arange(0, access_width(instruction), SOURCE_BYTES)

        def sources(m: Machine, selected: Bools) -> Ints | None:
            source, read = source_of(m), filled(m) if filled else None
            if not known_in(source, selected) or (read is not None and not known_in(read, selected)):
                return None
            at = np.broadcast_to(source.bits, selected.shape).astype(np.int64)[..., None] + offsets
            return np.where(True if read is None else read.bits[..., None], at, NO_SOURCE)

        return sources
