"""The limits of an emulation, in time and memory; the distinct requests of an instruction, and their wavefronts.

N requests are rows of 32 lanes, made by W warps in B blocks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.base.errors import TimeLimit
from ncu_swizzle.emulate.boxes import Chosen
from ncu_swizzle.emulate.dependence import Tag
from ncu_swizzle.emulate.faults import Spent
from ncu_swizzle.emulate.values import Bits
from ncu_swizzle.smem.operations import Bools, Ints
from ncu_swizzle.smem.requests import AccessRequests, count_wavefronts, merged_requests

# The limits of an emulation: time, and each use of memory that grows with the program, together below 1 GiB.


Progress = Callable[[int, int, int], None]  # blocks accounted for, all blocks, instructions that warps have issued
TOLD_EVERY_S = 0.25
TIMEOUT_S = 600.0
WARPS_AT_ONCE = 2048  # over all blocks that run together: at most 32 KiB of registers each
SHARED_BYTES = 64 << 20  # of shared-memory contents, over all blocks that run together
ISSUED_BYTES = 64 << 20  # of the table of issue counts, one per instruction and block
LOCAL_BYTES = 256 << 20  # of local memory, over all threads that run together
SEEN_BYTES = 16 << 20  # of requests that are not counted yet
SHIFTED_BYTES = 8 << 20  # of requests of iterations that are added at once
KINDS = 1 << 20  # of blocks that are told apart
# Basic blocks that groups of warps run: in a kernel that accesses no shared memory; in the first block of a grid that
# is not large, before the rest of the grid runs alongside.
ASIDE_STEPS, ALONE_STEPS = 10_000, 1_000
# Effort is counted in instructions of warps. NumPy's overhead per instruction equals its execution for this many.
BEGINNING = 50
LONG_EFFORT = 12_000_000  # about as many microseconds; then counting is tried without following data
WITHOUT_DATA_EFFORT = 16_000_000  # the limit of that try
APART_EFFORT = 32_000_000  # limit of a run that counts threads alone
COMPARED_EFFORT = 4_000_000  # limit for comparing stored values; arithmetic takes longest
FUTILE_EFFORT = 2_000_000  # after which that try ends if it followed every branch as with data


@dataclass(kw_only=True)
class Clock:
    """When an emulation has to end, and how far it is: blocks accounted for, instructions issued by warps.

    Time is the thread's CPU time, so that a busy machine gives the same answers as an idle one.
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
    by_step: bool = False  # whether effort is that of what is executed, not of all that is issued
    lost: int = 0  # branches on unknown conditions
    aside: Callable[[], None] | None = None  # called once, after a given effort
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

    def ran(self, warps: int, instructions: int, executed: int) -> None:
        """Record that warps ran instructions of a basic block, of which some are executed, and report progress."""
        self.issued += warps * instructions
        self.steps += 1
        self.effort += (warps + BEGINNING) * (executed if self.by_step else instructions)
        self.tell()
        if self.aside is not None and self.effort > self.aside_effort:
            aside, self.aside = self.aside, None
            aside()

    @contextmanager
    def limited(self, steps: int) -> Iterator[None]:
        """Limit what runs inside to a number of steps, whatever the machine. Raises Spent."""
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
        """Report progress, unless that was just done."""
        if self.on_progress and (always or time.monotonic() - self._told > TOLD_EVERY_S):
            self._told = time.monotonic()
            self.on_progress(self.covered, self.blocks, self.issued)


