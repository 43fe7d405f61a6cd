"""The cost of a request if only some of its lanes, any of them, make it."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.smem import floors, operations
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import (
    ADD_ONE,
    ATOMIC,
    COPY,
    LDMATRIX,
    LINE,
    SPIN,
    STMATRIX,
    Bools,
    Ints,
    most_lanes,
    phase_degrees,
)
from ncu_swizzle.smem.wavefronts import wavefronts


def most_ways(op: str, addresses: Ints, active: Bools, source: Ints | None = None) -> int | None:
    """Return the most ways that N requests, (N, 32), can conflict, made by all or any of their lanes.

    1: conflict-free whichever lanes make them. None if no rule tells. A word that one lane fewer wants is never
    served later, so for loads, stores and atomics all lanes together are the worst; a bank serves each phase in as many
    wavefronts as its lanes want words of it.
    """
    operation = operations.find(op)
    if not len(addresses):
        return 1
    if operation.kind in (LDMATRIX, STMATRIX):
        active = np.ones_like(active) & (np.arange(active.shape[1]) < operation.addressed)
    if operation.name == SPIN:
        return None
    if operation.kind == COPY:
        return _of_copies(op, addresses, active, source)
    if operation.kind == ATOMIC and operation.name != ADD_ONE:
        parts = [slice(phase.start, phase.stop) for phase in operation.phases]
        return int(max(most_lanes(addresses[:, p], active[:, p], operation.width_bytes).max() for p in parts))
    return int(phase_degrees(operation, addresses, active).max())


def _of_copies(op: str, addresses: Ints, active: Bools, source: Ints | None) -> int | None:
    counted = wavefronts(op, addresses, active, source)
    if not counted.known.all():
        return None
    least = np.maximum(_least(op, addresses, active, source, counted.ideal), 1)
    return int((-(-counted.actual // least)).max())


def is_unavoidable(op: str, addresses: Ints, active: Bools, source: Ints | None = None) -> bool:
    """Return whether no layout of the tile takes fewer wavefronts for any of these requests.

    Loads and stores of few lanes that lie in several phases take a wavefront for each: no two lanes want one bank.
    """
    if operations.find(op).kind in (LDMATRIX, STMATRIX):
        return False
    counted = wavefronts(op, addresses, active, source)
    least = _least(op, addresses, active, source, counted.ideal)
    return bool(counted.known.all()) and bool((counted.actual <= least).all())


def _least(op: str, addresses: Ints, active: Bools, source: Ints | None, ideal: Ints) -> Ints:
    first = int(addresses.min(initial=1 << 20, where=active)) // LINE * LINE
    within = np.where(active, addresses - first, 0)
    flat = Mapping(Layout((1, int(within.max()) + 1), (1, 1)), element_bytes=1)
    return floors.least(Access(op, op, np.zeros_like(within), within, active, source), flat, ideal)
