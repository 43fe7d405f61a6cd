"""Run an iteration of a loop once for all that follow it, if these certainly do the same.

When threads are at a loop's first instruction again and again, and the registers that matter have changed by the same
steps from one time to the next, the following iteration (or the following few, if the steps repeat only after some)
runs with tags on these registers. If it leaves everything as it was but for these steps, then the next one does the
same with registers one step on, and so on, as long as every decision is the same: `repeats` knows for how long. These
iterations are not run: their counts are added, with the requests whose addresses follow the steps. In all other cases
the state from before is restored, and the iteration runs without tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ncu_swizzle.emulate.accesses import Unknown
from ncu_swizzle.emulate.advance import Advance, numbers_in, sample, strip
from ncu_swizzle.emulate.checkpoint import Checkpoint
from ncu_swizzle.emulate.dependence import LOOP_AXES
from ncu_swizzle.emulate.following import Shifts
from ncu_swizzle.emulate.groups import Group
from ncu_swizzle.emulate.limits import Clock
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.recurrence import Circles
from ncu_swizzle.emulate.repeats import ENDLESS, Repeat
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.emulate.waits import Waits
from ncu_swizzle.smem.banks import Bools, Ints

PERIODS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)  # iterations after which the steps may repeat
SAMPLES = 2 * PERIODS[-1] + 1
FACTORS = (1, 2, 4, 8, 16)  # of the period, tried one after the other
MOST_WAIT = 12  # log2 of the visits after which a loop is tried again at last


class Running(Protocol):
    """The schedule whose loops are watched."""

    program: PreparedCode
    machine: Machine
    clock: Clock
    unknown: dict[int, Unknown]
    circles: Circles
    reconvergence: list[int]
    waits: Waits
    issued: Ints


@dataclass
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
    hint: tuple[int, Advance] | None = None  # what was right the last time

    def same(self, group: Group) -> bool:
        """Say whether the same threads were here before."""
        if self.warps is None or self.mask is None or len(self.warps) != len(group.warps):
            return False
        return bool((self.warps == group.warps).all()) and bool((self.mask == group.mask).all())

    def forget(self, group: Group) -> None:
        """Watch other threads from now on."""
        self.warps, self.mask, self.hint = group.warps, group.mask, None
        self.samples.clear()

    def failed(self, repeat: Repeat, left: bool) -> None:
        """Try again, ever more rarely; with another period, unless threads only `left` the loop."""
        self.failures += 1
        self.resume = self.visits + (1 << min(self.failures, MOST_WAIT))
        if not left:
            self.factor = repeat.stride if repeat.stride > 1 else FACTORS[self.failures % len(FACTORS)]
        self.hint = None
        self.samples.clear()


@dataclass(eq=False)
class Watched:
    """An iteration that runs with tags."""

    header: Header
    group: Group
    advance: Advance
    repeat: Repeat
    checkpoint: Checkpoint
    period: int
    left: int  # visits of the header until it ends
    before: Sequence[Value | None]  # registers


class Loops:
    """The loops of one run."""

    def __init__(self, schedule: Running) -> None:
        self.schedule, self.machine = schedule, schedule.machine
        program = schedule.program
        self.headers = {
            header: Header(numbers_in(program.live[header]), body) for header, body in program.flow.loops.items()
        }
        self.active: list[Watched] = []

    def arrive(self, group: Group) -> Group:
        """Return the threads to run next: these, perhaps many iterations on, or those of an iteration to run again."""
        if self.active and (lost := self._lost(group)) is not None:
            return self._give_up(lost, not lost.repeat.failed)
        header = self.headers.get(group.pc)
        if header is None:
            return group
        while self.active and self.active[-1].header is header:
            watched = self.active[-1]
            watched.left -= 1
            if watched.left:
                return group
            if not self._ended(watched):
                return self._give_up(watched, False)
        self._visit(header, group)
        return group

    def untracked(self, number: int) -> None:
        """Give up if an instruction whose effects are not followed reads what depends on the iteration."""
        program, m = self.schedule.program, self.machine
        reads = program.effects[number].reads
        values = [m.registers[register] for register in numbers_in(reads)]
        tags = [value.tag for value in values if value is not None]
        if program.instructions[number].opcode == "BMOV" or any(tag is not None and tag.loops for tag in tags):
            m.repeats.fail()

    # ------------------------------------------------------------------------------------------ begin

    def _visit(self, header: Header, group: Group) -> None:
        header.visits += 1
        if header.visits < header.resume or len(self.active) == LOOP_AXES or "claims" in vars(self.machine):
            return
        if not header.same(group):
            header.forget(group)
        if header.hint is not None:
            self._begin(header, group, *header.hint)
            return
        warp = int(group.warps[0])
        header.samples.append(sample(self.machine, header.numbers, warp, int(group.mask[0].argmax())))
        del header.samples[:-SAMPLES]
        found = self._recurrence(header, group)
        if found is not None:
            self._begin(header, group, *found)

    def _recurrence(self, header: Header, group: Group) -> tuple[int, Advance] | None:
        """Return after how many visits registers change by the same steps, and these."""
        seen = header.samples
        for period in PERIODS:
            if 2 * period >= len(seen):
                return None
            if period % header.factor:
                continue
            if ((seen[-1] - seen[-1 - period] - seen[-1 - period] + seen[-1 - 2 * period]) % (1 << 32)).any():
                continue
            lanes = np.zeros(self.machine.live.shape, bool)
            lanes[group.warps] = group.mask
            advance = Advance.between(header.numbers, seen[-1 - period], seen[-1], lanes)
            if advance is not None:
                return period, advance
        return None

    def _begin(self, header: Header, group: Group, period: int, advance: Advance) -> None:
        checkpoint = Checkpoint(self.schedule)
        repeat = self.machine.repeats.begin()
        before = advance.begin(self.machine, repeat.axis)
        self.active.append(Watched(header, group, advance, repeat, checkpoint, period, period, before))

    # ------------------------------------------------------------------------------------------ end

    def _lost(self, group: Group) -> Watched | None:
        """Return the outermost iteration that goes another way than its loop, or that decided what it must not."""
        for watched in self.active:
            inside = not (group.mask & ~watched.advance.lanes[group.warps]).any()
            again = group.pc in watched.header.body and inside
            if again and watched.group.pc == group.pc:
                again = len(group.warps) == len(watched.group.warps) and bool((group.mask == watched.group.mask).all())
            if not again or watched.repeat.failed:
                return watched
        return None

    def _give_up(self, watched: Watched, left: bool) -> Group:
        """Go back to the beginning of an iteration; return its threads."""
        del self.active[self.active.index(watched) :]
        watched.checkpoint.restore(self.schedule, watched.repeat)
        self.schedule.circles.forget()
        watched.header.failed(watched.repeat, left)
        return watched.group

    def _ended(self, watched: Watched) -> bool:
        """Add the iterations that the one that ended stands for; say whether it may stand for any."""
        m, repeat = self.machine, watched.repeat
        if not watched.checkpoint.returned(self.schedule) or not watched.advance.happened(m, watched.before):
            return False
        shifts = Shifts.of(repeat.requests, repeat.axis)
        times = min(repeat.most, shifts.most)
        further = shifts.following(m.log, repeat.axis, times) if times < ENDLESS else None
        if further is None:
            return False
        self.active.remove(watched)
        m.repeats.active.remove(repeat)
        for made in further:
            m.log.add(m, made)
        self._count(watched, times)
        for room in repeat.rooms:
            room.narrow(m.boxes, m.repeats, times)
        watched.advance.apply(m, times)
        strip(m, repeat.axis)
        header = watched.header
        header.failures = 0 if times else header.failures + 1
        header.hint = watched.period, watched.advance
        pause = 0 if times < repeat.most else 1 if times else 1 << min(header.failures, MOST_WAIT)
        header.resume = header.visits + pause + 1
        header.samples.clear()
        return True

    def _count(self, watched: Watched, times: int) -> None:
        schedule, checkpoint = self.schedule, watched.checkpoint
        schedule.issued += times * (schedule.issued - checkpoint.issued)
        schedule.clock.issued += times * (schedule.clock.issued - checkpoint.clock)
        for number, (warps, _) in self.machine.log.wgmma.items():
            earlier = checkpoint.wgmma.get(number)
            np.add(warps, times * (warps - (earlier[0] if earlier else 0)), out=warps)
