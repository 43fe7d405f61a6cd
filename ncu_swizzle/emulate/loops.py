"""Run an iteration of a loop once for all that follow it, if these certainly do the same.

When threads are at a loop's first instruction again and again, and the registers that matter have changed by the same
steps from one time to the next, the following iteration (or the following few, if the steps repeat only after some)
runs with tags on these registers. If it leaves everything as it was but for these steps, then the next one does the
same with registers one step on, and so on, as long as every decision is the same: `repeats` knows for how long. These
iterations are not run: their counts are added, with the requests whose addresses follow the steps. In all other cases
the state from before is restored, and the iteration runs without tags.

If threads left their loop only because others go round loops of their own, as producers and consumers do, a period of
all threads is watched from then on: see `together`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ncu_swizzle.emulate.accesses import WINDOW, LoopRequests, RequestLog, Unknown
from ncu_swizzle.emulate.boxes import ENDLESS, Repeat
from ncu_swizzle.emulate.checkpoint import Advance, Checkpoint, numbers_in, sample, strip
from ncu_swizzle.emulate.dependence import LOOP_AXES, Tag
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.recurrence import Circles
from ncu_swizzle.emulate.requests import SHIFTED_BYTES, Clock, SharedRequests
from ncu_swizzle.emulate.together import MOST_WAIT, Header, Movement, PeriodStart, positions, what_matters
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.emulate.waits import Group, Waiting, Waits
from ncu_swizzle.smem.operations import LINE, Bools, Ints

# The requests of further iterations of a loop: those of one iteration, shifted by what each iteration adds.


@dataclass(frozen=True)
class Shifts:
    """The requests that one iteration made, of which some follow the iteration."""

    still: Sequence[LoopRequests]
    moving: Sequence[tuple[LoopRequests, int, int]]  # by how much their addresses and sources change in an iteration

    @classmethod
    def of(cls, requests: Sequence[LoopRequests], axis: int) -> Shifts:
        """Return the requests of an iteration that had tags on this axis."""
        together: dict[tuple[int, Tag | None, Tag | None], LoopRequests] = {}
        for made in requests:
            key = (id(made.seen), made.tag, made.source_tag)
            earlier = together.get(key)
            together[key] = replace(made, times=made.times + earlier.times) if earlier else made
        changes = [(made, _change(made.tag, axis), _change(made.source_tag, axis)) for made in together.values()]
        return cls(
            [made for made, addresses, sources in changes if not addresses and not sources],
            [(made, addresses, sources) for made, addresses, sources in changes if addresses or sources],
        )

    @property
    def most(self) -> int:
        """How many iterations can be added at once, given the memory that their requests take."""
        size = sum(made.seen.nbytes for made, _, _ in self.moving)
        return max(1, SHIFTED_BYTES // size) if size else 1 << 62

    def following(self, log: RequestLog, axis: int, times: int) -> list[LoopRequests] | None:
        """Return the requests of so many further iterations; None if some are invalid."""
        if not times:
            return []
        made = [_outside(replace(made, times=made.times * times), axis) for made in self.still]
        for one, addresses, sources in self.moving:
            further = np.arange(1, times + 1)
            seen = _shifted(one.seen, addresses * further, sources * further)
            if not log.valid(one.number, seen):
                return None
            made.append(_outside(replace(one, seen=seen), axis))
        return made


def _change(tag: Tag | None, axis: int) -> int:
    change = 0 if tag is None else tag.per_iteration(axis)
    assert change is not None  # or the iteration would have failed
    return change


def _outside(made: LoopRequests, axis: int) -> LoopRequests:
    """Return the requests with the tags that their addresses have outside of the loop."""
    tag, source_tag = (None if tag is None else tag.outside(axis) for tag in (made.tag, made.source_tag))
    return replace(made, tag=tag, source_tag=source_tag)


def _shifted(seen: SharedRequests, addresses: Ints, sources: Ints) -> SharedRequests:
    """Return the requests shifted by each of these numbers of bytes, as if that many times the warps made them."""
    count, each = len(addresses), len(seen.selected)
    selected = np.tile(seen.selected, (count, 1))
    by = np.repeat(addresses.astype(np.int64), each)[:, None].astype(np.uint32)
    lanes = np.where(selected, np.tile(np.broadcast_to(seen.addresses, seen.selected.shape), (count, 1)) + by, 0)
    source = None
    if seen.source is not None:
        source = np.tile(seen.source, (count, 1))
        source = _from_first_line(source + np.repeat(sources, each)[:, None], selected, source >= 0)
    blocks = np.broadcast_to(seen.blocks.reshape(-1, 1, each), (seen.repeats, count, each)).ravel()
    return SharedRequests(addresses=lanes.astype(np.uint32) & WINDOW, selected=selected, source=source, blocks=blocks)


def _from_first_line(source: Ints, selected: Bools, reads: Bools) -> Ints:
    """Return sources relative to the line of each request's lowest one; -1 for what is not read."""
    first = np.where(selected & reads, source, 1 << 60).min(axis=1, keepdims=True) & -LINE
    relative: Ints = np.where(selected, np.where(reads, source - first, -1), 0)
    return relative