def blocks_at_once(threads: int, shared_bytes: int, local_bytes: int, instructions: int) -> int:
    """Return how many blocks can run side by side, given what one takes; 0 bytes if contents are not tracked."""
    by_warps = WARPS_AT_ONCE // math.ceil(threads / 32)
    # Twice, because each byte has one in `shared_known`; the table of issue counts has a row after the last
    # instruction, in which the last basic block's count ends.
    by_shared = SHARED_BYTES // (2 * shared_bytes) if shared_bytes else by_warps
    by_local = LOCAL_BYTES // (2 * local_bytes) if local_bytes else by_warps
    return max(1, min(by_warps, by_shared, by_local, ISSUED_BYTES // (8 * (instructions + 1))))


@dataclass(kw_only=True)
class WarpRequests:
    """Requests that some warps made together to one memory, and how often.

    Warps of different blocks mostly make the same requests: warp w, of W, makes request w modulo N.
    """

    addresses: Bits  # (N, 32)
    selected: Bools  # (N, 32)
    source: Ints | None = None  # (N, 32) of a copy: addresses in the other memory
    blocks: Ints  # (W,), shared with what else these warps request
    space: str = ""  # what is counted of them in global and local memory, as `traffic` names it
    certain: bool = True  # else supposed: some of these lanes may make the request, any number of times
    count: int = 0

    @property
    def repeats(self) -> int:
        """How many warps make each request."""
        return len(self.blocks) // len(self.selected)

    @property
    def nbytes(self) -> int:
        source = 0 if self.source is None else self.source.nbytes
        return self.addresses.nbytes + self.selected.nbytes + source


@dataclass(frozen=True, kw_only=True)
class LoopRequests:
    """Requests that an iteration of a loop made, how often, and how their addresses depend on the iteration."""

    number: int  # of the instruction
    seen: WarpRequests
    times: int = 1
    tag: Tag | None
    source_tag: Tag | None = None

    def moves(self, axis: int) -> tuple[int, int]:
        """Return by how much the addresses, and those of the source, change in an iteration of the loop on an axis."""
        by, source_by = (0 if tag is None else tag.per_iteration(axis) for tag in (self.tag, self.source_tag))
        assert by is not None
        assert source_by is not None  # or the iteration would have failed
        return by, source_by

    def made(self, axis: int, seen: WarpRequests, times: int) -> LoopRequests:
        """Return requests of further iterations of the loop on an axis."""
        tag, source_tag = (tag and tag.outside(axis) for tag in (self.tag, self.source_tag))
        return LoopRequests(number=self.number, seen=seen, times=times, tag=tag, source_tag=source_tag)


def joined(requests: Iterable[LoopRequests]) -> list[LoopRequests]:
    """Return the requests of an iteration, those that are the same and move alike as one."""
    together: dict[tuple[int, Tag | None, Tag | None], LoopRequests] = {}
    for request in requests:
        key = (id(request.seen), request.tag, request.source_tag)
        earlier = together.get(key)
        together[key] = replace(request, times=request.times + earlier.times) if earlier else request
    return list(together.values())


@dataclass(frozen=True, eq=False, kw_only=True)
class AccessCounts:
    """One instruction's wavefronts by block, and its distinct requests."""

    wavefronts: Ints  # (B,)
    ideal: Ints  # (B,)
    known: bool
    requests: AccessRequests | None  # None for wgmma, whose lanes give no addresses
    supposed: AccessRequests | None = None  # requests that some lanes may make, see `supposed`

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


def distinct_requests(op: str, requests: Sequence[WarpRequests]) -> tuple[AccessRequests, Ints]:
    """Return each distinct request once, and the index of its distinct request for every request."""
    places = np.concatenate([np.broadcast_to(r.addresses, r.selected.shape) for r in requests]).astype(np.int32)
    active = np.concatenate([r.selected for r in requests])
    times = np.concatenate([np.full(len(r.selected), r.count * r.repeats, np.int64) for r in requests])
    sources = [r.source for r in requests if r.source is not None]
    source = np.concatenate(sources) if sources else None
    return AccessRequests(op=op, places=places, active=active, times=times, source=source).distinct()


def count_accesses(op: str, requests: Sequence[WarpRequests], blocks: int) -> AccessCounts:
    """Count the wavefronts of all requests of one instruction, by block."""
    distinct, which = distinct_requests(op, requests)
    actual, ideal, known = count_wavefronts(distinct)
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


def count_each(op: str, requests: WarpRequests) -> tuple[Ints, Ints, Bools]:
    """Return actual and ideal wavefronts, and whether they are known, of each distinct request, (N,) each."""
    places = np.broadcast_to(requests.addresses, requests.selected.shape).astype(np.int32)
    times = np.ones(len(places), np.int64)
    return count_wavefronts(
        AccessRequests(op=op, places=places, active=requests.selected, times=times, source=requests.source)
    )
