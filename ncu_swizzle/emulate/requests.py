"""What an emulation may take, in time and memory; the distinct requests of an instruction, and their wavefronts.

N requests are rows of 32 lanes, made by W warps in B blocks.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ncu_swizzle.base.errors import TimeLimit
from ncu_swizzle.emulate.boxes import Chosen
from ncu_swizzle.emulate.faults import Spent
from ncu_swizzle.emulate.values import Bits
from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.operations import LDMATRIX, LINE, STMATRIX, Bools, Ints

# What an emulation may take: time, and memory by what grows with the program. Together they stay below 1 GiB.


Progress = Callable[[int, int, int], None]  # blocks accounted for, all blocks, instructions that warps have issued
TOLD_EVERY_S = 0.25
TIMEOUT_S = 600.0
WARPS_AT_ONCE = 2048  # over all blocks that run together: at most 32 KiB of registers each
SHARED_BYTES = 64 << 20  # of shared-memory contents, over all blocks that run together
ISSUED_BYTES = 64 << 20  # of the table of issue counts, one per instruction and block
LOCAL_BYTES = 256 << 20  # of local memory, over all threads that run together
ARRAY_BYTES = 128 << 20  # of known contents of arrays in global memory
SEEN_BYTES = 16 << 20  # of requests that are not counted yet
SHIFTED_BYTES = 8 << 20  # of requests of iterations that are added at once
DISTINCT_REQUESTS = 1 << 14  # kept per instruction, for advice; all of them are counted
CACHED_ROWS, CACHED_REQUESTS = 64, 1 << 10  # whose wavefronts are kept: of so many requests together, so many times
KINDS = 1 << 20  # of blocks that are told apart
# Basic blocks that groups of warps run: in a kernel that accesses no shared memory; in the first block of a grid that
# is not large, before the rest of the grid runs beside it.
ASIDE_STEPS, ALONE_STEPS = 10_000, 1_000
# Effort is counted in instructions of warps. NumPy takes as long to begin an instruction as to execute it for so many.
BEGINNING = 50
LONG_EFFORT = 12_000_000  # after which counts are tried that follow no data, about as many microseconds
WITHOUT_DATA_EFFORT = 16_000_000  # what these may take
COMPARED_EFFORT = 4_000_000  # what telling stores of the same value apart may take; arithmetic takes longest
FUTILE_EFFORT = 2_000_000  # after which they are given up if every branch was followed as with data


@dataclass(kw_only=True)
class Clock:
    """When an emulation has to end, and how far it is: blocks accounted for, instructions issued by warps.

    Time is the thread's on the CPU, so that a machine with other work says the same as an idle one.
    """

    timeout_s: float = TIMEOUT_S
    start: float = field(default_factory=time.thread_time)
    issued: int = 0
    covered: int = 0
    blocks: int = 1
    on_progress: Progress | None = None
    steps: int = 0  # basic blocks that groups of warps ran
    most_steps: float | None = None
    effort: int = 0
    most_effort: float = math.inf
    lost: int = 0  # branches on unknown conditions
    aside: Callable[[], None] | None = None  # what to do, once, after so much effort
    aside_effort: int = 0
    _told: float = 0.0

    @property
    def left_s(self) -> float:
        return self.start + self.timeout_s - time.thread_time()

    @property
    def expired(self) -> bool:
        return self._spent or self.left_s < 0

    @property
    def _spent(self) -> bool:
        return self.effort > self.most_effort or (self.most_steps is not None and self.steps > self.most_steps)

    def ran(self, warps: int, instructions: int) -> None:
        """Record that warps ran instructions of a basic block, and tell of it."""
        self.issued += warps * instructions
        self.steps += 1
        self.effort += (warps + BEGINNING) * instructions
        self.tell()
        if self.aside is not None and self.effort > self.aside_effort:
            aside, self.aside = self.aside, None
            aside()

    @contextmanager
    def limited(self, steps: int) -> Iterator[None]:
        """Let what runs inside take so many steps, whose number does not depend on the machine. Raises Spent."""
        before = self.most_steps
        self.most_steps = min(self.steps + steps, math.inf if before is None else before)
        try:
            yield
        except TimeLimit as error:
            if not self._spent:
                raise
            raise Spent(f"more than {steps:,} steps") from error
        finally:
            self.most_steps = before

    def tell(self, always: bool = False) -> None:
        """Report how far it is, unless that was done just now."""
        if self.on_progress and (always or time.monotonic() - self._told > TOLD_EVERY_S):
            self._told = time.monotonic()
            self.on_progress(self.covered, self.blocks, self.issued)


def blocks_at_once(threads: int, shared_bytes: int, local_bytes: int, instructions: int) -> int:
    """Return how many blocks can run side by side, given what one takes; 0 bytes if contents are not tracked."""
    by_warps = WARPS_AT_ONCE // math.ceil(threads / 32)
    # Twice, because each byte has one in `shared_known`; the table of issue counts has a row behind the last
    # instruction, in which the last basic block's count ends.
    by_shared = SHARED_BYTES // (2 * shared_bytes) if shared_bytes else by_warps
    by_local = LOCAL_BYTES // (2 * local_bytes) if local_bytes else by_warps
    return max(1, min(by_warps, by_shared, by_local, ISSUED_BYTES // (8 * (instructions + 1))))


_FACTORS = np.random.default_rng(0).integers(1, 1 << 63, 49, np.uint64)  # that hash addresses, lanes and sources


@dataclass(kw_only=True)
class SharedRequests:
    """Requests that some warps made together, and how often.

    Warps of different blocks mostly make the same requests: warp w, of W, makes request w modulo N.
    """

    addresses: Bits  # (N, 32)
    selected: Bools  # (N, 32)
    source: Ints | None
    blocks: Ints  # (W,), shared with what else these warps request
    certain: bool = True  # or only supposed: some of these lanes may make the request, any number of times
    count: int = 0

    @property
    def repeats(self) -> int:
        """How many warps make each request."""
        return len(self.blocks) // len(self.selected)

    @property
    def nbytes(self) -> int:
        source = 0 if self.source is None else self.source.nbytes
        return self.addresses.nbytes + self.selected.nbytes + source


@dataclass(frozen=True, eq=False, kw_only=True)
class AccessRequests:
    """The distinct requests of one instruction, and how often each is made."""

    op: str  # of smem.operations
    addresses: Ints  # (N, 32) byte addresses in shared memory
    active: Bools  # (N, 32)
    times: Ints  # (N,)
    source: Ints | None = None  # (N, 32) global addresses that cp.async reads
    complete: bool = True  # whether these are all; of too many, the most frequent are kept

    @property
    def used(self) -> Bools:
        """The lanes whose addresses count, (N, 32): ldmatrix and stmatrix take those of the first ones only."""
        used: Bools = self.active & (np.arange(operations.WARP) < operations.find(self.op).addressed)
        return used

    @cached_property
    def _rows(self) -> NDArray[np.uint64]:
        """Requests as rows of numbers, (N, 17), or (N, 49) with sources: the lanes' addresses, and which are active.

        As bytes, rows have an order that depends on nothing but what they hold.
        """
        rows = np.zeros((len(self.times), 17 if self.source is None else 49), np.uint64)
        rows[:, :16] = np.ascontiguousarray(self.addresses.astype(np.uint32)).view(np.uint64)  # below 2^24
        rows.view(np.uint8)[:, 128:132] = np.packbits(self.active, axis=1)
        if self.source is not None:
            rows[:, 17:] = self.source.view(np.uint64)
        return rows

    @cached_property
    def _hashed(self) -> NDArray[np.uint64]:
        # Linear modulo 2^64, so that one product hashes all rows. Different rows may have the same hash: whoever uses
        # hashes compares the rows as well.
        hashed: NDArray[np.uint64] = self._rows @ _FACTORS[: self._rows.shape[1]]
        return hashed

    @cached_property
    def _by_hash(self) -> tuple[Ints, NDArray[np.uint64]]:
        """The order that sorts the hashes, and the sorted hashes."""
        order = np.argsort(self._hashed)
        return order, self._hashed[order]

    def distinct(self) -> tuple[AccessRequests, Ints]:
        """Return each different request once, the first ones first, and for every request the index of that one."""
        order, hashed = self._by_hash
        starts = np.flatnonzero(np.concatenate([[True], hashed[1:] != hashed[:-1]])) if len(order) else order
        first = np.minimum.reduceat(order, starts) if len(order) else order
        which = np.empty(len(order), np.int64)
        which[order] = np.repeat(np.arange(len(first)), np.diff(np.append(starts, len(order))))
        if not bool((self._rows[first][which] == self._rows).all()):  # different requests with the same hash
            _, first, which = np.unique(self._as_bytes, return_index=True, return_inverse=True)
        by_place = np.argsort(first)
        place = np.empty(len(first), np.int64)
        place[by_place] = np.arange(len(first))
        rows, which = first[by_place], place[which.ravel()]
        times = np.zeros(len(rows), np.int64)
        np.add.at(times, which, self.times)
        once = replace(self.chosen(rows), times=times)
        vars(once).update(_rows=self._rows[rows], _hashed=self._hashed[rows])
        return once, which

    def plus(self, other: AccessRequests) -> AccessRequests:
        """Return the requests of both, each of which has different ones only, each once."""
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
        addresses = np.concatenate([self.addresses, other.addresses[new]])
        active = np.concatenate([self.active, other.active[new]])
        times = np.concatenate([times, other.times[new]])
        return AccessRequests(
            op=self.op, addresses=addresses, active=active, times=times, source=source, complete=complete
        ).most_frequent()

    def _where(self, other: AccessRequests) -> tuple[Ints, Bools]:
        """Return the place of each of the other's M requests here, and whether it is here at all, (M,) each."""
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

    def ordered(self) -> AccessRequests:
        """Return the requests by their lanes' addresses, in an order that does not depend on how they were made."""
        return self.chosen(np.argsort(self._as_bytes))

    def most_frequent(self) -> AccessRequests:
        """Return as many of these requests as are kept."""
        if len(self.times) <= DISTINCT_REQUESTS:
            return self
        frequent = np.sort(np.argsort(-self.times, kind="stable")[:DISTINCT_REQUESTS])
        return replace(self.chosen(frequent), complete=False)

    def chosen(self, rows: Ints) -> AccessRequests:
        """Return some of the requests."""
        source = None if self.source is None else self.source[rows]
        return replace(
            self, addresses=self.addresses[rows], active=self.active[rows], times=self.times[rows], source=source
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class AccessCounts:
    """One instruction's wavefronts by block, and its distinct requests."""

    wavefronts: Ints  # (B,)
    ideal: Ints  # (B,)
    known: bool
    requests: AccessRequests | None  # None for wgmma, whose lanes give no addresses
    supposed: AccessRequests | None = None  # that some of the lanes may make, see `supposed`

    def chosen(self, blocks: Chosen) -> AccessCounts:
        """Return the counts of some blocks."""
        return replace(self, wavefronts=self.wavefronts[blocks], ideal=self.ideal[blocks])

    def plus(self, other: AccessCounts) -> AccessCounts:
        """Return the counts of both, of the same instruction and blocks."""
        return AccessCounts(
            wavefronts=self.wavefronts + other.wavefronts,
            ideal=self.ideal + other.ideal,
            known=self.known and other.known,
            requests=merged_requests(self.requests, other.requests),
            supposed=merged_requests(self.supposed, other.supposed),
        )


def merged_requests(one: AccessRequests | None, other: AccessRequests | None) -> AccessRequests | None:
    """Return the requests of both, as far as there are any."""
    return one.plus(other) if one and other else one or other


def distinct_requests(op: str, requests: Sequence[SharedRequests]) -> tuple[AccessRequests, Ints]:
    """Return each different request once, and for every one of them the index of that."""
    addresses = np.concatenate([np.broadcast_to(r.addresses, r.selected.shape) for r in requests]).astype(np.int64)
    active = np.concatenate([r.selected for r in requests])
    times = np.concatenate([np.full(len(r.selected), r.count * r.repeats, np.int64) for r in requests])
    sources = [r.source for r in requests if r.source is not None]
    source = np.concatenate(sources) if sources else None
    return AccessRequests(op=op, addresses=addresses, active=active, times=times, source=source).distinct()


def count_accesses(op: str, requests: Sequence[SharedRequests], blocks: int) -> AccessCounts:
    """Count the wavefronts of all requests of one instruction, by block."""
    distinct, which = distinct_requests(op, requests)
    actual, ideal, known = _count(distinct)
    by_block = np.zeros((2, blocks), np.int64)
    first = 0
    for seen in requests:
        # Warp w makes request w mod N: repeated, the counts of the N requests are those of the W warps, in the order of
        # their blocks.
        mine = which[first : first + len(seen.selected)]
        np.add.at(by_block[0], seen.blocks, np.tile(actual[mine] * seen.count, seen.repeats))
        np.add.at(by_block[1], seen.blocks, np.tile(ideal[mine] * seen.count, seen.repeats))
        first += len(mine)
    return AccessCounts(
        wavefronts=by_block[0], ideal=by_block[1], known=bool(known.all()), requests=distinct.most_frequent()
    )


def count_each(op: str, seen: SharedRequests) -> tuple[Ints, Ints, Bools]:
    """Return actual and ideal wavefronts, and whether they are known, of each distinct request, (N,) each."""
    addresses = np.broadcast_to(seen.addresses, seen.selected.shape).astype(np.int64)
    times = np.ones(len(addresses), np.int64)
    return _count(AccessRequests(op=op, addresses=addresses, active=seen.selected, times=times, source=seen.source))


def _count(requests: AccessRequests) -> tuple[Ints, Ints, Bools]:
    """Return actual and ideal wavefronts and whether they are known; requests without active lanes take none."""
    lowest = int(requests.addresses.min(initial=1 << 40, where=requests.active)) & -LINE
    relative = np.where(requests.active, requests.addresses - lowest, 0)  # shifted by lines, they take as many
    source = None if requests.source is None else requests.source.tobytes()
    counted = _counted if len(relative) <= CACHED_ROWS else _counted.__wrapped__
    return counted(requests.op, relative.tobytes(), requests.active.tobytes(), source)


@functools.lru_cache(CACHED_REQUESTS)
def _counted(op: str, addresses_: bytes, active_: bytes, source_: bytes | None) -> tuple[Ints, Ints, Bools]:
    """Return actual and ideal wavefronts, and whether they are known, of requests as bytes of int64 and bool."""
    operation = operations.find(op)
    addresses = np.frombuffer(addresses_, np.int64).reshape(-1, 32)
    active = np.frombuffer(active_, bool).reshape(-1, 32)
    source = None if source_ is None else np.frombuffer(source_, np.int64).reshape(-1, 32)
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
