"""Execute what counting leaves out: what lanes load from and store to all memories, atomics, matrices."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, memory_operands, operation_name
from ncu_swizzle.emulate.atomics import joined, perform, split, update_of, vector
from ncu_swizzle.emulate.code import LOCAL_WINDOW, PARAMETER_WINDOW, PRED, REG, SHARED_WINDOW, SassInstruction
from ncu_swizzle.emulate.contents import (
    forget_local,
    forget_shared,
    load_global,
    load_local,
    load_shared,
    lose_shared,
    store_local,
    store_shared,
)
from ncu_swizzle.emulate.copies import zero_fill
from ncu_swizzle.emulate.device_memory import Cells, storing_order
from ncu_swizzle.emulate.effects import BASES
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.memory import MemoryInstruction, SharedAccess, sign_extend
from ncu_swizzle.emulate.operands import Step, Use
from ncu_swizzle.emulate.values import Bits, Value, known_in, unknown
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.opcodes import ATOMIC, READ, Memory, Shared
from ncu_swizzle.smem.operations import WORD, Bools, Ints


def accesses_data(instruction: SassInstruction) -> bool:
    """Return whether `DataAccess` executes an instruction."""
    row = instruction.row
    stores = row.global_access and not row.copies_to_shared and row.does(Memory.GLOBAL) != READ
    return (
        row.shared is Shared.GENERIC
        or (row.shared is Shared.LANES and row.atomic)
        or (stores and row.shared is Shared.NO)
    )


class DataAccess(MemoryInstruction):
    """A load or store by generic addresses, a store to global memory, or an atomic operation."""

    def __init__(self, instruction: SassInstruction, index: int) -> None:
        super().__init__(instruction)
        row = instruction.row
        self.in_shared = row.shared is Shared.LANES
        self.address = operands.address(self.memory) if self.in_shared else operands.wide_address(self.memory)
        self.does = row.does(Memory.SHARED if self.in_shared or row.shared is Shared.GENERIC else Memory.GLOBAL)
        self.request = SharedAccess(instruction, Use(index, matters=True, contents=True)) if self.in_shared else None
        self.update = update_of(instruction) if self.does == ATOMIC else None
        words = max(1, self.width // 4)
        sources = [each for each in instruction.operands[self.position + 1 :] if each.kind == REG]
        self.sources = [[operands.raw(source, k) for k in range(words)] for source in sources]
        self.registers = [register for register in self.results if register < BASES[PRED]]
        self.truths = [register for register in self.results if register >= BASES[PRED]]

    def step(self, m: Machine) -> None:
        selected, doubtful, condition = self.lanes(m)
        address = self.address(m)
        if self.request is not None:
            self.request.record(m, selected, doubtful, condition, address)
        if doubtful.any() or not known_in(address, selected):
            self._lose(m, address, condition)
            return
        at = np.broadcast_to(address.bits, selected.shape)
        high = at >> np.uint64(32) if not self.in_shared else np.full(selected.shape, SHARED_WINDOW)
        in_shared, in_local = selected & (high == SHARED_WINDOW), selected & (high == LOCAL_WINDOW)
        in_global = selected & ~in_shared & ~in_local
        if self.truths:  # false where software has to do it, such as additions of 64 bits in shared memory
            in_shared = in_local = np.zeros_like(selected)
        low = (at & np.uint32(0xFFFFFFFF)).astype(np.uint32)
        if self.does == READ:
            self._load(m, at, low, (in_shared, in_local, in_global), condition)
            return
        if in_local.any():
            nowhere = np.zeros_like(in_local)
            store_local(m, Value(low), selected=in_local, doubtful=nowhere, values=self.stored(m), size=self.width)
        result = np.zeros((max(1, self.width // 4), *selected.shape), np.uint32)
        sure = np.zeros(selected.shape, bool)
        if in_shared.any():
            cells, places = self._shared(m, low, in_shared)
            self._change(m, cells, places, in_shared, result, sure)
            m.shared_written = True
        if in_global.any():
            places = m.device.places(m, at.astype(np.uint64), in_global, self.width)
            before = m.device.content[places + np.arange(self.width)[:, None]]
            self._change(m, m.device, places, in_global, result, sure)
            m.device.changed(places, self.width, before)
            if self.does == ATOMIC:
                m.device.note_read(m.now, places, self.width)
            m.device.wrote(m, places, self.width, in_global)
        for k, register in enumerate(self.registers):
            m.put(register, Value(result[k], True if (sure | ~selected).all() else sure, m.now), condition)
        for register in self.truths:
            m.put(register, Value(in_global, True), condition)

    def _shared(self, m: Machine, low: Bits, lanes: Bools) -> tuple[Cells, Ints]:
        """Return shared memory, and where lanes access it, in their own block or another one of the cluster."""
        rows, columns = np.nonzero(lanes)
        address = low[rows, columns]
        offset = (address & WINDOW).astype(np.int64)
        wrong = (offset + self.width > m.shared_size) | (offset % self.width != 0)
        if wrong.any():
            first = int(wrong.argmax())
            what = (
                f"shared address {int(offset[first]):#x} is outside of the block's {m.shared_size} bytes, or misaligned"
            )
            whose = m.whose(int(rows[first]), int(columns[first]))
            raise MemoryFault(self.instruction.offset, self.instruction.text, what, *whose)
        blocks = m.view_blocks()[rows] if self.in_shared else m.clusters.at(m.view_blocks()[rows], address)
        return Cells(m.shared.reshape(-1), m.shared_known.reshape(-1).view(np.uint8)), blocks * m.shared_size + offset

    def _change(self, m: Machine, cells: Cells, places: Ints, lanes: Bools, result: Bits, sure: Bools) -> None:
        """Store or update what lanes, (G, 32), access; an atomic's old words go to `result`, (words, G, 32)."""
        if self.does != ATOMIC:
            order = storing_order(lanes, self.width, m.device.backwards)
            words = [[each[order] for each in narrow(value, lanes)] for value in self.stored(m)]
            bits, known = (np.stack(each) for each in zip(*words, strict=True))
            cells.store(places[order], self.width, bits, known)
            return
        sources = [[narrow(read(m), lanes) for read in words] for words in self.sources]
        _, known = cells.load(places, self.width)
        before, told = known.all(axis=0), all(known.all() for words in sources for _, known in words)
        # Of lanes at the same place, a later one depends on an earlier one; an exchange on nothing.
        certain = self.update is not None and told and (self.instruction.has("EXCH") or bool(before.all()))
        cells.known[places + np.arange(self.width)[:, None]] = certain
        if self.update is None or not certain:
            return
        operand = [joined([bits for bits, _ in words]) for words in sources] or [
            np.ones(len(places), np.uint32)
        ]  # POPC counts lanes
        if vector(self.instruction):
            parts = [
                perform(self.update, cells.content, places + WORD * k, WORD, (bits, bits), m.device.backwards)
                for k, (bits, _) in enumerate(sources[0])
            ]
        else:
            both = (operand[0], operand[-1])
            old = perform(self.update, cells.content, places, self.width, both, m.device.backwards)
            if self.instruction.has("CAST"):  # whether it has swapped
                old = (old == operand[0]).astype(old.dtype)
            parts = split(old, result.shape[0])
        for k, part in enumerate(parts):
            result[k][lanes] = part
        sure[lanes] = before

    def _load(
        self, m: Machine, at: Bits, low: Bits, lanes: tuple[Bools, Bools, Bools], condition: Value | None
    ) -> None:
        in_shared, in_local, in_global = lanes
        count = max(1, self.width // 4)
        bits, known = np.zeros((count, *at.shape), np.uint32), np.ones((count, *at.shape), bool)
        if in_shared.any():
            cells, places = self._shared(m, low, in_shared)
            bits[:, in_shared], known[:, in_shared] = cells.load(places, self.width)
        for inside, load in ((in_local, load_local), (in_global, _load_global)):
            if inside.any():
                for k, value in enumerate(load(m, Value(low if inside is in_local else at), inside, self.width)):
                    np.copyto(bits[k], value.bits, where=inside)
                    np.copyto(known[k], np.asarray(value.known), where=inside)
        values = [Value(bits[k], True if known[k].all() else known[k], m.now) for k in range(count)]
        self.finish(m, sign_extend(self.instruction, values), condition)

    def _lose(self, m: Machine, address: Value, condition: Value | None) -> None:
        """Execute an access of unknown lanes, or to an unknown address."""
        if self.does != READ:
            origin = address.origin if address.known is not True else condition.origin if condition else None
            lose_shared(m, origin)
            if not self.in_shared:
                forget_local(m, m.now)
                m.device.lose(f"where {self.instruction.text} writes")
        m.forget(self.results, m.now, condition)


def _load_global(m: Machine, address: Value, lanes: Bools, size: int) -> list[Value]:
    """Return what is in global memory, or among the parameters, to which a generic address may point."""
    in_parameters = lanes & (address.bits.astype(np.uint64) >> np.uint64(32) == np.uint64(PARAMETER_WINDOW >> 32))
    if not in_parameters.any():
        values: list[Value] = m.device.values(m, address, lanes, size)
        return values
    return [unknown(m.now)] * max(1, size // 4)


def narrow(value: Value, lanes: Bools) -> tuple[Bits, Bools]:
    """Return the bits of some lanes, (G, 32), and whether they are known, (n,) each."""
    bits, known = (np.broadcast_to(part, lanes.shape)[lanes] for part in (value.bits, np.asarray(value.known)))
    return bits, known


# ---------------------------------------------------------------------------------------------- matrices, cp.async

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
