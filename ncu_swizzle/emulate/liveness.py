"""What has to be computed, and what depends on how long the hardware takes: data flow over the code alone.

The instructions whose results matter feed shared-memory addresses, predicates and control flow; they are found by
live-variable analysis, backwards over the control flow. Whatever is left out affects no count.

Waits at mbarriers and requests for registers depend on time. Such an instruction gets the result that ends the wait.
How often the branches that read it repeat is unknown, and so is whatever they, or values computed from it, write.

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
from ncu_swizzle.emulate.code import MEMORY, SassInstruction
from ncu_swizzle.emulate.effects import (
    GLOBAL,
    LOCAL,
    PHASE_CHECK,
    REGISTERS,
    SHARED,
    VOTED,
    Effects,
    address_reads,
    control_word,
    effects,
    is_control,
    operand_number,
    order_reads,
    predicate_set,
    reading_guard,
    reads_by_lane,
    steers,
    writing_guard,
)
from ncu_swizzle.emulate.faults import blaming
from ncu_swizzle.emulate.flow import ANYWHERE, EXIT, Flow
from ncu_swizzle.smem.opcodes import Opcode
from ncu_swizzle.smem.operations import WORD

STACK_POINTER, FIRST_SLOT = 1, GLOBAL + 1  # R1; the memories of single words are behind all others


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What a kernel is prepared for besides counting wavefronts."""

    everything: bool = False  # keep all instructions, which must not change a count
    arrays: bool = False  # contents of global memory are known, so stores to it matter
    traffic: bool = False  # threads, branches, and requests to global and local memory are counted
    order: bool = False  # what orders accesses to shared memory is noted, and what copies and wgmmas read there
    probed: bool = False  # addresses of global memory and of tiles matter
    valued: frozenset[int] = frozenset()  # stores whose values matter
    counted: frozenset[int] = frozenset()  # instructions of which threads and requests are counted, and nothing else

    def addresses(self, row: Opcode) -> bool:
        """Whether addresses that decide nothing in shared memory matter."""
        probed = self.probed and (row.global_access or row.probed)
        return probed or (self.traffic and not self.counted and (row.global_access or row.local_access))


