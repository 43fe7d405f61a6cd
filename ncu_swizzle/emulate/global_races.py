"""Find unordered accesses by two threads of a launch to one word of global memory, at least one of them a write.

Between blocks only atomics, strong loads and what is built from them order plain accesses; within a block,
so do barriers of all its threads, which are counted: two accesses between the same two barriers are unordered. Where
code has other ways to order, and two accesses would race without them, the result says so instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.accesses import access_width, memory_operands
from ncu_swizzle.emulate.code import LOCAL_WINDOW, SHARED_WINDOW, SassInstruction
from ncu_swizzle.emulate.copies import copies_out
from ncu_swizzle.emulate.counts import Buffer
from ncu_swizzle.emulate.dependence import Tag
from ncu_swizzle.emulate.events import Hazard, Party
from ncu_swizzle.emulate.flow import Flow
from ncu_swizzle.emulate.machine import Machine, coordinates
from ncu_swizzle.emulate.memory import MemoryInstruction
from ncu_swizzle.emulate.spins import loads_behind
from ncu_swizzle.smem.opcodes import ATOMIC, READ, WRITE, Memory
from ncu_swizzle.smem.operations import Bools, Ints

MOST_ACCESSES = 1 << 20  # by lanes, that are compared
MOST_TRIED = 1 << 12  # distances between blocks, of two instructions
MOST_PAIRS = 1 << 12  # of instructions in blocks, that are compared one by one
MOST_FAR = 32  # further blocks that are compared because they may access the words of others
MANY = "more accesses to global memory than are compared"
FAR = "which words of global memory blocks far from each other share"
_WITHIN = frozenset(("SYNCS", "MEMBAR", "ATOMS", "UCGABAR_WAIT", "ARRIVES", "WARPSYNC", "UTCBAR"))
DIFFERENT = "nothing orders them, and either value may remain"
SAME = "both store the same value, so that it does not matter which remains"
OPEN = "nothing orders them; whether both store the same depends on data"
UNORDERED = "nothing orders them"


class _Accesses(NamedTuple):
    """One row for each unit of memory and lane."""

    unit: Ints
    block: Ints  # among all that ran
    thread: Ints
    epoch: Ints  # barriers of all threads that the block has passed
    event: Ints
    number: Ints  # of the instruction
    writes: Bools
    strong: Bools  # atomics, too
    values: Ints  # of a store, -1 if it is not known


def _does(instruction: SassInstruction) -> str:
    """Return what lanes do at addresses in global memory: READ, WRITE or ATOMIC; empty if nothing."""
    row = instruction.row
    return row.does(Memory.GLOBAL) if row.global_access and not instruction.never else ""


class _Group(NamedTuple):
    """What an instruction accesses in a block."""

    number: int
    block: int
    units: Ints  # in order
    writes: bool


def _distances(units: Ints, others: Ints, change: int) -> Iterator[int]:
    """Yield how often units must move by a change to meet others, the nearest first."""
    if not change:
        yield from (1, -1) if len(np.intersect1d(units, others)) else ()
        return
    ends = sorted(((others[0] - units[-1]) / change, (others[-1] - units[0]) / change))
    low, high = math.ceil(ends[0]), math.floor(ends[1])
    near = sorted(range(max(low, -MOST_TRIED), min(high, MOST_TRIED) + 1), key=abs)
    for times in near[: max(1, MOST_TRIED * 32 // len(units))]:
        if times and np.isin(units + times * change, others, kind="sort").any():
            yield times


@dataclass
class GlobalLog:
    """The loads and stores of blocks to global memory; `valued`: stores whose values are kept."""

    instructions: Sequence[SassInstruction]
    block: tuple[int, int, int]
    buffers: Sequence[Buffer]
    cluster: int = 1
    valued: frozenset[int] = frozenset()
    sampled: bool = False  # whether buffers hold a sample of random values
    rows: list[_Accesses] = field(default_factory=list)
    size: int = 0
    events: int = 0
    blocks: list[tuple[int, int, int]] = field(default_factory=list)
    machine: Machine | None = None  # that ran last, and the numbers of its blocks
    numbers: Any = None
    known: dict[tuple[int, int, int], int] = field(default_factory=dict)
    # By instruction: how its addresses depend on the block.
    tags: dict[int, set[Tag | None]] = field(default_factory=dict)
    lacking: dict[str, int | None] = field(default_factory=dict)  # see `HappensBefore`

    def add(
        self, m: Machine, instruction: SassInstruction, at: Ints, selected: Bools, width: int, tag: Tag | None
    ) -> None:
        """Add an access of lanes, (G, 32), of the view, to addresses with this tag."""
        does = _does(instruction)
        if not does or instruction.has("CONSTANT"):
            return
        if self.size > MOST_ACCESSES:
            self.lacking[MANY] = None
            return
        selected = selected & ((at >> 32) != SHARED_WINDOW) & ((at >> 32) != LOCAL_WINDOW)
        rows, lanes = np.nonzero(selected)
        if not len(rows):
            return
        values = np.full(len(rows), -1, np.int64)
        if m.now in self.valued:
            stored = MemoryInstruction(instruction).stored(m)
            if all(bool(np.all(np.broadcast_to(np.asarray(one.known), at.shape)[selected])) for one in stored):
                words = [np.broadcast_to(one.bits, at.shape)[selected].astype(np.int64) for one in stored]
                values = (
                    words[0] if len(words) == 1 else np.array([hash(each) >> 1 for each in zip(*words, strict=True)])
                )
        self.tags.setdefault(m.now, set()).add(tag)
        there = m.view_blocks()
        if self.machine is not m:
            self.machine, self.numbers = m, np.array([self._named(m, block) for block in range(len(m.blocks))])
        named = self.numbers
        wide = max(1, width // self.unit)
        unit = (at[rows, lanes][:, None] // self.unit + np.arange(wide)).ravel()
        accesses = _Accesses(
            unit=unit,
            block=np.repeat(named[there[rows]], wide),
            thread=np.repeat(m.thread[m.view.warps[rows], lanes], wide),
            epoch=np.repeat(m.epochs[there[rows]], wide),
            event=np.full(len(unit), self.events),
            number=np.full(len(unit), m.now),
            writes=np.full(len(unit), does != READ),
            strong=np.full(len(unit), does == ATOMIC or instruction.has("STRONG")),
            values=np.repeat(values, wide),
        )
        self.events += 1
        self.size += len(unit)
        self.rows.append(accesses)

    @cached_property
    def unit(self) -> int:
        """The bytes of a unit: those of the narrowest access."""
        accessing = (each for each in self.instructions if _does(each))
        return min([4, *map(access_width, accessing)])

    def _named(self, m: Machine, block: int) -> int:
        x, y, z = m.blocks[block].tolist()
        if (x, y, z) not in self.known:
            self.known[x, y, z] = len(self.blocks)
            self.blocks.append((x, y, z))
        return self.known[x, y, z]

    def doubt(self, numbers: Iterable[int]) -> None:
        """Note instructions whose accesses are not known."""
        instructions = (self.instructions[number] for number in numbers)
        unknown = [each.offset for each in instructions if _does(each) and not each.has("CONSTANT")]
        if unknown:
            self.lacking.setdefault("which words of global memory some accesses are to, as data decide", min(unknown))

    def far(self, grid: tuple[int, int, int]) -> list[tuple[int, int, int]]:
        """Return blocks that have not run and, by how addresses depend on the block, may access what others write.

        `lacking` says so if that is not known because they do not depend on it by fixed steps.
        """
        if not self.rows or not any(bool(each.writes.any()) for each in self.rows):
            return []
        table = self._table()
        order = np.lexsort((table.unit, table.block, table.number))
        keys = np.stack([table.number[order], table.block[order]])
        starts = np.flatnonzero(np.r_[True, np.any(keys[:, 1:] != keys[:, :-1], axis=0)])
        groups = [
            _Group(int(number), int(block), np.unique(units), bool(table.writes[order[start]]))
            for number, block, start, units in zip(
                *keys[:, starts], starts, np.split(table.unit[order], starts[1:]), strict=True
            )
        ]
        if len(groups) ** 2 > MOST_PAIRS:
            groups = self._together(groups)
        distant: dict[tuple[int, int, int], None] = {}
        for moved in groups:
            for tag in filter(None, self.tags[moved.number]):
                if tag.coefficients is None:
                    self.lacking.setdefault(FAR, self._offset(moved.number))
                    continue
                for other in groups:
                    if (moved.writes or other.writes) and len(distant) < MOST_FAR:
                        distant.update(dict.fromkeys(self._meeting(moved, other, tag, grid)))
        return [block for block in distant if block not in self.known]

    def _together(self, groups: Iterable[_Group]) -> list[_Group]:
        """Return what a block's instructions access together whose addresses depend alike on the block.

        An unrolled loop has hundreds of loads. Of those that meet something, the nearest block is then found alone.
        """
        alike: dict[tuple[int, frozenset[Tag | None], bool], list[_Group]] = {}
        for group in groups:
            alike.setdefault((group.block, frozenset(self.tags[group.number]), group.writes), []).append(group)
        return [some[0]._replace(units=np.unique(np.concatenate([g.units for g in some]))) for some in alike.values()]

    def _meeting(
        self, moved: _Group, other: _Group, tag: Tag, grid: tuple[int, int, int]
    ) -> Iterator[tuple[int, int, int]]:
        """Yield blocks on an axis of the grid, or next to it, in which an instruction meets what another accesses."""
        assert tag.coefficients is not None
        own = self.blocks[moved.block]
        steps = [(axis, tag.stride[axis], tag.coefficients[axis] // self.unit) for axis in range(3) if grid[axis] > 1]
        for axis, stride, change in steps:
            beside = [(another, step, apart) for another, step, apart in steps if another != axis]
            for another, step, apart in [(axis, 0, 0), *beside, *((a, -step, -apart) for a, step, apart in beside)]:
                units, block = moved.units + apart, list(own)
                block[another] += step
                if not 0 <= block[another] < grid[another]:
                    continue
                for times in _distances(units, other.units, change):
                    x, y, z = (at + times * stride * (place == axis) for place, at in enumerate(block))
                    inside = all(0 <= at < size for at, size in zip((x, y, z), grid, strict=True))
                    if inside and (x, y, z) not in (own, self.blocks[other.block]):
                        yield x, y, z
                        break

    def _table(self) -> _Accesses:
        columns: list[Any] = [np.concatenate(column) for column in zip(*self.rows, strict=True)]
        return _Accesses(*columns)

    def conflicts(self) -> Iterator[tuple[int, int, _Accesses]]:
        """Yield pairs of conflicting rows, the later one first, with their table."""
        if not self.rows or not any(bool(each.writes.any()) for each in self.rows):
            return
        every = self._table()
        written = np.isin(every.unit, every.unit[every.writes])
        columns: list[Any] = [column[written] for column in every]
        table = _Accesses(*columns)
        for keys in ((table.unit,), (table.epoch, table.block, table.unit)):
            order = np.lexsort((np.arange(len(table.unit)), ~table.writes, *keys))
            new = np.ones(len(order), bool)
            new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
            first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
            write, other = order[first], order  # of each group, the first write, and every access
            apart = table.writes[write] & (table.block[write] != table.block[other])
            if len(keys) > 1:
                thread, others = table.thread[write], table.thread[other]
                same = (table.event[write] == table.event[other]) & table.writes[other]
                apart = table.writes[write] & (thread != others) & ((thread // 32 != others // 32) | same)
            apart &= ~(table.strong[write] & table.strong[other])
            for a, b in zip(write[apart].tolist(), other[apart].tolist(), strict=True):
                yield (*((a, b) if table.event[a] > table.event[b] else (b, a)), table)

    @cached_property
    def _others_order(self) -> tuple[bool, bool]:
        """Whether something else than barriers may order accesses of different blocks, and of threads of one."""
        executed = [each for each in self.instructions if not each.never]
        # A release and an acquire, which are strong, let one thread see what another did.
        strong = {_does(each) for each in executed if each.has("STRONG")}
        atomics = [each.row for each in executed if _does(each) == ATOMIC]
        tells, hears = bool(atomics) or WRITE in strong, any(row.reads for row in atomics) or READ in strong
        named = any(each.row.writes & Memory.VOTED and len(each.operands) > 1 for each in executed)
        asks = tells and hears
        return asks or self.cluster > 1, asks or named or any(each.opcode in _WITHIN for each in executed)

    def hazards(self) -> tuple[dict[tuple[str, int, int], Hazard], dict[str, int | None]]:
        """Return the races, and, by reason, where other ways of ordering may prevent one."""
        races: dict[tuple[str, int, int], Hazard] = {}
        lacking = dict(self.lacking)
        if copies := [each.offset for each in self.instructions if not each.never and copies_out(each)]:
            lacking.setdefault("which words of global memory bulk copies write that others access", copies[0])
        between, within = self._others_order
        for later, earlier, table in self.conflicts():
            numbers = int(table.number[later]), int(table.number[earlier])
            apart = table.block[later] != table.block[earlier]
            at_once = table.event[later] == table.event[earlier]  # threads of one warp are ordered with nothing else
            together = at_once and table.thread[later] // 32 == table.thread[earlier] // 32
            if between if apart else within and not together:
                lacking.setdefault("what orders two accesses to one word of global memory", self._offset(numbers[0]))
                continue
            code, verdict = self._verdict(numbers, int(table.values[later]), int(table.values[earlier]))
            if (code, *numbers) not in races:
                races[code, *numbers] = self._hazard(code, verdict, (later, earlier), table)
        # Stores that differ in some values are named once, and so are those of lost updates.
        updates = self._updates(races)
        also = [
            key for key in races
            if key[0] == codes.GLOBAL_SAME and ((codes.GLOBAL_RACE, *key[1:]) in races or updates.intersection(key[1:]))
        ]  # fmt: skip
        return {key: race for key, race in races.items() if key not in also}, lacking

    def _verdict(self, numbers: tuple[int, int], value: int, other: int) -> tuple[str, str]:
        """Return the code of a race between two instructions and what it means, given what both store."""
        if not all(_does(self.instructions[number]) == WRITE for number in numbers):
            return codes.GLOBAL_RACE, UNORDERED
        if value != other:
            return codes.GLOBAL_RACE, DIFFERENT
        if value < 0:
            return codes.GLOBAL_SAME, OPEN
        return codes.GLOBAL_SAME, f"in a sample of random inputs, {SAME}" if self.sampled else SAME

    def _updates(self, races: Iterable[tuple[str, int, int]]) -> set[int]:
        """Return the stores of what is computed from a load that they race with."""
        flow, does = Flow(self.instructions), {}
        for _, *numbers in races:
            does.update({number: _does(self.instructions[number]) for number in numbers})
        pairs = {
            pair
            for code, one, other in races
            if code == codes.GLOBAL_RACE and not does[one] == does[other] == WRITE
            for pair in ((one, other), (other, one))
        }
        return {
            store
            for store, load in pairs
            if does[store] == WRITE
            and load in loads_behind(flow, store, memory_operands(self.instructions[store])[0] + 1)
        }

    def _hazard(self, code: str, verdict: str, pair: tuple[int, int], table: _Accesses) -> Hazard:
        parties = tuple(
            Party(
                offset=self._offset(int(table.number[row])),
                does=_does(self.instructions[int(table.number[row])]),
                thread=tuple(map(int, coordinates(int(table.thread[row]), self.block))),  # type: ignore[arg-type]
            )
            for row in pair
        )
        later, earlier = (self.blocks[int(table.block[row])] for row in pair)
        verdict += f"; the other one is of block {earlier}" if later != earlier else ""
        at = int(table.unit[pair[0]]) * self.unit
        buffer = next((each for each in self.buffers if each.address <= at < each.address + each.size), None)
        location = f"byte {at - buffer.address:#x} of {buffer.name}" if buffer else f"address {at:#x} of global memory"
        return Hazard(code=code, parties=parties, block=later, what=verdict, place=location)

    def _offset(self, number: int) -> int:
        return self.instructions[number].offset

    def racing_stores(self) -> frozenset[int]:
        """Return the stores that conflict with stores."""
        pairs = ([int(table.number[row]) for row in rows] for *rows, table in self.conflicts())
        return frozenset(
            number
            for numbers in pairs
            if all(_does(self.instructions[number]) == WRITE for number in numbers)
            for number in numbers
        )
