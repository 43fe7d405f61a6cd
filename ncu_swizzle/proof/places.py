"""Which byte of the old kernel's shared memory a byte of the new one's stands for.

What moved is given. Arrays that moved as a whole are known if both cubins say where they lie, and so are the parts of
dynamic shared memory between what moved. The places of other bytes are guessed from what the same lines access. A wrong
guess does no harm: any one-to-one relation will do, since the traces are compared through it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.proof.moved import NOWHERE, Moved
from ncu_swizzle.smem.banks import Bools, Ints

UNRESOLVED, GAP = -1, -2  # nothing is known of the byte; it belongs to no element
SPACE = 1 << 18  # bytes of shared memory, more than any block has


class Places:
    """The places of the old kernel's bytes in the new one."""

    def __init__(
        self, moved: Sequence[Moved], before: Sequence[SharedArray] = (), after: Sequence[SharedArray] = ()
    ) -> None:
        """`before` and `after` are the arrays of both versions, if they are known.

        Raises ValueError if two arrays share bytes before or after.
        """
        self._old = np.full(SPACE, UNRESOLVED, np.int64)  # by byte of the new kernel
        self._taken = np.zeros(SPACE, bool)  # bytes of the old kernel that have a place
        self._moved = tuple(moved)
        self._arrays = tuple(before)
        for one in moved:
            self._move(one)
        named = {array.symbol: array for array in after}
        for array in before:
            other = named.get(array.symbol)
            if other is not None and array.dynamic:
                self._between(array.span, other.span)
            elif other is not None and array.size == other.size:
                self._shift(array.span, other.span)

    def _move(self, array: Moved) -> None:
        new = self._old[array.after.start : array.after.stop]
        if (new != UNRESOLVED).any() or self._taken[array.before.start : array.before.stop].any():
            raise ValueError(f"{array.name} shares bytes with another array that has moved")
        new[:] = GAP
        each = np.arange(array.element_bytes)
        granules = np.flatnonzero(array.places != NOWHERE)[:, None]
        old = array.before.start + granules * array.element_bytes + each
        self._old[array.after.start + array.places[granules] + each] = old
        self._taken[array.before.start : array.before.stop] = True

    def _between(self, old: range, new: range) -> None:
        """Let the parts of an array between those that moved follow each other as they did."""
        parts = _without(old, [array.before for array in self._moved])
        others = _without(new, [array.after for array in self._moved])
        if len(parts) == len(others) and all(map(_alike, parts[:-1], others[:-1])):
            for part, other in zip(parts, others, strict=True):
                size = min(len(part), len(other))  # what follows the last array is nobody's
                self._shift(part[:size], other[:size])

    def _shift(self, old: range, new: range) -> None:
        overlaps = self._taken[old.start : old.stop].any() or (self._old[new.start : new.stop] != UNRESOLVED).any()
        if not overlaps:
            self._old[new.start : new.stop] = np.arange(old.start, old.stop)
            self._taken[old.start : old.stop] = True

    def old(self, address: Ints) -> Ints:
        """Return where bytes of the new kernel lay; UNRESOLVED or GAP for those of which that is not known."""
        places: Ints = self._old[address]
        return places

    def learn(self, new: Ints, old: Ints, unit: int) -> None:
        """Learn the places of units of some bytes that a line accesses: if they are as many, in the order of address.

        Those whose place is known already teach nothing.
        """
        fresh = np.unique(new[self._old[new] == UNRESOLVED])
        origin = np.unique(old[~self._taken[old]])
        if len(fresh) == len(origin):
            for byte in range(unit):
                self._old[fresh + byte] = origin + byte
                self._taken[origin + byte] = True

    def whole(self, address: Ints, unit: int) -> Bools:
        """Return which units of the new kernel lie in one piece in the old one."""
        first = self._old[address]
        whole: Bools = np.ones(len(address), bool)
        for byte in range(1, unit):
            whole &= (self._old[address + byte] == first + byte) | (first < 0)
        return whole

    def element(self, address: int) -> str:
        """Return the element at an address of the old kernel in words, such as tile[33]."""
        for one in self._moved:
            if address in one.before:
                return f"{one.name}[{(address - one.before.start) // one.element_bytes}]"
        for array in self._arrays:
            if address in array.span and not array.dynamic:
                return f"byte {address - array.start} of {array.name}"
        return f"byte {address:#x} of shared memory"


def _without(whole: range, parts: Sequence[range]) -> list[range]:
    """Return what is left of a range, in order, with empty pieces between neighbours."""
    left, start = [], whole.start
    for part in sorted((part for part in parts if part.start in whole), key=lambda part: part.start):
        left.append(range(start, part.start))
        start = part.stop
    return [*left, range(start, whole.stop)]


def _alike(part: range, other: range) -> bool:
    return len(part) == len(other)
