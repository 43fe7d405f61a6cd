"""What depends on how long the hardware takes, found in the code alone: waits at mbarriers, requests for registers.

Such an instruction gets the result that ends the wait. How often the branches that read it go round is unknown, and
so is whatever they, or values computed from it, write.

Threads that ask again execute a YIELD. The others of their warp, at the BSYNC where all were to reconverge, then go on
without them (so ncu counted on an H100, as often as a wait of `wgmma-ring` asked again): up to the next WARPSYNC.ALL,
the parts may issue the same instructions separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ncu_swizzle.emulate.effects import CONTROL, PHASE_CHECK, Effects, control_word
from ncu_swizzle.emulate.flow import EXIT, Flow
from ncu_swizzle.emulate.parse import SassInstruction


@dataclass(frozen=True)
class Timing:
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


def until_reconverged(flow: Flow, start: int) -> frozenset[int]:
    """Return what parts of a warp that are at an instruction may issue separately."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        number = waiting.pop()
        if number == EXIT or number in seen:
            continue
        seen.add(number)
        instruction = flow.instructions[number]
        if instruction.opcode != "WARPSYNC" or not instruction.has("ALL"):
            waiting += flow.successors(number)
    return frozenset(seen)


def timing(flow: Flow, effects: Sequence[Effects]) -> Timing:
    """Return what depends on time."""
    sources = {number for number, instruction in enumerate(flow.instructions) if _waits(instruction)}
    regions: dict[int, frozenset[int]] = {}
    tainted: frozenset[int] = frozenset()
    while sources:
        written = frozenset(sources).union(*regions.values())
        tainted = _reached(flow, effects, written)
        branches = {n for n in tainted if control_word(flow.instructions[n]) in CONTROL} - sources
        new = {branch: _region(flow, branch) for branch in branches if branch not in regions}
        if not new:
            break
        regions |= new
    return Timing(regions, tainted - sources, tuple(sorted(sources)))


def _waits(instruction: SassInstruction) -> bool:
    return control_word(instruction) == PHASE_CHECK or instruction.has("TRY_ALLOC")


def _region(flow: Flow, branch: int) -> frozenset[int]:
    """Return what may run after a branch before all of its paths meet again."""
    stop = flow.post_dominators[branch]
    return flow.region(branch, stop, whole=stop == EXIT)


def _reached(flow: Flow, effects: Sequence[Effects], written: frozenset[int]) -> frozenset[int]:
    """Return the instructions that read what these write, or what is computed from it."""
    before = dict.fromkeys(flow.leaders, 0)
    tainted: set[int] = set()
    waiting = list(flow.leaders)
    while waiting:
        leader = waiting.pop()
        alive = before[leader]
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
