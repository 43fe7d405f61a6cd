"""Execute what counting wavefronts never needs, so that two versions of a kernel can be compared by their results.

Matrices are loaded, copies arrive. What tensor cores and the approximations that are not modelled return is a hash of
everything that they read, in place of the number that the hardware would compute: equal operands give equal results,
and different ones different results, up to a chance of 2^-30. The numbers mean nothing by themselves. What atomic
operations return and special registers hold is drawn: see `emulate.worlds`.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, memory_operands, operation_name
from ncu_swizzle.emulate.addresses import SHARED_WINDOW
from ncu_swizzle.emulate.code import CONSTANT, PRED, REG, UPRED, UREG, Operand, SassInstruction
from ncu_swizzle.emulate.contents import bytes_at, forget_shared, load_global, load_shared, lose_shared, store_shared
from ncu_swizzle.emulate.copies import zero_fill
from ncu_swizzle.emulate.effects import BASES, operand_number, source_width, width
from ncu_swizzle.emulate.effects import results as written_operands
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.memory import MemoryInstruction
from ncu_swizzle.emulate.operands import Step
from ncu_swizzle.emulate.values import Bits, Value, known_in, unknown
from ncu_swizzle.emulate.worlds import World, hash_of, moderate_floats
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.opcodes import Copy, Shared, opcodes_with
from ncu_swizzle.smem.operations import WORD, Bools, Ints

LANES = np.arange(32)
# By shape, such as 16816: rows, columns and depth of the matrices that a warp multiplies.
_SHAPE = re.compile(r"(16|8)(8)(4|8|16|32|64|128|256)")
_ELEMENT_BITS = {"F16": 16, "BF16": 16, "TF32": 32, "S8": 8, "U8": 8, "S4": 4, "U4": 4}
# They compute their results from their own operands, lane by lane.
_APPROXIMATED = "F2F F2FP F2I F2IP FCHK FMNMX3 FRND FSET HSET2 I2F I2FP I2I I2IP MUFU UMUFU VABSDIFF VABSDIFF4"
_LANEWISE = frozenset(_APPROXIMATED.split())
_SPECIAL = frozenset(("S2R", "S2UR", "CS2R", "CS2UR"))
_FLOATING = ("F32", "F64", "F16x2", "F16x4", "BF16x2", "BF16_V2", "F16_V2", "F16", "BF16")  # of an atomic operation
_SMALL = ("SMID", "WARPID", "NSMID", "NWARPID", "GRIDID")  # special registers that are numbers of something


def stand_in(instruction: SassInstruction, index: int) -> Step | None:
    """Return the step that computes more than the ordinary one; None if none is needed."""
    opcode = instruction.opcode
    if opcode in _BY_OPCODE:
        wanted = not instruction.row.matrix or operation_name(instruction)
        return _BY_OPCODE[opcode](instruction, index) if wanted and memory_operands(instruction) else None
    if instruction.row.products and instruction.row.shared is Shared.NO:
        return _product(instruction, index)
    if opcode in _LANEWISE | _SPECIAL and operands.compiled_step(instruction) is None:
        return _special(instruction) if opcode in _SPECIAL else _approximation(instruction, index)
    return None


def matrix_step(instruction: SassInstruction) -> Step | None:
    """Return the step that loads or stores the matrices of an LDSM or STSM; None if their shape is not modelled."""
    if not operation_name(instruction):
        return None
    return (_LoadMatrix if instruction.row.reads else _StoreMatrix)(instruction).step


def arriving_step(instruction: SassInstruction) -> Step:
    """Return the step that writes what an LDGSTS copies."""
    return _ArrivingCopy(instruction).step


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


# ---------------------------------------------------------------------------------------------- events


class _Atomic(MemoryInstruction):
    """An atomic operation, whose result is drawn: half of the compare-and-swaps succeed."""

    def __init__(self, instruction: SassInstruction, index: int) -> None:
        super().__init__(instruction)
        ordinary = operands.MAKERS[instruction.opcode](instruction, operands.Use(index, matters=True, contents=True))
        assert ordinary is not None
        self.ordinary, self.local = ordinary, instruction.row.shared is Shared.LANES
        self.address = operands.address(self.memory) if self.local else operands.wide_address(self.memory)
        self.swaps, self.floating = instruction.has("CAS", "CAST"), instruction.has(*_FLOATING)
        registers = [register for register in self.results if register < BASES[PRED]]
        self.truths = [register for register in self.results if register >= BASES[PRED]]
        self.words = list(zip(registers, self.data[: len(registers)] if self.swaps else registers, strict=False))

    def step(self, m: Machine) -> None:
        selected, doubtful, condition = self.lanes(m)
        address = self.address(m)
        expected = [read(m) if callable(read) else None for _, read in self.words]
        if m.world is None or doubtful.any() or not known_in(address, selected):
            self.ordinary(m)
            return
        in_shared = selected if self.local else selected & (address.bits >> np.uint64(32) == SHARED_WINDOW)
        at = bytes_at(
            m, Value((address.bits & address.bits.dtype.type(WINDOW)).astype(np.uint32)), in_shared, self.width
        )
        known = m.shared_known[at[:2]] if in_shared.any() else None
        self.ordinary(m)
        if known is not None:  # the stored value depends on the order of lanes, so it is drawn
            block, byte, inside = (each[at[2] & known] for each in at)
            lost = ~m.shared_known[block, byte] & inside
            m.shared[block[lost], byte[lost]] = m.world.shared[byte[lost]]
            m.shared_known[block[lost], byte[lost]] = True
        where = () if self.local else (np.where(in_shared, np.uint64(0), address.bits),)
        state, before = m.world.event(m, self.instruction.opcode, selected, *where)
        for k, (register, _) in enumerate(self.words):
            bits = self._bits(m.world, hash_of(state, np.uint64(k) + np.zeros_like(state)) if k else state, before, k)
            wanted = expected[k]
            if wanted is not None:
                bits = np.where(state & np.uint64(2), wanted.bits, bits)
            m.put(register, Value(bits, True if wanted is None else wanted.known, m.now), condition)
        for register in self.truths:
            m.put(register, Value(state & np.uint64(2) != 0), condition)

    def _bits(self, world: World, state: Bits, before: Ints, word: int) -> Bits:
        if self.floating:
            return moderate_floats(state)
        return world.integer(state, before) if word == 0 else np.zeros(state.shape, np.uint32)


def _special(instruction: SassInstruction) -> Step:
    """Return the step that draws a special register: the same in all lanes of a warp."""
    target, words = operand_number(instruction.operands[0]), width(instruction)
    name = instruction.operands[1].text.removeprefix("SR_")
    uniform, guard = instruction.opcode in ("S2UR", "CS2UR"), operands.guard_operands(instruction.guard)

    def step(m: Machine) -> None:
        condition = guard(m) if guard else None
        selected, doubtful = m.selection(condition)
        if m.world is None or target is None or doubtful.any():
            if target is not None:
                m.put(target, unknown(m.now), condition)
            return
        state, _ = m.world.event(m, name, selected, of_warp=True)
        if uniform:
            state = state[np.arange(len(state)), m.view.mask.argmax(axis=1)][:, None]
        low = state % np.uint64(128) if name in _SMALL else state & np.uint64(0xFFFFFFFF)
        for k, bits in enumerate((low, state >> np.uint64(48))[:words]):
            m.put(target + k, Value(bits.astype(np.uint32)), condition)

    return step


# ---------------------------------------------------------------------------------------------- hashes


def _product(instruction: SassInstruction, index: int) -> Step | None:
    """Return the step of a matrix product: each result depends on both matrices, and on its own summand."""
    counts = _registers(instruction)
    if counts is None:
        return None
    left, right, summand = instruction.operands[1:4]
    a, b = (_reader(operand, count) for operand, count in zip((left, right), counts, strict=True))
    c = _reader(summand, width(instruction))
    more = [_reader(operand, 1) for operand in instruction.operands[4:]]
    return _hashing(instruction, index, across=(a, b), along=(c, *more))


def _approximation(instruction: SassInstruction, index: int) -> Step | None:
    first = written_operands(instruction)
    sources = [
        _reader(operand, source_width(instruction, position))
        for position, operand in enumerate(instruction.operands[first:])
    ]
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
    if operand.kind in (PRED, UPRED):
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
    targets = list(_targets(instruction))
    guard = operands.guard_operands(instruction.guard)

    def step(m: Machine) -> None:
        shape = m.view.mask.shape
        state = np.full(shape, seed, np.uint64)
        known = np.ones(shape, bool)
        for read in across:
            for value in read(m):
                bits = np.broadcast_to(value.bits, shape).astype(np.uint64)
                everyone = functools.reduce(hash_of, (bits[:, lane] for lane in range(32)))
                state = hash_of(state, everyone[:, None])
                known &= np.broadcast_to(np.asarray(value.known), shape).all(axis=1, keepdims=True)
        if across:
            state = hash_of(state, LANES[None].astype(np.uint64))
        for read in along:
            for value in read(m):
                state = hash_of(state, np.broadcast_to(value.bits, shape).astype(np.uint64))
                known &= np.asarray(value.known)
        condition = guard(m) if guard else None
        for k, target in enumerate(targets):
            bits = moderate_floats(hash_of(state, np.full(shape, k, np.uint64)))
            if target is not None:
                bits = bits & np.uint32(1) != 0 if target >= BASES[PRED] else bits
                m.put(target, Value(bits, True if known.all() else known.copy(), index), condition)

    return step


def _targets(instruction: SassInstruction) -> Iterator[int | None]:
    """Yield the registers and predicates that an instruction writes; None for one that keeps nothing."""
    for operand in instruction.operands[: written_operands(instruction)]:
        first = operand_number(operand)
        for k in range(width(instruction) if operand.kind in (REG, UREG) else 1):
            yield None if first is None else first + k


_BY_OPCODE: dict[str, Callable[[SassInstruction, int], Step]] = {
    "LDSM": lambda instruction, _: _LoadMatrix(instruction).step,
    "STSM": lambda instruction, _: _StoreMatrix(instruction).step,
    **dict.fromkeys(
        opcodes_with(lambda row: row.copy is Copy.ASYNC), lambda instruction, _: _ArrivingCopy(instruction).step
    ),
    **dict.fromkeys(
        opcodes_with(lambda row: row.atomic and bool(row.reads)),
        lambda instruction, index: _Atomic(instruction, index).step,
    ),
}
