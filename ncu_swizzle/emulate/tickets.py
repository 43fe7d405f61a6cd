"""Tickets: what an atomic on a counter in global memory returns, in blocks that run with a number for each.

The number is the block's index on an axis on which the grid has one block; `run` says what follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ncu_swizzle.emulate.accesses import access_width
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.dependence import Tag, arbitrary_tag, block_axis, scaled_tag
from ncu_swizzle.emulate.faults import Restart
from ncu_swizzle.emulate.machine import Draw, Machine
from ncu_swizzle.emulate.values import MASK, Bits, Value, known_in
from ncu_swizzle.smem.operations import WORD, Bools, Ints

FAR = np.int64(1) << 60
_OTHER_TYPES = ("64", "F16", "F16x2", "F32", "F64", "BF16", "BF16x2", "BF16_V2", "F16_V2", "128")


class Undrawn(Restart):
    """Not every block gets one ticket: what the atomic returns stays unknown."""


class Located(Restart):
    """The counter was not known yet: run again."""

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.draw = draw


def gives_tickets(instruction: SassInstruction) -> bool:
    """Return whether an instruction adds to a word of global memory and returns what it held."""
    return instruction.opcode == "ATOMG" and gives_places(instruction)


def gives_places(instruction: SassInstruction) -> bool:
    """Return whether an instruction adds to a word of global or shared memory and returns what it held."""
    adds = instruction.opcode in ("ATOMG", "ATOMS") and instruction.has("ADD", "INC")
    return adds and not instruction.has(*_OTHER_TYPES) and access_width(instruction) == WORD


def ask(
    m: Machine, instruction: SassInstruction, address: Value, data: Value, selected: Bools, doubtful: Bools
) -> Value | None:
    """Return the tickets that an atomic returns; None if it gives none. Raises Undrawn, Located."""
    draw = m.draw
    if draw is None or not gives_tickets(instruction):
        return None
    if draw.several:
        return any_place(m, instruction, Value(_initial(m, address, selected)))
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
    counter_and_amount = counters[0], amounts[0]
    if draw.counter is None and len(counters) == len(amounts) == 1:
        raise Located(replace(draw, counter=counter_and_amount[0], amount=counter_and_amount[1]))
    first = _word(m.memory, counter_and_amount[0])
    if len(counters) > 1 or len(amounts) > 1 or counter_and_amount != (draw.counter, draw.amount) or first is None:
        raise Undrawn
    step = counter_and_amount[1]
    if instruction.has("INC"):  # adds 1, or starts again at 0 where the word is `amount` or more
        step = 1
        if first + draw.extent - 1 > draw.amount:
            raise Undrawn
    m.asked[blocks] = True
    tickets = np.uint64(first) + np.uint64(step) * m.blocks[m.view_blocks(), draw.axis].astype(np.uint64)
    return Value((tickets & MASK).astype(np.uint32)[:, None], tag=scaled_tag(block_axis(draw.axis), step))


def any_place(m: Machine, instruction: SassInstruction, before: Value) -> Value | None:
    """Return what an atomic returns if that may be any number, in each lane; the old word is among them."""
    draw = m.draw
    if draw is None or not draw.several or not gives_places(instruction) or not before.certain:
        return None
    return Value(before.bits, tag=arbitrary_tag(before.tag, Tag(dims=1 << draw.axis)))


def _word(memory: Mapping[int, bytes], address: int) -> int | None:
    """Return a word of global memory at launch."""
    for base, content in memory.items():
        if base <= address <= base + len(content) - WORD:
            return int.from_bytes(content[address - base : address - base + WORD], "little")
    return None


def _initial(m: Machine, address: Value, selected: Bools) -> Ints:
    """Return what words at these addresses held at launch, which the atomics may return; 0 if unknown."""
    words: Ints = np.zeros(selected.shape, np.uint32)
    known = selected & np.broadcast_to(np.asarray(address.known), selected.shape)
    places = np.broadcast_to(address.bits, selected.shape)
    for address_here in np.unique(places[known]).tolist():
        words[known & (places == address_here)] = _word(m.memory, address_here) or 0
    return words


def check_store(m: Machine, address: Value, selected: Bools, size: int) -> None:
    """Raise Undrawn if a store may write the counter, unless by the block with the last ticket, after asking."""
    draw = m.draw
    if draw is None or draw.several or draw.counter is None or not selected.any():
        return
    if not known_in(address, selected):
        raise Undrawn
    at = np.broadcast_to(address.bits, selected.shape).astype(np.int64)
    before, behind = at + size <= draw.counter, at >= draw.counter + WORD
    _stay_apart(m, draw.counter, tag=address.tag, at=at, before=before, behind=behind, selected=selected, size=size)
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
    """Keep only blocks whose addresses stay on their side of the counter, or in their array if it is another."""
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


def lanes_loading_counter(m: Machine, at: Bits, size: int) -> Bools | None:
    """Return which lanes load the counter while others add to it; None if not known."""
    draw = m.draw
    if draw is None or draw.several or draw.counter is None:
        return None
    place: Ints = at.astype(np.int64)
    overlaps: Bools = (place + size > draw.counter) & (place < draw.counter + WORD)
    return overlaps
