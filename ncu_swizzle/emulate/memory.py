"""Execute loads, stores and atomics: record their shared-memory requests and track what they move."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, access_width, memory_operands, operation_name
from ncu_swizzle.emulate.code import PRED, REG, SassInstruction
from ncu_swizzle.emulate.contents import (
    forget_shared,
    load_global,
    load_local,
    load_shared,
    lose_shared,
    share_tags,
    store_global,
    store_local,
    store_shared,
)
from ncu_swizzle.emulate.copies import AsyncCopy
from ncu_swizzle.emulate.dependence import arbitrary_tag
from ncu_swizzle.emulate.effects import BASES, effects, numbers_in, operand_number, width
from ncu_swizzle.emulate.events import Kind
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Step, Use, executes
from ncu_swizzle.emulate.requests import WarpRequests
from ncu_swizzle.emulate.state import Decided
from ncu_swizzle.emulate.tickets import any_place, ask
from ncu_swizzle.emulate.values import Bits, Value, known_in, narrowed, sign_extended, unknown
from ncu_swizzle.smem.opcodes import ATOMIC, READ, Copy, Memory, Shared, opcodes_with
from ncu_swizzle.smem.operations import Bools

Reader = Callable[[Machine], Value]


class MemoryInstruction:
    """What loads and stores have in common."""

    def __init__(self, instruction: SassInstruction) -> None:
        self.instruction = instruction
        self.guard = operands.guard_operands(instruction.guard)
        self.position = memory_operands(instruction)[0]
        self.memory = instruction.operands[self.position]
        self.width = access_width(instruction)
        self.destination = operand_number(instruction.operands[0]) if self.position > 0 else None
        self.count = max(1, width(instruction))
        self.results = numbers_in(effects(instruction).writes)
        sources = instruction.operands[self.position + 1 :]
        self.data = (
            [operands.raw(sources[0], k) for k in range(max(1, self.width // 4))]
            if sources and sources[0].kind == REG
            else []
        )

    def lanes(self, m: Machine) -> tuple[Bools, Bools, Value | None]:
        """Return the lanes that access memory, those that might, and the guard."""
        condition = self.guard(m) if self.guard else None
        selected, doubtful = m.certain_mask(condition)
        return selected, doubtful, condition

    def stored(self, m: Machine) -> list[Value]:
        """Return the values to store, one per word; 0 for the zero register."""
        values = [read(m) for read in self.data] or [Value(np.zeros((1, 1), np.uint32))] * max(1, self.width // 4)
        return values if self.width >= 4 else [narrowed(values[0], (1 << 8 * self.width) - 1)]

    def finish(self, m: Machine, values: Sequence[Value], condition: Value | None) -> None:
        """Write loaded values to the registers."""
        if self.destination is None:
            return
        for k, value in enumerate(values):
            m.put(self.destination + k, value, condition)

    def nothing(self, m: Machine, condition: Value | None, uniform: bool = False, origin: int | None = None) -> None:
        """Write unknown values to the registers."""
        lost = unknown(m.now if origin is None else origin, uniform=uniform)
        self.finish(m, [lost] * self.count, condition)


class SharedAccess(MemoryInstruction):
    """An access to shared memory at the lanes' addresses, or a copy into it."""

    def __init__(self, instruction: SassInstruction, use: Use) -> None:
        super().__init__(instruction)
        self.index, self.needed, self.contents = use.index, use.matters, use.contents
        self.address = operands.address(self.memory)
        self.does = instruction.row.does(Memory.SHARED)
        self.copy = AsyncCopy(instruction, use.index) if instruction.row.copy is Copy.ASYNC else None

    def step(self, m: Machine) -> None:
        selected, doubtful, condition = self.lanes(m)
        address = self.address(m)
        recorded = self.record(m, selected, doubtful, condition, address)
        if self.contents:
            self._contents(m, selected, doubtful=doubtful, condition=condition, address=address, recorded=recorded)
        elif self.needed:
            self.nothing(m, condition)

    def record(self, m: Machine, selected: Bools, doubtful: Bools, condition: Value | None, address: Value) -> bool:
        """Record the request of these lanes, or why it is unknown; return whether what they access is known."""
        if self.copy:
            written = self.copy.record(m, (selected, doubtful, condition), address)
            note_lanes(m, address.bits, selected if written else None)
            return written
        if doubtful.any():
            perhaps = selected | doubtful
            known = known_in(address, perhaps)
            origin = condition.origin if condition else None
            m.log.miss(self.index, Decided.PREDICATE, origin, followed=known)
            if known:
                m.decide_request(address.tag)
                m.log.record(self.index, address.bits, perhaps, tag=address.tag, certain=False)
            note_lanes(m, address.bits, perhaps if known else None, Kind.MAYBE)
            return False
        if address.known is not True and bool((selected & ~np.asarray(address.known)).any()):
            m.log.miss(self.index, Decided.ADDRESS, address.origin)
            m.note(Kind.UNKNOWN, m.view.warps)
            return False
        m.decide_request(address.tag)
        seen = m.log.record(self.index, address.bits, selected, tag=address.tag)
        if self.index in m.valued:
            self._note_values(m, selected)
        m.note(Kind.ACCESS, m.view.warps, seen, nbytes=seen.nbytes if seen.count == 1 else 0)
        return True

    def _note_values(self, m: Machine, selected: Bools) -> None:
        """Note the stored values, to tell harmless races apart."""
        values = self.stored(m)
        bits = np.stack([np.broadcast_to(value.bits, selected.shape) for value in values])
        known = np.stack([np.broadcast_to(np.asarray(value.known), selected.shape) for value in values])
        m.note(Kind.VALUES, m.view.warps, (bits, known), nbytes=5 * bits.size)

    def _contents(
        self, m: Machine, selected: Bools, doubtful: Bools, condition: Value | None, address: Value, recorded: bool
    ) -> None:
        row, does = self.instruction.row, self.does
        if does == READ and not row.matrix:
            self.finish(m, sign_extend(self.instruction, load_shared(m, address, selected, self.width)), condition)
        elif does == READ:
            self.nothing(m, condition)
        elif not recorded and (doubtful.any() or not address.certain):
            lose_shared(m, address.origin if address.known is not True else condition.origin if condition else None)
            if does == ATOMIC:
                self.nothing(m, condition)
        elif does == ATOMIC:
            tickets = any_place(m, self.instruction, load_shared(m, address, selected, 4)[0]) if m.draw else None
            self._atomic(m, selected, address)
            self.finish(m, [tickets or unknown(m.now)] * self.count, condition)
        elif row.matrix or self.copy:
            forget_shared(m, address, selected, self.width)
        else:
            store_shared(m, address, selected, self.stored(m), self.width)

    def _atomic(self, m: Machine, selected: Bools, address: Value) -> None:
        """Execute atomics whose result does not depend on the order of lanes and warps; forget the rest."""
        function = {"ADD": np.add, "AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor}
        name = next((word for word in self.instruction.modifiers if word in function), None)
        counts_lanes = self.instruction.has("POPC")
        if operation_name(self.instruction) is None or (name is None and not counts_lanes) or self.width != 4:
            forget_shared(m, address, selected, self.width)
            return
        data = Value(np.ones((1, 1), np.uint32)) if counts_lanes else self.data[0](m)
        old = load_shared(m, address, selected, 4)[0]
        rows, lanes = np.nonzero(selected)
        block = m.view_blocks()[rows]
        at = np.broadcast_to(address.bits, selected.shape)[rows, lanes].astype(np.int64) & 0xFFFFFF
        words = m.shared.view(np.uint32)
        values = np.broadcast_to(data.bits, selected.shape)[rows, lanes]
        # `.at` applies one lane after the other. The order does not matter: integer additions and bitwise operations
        # commute.
        function.get(name or "ADD", np.add).at(words, (block, at // 4), values)
        unsure = ~(np.broadcast_to(np.asarray(data.known) & np.asarray(old.known), selected.shape)[rows, lanes])
        share_tags(m)
        m.shared_tag = arbitrary_tag(m.shared_tag, data.tag, address.tag)
        for k in range(4):
            m.shared_known[block[unsure], at[unsure] + k] = False
        if unsure.any():
            m.shared_origin = data.origin if data.known is not True else m.now


def note_lanes(m: Machine, addresses: Bits, selected: Bools | None, kind: Kind = Kind.ACCESS) -> None:
    """Note an access by these lanes, (G, 32), to the block's own shared memory; None: by unknown lanes."""
    if not m.notes:
        return
    if selected is None:
        m.note(Kind.UNKNOWN, m.view.warps)
        return
    lanes = np.broadcast_to(addresses, selected.shape).astype(np.uint32) & WINDOW
    requests = WarpRequests(addresses=lanes, selected=selected.copy(), source=None, blocks=m.view_blocks())
    m.note(kind, m.view.warps, requests, nbytes=requests.nbytes)


def sign_extend(instruction: SassInstruction, values: Sequence[Value]) -> Sequence[Value]:
    """Extend the sign of a loaded byte or half word."""
    bits = 8 if instruction.has("S8") else 16 if instruction.has("S16") else 32
    if bits == 32:
        return values
    return [sign_extended(value, bits) for value in values]


# ---------------------------------------------------------------------------------------------- local and global memory


class _LoadLocal(MemoryInstruction):
    def step(self, m: Machine) -> None:
        selected, _, condition = self.lanes(m)
        address = operands.address(self.memory)(m)
        self.finish(m, sign_extend(self.instruction, load_local(m, address, selected, self.width)), condition)


class _StoreLocal(MemoryInstruction):
    def step(self, m: Machine) -> None:
        selected, doubtful, _ = self.lanes(m)
        address = operands.address(self.memory)(m)
        store_local(m, address, selected=selected, doubtful=doubtful, values=self.stored(m), size=self.width)


class _LoadGlobal(MemoryInstruction):
    def __init__(self, instruction: SassInstruction) -> None:
        super().__init__(instruction)
        self.address = operands.wide_address(self.memory)

    def step(self, m: Machine) -> None:
        selected, _, condition = self.lanes(m)
        address = self.address(m)
        followed = bool(m.memory) or m.device is not None
        if address.bits.shape[1] == 1 and not followed:
            self.nothing(m, condition, uniform=True)
            return
        origin = m.now
        if followed and address.known is not False:
            values = load_global(m, address, selected, self.width)
            if any(value.known is True or np.any(value.known) for value in values):
                self.finish(m, sign_extend(self.instruction, values), condition)
                return
            origin = m.now if values[0].origin is None or not known_in(address, selected) else values[0].origin
        self.nothing(m, condition, uniform=same_address(address, selected), origin=origin)


class _StoreGlobal(MemoryInstruction):
    """A store makes what it overwrites in a known array unknown: other blocks may write it before or after."""

    def __init__(self, instruction: SassInstruction) -> None:
        super().__init__(instruction)
        self.address = operands.wide_address(self.memory)

    def step(self, m: Machine) -> None:
        selected, doubtful, _ = self.lanes(m)
        store_global(m, self.address(m), selected | doubtful, self.width)
        if m.stores is not None:
            m.stores.append((m.now, self.address(m), selected, self.stored(m)))


class _AtomicGlobal(_StoreGlobal):
    """An atomic: like a store, with an unknown result, or a ticket."""

    def step(self, m: Machine) -> None:
        selected, doubtful, condition = self.lanes(m)
        address = self.address(m)
        ticket = (
            ask(m, self.instruction, address=address, data=self.stored(m)[0], selected=selected, doubtful=doubtful)
            if m.draw
            else None
        )
        if ticket is None or (m.draw and m.draw.several):
            store_global(m, address, selected | doubtful, self.width)
        for register in self.results:
            lost = unknown(m.now, bool if register >= BASES[PRED] else np.uint32)
            m.put(register, lost if ticket is None or register >= BASES[PRED] else ticket, condition)


def same_address(address: Value, selected: Bools) -> bool:
    """Return whether all lanes of each warp certainly have the same address."""
    if address.bits.shape[1] == 1:
        return True
    if address.known is not True:
        return False
    lanes = np.broadcast_to(address.bits, selected.shape)
    highest = np.where(selected, lanes, 0).max(axis=1, keepdims=True)
    return bool(((lanes == highest) | ~selected).all())


@executes(*opcodes_with(lambda row: row.shared is Shared.LANES))
def _shared(instruction: SassInstruction, use: Use) -> Step:
    return SharedAccess(instruction, use).step


@executes("LDL", "STL", "LDG", "STG", "RED", "REDG", "ATOMG")
def _other(instruction: SassInstruction, use: Use) -> Step | None:
    """Return the step of an access to local or global memory, if what it reads or writes matters."""
    row = instruction.row
    if row.local_access:
        access: type[_LoadLocal | _StoreLocal | _LoadGlobal | _StoreGlobal] = _LoadLocal if row.reads else _StoreLocal
    elif row.writes_only:
        access = _StoreGlobal
    else:
        access = _AtomicGlobal if row.atomic else _LoadGlobal
    return access(instruction).step if use.matters else None
