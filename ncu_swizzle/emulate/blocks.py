"""Choose which blocks of a grid to run, so that every other block is known to behave like one of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate.accesses import AccessCounts, Log, Seen, Unknown, count_accesses, operation_name
from ncu_swizzle.emulate.control import HANDLERS
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.emulate.schedule import Schedule
from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem.banks import Bools, Ints

WARPS_AT_ONCE = 1024  # over all blocks that run together: at most 32 KiB of registers each
SECOND = 16  # blocks to run if the first one does not represent all
CHECKED = 3  # random blocks that are also run, to check that they behave like their representative
GRID_LIMIT = 1 << 26  # blocks; a table has one entry per block


@dataclass(frozen=True)
class Setting:
    """What all batches of a launch share."""

    program: PreparedCode
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    constants: dict[int, bytes]
    known_constants: dict[int, Bools]
    memory: dict[int, bytes]
    shared_size: int
    limit: int


@dataclass
class Batch:
    """The counts of blocks that ran together."""

    blocks: Ints  # (B, 3)
    issued: Ints  # (n, B)
    results: dict[int, AccessCounts]
    unknown: dict[int, Unknown]  # instructions with an unknown issue count
    missed: dict[int, Unknown]  # instructions with unknown requests
    machine: Machine

    def signature(self, block: int) -> tuple[object, ...]:
        """Return everything that was counted for one block."""
        counted = [(n, int(r.wavefronts[block]), int(r.ideal[block])) for n, r in sorted(self.results.items())]
        return (self.issued[:, block].tobytes(), tuple(waves for waves in counted if any(waves[1:])))


def run_batch(setting: Setting, blocks: Ints, ulps: Ints | None = None) -> Batch:
    """Run some blocks, (B, 3) indices, side by side."""
    machine = Machine(
        blocks=blocks,
        grid=setting.grid,
        block=setting.block,
        cluster=setting.cluster,
        constants=setting.constants,
        known_constants=setting.known_constants,
        memory=setting.memory,
        shared_size=setting.shared_size,
        ulps=np.zeros(len(blocks), np.int64) if ulps is None else ulps,
    )
    log = Log(setting.program.instructions, setting.shared_size)
    machine.log = log
    if setting.program.contents:
        machine.keep_contents()
    schedule = Schedule(setting.program, machine, setting.limit, HANDLERS)
    issued = schedule.run()
    results = {
        number: _evaluate(setting, number, list(seen.values()), len(blocks), log) for number, seen in log.seen.items()
    }
    counted = {number: result for number, result in results.items() if result is not None}
    return Batch(blocks, issued, counted, schedule.unknown, log.unknown, machine)


def _evaluate(setting: Setting, number: int, seen: list[Seen], blocks: int, log: Log) -> AccessCounts | None:
    op = operation_name(setting.program.instructions[number])
    if op is None:
        if any(request.selected.any() for request in seen):
            log.miss(number, "no rule is known for the wavefronts of this instruction", None)
        return None
    result = count_accesses(op, seen, blocks)
    if not result.known:
        log.miss(number, "no rule is known for the wavefronts of some of its requests", None)
    return result


@dataclass
class Totals:
    """The counts of the whole grid."""

    issued: Ints  # (n,)
    wavefronts: dict[int, int] = field(default_factory=dict)
    ideal: dict[int, int] = field(default_factory=dict)
    unknown: dict[int, Unknown] = field(default_factory=dict)
    missed: dict[int, Unknown] = field(default_factory=dict)
    requests: dict[int, list[AccessCounts]] = field(default_factory=dict)
    run: int = 0
    classes: int = 0
    checked: int = 0
    approximated: bool = False
    notes: list[str] = field(default_factory=list)

    def add(self, batch: Batch, weights: Ints) -> None:
        """Add the batch's counts, each block with its weight."""
        self.issued += batch.issued @ weights
        for number, result in batch.results.items():
            self.wavefronts[number] = self.wavefronts.get(number, 0) + int(result.wavefronts @ weights)
            self.ideal[number] = self.ideal.get(number, 0) + int(result.ideal @ weights)
            self.requests.setdefault(number, []).append(result)
        for mine, theirs in ((self.unknown, batch.unknown), (self.missed, batch.missed)):
            for number, unknown in theirs.items():
                mine.setdefault(number, unknown)
        self.run += len(batch.blocks)
        self.approximated |= batch.machine.approximated


