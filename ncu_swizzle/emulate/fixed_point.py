"""What holds at each instruction of a kernel in every launch with blocks of a shape: a fixed point over its flow.

Basic blocks are run, each for all of the block's threads at once, from what may hold before them; what holds behind
them is joined to what may hold before those that follow, until nothing changes.

Threads of a warp that have diverged run separately, and reconverge at a BSYNC, all that were together at its BSSY, or
at a WARPSYNC (so does the emulator: see `schedule`). Between, what is the same for all lanes is so for those that run
together. Behind it, whatever they may have written since they diverged is not: each lane came its own way.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.accesses import memory_operands
from ncu_swizzle.emulate.code import BARRIER, PRED, REG, UPRED, UREG, Code, SassInstruction, parse_instruction
from ncu_swizzle.emulate.effects import (
    ADDRESSED,
    CONTROL,
    PHASE_CHECK,
    REGISTERS,
    control_word,
    effects,
    numbers_in,
    operand_number,
    reading_guard,
    results,
)
from ncu_swizzle.emulate.every_launch import (
    BLOCK,
    DATA,
    GRID,
    LOOP,
    PATH,
    EveryLaunch,
    Lanes,
    Moment,
    Name,
    alike,
    is_uniform,
    joined,
    mixed_up,
    splits,
)
from ncu_swizzle.emulate.faults import Unsupported
from ncu_swizzle.emulate.flow import ANYWHERE, EXIT, Flow
from ncu_swizzle.emulate.liveness import needed
from ncu_swizzle.emulate.operations import exchange, floats, integers, special  # noqa: F401  they register opcodes
from ncu_swizzle.emulate.operations.primitives import conjunction, negation
from ncu_swizzle.emulate.operations.special import SPECIAL_REGISTERS
from ncu_swizzle.emulate.program import LOW
from ncu_swizzle.emulate.registers import WarpView
from ncu_swizzle.emulate.values import Value, unknown
from ncu_swizzle.smem.operations import Bools

EXCHANGE = frozenset(("SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "CREDUX", "ELECT"))
LOADS = frozenset(("LDG", "LDS", "LD", "LDL"))
SYNCHRONISING = frozenset(("BSYNC", "WARPSYNC"))
SLOTS = 1 << 10  # where the names of words of local memory begin, behind those of registers
LEAVING = frozenset(("EXIT", "KILL", "BREAK"))
AXES = {
    f"SR_{name}.{axis}": (kind, number)
    for name, kind in (("CTAID", BLOCK), ("NCTAID", GRID))
    for number, axis in enumerate("XYZ")
}
RANKS = frozenset(("SR_CgaCtaId", "SR_CTARANK", "SR_VIRTCTA"))

Step = Callable[[EveryLaunch], None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Observed:
    """An instruction when it executes: its operands' readers were run on these registers."""

    lanes: Lanes
    address: Value
    guard: Value | None
    source: Value | None = None  # of a copy
    reads: Value | None = None  # of a copy: which lanes read, the others write zeros
    upper: Value | None = None  # of a generic address


