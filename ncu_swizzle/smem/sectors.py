"""How many sectors and tags a warp instruction takes in global and local memory, from the addresses of its lanes.

The rules are those of Nsight Compute's per-instruction columns on an H100: memory_l2_theoretical_sectors_global and its
ideal, memory_l1_tag_requests_global, memory_l2_theoretical_sectors_local. These are software counts, as those of
shared memory are: caches do not affect them. docs/sectors.md states the rules, and what they were compared with.

Addresses are in bytes, int64[N, 32] for N requests of a warp each, with bool[N, 32] for the lanes that access memory.
An access is aligned to its width, which hardware requires: no lane's access is in two sectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncu_swizzle.base.traffic import SECTOR
from ncu_swizzle.smem.operations import LINE, WORD, Bools, Ints, first_lanes, new_values

CHUNK = 16  # bytes that a lane of a copy past L1 moves
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
    chunk, target_chunk = source // CHUNK, target // CHUNK
    lowest = np.where(active, target_chunk, np.iinfo(np.int64).max).min(axis=1, keepdims=True) // 2
    # One number per move: sector of global memory, sector of shared memory (from the request's lowest on), parity.
    moves = ((chunk // 2 << 20) + (target_chunk // 2 - lowest)) * 2 + ((chunk ^ target_chunk) & 1)
    actual = _different(moves, copying, 1)
    full = -(-copying.sum(axis=1) * CHUNK // SECTOR)
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
