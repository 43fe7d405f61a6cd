"""Loops that wait for other threads without a barrier: polled flags, compare-and-swap."""

from __future__ import annotations

from collections.abc import Sequence

from ncu_swizzle.emulate.accesses import memory_operands
from ncu_swizzle.emulate.code import INTEGER, STEP, SassInstruction

MOST_POLLING = 16  # instructions of a loop that waits for a flag
POLLING = frozenset(("LDS", "YIELD", "ISETP", "NANOSLEEP", "NOP", "LOP3", "MEMBAR", "MOV", "PRMT"))


def polling(instructions: Sequence[SassInstruction]) -> frozenset[int]:
    """Return the loads of loops that do nothing but load until a value has come."""
    found: set[int] = set()
    for end, instruction in enumerate(instructions):
        target = next((operand.number for operand in instruction.operands if operand.kind == INTEGER), None)
        if instruction.opcode != "BRA" or instruction.guard is None or target is None:
            continue
        begin = end - (instruction.offset - target) // STEP
        body = range(max(begin, 0), end)
        opcodes = {instructions[number].opcode for number in body}
        if 0 < end - begin <= MOST_POLLING and not opcodes - POLLING:
            found |= {number for number in body if instructions[number].opcode == "LDS"}
    return frozenset(found)


def strong(instruction: SassInstruction) -> bool:
    """Return whether a load or store is strong (relaxed, acquire or release): it races with no other strong access.

    Such are volatile accesses and those of cuda::atomic_ref through generic addresses; LDS and STS do not say it.
    """
    return instruction.opcode in ("LD", "ST") and instruction.has("STRONG")


def compared_and_swapped(instructions: Sequence[SassInstruction]) -> frozenset[int]:
    """Return the loads of what a compare-and-swap then expects at the same address: together, they are an atomic."""
    found: set[int] = set()
    for at, swap in enumerate(instructions):
        if swap.opcode not in ("ATOMS", "ATOM") or not swap.has("SPIN", "CAS"):
            continue
        memory = swap.operands[memory_operands(swap)[0]]
        for number in range(max(0, at - MOST_POLLING), at):
            load = instructions[number]
            if load.opcode in ("LDS", "LD"):
                other = load.operands[memory_operands(load)[0]]
                if (other.terms, other.offset) == (memory.terms, memory.offset):
                    found.add(number)
    return frozenset(found)
