"""The distinct requests of a shared-memory instruction, how often each is made, and their wavefronts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ncu_swizzle.emulate.clusters import Chosen
from ncu_swizzle.emulate.limits import CACHED_REQUESTS, CACHED_ROWS, DISTINCT_REQUESTS
from ncu_swizzle.emulate.values import Bits
from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.banks import Bools, Ints
from ncu_swizzle.smem.operations import LDMATRIX, LINE, STMATRIX

_FACTORS = np.random.default_rng(0).integers(1, 1 << 63, 3 * 32, np.uint64)  # that hash addresses, lanes and sources


@dataclass
class Seen:
    """Requests that some warps made together, and how often.

    Warps of different blocks mostly make the same requests: warp w, of W, makes request w modulo N.
    """

    addresses: Bits  # (N, 32)
    selected: Bools  # (N, 32)
    source: Ints | None
    blocks: Ints  # (W,), shared with what else these warps request
    count: int = 0

    @property
    def repeats(self) -> int:
        """How many warps make each request."""
        return len(self.blocks) // len(self.selected)

    @property
    def nbytes(self) -> int:
        source = 0 if self.source is None else self.source.nbytes
        return self.addresses.nbytes + self.selected.nbytes + source

    @property
    def source_bytes(self) -> bytes:
        return b"" if self.source is None else self.source.tobytes()


@dataclass(frozen=True, eq=False)
class AccessRequests:
    """The distinct requests of one instruction, and how often each is made."""

    op: str  # of smem.operations
    addresses: Ints  # (N, 32) byte addresses in shared memory
    active: Bools  # (N, 32)
    times: Ints  # (N,)
    source: Ints | None = None  # (N, 32) global addresses that cp.async reads
    complete: bool = True  # whether these are all; of too many, the most frequent are kept

    def distinct(self) -> tuple[AccessRequests, Ints]:
        """Return each different request once, and for every request the index of that one."""
        rows, which = _unique(self.addresses, self.active, self.source)
        times = np.zeros(len(rows), np.int64)
        np.add.at(times, which, self.times)
        return replace(self.chosen(rows), times=times), which

    def plus(self, other: AccessRequests) -> AccessRequests:
        """Return the requests of both."""
        source = None
        if self.source is not None and other.source is not None:
            source = np.concatenate([self.source, other.source])
        both = AccessRequests(
            self.op,
            np.concatenate([self.addresses, other.addresses]),
            np.concatenate([self.active, other.active]),
            np.concatenate([self.times, other.times]),
            source,
            self.complete and other.complete,
        )
        return both.distinct()[0].most_frequent()

    def most_frequent(self) -> AccessRequests:
        """Return as many of these requests as are kept."""
        if len(self.times) <= DISTINCT_REQUESTS:
            return self
        frequent = np.sort(np.argsort(-self.times, kind="stable")[:DISTINCT_REQUESTS])
        return replace(self.chosen(frequent), complete=False)

    def chosen(self, rows: Ints) -> AccessRequests:
        """Return some of the requests."""
        source = None if self.source is None else self.source[rows]
        return AccessRequests(self.op, self.addresses[rows], self.active[rows], self.times[rows], source, self.complete)


@dataclass(frozen=True, eq=False)
class AccessCounts:
    """One instruction's wavefronts by block, and its distinct requests."""

    wavefronts: Ints  # (B,)
    ideal: Ints  # (B,)
    known: bool
    requests: AccessRequests | None  # None for wgmma, whose lanes give no addresses

    def chosen(self, blocks: Chosen) -> AccessCounts:
        """Return the counts of some blocks."""
        return replace(self, wavefronts=self.wavefronts[blocks], ideal=self.ideal[blocks])

    def plus(self, other: AccessCounts) -> AccessCounts:
        """Return the counts of both, of the same instruction and blocks."""
        return AccessCounts(
            self.wavefronts + other.wavefronts,
            self.ideal + other.ideal,
            self.known and other.known,
            self.requests.plus(other.requests) if self.requests and other.requests else None,
        )


