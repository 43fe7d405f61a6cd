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
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ncu_swizzle.emulate.accesses import Unknown, access_width
from ncu_swizzle.emulate.dependence import Tag, block_axis, scaled
from ncu_swizzle.emulate.machine import Draw, Machine
from ncu_swizzle.emulate.parse import SassInstruction
from ncu_swizzle.emulate.values import MASK, Value, known_in
from ncu_swizzle.smem.banks import Bools, Ints

if TYPE_CHECKING:
    from ncu_swizzle.emulate.blocks import Batch, Totals
    from ncu_swizzle.emulate.boxes import Boxes

WORD = 4  # bytes of a counter
FAR = np.int64(1) << 60
MOST_PAIRS = 1 << 24  # of blocks and boxes, or of blocks and kinds of tickets, that are compared
MOST_COMPARED = 1 << 30  # counts
_OTHER_TYPES = ("64", "F16", "F16x2", "F32", "F64", "BF16", "BF16x2", "BF16_V2", "F16_V2", "128")


class Undrawn(Exception):
    """Not every block gets one ticket: what the atomic returns stays unknown."""


class Located(Exception):
    """The counter was not known yet: run again."""

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.draw = draw


def gives_tickets(instruction: SassInstruction) -> bool:
    """Return whether an instruction adds to a word of global memory and returns what it held."""
    adds = instruction.opcode == "ATOMG" and instruction.has("ADD", "INC")
    return adds and not instruction.has(*_OTHER_TYPES) and access_width(instruction) == WORD


# ---------------------------------------------------------------------------------------------- while blocks run


def ask(
    m: Machine, instruction: SassInstruction, address: Value, data: Value, selected: Bools, doubtful: Bools
) -> Value | None:
    """Return the tickets that an atomic returns; None if it gives none. Raises Undrawn, Located."""
    draw = m.draw
    if draw is None or not gives_tickets(instruction):
        return None
    if draw.several:
        return Value(_initial(m, address, selected), tag=Tag(1 << draw.axis))
    if m.now != draw.origin:
        return None
    rows, lanes = np.nonzero(selected)
    blocks = m.view_blocks()[rows]
    if doubtful.any() or not known_in(address, selected) or not known_in(data, selected):
        raise Undrawn
    if not len(rows):
        return None
    if len(np.unique(blocks)) < len(blocks) or m.asked[blocks].any():
        raise Undrawn
    m.decide(address.tag)
    m.decide(data.tag)
    counters, amounts = (
        np.unique(np.broadcast_to(value.bits, selected.shape)[rows, lanes]).tolist() for value in (address, data)
    )
    found = counters[0], amounts[0]
    if draw.counter is None and len(counters) == len(amounts) == 1:
        raise Located(replace(draw, counter=found[0], amount=found[1]))
    first = _word(m.memory, found[0])
    if len(counters) > 1 or len(amounts) > 1 or found != (draw.counter, draw.amount) or first is None:
        raise Undrawn
    step = found[1]
    if instruction.has("INC"):  # adds 1, or starts again at 0 where the word is `amount` or more
        step = 1
        if first + draw.extent - 1 > draw.amount:
            raise Undrawn
    m.asked[blocks] = True
    tickets = np.uint64(first) + np.uint64(step) * m.blocks[m.view_blocks(), draw.axis].astype(np.uint64)
    return Value((tickets & MASK).astype(np.uint32)[:, None], tag=scaled(block_axis(draw.axis), step))


def _word(memory: Mapping[int, bytes], address: int) -> int | None:
    """Return a word of global memory at launch."""
    for base, content in memory.items():
        if base <= address <= base + len(content) - WORD:
            return int.from_bytes(content[address - base : address - base + WORD], "little")
    return None


def _initial(m: Machine, address: Value, selected: Bools) -> Ints:
    """Return what words at these addresses held at launch, which each of the atomics may return; 0 if unknown."""
    found: Ints = np.zeros(selected.shape, np.uint32)
    known = selected & np.broadcast_to(np.asarray(address.known), selected.shape)
    places = np.broadcast_to(address.bits, selected.shape)
    for place in np.unique(places[known]).tolist():
        found[known & (places == place)] = _word(m.memory, place) or 0
    return found


def check_store(m: Machine, address: Value, selected: Bools, size: int) -> None:
    """Raise Undrawn if a store may write the counter, unless the block with the last ticket does so, having asked."""
    draw = m.draw
    if draw is None or draw.several or draw.counter is None or not selected.any():
        return
    if not known_in(address, selected):
        raise Undrawn
    at = np.broadcast_to(address.bits, selected.shape).astype(np.int64)
    before, behind = at + size <= draw.counter, at >= draw.counter + WORD
    _stay_apart(m, draw.counter, address.tag, at, before, behind, selected, size)
    hits = selected & ~before & ~behind
    if not hits.any():
        return
    blocks = np.unique(m.view_blocks()[hits.any(axis=1)])
    last = m.blocks[blocks, draw.axis] == draw.extent - 1
    if not (m.asked[blocks] & last).all():
        raise Undrawn
    if ticket := block_axis(draw.axis):  # others would write it earlier
        m.boxes.decide(blocks, ticket)
    m.repeats.fail()


def _stay_apart(
    m: Machine, counter: int, tag: Tag | None, at: Ints, before: Bools, behind: Bools, selected: Bools, size: int
) -> None:
    """Keep only blocks whose addresses stay on their side of the counter; in another array, they stay in that array."""
    if tag is None:
        return
    if tag.coefficients is not None:
        least = np.where(before, -FAR, np.where(behind, counter + WORD, at))
        most = np.where(before, counter - size, np.where(behind, FAR, at))
        m.keep_within(tag, at, least, most, selected)
        return
    for base, content in m.memory.items():
        with_counter = base <= counter < base + len(content)
        if with_counter and (selected & (at >= base) & (at < base + len(content))).any():
            m.decide(tag)


def check_any_store(m: Machine) -> None:
    """Raise Undrawn: something stores to an unknown place."""
    if m.draw is not None and not m.draw.several:
        raise Undrawn


def loaded(m: Machine, at: Ints, size: int) -> Bools | None:
    """Return which lanes load the counter, which others add to at the same time; None if it is not known."""
    draw = m.draw
    if draw is None or draw.several or draw.counter is None:
        return None
    place: Ints = at.astype(np.int64)
    overlaps: Bools = (place + size > draw.counter) & (place < draw.counter + WORD)
    return overlaps


# ---------------------------------------------------------------------------------------------- after they ran


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
    def untouched(self) -> bool:
        """Whether no decision depends on any ticket."""
        axis, extent = self.draw.axis, self.draw.extent
        return all(
            box[0, axis] == 0 and box[1, axis] == extent - 1 and box[3, axis] == 1 for box, _, _ in self.boxes
        )

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
