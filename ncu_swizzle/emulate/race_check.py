"""Which blocks of a launch are checked for races, and what was found in all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.base.timeline import Timeline
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.events import Hazard, Hazards, Party
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.race_comparisons import IN_WARP, LOST
from ncu_swizzle.emulate.races import Races
from ncu_swizzle.emulate.timeline import timeline_of
from ncu_swizzle.smem.opcodes import WRITE, Opcode, Shared
from ncu_swizzle.smem.operations import Ints

MOST_WORK = 1 << 24  # units and agents checked per launch
MOST_DOMAINS = 16
BETWEEN_WARPS = (codes.RACE, codes.ASYNC_RACE)


def _notes_values(row: Opcode) -> bool:
    return row.stored and not row.atomic and row.shared is Shared.LANES


@dataclass(kw_only=True)
class RaceCheck:
    """The races in a launch: in the first block of each kind, while that is cheap."""

    plain: Callable[[], PreparedCode] | None = None  # makes the code that notes nothing
    valued: frozenset[int] = frozenset()  # stores whose values are compared
    kinds: set[bytes] = field(default_factory=set)
    found: dict[tuple[str, int, int], Hazard] = field(default_factory=dict)
    lacking: dict[str, int | None] = field(default_factory=dict)  # see `HappensBefore`
    blocks: int = 0
    work: int = 0
    domains: int = 0
    timeline: Timeline | None = None

    def add(self, machine: Machine, instructions: Sequence[SassInstruction], kinds: Sequence[bytes]) -> Iterator[Ints]:
        """Check the events of blocks that ran together; `kinds` are digests of what each of them did.

        Yields blocks of new kinds whose events were not kept: they have to run once more.
        """
        log, size = machine.events, machine.clusters.size
        if log is None:
            return
        self.found = {**machine.hazards, **self.found}
        events = log.events[: machine.happened]
        unnoted = log.full and not (log.events or log.nbytes)
        again: dict[tuple[bytes, ...], Ints] = {}
        for first in range(0, len(kinds), size):
            these = kinds[first : first + size]
            if self.kinds.issuperset(these):
                continue
            if self.domains + len(again) == MOST_DOMAINS or self.work > MOST_WORK:
                self.lacking["more kinds of blocks than are looked at"] = None
                break
            if unnoted or (log.full and len(kinds) > size):
                again.setdefault(tuple(these), np.arange(first, first + size))
                continue
            self.kinds.update(these)
            if log.full:
                self.lacking["more accesses and barriers than are kept"] = None
                continue
            races = Races(machine=machine, instructions=instructions, blocks=range(first, first + size))
            races.run(events)
            self.found = {**races.found, **self.found}
            if not (self.domains or self.valued):
                self.timeline = timeline_of(machine, instructions, events, races.blocks)
            self.lacking.update(races.lacking)
            self.work += races.work
            self.domains += 1
            self.blocks += size
        if unnoted and again:
            yield np.concatenate(list(again.values()))
        elif again:  # too many: those of one cluster may be few enough
            yield from again.values()
        self.kinds.update(kind for these in again for kind in these)

    def racing_stores(self, instructions: Sequence[SassInstruction]) -> frozenset[int]:
        """Return the stores that race with stores, whose values may be the same."""
        index = {instruction.offset: number for number, instruction in enumerate(instructions)}
        pairs = (each.parties for each in self.found.values() if each.code in (codes.RACE, codes.SAME_PLACE))
        stores = {index[party.offset] for parties in pairs if _stores(parties) for party in parties}
        return frozenset(number for number in stores if _notes_values(instructions[number].row))

    def tell_apart(self, valued: RaceCheck, sampled: bool) -> None:
        """Call races between stores harmless if both stored the same in another run, whose inputs may be a sample."""
        for key in [key for key in self.found if key[0] in (codes.RACE, codes.SAME_PLACE)]:
            other = {kind: valued.found.get((kind, *key[1:])) for kind in (key[0], codes.SAME_VALUE)}
            if (same := other[codes.SAME_VALUE]) is not None and other[key[0]] is None:
                what = f"in a sample of random inputs, {same.what}" if sampled else same.what
                del self.found[key]
                self.found[codes.SAME_VALUE, key[1], key[2]] = replace(same, what=what)

    def hazards(self) -> Hazards:
        """Return what was found."""
        # Lanes of one warp are not named as well if threads of two warps do the same, or updates are lost; and a
        # flag, which is stored and polled, is named once.
        races = {frozenset(key[1:]): each for key, each in self.found.items() if key[0] in BETWEEN_WARPS}
        lost = {number for numbers, each in races.items() if each.what == LOST for number in numbers}
        hidden = {
            key
            for key in self.found
            if (key[0] in IN_WARP and frozenset(key[1:]) in races)
            or (key[0] == codes.LANES and lost.intersection(key[1:]))
            or (key[0] == codes.POLLED and key[1] > key[2] and (key[0], key[2], key[1]) in self.found)
        }
        ordered = tuple(self.found[key] for key in sorted(self.found.keys() - hidden))
        return Hazards(found=ordered, blocks=self.blocks, lacking=dict(self.lacking), timeline=self.timeline)


def _stores(parties: Sequence[Party]) -> bool:
    return len(parties) == 2 and all(party.does == WRITE for party in parties)
