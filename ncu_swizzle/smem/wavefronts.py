"""How many wavefronts, or sectors of global memory, a warp instruction takes, from the addresses of its lanes.

The rules of wavefronts are those of Nsight Compute's memory_l1_wavefronts_shared and
memory_l1_wavefronts_shared_ideal on an H100. docs/wavefronts.md states them, with the
number of measurements that each reproduces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.traffic import SECTOR
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.operations import (
    ADD_ONE,
    ATOMIC,
    COPY,
    LDMATRIX,
    LINE,
    LOAD,
    ROW,
    SPIN,
    STMATRIX,
    WARP,
    WORD,
    ZERO_FILL,
    Bools,
    Ints,
    Operation,
    degrees,
    first_lanes,
    have_one_address,
    have_paired_addresses,
    most_lanes,
    new_values,
    phase_degrees,
)

# cp.async: the wavefronts of writing to shared memory what the lanes read from global memory.


def count(operation: Operation, lanes: Ints, mask: Bools, source: Ints) -> tuple[Ints, Ints, Bools]:
    """Return actual, ideal and known, (N,) each, of copies from `source` to `lanes`.

    A lane whose source is negative writes zeros. Past L1, the zeros of a request take a second pass, which goes through
    L1 with all of its lanes; `.zfill`, whose number of bytes to read is in a register, takes it always.
    """
    if ".cg." not in operation.name:
        through = _through_l1(operation, lanes, mask, source)
        return through, _lines(mask, operation.width_bytes), np.ones(len(lanes), bool)
    writers = first_lanes(lanes, mask) & (source >= 0)
    actual, known = _bypass(lanes, writers, source)
    ideal = _lines(writers, ROW)
    again = np.flatnonzero((mask & (source < 0)).any(axis=1) | operation.name.endswith(ZERO_FILL))
    actual[again] += _through_l1(operation, lanes[again], mask[again], source[again])
    ideal[again] += _lines(mask[again], ROW)
    return actual, ideal, known


def _through_l1(operation: Operation, lanes: Ints, mask: Bools, source: Ints) -> Ints:
    """Return (N,): the wavefronts of copies through L1, those of all phases.

    L1 and shared memory are one memory: lanes that read the same bank, or write the same bank, conflict even at the
    same address. The lane of a phase with the most conflicts decides. Lanes that write zeros read no bank.
    """
    total = np.zeros(len(lanes), np.int64)
    read, write = ((array % LINE // operation.width_bytes).astype(np.uint8) for array in (source, lanes))
    of_lanes = (read, write, source >= 0, mask)
    for phase in operation.phases:
        reading, writing, reads, active = (array[:, phase.start : phase.stop] for array in of_lanes)
        # conflicts[n, l]: the lanes of the phase that conflict with lane l. Lane l conflicts with itself too, which is
        # its own wavefront.
        conflicts = np.zeros(active.shape, np.uint8)
        for lane in range(operation.lanes):
            same = (reading == reading[:, lane, None]) & reads & reads[:, lane, None]
            conflicts += (same | (writing == writing[:, lane, None])) & active[:, lane, None]
        total += np.where(active, conflicts, 0).max(axis=1)
    return total


def _lines(mask: Bools, width: int) -> Ints:
    """Return (N,): how many 128-byte lines the bytes that the mask's lanes write fill."""
    lines: Ints = -(-mask.sum(axis=1) * width // LINE)
    return lines


def _bypass(lanes: Ints, writers: Bools, source: Ints) -> tuple[Ints, Bools]:
    """Return the wavefronts of 16-byte copies that bypass L1, and whether they are known, (N,) each.

    One wavefront moves chunks from one line to one line: either whole 32-byte sectors, or only even halves, or only odd
    halves. All of them move alike in the lower two bits of the chunk number, and no chunk goes to two targets.
    """
    chunk, target = source // ROW % 8, lanes // ROW % 8
    lines = _from_the_lowest(source, writers, 32) << 24 | _from_the_lowest(lanes, writers, 24)
    # One number per chunk, to be sorted: source line (32 bits), target line (24), source sector (2), target sector (2),
    # lowest bit of the move, half. 62 bits in all, so that -1 is free for lanes that do not write.
    sectors = ((lines << 2 | chunk >> 1) << 2 | target >> 1) << 1 | (chunk ^ target) & 1
    ordered = np.sort(np.where(writers, sectors << 1 | chunk & 1, -1), axis=1)
    kinds = np.sort(_kinds(ordered), axis=1)
    # Kinds that differ in the chunk alone share a wavefront.
    counts: Ints = new_values(kinds >> 3).sum(axis=1)
    twice = (kinds[:, 1:] == kinds[:, :-1]) & (kinds[:, 1:] >= 0)  # one chunk to both halves of a line
    rows = np.flatnonzero(twice.any(axis=1))
    again = np.maximum.accumulate(np.where(twice[rows], kinds[rows, 1:] >> 3, -1), axis=1)
    counts[rows] += new_values(again).sum(axis=1)
    return counts, ~_read_twice_beside_another(writers, source)


def _read_twice_beside_another(writers: Bools, source: Ints) -> Bools:
    """Mark the requests, (N,), in which some chunk is read twice, and the other chunk of its sector as well."""
    affected = np.zeros(len(source), bool)
    rows = np.flatnonzero((source[:, 1:] <= source[:, :-1]).any(axis=1))
    chunk = source[rows] // ROW
    both = writers[rows, :, None] & writers[rows, None, :]
    twice = (both & (chunk[:, :, None] == chunk[:, None, :])).sum(axis=2) > 1
    beside = (both & (chunk[:, :, None] == (chunk ^ 1)[:, None, :])).any(axis=2)
    affected[rows] = (twice & beside).any(axis=1)
    return affected


def _kinds(ordered: Ints) -> Ints:
    """Return, for each ordered sector, (N, 32), one number of lines, half (0 even, 1 odd, 2 whole), move and chunk."""
    # Bits of `ordered`: 0 the half, 1 the move's lowest bit, 2-3 the target sector, 4-5 the source sector, then the
    # lines. Neighbours that differ in the half alone are a whole sector.
    mates = np.zeros(ordered.shape, bool)
    mates[:, 1:] = ordered[:, 1:] >> 1 == ordered[:, :-1] >> 1
    mates[:, :-1] |= mates[:, 1:].copy()
    half = np.where(mates, 2, ordered & 1)
    chunk, target = ordered >> 3 & 6, ordered >> 1 & 6
    chunk, moved = chunk | ordered & 1, (chunk ^ target) & 2 | ordered >> 1 & 1
    return np.where(ordered < 0, -1, ((ordered >> 6 << 2 | half) << 2 | moved) << 3 | chunk)


def _from_the_lowest(addresses: Ints, mask: Bools, bits: int) -> Ints:
    """Return the lines of the addresses relative to the lowest; raise UsageError if they need more than `bits` bits."""
    lines = addresses // LINE
    lowest: Ints = np.where(mask, lines, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
    if ((lines - lowest)[mask] >> bits).any():
        raise UsageError("the addresses of one request are too far apart", f"keep them within 2^{bits + 7} bytes")
    return lines - lowest


# ---------------------------------------------------------------------------------------------- all instructions


BROADCAST_LANES = 16  # of a 128-bit load: a wavefront returns 256 bytes of one address
CHUNK = 1 << 10  # requests per batch, so that the working set stays in the cache


@dataclass(frozen=True)
class Wavefronts:
    """Wavefronts of N requests, arrays of shape (N,); ``actual`` is -1 if ``known`` is False."""

    actual: Ints
    ideal: Ints
    known: Bools

    @property
    def excessive(self) -> Ints:
        """The wavefronts that bank conflicts add: actual - ideal, -1 if unknown."""
        excessive: Ints = np.where(self.known, self.actual - self.ideal, -1)
        return excessive


def wavefronts(
    op: str, addresses: ArrayLike, active: ArrayLike | None = None, source: ArrayLike | None = None
) -> Wavefronts:
    """Count the wavefronts of N requests; a request is one instruction of one warp.

    `op` is one of ``operations.NAMES``; `addresses` are byte offsets into shared memory, integers of shape (N, 32) or
    (32,), from a start that is a multiple of 128; `active` says which lanes take part (all by default). For ldmatrix
    and stmatrix .xN, lanes 0 to 8N-1 give the row addresses. `source` holds the global byte addresses that cp.async
    reads, in the same shape, -1 for a lane that writes zeros; by default lane i reads 16 i bytes after the start of a
    128-byte line. Other operations ignore it.
    Raises UsageError for an unknown name, another shape or type, and an address that faults.
    """
    operation = operations.find(op)
    lanes = _addresses(addresses, "addresses")
    mask = _mask(active, lanes, operation)
    _check(operation, lanes, mask)
    origin = _source(source, operation, lanes, mask)
    chunks = [slice(first, first + CHUNK) for first in range(0, max(len(lanes), 1), CHUNK)]
    parts = [_count(operation, lanes[chunk], mask[chunk], origin[chunk]) for chunk in chunks]
    actual, ideal, known = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Wavefronts(np.where(known, actual, -1), ideal, known)


def _addresses(addresses: ArrayLike, name: str) -> Ints:
    lanes = np.atleast_2d(np.asarray(addresses))
    if lanes.ndim != 2 or lanes.shape[1] != WARP:
        raise UsageError(f"{name} of shape {np.shape(addresses)}", "give one address per lane: shape (N, 32), or (32,)")
    if not np.issubdtype(lanes.dtype, np.integer):
        raise UsageError(f"{name} of type {lanes.dtype}", "give byte offsets as integers")
    return lanes.astype(np.int64, copy=False)


def _source(given: ArrayLike | None, operation: Operation, lanes: Ints, mask: Bools) -> Ints:
    if given is None:
        return np.broadcast_to(16 * np.arange(WARP), lanes.shape)
    source = _addresses(given, "source")
    if source.shape != lanes.shape:
        raise UsageError(f"{len(source)} requests in source, {len(lanes)} in addresses", "give the same number of each")
    _check(operation, source, mask & (operation.kind == COPY) & (source != -1))
    return source


def _mask(active: ArrayLike | None, lanes: Ints, operation: Operation) -> Bools:
    mask = np.ones(lanes.shape, bool) if active is None else np.atleast_2d(np.asarray(active))
    if mask.shape != lanes.shape or mask.dtype != bool:
        raise UsageError(f"active of shape {mask.shape} and type {mask.dtype}", f"give booleans, shape {lanes.shape}")
    if operation.kind in (LDMATRIX, STMATRIX) and not mask[:, : operation.addressed].all():
        raise UsageError(f"{operation.name} with inactive lanes", "the whole warp executes it: leave active out")
    return mask & (np.arange(WARP) < operation.addressed)


def _check(operation: Operation, lanes: Ints, mask: Bools) -> None:
    width = operation.width_bytes
    faults = mask & ((lanes < 0) | (lanes & (width - 1) != 0))
    if faults.any():
        request, lane = np.argwhere(faults)[0]
        raise UsageError(
            f"{operation.name} faults at address {lanes[request, lane]} (request {request}, lane {lane})",
            f"every active lane needs a byte offset that is a multiple of {width}, 0 or more",
        )


def _count(operation: Operation, lanes: Ints, mask: Bools, source: Ints) -> tuple[Ints, Ints, Bools]:
    """Return actual, ideal and known, (N,) each."""
    if operation.kind == COPY:
        return count(operation, lanes, mask, source)
    known = np.ones(len(lanes), bool)
    # ceil(active lanes x width / 128): docs/wavefronts.md, "Banks and phases".
    ideal = -(-mask.sum(axis=1) * operation.width_bytes // LINE)
    if operation.name == SPIN:  # a lane per bank swaps, the others fail
        twice: Ints = np.where(mask.any(axis=1), 2, 0)
        return twice, twice, known
    if operation.kind == ATOMIC and operation.name != ADD_ONE:
        times = 2 if ".cas." in operation.name else 1  # a compare-and-swap passes twice
        parts = [slice(phase.start, phase.stop) for phase in operation.phases]
        busiest = np.sum([most_lanes(lanes[:, p], mask[:, p], operation.width_bytes) for p in parts], axis=0)
        return times * busiest, np.minimum(times * ideal, times * busiest), known
    phases = phase_degrees(operation, lanes, mask)
    actual = phases.sum(axis=1)
    if operation.kind == LOAD and operation.width_bytes == 8:
        actual = _merged(lanes, mask, 8, phases, have_paired_addresses(lanes, mask))
    if operation.kind == LOAD and operation.width_bytes == 16:
        actual = _merge_128(lanes, mask, phases)
    # A merged load takes fewer wavefronts than its bytes fill; ncu then reports that number as the ideal too.
    return actual, np.minimum(ideal, actual), known


def _merge_128(lanes: Ints, mask: Bools, phases: Ints) -> Ints:
    """Return (N,): each half of a 128-bit load takes 1 wavefront if its two quarters merge, else their sum.

    In the lower half an inactive lane matches only inactive ones; if lane 31 is inactive, the quarters merge with or
    without pairs. A single address is broadcast to any 16 lanes per wavefront, in whichever half they are.
    """
    low, low_mask, high, high_mask = lanes[:, :16], mask[:, :16], lanes[:, 16:], mask[:, 16:]
    merges = have_paired_addresses(low, low_mask, strictly=True) | ~mask[:, 31]
    lower = _merged(low, low_mask, 16, phases[:, :2], merges)
    upper = _merged(high, high_mask, 16, phases[:, 2:], have_paired_addresses(high, high_mask))
    broadcast = -(-mask.sum(axis=1) // BROADCAST_LANES)
    counts: Ints = np.where(have_one_address(lanes, mask), broadcast, lower + upper)
    return counts


def _merged(lanes: Ints, mask: Bools, width: int, phases: Ints, may: Bools) -> Ints:
    """Return (N,): 1 for two phases that may merge and do not conflict when merged, else their sum."""
    counts: Ints = phases.sum(axis=1)
    rows = np.flatnonzero(may & (counts == 2) & (phases.max(axis=1) == 1))
    counts[rows[degrees(lanes[rows], mask[rows], width) == 1]] = 1
    return counts


# ---------------------------------------------------------------------------------------------- sectors and tags
#
# The rules are those of ncu's per-instruction columns memory_l2_theoretical_sectors_global and its ideal,
# memory_l1_tag_requests_global, memory_l2_theoretical_sectors_local: software counts, which caches do not affect.
# docs/sectors.md states them, and what they were compared with. N requests are int64[N, 32] byte addresses with
# bool[N, 32] for the lanes that access memory. Hardware requires alignment: no lane's access is in two sectors.

LANES_OF_SECTOR = SECTOR // WORD  # of neighbouring threads, whose word of local memory is in one sector


@dataclass(frozen=True, kw_only=True)
class Sectors:
    """Counts of N requests to global memory, (N,) each."""

    actual: Ints
    ideal: Ints
    tags: Ints


def global_sectors(addresses: Ints, active: Bools, width: int) -> Sectors:
    """Return what N requests of `width` bytes per lane take in global memory; nothing without active lanes.

    The actual sectors are those that hold an accessed byte. The ideal is as many as the bytes of all active lanes
    fill, but not more than the actual ones, which are fewer if lanes share bytes.
    """
    actual = _different(addresses, active, SECTOR)
    full = -(-active.sum(axis=1) * width // SECTOR)
    return Sectors(actual=actual, ideal=np.minimum(full, actual), tags=_different(addresses, active, LINE))


def copy_sectors(source: Ints, target: Ints, active: Bools) -> Sectors:
    """Return what N copies of 16 bytes per lane past L1 (cp.async.cg) take in global memory, given where they write.

    They move whole sectors, or halves: a sector counts once for each sector of shared memory that it goes to, and if
    its halves swap, once more. Of the lanes that write the same 16 bytes, the lowest one copies.
    """
    copying = first_lanes(target, active)
    chunk, target_chunk = source // ROW, target // ROW
    lowest = np.where(active, target_chunk, np.iinfo(np.int64).max).min(axis=1, keepdims=True) // 2
    # One number per move: sector of global memory, sector of shared memory (from the request's lowest on), parity.
    moves = ((chunk // 2 << 20) + (target_chunk // 2 - lowest)) * 2 + ((chunk ^ target_chunk) & 1)
    actual = _different(moves, copying, 1)
    full = -(-copying.sum(axis=1) * ROW // SECTOR)
    return Sectors(actual=actual, ideal=np.minimum(full, actual), tags=_different(source, active, LINE))


def local_sectors(addresses: Ints, active: Bools, width: int) -> Ints:
    """Return the sectors of N requests to local memory, (N,), given each thread's own addresses in it.

    The words of a warp's 32 threads at the same local address are side by side: a word of eight neighbouring
    threads is a sector. An access wider than a word takes a line per word.
    """
    octet = np.arange(addresses.shape[1]) // LANES_OF_SECTOR
    words = (addresses // WORD)[:, None, :] + np.arange(max(1, width // WORD))[:, None]  # (N, words, 32)
    places = (words << 2 | octet).reshape(len(addresses), -1)
    return _different(places, np.tile(active, words.shape[1]), 1)


def _different(addresses: Ints, active: Bools, unit: int) -> Ints:
    """Return (N,): in how many different blocks of `unit` bytes, from 0 on, the active lanes' addresses are."""
    ordered = np.sort(np.where(active, addresses // unit, -1), axis=1)
    counts: Ints = new_values(ordered).sum(axis=1)
    return counts
