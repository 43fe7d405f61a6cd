"""Choose which blocks of a grid to run, so that every other block provably behaves like one of them."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.boxes import Boxes, whole_clusters
from ncu_swizzle.emulate.events import EventLog
from ncu_swizzle.emulate.faults import ManyKinds, Spent, Stuck, TooLarge
from ncu_swizzle.emulate.machine import LaunchedGrid, Machine, coordinates
from ncu_swizzle.emulate.patterns import LanePattern
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.race_check import RaceCheck
from ncu_swizzle.emulate.requests import ALONE_STEPS, KINDS, SHARED_BYTES, AccessCounts, Clock, blocks_at_once
from ncu_swizzle.emulate.schedule import Schedule
from ncu_swizzle.emulate.state import Unknown
from ncu_swizzle.emulate.traffic import FIGURES, PATIENCE, TrafficLog
from ncu_swizzle.smem.access import RESERVED_BYTES, Index
from ncu_swizzle.smem.operations import Bools, Ints
from ncu_swizzle.smem.requests import AccessRequests

# The part of a grid that no block that ran represents yet, as disjoint sets of evenly spaced blocks.
#
# Its size in memory depends on the kinds of blocks, not on the size of the grid.


SLOWEST_FIRST = (2, 1, 0)  # cutting z before y before x leaves few pieces if blocks are taken in order, x fastest

# Along one axis: the first index, the step, and how many. A cell is the product of three of them.
Progression = tuple[int, int, int]
Cell = tuple[Progression, Progression, Progression]


class Unclaimed:
    """The blocks of a grid that are not represented."""

    def __init__(self, grid: tuple[int, int, int]) -> None:
        x, y, z = grid
        self._cells: dict[int, Cell] = {0: ((0, 1, x), (0, 1, y), (0, 1, z))}
        self._next = 1
        self._bounds = np.array([[0, x - 1, 0, y - 1, 0, z - 1]])  # of each cell, in the order of `_keys`
        self._keys = np.array([0])
        self.blocks = math.prod(grid)

    def pick(self, pinned: int, most: int) -> Ints:
        """Return up to `most` blocks that likely differ, (B, 3).

        In pinned dimensions, bit 0 for x, every index is likely its own kind. If there are none, these are the
        first block of each cell, its last and its middle.
        """
        cells = list(reversed(self._cells.values()))
        blocks = itertools.chain.from_iterable(_pinned_blocks(cell, pinned) for cell in cells)
        if not pinned:
            blocks = itertools.chain(blocks, (_block_at(cell, share) for share in (1.0, 0.5) for cell in cells))
        return np.array(list(dict.fromkeys(itertools.islice(blocks, 3 * most)))[:most], np.int64).reshape(-1, 3)

    def claim(self, boxes: Boxes, number: int) -> int:
        """Remove the box of the block with this number; return how many blocks it removed."""
        low, high, own, step = (array[number].tolist() for array in (boxes.low, boxes.high, boxes.blocks, boxes.step))
        before, after = self._bounds[:, 0::2], self._bounds[:, 1::2]
        near = ((before <= boxes.high[number]) & (after >= boxes.low[number])).all(axis=1)
        removed = 0
        pieces: list[Cell] = []
        gone: list[int] = []
        for key in self._keys[near].tolist():
            cuts = [
                _split_progression(self._cells[key][axis], low[axis], high[axis], own[axis], step[axis])
                for axis in range(3)
            ]
            shared = [inside for inside, _ in cuts]
            if None in shared:
                continue
            gone.append(key)
            pieces += _remaining_cells(self._cells[key], cuts)
            removed += math.prod(inside[2] for inside in shared if inside)
        self._replace(gone, pieces)
        self.blocks -= removed
        return removed

    def _replace(self, gone: list[int], pieces: list[Cell]) -> None:
        for key in gone:
            del self._cells[key]
        kept = ~np.isin(self._keys, gone)
        keys = range(self._next, self._next + len(pieces))
        self._next += len(pieces)
        self._cells.update(zip(keys, pieces, strict=True))
        bounds = [
            [end for first, step, count in cell for end in (first, first + step * (count - 1))] for cell in pieces
        ]
        self._keys = np.concatenate([self._keys[kept], np.array(keys, np.int64)])
        self._bounds = np.concatenate([self._bounds[kept], np.array(bounds, np.int64).reshape(-1, 6)])


def _pinned_blocks(cell: Cell, pinned: int) -> Iterator[Index]:
    """Yield a cell's first block, and those that differ from it in pinned dimensions, x fastest."""
    xs, ys, zs = (
        range(first, first + step * (count if pinned >> axis & 1 else 1), step)
        for axis, (first, step, count) in enumerate(cell)
    )
    return ((x, y, z) for z in zs for y in ys for x in xs)  # itertools.product would list all of them first