PERIODS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24)  # iterations after which the steps may repeat
SAMPLES = 2 * PERIODS[-1] + 1
SLACK = 64  # basic blocks that a period may take longer than the one before, over twice as many


class Running(Protocol):
    """The schedule whose loops are watched."""

    program: PreparedCode
    machine: Machine
    clock: Clock
    unknown: dict[int, Unknown]
    circles: Circles
    reconvergence: list[int]
    ready: list[Group]
    resting: list[Group]
    waiting: list[Waiting]
    waits: Waits
    issued: Ints


@dataclass(eq=False, kw_only=True)
class Watched:
    """An iteration that runs with tags."""

    header: Header
    group: Group
    advance: Advance | Movement
    repeat: Repeat
    checkpoint: Checkpoint
    period: int
    left: int  # visits of the header until it ends
    before: Sequence[Value | None]  # registers
    until: int  # the step at which it is given up
    step: int  # at which it began
    seen: list[tuple[Header, list[Ints], list[int], PeriodStart | None]]  # what headers had seen then

    def meets(self, group: Group) -> bool:
        """Say whether all threads, or those of the group, are still where they have to be."""
        if isinstance(self.advance, Movement):
            return True
        inside = not (group.mask & ~self.advance.lanes[group.warps]).any()
        again = group.pc in self.header.body and inside
        return again and (self.group.pc != group.pc or self.same(group))

    def same(self, group: Group) -> bool:
        """Say whether the group is the one that began it."""
        return len(group.warps) == len(self.group.warps) and bool((group.mask == self.group.mask).all())


