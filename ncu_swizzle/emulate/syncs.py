"""Execute accesses through generic addresses (LD, ST, ATOM), and all operations on mbarriers except waits."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, operation_name
from ncu_swizzle.emulate.boxes import RANK_BIT
from ncu_swizzle.emulate.code import LOCAL_WINDOW, MEMORY, PRED, SHARED_WINDOW, SassInstruction
from ncu_swizzle.emulate.contents import (
    forget_local,
    forget_range,
    forget_shared,
    load_global,
    load_local,
    load_shared,
    lose_arrays,
    store_global,
    store_local,
    store_shared,
)
from ncu_swizzle.emulate.effects import BASES, INITIALISES, operand_number, results
from ncu_swizzle.emulate.events import Hazard, Kind, Party
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.memory import MemoryInstruction, SharedAccess, note_lanes, sign_extend
from ncu_swizzle.emulate.operands import Step, Use, both, executes
from ncu_swizzle.emulate.values import Bits, Value, known_in, unknown
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.opcodes import ATOMIC, READ, WRITE, Memory, Shared, opcodes_with
from ncu_swizzle.smem.operations import Bools, Ints, phase_degrees

# Execute accesses through generic addresses: LD, ST and ATOM, in shared, local or global memory.


@executes(*opcodes_with(lambda row: row.shared is Shared.GENERIC))
def _generic(instruction: SassInstruction, use: Use) -> Step:
    return _Generic(instruction, use).step


class _Generic(MemoryInstruction):
    """An access whose memory each lane selects by the upper half of its address."""

    def __init__(self, instruction: SassInstruction, use: Use) -> None:
        super().__init__(instruction)
        self.index, self.needed = use.index, use.matters
        self.address = operands.wide_address(self.memory)
        self.does = instruction.row.does(Memory.SHARED)

    def step(self, m: Machine) -> None:
        selected, doubtful, condition = self.lanes(m)
        address = self.address(m)
        if doubtful.any() or not known_in(address, selected):
            self._nowhere(m, address, condition)
            return
        high = (address.bits >> np.uint64(32)).astype(np.uint32)
        low = Value((address.bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), True, None, address.tag)
        in_shared, in_local = selected & (high == SHARED_WINDOW), selected & (high == LOCAL_WINDOW)
        in_global = selected & ~in_shared & ~in_local
        # In the block's own shared memory: the address names its rank in the cluster.
        own = in_shared & (low.bits >> np.uint32(RANK_BIT) == m.clusters.ranks[m.view_blocks()][:, None])
        remote = in_shared & ~own
        if in_shared.any():
            m.decide_request(address.tag)
            if (own.any(axis=1) & remote.any(axis=1)).any():
                reason = "what ncu counts for lanes that access different blocks of a cluster"
                m.log.miss(self.index, reason, None, codes.NO_RULE)
            # No wavefronts for lanes that access another block. A missed one is an access all the same.
            m.log.record(self.index, low.bits, own, tag=address.tag)
            self._note(m, low.bits, own, remote)
            if remote.any():
                self._look_elsewhere(m, low.bits, remote)
        if self.does == READ:
            if self.needed:
                # Accesses all in one memory are loaded; the rest is unknown.
                lanes = {"shared": own, "local": in_local, "global": in_global}
                kind = next((kind for kind, inside in lanes.items() if bool((inside == selected).all())), "")
                self._load(m, kind, low if kind != "global" else address, selected, condition)
            return
        if m.memory and in_global.any():
            store_global(m, address, in_global, self.width)
        if own.any() and self.does == ATOMIC:
            forget_shared(m, low, own, self.width)
        elif own.any() and m.shared.shape[1]:
            store_shared(m, low, own, self.stored(m), self.width)
        if in_local.any():
            none = np.zeros_like(in_local)
            store_local(m, low, selected=in_local, doubtful=none, values=self.stored(m), size=self.width)
        if remote.any():
            forget_range(m, m.clusters.around(m.view_blocks()))
        if self.does == ATOMIC and self.needed:
            self._unknown(m, condition)

    @staticmethod
    def _note(m: Machine, addresses: Bits, in_own_block: Bools, remote: Bools) -> None:
        note_lanes(m, addresses, in_own_block)
        if remote.any():
            at = np.broadcast_to(addresses, remote.shape)
            blocks = m.clusters.at(np.broadcast_to(m.view_blocks()[:, None], remote.shape), at)
            m.note(Kind.REMOTE, m.view.warps, (blocks, (at & WINDOW).astype(np.int64), remote), nbytes=9 * at.size)

    def _look_elsewhere(self, m: Machine, at: Bits, remote: Bools) -> None:
        """Note whether lanes want words of one bank of another block: ncu counts nothing for that."""
        operation = operation_name(self.instruction)
        lanes = np.broadcast_to(at, remote.shape).astype(np.int64)
        ranks = np.where(remote, lanes >> RANK_BIT, -1)
        for rank in np.unique(ranks[remote]) if operation else ():
            ways = phase_degrees(operations.find(operation or ""), lanes & int(WINDOW), ranks == rank)
            if ways.max(initial=0) > 1:
                m.log.remote[self.index] = max(int(ways.max()), m.log.remote.get(self.index, 0))

    def _load(self, m: Machine, kind: str, address: Value, selected: Bools, condition: Value | None) -> None:
        if not kind or (kind == "shared" and not m.shared.shape[1]):
            self.nothing(m, condition)
            return
        load = {"shared": load_shared, "local": load_local, "global": load_global}[kind]
        self.finish(m, sign_extend(self.instruction, load(m, address, selected, self.width)), condition)

    def _nowhere(self, m: Machine, address: Value, condition: Value | None) -> None:
        """Execute an access to an unknown address, or by unknown lanes."""
        origin = address.origin if address.known is not True else condition.origin if condition else None
        m.log.miss(self.index, "which memory its address is in", origin)
        m.note(Kind.UNKNOWN, m.view.warps)
        if self.does != READ:
            forget_local(m, m.now)
            forget_range(m, m.clusters.around(m.view_blocks()))
            lose_arrays(m)
        if self.does != WRITE and self.needed:
            self._unknown(m, condition)

    def _unknown(self, m: Machine, condition: Value | None) -> None:
        for register in self.results:
            m.put(register, unknown(m.now, bool if register >= BASES[PRED] else np.uint32), condition)


COUNT_ONE = 1 << 20  # minus the count is how a barrier's word encodes its arrivals
WORD_COUNT_BIT, UPPER_COUNT_BIT = 1, 11  # where this begins in the lower and in the upper word
PHASE_BIT = np.uint32(31)  # of the upper word of a state


@executes("SYNCS", "ARRIVES")
def _on_mbarrier(instruction: SassInstruction, _: Use) -> Step | None:
    """Return the step of an operation on mbarriers; None if it changes none."""
    if instruction.has("IVALL"):
        return None
    if instruction.has("CCTL"):
        return _Invalidate(instruction).step
    if instruction.has("EXCH"):
        return _Initialise(instruction).step
    return _Arrive(instruction).step


class _Operation:
    """What operations on mbarriers have in common: a guard, an address, an operand."""

    def __init__(self, instruction: SassInstruction) -> None:
        self.instruction = instruction
        self.guard = operands.guard_operands(instruction.guard)
        position = next(k for k, operand in enumerate(instruction.operands) if operand.kind == MEMORY)
        self.address = operands.address(instruction.operands[position])
        sources = instruction.operands[position + 1 :]
        self.operand = operands.raw(sources[0]) if sources else None

    def step(self, m: Machine) -> None:
        condition = self.guard(m) if self.guard else None
        selected, doubtful = m.ordering_lanes(condition)
        m.count_order(m.view.warps[selected.any(axis=1)])
        address = self.address(m)
        if doubtful.any() or not known_in(address, selected):
            m.mbarriers.doubt(m.clusters.around(m.view_blocks()))
            m.note(Kind.JOIN, m.view.warps, f"which mbarrier {self.instruction.text} is of, and whether it executes")
            return
        self.apply(m, selected, np.broadcast_to(address.bits, selected.shape))

    def apply(self, m: Machine, selected: Bools, address: Bits) -> None:
        raise NotImplementedError

    def amount(self, m: Machine, shape: tuple[int, ...]) -> tuple[Ints, Bools]:
        """Return the operand's value in each lane, and where it is known."""
        if self.operand is None:
            return np.zeros(shape, np.int64), np.ones(shape, bool)
        value = self.operand(m)
        return np.broadcast_to(value.bits, shape).astype(np.int64), np.broadcast_to(np.asarray(value.known), shape)