def count_accesses(op: str, requests: Sequence[Seen], blocks: int) -> AccessCounts:
    """Count the wavefronts of all requests of one instruction, by block."""
    addresses = np.concatenate([np.broadcast_to(r.addresses, r.selected.shape) for r in requests]).astype(np.int64)
    active = np.concatenate([r.selected for r in requests])
    times = np.concatenate([np.full(len(r.selected), r.count * r.repeats, np.int64) for r in requests])
    sources = [r.source for r in requests if r.source is not None]
    every = AccessRequests(op, addresses, active, times, np.concatenate(sources) if sources else None)
    distinct, which = every.distinct()
    actual, ideal, known = _count(distinct)
    by_block = np.zeros((2, blocks), np.int64)
    first = 0
    for seen in requests:
        mine = which[first : first + len(seen.selected)]
        np.add.at(by_block[0], seen.blocks, np.tile(actual[mine] * seen.count, seen.repeats))
        np.add.at(by_block[1], seen.blocks, np.tile(ideal[mine] * seen.count, seen.repeats))
        first += len(mine)
    return AccessCounts(by_block[0], by_block[1], bool(known.all()), distinct.most_frequent())


def _unique(addresses: Ints, active: Bools, source: Ints | None) -> tuple[Ints, Ints]:
    """Return the first row of each distinct request, and for every row the index of its request."""
    parts = [addresses, active.astype(np.int64), *([source] if source is not None else [])]
    table = np.ascontiguousarray(np.concatenate(parts, axis=1))
    first, group = _alike(table)
    as_bytes = table[first].view(np.dtype((np.void, table.dtype.itemsize * table.shape[1]))).ravel()
    _, rows, which = np.unique(as_bytes, return_index=True, return_inverse=True)
    return first[rows], which.ravel()[group]


def _alike(table: Ints) -> tuple[Ints, Ints]:
    """Return the first of each group of equal rows, and for every row its group: numbers sort faster than rows do.

    If two different rows hash alike, every row is a group of its own.
    """
    hashed = table.view(np.uint64) @ _FACTORS[: table.shape[1]]
    _, first, group = np.unique(hashed, return_index=True, return_inverse=True)
    if bool((table[first][group] == table).all()):
        return first, group
    every = np.arange(len(table))
    return every, every


def _count(requests: AccessRequests) -> tuple[Ints, Ints, Bools]:
    """Return actual and ideal wavefronts and whether they are known; requests without active lanes take none."""
    lowest = int(requests.addresses.min(initial=1 << 40, where=requests.active)) & -LINE
    relative = np.where(requests.active, requests.addresses - lowest, 0)  # shifted by lines, they take as many
    key = _Rows(requests.op, relative.tobytes(), requests.active.tobytes(), None)
    if requests.source is not None:
        key = key._replace(source=requests.source.tobytes())
    return _counted(key) if len(relative) <= CACHED_ROWS else _counted.__wrapped__(key)


class _Rows(NamedTuple):
    """Distinct requests as bytes, of int64 and bool."""

    op: str
    addresses: bytes
    active: bytes
    source: bytes | None


@functools.lru_cache(CACHED_REQUESTS)
def _counted(rows: _Rows) -> tuple[Ints, Ints, Bools]:
    operation = operations.find(rows.op)
    addresses = np.frombuffer(rows.addresses, np.int64).reshape(-1, 32)
    active = np.frombuffer(rows.active, bool).reshape(-1, 32)
    source = None if rows.source is None else np.frombuffer(rows.source, np.int64).reshape(-1, 32)
    actual, ideal = np.zeros(len(addresses), np.int64), np.zeros(len(addresses), np.int64)
    known = np.ones(len(addresses), bool)
    matrix = operation.kind in (LDMATRIX, STMATRIX)
    given = active[:, : operation.addressed]
    counting = np.flatnonzero(given.all(axis=1) if matrix else active.any(axis=1))
    if matrix:
        known &= given.all(axis=1) | ~active.any(axis=1)
    if len(counting):
        sources = None if source is None else source[counting]
        counted = wavefronts(operation.name, addresses[counting], active[counting], sources)
        actual[counting], ideal[counting], known[counting] = counted.actual, counted.ideal, counted.known
    return np.where(known, actual, 0), ideal, known
