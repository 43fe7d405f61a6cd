"""What the warps of a block do to shared memory, side by side: which write a pipeline's stages, wait, and read.

Time has no unit: a step takes a column, and a wait ends after what it waits for. Warps that execute the same share a
row. Memory is divided into stages: bytes belong together that one access touches, that one mbarrier counts, or that a
warp writes before it commits, waits or arrives.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ncu_swizzle.base.timeline import Step, Timeline
from ncu_swizzle.emulate.accesses import SharedUse
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.events import Event, Kind
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.smem.descriptors import CHUNK
from ncu_swizzle.smem.opcodes import WRITE, Copy
from ncu_swizzle.smem.operations import WARP

MOST_EVENTS, MOST_OF_A_WARP = 1 << 14, 512  # that are looked at
MOST_ROWS, MOST_COLUMNS = 16, 100
ARRIVES = "arrives"
ACCESSES = (Kind.ACCESS, Kind.MAYBE, Kind.COPY_IN, Kind.READ_OUT, Kind.TILE)
ARRIVALS, WAITS = (
    (Kind.COUNT, Kind.ARRIVE, Kind.CLUSTER_ARRIVE),
    {
        Kind.PASS: "waits for the mbarrier",
        Kind.BARRIER: "waits at the barrier",
        Kind.CLUSTER_PASS: "waits for the cluster",
        Kind.AWAIT: "waits for its copies",
        Kind.AWAIT_TILES: "waits for its wgmmas",
    },
)
Span = tuple[int, int]  # the first byte, and the one behind the last


@dataclass
class _Row:
    """Warps that execute the same; the first represents all."""

    warps: list[int]
    now: int = 0  # the next free column
    since_waiting: dict[tuple[str, int], int] = field(default_factory=dict)  # steps since it last waited or arrived
    last: tuple[str, int] = "", 0  # what it did, at which instruction


def timeline_of(
    machine: Machine, instructions: Sequence[SassInstruction], events: Sequence[Event], blocks: range
) -> Timeline | None:
    """Return the timeline of blocks that run together; None if their warps never wait or access no shared memory."""
    chosen = events[:MOST_EVENTS]
    first, count = blocks.start * machine.per_block, len(blocks) * machine.per_block
    if not any(event.kind in WAITS for event in chosen):
        return None
    rows = _rows(chosen, first, count)
    drawn = _Drawing(machine.per_block, first, instructions, rows[:MOST_ROWS])
    touched = [drawn.touched(event) for event in chosen]
    stages = drawn.stages(chosen, touched)
    if not stages:
        return None
    cut = len(events) > MOST_EVENTS or len(rows) > MOST_ROWS
    for event, spans in zip(chosen, touched, strict=True):
        if any(row.now >= MOST_COLUMNS for row in drawn.rows):
            cut = True
            break
        drawn.add(event, spans)
    return Timeline(
        rows=tuple(_name(row.warps, machine.per_block, len(blocks) > 1) for row in drawn.rows),
        stages=tuple(stages),
        steps=tuple(drawn.steps),
        cut=cut,
    )


def _rows(events: Sequence[Event], first: int, count: int) -> list[_Row]:
    """Return the warps that have the same events, the lowest first."""
    digests, lengths = np.zeros(count, np.uint64), np.zeros(count, np.int64)
    for event in events:
        if event.kind in ACCESSES or event.kind in WAITS or event.kind in ARRIVALS:
            warps = event.warps[(event.warps >= first) & (event.warps < first + count)] - first
            warps = warps[lengths[warps] < MOST_OF_A_WARP]
            lengths[warps] += 1
            digests[warps] = digests[warps] * np.uint64(0x9E3779B97F4A7C15) + np.uint64(event.number + 1)
    together: dict[int, list[int]] = defaultdict(list)
    for warp in np.flatnonzero(lengths).tolist():
        together[int(digests[warp])].append(warp)
    return [_Row(warps) for warps in together.values()]


def _name(warps: Sequence[int], per_block: int, clustered: bool) -> str:
    """Name warps: their numbers in the block, and the blocks of a cluster that have them."""
    blocks: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for block in dict.fromkeys(warp // per_block for warp in warps):
        blocks[tuple(warp % per_block for warp in warps if warp // per_block == block)].append(block)
    return "; ".join(
        f"{_ranges('block', where)}, {_ranges('warp', numbers)}" if clustered else _ranges("warp", numbers)
        for numbers, where in blocks.items()
    )


def _ranges(what: str, numbers: Sequence[int]) -> str:
    starts = [numbers[0], *(b for a, b in pairwise(numbers) if b > a + 1)]
    ends = [*(a for a, b in pairwise(numbers) if b > a + 1), numbers[-1]]
    ranges = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))
    return f"{what}{'s' * (len(numbers) > 1)} {ranges}"


class _Drawing:
    """The steps so far."""

    def __init__(
        self, per_block: int, first: int, instructions: Sequence[SassInstruction], rows: Sequence[_Row]
    ) -> None:
        self.per_block, self.first, self.instructions, self.rows = per_block, first, instructions, rows
        self.steps: list[Step] = []
        self.by_warp = {row.warps[0]: number for number, row in enumerate(rows)}
        self.row_of = {warp: number for number, row in enumerate(rows) for warp in row.warps}
        self.bounds: dict[int, tuple[list[int], list[int]]] = {}  # of what was accessed
        self.starts: list[int] = []  # of the spans of memory, and the stage of each
        self.stage_of: list[int] = []
        self.pending: dict[tuple[int, int], int] = {}  # by mbarrier: the column behind its last arrival
        self.done: dict[tuple[int, int, int], int] = {}  # the same of its complete phases
        self.arrived: dict[tuple[Kind, int], int] = {}  # of barriers: the column behind the last arrival

    def _here(self, event: Event) -> Iterator[tuple[int, int]]:
        """Yield the rows that an event belongs to, with their index in the event."""
        for index, warp in enumerate((event.warps - self.first).tolist()):
            if warp in self.by_warp:
                yield self.by_warp[warp], index

    # ------------------------------------------------------------------------------------------ memory

    def touched(self, event: Event) -> dict[int, list[Span]]:
        """Return what an event accesses, by row: from the first byte to the last one of the lanes of all its warps."""
        touched: dict[int, list[Span]] = {}
        for index, warp in enumerate((event.warps - self.first).tolist() if event.kind in ACCESSES else ()):
            row = self.row_of.get(warp)
            if row is not None and (spans := self._spans(event, index)):
                known = touched.setdefault(row, spans)
                if len(spans) == len(known) == 1:
                    known[0] = min(known[0][0], spans[0][0]), max(known[0][1], spans[0][1])
        return touched

    def _spans(self, event: Event, index: int) -> list[Span]:
        if event.kind is Kind.COPY_IN:
            _, start, size, *_ = event.data
            return [(int(start), int(start + size))] if size > 0 else []
        if event.kind is Kind.READ_OUT:
            starts, sizes, _ = event.data
            return [(int(starts[index]), int(starts[index] + sizes[index]))]
        if event.kind is Kind.TILE:
            chunks = np.asarray(event.data[index])
            gaps = np.flatnonzero(np.diff(chunks) > CHUNK)
            firsts, lasts = [0, *(gaps + 1)], [*gaps, len(chunks) - 1]
            return [(int(chunks[a]), int(chunks[b]) + CHUNK) for a, b in zip(firsts, lasts, strict=True) if len(chunks)]
        lows, highs = self._bounds(event)
        low, high = lows[index % len(lows)], highs[index % len(highs)]
        return [(low, high)] if low < high else []

    def _bounds(self, event: Event) -> tuple[list[int], list[int]]:
        """Return the first byte that the lanes of each warp access, and the one behind the last."""
        use, seen = SharedUse.of(self.instructions[event.number]), event.data
        known = self.bounds.get(id(seen))
        if known is None:
            selected = seen.selected & (np.arange(WARP) < use.matrix) if use.matrix else seen.selected
            at = np.broadcast_to(seen.addresses, selected.shape).astype(np.int64)
            lows = np.where(selected, at, np.iinfo(np.int64).max).min(axis=1)
            highs = np.where(selected, at + use.width, -1).max(axis=1)
            known = self.bounds[id(seen)] = lows.tolist(), highs.tolist()
        return known

    def stages(self, events: Sequence[Event], touched: Sequence[dict[int, list[Span]]]) -> list[tuple[Span, ...]]:
        """Return the stages, by their first byte: spans of memory that belong together."""
        merged: list[list[int]] = []
        for low, high in sorted(span for spans in touched for spans_of_row in spans.values() for span in spans_of_row):
            if merged and low < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        self.starts = [low for low, _ in merged]
        stage_of = list(range(len(merged)))
        for together in self._together(events, touched):
            numbers = {stage_of[span] for span in together}
            if len(numbers) > 1:
                stage_of = [min(numbers) if number in numbers else number for number in stage_of]
        order = {number: place for place, number in enumerate(dict.fromkeys(stage_of))}
        self.stage_of = [order[number] for number in stage_of]
        stages: list[list[Span]] = [[] for _ in order]
        for number, (low, high) in zip(self.stage_of, merged, strict=True):
            stages[number].append((low, high))
        return [tuple(spans) for spans in stages]

    def _together(self, events: Sequence[Event], touched: Sequence[dict[int, list[Span]]]) -> Iterator[set[int]]:
        """Yield the numbers of spans that one access touches, that an mbarrier counts, or that a warp has written."""
        counted: dict[int, int] = {}  # by mbarrier: a span whose bytes it counts
        written: dict[int, int] = {}  # by row: a span that it writes, since it last committed, waited or arrived
        for event, spans in zip(events, touched, strict=True):
            if event.kind in WAITS or event.kind in ARRIVALS or event.kind is Kind.COMMIT:
                for row, _ in self._here(event):
                    written.pop(row, None)
            for row, spans_of_row in spans.items():
                numbers = {self._span(low) for low, _ in spans_of_row}
                if event.kind is Kind.COPY_IN:
                    numbers.add(counted.setdefault(int(event.data[4]), min(numbers)))
                elif event.kind is Kind.ACCESS and SharedUse.of(self.instructions[event.number]).does == WRITE:
                    numbers.add(written.setdefault(row, min(numbers)))
                yield numbers

    def _span(self, low: int) -> int:
        return bisect_right(self.starts, low) - 1

    # ------------------------------------------------------------------------------------------ time

    def add(self, event: Event, touched: dict[int, list[Span]]) -> None:
        """Add the steps of an event."""
        if event.kind in ACCESSES:
            for row, spans in touched.items():
                self._access(row, event, self.stage_of[self._span(spans[0][0])])
        elif event.kind is Kind.COUNT:
            self._count(event)
        elif event.kind in ARRIVALS:
            for row, _ in self._here(event):
                end = self._step(row, event, ARRIVES)
                key = event.kind, int(event.data[0]) if event.kind is Kind.ARRIVE else 0
                self.arrived[key] = max(self.arrived.get(key, 0), end)
        elif event.kind in WAITS:
            self._wait(event)

    def _access(self, row: int, event: Event, stage: int) -> None:
        """Add an access, unless its row has had the same one since it last waited."""
        does = {Kind.COPY_IN: "writes by TMA", Kind.READ_OUT: "reads by TMA", Kind.TILE: "reads by wgmma"}.get(
            event.kind
        )
        if does is None:
            instruction = self.instructions[event.number]
            does = "writes by cp.async" if instruction.row.copy is Copy.ASYNC else SharedUse.of(instruction).does
        since = self.rows[row].since_waiting
        if (does, stage) not in since:
            since[does, stage] = self._step(row, event, does, stage)
        if event.kind is Kind.COPY_IN:
            _, _, _, counting, offset, _ = event.data
            for block in counting.tolist():
                key = int(block), int(offset)
                self.pending[key] = max(self.pending.get(key, 0), self.rows[row].now + 1)

    def _count(self, event: Event) -> None:
        blocks, offset, completed, _ = event.data
        ends = [self._step(row, event, ARRIVES) for row, _ in self._here(event)]
        for block, phases in zip(blocks.tolist(), completed.tolist(), strict=True):
            key = int(block), int(offset)
            self.pending[key] = max([self.pending.get(key, 0), *ends])
            if phases:  # else a wait for the phase before the first one passes at once
                self.done.setdefault((*key, int(phases)), self.pending[key])

    def _wait(self, event: Event) -> None:
        rows = list(self._here(event))
        until = 0
        if event.kind is Kind.BARRIER:
            until = max(
                [self.rows[row].now for row, _ in rows] + [self.arrived.pop((Kind.ARRIVE, int(event.data[0])), 0)]
            )
        elif event.kind is Kind.CLUSTER_PASS:
            until = self.arrived.get((Kind.CLUSTER_ARRIVE, 0), 0)
        for row, index in rows:
            if event.kind is Kind.BARRIER and not event.data[2][index]:
                continue
            if event.kind is Kind.PASS:
                offset, completed, _ = event.data
                block = (self.first + self.rows[row].warps[0]) // self.per_block
                until = self.done.get((block, int(offset), int(completed[index])), 0)
            self._step(row, event, WAITS[event.kind], until=until)

    def _step(self, row: int, event: Event, does: str, stage: int | None = None, until: int = 0) -> int:
        """Add a step of a row, which lasts a column, or until one; return the column behind it."""
        this, offset = self.rows[row], self.instructions[event.number].offset
        if stage is None:
            this.since_waiting.clear()
            if this.last == (does, offset) and does == ARRIVES:  # its threads, one after the other
                return this.now
        this.last = does, offset
        start, this.now = this.now, max(this.now + 1, until)
        self.steps.append(Step(row=row, start=start, end=this.now, does=does, stage=stage, offset=offset))
        return this.now
