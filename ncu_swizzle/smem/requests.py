"""The distinct requests of one instruction to shared memory, how often each is made, and their wavefronts.

N requests are rows of 32 lanes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.operations import LDMATRIX, LINE, STMATRIX, Bools, Ints

DISTINCT_REQUESTS = 1 << 14  # kept per instruction, for advice; all of them are counted
CACHED_ROWS, CACHED_REQUESTS = 64, 1 << 10  # wavefronts are cached for batches up to this size, and this many
Places = NDArray[np.int32]
_FACTORS = np.random.default_rng(0).integers(1, 1 << 63, 49, np.uint64)  # that hash addresses, lanes and sources


@dataclass(frozen=True, eq=False, kw_only=True)
class AccessRequests:
    """The distinct requests of one instruction, and how often each is made."""

    op: str  # of smem.operations
    places: Places  # (N, 32) byte addresses in shared memory
    active: Bools  # (N, 32)
    times: Ints  # (N,)
    source: Ints | None = None  # (N, 32) global addresses that cp.async reads
    complete: bool = True  # whether these are all; of too many, the most frequent are kept

    @property
    def addresses(self) -> Ints:
        """The byte addresses in shared memory, (N, 32)."""
        return self.places.astype(np.int64)

    @property
    def used(self) -> Bools:
        """The lanes whose addresses count, (N, 32): ldmatrix and stmatrix take those of the first ones only."""
        used: Bools = self.active & (np.arange(operations.WARP) < operations.find(self.op).addressed)
        return used

    @cached_property
    def _rows(self) -> NDArray[np.uint64]:
        """Requests as rows of numbers, (N, 17), or (N, 49) with sources: the lanes' addresses, and which are active.

        As bytes, rows have an order that depends only on their contents.
        """
        rows = np.zeros((len(self.times), 17 if self.source is None else 49), np.uint64)
        rows[:, :16] = np.ascontiguousarray(self.places).view(np.uint64)  # below 2^24
        rows.view(np.uint8)[:, 128:132] = np.packbits(self.active, axis=1)
        if self.source is not None:
            rows[:, 17:] = self.source.view(np.uint64)
        return rows

    @cached_property
    def _hashed(self) -> NDArray[np.uint64]:
        # Linear modulo 2^64, so that one product hashes all rows. Different rows may have the same hash: users of
        # hashes compare the rows as well.
        hashed: NDArray[np.uint64] = self._rows @ _FACTORS[: self._rows.shape[1]]
        return hashed

    @cached_property
    def _by_hash(self) -> tuple[Ints, NDArray[np.uint64]]:
        """The order that sorts the hashes, and the sorted hashes."""
        order = np.argsort(self._hashed)
        return order, self._hashed[order]

    def distinct(self) -> tuple[AccessRequests, Ints]:
        """Return each distinct request once, in order of first occurrence, and every request's index among them."""
        order, hashed = self._by_hash
        starts = np.flatnonzero(np.concatenate([[True], hashed[1:] != hashed[:-1]])) if len(order) else order
        first = np.minimum.reduceat(order, starts) if len(order) else order
        which = np.empty(len(order), np.int64)
        which[order] = np.repeat(np.arange(len(first)), np.diff(np.append(starts, len(order))))
        if not bool((self._rows[first][which] == self._rows).all()):  # different requests with the same hash
            _, first, which = np.unique(self._as_bytes, return_index=True, return_inverse=True)
        by_place = np.argsort(first)
        rank = np.empty(len(first), np.int64)
        rank[by_place] = np.arange(len(first))
        rows, which = first[by_place], rank[which.ravel()]
        times = np.zeros(len(rows), np.int64)
        np.add.at(times, which, self.times)
        once = replace(self.chosen(rows), times=times)
        vars(once).update(_rows=self._rows[rows], _hashed=self._hashed[rows])
        return once, which

    def plus(self, other: AccessRequests) -> AccessRequests:
        """Return the requests of both, each once; both must already be distinct."""
        here, again = self._where(other)
        times = self.times.copy()
        times[here[again]] += other.times[again]
        new = np.flatnonzero(~again)
        complete = self.complete and other.complete
        if len(times) == DISTINCT_REQUESTS and other.times[new].max(initial=0) <= times.min():
            same = replace(self, times=times, complete=complete and not len(new))
            vars(same).update(_rows=self._rows, _hashed=self._hashed, _by_hash=self._by_hash)
            return same
        source = None
        if self.source is not None and other.source is not None:
            source = np.concatenate([self.source, other.source[new]])
        places = np.concatenate([self.places, other.places[new]])
        active = np.concatenate([self.active, other.active[new]])
        times = np.concatenate([times, other.times[new]])
        both = AccessRequests(op=self.op, places=places, active=active, times=times, source=source, complete=complete)
        vars(both).update(
            _rows=np.concatenate([self._rows, other._rows[new]]),
            _hashed=np.concatenate([self._hashed, other._hashed[new]]),
        )
        return both.most_frequent()

    def _where(self, other: AccessRequests) -> tuple[Ints, Bools]:
        """Return the position of each of the other's M requests here, and whether it is here at all, (M,) each."""
        order, hashed = self._by_hash
        if not len(order):
            return np.zeros(len(other.times), np.int64), np.zeros(len(other.times), bool)
        here = order[np.minimum(np.searchsorted(hashed, other._hashed), len(order) - 1)]
        again = self._hashed[here] == other._hashed
        again[again] = (self._rows[here[again]] == other._rows[again]).all(axis=1)
        return here, again

    @property
    def _as_bytes(self) -> NDArray[Any]:
        rows = self._rows
        as_bytes: NDArray[Any] = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
        return as_bytes

    def sorted_requests(self) -> AccessRequests:
        """Return the requests by their lanes' addresses, in an order that does not depend on how they were made."""
        return self.chosen(np.argsort(self._as_bytes))

    def most_frequent(self) -> AccessRequests:
        """Return the most frequent requests, as many as are kept."""
        if len(self.times) <= DISTINCT_REQUESTS:
            return self
        frequent = np.sort(np.argsort(-self.times, kind="stable")[:DISTINCT_REQUESTS])
        return replace(self.chosen(frequent), complete=False)

    def chosen(self, rows: Ints | slice) -> AccessRequests:
        """Return some of the requests."""
        source = None if self.source is None else self.source[rows]
        return replace(self, places=self.places[rows], active=self.active[rows], times=self.times[rows], source=source)


