"""Loops that wait for other threads without a barrier: polled flags, locks; and which loads a value comes from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from ncu_swizzle.emulate.accesses import memory_operands
from ncu_swizzle.emulate.code import INTEGER, REG, STEP, SassInstruction
from ncu_swizzle.emulate.effects import REGISTERS, effects, numbers_in, operand_number, source_width
from ncu_swizzle.emulate.flow import Flow, reachable
from ncu_swizzle.smem.opcodes import Memory, Opcode, Shared

MOST_POLLING = 16  # instructions of a loop that waits for a flag
_COMPARING = frozenset(("YIELD", "ISETP", "NANOSLEEP", "NOP", "LOP3", "MEMBAR", "MOV", "PRMT"))


def _asks(row: Opcode) -> bool:
    return row.returns_words and row.atomic


def _stores(row: Opcode) -> bool:
    """Return whether an opcode writes memory and returns nothing, or is a barrier."""
    access = row.addressed or row.global_access or row.writes == Memory.VOTED
    return access and bool(row.writes) and not row.results


def polling(instructions: Sequence[SassInstruction]) -> frozenset[int]:
    """Return the loads of loops that only load until a value arrives."""
    polls: set[int] = set()
    for end, instruction in enumerate(instructions):
        target = next((operand.number for operand in instruction.operands if operand.kind == INTEGER), None)
        if instruction.opcode != "BRA" or instruction.guard is None or target is None:
            continue
        begin = end - (instruction.offset - target) // STEP
        body = range(max(begin, 0), end)
        loads = {number for number in body if instructions[number].row.loads_only_shared}
        others = {instructions[number].opcode for number in body if number not in loads}
        if 0 < end - begin <= MOST_POLLING and not others - _COMPARING:
            polls |= loads
    return frozenset(polls)


def strong(instruction: SassInstruction) -> bool:
    """Return whether a load or store is strong (relaxed, acquire or release): it races with no other strong access.

    Examples are volatile accesses and those of cuda::atomic_ref through generic addresses; with shared addresses
    they do not show it.
    """
    row = instruction.row
    return row.shared is Shared.GENERIC and not row.atomic and instruction.has("STRONG")


def compared_and_swapped(instructions: Sequence[SassInstruction]) -> frozenset[int]:
    """Return the loads whose value a compare-and-swap at the same address expects: the pair is one atomic."""
    swapped: set[int] = set()
    for at, swap in enumerate(instructions):
        if not (swap.row.addressed and swap.row.atomic) or not swap.has("SPIN", "CAS"):
            continue
        memory = swap.operands[memory_operands(swap)[0]]
        for number in range(max(0, at - MOST_POLLING), at):
            load = instructions[number]
            if load.row.loads_shared:
                other = load.operands[memory_operands(load)[0]]
                if (other.terms, other.offset) == (memory.terms, memory.offset):
                    swapped.add(number)
    return frozenset(swapped)


def loads_behind(flow: Flow, number: int, operand: int) -> frozenset[int]:
    """Return the loads and atomics that the value of an instruction's operand, by its position, is computed from."""
    instruction = flow.instructions[number]
    first = operand_number(instruction.operands[operand])
    if first is None:
        return frozenset()
    return _loads_of(flow, number, range(first, first + source_width(instruction, operand)))


def _loads_of(flow: Flow, number: int, wanted: Iterable[int]) -> frozenset[int]:
    """Return the loads and atomics that registers are computed from which an instruction reads."""
    loads: set[int] = set()
    visited: set[tuple[int, int]] = set()
    waiting = [(before, register) for before in flow.before[number] for register in wanted]
    while waiting:
        at, register = waiting.pop()
        if (at, register) in visited:
            continue
        visited.add((at, register))
        writer = flow.instructions[at]
        written = effects(writer)
        if written.writes >> register & 1:
            if writer.row.returns_words and not writer.row.local_access:
                loads.add(at)
            else:
                guard = None if writer.guard is None else operand_number(writer.guard)
                read = numbers_in(written.reads & ((1 << REGISTERS) - 1))
                waiting += [(before, one) for before in flow.before[at] for one in read if one != guard]
        if not written.kills >> register & 1:
            waiting += [(before, register) for before in flow.before[at]]
    return frozenset(loads)


def awaits_others(flow: Flow, region: Collection[int]) -> bool:
    """Return whether code has a loop that reads one word until another thread changes it."""
    polls = polling(flow.instructions)
    asked = {number: flow.instructions[number] for number in region}
    asking = (n for n, each in asked.items() if n in polls or _asks(each.row) or strong(each))
    return any(_waits(flow, number, _loop(flow, region, number), plain=number in polls) for number in asking)


def _loop(flow: Flow, region: Collection[int], number: int) -> set[int]:
    """Return what runs between two executions of an instruction."""
    after = partial(flow.successors, into_calls=False)
    onward = reachable(after(number), after, region)
    return onward & reachable(flow.before[number], flow.before.__getitem__, region)


def _waits(flow: Flow, number: int, loop: Collection[int], *, plain: bool) -> bool:
    """Return whether a loop runs until another thread changes the word that an instruction in it reads.

    That is a lock or a flag: always the same word, and the loop stores nothing else. A loop that goes from word to
    word probes a table, and one whose compare-and-swap expects what it loaded before updates: some thread progresses.
    """
    asked = flow.instructions[number]
    if any(_stores(flow.instructions[at].row) for at in loop):
        return False
    words = [operand_number(term) for term in asked.operands[memory_operands(asked)[0]].terms]
    written = 0
    for at in loop:
        written |= effects(flow.instructions[at]).writes
    if any(word is not None and written >> word & 1 for word in words):
        return False
    ends = [at for at in loop if not set(flow.successors(at, into_calls=False)) <= set(loop)]
    guards = ((at, operand_number(guard)) for at in ends if (guard := flow.instructions[at].guard) is not None)
    if not any(one is not None and number in _loads_of(flow, at, [one]) for at, one in guards):
        return False
    if not _asks(asked.row):
        return plain or strong(asked)
    if not asked.has("CAS", "SPIN"):
        return asked.has("EXCH", "ADD", "OR", "AND")
    expected = memory_operands(asked)[0] + 1
    known = asked.operands[expected : expected + 1]
    return not asked.has("SPIN") and not (known and known[0].kind == REG and loads_behind(flow, number, expected))
