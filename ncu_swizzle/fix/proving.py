"""Prove that a rewritten kernel is free of the conflict and means the same, without a GPU."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ncu_swizzle.base.errors import NcuSwizzleError, ProgramFailed
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.emulate.accesses import Contended
from ncu_swizzle.emulate.code import parse_instruction
from ncu_swizzle.emulate.counts import Dim3
from ncu_swizzle.emulate.effects import COUNTED, GENERIC
from ncu_swizzle.emulate.events import Hazard
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.results import accesses
from ncu_swizzle.emulate.tracing import LaneSyncs, Pair, Version, side_by_side
from ncu_swizzle.engines.emulation import EmulationSettings, Executable, executable
from ncu_swizzle.fix import values
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Proof, claim, resources_of
from ncu_swizzle.fix.excess import GAP, NOWHERE, UNRESOLVED, Moved, MovedPlaces, excess_claim, excess_of
from ncu_swizzle.fix.rows import READ, WRITE, InstructionRows, Lines, Numbers, Rows, changed, instruction_rows
from ncu_swizzle.fix.values import Values
from ncu_swizzle.kernels import limits, toolchain
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.smem.operations import Bools, Ints

# Whether both versions of a kernel access the same elements of shared memory in the same order.
#
# Per thread and source line, the elements must be the same ones in the same order. A compiler may reorder and merge
# accesses; then, between two barriers, each thread must at least do the same things to each element in the same order,
# and the results decide (see `values`). What each block does is known for all blocks that behave like it.


@dataclass(kw_only=True)
class Traces:
    """What comparing them found: whether it holds, and if not, where."""

    state: ClaimState = ClaimState.HELD
    reason: str = ""
    line: Location | None = None
    in_order: bool = True  # also per line, not only per element
    blocks: list[tuple[int, int, int]] = field(default_factory=list)  # that ran
    accesses: int = 0  # of single lanes that were compared
    places: MovedPlaces | None = None  # where the bytes of shared memory have gone
    executed: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))  # accesses of both versions

    def fail(self, state: ClaimState, reason: str, line: Location | None = None) -> None:
        """Record the first thing that does not hold."""
        if self.state is ClaimState.HELD:
            self.state, self.reason, self.line = state, reason, line


def compare(before: Executable, after: Executable, moved: Sequence[Moved], timeout_s: float) -> Traces:
    """Compare all accesses in blocks that stand for all of the grid, whatever the data are."""
    traces = Traces()
    clock = Clock(timeout_s=timeout_s)
    try:
        versions = [Version(each.code, each.launch(None), clock) for each in (before, after)]
        comparison = _Comparison(before, after, moved, versions, traces)
        for pair in side_by_side(*versions):
            comparison.add(pair)
            if traces.state is not ClaimState.HELD:
                break
    except Contended:
        traces.fail(ClaimState.UNKNOWN, "lanes want the same word of shared memory in a loop of compare-and-swap")
    except ProgramFailed as error:
        traces.fail(ClaimState.UNKNOWN, str(error))
    return traces


class _Comparison:
    """Both versions, traced in the same blocks; `traces` says what came of it so far."""

    def __init__(
        self, before: Executable, after: Executable, moved: Sequence[Moved], versions: Sequence[Version], traces: Traces
    ) -> None:
        self.kinds, self.lines, self.traces = Numbers(), Numbers(), traces
        self.tables = instruction_rows(before, after, versions, self.kinds, self.lines)
        self.places = traces.places = MovedPlaces(moved, before.arrays, after.arrays)
        # The unit of comparison: what divides every access, every array and every distance that an element moves.
        widths = np.concatenate([table.width for table in self.tables])
        ends = [end for array in moved for end in (array.before.start, array.after.start, array.element_bytes)]
        places = [array.places[array.places != NOWHERE] for array in moved]
        offsets = [int(np.gcd.reduce(each)) for each in places if len(each)]
        self.unit = functools.reduce(math.gcd, [*map(int, widths[widths > 0]), *ends, *offsets], 16)
        self.plain = self.kinds.of(READ), self.kinds.of(WRITE)
        self.block: Dim3 = before.launch(None).block

    def add(self, pair: Pair) -> None:
        """Compare the accesses of some blocks."""
        sides = list(zip(self.tables, (pair.first, pair.second), strict=True))
        # An unknown address could be any element: nothing after it can hold.
        for table, trace in sides:
            if trace.unknown:
                number = min(trace.unknown)
                self.traces.fail(ClaimState.UNKNOWN, trace.unknown[number], self._line(table.line[number]))
                return
        for executed, (_, trace) in zip(self.traces.executed, sides, strict=True):
            executed.update(np.unique(trace.accesses.pc).tolist())
        first, second = (Rows.of(trace.accesses, table, self.unit) for table, trace in sides)
        if not self._synchronised(pair):
            return
        self.traces.accesses += len(pair.first.accesses.pc)
        self.traces.blocks += [(x, y, z) for x, y, z in pair.blocks.tolist()]
        if (self.places.old(second.at) == UNRESOLVED).any():  # what did not move by itself is learnt line by line
            for line in np.unique(second.line).tolist():
                self.places.learn(second.at[second.line == line], first.at[first.line == line], self.unit)
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
        self.traces.fail(ClaimState.FAILED, what, self._line(line))
        return False

    def _translated(self, rows: Rows, pair: Pair) -> Rows | None:
        """Return the new kernel's accesses with the old places of what they access; None if there are none."""
        old = self.places.old(rows.at)
        for mark, state, what in (
            (GAP, ClaimState.FAILED, "a byte that belongs to no element"),
            (UNRESOLVED, ClaimState.UNKNOWN, "a byte of which it is not known what it stands for"),
        ):
            if len(wrong := np.flatnonzero(old == mark)):
                self._report(state, rows, int(wrong[0]), what, pair)
                return None
        if not (whole := self.places.whole(rows.at, self.unit)).all():
            self._report(ClaimState.FAILED, rows, int(np.flatnonzero(~whole)[0]), "parts of two elements at once", pair)
            return None
        return Rows(rows.block, rows.thread, epoch=rows.epoch, line=rows.line, kind=rows.kind, at=old)

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
        # Both are sorted by these columns: at the first difference, the smaller key is the one that the other side
        # lacks.
        if keys[0] is None or (keys[1] is not None and keys[1] < keys[0]):
            what = f"{self.places.element(int(new.at[at]))}, and the old kernel does not"
            self._report(ClaimState.FAILED, new, at, what, pair)
        else:
            what = f"{self.places.element(int(old.at[at]))}, and the new kernel does not"
            self._report(ClaimState.FAILED, old, at, what, pair, who="in the old kernel, ")

    def _report(self, state: ClaimState, rows: Rows, number: int, what: str, pair: Pair, who: str = "") -> None:
        does = self.kinds.things[int(rows.kind[number])]
        reason = f"{who}{self._who(int(rows.block[number]), int(rows.thread[number]), pair)} {does} {what}"
        self.traces.fail(state, reason, self._line(rows.line[number]))

    def _who(self, block: int, thread: int, pair: Pair) -> str:
        x, y, _ = self.block
        index = (thread % x, thread // x % y, thread // (x * y))
        return f"thread {index} of block {tuple(pair.blocks[block].tolist())}"

    def _line(self, number: int) -> Location | None:
        """Return a line by its number; None for an instruction without one."""
        line = self.lines.things[int(number)]
        return line if isinstance(line, tuple) and line[0] else None


def _synced(syncs: LaneSyncs, table: InstructionRows) -> Ints:
    """Return what synchronises, (6, N): block, thread, epoch, copies, kind and line.

    Columns are ordered by thread, each thread's by execution.
    """
    # Stable, so that each thread's stay in the order of execution; a block has at most 1,024 threads: 10 bits.
    order = np.argsort(syncs.block << 10 | syncs.thread, kind="stable")
    pc = syncs.pc[order]
    columns = (syncs.block, syncs.thread, syncs.epoch, syncs.copies)
    return np.stack([*(column[order] for column in columns), table.sync[pc], table.line[pc]])


def prove(before: Target, after: Target, moved: Sequence[Moved], settings: EmulationSettings) -> Proof:
    """Return the proof for one launch. Nothing that is unknown holds. Raises what emulating the old kernel raises."""
    return prove_version(executable(before, settings), after, moved, settings)


def added_hazard(old: Executable, new: Executable) -> str:
    """Return a race or deadlock that only the new kernel has, in words; empty if it has none more than the old one."""
    before: dict[tuple[str, ...], Hazard] = {}  # by code and lines
    after: dict[tuple[str, ...], Hazard] = {}
    for found, version in ((before, old), (after, new)):
        for hazard in version.emulated.counts.hazards.found:
            located = [next(iter(version.stacks.get(party.offset, ())), ("", 0)) for party in hazard.parties]
            found.setdefault((hazard.code, *(f"{file}:{line}" if file else "" for file, line in located)), hazard)
    counts = Counter(code for code, *_ in before)
    for (code, *lines), hazard in after.items():
        counts[code] -= 1
        if counts[code] < 0:
            return f"{code}, {hazard.described(lines)}"
    return ""


_rebuilt = partial(Claim, about=About.REBUILT)
_meaning = partial(Claim, about=About.MEANING)


def prove_version(old: Executable, after: Target, moved: Sequence[Moved], settings: EmulationSettings) -> Proof:
    """Return the proof for a new version of what is emulated already."""
    rebuilt = _rebuilt_claim(old.target, after, settings)
    if not rebuilt.held:
        return Proof(claims=(rebuilt,))
    try:
        new = executable(after, settings)
    except MemoryFault as error:
        return Proof(claims=(rebuilt, _meaning(state=ClaimState.FAILED, reason=str(error))))
    except NcuSwizzleError as error:
        return Proof(claims=(_rebuilt(state=ClaimState.FAILED, reason=str(error)),))
    was = excess_of(old.emulated, {array.name: array.before for array in moved})
    now = excess_of(new.emulated, {array.name: array.after for array in moved})
    meaning, compared = _meaning_claim(old, new, moved, settings.toolchain.timeout_s)
    taken, takes = resources_of(old), resources_of(new)
    return Proof(
        claims=(rebuilt, excess_claim(old, new, moved, was, now), meaning, claim(taken, takes)),
        before=was,
        after=now,
        resources_before=taken,
        resources_after=takes,
        compared=compared,
    )


def _rebuilt_claim(before: Target, after: Target, settings: EmulationSettings) -> Claim:
    """Judge whether the new version is the same launch of a source that is compiled with the same options."""
    if before.compiled or before.python:
        reason = f"{before.kernel.file} is not CUDA C++ that could be compiled again"
        return _rebuilt(state=ClaimState.UNKNOWN, reason=reason)
    old, new = (toolchain.options(target.family, target.kernel) for target in (before, after))
    found_there = f"-I{before.family.folder.absolute()}"  # see `edits.rebuilt`

    def portable(target: Target, options: Sequence[str]) -> list[str]:
        """Return options without the folder that the sources are in."""
        root = str(limits.plain(target.family.root))
        return [option.replace(root, "") for option in options]

    same = portable(before, old) == portable(after, [option for option in new if option != found_there])
    if not same or before.family.arch != after.family.arch or before.problem != after.problem:
        return _rebuilt(state=ClaimState.FAILED, reason="the two versions have other options or another problem")
    return _rebuilt(state=ClaimState.HELD, reason=f"by nvcc {settings.toolchain.version()} with {' '.join(old)}")


def _meaning_claim(
    old: Executable, new: Executable, moved: Sequence[Moved], timeout_s: float
) -> tuple[Claim, tuple[str, ...]]:
    """Return the claim that both versions mean the same, and what was compared."""
    if added := added_hazard(old, new):
        return _meaning(state=ClaimState.FAILED, reason=f"it adds a hazard: {added}"), ()
    traced = compare(old, new, moved, timeout_s)
    if traced.state is not ClaimState.HELD:
        return _meaning(state=traced.state, reason=traced.reason, line=traced.line), ()
    each = traced.accesses // len(traced.blocks) if traced.blocks else 0
    blocks = values.some(traced.blocks, old.launch(None).grid, each)
    written = values.compare(old, new, blocks, timeout_s, places=traced.places)
    compared = tuple(_compared(old, traced, written))
    if written.difference:
        return _meaning(state=ClaimState.FAILED, reason=written.difference, line=written.line), compared
    if not written.complete:
        unknown = f"{written.unknown:,} of the results are unknown" if written.unknown else ""
        lacking = written.lacking or unknown or "the blocks that were compared write nothing"
        return _meaning(state=ClaimState.UNKNOWN, reason=lacking), compared
    if (line := _idle(old, new, traced, written)) is not None:
        reason = "this launch does not execute an access that the patch may change"
        return _meaning(state=ClaimState.UNKNOWN, reason=reason, line=line), compared
    order = "in the same order" if traced.in_order else "in the same order for each of them"
    return _meaning(state=ClaimState.HELD, reason=f"each thread accesses the same elements {order}"), compared


def _idle(old: Executable, new: Executable, traced: Traces, written: Values) -> Location | None:
    """Return a line with an access that neither version executes in any world, if the patch may change it.

    An access to shared memory may be one to an array with other rows, whatever its line says; others are changed where
    their line, or one that calls it, is. What has the same stack of lines, such as an unrolled loop and its rest, is
    one access, and so it is in both versions: a compiler joins accesses of two lines under one of them.
    """
    texts = old.emulated.profile.sources, new.emulated.profile.sources
    lines = Lines.same(texts[0]), Lines.between(*texts)
    asked: dict[tuple[str, tuple[Location, ...]], Location] = {}
    done: set[tuple[str, tuple[Location, ...]]] = set()
    for number, (version, edited) in enumerate(zip((old, new), changed(*texts), strict=True)):
        executed = traced.executed[number] | written.executed[number]
        for index, sass in enumerate(version.code.instructions):
            instruction, stack = parse_instruction(sass), version.stacks.get(sass.offset, ())
            if not accesses(instruction):
                continue
            what = instruction.opcode, lines[number].mapped(stack)
            if index in executed:
                done.add(what)
            elif instruction.opcode in COUNTED | GENERIC or not edited.isdisjoint(stack):
                asked.setdefault(what, lines[number].first(stack))
    return min((line for what, line in asked.items() if what not in done), default=None)


def _compared(old: Executable, traced: Traces, written: Values) -> list[str]:
    total = old.emulated.counts.blocks
    ran = len(traced.blocks)
    blocks = "1 block" if ran == 1 else f"{ran:,} blocks"
    stand = f", which {'stands' if ran == 1 else 'stand'} for all {total:,}" if ran < total else ""
    said = [f"{traced.accesses:,} accesses to shared memory in {blocks}{stand}: the same"]
    # Every patch that is offered has passed `guard`, which computes indices for each thread of such a block, from
    # constants as the compiler has them for these options: another -D may make rows shorter than the mapping is wide.
    threads = " x ".join(map(str, old.launch(None).block)) + " threads"
    others = f"other launches: not traced; built so, for blocks of {threads}, the source shows that elements only move"
    if written.lacking:
        return [*said, f"no results: {written.lacking}", others]
    bytes_ = f"{written.same:,} bytes that {written.blocks:,} blocks write for random inputs: the same"
    atomics = f"; {written.atomics:,} atomic operations: the same" if written.atomics else ""
    unknown = f"; {written.unknown:,} more are unknown" if written.unknown else ""
    worlds = f", in {written.worlds:,} draws of what cannot be known" if written.worlds > 1 else ""
    return [*said, bytes_ + atomics + unknown + worlds, others]
