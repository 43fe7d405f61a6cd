"""Execute what counting wavefronts never needs, so that two versions of a kernel can be compared by their results.

Matrices are loaded, copies arrive. What tensor cores and the approximations that are not modelled return is a hash of
everything that they read, in place of the number that the hardware would compute: equal operands give equal results,
and different ones different results, up to a chance of 2^-30. The numbers mean nothing by themselves.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import memory_operands, operation_name
from ncu_swizzle.emulate.async_copies import zero_fill
from ncu_swizzle.emulate.contents import forget_shared, load_global, load_shared, lose_shared, store_shared
from ncu_swizzle.emulate.effects import MATRIX, number, width
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.memory import MemoryInstruction
from ncu_swizzle.emulate.opcodes import WGMMA
from ncu_swizzle.emulate.operations import registry
from ncu_swizzle.emulate.operations.registry import Step
from ncu_swizzle.emulate.parse import CONSTANT, PRED, REG, UREG, Operand, SassInstruction
from ncu_swizzle.emulate.values import Bits, Value, known_in
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.banks import Bools

LANES = np.arange(32)
# By shape, such as 16816: rows, columns and depth of the matrices that a warp multiplies.
_SHAPE = re.compile(r"(16|8)(8)(4|8|16|32|64|128|256)")
_ELEMENT_BITS = {"F16": 16, "BF16": 16, "TF32": 32, "S8": 8, "U8": 8, "S4": 4, "U4": 4}
_LANEWISE = frozenset(("MUFU", "UMUFU"))


def stand_in(instruction: SassInstruction, index: int) -> Step | None:
    """Return the step that computes more than the ordinary one; None for instructions that need none."""
    opcode = instruction.opcode
    if opcode == "LDSM" and operation_name(instruction):
        return _LoadMatrix(instruction).step
    if opcode == "STSM" and operation_name(instruction):
        return _StoreMatrix(instruction).step
    if opcode == "LDGSTS":
        return _Copy(instruction).step
    if opcode in MATRIX - WGMMA:
        return _product(instruction, index)
    if opcode in _LANEWISE and registry.compiled(instruction) is None:
        return _approximation(instruction, index)
    return None


# ---------------------------------------------------------------------------------------------- matrices


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


class _Copy(MemoryInstruction):
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


# ---------------------------------------------------------------------------------------------- hashes


def _product(instruction: SassInstruction, index: int) -> Step | None:
    """Return the step of a product of matrices: each result depends on all of both, and on its own summand."""
    counts = _registers(instruction)
    if counts is None:
        return None
    left, right, summand = instruction.operands[1:4]
    a, b = (_reader(operand, count) for operand, count in zip((left, right), counts, strict=True))
    c = _reader(summand, width(instruction))
    more = [_reader(operand, 1) for operand in instruction.operands[4:]]
    return _hashing(instruction, index, across=(a, b), along=(c, *more))


def _approximation(instruction: SassInstruction, index: int) -> Step | None:
    sources = [_reader(operand, 1) for operand in instruction.operands[1:]]
    return _hashing(instruction, index, across=(), along=sources)


def _registers(instruction: SassInstruction) -> tuple[int, int] | None:
    """Return how many registers each of the two matrices takes; None if the shape or the type is not known."""
    shape = next((match for word in instruction.modifiers if (match := _SHAPE.fullmatch(word))), None)
    fallback = {"HMMA": 16, "BMMA": 1, "DMMA": 64}.get(instruction.opcode, 0)
    types = [word for word in instruction.modifiers if word in _ELEMENT_BITS]
    if instruction.opcode == "HMMA":
        types = [word for word in types if word != "F16"]
    bits = _ELEMENT_BITS[types[0]] if types else fallback
    if shape is None or not bits or instruction.has("SP"):
        return None
    rows, columns, depth = (int(size) for size in shape.groups())
    return max(1, rows * depth * bits // 1024), max(1, columns * depth * bits // 1024)


Reads = Callable[[Machine], list[Value]]


def _reader(operand: Operand, count: int) -> Reads:
    """Return a reader of neighbouring registers."""
    if operand.kind == PRED:
        read = operands.predicate(operand)
        return lambda m: [_as_number(read(m))]
    signed = operands.integer(operand) if operand.negated or operand.absolute or operand.inverted else None
    if count == 1 and signed:
        return lambda m: [signed(m)]
    readers = [operands.raw(operand, k if operand.kind in (REG, UREG, CONSTANT) else 0) for k in range(count)]
    return lambda m: [read(m) for read in readers]


def _as_number(value: Value) -> Value:
    return Value(value.bits.astype(np.uint32), value.known, value.origin)


def _hashing(instruction: SassInstruction, index: int, across: Sequence[Reads], along: Sequence[Reads]) -> Step:
    """Return the step that writes a hash of some operands of the whole warp, and of others lane by lane."""
    seed = np.uint64(zlib.crc32(instruction.mnemonic.encode()))
    target, results = number(instruction.operands[0]), width(instruction)
    guard = operands.guard(instruction.guard)

    def step(m: Machine) -> None:
        shape = m.view.mask.shape
        state = np.full(shape, seed, np.uint64)
        known = np.ones(shape, bool)
        for read in across:
            for value in read(m):
                bits = np.broadcast_to(value.bits, shape).astype(np.uint64)
                everyone = functools.reduce(_mixed, (bits[:, lane] for lane in range(32)))
                state = _mixed(state, everyone[:, None])
                known &= np.broadcast_to(np.asarray(value.known), shape).all(axis=1, keepdims=True)
        if across:
            state = _mixed(state, LANES[None].astype(np.uint64))
        for read in along:
            for value in read(m):
                state = _mixed(state, np.broadcast_to(value.bits, shape).astype(np.uint64))
                known &= np.asarray(value.known)
        condition = guard(m) if guard else None
        for k in range(results):
            bits = _moderate(_mixed(state, np.full(shape, k, np.uint64)))
            if target is not None:
                m.put(target + k, Value(bits, True if known.all() else known.copy(), index), condition)

    return step


def _mixed(state: Bits, more: Bits) -> Bits:
    """Return a hash of a 64-bit state and further numbers (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        z = (state * np.uint64(0x9E3779B97F4A7C15)) ^ (more + np.uint64(0xD1B54A32D192ED03))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _moderate(state: Bits) -> Bits:
    """Return 32 bits that are numbers between 2^-31 and 2 in magnitude, read as a float or as two halves."""
    bits = (state >> np.uint64(32)).astype(np.uint32)
    return bits & np.uint32(0x8FFF8FFF) | np.uint32(0x30003000)
