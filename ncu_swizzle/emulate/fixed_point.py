"""What holds at each instruction of a kernel in every launch with blocks of a shape: a fixed point over its flow.

Basic blocks are run, each for all of the block's threads at once, from what may hold before them; what holds after
them is joined to what may hold before their successors, until nothing changes.

Threads of a warp that have diverged run separately, and reconverge at a BSYNC, all that were together at its BSSY, or
at a WARPSYNC (so does the emulator: see `schedule`). Between, what is the same for all lanes is so for those that run
together. After it, whatever they may have written since they diverged is not: each lane came by its own path.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.code import (
    INTEGER,
    LOW,
    PRED,
    REG,
    STEP,
    UPRED,
    UREG,
    Code,
    Operand,
    SassInstruction,
    parse_instruction,
)
from ncu_swizzle.emulate.effects import (
    REGISTERS,
    Effects,
    control_word,
    effects,
    numbers_in,
    reading_guard,
)
from ncu_swizzle.emulate.every_launch import (
    LOOP,
    PATH,
    EveryLaunch,
    Lanes,
    Moment,
    Name,
    identical,
    join_values,
    mix_values,
    splits,
    uniform_in_warps,
)
from ncu_swizzle.emulate.faults import Unsupported
from ncu_swizzle.emulate.flow import ANYWHERE, EXIT, Flow
from ncu_swizzle.emulate.launch_steps import Observed, Steps
from ncu_swizzle.emulate.liveness import Slice, needed
from ncu_swizzle.emulate.operations import exchange, floats, integers, special  # noqa: F401  they register opcodes
from ncu_swizzle.emulate.operations.primitives import conjunction, negation
from ncu_swizzle.emulate.reconvergence import LEAVING, SYNCHRONISING, Region, Regions
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem.operations import Bools

RESULT = 4, 5  # registers, of functions that are not part of the module
MOST_COPIED = 1 << 12  # instructions
JUMPS = frozenset(("BRA", "JMP", "BSSY"))
SLOTS = 1 << 10  # where the names of words of local memory begin, behind those of registers


# A function that is called from several places is copied, once per call: what holds at one need not at another.
# Compilers call internal functions for the slow path of a division, in the middle of code whose lanes reconverge.

Functions = Mapping[int, str]  # by offset


def copied_calls(
    instructions: Sequence[SassInstruction], functions: Functions
) -> tuple[tuple[SassInstruction, ...], Functions]:
    """Return the instructions and functions with such copies behind them.

    Only leaf functions that access no shared memory are copied.
    """
    code, named = list(instructions), dict(functions)
    bounds = [*sorted(functions), code[-1].offset + STEP if code else 0]
    for start, end in itertools.pairwise(bounds):
        body = [each for each in instructions if start <= each.offset < end]
        calls = [n for n, each in enumerate(code) if each.opcode == "CALL" and _target(each) == start]
        simple = not any(each.row.addressed or each.opcode == "CALL" for each in body)
        if not simple or len(calls) < 2 or len(body) * len(calls) > MOST_COPIED:
            continue
        for call in calls[1:]:
            shift = code[-1].offset + STEP - start
            code[call] = _retargeted_text(code[call], shift)
            named[start + shift] = functions[start]
            code += [_copied_instruction(each, shift, start, end) for each in body]
    return tuple(code), named


def _target(call: SassInstruction) -> int | None:
    numbers = [operand.number for operand in call.operands]
    return numbers[-1] if numbers and all(operand.kind == INTEGER for operand in call.operands) else None


def _copied_instruction(instruction: SassInstruction, shift: int, start: int, end: int) -> SassInstruction:
    """Return an instruction of a function further down; jumps within the function stay within its copy."""
    targets = [operand.number for operand in instruction.operands if operand.kind == INTEGER]
    within = instruction.opcode in JUMPS and bool(targets) and start <= targets[-1] < end
    moved = _retargeted_text(instruction, shift) if within else instruction
    return replace(moved, offset=instruction.offset + shift)


def _retargeted_text(instruction: SassInstruction, shift: int) -> SassInstruction:
    """Return a jump or call whose target, the last number among its operands, is further down."""
    last = max(n for n, operand in enumerate(instruction.operands) if operand.kind == INTEGER)
    operands: list[Operand] = list(instruction.operands)
    operands[last] = replace(operands[last], number=operands[last].number + shift)
    return replace(instruction, operands=tuple(operands))


@dataclass(frozen=True, eq=False, kw_only=True)
class ReadCode:
    """A kernel's instructions, and the analyses that do not depend on the block."""

    instructions: tuple[SassInstruction, ...]
    flow: Flow
    slice: Slice
    effects: tuple[Effects, ...]
    guards: tuple[tuple[int, bool] | None, ...]


_last: list[tuple[Code, ReadCode]] = []  # the last kernel read: it is analysed for several shapes and cases


