"""Execute operations on mbarriers other than waits: SYNCS and ARRIVES."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW
from ncu_swizzle.emulate.effects import number, results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operations.registry import Step
from ncu_swizzle.emulate.parse import MEMORY, SassInstruction
from ncu_swizzle.emulate.values import Bits, Value, known_in
from ncu_swizzle.smem.banks import Bools, Ints

COUNT_ONE = 1 << 20  # minus the count is how a barrier's word holds its arrivals
WORD_COUNT_BIT = 1  # where this begins in the lower word
PHASE_BIT = np.uint32(31)  # of the upper word of a state


def compiled(instruction: SassInstruction) -> Step | None:
    """Return the step of an operation on mbarriers; None if it changes none."""
    if instruction.has("CCTL"):
        return None
    if instruction.has("EXCH"):
        return _Initialise(instruction).step
    return _Arrive(instruction).step


class _Operation:
    """What operations on mbarriers have in common: a guard, an address, an operand."""

    def __init__(self, instruction: SassInstruction) -> None:
        self.instruction = instruction
        self.guard = operands.guard(instruction.guard)
        position = next(k for k, operand in enumerate(instruction.operands) if operand.kind == MEMORY)
        self.address = operands.address(instruction.operands[position])
        sources = instruction.operands[position + 1 :]
        self.operand = operands.raw(sources[0]) if sources else None

    def step(self, m: Machine) -> None:
        condition = self.guard(m) if self.guard else None
        selected, doubtful = m.selection(condition)  # decides no count, so no block is told apart by it
        address = self.address(m)
        if doubtful.any() or not known_in(address, selected):
            m.mbarriers.doubt(m.clusters.around(m.view_blocks()))
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
            if known[row, lane]:
                count = (COUNT_ONE - (words[row, lane] >> WORD_COUNT_BIT)) % COUNT_ONE
                m.mbarriers.initialise(offset, block, np.array([count]))
            else:
                m.mbarriers.doubt(block, offset)


class _Arrive(_Operation):
    """SYNCS.ARRIVE and ARRIVES: each lane arrives, or changes the expected bytes; returns the phase it arrived in."""

    def __init__(self, instruction: SassInstruction) -> None:
        super().__init__(instruction)
        self.targets = [number(operand) for operand in instruction.operands[: results(instruction)]]

    def apply(self, m: Machine, selected: Bools, address: Bits) -> None:
        rows, lanes = np.nonzero(selected)
        if not len(rows):
            return
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
            m.mbarriers.update(offset, blocks[here], *update, drop=self.instruction.has("OPTOUT"))

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
