"""What has to be computed, and what depends on how long the hardware takes: data flow over the code alone.

The instructions whose results matter feed shared-memory addresses, predicates and control flow; they are found by
live-variable analysis, backwards over the control flow. What is left out affects no count.

Waits at mbarriers and requests for registers depend on time. Such an instruction gets the result that ends the wait.
How often the branches that read it go round is unknown, and so is whatever they, or values computed from it, write.

Threads that ask again execute a YIELD. The others of their warp, at the BSYNC where all were to reconverge, then go on
without them (so ncu counted on an H100, as often as a wait of `wgmma-ring` asked again): up to the next WARPSYNC.ALL,
the parts may issue the same instructions separately.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ncu_swizzle.emulate.accesses import access_width
from ncu_swizzle.emulate.code import MEMORY
from ncu_swizzle.emulate.effects import (
    CONTROL,
    GLOBAL,
    GLOBAL_ACCESS,
    LOCAL,
    LOCAL_ACCESS,
    MATRIX,
    PHASE_CHECK,
    REGISTERS,
    SHARED,
    TILES,
    Effects,
    address_reads,
    control_word,
    effects,
    operand_number,
    order_reads,
    reading_guard,
)
from ncu_swizzle.emulate.faults import blaming
from ncu_swizzle.emulate.flow import ANYWHERE, EXIT, Flow
from ncu_swizzle.smem.operations import WORD

# Only their addresses matter: their results are unknown whatever they read.
OPAQUE = MATRIX | {"LDSM", "LDTM", "TEX", "TLD", "TXQ", "SULD"}
# Whose addresses a probe needs, and those that decide sectors of global and local memory.
PROBED, MEMORY_ACCESS = GLOBAL_ACCESS | TILES, GLOBAL_ACCESS | LOCAL_ACCESS
STACK_POINTER, FIRST_SLOT = 1, GLOBAL + 1  # R1; the memories of single words are behind all others
# What they write is unknown to whoever loads it, as blocks run in any order: only where they write matters.
WRITE_ONLY = frozenset(("STG", "RED", "REDG"))


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Which results are needed, by instruction, and whether contents of shared and local memory are needed at all."""

    needed: tuple[bool, ...]
    effects: tuple[Effects, ...]
    shared: bool
    local: bool
    live: dict[int, int]  # by first instruction of a basic block: what is live before it
    alive_after: tuple[int, ...]  # by instruction: what is live behind it


def needed(
    flow: Flow,
    everything: bool = False,
    arrays: bool = False,
    addressed: frozenset[str] = frozenset(),
    order: bool = False,
    valued: frozenset[int] = frozenset(),
) -> Slice:
    """Return the slice; `everything` keeps all instructions, which must not change a count.

    `arrays`: contents of global memory are known, so stores to it matter; `addressed`: the opcodes whose addresses
    matter, besides those of shared memory; `order`: what orders accesses to shared memory does, and what copies and
    wgmmas read there; `valued`: stores whose values matter.
    """
    listed = []
    for number, instruction in enumerate(flow.instructions):
        effect = _opaque_aware(flow, number, arrays, everything)
        more = address_reads(instruction) if instruction.opcode in addressed else 0
        more |= order_reads(instruction) if order and not instruction.never else 0
        reads = effect.reads | more
        if number in valued:
            reads |= effects(instruction).reads & ((1 << REGISTERS) - 1)
        listed.append(replace(effect, reads=reads, roots=reads if number in valued else effect.roots | more))
    all_effects = tuple(listed)
    if everything:
        every = (1 << REGISTERS) - 1
        return Slice(
            needed=(True,) * len(all_effects), effects=all_effects, shared=True, local=True,
            live=dict.fromkeys(flow.leaders, every), alive_after=(every,) * len(all_effects),
        )  # fmt: skip
    all_effects = _with_slots(flow, all_effects)
    before, alive_after = _liveness(flow, all_effects)
    # What one thread stores another may load, wherever in the code it is.
    if common := _ever(alive_after) & (1 << SHARED | 1 << GLOBAL):
        before, alive_after = _liveness(flow, all_effects, common)
    useful = tuple(bool(effect.writes & alive) for effect, alive in zip(all_effects, alive_after, strict=True))
    anywhere = _ever(alive_after)
    return Slice(
        needed=useful,
        effects=all_effects,
        shared=bool(anywhere >> SHARED & 1),
        local=bool(anywhere >> LOCAL & 1 or anywhere >> FIRST_SLOT),
        live=before,
        alive_after=tuple(alive_after),
    )


