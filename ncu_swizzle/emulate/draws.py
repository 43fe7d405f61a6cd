"""What one atomic on a counter in global memory returns to each block: its ticket.

Which block gets which ticket depends on the order in which they run. If each block asks at most once, by an atomic that
adds a constant to a word whose value is known, and nothing else writes that word, then the M blocks that ask get the M
tickets, each exactly once. A ticket is run as an index on an axis on which the grid has one block: `boxes` finds for
which tickets a block does the same, and `cover` runs blocks until all pairs of a block and a ticket are covered. Let
c(b, t) be a count of block b with ticket t. If it is f(b) + g(t), its sum over all blocks is the same whoever gets
which ticket, namely the sum over all pairs divided by M; for a block that does not ask, c does not depend on t. For
counts that are not such a sum, the order decides: they stay unknown.

If blocks ask more than once, the sum of tickets says nothing. Then all that atomics return is taken for unrelated
numbers, of which one is tried, and counts are known only if no decision depends on any of them (`several`). This is
how far a place in a list goes: it decides where a thread stores, and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ncu_swizzle.emulate.accesses import Unknown
from ncu_swizzle.emulate.blocks import Batch, Setting, Totals, cover
from ncu_swizzle.emulate.boxes import Boxes
from ncu_swizzle.emulate.machine import Draw
from ncu_swizzle.emulate.tickets import Located, Undrawn, gives_places, gives_tickets
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.smem.banks import Bools, Ints

MOST_PAIRS = 1 << 24  # of blocks and boxes, or of blocks and kinds of tickets, that are compared
MOST_COMPARED = 1 << 30  # counts


def settled(setting: Setting, totals: Totals, exhaustive: bool) -> Totals:
    """Return the counts with what they need of tickets; the same ones if these do not help."""
    for several in (False, True):
        draw = _first_draw(setting, totals, several)
        while draw is not None:
            try:
                ledger = Ledger(draw, setting.grid)
                drawn = cover(replace(setting, draw=draw), exhaustive, ledger.add)
                if ledger.complete:
                    ledger.settle(drawn)
                    return drawn
            except Located as found:
                draw = found.draw
                continue
            except (NcuSwizzleError, Undrawn):
                break
            asks = ledger.asks // draw.extent
            draw = replace(draw, extent=asks) if not several and 0 < asks < draw.extent else None
    return totals


def _first_draw(setting: Setting, totals: Totals, several: bool) -> Draw | None:
    """Return what to try if counts depend on what an atomic returns; None if tickets cannot tell."""
    found = (unknown.origin for unknown in (*totals.unknown.values(), *totals.missed.values()))
    origins = [origin for origin in found if origin is not None]
    gives = gives_places if several else gives_tickets
    asks = [origin for origin in origins if gives(setting.program.instructions[origin])]
    free = [axis for axis, size in enumerate(setting.grid) if size == 1]
    if not asks or not free or not setting.memory or math.prod(setting.cluster) > 1:
        return None
    extent = 2 if several else math.prod(setting.grid)
    return Draw(origin=min(asks), axis=free[-1], extent=extent, several=several)


class Ledger:
    """What was counted for each pair of a block and a ticket."""

    def __init__(self, draw: Draw, grid: tuple[int, int, int]) -> None:
        self.draw, self.grid = draw, grid
        self.kinds: dict[bytes, int] = {}
        self.counted: list[Ints] = []  # by kind: issues, wavefronts and ideal of each instruction, (3, n)
        self.boxes: list[tuple[Ints, bool, int]] = []  # low, high, own index and step, (4, 3); whether it asks; kind
        self.asks = 0

    def add(self, batch: Batch, weights: Ints, boxes: Boxes) -> None:
        """Add the blocks that represent others."""
        for number in np.flatnonzero(weights).tolist():
            signature = batch.signature(number)
            kind = self.kinds.setdefault(signature, len(self.kinds))
            if kind == len(self.counted):
                self.counted.append(_counted(batch, number))
            box = np.stack([boxes.low[number], boxes.high[number], boxes.blocks[number], boxes.step[number]])
            asks = bool(batch.machine.asked[number])
            self.boxes.append((box, asks, kind))
            self.asks += int(weights[number]) * asks

    @property
    def complete(self) -> bool:
        """Whether as many blocks ask as there are tickets, or, if they ask more than once, no ticket decides."""
        axis, extent = self.draw.axis, self.draw.extent
        if not self.draw.several:
            return self.asks == extent * extent
        return all(box[0, axis] == 0 and box[1, axis] == extent - 1 and box[3, axis] == 1 for box, _, _ in self.boxes)

    def settle(self, totals: Totals) -> None:
        """Turn sums over all pairs into sums over all blocks. Raises Undrawn."""
        draw = self.draw
        if not draw.several:
            entangled = self._entangled()
            for number in np.flatnonzero(entangled[0]).tolist():
                totals.unknown.setdefault(number, Unknown("how often it runs", draw.origin))
            for number in np.flatnonzero(entangled.any(axis=0)).tolist():
                totals.missed.setdefault(number, Unknown("what it accesses", draw.origin))
        totals.issued = totals.issued // draw.extent
        for counted in (totals.wavefronts, totals.ideal):
            counted.update({number: count // draw.extent for number, count in counted.items()})
        real = [tuple(0 if axis == draw.axis else index[axis] for axis in range(3)) for index in totals.blocks]
        totals.blocks = [(x, y, z) for x, y, z in dict.fromkeys(real)]
        totals.run = min(totals.run, math.prod(self.grid))

    def _entangled(self) -> Bools:
        """Return which counts are no sum of what the block and the ticket add, (3, n)."""
        kinds = self._kinds_by_ticket()
        counted = np.stack(self.counted)
        entangled: Bools = np.zeros(counted.shape[1:], bool)
        if not len(kinds) or kinds.size * entangled.size > MOST_COMPARED:
            raise Undrawn
        first = counted[kinds[0]] - counted[kinds[0, 0]]
        for row in kinds[1:]:
            entangled |= (counted[row] - counted[row[0]] != first).any(axis=0)
        return entangled

    def _kinds_by_ticket(self) -> Ints:
        """Return the kinds of the blocks that ask, (blocks, tickets): each different row once.

        Of tickets between which nothing changes for any block, there is one.
        """
        axis, extent = self.draw.axis, self.draw.extent
        ends = {0} | {int(end) for box, _, _ in self.boxes for end in (box[0, axis], box[1, axis] + 1)}
        strided = any(box[3, axis] > 1 and box[0, axis] < box[1, axis] for box, _, _ in self.boxes)
        tickets: Ints = np.array(range(extent) if strided else sorted(ends - {extent}))
        blocks = math.prod(self.grid)
        if blocks * max(len(tickets), len(self.boxes)) > MOST_PAIRS:
            raise Undrawn
        index: Ints = np.stack(np.unravel_index(np.arange(blocks), self.grid[::-1])[::-1], axis=1)
        kinds: Ints = np.zeros((blocks, len(tickets)), np.int64)
        asking: Bools = np.zeros(blocks, bool)
        for box, asks, kind in self.boxes:
            of_box = _inside(np.delete(index, axis, 1), np.delete(box, axis, 1)).all(axis=1)
            with_ticket = _inside(tickets, box[:, axis])
            kinds[np.ix_(of_box, with_ticket)] = kind
            asking[of_box] |= asks
        rows: Ints = np.unique(kinds[asking], axis=0)
        return rows


def _inside(index: Ints, box: Ints) -> Bools:
    low, high, own, step = box
    inside: Bools = (index >= low) & (index <= high) & ((index - own) % step == 0)
    return inside


def _counted(batch: Batch, block: int) -> Ints:
    """Return a block's issues, wavefronts and ideal of each instruction, (3, n)."""
    counted: Ints = np.zeros((3, len(batch.issued)), np.int64)
    counted[0] = batch.issued[:, block]
    for number, result in batch.results.items():
        counted[1, number], counted[2, number] = result.wavefronts[block], result.ideal[block]
    return counted
