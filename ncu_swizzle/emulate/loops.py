"""Run one iteration of a loop for all that follow it, if these provably do the same; recognize endless loops.

When threads return to a loop's first instruction, and the registers that matter have changed by the same
steps each time, the next iteration (or the next few, if the steps repeat only after some)
runs with tags on these registers. If it changes nothing but these steps, then the next one does the
same one step further, and so on, as long as every decision is the same: `boxes.Repeats` knows for how long.
These iterations are not run: their counts are added, with the requests whose addresses follow the steps. In all other
cases the state from before is restored, and the iteration runs without tags.

If threads left their loop only because others run their own loops, as producers and consumers do, a period of
all threads is watched from then on: see `steps.Movement`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.emulate.boxes import ENDLESS, Repeat
from ncu_swizzle.emulate.dependence import LOOP_AXES
from ncu_swizzle.emulate.effects import numbers_in
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.state import Group, State
from ncu_swizzle.emulate.steps import Movement, Shifts, positions, sample, strip, what_matters
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem.operations import Bools, Ints

PERIODS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24)  # iterations after which the steps may repeat
SAMPLES = 2 * PERIODS[-1] + 1
SLACK = 64  # basic blocks that a period may take longer than the one before, over twice as many
FACTORS = (1, 2, 4, 8, 16)  # of the period, tried one after the other
MOST_WAIT = 12  # log2 of the visits after which a loop is tried again at last
MOST_TRIES = 3  # of a movement that was right before
FIRST_CIRCLE = 256  # basic blocks before the first state is kept


class Circles:
    """Recognizes threads that run in circles: a whole state that recurs will recur forever.

    Brent, "An improved Monte Carlo factorization algorithm" (1980): one earlier state is kept, and replaced after 2^k
    steps.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.visited: set[int] = set()  # basic blocks since the state that is kept
        self._steps, self._next = 0, FIRST_CIRCLE
        self._pc = -1
        self._registers: list[Value | None] = []
        self._digest = b""
        self._differed = 0  # the register that differed last, which likely differs again
        self._rested: set[bytes] = set()

    def closed(self, group: Group) -> bool:
        """Return whether the state before this group's basic block is the kept one."""
        self._steps += 1
        self.visited.add(group.pc)
        # Registers first, as they mostly differ and are cheap to compare; only then the digest of all else.
        if group.pc == self._pc and self._same_registers() and self._digest_with(group) == self._digest:
            return True
        if self._steps >= self._next:
            self._next *= 2
            self._pc, self._registers = group.pc, list(self.machine.registers)
            self._digest = self._digest_with(group)
            self.visited = {group.pc}
        return False

    def first_time(self, group: Group) -> bool:
        """Return whether threads are in this state, in a circle, for the first time."""
        state = self._digest_with(group, self.machine.registers)
        if state in self._rested:
            return False
        self._rested.add(state)
        return True

    def forget(self) -> None:
        """Keep another state: the run goes back to an earlier one, or its threads have come to rest."""
        self._pc = -1

    def _digest_with(self, *more: object) -> bytes:
        device = self.machine.device
        return self.machine.digest(*more, 0 if device is None else device.changes)

    def _same_registers(self) -> bool:
        registers = self.machine.registers
        for number in (*range(self._differed, len(registers)), *range(self._differed)):
            a, b = registers[number], self._registers[number]
            same = a is b or (
                a is not None
                and b is not None
                and np.array_equal(a.bits, b.bits)
                and np.array_equal(np.asarray(a.known), np.asarray(b.known))
            )
            if not same:
                self._differed = number
                return False
        return True


@dataclass(frozen=True, kw_only=True)
class PeriodStart:
    """A visit of a loop from which a period of all threads is followed."""

    visit: int
    step: int
    period: int
    registers: Sequence[Value | None]