def read_alike(flow: Flow, part: Slice, number: int) -> bool:
    """Return whether what a guarded instruction writes matters only to instructions of its block with the same guard.

    Lanes for which the guard is false may then hold anything: so the result is known even if the guard is not.
    """
    guard = reading_guard(flow.instructions[number])
    if guard is None or flow.last[number] == number:
        return False
    written = part.effects[number].writes & part.alive_after[number]
    for later in range(number + 1, flow.last[number] + 1):
        if not written:
            return True
        effect, same = part.effects[later], reading_guard(flow.instructions[later]) == guard
        if effect.writes >> guard[0] & 1 or (effect.reads & written and not same):
            return False
        if same or flow.instructions[later].guard is None:
            written &= ~effect.writes
        written &= part.alive_after[later]
    return not written


def _ever(alive_after: list[int]) -> int:
    return functools.reduce(operator.or_, alive_after, 0)


def _with_slots(flow: Flow, all_effects: tuple[Effects, ...]) -> tuple[Effects, ...]:
    """Return the effects with each word of the stack frame as a memory of its own, so that spilled registers are told
    apart; the same ones if local memory is accessed anywhere else than at fixed offsets from a fixed stack pointer.
    """
    slots: dict[int, tuple[int, bool]] = {}  # by instruction: the words that it accesses, and whether it fills them
    moved = [number for number, effect in enumerate(all_effects) if effect.writes >> STACK_POINTER & 1]
    for number, instruction in enumerate(flow.instructions):
        if instruction.opcode in LOCAL_ACCESS and not instruction.never:
            memory = next(operand for operand in instruction.operands if operand.kind == MEMORY)
            if [operand_number(term) for term in memory.terms] != [STACK_POINTER] or memory.terms[0].suffixes:
                return all_effects
            width = access_width(instruction)
            first, end = memory.offset // WORD, -(-(memory.offset + width) // WORD)
            slots[number] = ((1 << end) - (1 << first), width >= WORD) if first >= 0 else (0, False)
    first = min(slots, default=0)
    late = any(number > first or flow.first(number) != 0 for number in moved)
    if not slots or late or not all(words for words, _ in slots.values()):
        return all_effects
    every = functools.reduce(operator.or_, (words for words, _ in slots.values()))
    changed = list(all_effects)
    for number, effect in enumerate(all_effects):
        words, fills = slots.get(number, (every, False))
        reads = words << FIRST_SLOT if effect.reads >> LOCAL & 1 else 0
        writes = words << FIRST_SLOT if effect.writes >> LOCAL & 1 else 0
        kills = writes if fills and flow.instructions[number].guard is None else 0
        changed[number] = replace(
            effect,
            reads=effect.reads & ~(1 << LOCAL) | reads, writes=effect.writes | writes, kills=effect.kills | kills,
        )  # fmt: skip
    return tuple(changed)


def _opaque_aware(flow: Flow, number: int, arrays: bool, everything: bool) -> Effects:
    with blaming(flow.instructions[number]):
        effect = effects(flow.instructions[number])
    if not arrays:
        effect = replace(effect, reads=effect.reads & ~(1 << GLOBAL))
    if flow.instructions[number].opcode in WRITE_ONLY and not everything:
        effect = replace(effect, reads=effect.roots | address_reads(flow.instructions[number]))
    if flow.instructions[number].opcode in OPAQUE:
        return Effects(
            reads=effect.roots, roots=effect.roots, writes=effect.writes & ((1 << REGISTERS) - 1), kills=effect.kills
        )
    return effect