def cover(setting: Setting, exhaustive: bool, on_progress: Callable[[int, int], None] | None) -> Totals:
    """Run blocks until the whole grid is accounted for, then a few more as a check."""
    blocks = math.prod(setting.grid)
    if blocks > GRID_LIMIT:
        raise UsageError(f"a grid of {blocks} blocks", f"at most {GRID_LIMIT} can be emulated: use a smaller problem")
    totals = Totals(np.zeros(len(setting.program.instructions), np.int64))
    at_once = max(1, WARPS_AT_ONCE // -(-math.prod(setting.block) // 32))
    owner = np.full(setting.grid, -1, np.int64)  # the index of the representative of each block
    signatures: list[tuple[object, ...]] = []
    pinned, size, left = 0, 1, blocks
    while left:
        chosen = _some(owner < 0, pinned, min(size, at_once), exhaustive)
        batch = run_batch(setting, chosen)
        weights = np.zeros(len(chosen), np.int64)
        for number, block in enumerate(chosen):
            if owner[tuple(block)] >= 0:
                continue
            weights[number] = _claim(owner, batch, number, len(signatures), exhaustive)
            signatures.append(batch.signature(number))
        totals.add(batch, weights)
        pinned |= batch.machine.boxes.pinned
        left = blocks - int((owner >= 0).sum())
        size = at_once if exhaustive or pinned or size > 1 else SECOND
        if on_progress:
            on_progress(blocks - left, blocks)
    totals.classes = len(set(signatures))
    _check(setting, totals, owner, signatures, 0 if exhaustive else CHECKED)
    return totals


def _claim(owner: Ints, batch: Batch, number: int, name: int, exhaustive: bool) -> int:
    """Record the blocks that this one represents; return how many were not yet accounted for."""
    if exhaustive:
        owner[tuple(batch.blocks[number])] = name
        return 1
    boxes = batch.machine.boxes
    (x0, y0, z0), (x1, y1, z1) = boxes.low[number], boxes.high[number]
    part = owner[x0 : x1 + 1, y0 : y1 + 1, z0 : z1 + 1]
    new = part < 0
    part[new] = name
    return int(new.sum())


def _some(left: Bools, pinned: int, count: int, exhaustive: bool) -> Ints:
    """Return up to `count` blocks that are not accounted for, (B, 3).

    Blocks that differ only in dimensions that have not mattered so far likely behave alike: one of them is enough.
    """
    flat = np.flatnonzero(left.transpose(2, 1, 0).ravel())
    if not exhaustive and len(flat) > count:
        flat = flat[:: max(1, len(flat) // (1 << 20))]
    size = left.shape
    indices = np.stack([flat % size[0], flat // size[0] % size[1], flat // (size[0] * size[1])], axis=1)
    if not exhaustive and len(indices) > 1:
        kept = [axis for axis in range(3) if pinned >> axis & 1]
        if kept:
            _, first = np.unique(indices[:, kept], axis=0, return_index=True)
            indices = indices[np.sort(first)]
        elif count < len(indices):
            indices = indices[np.linspace(0, len(indices) - 1, count).astype(np.int64)]
    return indices[:count].astype(np.int64)


def _check(setting: Setting, totals: Totals, owner: Ints, signatures: list[tuple[object, ...]], count: int) -> None:
    """Run a few more blocks: some at random, and if 1/x was approximated, the first one with other last bits of it."""
    rng = np.random.default_rng(owner.size)
    count = min(count, owner.size) if owner.size > len(signatures) else 0
    flat = rng.choice(owner.size, size=count, replace=False)
    indices = np.stack(np.unravel_index(flat, owner.shape), axis=1).astype(np.int64)
    ulps = [*[0] * count, *([-1, 0, 1] if totals.approximated else [])]
    if not ulps:
        return
    blocks = np.concatenate([indices, np.zeros((len(ulps) - count, 3), np.int64)])
    batch = run_batch(setting, blocks, np.array(ulps))
    for number, block in enumerate(indices):
        if batch.signature(number) != signatures[int(owner[tuple(block)])]:
            _disown(totals, tuple(int(index) for index in block))
    totals.checked = count
    if totals.approximated:
        _compare_approximations(totals, batch, count)


def _disown(totals: Totals, block: tuple[int, ...]) -> None:
    """Record that a block differs from its class: no count is known then."""
    totals.notes.append(f"block {block} differs from the block that represents it: run all blocks")
    for row in range(len(totals.issued)):
        totals.unknown.setdefault(row, Unknown(f"block {block} differs from its class", None))
        totals.missed.setdefault(row, Unknown(f"block {block} differs from its class", None))


def _compare_approximations(totals: Totals, batch: Batch, first: int) -> None:
    """Mark as unknown what differs between the blocks from `first` on: it depends on the last bit of 1/x."""
    reason = Unknown("it changes with the last bit of 1/x, which the hardware approximates", None)
    for number in range(len(totals.issued)):
        if len(set(batch.issued[number, first:].tolist())) > 1:
            totals.unknown.setdefault(number, reason)
    for number, result in batch.results.items():
        if len(set(result.wavefronts[first:].tolist())) > 1 or len(set(result.ideal[first:].tolist())) > 1:
            totals.missed.setdefault(number, reason)
