"""What was seen at the first instruction of a loop, and when its iterations are watched again: see `loops`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ncu_swizzle.emulate.boxes import Repeat
from ncu_swizzle.emulate.checkpoint import Advance, numbers_in, same_bits_known
from ncu_swizzle.emulate.code import PRED
from ncu_swizzle.emulate.dependence import WORD, Tag, iteration, total
from ncu_swizzle.emulate.effects import BASES, REGISTERS
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.values import Value, merged
from ncu_swizzle.emulate.waits import Group, Waiting, Waits
from ncu_swizzle.smem.operations import Bools, Ints

# What a period of all threads does to their registers, when loops of several warps run side by side.
#
# Producers and consumers of a pipeline are in loops of their own and hold each other at mbarriers: while one goes
# round, the others do too. What their registers change by is compared lane by lane, as far as it matters where each
# thread is.


EVERYTHING = (1 << REGISTERS) - 1


class Running(Protocol):
    """The schedule whose threads are watched."""

    program: PreparedCode
    machine: Machine
    ready: list[Group]
    resting: list[Group]
    waiting: list[Waiting]
    waits: Waits


def _whereabouts(schedule: Running, group: Group) -> list[tuple[int, Group]]:
    """Return the groups of threads and where they go on; these of `group` run next."""
    after, waits = schedule.program.flow.following, schedule.waits
    here = [(each.pc, each) for each in (group, *schedule.ready, *schedule.resting, *waits.released)]
    here += [(after(each.group.pc), each.group) for each in schedule.waiting]
    here += [(after(each.group.pc), each.group) for each in waits.held]
    return here + [(after(each.pc), each) for each in waits.at_cluster]


def positions(schedule: Running, group: Group) -> int:
    """Return a number for where all threads are, and for the state of the mbarriers that hold them."""
    here = {(pc, each.warps.tobytes(), each.mask.tobytes()) for pc, each in _whereabouts(schedule, group)}
    barriers = (
        (at, each.phase.tobytes(), each.pending.tobytes(), each.transactions.tobytes())
        for at, each in schedule.machine.mbarriers.at.items()
    )
    return hash((frozenset(here), frozenset(barriers)))


def what_matters(schedule: Running, group: Group) -> dict[int, Bools]:
    """Return the lanes in which each register matters, given where their threads are."""
    m = schedule.machine
    lanes: dict[int, Bools] = {}
    unseen = m.live.copy()
    for pc, each in _whereabouts(schedule, group):
        unseen[each.warps] &= ~each.mask
        for number in numbers_in(schedule.program.live.get(pc, EVERYTHING)):
            lanes.setdefault(number, np.zeros(m.live.shape, bool))[each.warps] |= each.mask
    if unseen.any():  # at convergence barriers
        for number in range(REGISTERS):
            if m.registers[number] is not None:
                lanes[number] = lanes[number] | unseen if number in lanes else unseen
    return lanes


@dataclass
class Movement:
    """By how much registers change in a period: (W, 32), or (W, 1) if the register is uniform in each warp."""

    lanes: Mapping[int, Bools]  # by register: where it matters
    changes: dict[int, Ints]

    @classmethod
    def between(
        cls, lanes: Mapping[int, Bools], before: Sequence[Value | None], after: Sequence[Value | None]
    ) -> Movement | None:
        """Return what two states say; None if a predicate changes, or whether something is known."""
        changes: dict[int, Ints] = {}
        for number, where in lanes.items():
            old, new = before[number], after[number]
            if old is new:
                continue
            if old is None or new is None:
                return None
            change = _change(old, new, where, number)
            if change is None:
                return None
            if change.any():
                changes[number] = change
        return cls(lanes, changes)

    def now(self, schedule: Running, group: Group) -> Movement:
        """Return the same changes, where they matter now."""
        return Movement(what_matters(schedule, group), self.changes)

    def begin(self, m: Machine, axis: int) -> list[Value | None]:
        """Tag the registers that change; return all of them as they then are."""
        for number, change in self.changes.items():
            value = m.registers[number]
            if value is None or number not in self.lanes:
                continue
            where = _shaped(self.lanes[number], change.shape[1])
            parts = tuple(
                (part, total(tag, iteration(axis, int(step))))
                for lanes, tag in _parts(value, where)
                for step in np.unique(change[lanes & where])
                if (part := lanes & where & (change == step)).any()
            )
            tag = merged((tag for _, tag in parts), change.shape[1] == 1) if parts else None
            m.registers[number] = Value(
                value.bits, value.known, origin=value.origin, tag=tag, sure=value.sure, patches=parts or None
            )
        return list(m.registers)

    def happened(self, m: Machine, before: Sequence[Value | None]) -> bool:
        """Say whether the registers that matter changed so, and all others not."""
        return all(self._changed(before[number], m.registers[number], number) for number in self.lanes)

    def _changed(self, old: Value | None, new: Value | None, number: int) -> bool:
        expected, where = self.changes.get(number), self.lanes[number]
        if old is new:
            return expected is None or old is None or not _masked(expected, where).any()
        if old is None or new is None:
            return False
        change = _change(old, new, where, number)
        if change is None or not _same_tags(old, new, where):
            return False
        sure = np.broadcast_to(np.asarray(old.known), where.shape)[where].all()
        if not sure and old.origin != new.origin:
            return False
        wanted = np.zeros((1, 1), np.int64) if expected is None else _masked(expected, where)
        wanted = np.where(np.asarray(old.known), wanted, 0)
        return bool((np.broadcast_to(wanted, where.shape) == change)[where].all())

    def apply(self, m: Machine, times: int) -> None:
        """Let the changes happen so many times more."""
        for number, change in self.changes.items():
            value = m.registers[number]
            if value is None or number not in self.lanes:
                continue
            by = (_masked(change, self.lanes[number]) * times % WORD).astype(np.uint32)
            m.registers[number] = Value(
                value.bits + by, value.known, origin=value.origin, tag=value.tag, sure=value.sure, patches=value.patches
            )


def _shaped(where: Bools, wide: int) -> Bools:
    """Return lanes as one per warp if values are so."""
    return np.asarray(where.any(axis=1, keepdims=True)) if wide == 1 else where


def _masked(change: Ints, where: Bools) -> Ints:
    masked: Ints = np.where(_shaped(where, change.shape[1]), change, 0)
    return masked


def _change(old: Value, new: Value, where: Bools, number: int) -> Ints | None:
    """Return by how much a register changed, (W, 32) or (W, 1); None if that is no number."""
    wide = max(old.bits.shape[1], new.bits.shape[1])
    where = _shaped(where, wide) if _narrow(old, new) else where
    known, still = (np.broadcast_to(np.asarray(value.known), where.shape) for value in (old, new))
    if bool((known != still)[where].any()):
        return None
    before, after = (np.broadcast_to(value.bits, where.shape) for value in (old, new))
    difference = np.where(where & known, after.astype(np.int64) - before.astype(np.int64), 0)
    change: Ints = (difference + WORD // 2) % WORD - WORD // 2
    moves = bool(change.any())
    if (moves and number >= BASES[PRED]) or not same_bits_known(old, new, where, moves):
        return None
    return change


def _narrow(*values: Value) -> bool:
    """Say whether values have one number for all lanes of a warp, known or not."""
    return all(v.bits.shape[1] == 1 and (isinstance(v.known, bool) or v.known.shape[1] == 1) for v in values)


def _parts(value: Value, where: Bools) -> Iterator[tuple[Bools, Tag | None]]:
    if value.patches is None:
        yield where, value.tag
        return
    for lanes, tag in value.patches:
        yield _shaped(lanes, where.shape[1]), tag


def _same_tags(old: Value, new: Value, where: Bools) -> bool:
    """Say whether values depend alike on blocks and iterations, lane by lane."""
    return all(
        tag == other or not bool((lanes & others & where).any())
        for lanes, tag in _parts(old, where)
        for others, other in _parts(new, where)
    )


FACTORS = (1, 2, 4, 8, 16)  # of the period, tried one after the other
MOST_WAIT = 12  # log2 of the visits after which a loop is tried again at last
MOST_TRIES = 3  # of a movement that was right before


@dataclass(frozen=True, kw_only=True)
class PeriodStart:
    """A visit of a loop from which a period of all threads is followed."""

    visit: int
    step: int
    period: int
    registers: Sequence[Value | None]


@dataclass(kw_only=True)
class Header:
    """The first instruction of a loop, and what was seen there."""

    numbers: Sequence[int]  # the registers that matter there
    body: frozenset[int]
    warps: Ints | None = None
    mask: Bools | None = None
    samples: list[Ints] = field(default_factory=list)
    visits: int = 0
    resume: int = 0  # the visit from which on it is watched
    failures: int = 0
    factor: int = 1
    hint: tuple[int, Advance | Movement] | None = None  # what was right the last time
    together: bool = False  # whether periods of all threads are watched
    places: list[int] = field(default_factory=list)  # where all threads were
    mark: PeriodStart | None = None
    place: int = 0  # where all threads were when a period began
    duration: int = 0  # basic blocks that a period took
    finished: bool = False  # whether its threads are about to leave it, until it is entered again

    def same(self, group: Group) -> bool:
        """Say whether the same threads were here before."""
        if self.warps is None or self.mask is None or len(self.warps) != len(group.warps):
            return False
        return bool((self.warps == group.warps).all()) and bool((self.mask == group.mask).all())

    def forget(self, group: Group) -> None:
        """Watch other threads from now on."""
        self.warps, self.mask, self.hint = group.warps, group.mask, None
        self.unlearn()

    def unlearn(self) -> None:
        """Forget what was seen of the threads that are watched."""
        self.samples.clear()
        self.places.clear()
        self.mark = None

    def failed(self, repeat: Repeat, left: bool) -> None:
        """Try again, ever more rarely; with another period, unless threads only `left` the loop."""
        self.failures += 1
        self.resume = self.visits + (1 << min(self.failures, MOST_WAIT))
        if self.together and self.hint is not None and self.failures < MOST_TRIES:
            return
        if not left and not self.together:
            self.factor = repeat.stride if repeat.stride > 1 else FACTORS[self.failures % len(FACTORS)]
        self.hint = None
        self.unlearn()

    def entered_again(self) -> bool:
        """Say whether a register that grows in the loop has fallen since the last visit, or the other way round."""
        if self.hint is None or not isinstance(self.hint[1], Movement) or len(self.samples) < 2:
            return False
        step, lanes = self.samples[-1] - self.samples[-2], self.hint[1].changes
        return any(
            number in lanes and int(step[at]) * int(np.sign(lanes[number].sum())) < 0
            for at, number in enumerate(self.numbers)
        )
