"""cp.async: the wavefronts of writing to shared memory what the lanes read from global memory."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem.banks import Bools, Ints, new_values
from ncu_swizzle.smem.operations import LINE, ROW, WARP, ZERO_FILL, Operation

_LANE = np.arange(WARP)


def count(operation: Operation, lanes: Ints, mask: Bools, source: Ints) -> tuple[Ints, Ints, Bools]:
    """Return actual, ideal and known, (N,) each, of copies from `source` to `lanes`.

    A lane whose source is negative writes zeros. Past L1, the zeros of a request take a second pass, which goes through
    L1 with all of its lanes; `.zfill`, whose number of bytes to read is in a register, takes it always.
    """
    if ".cg." not in operation.name:
        through = _through_l1(operation, lanes, mask, source)
        return through, _lines(mask, operation.width_bytes), np.ones(len(lanes), bool)
    writers = _first_writers(lanes, mask) & (source >= 0)
    actual, known = _bypass(lanes, writers, source)
    ideal = _lines(writers, ROW)
    again = np.flatnonzero((mask & (source < 0)).any(axis=1) | operation.name.endswith(ZERO_FILL))
    actual[again] += _through_l1(operation, lanes[again], mask[again], source[again])
    ideal[again] += _lines(mask[again], ROW)
    return actual, ideal, known


def _slice(phase: range) -> slice:
    return slice(phase.start, phase.stop)


def _through_l1(operation: Operation, lanes: Ints, mask: Bools, source: Ints) -> Ints:
    """Return (N,): the wavefronts of copies through L1."""
    parts = [
        _phase(lanes[:, p], mask[:, p], source[:, p], operation.width_bytes) for p in map(_slice, operation.phases)
    ]
    total: Ints = np.sum(parts, axis=0)
    return total


def _phase(lanes: Ints, mask: Bools, source: Ints, width: int) -> Ints:
    """Return (N,): the wavefronts of one phase of copies through L1.

    L1 and shared memory are one memory: lanes that read the same bank, or write the same bank, conflict even at the
    same address. The lane with the most conflicts decides. Lanes that write zeros read no bank.
    """
    read, write = ((array % LINE // width).astype(np.uint8) for array in (source, lanes))
    reads = source >= 0
    conflicts = np.zeros(lanes.shape, np.uint8)
    for lane in range(lanes.shape[1]):
        same = (read == read[:, lane, None]) & reads & reads[:, lane, None] | (write == write[:, lane, None])
        conflicts += same & mask[:, lane, None]
    worst: Ints = np.where(mask, conflicts, 0).max(axis=1).astype(np.int64)
    return worst


def _lines(mask: Bools, width: int) -> Ints:
    """Return (N,): how many 128-byte lines the bytes that the mask's lanes write fill."""
    lines: Ints = -(-mask.sum(axis=1) * width // LINE)
    return lines


def _first_writers(lanes: Ints, mask: Bools) -> Bools:
    """Return (N, 32): the lowest active lane of each written address."""
    ordered = np.sort(np.where(mask, lanes << 5 | _LANE, -1), axis=1)
    request, position = np.nonzero(new_values(ordered >> 5))
    writers = np.zeros(mask.shape, bool)
    writers[request, ordered[request, position] & 31] = True
    return writers


def _bypass(lanes: Ints, writers: Bools, source: Ints) -> tuple[Ints, Bools]:
    """Return the wavefronts of 16-byte copies that bypass L1, and whether they are known, (N,) each.

    One wavefront moves chunks from one line to one line: either whole 32-byte sectors, or only even halves, or only odd
    halves. All of them move alike in the lower two bits of the chunk number, and no chunk goes to two targets.
    """
    chunk, target = source // ROW % 8, lanes // ROW % 8
    lines = _from_the_lowest(source, writers, 32) << 24 | _from_the_lowest(lanes, writers, 24)
    sectors = ((lines << 2 | chunk >> 1) << 2 | target >> 1) << 1 | (chunk ^ target) & 1
    ordered = np.sort(np.where(writers, sectors << 1 | chunk & 1, -1), axis=1)
    kinds = np.sort(_kinds(ordered), axis=1)
    counts: Ints = new_values(kinds >> 3).sum(axis=1)
    twice = (kinds[:, 1:] == kinds[:, :-1]) & (kinds[:, 1:] >= 0)  # one chunk to both halves of a line
    rows = np.flatnonzero(twice.any(axis=1))
    again = np.maximum.accumulate(np.where(twice[rows], kinds[rows, 1:] >> 3, -1), axis=1)
    counts[rows] += new_values(again).sum(axis=1)
    return counts, ~_read_twice_beside_another(writers, source)


def _read_twice_beside_another(writers: Bools, source: Ints) -> Bools:
    """Mark the requests in which some chunk is read twice, and the other chunk of its sector as well."""
    affected = np.zeros(len(source), bool)
    rows = np.flatnonzero((source[:, 1:] <= source[:, :-1]).any(axis=1))
    chunk = source[rows] // ROW
    both = writers[rows, :, None] & writers[rows, None, :]
    twice = (both & (chunk[:, :, None] == chunk[:, None, :])).sum(axis=2) > 1
    beside = (both & (chunk[:, :, None] == (chunk ^ 1)[:, None, :])).any(axis=2)
    affected[rows] = (twice & beside).any(axis=1)
    return affected


def _kinds(ordered: Ints) -> Ints:
    """Return, for each ordered sector, lines, half (0 even, 1 odd, 2 whole), move and chunk packed into one number."""
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