@dataclass(eq=False)
class FixedPoint:
    """The analysis of a kernel for blocks of one shape."""

    code: Code
    machine: EveryLaunch
    before: dict[int, Moment] = field(default_factory=dict)  # by first instruction of a basic block
    divergent: set[int] = field(default_factory=set)  # the branches at which lanes of a warp may part
    observed: dict[int, Observed] = field(default_factory=dict)  # by access, once the fixed point is reached

    def __post_init__(self) -> None:
        self.instructions = tuple(map(parse_instruction, self.code.instructions))
        self.flow = Flow(self.instructions, self.code.functions)
        self.slice = needed(self.flow)
        self.effects = tuple(map(effects, self.instructions))
        self.externals = {address & LOW for address in self.code.externals}
        self.machine.guards = tuple(map(reading_guard, self.instructions))
        self.steps = [self._step(number) for number in range(len(self.instructions))]
        self.live = {leader: numbers_in(self.slice.live[leader]) for leader in self.flow.leaders}
        self._must_after: dict[int, Bools] = {}  # by BSSY: who is together then
        self._gone: dict[int, Bools] = {}  # by what ends threads, or their part in a BSYNC: whose
        self._regions: dict[int, Region] = {}

    # ---------------------------------------------------------------------------------------------- the iteration

    def run(self) -> None:
        """Reach the fixed point, then observe each access."""
        m = self.machine
        self.before[0] = Moment(Lanes(may=m.live.copy(), must=m.live.copy()))
        waiting, before = [0], None
        while before != (before := self._decided()):
            self._regions.clear()
            self._propagate(waiting)
            waiting = [self.flow.first(n) for n in self.synchronising if self.flow.first(n) in self.before]
        self.observing = True
        for leader in sorted(self.before):
            self._enter(leader)
            self._execute(leader)

    def _decided(self) -> tuple[int, ...]:
        """Return what says whether anything changed that decides what holds behind reconvergence."""
        noted = (*self._must_after.values(), *self._gone.values())
        return len(self.divergent), len(noted), *(int(lanes.sum()) for lanes in noted)

    def _propagate(self, waiting: list[int]) -> None:
        heapq.heapify(waiting)
        queued = set(waiting)
        while waiting:
            leader = heapq.heappop(waiting)
            queued.discard(leader)
            self._enter(leader)
            self._execute(leader)
            for target, lanes, reconverged in self._leave(self.flow.last[leader]):
                if self._arrive(target, leader, lanes, reconverged) and target not in queued:
                    heapq.heappush(waiting, target)
                    queued.add(target)

    def _enter(self, leader: int) -> None:
        m, moment = self.machine, self.before[leader]
        m.registers = [None] * REGISTERS
        for number, value in moment.registers.items():
            m.registers[number] = value
        m.slots, m.under = dict(moment.slots), {}
        split = m.split
        if split is not None and split.name.kind == LOOP and split.name.place == leader:
            m.registers[split.name.register] = m.remainder()
        m.stand(Lanes(may=moment.lanes.may, must=moment.lanes.must & moment.lanes.may))

    def _execute(self, leader: int) -> None:
        m = self.machine
        for number in range(leader, self.flow.last[leader] + 1):
            step = self.steps[number]
            if step is not None:
                m.now = number
                step(m)

    def _arrive(self, target: int, source: int, lanes: Lanes, reconverged: frozenset[int]) -> bool:
        """Join what holds now to what may hold before a basic block; return whether that changes it."""
        m, old = self.machine, self.before.get(target)
        shape = lanes.may.shape
        again = (
            m.split is not None
            and m.split.name.kind == LOOP
            and self._ends_case(target, m.split.name.place, source, reconverged)
        )
        if again:
            lanes = m.any_case_lanes(lanes)
        now: dict[int, Value] = {}
        for number in self.live[target]:
            value = m.registers[number]
            if value is not None:
                value = m.any_case(value) if again else value
                now[number] = mixed_up(value, shape) if number in reconverged else value
        words = {at: m.any_case(value) for at, value in m.slots.items()} if again else m.slots
        if reconverged:
            words = {at: mixed_up(value, shape) for at, value in words.items()}
        if old is None:
            self.before[target] = Moment(lanes, now, words)
            return True
        kind = LOOP if target <= source else PATH
        registers = dict(old.registers)
        changed = False
        for number, value in now.items():
            before = registers.get(number)
            if before is value:
                continue
            if before is None:
                registers[number], changed = value, True
                continue
            mixed = number in reconverged
            dims = 0 if before.tag is value.tag is None and _same(before, value) else m.bit(Name(kind, target, number))
            joint = joined(before, value, old.lanes.may, lanes.may, mixed=mixed, dims=dims)
            if not _same(joint, before):
                registers[number], changed = joint, True
        slots = {}
        for at in old.slots.keys() & words.keys():
            dims = 0 if _same(old.slots[at], words[at]) else m.bit(Name(kind, target, SLOTS + at))
            mixed = bool(reconverged)
            slots[at] = joined(old.slots[at], words[at], old.lanes.may, lanes.may, mixed=mixed, dims=dims)
            changed |= not _same(slots[at], old.slots[at])
        changed |= len(slots) < len(old.slots)
        joint_lanes = _joined_lanes(old.lanes, lanes)
        changed |= bool((joint_lanes.may != old.lanes.may).any() or (joint_lanes.must != old.lanes.must).any())
        if changed:
            self.before[target] = Moment(joint_lanes, registers, slots)
        return changed

    def _ends_case(self, target: int, header: int, source: int, reconverged: frozenset[int]) -> bool:
        """Return whether threads that come to a basic block may be of several cases of a loop's variable."""
        if target == header:
            return True
        region = self._regions.get(self.flow.last[source])
        return region is not None and bool(reconverged) and header in region.blocks

    # ---------------------------------------------------------------------------------------------- where threads go

    def _leave(self, last: int) -> Iterator[tuple[int, Lanes, frozenset[int]]]:
        """Yield where the threads go behind a basic block, who does, and the registers in which they are mixed up."""
        instruction, m = self.instructions[last], self.machine
        word, after = control_word(instruction), self.flow.following(last)
        nobody: frozenset[int] = frozenset()
        m.now = last
        if instruction.never or word not in CONTROL or word == PHASE_CHECK:
            yield from self._to(after, m.lanes, nobody)
            return
        condition = self._condition(instruction)
        if word in SYNCHRONISING:
            region = self.region(last)
            for target in region.onward:
                yield from self._to(target, self._together(last, region, condition), region.written)
            return
        leaving = m.lanes.where(condition)
        noted = (
            m.any_case_lanes(Lanes(may=leaving.may, must=m.lanes.must))
            if m.split
            else Lanes(may=leaving.may, must=m.lanes.must)
        )
        if word == "BSSY":
            self._note(self._must_after, last, noted.must, np.logical_and)
        if word in LEAVING:
            self._note(self._gone, last, noted.may, np.logical_or)
        targets = self._targets(last, instruction)
        if targets is None:  # it goes on, whatever its condition is
            yield from self._to(after, m.lanes, nobody)
            return
        stays = None if condition is None else m.lanes.where(negation(condition))
        several = len(set(targets)) > 1 and self._selected_by_lanes(instruction)
        if several or (targets != (EXIT,) and splits(condition, m.lanes.may)):
            self.divergent.add(last)
        for target in targets:
            lanes = Lanes(may=leaving.may, must=np.zeros_like(leaving.must)) if several else leaving
            yield from self._to(target, lanes, nobody)
        if stays is not None:
            yield from self._to(after, stays, nobody)

    @staticmethod
    def _note(noted: dict[int, Bools], number: int, lanes: Bools, combine: Callable[..., Bools]) -> None:
        noted[number] = combine(noted[number], lanes) if number in noted else lanes

    def _to(self, target: int, lanes: Lanes, mixed: frozenset[int]) -> Iterator[tuple[int, Lanes, frozenset[int]]]:
        # No thread of a launch that succeeds comes to a trap.
        if target not in (EXIT, ANYWHERE) and target not in self.flow.fatal and lanes.may.any():
            yield target, lanes, mixed

    def _targets(self, number: int, instruction: SassInstruction) -> tuple[int, ...] | None:
        """Return where a control instruction goes if its condition holds; None if only on to the next instruction."""
        word, flow = control_word(instruction), self.flow
        if word in ("EXIT", "KILL"):
            return (EXIT,)
        if word == "BPT":
            return (EXIT,) if instruction.has("TRAP") else None
        if word == "CALL":
            if any(operand.number & LOW in self.externals for operand in instruction.operands):
                self.machine.forget((4, 5), number)
                return None
            if not (targets := flow.targets(number)):
                raise Unsupported(instruction.offset, instruction.text, "calls through a register")
            return targets
        if word == "RET":
            return flow.returns(number)
        if word in ("BRX", "BRXU", "JMX", "JMXU"):
            return flow.targets(number) or tuple(flow.leaders)
        if word in ("BRA", "JMP"):
            return flow.targets(number)
        return None

    def _selected_by_lanes(self, instruction: SassInstruction) -> bool:
        """Return whether lanes of a warp may go different ways by what a register holds."""
        registers = [operand for operand in instruction.operands if operand.kind in (REG, UREG)]
        return any(not alike(operands.raw(operand)(self.machine)) for operand in registers)

    def _condition(self, instruction: SassInstruction) -> Value | None:
        """Return the condition of a control instruction; None if it always holds."""
        m = self.machine
        readers = [operands.guard_operands(instruction.guard)]
        readers += [operands.predicate(o) for o in instruction.operands if o.kind in (PRED, UPRED)]
        values = [read(m) for read in readers if read is not None]
        if instruction.has("DIV", "CONV"):  # whether the warp has diverged
            return m.any_number(Name(PATH, m.now), bool)
        if not values:
            return None
        condition = values[0] if len(values) == 1 else conjunction(values[0], values[1])
        if instruction.has("ANY") and not alike(condition):
            return m.any_number(Name(PATH, m.now), bool)
        return m.narrowed(condition, False)

    # ---------------------------------------------------------------------------------------------- reconvergence

    @cached_property
    def synchronising(self) -> tuple[int, ...]:
        return tuple(n for n, each in enumerate(self.instructions) if each.opcode in SYNCHRONISING)

    @cached_property
    def followers(self) -> dict[int, tuple[int, ...]]:
        """By first instruction of a basic block: where its threads may go on, or reconverge."""
        found = {}
        for leader in self.flow.leaders:
            last = self.flow.last[leader]
            onward = set(self.flow.successors(last))
            if self.instructions[last].opcode == "CALL" and self._targets_outside(last):
                onward = {self.flow.following(last)}
            if self.instructions[last].opcode == "BSYNC":
                onward.update(self._resumed(last))
            found[leader] = tuple(onward - {EXIT, ANYWHERE})
        return found

    def _targets_outside(self, number: int) -> bool:
        return any(operand.number & LOW in self.externals for operand in self.instructions[number].operands)

    @cached_property
    def preceding(self) -> dict[int, tuple[int, ...]]:
        before: dict[int, list[int]] = {leader: [] for leader in self.flow.leaders}
        for leader, onward in self.followers.items():
            for target in onward:
                before[target].append(leader)
        return {leader: tuple(found) for leader, found in before.items()}

    @cached_property
    def _joining(self) -> dict[int, tuple[int, ...]]:
        """By BSYNC: the BSSYs whose threads may reconverge there."""
        begins = [n for n, each in enumerate(self.instructions) if each.opcode == "BSSY"]
        moved = any(each.opcode == "BMOV" for each in self.instructions)  # barriers go through registers
        found = {}
        for sync in self.synchronising:
            if self.instructions[sync].opcode == "BSYNC":
                barrier, here = self.instructions[sync].operands[0].number, {sync, self.flow.following(sync)}
                same = [n for n in begins if moved or self.instructions[n].operands[0].number == barrier]
                exact = [] if moved else [n for n in same if here.intersection(self.flow.targets(n))]
                found[sync] = tuple(exact or same)
        return found

    @cached_property
    def _ending(self) -> dict[int, set[int]]:
        """By BSSY: the basic blocks that end with a BSYNC at which its threads may reconverge."""
        found: dict[int, set[int]] = {}
        for sync, begins in self._joining.items():
            for begin in begins:
                found.setdefault(begin, set()).add(self.flow.first(sync))
        return found

    def _resumed(self, sync: int) -> set[int]:
        """Return where threads go on behind a BSYNC or WARPSYNC."""
        begins = self._joining.get(sync, (sync,))
        return {self.flow.following(sync), *(t for n in begins for t in self.flow.targets(n))} - {sync}

    def _together(self, sync: int, region: Region, condition: Value | None) -> Lanes:
        """Return who goes on behind a BSYNC or WARPSYNC."""
        lanes, live = self.machine.lanes, self.machine.live
        if condition is not None or not region.closed:
            return Lanes(may=lanes.may, must=np.zeros_like(live) if condition is not None else lanes.must)
        before = [self._must_after[begin] for begin in region.begins if begin in self._must_after]
        must = np.logical_and.reduce(before) if before else live
        for number in region.leaving:
            must = must & ~self._gone.get(number, np.zeros_like(live))
        return Lanes(may=lanes.may, must=must | lanes.must)

    def region(self, sync: int) -> Region:
        """Return what threads that reconverge at an instruction may have run since they were together."""
        if sync not in self._regions:
            bsync = self.instructions[sync].opcode == "BSYNC"
            self._regions[sync] = self._since_bssy(sync) if bsync else self._since_any_branch(sync)
        return self._regions[sync]

    def _since_bssy(self, sync: int) -> Region:
        begins = self._joining[sync]
        ends = set[int]().union(*(self._ending[begin] for begin in begins))
        starts = {self.flow.first(begin) for begin in begins}
        reached = self._reach(
            [after for start in starts for after in self.followers[start]], self.followers, ends | starts
        )
        blocks = self._reach(ends, self.preceding, starts, within=reached)
        around = self._reach([0], self.followers, starts) - starts
        leaving, closed = self._leaving(reached, begins), bool(begins) and not blocks & around
        return Region(
            sync=sync,
            onward=frozenset(self._resumed(sync)),
            begins=begins,
            blocks=frozenset(blocks),
            written=self._written([b for b in self.divergent if self.flow.first(b) in blocks], blocks, ends),
            leaving=leaving,
            closed=closed,
            heals=closed and not any(self.instructions[n].opcode == "BREAK" for n in leaving),
        )

    def _since_any_branch(self, sync: int) -> Region:
        end = self.flow.first(sync)
        blocks = self._reach([end], self.preceding, set())
        apart = [b for b in self.divergent if self.flow.first(b) in blocks and self._still_apart(b, end)]
        everyone = self.instructions[sync].has("ALL")
        return Region(
            sync=sync,
            onward=frozenset(self._resumed(sync)),
            begins=(),
            blocks=frozenset(blocks),
            written=self._written(apart, blocks, {end}),
            leaving=self._leaving(self._reach([0], self.followers, {end}), ()),
            closed=everyone,
            heals=everyone,
        )

    def _leaving(self, blocks: set[int], begins: Iterable[int]) -> tuple[int, ...]:
        """Return where threads may end in some basic blocks, or leave the barrier of these BSSYs."""
        barriers = {self.instructions[begin].operands[0].number for begin in begins}
        lasts = [self.flow.last[leader] for leader in sorted(blocks)]
        return tuple(
            last for last in lasts
            if self.instructions[last].opcode in LEAVING
            and (self.instructions[last].opcode != "BREAK" or barriers & _barriers(self.instructions[last]))
        )  # fmt: skip

    def _still_apart(self, branch: int, end: int) -> bool:
        """Return whether threads that part at a branch may not have reconverged when they come to a basic block."""
        block = self.flow.first(branch)
        regions = [self.region(sync) for sync in self._joining]
        healing = {self.flow.first(region.sync) for region in regions if region.heals and block in region.blocks}
        return end in self._reach(self.followers[block], self.followers, healing)

    def _written(self, branches: Iterable[int], blocks: set[int], ends: set[int]) -> frozenset[int]:
        """Return the registers that threads may write in some basic blocks once they have parted at these branches."""
        bits = 0
        for branch in branches:
            for leader in self._reach(self.followers[self.flow.first(branch)], self.followers, ends, within=blocks):
                for number in range(leader, self.flow.last[leader] + 1):
                    bits |= self.effects[number].writes
        return frozenset(number for number in numbers_in(bits) if not is_uniform(number))

    @staticmethod
    def _reach(
        first: Iterable[int], onward: dict[int, tuple[int, ...]], ends: set[int], within: set[int] | None = None
    ) -> set[int]:
        """Return the basic blocks that can be reached, `ends` among them, but not what lies behind those."""
        seen: set[int] = set()
        waiting = [leader for leader in first if within is None or leader in within]
        while waiting:
            leader = waiting.pop()
            if leader in seen:
                continue
            seen.add(leader)
            if leader not in ends:
                waiting += [other for other in onward[leader] if within is None or other in within]
        return seen

    # ---------------------------------------------------------------------------------------------- instructions

    observing = False

    def _step(self, number: int) -> Step | None:
        """Return what an instruction does to the registers, or what of it is to be observed."""
        instruction = self.instructions[number]
        if instruction.never or (control_word(instruction) in CONTROL and control_word(instruction) != PHASE_CHECK):
            return None
        observe = self._observing(number, instruction) if instruction.opcode in ADDRESSED else None
        compute = self._computing(number, instruction) if self.slice.needed[number] else None
        slot = self._storing(instruction) if instruction.opcode in ("STL", "ST") and self.slice.local else None

        def step(m: EveryLaunch) -> None:
            if observe and self.observing:
                observe(m)
            if compute:
                compute(m)
            if slot:
                slot(m)

        return step if observe or compute or slot else None

    def _observing(self, number: int, instruction: SassInstruction) -> Step:
        places = memory_operands(instruction)
        address = operands.address(instruction.operands[places[0]])
        guard = operands.guard_operands(instruction.guard)
        copies = instruction.opcode == "LDGSTS"
        source = operands.address(instruction.operands[places[1]]) if copies else None
        filled = next((o for o in instruction.operands[::-1] if o.kind in (PRED, UPRED)), None) if copies else None
        reads = operands.predicate(filled) if filled else None
        wide = (
            operands.wide_address(instruction.operands[places[0]])
            if instruction.opcode in ("LD", "ST", "ATOM")
            else None
        )

        def observe(m: EveryLaunch) -> None:
            self.observed[number] = Observed(
                lanes=m.lanes,
                address=m.narrowed(address(m), False),
                guard=m.narrowed(guard(m), False) if guard else None,
                source=source(m) if source else None,
                reads=reads(m) if reads else None,
                upper=wide(m) if wide else None,
            )

        return observe

    def _computing(self, number: int, instruction: SassInstruction) -> Step:
        opcode = instruction.opcode
        if opcode in ("S2R", "S2UR", "CS2R"):
            special = self._special(number, instruction)
            if special:
                return special
        if opcode in EXCHANGE or opcode == "R2UR":
            return self._exchanging(number, instruction)
        if opcode in LOADS:
            return self._loading(number, instruction)
        try:
            step = operands.compiled(instruction)
        except NcuSwizzleError:
            raise
        except Exception:  # the emulator's own mistake: nothing is known of what the instruction writes
            step = None
        lose = self._losing(number, instruction)
        if step is None:
            return lose

        def enduring(m: EveryLaunch) -> None:
            try:
                step(m)
            except NcuSwizzleError:
                raise
            except Exception:
                lose(m)

        return enduring

    def _losing(self, number: int, instruction: SassInstruction) -> Step:
        """Return the step that makes the results unknown; those of uniform operands are the same for all lanes."""
        written = numbers_in(self.effects[number].writes)
        guard = operands.guard_operands(instruction.guard)
        even = instruction.opcode == "SYNCS"
        readers = [operands.raw(term) for o in instruction.operands for term in o.terms] if even else []
        readers += (
            [operands.raw(o) for o in instruction.operands[results(instruction) :] if o.kind in (REG, UREG)]
            if even
            else []
        )

        def lose(m: EveryLaunch) -> None:
            condition = guard(m) if guard else None
            same = even and all(alike(read(m)) for read in readers)
            for register in written:
                like = bool if register >= 336 else np.uint32
                m.put(register, unknown(number, like, uniform=same or is_uniform(register)), condition)

        return lose

    def _special(self, number: int, instruction: SassInstruction) -> Step | None:
        """Return the step that reads a special register which launches decide; None for others."""
        text = instruction.operands[1].text
        if text in AXES:
            name = Name(*AXES[text])
        elif text in RANKS:
            name = Name(BLOCK, 3)
        elif text.removeprefix("SR_") in SPECIAL_REGISTERS or text in ("SRZ", "SR_CgaSize"):
            return None
        elif instruction.opcode == "S2UR":
            name = Name(DATA, number)
        else:
            return self._losing(number, instruction)
        register, guard = operand_number(instruction.operands[0]), operands.guard_operands(instruction.guard)
        return lambda m: m.put(register, m.any_number(name), guard(m) if guard else None)

    def _exchanging(self, number: int, instruction: SassInstruction) -> Step:
        """Return the step of an exchange between lanes, which holds as far as it is known who takes part."""
        opcode = instruction.opcode
        step, lose = operands.compiled(instruction), self._losing(number, instruction)
        guard = operands.guard_operands(instruction.guard)
        source = operands.integer(instruction.operands[-1]) if opcode == "R2UR" else None
        even = opcode in ("VOTE", "VOTEU", "REDUX", "CREDUX")
        written = numbers_in(self.effects[number].writes)
        shuffle = operands.COMPILERS["SHFL"](instruction) if opcode == "SHFL" and guard is None else None
        targets = [operand_number(operand) for operand in instruction.operands[: results(instruction)]]

        def exchange_lanes(m: EveryLaunch) -> None:
            lanes = m.lanes.where(guard(m) if guard else None)
            if step and (lanes.exact or (source is not None and alike(source(m)) and len(written) == 1)):
                step(m)
            elif shuffle is not None:
                m.view = WarpView(warps=m.everyone, mask=lanes.must, whole=True)
                values = shuffle(m)
                m.stand(m.lanes)
                for register, value in zip(targets, values, strict=True):
                    m.put(register, value)
            elif even:
                for register in written:
                    m.put(
                        register,
                        unknown(number, bool if register >= 336 else np.uint32, uniform=True),
                        guard(m) if guard else None,
                    )
            else:
                lose(m)

        return exchange_lanes

    def _loading(self, number: int, instruction: SassInstruction) -> Step:
        """Return the step of a load: what memory holds at the same address is the same for all lanes."""
        place = memory_operands(instruction)[0]
        read = operands.wide_address(instruction.operands[place])
        written = numbers_in(self.effects[number].writes)
        guard = operands.guard_operands(instruction.guard)
        local = instruction.opcode == "LDL"
        words = len(written)

        def load(m: EveryLaunch) -> None:
            address = read(m)
            condition = guard(m) if guard else None
            same = alike(m.narrowed(address, False)) and not local
            for k, register in enumerate(written):
                value = unknown(number, bool if register >= 336 else np.uint32, uniform=same)
                if local and alike(address) and address.tag is None and np.all(address.bits == address.bits.flat[0]):
                    slot = m.slots.get(int(address.bits.flat[0]) + 4 * k)
                    whole = not instruction.has("U8", "S8", "U16", "S16")
                    value = slot if slot is not None and whole else value
                m.put(register, value, condition)

        return load if words else self._losing(number, instruction)

    def _storing(self, instruction: SassInstruction) -> Step:
        """Return the step of a store to local memory, of which words at fixed addresses are followed."""
        place = memory_operands(instruction)[0]
        read = operands.wide_address(instruction.operands[place])
        words = 4 if instruction.has("128") else 2 if instruction.has("64") else 1
        data = [operands.raw(instruction.operands[place + 1], k) for k in range(words)]
        narrow = instruction.has("U8", "S8", "U16", "S16")
        guard = operands.guard_operands(instruction.guard)
        generic = instruction.opcode == "ST"

        def store(m: EveryLaunch) -> None:
            address = read(m)
            fixed = alike(address) and address.tag is None and np.all(address.bits == address.bits.flat[0])
            if generic or not fixed:
                m.slots.clear()
                return
            at = int(address.bits.flat[0])
            for k, value in enumerate(data):
                if guard is None and not narrow and at % 4 == 0:
                    m.slots[at + 4 * k] = m.narrowed(value(m), False)
                else:
                    m.slots.pop(at + 4 * k & -4, None)

        return store


