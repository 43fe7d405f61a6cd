"""The length of a tile's rows, inferred from the addresses of its accesses.

A cubin says how many bytes an array has, but not that they are 4 rows of 128 floats. For each request, take all lanes
together: the bytes they touch are intervals, and with 16 x 4 threads on rows of 128 floats those are 64 bytes of one
row and 64 bytes of the next, which begin 512 bytes apart. (Lane 16 is 452 bytes after lane 15; that is not a length.)
A row length has to explain every request that touches several intervals: it divides all distances between them, and
none of them crosses the end of a row. If no length does, the rows are not known. A single interval, such as that of
a copy of element i by thread i, tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.smem.operations import Bools, Ints


@dataclass(frozen=True, eq=False)
class Touched:
    """The bytes that an access touches: addresses, (N, 32), those that count, (N, 32), and the bytes of a lane."""

    addresses: Ints
    used: Bools
    width: int

    def intervals(self) -> tuple[Ints, Ints, Ints]:
        """Return the intervals of each request without gaps: its number, the first byte and the end, (I,) each."""
        request, lane = np.nonzero(self.used)
        first = self.addresses[request, lane]
        order = np.lexsort((first, request))
        request, first = request[order], first[order]
        begins = np.ones(len(first), bool)
        begins[1:] = (request[1:] != request[:-1]) | (first[1:] - first[:-1] > self.width)
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(first)) - 1 if len(starts) else starts
        return request[starts], first[starts], first[ends] + self.width


@dataclass(frozen=True)
class RowLength:
    """The bytes of a row, and how many bytes after the start of a row the tile begins."""

    size: int
    begins: int = 0


def row_length(accesses: Iterable[Touched], start: int | None) -> RowLength | None:
    """Return the length of a tile's rows; None if the accesses do not show one.

    `start` is the byte where the first row begins; None if that is unknown.
    """
    parts = [_apart(touched) for touched in accesses]
    every = [part for part in parts if len(part.first)]
    size = math.gcd(0, *(distance for part in every for distance in part.distances))
    if not every or size % max(part.width for part in parts) or size < 2 * min(part.width for part in parts):
        return None
    first, end = (np.concatenate([getattr(part, name) for part in every]) for name in ("first", "end"))
    if start is not None:
        inside = (first - start) // size == (end - 1 - start) // size
        return RowLength(size) if bool(inside.all()) else None
    origin = int(first.min())
    cut = _uncut(first - origin, end - origin, size)
    return None if cut is None else RowLength(size, -cut % size)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Apart:
    """The intervals of requests that have several, (I,), and the distances between those of one request."""

    width: int
    first: Ints
    end: Ints
    distances: list[int]


def _apart(touched: Touched) -> _Apart:
    request, first, end = touched.intervals()
    together = request[1:] == request[:-1]
    several = np.zeros(len(request), bool)
    several[1:] |= together
    several[:-1] |= together
    return _Apart(
        width=touched.width,
        first=first[several],
        end=end[several],
        distances=np.unique(np.diff(first)[together]).tolist(),
    )


def _uncut(firsts: Ints, ends: Ints, size: int) -> int | None:
    """Return the first position on a circle of `size` bytes that no interval contains."""
    if bool((ends - firsts > size).any()):
        return None
    # The ends of intervals are enough: if any position is free, so is one of these.
    begins, lengths = np.unique(np.stack([firsts % size, ends - firsts], axis=1), axis=0).T
    places = np.unique(np.concatenate([[0], begins, (begins + lengths) % size]))
    for position in places.tolist():
        within = (position - begins) % size
        if not bool(((within > 0) & (within < lengths)).any()):
            return int(position)
    return None
