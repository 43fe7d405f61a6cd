"""The instructions whose results matter: those that feed shared-memory addresses, predicates and control flow.

Found by live-variable analysis, backwards over the control flow. What is left out affects no count.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass, replace

from ncu_swizzle.emulate.effects import (
    GLOBAL,
    GLOBAL_ACCESS,
    LOCAL,
    MATRIX,
    REGISTERS,
    SHARED,
    TILES,
    Effects,
    address_reads,
    effects,
    reading_guard,
)
from ncu_swizzle.emulate.faults import blaming
from ncu_swizzle.emulate.flow import EXIT, Flow
from ncu_swizzle.emulate.parse import SassInstruction

# Only their addresses matter: their results are unknown whatever they read.
OPAQUE = MATRIX | {"LDSM", "TEX", "TLD", "TXQ", "SULD"}
# What they write is unknown to whoever loads it, as blocks run in any order: only where they write matters.
WRITE_ONLY = frozenset(("STG", "RED", "REDG"))


@dataclass(frozen=True)
class Slice:
    """Which results are needed, by instruction, and whether contents of shared and local memory are needed at all."""

    needed: tuple[bool, ...]
    effects: tuple[Effects, ...]
    shared: bool
    local: bool
    live: dict[int, int]  # by first instruction of a basic block: what is live before it


def needed(flow: Flow, everything: bool = False, arrays: bool = False, addresses: bool = False) -> Slice:
    """Return the slice; `everything` keeps all instructions, which must not change a count.

    `arrays`: contents of global memory are known, so stores to it matter; `addresses`: those
    of global memory do, and what tensor copies and wgmmas say of tiles.
    """
    all_effects = tuple(_opaque_aware(flow, number, arrays, everything) for number in range(len(flow.instructions)))
    if addresses:
        all_effects = tuple(map(_with_addresses, all_effects, flow.instructions))
    if everything:
        everywhere = dict.fromkeys(flow.leaders, (1 << REGISTERS) - 1)
        return Slice((True,) * len(all_effects), all_effects, True, True, everywhere)
    before, alive_after = _liveness(flow, all_effects)
    # What one thread stores another may load, wherever in the code it is.
    if common := _ever(alive_after) & (1 << SHARED | 1 << GLOBAL):
        before, alive_after = _liveness(flow, all_effects, common)
    useful = tuple(bool(effect.writes & alive) for effect, alive in zip(all_effects, alive_after, strict=True))
    anywhere = _ever(alive_after)
    return Slice(useful, all_effects, bool(anywhere >> SHARED & 1), bool(anywhere >> LOCAL & 1), before)


def _ever(alive_after: list[int]) -> int:
    return functools.reduce(operator.or_, alive_after, 0)


def _with_addresses(effect: Effects, instruction: SassInstruction) -> Effects:
    roots = address_reads(instruction) if instruction.opcode in GLOBAL_ACCESS | TILES else 0
    return replace(effect, reads=effect.reads | roots, roots=effect.roots | roots)


def _opaque_aware(flow: Flow, number: int, arrays: bool, everything: bool) -> Effects:
    with blaming(flow.instructions[number]):
        effect = effects(flow.instructions[number])
    if not arrays:
        effect = replace(effect, reads=effect.reads & ~(1 << GLOBAL))
    if flow.instructions[number].opcode in WRITE_ONLY and not everything:
        effect = replace(effect, reads=effect.roots | address_reads(flow.instructions[number]))
    if flow.instructions[number].opcode in OPAQUE:
        return Effects(effect.roots, effect.roots, effect.writes & ((1 << REGISTERS) - 1), effect.kills)
    return effect


def _liveness(flow: Flow, all_effects: tuple[Effects, ...], always: int = 0) -> tuple[dict[int, int], list[int]]:
    """Return what is live before every basic block and after every instruction, as bit sets.

    `always` is live everywhere. What is read under a guard, and was written under the same one in the same basic
    block, is not live before: the lanes that read it have written it.
    """
    registers = (1 << REGISTERS) - 1
    guards = tuple(map(reading_guard, flow.instructions))
    leaders = flow.leaders
    before = dict.fromkeys(leaders, 0)
    after = [0] * len(all_effects)
    onward = {leader: flow.successors(flow.last[leader]) for leader in leaders}
    changed = True
    while changed:
        changed = False
        for leader in reversed(leaders):
            alive = always
            for successor in onward[leader]:
                alive |= before[successor] if successor != EXIT else 0
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
                changed = True
    return before, after
