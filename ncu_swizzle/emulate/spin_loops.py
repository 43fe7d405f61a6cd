"""ATOMS.CAST.SPIN: the compare-and-swap in the loop that a floating-point atomic in shared memory compiles to.

Of the lanes whose words are in one bank, one swaps per execution; the others go round again. So an H100 did in all of
368 measured loops, of one warp and of eight, in which every lane had a word of its own (docs/wavefronts.md). If lanes
want the same word between two barriers of the block, how often they fail is the hardware's: the result is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import WINDOW, access_width, memory_operands
from ncu_swizzle.emulate.effects import effects, number
from ncu_swizzle.emulate.faults import Restart
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operations.registry import Step
from ncu_swizzle.emulate.parse import Operand, SassInstruction
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem.banks import WORD, Bools, Ints
from ncu_swizzle.smem.operations import WARP


class Contended(Restart):
    """Several lanes swap the same word: what these instructions return is unknown."""

    def __init__(self, instructions: frozenset[int]) -> None:
        super().__init__(instructions)
        self.instructions = instructions


def is_spin(instruction: SassInstruction) -> bool:
    """Say whether an instruction is a compare-and-swap of 32 bits in such a loop."""
    return instruction.opcode == "ATOMS" and instruction.has("SPIN") and access_width(instruction) == WORD


def ends_one(instructions: Sequence[SassInstruction], first: int, index: int) -> bool:
    """Say whether an instruction of a basic block, which begins at `first`, is the swap of such a loop."""
    return is_spin(instructions[index]) and swaps_what_it_loaded(instructions, first, index)


def swaps_what_it_loaded(instructions: Sequence[SassInstruction], first: int, index: int) -> bool:
    """Say whether an LDS of the same basic block, which begins at `first`, loads what the instruction compares with."""
    swap = instructions[index]
    position = memory_operands(swap)[0]
    address, expected = swap.operands[position], swap.operands[position + 1]
    wanted = number(expected)
    for before in range(index - 1, first - 1, -1):
        instruction = instructions[before]
        writes = effects(instruction).writes
        if wanted is not None and writes >> wanted & 1:
            loads = instruction.mnemonic == "LDS" and instruction.guard == swap.guard
            return loads and _same_address(instruction.operands[1], address)
        if any(writes >> (number(term) or 0) & 1 for term in address.terms):
            return False
    return False


def _same_address(one: Operand, other: Operand) -> bool:
    return one.terms == other.terms and one.offset == other.offset


class SpinLoop:
    """One ATOMS.CAST.SPIN; `step` records its request and leaves its result unknown."""

    def __init__(self, instruction: SassInstruction, index: int, step: Step) -> None:
        position = memory_operands(instruction)[0]
        self.index, self.record = index, step
        self.guard = operands.guard(instruction.guard)
        self.address = operands.address(instruction.operands[position])
        self.result = number(instruction.operands[0])

    def step(self, m: Machine) -> None:
        condition = self.guard(m) if self.guard else None
        address = self.address(m)
        self.record(m)
        selected, doubtful = m.selection(condition)
        unsure = address.known is not True and bool((selected & ~np.asarray(address.known)).any())
        if self.index in m.contended or doubtful.any() or unsure:
            return
        words = (np.broadcast_to(address.bits, selected.shape) & WINDOW).astype(np.int64) // WORD
        self._claim(m, words, selected)
        m.put(self.result, Value(_winners(words, selected).astype(np.uint32)), condition)

    def _claim(self, m: Machine, words: Ints, selected: Bools) -> None:
        """Record whose the words are until the next barrier; raise Contended if they are another lane's."""
        rows, lanes = np.nonzero(selected)
        block, word = m.view_blocks()[rows], words[rows, lanes]
        thread = m.thread[m.view.warps[rows], lanes] + 1
        owners, swapped_by = m.claims
        earlier = owners[block, word]
        owners[block, word] = thread
        lost = (owners[block, word] != thread) | ((earlier != 0) & (earlier != thread))
        if lost.any():
            others = swapped_by[block[lost], word[lost]]
            raise Contended(frozenset({self.index, *others[earlier[lost] != 0].tolist()}))
        swapped_by[block, word] = self.index


def _winners(words: Ints, selected: Bools) -> Bools:
    """Mark one lane per bank."""
    bank = np.where(selected, words % WARP, -1)
    winners = selected.copy()
    for lane in range(1, WARP):
        winners[:, lane] &= (bank[:, :lane] != bank[:, lane, None]).all(axis=1)
    return winners