NOTHING_MORE = Demand()


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Which results are needed, by instruction, and whether contents of shared and local memory are needed at all."""

    needed: tuple[bool, ...]
    effects: tuple[Effects, ...]
    shared: bool
    local: bool
    others: bool  # whether what other warps store, or vote for, matters
    live: dict[int, int]  # by first instruction of a basic block: what is live before it
    alive_after: tuple[int, ...]  # by instruction: what is live behind it


def needed(flow: Flow, wanted: Demand = NOTHING_MORE) -> Slice:
    """Return the results needed to meet a demand."""
    listed = []
    for number, instruction in enumerate(flow.instructions):
        effect = _opaque_aware(flow.instructions[number], wanted)
        if wanted.counted and not steers(instruction):
            roots = effect.roots | address_reads(instruction) if number in wanted.counted else 0
            effect = replace(effect, roots=roots, reads=effect.reads | roots)
        more = address_reads(instruction) if wanted.addresses(instruction.row) else 0
        more |= order_reads(instruction) if wanted.order and not instruction.never else 0
        reads = effect.reads | more
        if number in wanted.valued:
            reads |= effects(instruction).reads & ((1 << REGISTERS) - 1)
        listed.append(replace(effect, reads=reads, roots=reads if number in wanted.valued else effect.roots | more))
    all_effects = tuple(listed)
    if wanted.everything:
        every = (1 << REGISTERS) - 1
        return Slice(
            needed=(True,) * len(all_effects), effects=all_effects, shared=True, local=True, others=True,
            live=dict.fromkeys(flow.leaders, every), alive_after=(every,) * len(all_effects),
        )  # fmt: skip
    all_effects = _with_slots(flow, all_effects)
    before, alive_after = _liveness(flow, all_effects)
    # What one thread stores another may load, anywhere in the code.
    if common := _ever(alive_after) & (1 << SHARED | 1 << GLOBAL):
        before, alive_after = _liveness(flow, all_effects, common)
    useful = tuple(bool(effect.writes & alive) for effect, alive in zip(all_effects, alive_after, strict=True))
    anywhere = _ever(alive_after)
    return Slice(
        needed=useful,
        effects=all_effects,
        shared=bool(anywhere >> SHARED & 1),
        local=bool(anywhere >> LOCAL & 1 or anywhere >> FIRST_SLOT),
        others=bool(anywhere & (1 << SHARED | 1 << GLOBAL | 1 << VOTED)),
        live=before,
        alive_after=tuple(alive_after),
    )


def read_alike(flow: Flow, needed_results: Slice, number: int) -> bool:
    """Return whether what a guarded instruction writes matters only to instructions of its block with the same guard.

    Lanes for which the guard is false may then hold anything: so the result is known even if the guard is not.
    """
    guard = reading_guard(flow.instructions[number])
    if guard is None or flow.last[number] == number:
        return False
    written = needed_results.effects[number].writes & needed_results.alive_after[number]
    for later in range(number + 1, flow.last[number] + 1):
        if not written:
            return True
        effect, same = needed_results.effects[later], reading_guard(flow.instructions[later]) == guard
        if effect.writes >> guard[0] & 1 or (effect.reads & written and not same):
            return False
        if same or flow.instructions[later].guard is None:
            written &= ~effect.writes
        written &= needed_results.alive_after[later]
    return not written


def _ever(alive_after: list[int]) -> int:
    return functools.reduce(operator.or_, alive_after, 0)


def _with_slots(flow: Flow, all_effects: tuple[Effects, ...]) -> tuple[Effects, ...]:
    """Return the effects with each word of the stack frame as its own memory, so that spilled registers are told
    apart; the same ones if local memory is accessed anywhere else than at fixed offsets from a fixed stack pointer.
    """
    slots: dict[int, tuple[int, bool]] = {}  # by instruction: the words that it accesses, and whether it fills them
    moved = [number for number, effect in enumerate(all_effects) if effect.writes >> STACK_POINTER & 1]
    for number, instruction in enumerate(flow.instructions):
        if instruction.row.local_access and not instruction.never:
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


def _opaque_aware(instruction: SassInstruction, wanted: Demand) -> Effects:
    with blaming(instruction):
        effect = effects(instruction)
    if not wanted.arrays:
        effect = replace(effect, reads=effect.reads & ~(1 << GLOBAL))
    if instruction.row.forgets and not wanted.everything:
        effect = replace(effect, reads=effect.roots | address_reads(instruction))
    if instruction.row.opaque:
        return Effects(
            reads=effect.roots, roots=effect.roots, writes=effect.writes & ((1 << REGISTERS) - 1), kills=effect.kills
        )
    return effect


def _liveness(flow: Flow, all_effects: tuple[Effects, ...], always: int = 0) -> tuple[dict[int, int], list[int]]:
    """Return what is live before every basic block and after every instruction, as bit sets.

    `always` is live everywhere. What is read in the lanes that a predicate selects is live in these alone: not before
    they have written it under the same predicate, and not before it is set so that it selects none.
    """
    instructions, leaders = flow.instructions, flow.leaders
    guards, by_lane = tuple(map(writing_guard, instructions)), tuple(map(reads_by_lane, instructions))
    constants = tuple(map(predicate_set, instructions))
    before = dict.fromkeys((*leaders, EXIT, ANYWHERE), 0)  # before ANYWHERE, what is live before any of it
    guarded_before: dict[int, dict[tuple[int, bool], int]] = {place: {} for place in before}  # of it, by guard
    after = [0] * len(all_effects)
    onward = {leader: flow.successors(flow.last[leader]) for leader in leaders}
    called = frozenset(flow.anywhere)
    changed = True
    while changed:
        changed = False
        for leader in reversed(leaders):
            alive = always
            guarded: dict[tuple[int, bool], int] = {}  # what is live in the lanes that a guard selects
            for successor in onward[leader]:
                alive |= before[successor]
                for guard, live in guarded_before[successor].items():
                    guarded[guard] = guarded.get(guard, 0) | live
            for number in range(flow.last[leader], leader - 1, -1):
                after[number] = functools.reduce(operator.or_, guarded.values(), alive)
                effect, own_guard, constant = all_effects[number], guards[number], constants[number]
                used = effect.reads if effect.writes & after[number] else effect.roots
                for other in [other for other in guarded if effect.writes >> other[0] & 1]:
                    live = guarded.pop(other)
                    alive |= live if constant != other else 0  # a guard is negated: it selects where it is false
                if own_guard is not None:
                    guarded[own_guard] = guarded.get(own_guard, 0) & ~effect.writes
                guarded = {other: live & ~effect.kills for other, live in guarded.items()}
                for selecting, some in by_lane[number].items():  # read before it writes, as P0 in P0 = P0 | P1
                    guarded[selecting] = guarded.get(selecting, 0) | used & some
                    used &= ~some
                alive = alive & ~effect.kills | used | always
            guarded = {guard: live & ~alive for guard, live in guarded.items() if live & ~alive}
            if (alive, guarded) != (before[leader], guarded_before[leader]):
                before[leader], guarded_before[leader] = alive, guarded
                before[ANYWHERE] |= functools.reduce(operator.or_, guarded.values(), alive) if leader in called else 0
                changed = True
    return {
        place: functools.reduce(operator.or_, guarded_before[place].values(), before[place]) for place in before
    }, after


# ---------------------------------------------------------------------------------------------- time


@dataclass(frozen=True)
class TimedBranches:
    """Branches that depend on time and what they may skip or repeat, instructions whose operands depend on it,
    and waits.
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
    regions, tainted = _decided(flow, effects, frozenset(sources))
    return TimedBranches(regions, tainted - sources, tuple(sorted(sources)))


def depending(flow: Flow, effects: Sequence[Effects], sources: frozenset[int]) -> frozenset[int]:
    """Return the instructions whose results, or whether they execute, depend on what these write."""
    regions, tainted = _decided(flow, effects, sources)
    return tainted.union(*regions.values())


def _decided(
    flow: Flow, effects: Sequence[Effects], sources: frozenset[int]
) -> tuple[dict[int, frozenset[int]], frozenset[int]]:
    """Return the branches that what these write decides, with what they may skip or repeat; and all that reads it."""
    regions: dict[int, frozenset[int]] = {}
    tainted: frozenset[int] = frozenset()
    while sources:
        written = sources.union(*regions.values())
        tainted = _reached(flow, effects, written)
        # A return decides nothing: it goes back to the call, which is in the region that led to it.
        controls = {n for n in tainted if is_control(flow.instructions[n])} - sources
        branches = {n for n in controls if flow.instructions[n].opcode != "RET"}
        new = branches - regions.keys()
        if not new:
            break
        for branch in new:  # what may run after it before all of its paths meet again
            stop = flow.post_dominators[branch]
            regions[branch] = flow.region(branch, stop, whole=stop == EXIT)
    return regions, tainted


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
