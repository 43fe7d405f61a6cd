"""Groups of threads at the same instruction, and the votes of those that wait at a block barrier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem.banks import Bools, Ints


@dataclass
class Group:
    """Threads at the same instruction: at most one diverged part of each warp."""

    pc: int  # the index of their instruction
    warps: Ints
    mask: Bools


@dataclass(eq=False)
class Waiting:
    """Threads that wait at a block barrier."""

    group: Group
    barrier: int
    count: int  # of threads that it waits for; 0 for the whole block
    vote: Value | None = None
    mode: str = ""


def rows(value: Value, chosen: Bools) -> Value:
    """Return a value of some of the warps."""
    known = value.known if isinstance(value.known, bool) else value.known[chosen]
    return Value(value.bits[chosen], known, value.origin, value.tag)


def remember_vote(m: Machine, voted: Value) -> None:
    """Keep the result of BAR.RED for the view's warps until B2R reads it."""
    old = m.voted or Value(np.zeros((m.warps, 1), np.uint32), False, m.now)
    bits = np.broadcast_to(old.bits, (m.warps, 1)).copy()
    known = np.broadcast_to(np.asarray(old.known), (m.warps, 1)).copy()
    bits[m.view.warps], known[m.view.warps] = voted.bits, voted.known
    tag = voted.tag if voted.tag is not None else old.tag
    m.voted = Value(bits, True if known.all() else known, voted.origin, tag)


def vote(mine: list[Waiting], m: Machine, block: int) -> Value | None:
    """Return the vote of the threads of a block, (1, 1)."""
    votes = [waiting for waiting in mine if waiting.vote is not None]
    if not votes:
        return None
    yes = count = 0
    unsure = False
    origin, tag = None, None
    for waiting in votes:
        value = waiting.vote
        assert value is not None
        inside = m.block_of[waiting.group.warps] == block
        mask = waiting.group.mask[inside]
        bits = np.broadcast_to(value.bits, waiting.group.mask.shape)[inside]
        known = np.broadcast_to(np.asarray(value.known), waiting.group.mask.shape)[inside]
        yes += int((bits & mask).sum())
        count += int(mask.sum())
        if (mask & ~known).any():
            unsure, origin = True, value.origin
        tag = tag or value.tag
    outcome = {"OR": int(yes > 0), "AND": int(yes == count), "POPC": yes}[votes[0].mode]
    return Value(np.array([[outcome]], np.uint32), not unsure, origin, tag)