def merged_requests(one: AccessRequests | None, other: AccessRequests | None) -> AccessRequests | None:
    """Return the requests of both, either of which may be None."""
    return one.plus(other) if one and other else one or other


def count_wavefronts(requests: AccessRequests) -> tuple[Ints, Ints, Bools]:
    """Return actual and ideal wavefronts and whether they are known; requests without active lanes take none."""
    lowest = int(requests.places.min(initial=1 << 30, where=requests.active)) & -LINE
    relative = np.where(requests.active, requests.places - lowest, 0)  # shifted by lines, they take as many
    source = None if requests.source is None else requests.source.tobytes()
    counted = _counted if len(relative) <= CACHED_ROWS else _counted.__wrapped__
    return counted(requests.op, relative.tobytes(), requests.active.tobytes(), source)


@functools.lru_cache(CACHED_REQUESTS)
def _counted(op: str, addresses_: bytes, active_: bytes, source_: bytes | None) -> tuple[Ints, Ints, Bools]:
    """Return actual and ideal wavefronts, and whether they are known, of requests as bytes of int32 and bool."""
    operation = operations.find(op)
    addresses = np.frombuffer(addresses_, np.int32).reshape(-1, 32)
    active = np.frombuffer(active_, bool).reshape(-1, 32)
    source = None if source_ is None else np.frombuffer(source_, np.int64).reshape(-1, 32)
    actual, ideal = np.zeros(len(addresses), np.int64), np.zeros(len(addresses), np.int64)
    known = np.ones(len(addresses), bool)
    matrix = operation.kind in (LDMATRIX, STMATRIX)
    selected = active[:, : operation.addressed]
    counting = np.flatnonzero(selected.all(axis=1) if matrix else active.any(axis=1))
    if matrix:
        known &= selected.all(axis=1) | ~active.any(axis=1)
    if len(counting):
        sources = None if source is None else source[counting]
        counted = wavefronts(operation.name, addresses[counting], active[counting], sources)
        actual[counting], ideal[counting], known[counting] = counted.actual, counted.ideal, counted.known
    return np.where(known, actual, 0), ideal, known