def _liveness(flow: Flow, all_effects: tuple[Effects, ...], always: int = 0) -> tuple[dict[int, int], list[int]]:
    """Return what is live before every basic block and after every instruction, as bit sets.

    `always` is live everywhere. What is read under a guard, and was written under the same one in the same basic
    block, is not live before: the lanes that read it have written it.
    """
    registers = (1 << REGISTERS) - 1
    guards = tuple(map(reading_guard, flow.instructions))
    leaders = flow.leaders
    before = dict.fromkeys((*leaders, EXIT, ANYWHERE), 0)  # before ANYWHERE, what is live before any of it
    after = [0] * len(all_effects)
    onward = {leader: flow.successors(flow.last[leader]) for leader in leaders}
    called = frozenset(flow.anywhere)
    changed = True
    while changed:
        changed = False
        for leader in reversed(leaders):
            alive = always
            for successor in onward[leader]:
                alive |= before[successor]
            guarded: dict[tuple[int, bool], int] = {}  # what is live in the lanes that a guard selects
            for number in range(flow.last[leader], leader - 1, -1):
                after[number] = functools.reduce(operator.or_, guarded.values(), alive)
                effect, guard = all_effects[number], guards[number]
                used = effect.reads if effect.writes & after[number] else effect.roots
                for other in [other for other in guarded if effect.writes >> other[0] & 1]:
                    alive |= guarded.pop(other)
                if guard is not None:
                    mine = used & registers & ~(1 << guard[0])
                    guarded[guard] = guarded.get(guard, 0) & ~effect.writes | mine
                    used &= ~mine
                guarded = {other: live & ~effect.kills for other, live in guarded.items()}
                alive = alive & ~effect.kills | used | always
            alive = functools.reduce(operator.or_, guarded.values(), alive)
            if alive != before[leader]:
                before[leader] = alive
                before[ANYWHERE] |= alive if leader in called else 0
                changed = True
    return before, after


# ---------------------------------------------------------------------------------------------- time


@dataclass(frozen=True)
class TimedBranches:
    """The branches that depend on time with what they may skip or repeat, the instructions whose operands depend on it,
    and the waits.
    """

    regions: dict[int, frozenset[int]]
    tainted: frozenset[int]
    sources: tuple[int, ...]

    def source(self, number: int) -> int:
        """Return the wait to blame for what depends on time at an instruction: the nearest one before it."""
        return max((source for source in self.sources if source <= number), default=self.sources[0])

    @cached_property
    def asking_again(self) -> frozenset[int]:
        """The branches that may go back to a wait."""
        return frozenset(branch for branch, region in self.regions.items() if not region.isdisjoint(self.sources))


def timing(flow: Flow, effects: Sequence[Effects]) -> TimedBranches:
    """Return what depends on time."""
    sources = {
        number
        for number, instruction in enumerate(flow.instructions)
        if control_word(instruction) == PHASE_CHECK or instruction.has("TRY_ALLOC")
    }
    regions: dict[int, frozenset[int]] = {}
    tainted: frozenset[int] = frozenset()
    while sources:
        written = frozenset(sources).union(*regions.values())
        tainted = _reached(flow, effects, written)
        # A return decides nothing: it goes back to the call, which is in the region of what led to it.
        branches = {n for n in tainted if control_word(flow.instructions[n]) in CONTROL - {"RET"}} - sources
        new = branches - regions.keys()
        if not new:
            break
        for branch in new:  # what may run after it before all of its paths meet again
            stop = flow.post_dominators[branch]
            regions[branch] = flow.region(branch, stop, whole=stop == EXIT)
    return TimedBranches(regions, tainted - sources, tuple(sorted(sources)))


def _reached(flow: Flow, effects: Sequence[Effects], written: frozenset[int]) -> frozenset[int]:
    """Return the instructions that read what these write, or what is computed from it."""
    before = dict.fromkeys((*flow.leaders, ANYWHERE), 0)
    tainted: set[int] = set()
    waiting = list(flow.leaders)
    while waiting:
        leader = waiting.pop()
        alive = before[leader]
        if leader == ANYWHERE:
            for other in flow.anywhere:
                if alive & ~before[other]:
                    before[other] |= alive
                    waiting.append(other)
            continue
        for number in range(leader, flow.last[leader] + 1):
            effect = effects[number]
            if effect.reads & alive:
                tainted.add(number)
            if number in written or effect.reads & alive:
                alive |= effect.writes
            else:
                alive &= ~effect.kills
        for successor in flow.successors(flow.last[leader]):
            if successor != EXIT and alive & ~before[successor]:
                before[successor] |= alive
                waiting.append(successor)
    return frozenset(tainted)