@dataclass(kw_only=True)
class Header:
    """The first instruction of a loop, and its visits."""

    numbers: Sequence[int]  # the registers that matter there
    body: frozenset[int]
    warps: Ints | None = None
    mask: Bools | None = None
    samples: list[Ints] = field(default_factory=list)
    visits: int = 0
    resume: int = 0  # the visit from which on it is watched
    failures: int = 0
    factor: int = 1
    hint: tuple[int, Movement] | None = None  # what was right the last time
    together: bool = False  # whether periods of all threads are watched
    places: list[int] = field(default_factory=list)  # where all threads were
    mark: PeriodStart | None = None
    place: int = 0  # where all threads were when a period began
    duration: int = 0  # basic blocks that a period took
    finished: bool = False  # whether its threads are about to leave it, until it is entered again

    def same(self, group: Group) -> bool:
        """Return whether the same threads were here before."""
        if self.warps is None or self.mask is None or len(self.warps) != len(group.warps):
            return False
        return bool((self.warps == group.warps).all()) and bool((self.mask == group.mask).all())

    def unlearn(self) -> None:
        """Forget the visits of the watched threads."""
        self.samples.clear()
        self.places.clear()
        self.mark = None

    def failed(self, repeat: Repeat, left: bool) -> None:
        """Schedule the next try, ever more rarely; with another period, unless threads only `left` the loop."""
        self.failures += 1
        # Twice as long each time: a failed try costs a copy of the state, and the iteration runs twice.
        self.resume = self.visits + (1 << min(self.failures, MOST_WAIT))
        if self.together and self.hint is not None and self.failures < MOST_TRIES:
            return
        if not left and not self.together:
            self.factor = repeat.stride if repeat.stride > 1 else FACTORS[self.failures % len(FACTORS)]
        self.hint = None
        self.unlearn()

    def entered_again(self) -> bool:
        """Return whether a register that grows in the loop has fallen since the last visit, or vice versa."""
        if self.hint is None or self.hint[1].threads is not None or len(self.samples) < 2:
            return False
        step, lanes = self.samples[-1] - self.samples[-2], self.hint[1].changes
        return any(
            number in lanes and int(step[at]) * int(np.sign(lanes[number].sum())) < 0
            for at, number in enumerate(self.numbers)
        )


@dataclass(eq=False, kw_only=True)
class Watched:
    """An iteration that runs with tags."""

    header: Header
    group: Group
    movement: Movement
    depth: int  # how many others it runs in
    period: int
    left: int  # visits of the header until it ends
    before: Sequence[Value | None]  # registers, with their tags
    until: int  # the step at which it is given up
    step: int  # at which it began
    state: State  # in which it began
    issued: int  # instructions of warps by then
    seen: list[tuple[Header, list[Ints], list[int], PeriodStart | None]]  # what headers had seen then

    def meets(self, group: Group) -> bool:
        """Return whether all threads, or the group's, are still where they have to be."""
        if self.movement.threads is None:
            return True
        inside = not (group.mask & ~self.movement.threads[group.warps]).any()
        again = group.pc in self.header.body and inside
        return again and (self.group.pc != group.pc or self.same(group))

    def same(self, group: Group) -> bool:
        """Return whether this group began it."""
        return len(group.warps) == len(self.group.warps) and bool((group.mask == self.group.mask).all())


