"""Execute what moves data without lanes' registers of their own: matrices (ldmatrix, stmatrix), and cp.async."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import memory_operands, operation_name
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.contents import forget_shared, load_global, load_shared, lose_shared, store_shared
from ncu_swizzle.emulate.copies import zero_fill
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.memory import MemoryInstruction
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.values import Bits, Value, known_in
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.operations import WORD, Bools

LANES = np.arange(32)


def matrix_step(instruction: SassInstruction) -> Step | None:
    """Return the step that loads or stores the matrices of an LDSM or STSM; None if their shape is not modelled."""
    if not operation_name(instruction):
        return None
    return (_LoadMatrix if instruction.row.reads else _StoreMatrix)(instruction).step


def arriving_step(instruction: SassInstruction) -> Step:
    """Return the step that writes what an LDGSTS copies."""
    return _ArrivingCopy(instruction).step


class _Matrices(MemoryInstruction):
    """What loads and stores of 8 x 8 matrices of halves have in common."""

    def __init__(self, instruction: SassInstruction) -> None:
        super().__init__(instruction)
        self.address = operands.address(self.memory)
        self.matrices = operations.find(operation_name(instruction) or "").addressed // 8
        self.transposed = instruction.has("MT88")

    def places(self, address: Bits, matrix: int) -> list[Bits]:
        """Return where the two halves of each lane's element of a matrix lie."""
        if self.transposed:
            rows, column = (LANES % 4 * 2, LANES % 4 * 2 + 1), LANES // 4
            return [address[:, 8 * matrix + row] + np.uint32(2) * column.astype(np.uint32) for row in rows]
        first = address[:, 8 * matrix + LANES // 4] + (LANES % 4 * 4).astype(np.uint32)
        return [first, first + np.uint32(2)]


class _LoadMatrix(_Matrices):
    def step(self, m: Machine) -> None:
        selected, doubtful, condition = self.lanes(m)
        address = self.address(m)
        whole = bool((selected.all(axis=1) | ~selected.any(axis=1)).all())
        if doubtful.any() or not known_in(address, selected) or not whole:
            self.nothing(m, condition)
            return
        at = np.broadcast_to(address.bits, selected.shape)
        self.finish(m, [self._element(m, at, selected, k) for k in range(self.matrices)], condition)

    def _element(self, m: Machine, at: Bits, selected: Bools, matrix: int) -> Value:
        if not self.transposed:  # both halves are in a word
            word = load_shared(m, Value(self.places(at, matrix)[0]), selected, WORD)[0]
            return Value(word.bits, word.known, m.now)
        low, high = (load_shared(m, Value(place), selected, 2)[0] for place in self.places(at, matrix))
        known = np.asarray(low.known) & np.asarray(high.known)
        bits = low.bits & np.uint32(0xFFFF) | high.bits << np.uint32(16)
        return Value(bits, True if bool((known | ~selected).all()) else known, m.now)


class _StoreMatrix(_Matrices):
    def step(self, m: Machine) -> None:
        selected, doubtful, _ = self.lanes(m)
        address = self.address(m)
        if doubtful.any() or not known_in(address, selected):
            lose_shared(m, address.origin)
            return
        at = np.broadcast_to(address.bits, selected.shape)
        source = self.instruction.operands[self.position + 1]
        for matrix in range(self.matrices):
            data = operands.raw(source, matrix)(m)
            for half, place in enumerate(self.places(at, matrix)):
                part = Value(data.bits >> np.uint32(16 * half) & np.uint32(0xFFFF), data.known, data.origin)
                store_shared(m, Value(place), selected, [part], 2)


class _ArrivingCopy(MemoryInstruction):
    """LDGSTS: what cp.async copies arrives at once."""

    def __init__(self, instruction: SassInstruction) -> None:
        super().__init__(instruction)
        target, source = (instruction.operands[at] for at in memory_operands(instruction)[:2])
        self.address, self.source = operands.address(target), operands.wide_address(source)
        filled = zero_fill(instruction)
        self.reads = operands.predicate(filled) if filled else None
        self.short = instruction.has("ZFILL")

    def step(self, m: Machine) -> None:
        selected, doubtful, _ = self.lanes(m)
        address, source = self.address(m), self.source(m)
        if doubtful.any() or not known_in(address, selected):
            lose_shared(m, address.origin)
            return
        reads = self.reads(m) if self.reads else Value(np.ones((1, 1), bool))
        short = self.short and bool((selected & (source.bits % np.uint64(self.width) != 0)).any())
        if short or not known_in(source, selected) or not known_in(reads, selected):
            forget_shared(m, address, selected, self.width)
            return
        loaded = load_global(m, source, selected & reads.bits, self.width)
        values = [
            Value(np.where(reads.bits, value.bits, np.uint32(0)), np.asarray(value.known) | ~reads.bits, value.origin)
            for value in loaded
        ]
        store_shared(m, address, selected, values, self.width)
