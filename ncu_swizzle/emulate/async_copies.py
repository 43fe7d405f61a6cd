"""LDGSTS, which cp.async compiles to: which of its lanes ncu counts, which write zeros, and where the others read.

Past L1 (``.BYPASS``), ncu 2025.3 does not read P0 but takes it for false, and every count follows: none for a copy
guarded by P0; one of all lanes for !P0; no zeros if the lanes of !P0 read, and nothing but zeros if those of P0 do.
What it measures under other predicates is right (docs/wavefronts.md).
"""

from __future__ import annotations

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, access_width, memory_operands
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.parse import PRED, UPRED, Operand, SassInstruction
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem.banks import Bools

Lanes = tuple[Bools, Bools, Value | None]  # those that the guard selects, those that it might, and the guard


def zero_fill(instruction: SassInstruction) -> Operand | None:
    """Return the predicate of the lanes that read, the others write zeros; None if all read."""
    if instruction.opcode != "LDGSTS":
        return None
    return next((operand for operand in instruction.operands[::-1] if operand.kind in (PRED, UPRED)), None)


def misread(instruction: SassInstruction) -> str:
    """Return how ncu miscounts a copy past L1 because it does not read P0; empty if it does not."""
    guard = instruction.guard
    if instruction.opcode != "LDGSTS" or not instruction.has("BYPASS") or guard is None or not _is_p0(guard):
        return ""
    return "as if no lane were predicated off" if guard.negated else "no wavefronts"


def taken_for_zeros(instruction: SassInstruction) -> bool:
    """Return whether ncu counts a copy past L1 as if every lane wrote zeros, as it does not read P0."""
    predicate = zero_fill(instruction)
    past_l1 = instruction.has("BYPASS") and not instruction.has("ZFILL") and instruction.guard is None
    return past_l1 and predicate is not None and _is_p0(predicate) and not predicate.negated


def _is_p0(operand: Operand | None) -> bool:
    return operand is not None and operand.kind == PRED and operand.number == 0


class AsyncCopy:
    """One LDGSTS."""

    def __init__(self, instruction: SassInstruction, index: int) -> None:
        self.instruction, self.index = instruction, index
        self.width = access_width(instruction)
        self.source = operands.address(instruction.operands[memory_operands(instruction)[1]])
        self.predicate = zero_fill(instruction)
        self.reads = operands.predicate(self.predicate) if self.predicate else None
        self.past_l1 = instruction.has("BYPASS")

    def record(self, m: Machine, lanes: Lanes, address: Value) -> bool:
        """Record the request as ncu counts it, or why it is unknown; return whether the written lanes are known."""
        selected, doubtful, condition = lanes
        written = not doubtful.any() and _known(address, selected)
        counted = selected
        if self.past_l1 and _is_p0(self.instruction.guard):
            under_p0 = self._counted_under_p0(m, selected, address)
            if under_p0 is None:
                return written
            counted = under_p0
        elif doubtful.any():
            return self._miss(m, "whether its predicate holds", condition)
        if not _known(address, counted):
            return self._miss(m, "its address", address)
        m.decide_request(address.tag)
        source = self._source(m, counted)
        if source is not None:
            m.log.record(m, self.index, address.bits, counted, source.bits, address.tag, source.tag)
        return source is not None and written

    def _miss(self, m: Machine, what: str, cause: Value | None) -> bool:
        m.log.miss(self.index, what, cause.origin if cause else m.now)
        return False

    def _counted_under_p0(self, m: Machine, selected: Bools, address: Value) -> Bools | None:
        """Return the lanes that ncu counts: none under P0; under !P0 all.

        None if one that is predicated off has no valid address, which is recorded: its registers may hold anything, and
        only ncu reads them.
        """
        guard = self.instruction.guard
        if guard is None or not guard.negated:
            return np.zeros_like(selected)
        if address.tag is not None:
            m.repeats.decide(address.tag)
        off = m.view.mask & ~selected
        at = (np.broadcast_to(address.bits, off.shape) & WINDOW).astype(np.int64)
        if bool((off & ((at + self.width > m.shared_size) | (at % self.width != 0))).any()):
            self._miss(m, "what ncu counts for lanes that are predicated off, at addresses that are not valid", None)
            return None
        return m.view.mask

    def _source(self, m: Machine, counted: Bools) -> Value | None:
        """Return where each lane reads, -1 for lanes that write zeros; None if that is unknown, which is recorded."""
        reading = self._reading(m, counted)
        if reading is None:
            return None
        source = self.source(m)
        if not _known(source, reading):
            self._miss(m, "the global address that it reads", source)
            return None
        m.decide_request(source.tag, self.width)
        aligned = source.bits.astype(np.int64) & -self.width  # .ZFILL adds the bytes that are not read
        return Value(np.where(reading, np.broadcast_to(aligned, counted.shape), -1), tag=source.tag)

    def _reading(self, m: Machine, counted: Bools) -> Bools | None:
        """Return the lanes that read, as ncu sees it; None if that is unknown, which is recorded."""
        if self.reads is None or self.predicate is None:
            return counted
        if self.past_l1 and (_is_p0(self.predicate) or _is_p0(self.instruction.guard)):
            if self.instruction.guard or (self.predicate.negated and self.instruction.has("ZFILL")):  # not measured
                self._miss(m, "what ncu counts for a copy with zeros if it does not read P0", None)
                return None
            return np.zeros_like(counted) if taken_for_zeros(self.instruction) else counted
        reads = self.reads(m)
        if not _known(reads, counted):
            self._miss(m, "which lanes write zeros", reads)
            return None
        m.decide(reads.tag)
        lanes: Bools = counted & reads.bits
        return lanes


def _known(value: Value, lanes: Bools) -> bool:
    """Say whether a value is known in all of the lanes."""
    return value.known is True or not bool((lanes & ~np.asarray(value.known)).any())