class Loops:
    """The loops of one run."""

    def __init__(self, program: PreparedCode, machine: Machine, clock: Clock, circles: Circles) -> None:
        self.program, self.machine, self.clock, self.circles = program, machine, clock, circles
        self.headers = {
            header: Header(numbers=numbers_in(program.live[header]), body=body)
            for header, body in program.flow.loops.items()
        }
        self.active: list[Watched] = []  # the outermost first, as `machine.repeats.active`
        self.steps = 0  # basic blocks so far

    def arrive(self, group: Group) -> Group:
        """Return the threads to run next: these, perhaps many iterations later, or those of an iteration to rerun."""
        self.steps += 1
        if self.active and (lost := self._lost(group)) is not None:
            failed = self._repeat(lost).failed
            lost.header.together |= self._others(lost, group) and not failed
            return self._give_up(lost, not failed)
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
                corrected = self._corrected(watched)
                group = self._give_up(watched, False)
                if corrected is not None:
                    header.hint, header.resume = (watched.period, corrected), header.visits
                return group
        self._visit(header, group)
        return group

    def untracked(self, number: int) -> None:
        """Give up if an instruction whose effects are not followed reads what depends on the iteration."""
        program, m = self.program, self.machine
        m.now = number
        reads = numbers_in(program.effects[number].reads)
        tags = [m.get(register).tag for register in reads if m.registers[register] is not None]
        if program.instructions[number].opcode == "BMOV" or any(tag is not None and tag.loops for tag in tags):
            m.repeats.fail()

    def _repeat(self, watched: Watched) -> Repeat:
        return self.machine.repeats.active[watched.depth]

    # ------------------------------------------------------------------------------------------ begin

    def _visit(self, header: Header, group: Group) -> None:
        header.visits += 1
        if header.visits < header.resume or len(self.active) == LOOP_AXES or self.machine.claims is not None:
            return
        if not header.same(group):
            if header.together and self.active:
                return
            header.warps, header.mask, header.hint = group.warps, group.mask, None
            header.unlearn()
        if header.hint is not None and not header.finished:
            self._begin_again(header, group, *header.hint)
            return
        warp = int(group.warps[0])
        # One lane is sampled, which is cheap; `Movement.happened` checks afterwards that all lanes change alike.
        header.samples.append(sample(self.machine, header.numbers, warp, int(group.mask[0].argmax())))
        del header.samples[:-SAMPLES]
        if header.together:
            header.places.append(positions(self.program, self.machine, group))
            del header.places[:-SAMPLES]
        if header.finished:
            header.finished = not header.entered_again()
        elif header.together:
            if not self.active and (moves := self._movement(header, group)) is not None:
                self._begin(header, group, *moves)
        elif (moves := self._recurrence(header, group)) is not None:
            self._begin(header, group, *moves)

    def _recurrence(self, header: Header, group: Group) -> tuple[int, Movement] | None:
        """Return after how many visits registers change by the same steps, and these."""
        samples = header.samples
        for period in PERIODS:
            if 2 * period >= len(samples):
                return None
            if period % header.factor:
                continue
            # The second difference over a period is 0.
            if (
                (samples[-1] - samples[-1 - period] - samples[-1 - period] + samples[-1 - 2 * period]) % (1 << 32)
            ).any():
                continue
            threads = np.zeros(self.machine.live.shape, bool)
            threads[group.warps] = group.mask
            movement = Movement.from_samples(self.machine, header.numbers, samples[-1 - period], samples[-1], threads)
            if movement is not None:
                return period, movement
        return None

    def _movement(self, header: Header, group: Group) -> tuple[int, Movement] | None:
        """Return what a period that brings all threads back changes, once one has been followed."""
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
        movement = Movement.between(what_matters(self.program, self.machine, group), mark.registers, registers)
        return (mark.period, movement) if movement and places[-1] == places[-1 - mark.period] else None

    def _begin_again(self, header: Header, group: Group, period: int, movement: Movement) -> None:
        if movement.threads is not None:
            lanes = dict.fromkeys(header.numbers, self.machine.live)
            self._begin(header, group, period, replace(movement, lanes=lanes))
            return
        inside = not self.active or header.body < self.active[-1].header.body
        if inside and positions(self.program, self.machine, group) == header.place:
            lanes = what_matters(self.program, self.machine, group)
            self._begin(header, group, period, replace(movement, lanes=lanes))

    def _begin(self, header: Header, group: Group, period: int, movement: Movement) -> None:
        m = self.machine
        state = m.copy()
        repeat = m.repeats.begin()
        header.place = positions(self.program, m, group) if header.together else 0
        self.active.append(
            Watched(
                header=header,
                group=group,
                movement=movement,
                depth=len(self.active),
                period=period,
                left=period,
                before=movement.begin(m, repeat.axis),
                until=self.steps + SLACK + 2 * header.duration if header.together else ENDLESS,
                step=self.steps,
                state=state,
                issued=self.clock.issued,
                seen=[(each, [*each.samples], [*each.places], each.mark) for each in self.headers.values()],
            )
        )

    # ------------------------------------------------------------------------------------------ end

    def _lost(self, group: Group) -> Watched | None:
        """Return the outermost iteration that leaves its loop's path, or that made a forbidden decision."""
        around: list[Watched] = []
        for watched in self.active:
            crosses = any(outer.group.pc == group.pc and outer.same(group) for outer in around)
            late = self.steps > watched.until
            if crosses or late or self._repeat(watched).failed or not watched.meets(group):
                return watched
            around.append(watched)
        return None

    def _others(self, lost: Watched, group: Group) -> bool:
        """Return whether an iteration was lost only because other threads also run."""
        threads = lost.movement.threads
        if threads is None or (group.mask & threads[group.warps]).any():
            return False
        return bool((self.machine.live[lost.group.warps] & lost.group.mask).any())

    def _give_up(self, watched: Watched, left: bool) -> Group:
        """Go back to the beginning of an iteration; return its threads."""
        repeat = self._repeat(watched)
        del self.active[watched.depth :]
        for request in repeat.requests:  # counted since then
            request.seen.count -= request.times
        for made in repeat.traffic:
            made.seen.count -= made.times
        self.machine.restore(watched.state)
        self.circles.forget()
        self.steps = watched.step
        for header, samples, places, mark in watched.seen:
            header.samples, header.places, header.mark = samples, places, mark
        watched.header.failed(repeat, left)
        return watched.group

    def _ended(self, watched: Watched) -> bool:
        """Add the iterations that the finished one represents; return whether it may represent any."""
        m, repeat = self.machine, self._repeat(watched)
        if repeat.failed or m != watched.state or not watched.movement.happened(m, watched.before):
            return False
        shifts = Shifts.of(repeat.requests, repeat.axis)
        times = min(repeat.most, shifts.most)
        further = shifts.following(m.log, repeat.axis, times) if times < ENDLESS else None
        if further is None:
            return False
        self.active.pop()
        m.repeats.active.pop()
        for request in further:
            m.log.add(request)
        if repeat.traffic and times:
            m.traffic.repeat(repeat.traffic, repeat.axis, times)
        self._count(watched, times)
        for room in repeat.rooms:
            room.narrow(m.boxes, m.repeats, times)
        watched.movement.apply(m, times)
        strip(m, repeat.axis)
        header = watched.header
        header.failures = 0 if times else header.failures + 1
        header.hint = watched.period, watched.movement
        # Fewer than all: only memory limited them, so begin again at once. Else a decision changes in the next
        # iteration, which has to run. None at all: try ever more rarely.
        pause = 0 if times < repeat.most else 1 if times else 1 << min(header.failures, MOST_WAIT)
        header.resume = header.visits + pause + 1
        header.samples.clear()
        if header.together:
            header.places.clear()
            header.finished, header.resume = times == repeat.most, header.visits + 1
        return True

    def _corrected(self, watched: Watched) -> Movement | None:
        """Return what to try next if the only fault was that registers changed lane by lane."""
        if self._repeat(watched).failed or self.machine != watched.state:
            return None
        return watched.movement.corrected(self.machine, watched.before)

    def _count(self, watched: Watched, times: int) -> None:
        """Count what an iteration issued `further` more times."""
        m, before = self.machine, watched.state
        # `issued` holds differences, whose change in one iteration is that of the next ones, too.
        m.issued += times * (m.issued - before.issued)
        m.tallies += times * (m.tallies - before.tallies)
        self.clock.issued += times * (self.clock.issued - watched.issued)
        for number, (warps, _) in m.wgmma.items():
            earlier = before.wgmma.get(number)
            np.add(warps, times * (warps - (earlier[0] if earlier else 0)), out=warps)