class _Initialise(_Operation):
    """SYNCS.EXCH: mbarrier.init, once per warp."""

    def apply(self, m: Machine, selected: Bools, address: Bits) -> None:
        words, known = self.amount(m, selected.shape)
        for row in np.flatnonzero(selected.any(axis=1)).tolist():
            lane = int(selected[row].argmax())
            offset = int(address[row, lane] & WINDOW)
            block = m.view_blocks()[row : row + 1]
            m.note(Kind.INITIALISE, m.view.warps[row : row + 1], (block, np.array([offset])))
            if known[row, lane]:
                count = (COUNT_ONE - (words[row, lane] >> WORD_COUNT_BIT)) % COUNT_ONE
                m.mbarriers.initialise(offset, block, np.array([count]))
            else:
                m.mbarriers.doubt(block, offset)


@executes("STS")
def _store(instruction: SassInstruction, use: Use) -> Step:
    step = SharedAccess(instruction, use).step
    return both(step, _initialised(instruction)) if instruction.has(INITIALISES) else step


def _initialised(instruction: SassInstruction) -> Step:
    """Return the step of a store that initialises mbarriers, one or two per lane, if its words are those of mbarriers.

    ptxas makes it of an mbarrier.init that several lanes execute, followed by SYNCS.CCTL.IVALL.
    """
    store = MemoryInstruction(instruction)
    address_of = operands.address(store.memory)

    def step(m: Machine) -> None:
        selected, doubtful, _ = store.lanes(m)
        address, words = address_of(m), store.stored(m)
        if doubtful.any() or not known_in(address, selected):
            m.mbarriers.doubt(m.clusters.around(m.view_blocks()))
            m.note(Kind.JOIN, m.view.warps, f"which mbarriers {instruction.text} initialises")
            return
        at = np.broadcast_to(address.bits, selected.shape)
        for row, lane in np.argwhere(selected).tolist():
            block, first = m.view_blocks()[row : row + 1], int(at[row, lane] & WINDOW)
            for number in range(0, len(words), 2):
                low, high = (_of_lane(word, row, lane, selected.shape) for word in words[number : number + 2])
                offset = first + 4 * number
                if low is None or high is None:
                    m.mbarriers.doubt(block, offset)
                elif low >> WORD_COUNT_BIT == high >> UPPER_COUNT_BIT:
                    m.note(Kind.INITIALISE, m.view.warps[row : row + 1], (block, np.array([offset])))
                    m.mbarriers.initialise(offset, block, np.array([COUNT_ONE - (low >> WORD_COUNT_BIT)]))

    return step