class Loops:
    """The loops of one run."""

    def __init__(self, schedule: Running) -> None:
        self.schedule, self.machine = schedule, schedule.machine
        program = schedule.program
        self.headers = {
            header: Header(numbers=numbers_in(program.live[header]), body=body)
            for header, body in program.flow.loops.items()
        }
        self.active: list[Watched] = []
        self.steps = 0  # basic blocks so far

    def arrive(self, group: Group) -> Group:
        """Return the threads to run next: these, perhaps many iterations on, or those of an iteration to run again."""
        self.steps += 1
        if self.active and (lost := self._lost(group)) is not None:
            lost.header.together |= self._others(lost, group) and not lost.repeat.failed
            return self._give_up(lost, not lost.repeat.failed)
        header = self.headers.get(group.pc)
        if header is None:
            return group
        while self.active and self.active[-1].header is header:
            watched = self.active[-1]
            if not watched.header.same(group):
                return group
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
        m.now = number
        tags = [m.get(register).tag for register in numbers_in(reads) if m.registers[register] is not None]
        if program.instructions[number].opcode == "BMOV" or any(tag is not None and tag.loops for tag in tags):
            m.repeats.fail()

    # ------------------------------------------------------------------------------------------ begin

    def _visit(self, header: Header, group: Group) -> None:
        header.visits += 1
        if header.visits < header.resume or len(self.active) == LOOP_AXES or "claims" in vars(self.machine):
            return
        if not header.same(group):
            if header.together and self.active:
                return
            header.forget(group)
        if header.hint is not None and not header.finished:
            self._begin_again(header, group, *header.hint)
            return
        warp = int(group.warps[0])
        header.samples.append(sample(self.machine, header.numbers, warp, int(group.mask[0].argmax())))
        del header.samples[:-SAMPLES]
        if header.together:
            header.places.append(positions(self.schedule, group))
            del header.places[:-SAMPLES]
        if header.finished:
            header.finished = not header.entered_again()
        elif not (header.together and self.active) and (found := self._recurrence(header, group)) is not None:
            self._begin(header, group, *found)

    def _recurrence(self, header: Header, group: Group) -> tuple[int, Advance | Movement] | None:
        """Return after how many visits registers change by the same steps, and these."""
        if header.together:
            return self._movement(header, group)
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

    def _movement(self, header: Header, group: Group) -> tuple[int, Movement] | None:
        """Return what happens in a period after which all threads are where they were, once one has been followed."""
        places, mark, registers = header.places, header.mark, self.machine.registers
        if mark is None:
            periods = (p for p in PERIODS if p + 1 < len(places) and places[-2:] == places[-2 - p : -p])
            if (period := next(periods, None)) is not None:
                header.mark = PeriodStart(
                    visit=header.visits, step=self.steps, period=period, registers=list(registers)
                )
            return None
        if header.visits < mark.visit + mark.period:
            return None
        header.mark, header.duration = None, self.steps - mark.step
        movement = Movement.between(what_matters(self.schedule, group), mark.registers, registers)
        return (mark.period, movement) if movement and places[-1] == places[-1 - mark.period] else None

    def _begin_again(self, header: Header, group: Group, period: int, advance: Advance | Movement) -> None:
        if not isinstance(advance, Movement):
            self._begin(header, group, period, advance)
            return
        inside = not self.active or header.body < self.active[-1].header.body
        if inside and positions(self.schedule, group) == header.place:
            self._begin(header, group, period, advance.now(self.schedule, group))

    def _begin(self, header: Header, group: Group, period: int, advance: Advance | Movement) -> None:
        checkpoint = Checkpoint(self.schedule)
        repeat = self.machine.repeats.begin()
        before = advance.begin(self.machine, repeat.axis)
        until = self.steps + SLACK + 2 * header.duration if header.together else ENDLESS
        header.place = positions(self.schedule, group) if header.together else 0
        seen = [(each, [*each.samples], [*each.places], each.mark) for each in self.headers.values()]
        self.active.append(
            Watched(
                header=header,
                group=group,
                advance=advance,
                repeat=repeat,
                checkpoint=checkpoint,
                period=period,
                left=period,
                before=before,
                until=until,
                step=self.steps,
                seen=seen,
            )
        )

    # ------------------------------------------------------------------------------------------ end

    def _lost(self, group: Group) -> Watched | None:
        """Return the outermost iteration that goes another way than its loop, or that decided what it must not."""
        around: list[Watched] = []
        for watched in self.active:
            crosses = any(outer.group.pc == group.pc and outer.same(group) for outer in around)
            if crosses or watched.repeat.failed or self.steps > watched.until or not watched.meets(group):
                return watched
            around.append(watched)
        return None

    def _others(self, lost: Watched, group: Group) -> bool:
        """Say whether an iteration was lost only because other threads run, too."""
        if isinstance(lost.advance, Movement) or (group.mask & lost.advance.lanes[group.warps]).any():
            return False
        return bool((self.machine.live[lost.group.warps] & lost.group.mask).any())

    def _give_up(self, watched: Watched, left: bool) -> Group:
        """Go back to the beginning of an iteration; return its threads."""
        del self.active[self.active.index(watched) :]
        watched.checkpoint.restore(self.schedule, watched.repeat)
        self.schedule.circles.forget()
        self.steps = watched.step
        for header, samples, places, mark in watched.seen:
            header.samples, header.places, header.mark = samples, places, mark
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
        if header.together:
            header.places.clear()
            header.finished, header.resume = times == repeat.most, header.visits + 1
        return True

    def _count(self, watched: Watched, times: int) -> None:
        schedule, checkpoint = self.schedule, watched.checkpoint
        schedule.issued += times * (schedule.issued - checkpoint.issued)
        schedule.clock.issued += times * (schedule.clock.issued - checkpoint.clock)
        for number, (warps, _) in self.machine.log.wgmma.items():
            earlier = checkpoint.wgmma.get(number)
            np.add(warps, times * (warps - (earlier[0] if earlier else 0)), out=warps)
