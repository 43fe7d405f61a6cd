"""How many wavefronts a warp instruction takes, from the shared-memory addresses of its lanes.

The rules are those of Nsight Compute's memory_l1_wavefronts_shared and memory_l1_wavefronts_shared_ideal on an H100.
docs/wavefronts.md states them, with the number of measurements that each reproduces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem import copies, operations
from ncu_swizzle.smem.banks import Bools, Ints, degrees, most_lanes, one_address, paired, phase_degrees
from ncu_swizzle.smem.operations import ADD_ONE, ATOMIC, COPY, LDMATRIX, LINE, LOAD, SPIN, STMATRIX, WARP, Operation

__all__ = ["Bools", "Ints", "Wavefronts", "wavefronts"]

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


def _addresses(given: ArrayLike, name: str) -> Ints:
    lanes = np.atleast_2d(np.asarray(given))
    if lanes.ndim != 2 or lanes.shape[1] != WARP:
        raise UsageError(f"{name} of shape {np.shape(given)}", "give one address per lane: shape (N, 32), or (32,)")
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
        return copies.count(operation, lanes, mask, source)
    known = np.ones(len(lanes), bool)
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
        actual = _merged(lanes, mask, 8, phases, paired(lanes, mask))
    if operation.kind == LOAD and operation.width_bytes == 16:
        actual = _merge_128(lanes, mask, phases)
    return actual, np.minimum(ideal, actual), known


def _merge_128(lanes: Ints, mask: Bools, phases: Ints) -> Ints:
    """Return (N,): each half of a 128-bit load takes 1 wavefront if its two quarters merge, else their sum.

    In the lower half an inactive lane matches only inactive ones; if lane 31 is inactive, the quarters merge with or
    without pairs. A single address is broadcast to any 16 lanes per wavefront, in whichever half they are.
    """
    low, low_mask, high, high_mask = lanes[:, :16], mask[:, :16], lanes[:, 16:], mask[:, 16:]
    lower = _merged(low, low_mask, 16, phases[:, :2], paired(low, low_mask, strictly=True) | ~mask[:, 31])
    upper = _merged(high, high_mask, 16, phases[:, 2:], paired(high, high_mask))
    broadcast = -(-mask.sum(axis=1) // BROADCAST_LANES)
    counts: Ints = np.where(one_address(lanes, mask), broadcast, lower + upper)
    return counts


def _merged(lanes: Ints, mask: Bools, width: int, phases: Ints, may: Bools) -> Ints:
    """Return (N,): 1 for two phases that may merge and do not conflict when merged, else their sum."""
    counts: Ints = phases.sum(axis=1)
    rows = np.flatnonzero(may & (counts == 2) & (phases.max(axis=1) == 1))
    counts[rows[degrees(lanes[rows], mask[rows], width) == 1]] = 1
    return counts
