"""What threads would request on paths that data may make them take.

A branch on something unknown leaves open which lanes take which path, and how often. What they would access is known
anyway if their addresses are: so both paths are followed with all lanes, in a copy of the machine that is thrown away,
up to where they meet. Fewer lanes than these may execute, never others. Registers keep their values from the branch,
and a lane computes the same whichever others are active, except for votes and shuffles, whose results are forgotten.

A loop whose end is unknown is followed until a period of it has changed all registers by the same steps and, run once
more with tags, changed nothing but these steps: then all further iterations request the same, shifted as
a whole. Whatever is not followed to its end is reported as lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.boxes import Repeat
from ncu_swizzle.emulate.code import PRED, UPRED, SassInstruction
from ncu_swizzle.emulate.contents import lose_arrays, lose_everything
from ncu_swizzle.emulate.dependence import LOOP_AXES, WORD, open_tag, sum_tag, trailing_zeros
from ncu_swizzle.emulate.effects import BASES, GLOBAL, SHARED, is_control, numbers_in, operand_number
from ncu_swizzle.emulate.flow import EXIT
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operations.primitives import conjunction
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.state import Group
from ncu_swizzle.emulate.steps import Movement, strip
from ncu_swizzle.emulate.values import Value, known_in, unknown
from ncu_swizzle.smem.operations import Bools, Ints

MOST_BLOCKS = 4_000  # basic blocks that are followed in one run
MOST_VISITS = 24  # of a branch on one path, by which a loop must have shown its steps
DEEPEST = 40  # nested paths
PERIODS = (1, 2, 3, 4, 6, 8)  # visits after which steps repeat
ENDLESS_ENOUGH = 1 << 20  # periods: after 2^31 elements, counters of 32 bits overflow, which no program relies on
# Threads wait there and continue with the next instruction, or it does nothing to them.
_PASSED = frozenset(("BSSY", "BSYNC", "WARPSYNC", "BAR", "NOP", "YIELD", "NANOSLEEP", "BREAK"))


def condition_of(m: Machine, instruction: SassInstruction) -> Value | None:
    """Return the guard ANDed with the predicate operand; None if there is neither."""
    readers = [operands.guard_operands(instruction.guard)]
    readers += [operands.predicate(o) for o in instruction.operands if o.kind in (PRED, UPRED)]
    values = [read(m) for read in readers if read is not None]
    if not values:
        return None
    return values[0] if len(values) == 1 else conjunction(values[0], values[1])


class _Lost(Exception):
    """A path is not followed to its end."""


@dataclass(frozen=True, kw_only=True)
class _Visit:
    """A branch on one path: its registers at a visit, and the period that runs with tags from then on, if any."""

    registers: Sequence[Value | None]
    movement: Movement | None = None
    before: Sequence[Value | None] = ()
    period: int = 0
    repeat: Repeat | None = None


Registers = Sequence[Value | None]
Trail = dict[int, tuple[_Visit, ...]]  # by branch: its visits on the path so far


@dataclass(kw_only=True)
class Supposing:
    """Follows paths on a machine."""

    program: PreparedCode
    machine: Machine
    _blocks: int = field(default=0)
    # For each branch that is followed: what registers held where its paths ended, and how loops change them.
    _ends: list[tuple[list[Registers], list[Movement]]] = field(default_factory=list)

    def follow(self, group: Group, branch: int, stop: int, region: frozenset[int]) -> bool:
        """Record what a group of threads may request between a branch and `stop`; return whether that is all of it."""
        m = self.machine
        if not self._accesses(region):
            return True
        if m.log.supposing or self._blocks >= MOST_BLOCKS or self.program.probed:
            return False
        before, events, traffic, watcher, now = m.copy(), m.events, m.traffic, m.watcher, m.now
        m.events = m.traffic = m.watcher = None
        m.log.supposing = True
        try:
            written = 0
            for number in region:
                written |= self.program.effects[number].writes
            if written >> SHARED & 1:
                lose_everything(m, branch)
            if written >> GLOBAL & 1:
                lose_arrays(m)
            self._both(Group(branch, group.warps, group.mask), stop, {}, 0)
        except _Lost:
            return False
        finally:
            m.log.supposing = False
            self._ends.clear()
            self._back_to(before)
            m.events, m.traffic, m.watcher, m.now = events, traffic, watcher, now
        return True

    def _accesses(self, region: frozenset[int]) -> bool:
        return any(self.program.instructions[number].row.addressed for number in region)

    def _back_to(self, state: object) -> None:
        """Go back to a state; decisions about blocks and iterations stay."""
        m = self.machine
        boxes, repeats = m.boxes, m.repeats
        m.restore(state)  # type: ignore[arg-type]
        m.boxes, m.repeats = boxes, repeats

    def _both(self, group: Group, stop: int, trail: Trail, depth: int) -> None:
        """Follow both paths from a branch, each from the current state."""
        flow, m = self.program.flow, self.machine
        if depth > DEEPEST:
            raise _Lost
        ways = [way for way in dict.fromkeys(flow.successors(group.pc, into_calls=False)) if way not in (stop, EXIT)]
        for number, way in enumerate(ways):
            state = m.copy()
            self._along(Group(way, group.warps, group.mask), stop, trail, depth)
            if number < len(ways) - 1:
                self._back_to(state)

    def _along(self, group: Group, stop: int, trail: Trail, depth: int) -> None:
        """Run threads from an instruction on until all have reached `stop` or ended."""
        m, flow = self.machine, self.program.flow
        waiting: dict[int, Bools] = {group.pc: group.mask}
        warps = group.warps
        while waiting:
            pc = min(waiting)
            mask = waiting.pop(pc)
            if pc in (stop, EXIT) or not mask.any():
                if self._ends and mask.any():
                    self._ends[-1][0].append(list(m.registers))
                continue
            self._blocks += 1
            if self._blocks > MOST_BLOCKS:
                raise _Lost
            last = flow.last[pc]
            self._run(warps, mask, pc)
            instruction = self.program.instructions[last]
            m.now = last
            for target, lanes in self._onward(warps, mask, instruction, last, (stop, trail, depth)):
                waiting[target] = waiting[target] | lanes if target in waiting else lanes

    def _run(self, warps: Ints, mask: Bools, pc: int) -> None:
        """Run a basic block."""
        m, program = self.machine, self.program
        used = mask.any(axis=1)
        m.see(warps[used], mask[used])
        for number, step in program.runs[pc]:
            m.now = number
            instruction = program.instructions[number]
            if instruction.has("SPIN") or instruction.opcode in ("SYNCS", "ARRIVES"):
                raise _Lost
            if instruction.row.exchanges and not instruction.row.matrix and not self._is_uniform(instruction):
                m.forget(numbers_in(program.effects[number].writes), number)
            else:
                step(m)

    def _is_uniform(self, instruction: SassInstruction) -> bool:
        """Return whether any lane gives the same number to a uniform register."""
        source = operand_number(instruction.operands[-1]) if instruction.opcode == "R2UR" else None
        if source is None:
            return False
        value, mask = self.machine.get(source), self.machine.view.mask
        bits = np.broadcast_to(value.bits, mask.shape)
        first = np.take_along_axis(bits, mask.argmax(axis=1)[:, None], axis=1)
        return known_in(value, mask) and bool(((bits == first) | ~mask).all())

    def _onward(
        self, warps: Ints, mask: Bools, instruction: SassInstruction, last: int, way: tuple[int, Trail, int]
    ) -> list[tuple[int, Bools]]:
        """Return where threads continue after the last instruction of a basic block, and which."""
        m, flow = self.machine, self.program.flow
        after = flow.following(last)
        if instruction.never or not is_control(instruction) or instruction.opcode in _PASSED:
            if instruction.opcode == "BAR":
                lose_everything(m, last)
            return [(after, mask)]
        used = mask.any(axis=1)
        group = Group(last, warps[used], mask[used])
        m.see(group.warps, group.mask)
        condition = condition_of(m, instruction)
        selected, doubtful = m.certain_mask(condition)
        if instruction.opcode in ("EXIT", "KILL", "BPT"):
            gone = np.zeros_like(mask)
            gone[used] = selected
            return [(after, mask & ~gone)]
        targets = flow.targets(last)
        if instruction.opcode not in ("BRA", "JMP") or len(targets) != 1 or instruction.has("DIV", "CONV"):
            raise _Lost
        falls, jumps = after in flow.fatal, targets[0] in flow.fatal
        if doubtful.any() and falls == jumps:
            return self._split(group, mask, way)
        taken = np.zeros_like(mask)
        taken[used] = selected | (doubtful & falls)
        if instruction.has("ANY"):
            taken = mask & taken.any(axis=1, keepdims=True)
        return [(after, mask & ~taken), (targets[0], taken)]

    def _split(self, group: Group, mask: Bools, way: tuple[int, Trail, int]) -> list[tuple[int, Bools]]:
        """Follow both paths of an unknown branch; return where threads continue if these meet before `stop`."""
        m, flow, (stop, trail, depth) = self.machine, self.program.flow, way
        meets = flow.post_dominators[group.pc]
        inner = meets not in (stop, EXIT) and self._leads_to(meets, stop)
        if inner:
            state, before, region = m.copy(), list(m.registers), flow.region(group.pc, meets)
            self._ends.append(([], []))
            open_, followed, repeats = len(self._ends), True, len(m.repeats.active)
            try:
                self._both(group, meets, {}, depth + 1)
            except _Lost:
                if self._accesses(region) or self._blocks > MOST_BLOCKS:
                    raise
                followed = False  # nothing is requested there: only its results in registers are unknown
            del self._ends[open_:], m.repeats.active[repeats:]
            ends, movements = self._ends.pop()
            self._back_to(state)
            m.see(group.warps, group.mask)
            written = 0
            for number in region:
                written |= self.program.effects[number].writes
            for number in numbers_in(written):
                left = self._left_open(number, before, ends, movements) if followed else None
                m.put(number, left or unknown(group.pc, bool if number >= BASES[PRED] else np.uint32))
            return [(meets, mask)]
        visits, ended = self._add_visit(group, trail.get(group.pc, ()))
        if not ended:
            self._both(group, stop, {**trail, group.pc: visits}, depth + 1)
        return []

    def _left_open(
        self, number: int, before: Registers, ends: Sequence[Registers], movements: Sequence[Movement]
    ) -> Value | None:
        """Return what a register holds where paths meet, if it is its old value plus the same number in all threads.

        None if not, or not known. `ends` is what registers held at each end of a path, `movements` the steps by which
        they change in further periods of loops.
        """
        m, old = self.machine, before[number]
        mask, warps = m.view.mask, m.view.warps
        if old is None or number >= BASES[PRED] or len(m.repeats.active) == LOOP_AXES:
            return None
        held = m.part(old)
        if not known_in(held, mask):
            return None
        first = np.broadcast_to(held.bits, mask.shape)[mask].astype(np.int64)
        align = 32
        for registers in ends:
            new = registers[number]
            value = None if new is None else m.part(new)
            if value is None or not known_in(value, mask):
                return None
            moved = np.unique(np.broadcast_to(value.bits, mask.shape)[mask].astype(np.int64) - first)
            if len(moved) > 1:
                return None
            align = min(align, trailing_zeros(int(moved[0]) % WORD))
        for movement in movements:
            change = movement.changes.get(number)
            steps = np.unique(np.broadcast_to(change, m.live.shape)[warps][mask]) if change is not None else np.zeros(1)
            if len(steps) > 1:
                return None
            align = min(align, trailing_zeros(int(steps[0]) % WORD))
        return Value(held.bits, True, None, sum_tag(held.tag, open_tag(align)))

    def _leads_to(self, number: int, stop: int) -> bool:
        """Return whether all threads at an instruction reach another one."""
        dominators = self.program.flow.post_dominators
        while number not in (stop, EXIT):
            number = dominators[number]
        return number == stop

    # ------------------------------------------------------------------------------------------ loops

    def _add_visit(self, group: Group, visits: tuple[_Visit, ...]) -> tuple[tuple[_Visit, ...], bool]:
        """Return the visits of a branch including this one, and whether all further ones do the same."""
        m = self.machine
        registers = list(m.registers)
        if len(visits) >= MOST_VISITS:
            raise _Lost
        if visits and (begun := next((visit for visit in reversed(visits) if visit.repeat), None)) is not None:
            done = len(visits) - visits.index(begun)
            if done == begun.period:
                return (*visits, _Visit(registers=registers)), self._proved(begun)
            if done < begun.period:
                return (*visits, _Visit(registers=registers)), False
        failed = {visit.period for visit in visits if visit.repeat}  # such as 1, of two buffers that take turns
        for period in PERIODS:
            if period in failed:
                continue
            if len(visits) < 2 * period or len(m.repeats.active) >= LOOP_AXES - 1:  # the last axis is `OPEN_AXIS`
                break
            lanes = self._matter(group)
            earlier = Movement.between(lanes, visits[-2 * period].registers, visits[-period].registers)
            movement = Movement.between(lanes, visits[-period].registers, registers)
            if movement is None or earlier is None or not _same(movement, earlier):
                continue
            repeat = m.repeats.begin(supposed=True)
            before = movement.begin(m, repeat.axis)
            visit = _Visit(registers=registers, movement=movement, before=before, period=period, repeat=repeat)
            return (*visits, visit), False
        return (*visits, _Visit(registers=registers)), False

    def _proved(self, begun: _Visit) -> bool:
        """Return whether the period that began at a visit did as expected, and nothing limits how often."""
        m, repeat = self.machine, begun.repeat
        assert repeat is not None
        assert begun.movement is not None
        held = not repeat.failed and repeat.most >= ENDLESS_ENOUGH and begun.movement.happened(m, begun.before)
        m.repeats.active.remove(repeat)
        strip(m, repeat.axis)
        if held and self._ends:
            self._ends[-1][1].append(begun.movement)
        return held

    def _matter(self, group: Group) -> dict[int, Bools]:
        """Return the lanes, (W, 32), in which registers matter after a branch."""
        flow, m = self.program.flow, self.machine
        where = np.zeros(m.live.shape, bool)
        where[group.warps] = group.mask
        alive = 0
        for way in flow.successors(group.pc, into_calls=False):
            alive |= self.program.live.get(way, 0)
        return dict.fromkeys(numbers_in(alive), where)


def _same(one: Movement, other: Movement) -> bool:
    """Return whether registers changed by the same steps."""
    return one.changes.keys() == other.changes.keys() and all(
        np.array_equal(change, other.changes[number]) for number, change in one.changes.items()
    )
