"""Whether both versions of a kernel access the same elements of shared memory in the same order.

Per thread and source line, the elements must be the same ones in the same order. A compiler may reorder and merge
accesses; then, between two barriers, each thread must at least do the same things to each element in the same order,
and the results decide (see `values`). What each block does is known for all blocks that behave like it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.emulate.counts import Dim3
from ncu_swizzle.emulate.limits import Clock
from ncu_swizzle.emulate.side_by_side import Pair, Version, side_by_side
from ncu_swizzle.emulate.spin_loops import Contended
from ncu_swizzle.emulate.tracing import LaneSyncs
from ncu_swizzle.engines.executable import Executable
from ncu_swizzle.errors import ProgramFailed
from ncu_swizzle.proof.claims import State
from ncu_swizzle.proof.lines import Lines
from ncu_swizzle.proof.moved import NOWHERE, Moved
from ncu_swizzle.proof.places import GAP, UNRESOLVED, Places
from ncu_swizzle.proof.rows import READ, WRITE, Numbers, Rows, Table, location
from ncu_swizzle.smem.banks import Bools, Ints


@dataclass
class Traces:
    """What comparing them found: whether it holds, and if not, where."""

    state: State = State.HELD
    reason: str = ""
    line: Location | None = None
    in_order: bool = True  # also per line, not only per element
    blocks: list[tuple[int, int, int]] = field(default_factory=list)  # that ran
    accesses: int = 0  # of single lanes that were compared
    places: Places | None = None  # where the bytes of shared memory have gone
    executed: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))  # accesses of both versions

    def fail(self, state: State, reason: str, line: Location | None = None) -> None:
        """Record the first thing that does not hold."""
        if self.state is State.HELD:
            self.state, self.reason, self.line = state, reason, line


def compare(before: Executable, after: Executable, moved: Sequence[Moved], timeout_s: float) -> Traces:
    """Compare all accesses in blocks that stand for all of the grid, whatever the data are."""
    traces = Traces()
    clock = Clock(timeout_s)
    try:
        versions = [Version(each.code, each.launch(None), clock) for each in (before, after)]
        comparison = _Comparison(before, after, moved, versions, traces)
        for pair in side_by_side(*versions):
            comparison.add(pair)
            if traces.state is not State.HELD:
                break
    except Contended:
        traces.fail(State.UNKNOWN, "lanes want the same word of shared memory in a loop of compare-and-swap")
    except ProgramFailed as error:
        traces.fail(State.UNKNOWN, str(error))
    return traces


class _Comparison:
    def __init__(
        self,
        before: Executable,
        after: Executable,
        moved: Sequence[Moved],
        versions: Sequence[Version],
        traces: Traces,
    ) -> None:
        old, new = before.emulated.profile.sources, after.emulated.profile.sources
        self.kinds, self.lines, self.traces = Numbers(), Numbers(), traces
        self.tables = [
            Table.of(each, version.instructions, lines, self.kinds, self.lines)
            for each, version, lines in zip(
                (before, after), versions, (Lines.same(old), Lines.between(old, new)), strict=True
            )
        ]
        self.places = Places(moved, before.arrays, after.arrays)
        widths = np.concatenate([table.width for table in self.tables])
        ends = [end for array in moved for end in (array.before.start, array.after.start, array.element_bytes)]
        places = [array.places[array.places != NOWHERE] for array in moved]
        offsets = [int(np.gcd.reduce(each)) for each in places if len(each)]
        self.unit = functools.reduce(math.gcd, [*map(int, widths[widths > 0]), *ends, *offsets], 16)
        self.plain = self.kinds.of(READ), self.kinds.of(WRITE)
        self.block: Dim3 = before.launch(None).block
        traces.places = self.places

    def add(self, pair: Pair) -> None:
        """Compare the accesses of some blocks."""
        for table, trace in zip(self.tables, (pair.first, pair.second), strict=True):
            if trace.unknown:
                number = min(trace.unknown)
                self.traces.fail(State.UNKNOWN, trace.unknown[number], self._line(table.line[number]))
                return
        for executed, trace in zip(self.traces.executed, (pair.first, pair.second), strict=True):
            executed.update(np.unique(trace.accesses.pc).tolist())
        sides = zip(self.tables, (pair.first, pair.second), strict=True)
        first, second = (Rows.of(trace.accesses, table, self.unit) for table, trace in sides)
        if not self._synchronised(pair):
            return
        self.traces.accesses += len(pair.first.accesses.pc)
        self.traces.blocks += [(x, y, z) for x, y, z in pair.blocks.tolist()]
        self._learn(first, second)
        (lined, groups), (others, other_groups) = first.by_line(), second.by_line()
        translated = self._translated(others, pair)
        if translated is None:
            return
        same = len(lined) == len(translated) and bool(
            (groups == other_groups).all()
            and (lined.at == translated.at).all()
            and (lined.epoch == translated.epoch).all()
        )
        self.traces.in_order &= same
        if not same:
            self._by_place(first, self._translated(second, pair), pair)

    def _synchronised(self, pair: Pair) -> bool:
        """Compare what each thread synchronises with: the same, between the same barriers, after as many copies."""
        old, new = (
            _synced(trace.syncs, table) for table, trace in zip(self.tables, (pair.first, pair.second), strict=True)
        )
        if old.shape == new.shape and (old[:-1] == new[:-1]).all():
            return True
        count = min(old.shape[1], new.shape[1])
        differing = (old[:-1, :count] != new[:-1, :count]).any(axis=0)
        at = int(differing.argmax()) if differing.any() else count
        in_old = new.shape[1] <= at or (old.shape[1] > at and tuple(old[:3, at]) <= tuple(new[:3, at]))
        block, thread, _, _, kind, line = (old if in_old else new)[:, at].tolist()
        other = "the new kernel does not do so here" if in_old else "the old kernel does not do so here"
        what = f"{self._who(block, thread, pair)} synchronises by {self.kinds.things[kind]}, and {other}"
        self.traces.fail(State.FAILED, what, self._line(line))
        return False

    def _learn(self, first: Rows, second: Rows) -> None:
        """Learn the places of what did not move by itself, line by line."""
        if (self.places.old(second.at) == UNRESOLVED).any():
            for line in np.unique(second.line).tolist():
                self.places.learn(second.at[second.line == line], first.at[first.line == line], self.unit)

    def _translated(self, rows: Rows, pair: Pair) -> Rows | None:
        """Return the new kernel's accesses with the old places of what they access; None if there are none."""
        old = self.places.old(rows.at)
        for mark, state, what in (
            (GAP, State.FAILED, "a byte that belongs to no element"),
            (UNRESOLVED, State.UNKNOWN, "a byte of which it is not known what it stands for"),
        ):
            if len(wrong := np.flatnonzero(old == mark)):
                self._report(state, rows, int(wrong[0]), what, pair)
                return None
        if not (whole := self.places.whole(rows.at, self.unit)).all():
            self._report(State.FAILED, rows, int(np.flatnonzero(~whole)[0]), "parts of two elements at once", pair)
            return None
        return Rows(rows.block, rows.thread, rows.epoch, rows.line, rows.kind, old)

    def _by_place(self, first: Rows, second: Rows | None, pair: Pair) -> None:
        """Compare what each thread does to each element between two barriers."""
        if second is None:
            return
        old, new = first.by_place(*self.plain), second.by_place(*self.plain)
        count = min(len(old), len(new))
        columns = ("block", "thread", "epoch", "at", "kind")
        differing: Bools = np.zeros(count, bool)
        for column in columns:
            differing |= getattr(old, column)[:count] != getattr(new, column)[:count]
        if not differing.any() and len(old) == len(new):
            return
        at = int(differing.argmax()) if differing.any() else count
        keys = [tuple(getattr(rows, c)[at] for c in columns) if at < len(rows) else None for rows in (old, new)]
        if keys[0] is None or (keys[1] is not None and keys[1] < keys[0]):
            what = f"{self.places.element(int(new.at[at]))}, and the old kernel does not"
            self._report(State.FAILED, new, at, what, pair)
        else:
            what = f"{self.places.element(int(old.at[at]))}, and the new kernel does not"
            self._report(State.FAILED, old, at, what, pair, who="in the old kernel, ")

    def _report(self, state: State, rows: Rows, number: int, what: str, pair: Pair, who: str = "") -> None:
        does = self.kinds.things[int(rows.kind[number])]
        reason = f"{who}{self._who(int(rows.block[number]), int(rows.thread[number]), pair)} {does} {what}"
        self.traces.fail(state, reason, self._line(int(rows.line[number])))

    def _who(self, block: int, thread: int, pair: Pair) -> str:
        x, y, _ = self.block
        index = (thread % x, thread // x % y, thread // (x * y))
        return f"thread {index} of block {tuple(pair.blocks[block].tolist())}"

    def _line(self, number: int) -> Location | None:
        return location(self.lines, int(number))


def _synced(syncs: LaneSyncs, table: Table) -> Ints:
    """Return block, thread, epoch, copies, kind and line of what synchronises, by thread in the order of execution."""
    order = np.argsort(syncs.block << 10 | syncs.thread, kind="stable")
    pc = syncs.pc[order]
    columns = (syncs.block, syncs.thread, syncs.epoch, syncs.copies)
    return np.stack([*(column[order] for column in columns), table.sync[pc], table.line[pc]])