def _of_lane(value: Value, row: int, lane: int, shape: tuple[int, ...]) -> int | None:
    if not np.broadcast_to(np.asarray(value.known), shape)[row, lane]:
        return None
    return int(np.broadcast_to(value.bits, shape)[row, lane])


class _Invalidate(_Operation):
    """SYNCS.CCTL.IV: mbarrier.inval, after which its bytes are ordinary. It changes no count."""

    def step(self, m: Machine) -> None:
        selected, doubtful = m.selection(self.guard(m) if self.guard else None)
        value = self.address(m)
        rows, lanes = np.nonzero(selected)
        if len(rows) and m.notes and not doubtful.any() and known_in(value, selected):
            address = np.broadcast_to(value.bits, selected.shape)
            blocks = m.clusters.at(m.view_blocks()[rows], address[rows, lanes])
            m.note(Kind.INVALIDATE, m.view.warps[rows], (blocks, (address[rows, lanes] & WINDOW).astype(np.int64)))


class _Arrive(_Operation):
    """SYNCS.ARRIVE and ARRIVES: each lane arrives, or changes the expected bytes; returns the phase it arrived in."""

    def __init__(self, instruction: SassInstruction) -> None:
        super().__init__(instruction)
        self.targets = [operand_number(operand) for operand in instruction.operands[: results(instruction)]]

    def apply(self, m: Machine, selected: Bools, address: Bits) -> None:
        rows, lanes = np.nonzero(selected)
        if not len(rows):
            return
        if m.watcher:
            m.watcher.arrives(m, selected, address)
        blocks = m.clusters.at(m.view_blocks()[rows], address[rows, lanes])
        offsets = (address[rows, lanes] & WINDOW).astype(np.int64)
        amounts, sure = self.amount(m, selected.shape)
        amount, known = amounts[rows, lanes], sure[rows, lanes]
        self._return_phase(m, selected, blocks, offsets)
        arrivals, transactions = self._changes(amount)
        for offset in np.unique(offsets).tolist():
            here = offsets == offset
            if arrivals is None or (self.instruction.has("ART0") and not known[here].all()):
                m.mbarriers.doubt(blocks[here], offset)
                continue
            if not known[here].all():
                m.mbarriers.blur(offset, blocks[here])
            update = arrivals[here], transactions[here]
            was_known = offset in m.mbarriers.at and not m.mbarriers.at[offset].unsure[blocks[here]].any()
            m.mbarriers.update(offset, blocks[here], *update, drop=self.instruction.has("OPTOUT"))
            if m.events is not None:
                completed = m.mbarriers.at[offset].completed[blocks[here]]
                every = m.masks(m.view.warps[rows[here]], selected[rows[here]], ended=False) is None
                made = blocks[here], offset, completed, None if every else lanes[here]
                m.note(Kind.COUNT, m.view.warps[rows[here]], made)
                self._judge(m, offset, blocks[here], was_known)

    def _judge(self, m: Machine, offset: int, blocks: Ints, was_known: bool) -> None:
        """Record arrivals beyond those that a phase counts."""
        barrier = m.mbarriers.at[offset]
        over = blocks[barrier.pending[blocks] < 0]
        if len(over) and was_known and not m.order_lost:
            x, y, z = m.blocks[int(over[0])].tolist()
            party = Party(offset=self.instruction.offset, does="arrives")
            what = f"gets more than the {int(barrier.expected[over[0]])} arrivals of its phase"
            hazard = Hazard(code=codes.MBARRIER, parties=(party,), block=(x, y, z), what=what, mbarrier=offset)
            m.hazards.setdefault((codes.MBARRIER, self.instruction.offset, -1), hazard)

    def _changes(self, amount: Ints) -> tuple[Ints | None, Ints]:
        """Return each lane's arrivals, None for an unknown form, and the bytes that it adds to those expected."""
        nothing, one = np.zeros_like(amount), np.ones_like(amount)
        has = self.instruction.has
        if self.instruction.opcode == "ARRIVES":  # when earlier copies are complete, which here is at once
            return (one, nothing) if has("ARVCNT") else (nothing, -one) if has("TRANSCNT") else (None, nothing)
        if not has("ARRIVE"):
            return None, nothing
        forms = {
            "A1T0": (one, nothing),
            "A0T1": (nothing, one),
            "A0TR": (nothing, amount),
            "A0TX": (nothing, -amount),
            "ART0": (amount, nothing),
        }
        form = next((word for word in self.instruction.modifiers if word in forms), "")
        return forms[form] if form else (one, amount)

    def _return_phase(self, m: Machine, selected: Bools, blocks: Ints, offsets: Ints) -> None:
        """Write the state before the arrival: unknown, because it holds a count, but its bits have the phase."""
        if not self.targets or self.targets[0] is None:
            return
        phase = np.zeros(len(blocks), np.uint32)
        for offset in np.unique(offsets).tolist():
            barrier = m.mbarriers.at.get(offset)
            if barrier is not None:
                phase[offsets == offset] = barrier.phase[blocks[offsets == offset]]
        upper = np.zeros(selected.shape, np.uint32)
        upper[selected] = phase << PHASE_BIT
        arrived = Value(selected)
        m.put(self.targets[0], Value(np.zeros(selected.shape, np.uint32), False, m.now), arrived)
        m.put(self.targets[0] + 1, Value(upper, False, m.now), arrived)