def _block_at(cell: Cell, share: float) -> Index:
    """Return the block at this share of the cell's extent in every dimension."""
    x, y, z = (first + step * int(share * (count - 1)) for first, step, count in cell)
    return x, y, z


def _split_progression(
    line: Progression, low: int, high: int, own: int, step: int
) -> tuple[Progression | None, tuple[Progression, ...]]:
    """Return the part of a progression that is in a box along one axis, and the other parts."""
    first, spacing, count = line
    # Solve first + spacing i = own (mod step) for i, with g = gcd(spacing, step): if g divides d = own - first, i is
    # d / g times the inverse of spacing / g, modulo step / g; otherwise there is no solution.
    common = math.gcd(spacing, step)
    if (own - first) % common:
        return None, (line,)
    period = step // common  # the box has every period-th element, from `start` on
    start = (own - first) // common * pow(spacing // common, -1, period) % period if period > 1 else 0
    others = [
        (first + spacing * offset, spacing * period, -(-(count - offset) // period))
        for offset in range(min(period, count))
        if offset != start
    ]
    first, spacing, count = first + spacing * start, spacing * period, -(-(count - start) // period)
    left = max(0, -(-(low - first) // spacing))
    right = min(count - 1, (high - first) // spacing)
    if left > right:
        return None, (line,)
    outside = [(first, spacing, left), (first + spacing * (right + 1), spacing, count - 1 - right)]
    return (first + spacing * left, spacing, right - left + 1), (*others, *(part for part in outside if part[2] > 0))


def _remaining_cells(cell: Cell, cuts: list[tuple[Progression | None, tuple[Progression, ...]]]) -> Iterator[Cell]:
    """Yield the pieces of a cell that are outside the box: disjoint, x varying fastest within the box's rows."""
    inside = list(cell)
    for axis in SLOWEST_FIRST:
        shared, others = cuts[axis]
        for piece in others:
            inside[axis] = piece
            yield inside[0], inside[1], inside[2]
        assert shared is not None
        inside[axis] = shared


GROWTH = 16  # of the number of blocks that run together: few until their kinds are clear
FEW_WARPS = 256  # of a grid, that run together in about the time of one
EVERY_AXIS = 0b111
SMALL_WARPS = 16  # of a block and its cluster, of which a few run together in about the time of one
MANY_WARPS = 512  # of a grid, that run together in less time than one by one
MANY_STEPS = 4_000  # basic blocks that groups of warps run in a block, if it runs long
QUICK_EFFORT = 1_000_000  # of blocks that run in less time than code is prepared
FIRST = 24  # blocks that ran and are kept
CHECKED = 3  # random blocks that are also run, to check that they behave like their representative


@dataclass(eq=False, repr=False, kw_only=True)
class Setting(LaunchedGrid):
    """What all batches of a launch share."""

    program: PreparedCode
    clock: Clock
    shortcuts: bool = True  # whether one iteration of a loop may represent others
    data: bool = True  # whether data may make blocks differ
    races: RaceCheck | None = None  # notes what orders accesses to shared memory, and judges it

    def blocks_at_once(self, first: Batch) -> int:
        """Return how many blocks can run side by side, if they are like the first one."""
        shared = self.shared_size if self.program.contents else 0
        cluster = math.prod(self.cluster)
        local = first.machine.local_bytes * cluster // len(first.machine.blocks)
        most = blocks_at_once(math.prod(self.block), shared, local, len(first.issued))
        return max(1, most // cluster)


@dataclass(frozen=True)
class TrafficOfBlock:
    """What was counted for one block besides issues and wavefronts."""

    tallies: Ints  # (R,), see `traffic.Tallies`
    figures: Mapping[int, Ints]  # by instruction, (FIGURES,); without those that are 0

    def differences(self, other: TrafficOfBlock) -> tuple[list[int], list[int]]:
        """Return the rows of tallies, and the instructions, whose counts differ in another block."""
        nothing = np.zeros(FIGURES, np.int64)
        numbers = [
            number
            for number in sorted(self.figures.keys() | other.figures.keys())
            if (self.figures.get(number, nothing) != other.figures.get(number, nothing)).any()
        ]
        return np.flatnonzero(self.tallies != other.tallies).tolist(), numbers


@dataclass(kw_only=True)
class Batch:
    """The counts of blocks that ran together."""

    blocks: Ints  # (B, 3)
    issued: Ints  # (n, B)
    results: Mapping[int, AccessCounts]
    machine: Machine
    tallies: Ints  # (R, B), see `traffic.Tallies`
    traffic: Mapping[int, Ints]  # by instruction: what its requests take, (FIGURES, B)
    apart: Mapping[int, Bools]  # by instruction, the blocks, (B,), whose boxes differ in its threads or requests
    beside: int = 0  # the last blocks, that run only to be compared with those that represent them

    @property
    def patterns(self) -> Mapping[int, LanePattern]:
        """How the threads of instructions lie in global memory."""
        return self.machine.traffic.patterns if self.machine.traffic else {}

    def signature(self, block: int) -> bytes:
        """Return a digest of everything counted for one block in shared memory."""
        counted = [(n, int(r.wavefronts[block]), int(r.ideal[block])) for n, r in sorted(self.results.items())]
        issued = np.ascontiguousarray(self.issued[:, block]).tobytes()
        return hashlib.sha256(issued + repr([waves for waves in counted if any(waves[1:])]).encode()).digest()

    def counted(self, block: int) -> Counted:
        """Return the signature of one block, and what else was counted for it."""
        figures = {number: counted[:, block] for number, counted in sorted(self.traffic.items())}
        nonzero = {number: row for number, row in figures.items() if row.any()}
        return self.signature(block), TrafficOfBlock(self.tallies[:, block], nonzero)


Counted = tuple[bytes, TrafficOfBlock]


def numbered(grid: Index, first: int = 0, end: int | None = None) -> Ints:
    """Return the blocks of a grid from one number to before another, x fastest: (B, 3)."""
    numbers = np.arange(first, math.prod(grid) if end is None else end)
    return np.stack(coordinates(numbers, grid), axis=1)


def run_batch(setting: Setting, blocks: Ints, *, again: bool = False) -> Batch:
    """Run some blocks, (B, 3) indices, side by side; `again`: only to look for races in them."""
    everyone, mine = whole_clusters(blocks, setting.cluster)
    machine = Machine.running(everyone, setting)
    program, races = setting.program, setting.races
    if races is not None:
        # Blocks of the first batch are checked, of others only those of new kinds. They run once more, which pays off
        # if the first took long (so does separate code for the rest), or if they are many.
        quick = races.plain is None or setting.clock.effort < QUICK_EFFORT
        noted = again or not races.kinds or (quick and len(everyone) <= FIRST)
        program = program if noted or quick or races.plain is None else races.plain()
        machine.events, machine.valued = EventLog(full=not noted), races.valued
    machine.log = log = RequestLog(machine, program.instructions)
    machine.guards, machine.unwritten = program.guards, program.unwritten
    if program.contents:
        machine.keep_contents(RESERVED_BYTES if program.allocates else 0)
    if program.tallies is not None:
        # A trial without data is to be short; a run for some counts alone has limits of its own.
        patience = math.inf if program.alone else PATIENCE if setting.data else 0
        apart = program.apart and setting.data and setting.draw is None
        machine.traffic = TrafficLog(machine, program.instructions, program.vectors, setting.clock, patience, apart)
    schedule = Schedule(program=program, machine=machine, clock=setting.clock, shortcuts=setting.shortcuts)
    try:
        issued = schedule.run()
    except Stuck:
        if setting.races is not None:
            stuck = set(machine.block_of[machine.live.any(axis=1)].tolist())
            _look_for_races(setting, machine, [b"stuck" if each in stuck else b"" for each in range(len(everyone))])
        raise
    requested = machine.traffic.counts() if machine.traffic else {}
    batch = Batch(
        blocks=everyone,
        issued=issued,
        results=log.counts(),
        machine=machine,
        tallies=machine.tallies,
        traffic=requested,
        apart=machine.counted_apart(),
    )
    if setting.races is not None:
        kinds = [batch.signature(block) + machine.ordering_of(block) for block in range(len(everyone))]
        _look_for_races(setting, machine, kinds)
    machine.boxes = machine.boxes.chosen(mine)
    return Batch(
        blocks=blocks,
        issued=issued[:, mine],
        results={number: counted.chosen(mine) for number, counted in batch.results.items()},
        machine=machine,
        tallies=machine.tallies[:, mine],
        traffic={number: figures[:, mine] for number, figures in requested.items()},
        apart={each: wide[mine] for each, wide in batch.apart.items()},
    )


def _look_for_races(setting: Setting, machine: Machine, kinds: Sequence[bytes]) -> None:
    """Look for races in blocks that ran together, with digests `kinds`; rerun those whose events were not noted."""
    if setting.races is None:
        return
    clock = setting.clock
    for chosen in setting.races.add(machine, setting.program.instructions, kinds):
        clock_of_races = Clock(
            timeout_s=clock.left_s, on_progress=lambda *done: clock.tell()
        )  # which spends no effort of counts
        run_batch(replace(setting, clock=clock_of_races), machine.blocks[chosen], again=True)


@dataclass(kw_only=True)
class Totals:
    """The counts of the whole grid."""

    issued: Ints  # (n,), Python's integers: a grid can have 2^63 blocks
    wavefronts: dict[int, int] = field(default_factory=dict)
    ideal: dict[int, int] = field(default_factory=dict)
    unknown: dict[int, Unknown] = field(default_factory=dict)
    missed: dict[int, Unknown] = field(default_factory=dict)
    requests: dict[int, AccessRequests] = field(default_factory=dict)
    supposed: dict[int, AccessRequests] = field(default_factory=dict)  # see `supposed`
    lost: set[int] = field(default_factory=set)  # instructions whose possible requests are not known
    remote: dict[int, int] = field(default_factory=dict)  # see `RequestLog`
    tallies: Any = 0  # (R,)
    traffic: dict[int, Any] = field(default_factory=dict)  # (FIGURES,)
    patterns: dict[int, LanePattern] = field(default_factory=dict)
    unsure: dict[int, Unknown] = field(default_factory=dict)
    apart: set[int] = field(default_factory=set)  # instructions in whose threads or requests blocks of a kind differ
    unfollowed: dict[int, Unknown] = field(default_factory=dict)
    run: int = 0
    blocks: list[Index] = field(default_factory=list)  # the first that ran
    covered: int = 0
    classes: int = 0
    checked: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, batch: Batch, weights: Ints) -> None:
        """Add the batch's counts, each block with its weight."""
        self.issued = self.issued + _weighted_sum(batch.issued, weights)
        for number, result in batch.results.items():
            self.wavefronts[number] = self.wavefronts.get(number, 0) + int(_weighted_sum(result.wavefronts, weights))
            self.ideal[number] = self.ideal.get(number, 0) + int(_weighted_sum(result.ideal, weights))
            for kept, made in ((self.requests, result.requests), (self.supposed, result.supposed)):
                if made is not None:
                    kept[number] = kept[number].plus(made) if number in kept else made.chosen(slice(None))
        self.lost |= batch.machine.log.lost
        for number, ways in batch.machine.log.remote.items():
            self.remote[number] = max(ways, self.remote.get(number, 0))
        self.tallies = self.tallies + _weighted_sum(batch.tallies, weights)
        self.apart |= {number for number, blocks in batch.apart.items() if (weights[blocks] > 1).any()}
        for number, figures in batch.traffic.items():
            self.traffic[number] = self.traffic.get(number, 0) + _weighted_sum(figures, weights)
        for number, pattern in batch.patterns.items():
            before = self.patterns.get(number)
            self.patterns[number] = before.plus(pattern) if before else pattern
        self.unknown = {**batch.machine.unknown, **self.unknown}  # the first reason stays
        self.missed = {**batch.machine.missed, **self.missed}
        self.unsure = {**batch.machine.unsure, **self.unsure}
        self.unfollowed = {**batch.machine.unfollowed, **self.unfollowed}
        chosen = len(batch.blocks) - batch.beside
        self.run += chosen
        self.blocks += [(x, y, z) for x, y, z in batch.blocks[:chosen][: FIRST - len(self.blocks)].tolist()]
        self.covered += int(weights.sum())


def _weighted_sum(counts: Ints, weights: Ints) -> Any:
    """Return the sum over blocks, the last axis, of counts times weights, which may exceed 64 bits."""
    # No sum exceeds the largest count times all weights: below 2^62, 64 bits hold it, and the product is much faster.
    if int(counts.max(initial=0)) * int(weights.sum()) < 1 << 62:
        return (counts @ weights.astype(np.int64)).astype(object)
    return counts.astype(object) @ weights


Observer = Callable[[Batch, Ints, Boxes], None]


def cover(setting: Setting, exhaustive: bool, observe: Observer | None = None) -> Totals:
    """Run blocks until the whole grid is accounted for, then a few more as a check. Raises TooLarge, TimeLimit.

    `observe` is given each batch, how many blocks each of its blocks represents, and their boxes.
    """
    totals = Totals(issued=np.zeros(len(setting.program.instructions), object))
    blocks = setting.clock.blocks = math.prod(setting.extents)
    checks: list[Index] = []  # random blocks, but the same ones whenever a grid of this size is run
    if not exhaustive:
        chosen = np.random.default_rng(blocks).choice(blocks, size=min(CHECKED, blocks), replace=False)
        checks = [(int(x), int(y), int(z)) for x, y, z in zip(*np.unravel_index(chosen, setting.extents), strict=True)]
    signatures: set[bytes] = set()
    expected: dict[Index, Counted] = {}  # of the block that represents each of the checks
    ran: dict[Index, Counted] = {}  # checks that ran with others
    for batch, weights, boxes in _run_every(setting) if exhaustive else _representatives(setting, checks):
        totals.add(batch, weights)
        if observe:
            observe(batch, weights, boxes)
        for number, (x, y, z) in enumerate(batch.blocks.tolist() if checks else ()):
            if (x, y, z) in checks:
                ran[x, y, z] = batch.counted(number)
        for number in np.flatnonzero(weights).tolist():
            both = batch.counted(number)
            signatures.add(both[0])
            expected |= {
                block: both for block in checks if block not in expected and boxes.represents_others(number, block)
            }
        if len(signatures) > KINDS:
            raise TooLarge(f"more than {KINDS:,} kinds of blocks")
        covered = setting.clock.covered = totals.covered
        if setting.clock.expired and covered < blocks:
            raise ManyKinds(covered, blocks, setting.clock.timeout_s)
        setting.clock.tell(always=True)
        del batch, boxes
    totals.classes = len(signatures)
    _check_representatives(setting, totals, expected if totals.run < blocks else {}, ran)
    return totals


def _representatives(setting: Setting, checks: Sequence[Index]) -> Iterator[tuple[Batch, Ints, Boxes]]:
    """Run blocks until their boxes cover the grid; yield how many blocks each of a batch represents."""
    unclaimed = Unclaimed(setting.extents)
    warps = math.prod(setting.extents) * -(-math.prod(setting.block) // 32)
    pinned, size, most = 0, 1, 0
    while unclaimed.blocks:
        batch = _run_chosen(setting, unclaimed, pinned, size) if most else _run_first(setting, unclaimed, warps, checks)
        boxes, chosen = batch.machine.boxes, len(batch.blocks) - batch.beside
        weights = [unclaimed.claim(boxes, number) if number < chosen else 0 for number in range(len(batch.blocks))]
        yield batch, np.array(weights, object), boxes
        pinned |= boxes.pinned
        most = most or setting.blocks_at_once(batch)
        new = sum(weight > 0 for weight in weights)
        grown = GROWTH * size if 2 * new > chosen else 2 * new  # of one kind, one is enough
        # Blocks that run long go through many tiles, no two alike; most of the time, however many run, is overhead.
        long = setting.clock.steps > MANY_STEPS and unclaimed.blocks <= most and sum(weights) == chosen
        size = most if long or warps <= FEW_WARPS else min(most, grown)
        del batch, boxes  # their requests may take as much memory as those of the next ones


def _run_chosen(setting: Setting, unclaimed: Unclaimed, pinned: int, size: int, beside: Sequence[Index] = ()) -> Batch:
    """Run up to `size` blocks that likely differ, and those of their clusters, which run in any case."""
    chosen = whole_clusters(unclaimed.pick(pinned, size), setting.cluster)[0]
    others = np.array([each for each in beside if list(each) not in chosen.tolist()], np.int64).reshape(-1, 3)
    return replace(run_batch(setting, np.concatenate([chosen, others])), beside=len(others))


def _run_first(setting: Setting, unclaimed: Unclaimed, warps: int, checks: Sequence[Index]) -> Batch:
    """Run the first block alone, or, if that takes long, with as many others as fit of a grid that is not large.

    A long run mostly follows data, and each block has its own, so the others have to run anyway; without
    data it does not. Small blocks take about as long as one by itself: those to check run beside it.
    """
    small = setting.races is None and -(-math.prod(setting.block) // 32) * math.prod(setting.cluster) <= SMALL_WARPS
    beside = checks if small else ()
    shared = max(1, setting.shared_size)
    together = min(unclaimed.blocks, SHARED_BYTES // (2 * shared) // math.prod(setting.cluster))
    if warps > MANY_WARPS or together < 2 or not setting.data:
        return _run_chosen(setting, unclaimed, 0, 1, beside)
    issued = setting.clock.issued
    try:
        with setting.clock.limited(ALONE_STEPS):
            return _run_chosen(setting, unclaimed, 0, 1, beside)
    except Spent:
        setting.clock.issued = issued
        return _run_chosen(setting, unclaimed, EVERY_AXIS, together)


def _run_every(setting: Setting) -> Iterator[tuple[Batch, Ints, Boxes]]:
    """Run all blocks of the grid, x fastest."""
    blocks = math.prod(setting.extents)
    first, size = 0, 1
    while first < blocks:
        batch = run_batch(setting, numbered(setting.extents, first, min(blocks, first + size)))
        yield batch, np.ones(len(batch.blocks), object), batch.machine.boxes
        first, size = first + size, setting.blocks_at_once(batch) if first == 0 else size


def _check_representatives(
    setting: Setting, totals: Totals, expected: Mapping[Index, Counted], ran: Mapping[Index, Counted]
) -> None:
    """Run some random blocks, but for those that `ran`, and compare each with the block that represents it."""
    others = [block for block in expected if block not in ran]
    if others:
        batch = run_batch(setting, np.array(others, np.int64))
        ran = {**ran, **{block: batch.counted(number) for number, block in enumerate(others)}}
        totals.unsure = {**batch.machine.unsure, **totals.unsure}
        totals.unfollowed = {**batch.machine.unfollowed, **totals.unfollowed}
    for block, (signature, traffic) in expected.items():
        why = Unknown(f"block {block} differs from its class", None, codes.BLOCKS_DIFFER)
        mine, other = ran[block]
        rows, numbers = traffic.differences(other)
        guarded = setting.program.tallies.guarded if setting.program.tallies else {}
        rows = [row for row in rows if row not in {guarded.get(each) for each in totals.apart}]
        numbers = [each for each in numbers if each not in totals.apart]
        totals.unsure = {**dict.fromkeys(rows, why), **totals.unsure}
        totals.unfollowed = {**dict.fromkeys(numbers, why), **totals.unfollowed}
        if mine != signature:  # then no count is known
            totals.notes.append(f"block {block} differs from the block that represents it: run all blocks")
            for row in range(len(totals.issued)):
                totals.unknown.setdefault(row, why)
                totals.missed.setdefault(row, why)
    totals.checked = len(expected)