@dataclass(frozen=True, kw_only=True)
class Region:
    """What threads may run between where they were together and where they reconverge."""

    sync: int
    onward: frozenset[int]  # where they go on
    begins: tuple[int, ...]  # the BSSYs
    blocks: frozenset[int]  # by their first instructions
    written: frozenset[int]  # registers that they may write once they have diverged
    leaving: tuple[int, ...]  # where some may end, or no longer be waited for
    closed: bool  # whether no way into it leads around the BSSYs, so that all that were together are waited for
    heals: bool  # whether all of them come, but those that have ended


def _barriers(instruction: SassInstruction) -> set[int]:
    return {operand.number for operand in instruction.operands if operand.kind == BARRIER}


def _same(a: Value, b: Value) -> bool:
    """Return whether two values say the same."""
    if a is b:
        return True
    if a.tag != b.tag or a.bits.shape != b.bits.shape or not np.array_equal(a.known, b.known):
        return False
    return np.array_equal(np.where(a.known, a.bits, 0), np.where(b.known, b.bits, 0))


def _joined_lanes(a: Lanes, b: Lanes) -> Lanes:
    """Return who executes what two ways lead to; a warp may come on one of them alone."""
    one, other = a.may.any(axis=1, keepdims=True), b.may.any(axis=1, keepdims=True)
    must = np.where(one & other, a.must & b.must, a.must | b.must)
    return Lanes(may=a.may | b.may, must=must)