def _read(code: Code) -> ReadCode:
    if not _last or _last[0][0] is not code:
        parsed = tuple(map(parse_instruction, code.instructions))
        instructions, functions = copied_calls(parsed, code.functions)
        flow = Flow(instructions, functions)
        _last[:] = [(code, ReadCode(
            instructions=instructions, flow=flow, slice=needed(flow), effects=tuple(map(effects, instructions)),
            guards=tuple(map(reading_guard, instructions)),
        ))]  # fmt: skip
    return _last[0][1]


@dataclass(eq=False)
class FixedPoint:
    """The analysis of a kernel for blocks of one shape."""

    code: Code
    machine: EveryLaunch
    named: Callable[[int], str] = str  # the name of the parameter at a byte
    before: dict[int, Moment] = field(default_factory=dict)  # by first instruction of a basic block

    def __post_init__(self) -> None:
        read = _read(self.code)
        self.instructions, self.flow, self.slice, self.effects, self.machine.guards = (
            read.instructions, read.flow, read.slice, read.effects, read.guards,
        )  # fmt: skip
        self.externals = {address & LOW for address in self.code.externals}
        outside = frozenset(
            n for n, each in enumerate(self.instructions)
            if each.opcode == "CALL" and any(o.number & LOW in self.externals for o in each.operands)
        )  # fmt: skip
        self.regions = Regions(self.instructions, self.flow, self.effects, outside)
        self.watch = Steps(self.instructions, self.effects, self.slice)
        self.steps = [self.watch.step(number) for number in range(len(self.instructions))]
        self.live = {leader: numbers_in(self.slice.live[leader]) for leader in self.flow.leaders}
        self._must_after: dict[int, Bools] = {}  # by BSSY: who is together then
        self._gone: dict[int, Bools] = {}  # by what ends threads, or their part in a BSYNC: whose

    @property
    def observed(self) -> dict[int, Observed]:
        """The accesses that some launch may execute, once the fixed point is reached."""
        return self.watch.observed

    # ---------------------------------------------------------------------------------------------- the iteration

    def run(self) -> None:
        """Reach the fixed point, then observe each access."""
        m = self.machine
        self.before[0] = Moment(Lanes(may=m.live.copy(), must=m.live.copy()))
        waiting, before = [0], None
        while before != (before := self._decided()):
            self.regions.clear()
            self._propagate(waiting)
            waiting = [self.flow.first(n) for n in self.regions.synchronising if self.flow.first(n) in self.before]
        self.watch.observing = True
        for leader in sorted(self.before):
            self._enter(leader)
            self._execute(leader)

    def _decided(self) -> tuple[int, ...]:
        """Return a key that changes with anything that decides what holds after reconvergence."""
        noted = (*self._must_after.values(), *self._gone.values())
        return len(self.regions.divergent), len(noted), *(int(lanes.sum()) for lanes in noted)

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
        m.select_lanes(Lanes(may=moment.lanes.may, must=moment.lanes.must & moment.lanes.may))

    def _execute(self, leader: int) -> None:
        m = self.machine
        for number in range(leader, self.flow.last[leader] + 1):
            step = self.steps[number]
            if step is not None:
                m.now = number
                step(m)

    def _arrive(self, target: int, source: int, lanes: Lanes, reconverged: frozenset[int]) -> bool:
        """Join the current state to what may hold before a basic block; return whether that changes it."""
        m, old = self.machine, self.before.get(target)
        shape = lanes.may.shape
        again = self._ends_case(target, source, reconverged)
        if again:
            lanes = m.any_case_lanes(lanes)
        now: dict[int, Value] = {}
        for number in self.live[target]:
            value = m.registers[number]
            if value is not None:
                value = m.any_case(value) if again else value
                now[number] = mix_values(value, shape) if number in reconverged else value
        words = {at: m.any_case(value) for at, value in m.slots.items()} if again else m.slots
        if reconverged:
            words = {at: mix_values(value, shape) for at, value in words.items()}
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
            dims = 0 if identical(before, value) else m.bit(Name(kind, target, number))
            joint = join_values(before, value, old.lanes.may, lanes.may, mixed=mixed, dims=dims)
            if not identical(joint, before):
                registers[number], changed = joint, True
        slots = {}
        for at in old.slots.keys() & words.keys():
            dims = 0 if identical(old.slots[at], words[at]) else m.bit(Name(kind, target, SLOTS + at))
            mixed = bool(reconverged)
            slots[at] = join_values(old.slots[at], words[at], old.lanes.may, lanes.may, mixed=mixed, dims=dims)
            changed |= not identical(slots[at], old.slots[at])
        changed |= len(slots) < len(old.slots)
        joint_lanes = _joined_lanes(old.lanes, lanes)
        changed |= bool((joint_lanes.may != old.lanes.may).any() or (joint_lanes.must != old.lanes.must).any())
        if changed:
            self.before[target] = Moment(joint_lanes, registers, slots)
        return changed

    def _ends_case(self, target: int, source: int, reconverged: frozenset[int]) -> bool:
        """Return whether threads that reach a basic block may be in several cases of a loop variable."""
        split = self.machine.split
        if split is None or split.name.kind != LOOP or target == split.name.place:
            return split is not None and split.name.kind == LOOP
        return bool(reconverged) and split.name.place in self.regions.region(self.flow.last[source]).blocks

    # ---------------------------------------------------------------------------------------------- where threads go

    def _leave(self, last: int) -> Iterator[tuple[int, Lanes, frozenset[int]]]:
        """Yield where the threads go after a basic block, which ones, and the registers in which they are mixed."""
        instruction, m = self.instructions[last], self.machine
        word, after = control_word(instruction), self.flow.following(last)
        nobody: frozenset[int] = frozenset()
        m.now = last
        if instruction.never or not instruction.row.control:
            yield from self._to(after, m.lanes, nobody)
            return
        condition = self._condition(instruction)
        if word in SYNCHRONISING:
            region = self.regions.region(last)
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
        if targets is None:  # it continues, whatever its condition
            yield from self._to(after, m.lanes, nobody)
            return
        stays = None if condition is None else m.lanes.where(negation(condition))
        several = len(set(targets)) > 1 and self._selected_by_lanes(instruction)
        if several or (targets != (EXIT,) and splits(condition, m.lanes.may)):
            self.regions.divergent.add(last)
        for target in targets:
            lanes = Lanes(may=leaving.may, must=np.zeros_like(leaving.must)) if several else leaving
            yield from self._to(target, lanes, nobody)
        if stays is not None:
            yield from self._to(after, stays, nobody)

    @staticmethod
    def _note(noted: dict[int, Bools], number: int, lanes: Bools, combine: Callable[..., Bools]) -> None:
        noted[number] = combine(noted[number], lanes) if number in noted else lanes

    def _to(self, target: int, lanes: Lanes, mixed: frozenset[int]) -> Iterator[tuple[int, Lanes, frozenset[int]]]:
        # No thread of a successful launch reaches a trap.
        if target not in (EXIT, ANYWHERE) and target not in self.flow.fatal and lanes.may.any():
            yield target, lanes, mixed

    def _targets(self, number: int, instruction: SassInstruction) -> tuple[int, ...] | None:
        """Return where a control instruction goes if its condition holds; None if only to the next instruction."""
        word, flow = control_word(instruction), self.flow
        ends = word in ("EXIT", "KILL") or (word == "BPT" and instruction.has("TRAP"))
        if ends:
            return (EXIT,)
        if word == "CALL" and number in self.regions.outside:
            self.machine.forget(RESULT, number)
        elif word == "CALL" and not flow.targets(number):
            raise Unsupported(instruction.offset, instruction.text, "calls through a register")
        if word in ("CALL", "BRA", "JMP"):
            return None if number in self.regions.outside else flow.targets(number)
        if word == "RET":
            return flow.returns(number)
        return (flow.targets(number) or tuple(flow.leaders)) if word in ("BRX", "BRXU", "JMX", "JMXU") else None

    def _selected_by_lanes(self, instruction: SassInstruction) -> bool:
        """Return whether a register may send lanes of a warp different ways."""
        registers = [operand for operand in instruction.operands if operand.kind in (REG, UREG)]
        return any(not uniform_in_warps(operands.raw(operand)(self.machine)) for operand in registers)

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
        if instruction.has("ANY") and not uniform_in_warps(condition):
            return m.any_number(Name(PATH, m.now), bool)
        return m.one_per_warp(condition, False)

    def _together(self, sync: int, region: Region, condition: Value | None) -> Lanes:
        """Return the lanes that continue after a BSYNC or WARPSYNC."""
        lanes, live, instruction = self.machine.lanes, self.machine.live, self.instructions[sync]
        if condition is not None or instruction.has("EXCLUSIVE"):
            return Lanes(may=lanes.may, must=np.zeros_like(live))
        if not region.closed:
            return lanes if instruction.opcode == "BSYNC" else Lanes(may=lanes.may, must=np.zeros_like(live))
        before = [self._must_after[begin] for begin in region.begins if begin in self._must_after]
        must = np.logical_and.reduce(before) if before else live
        for number in region.leaving:
            must = must & ~self._gone.get(number, np.zeros_like(live))
        return Lanes(may=lanes.may, must=must | lanes.must)


def _joined_lanes(a: Lanes, b: Lanes) -> Lanes:
    """Return the lanes that execute where two paths meet; a warp may come by only one of them."""
    one, other = a.may.any(axis=1, keepdims=True), b.may.any(axis=1, keepdims=True)
    must = np.where(one & other, a.must & b.must, a.must | b.must)
    return Lanes(may=a.may | b.may, must=must)
