"""The floor that no mapping of a tile lowers: the fewest wavefronts that a request can take, and why.

Lanes that update one word take turns; a copy takes a pass for each line that it reads; a few active lanes spread over
several phases take one each. ncu's ideal counts bytes alone, so such requests look excessive under every mapping.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ncu_swizzle.smem import operations
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import Mapping
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
    WORD,
    ZERO_FILL,
    Bools,
    Ints,
    Operation,
    first_lanes,
    have_one_address,
    have_paired_addresses,
    most_lanes,
    new_values,
    phase_degrees,
)
from ncu_swizzle.smem.wavefronts import BROADCAST_LANES, wavefronts

COMBINED = ("add", "inc", "min", "max", "and", "or", "xor")  # lanes may combine these before one of them updates
HELD = 1 << 40  # above any address: a lane that takes no part


def least(access: Access, mapping: Mapping, ideal: Ints) -> Ints:
    """Return the fewest wavefronts that any one-to-one mapping allows for each request, (N,).

    `mapping` is any of them: it tells which lanes want the same word.
    """
    operation, active = access.operation, access.mask
    if operation.kind == COPY:
        return np.asarray(np.maximum(ideal, _of_copies(access, mapping)))
    if operation.kind == ATOMIC and operation.name not in (ADD_ONE, SPIN):
        times = 2 if ".cas." in operation.name else 1
        return np.asarray(np.maximum(ideal, times * same_word(operation, access.addresses(mapping), active)))
    if access.active is None:
        return ideal
    phases = [active[:, phase.start : phase.stop].any(axis=1) for phase in operation.phases]
    fewest = np.stack(phases).sum(axis=0)
    if operation.kind == LOAD and operation.width_bytes > WORD:
        fewest = np.minimum(fewest, _merging(operation, access.addresses(mapping), active, phases))
    return np.asarray(np.maximum(ideal, fewest))


def _merging(operation: Operation, lanes: Ints, active: Bools, phases: Sequence[Any]) -> Ints:
    """Return (N,): the wavefronts of a wide load if all phases that may merge do, see `wavefronts._merged`."""
    if operation.width_bytes == 2 * WORD:
        fits = _distinct(lanes, active) <= LINE // operation.width_bytes
        return np.where(have_paired_addresses(lanes, active) & fits, active.any(axis=1), np.stack(phases).sum(axis=0))
    total = np.zeros(len(lanes), np.int64)
    for first, strictly in ((0, True), (16, False)):
        half, on = lanes[:, first : first + 16], active[:, first : first + 16]
        may = have_paired_addresses(half, on, strictly=strictly) | (~active[:, 31] & strictly)
        fits = _distinct(half, on) <= LINE // operation.width_bytes
        quarters = on[:, :8].any(axis=1).astype(np.int64) + on[:, 8:].any(axis=1)
        total += np.where(may & fits, on.any(axis=1), quarters)
    broadcast = -(-active.sum(axis=1) // BROADCAST_LANES)
    return np.where(have_one_address(lanes, active), broadcast, total)


def _distinct(lanes: Ints, active: Bools) -> Ints:
    """Return how many different addresses the active lanes have, (N,)."""
    counted: Ints = new_values(np.sort(np.where(active, lanes, -1), axis=1)).sum(axis=1)
    return counted


def same_word(operation: Operation, addresses: Ints, active: Bools) -> Ints:
    """Return how many lanes want the most wanted word of each phase, summed over the phases, (N,)."""
    total = np.zeros(len(addresses), np.int64)
    lane = np.arange(operation.lanes)
    for phase in operation.phases:
        on = active[:, phase.start : phase.stop]
        # Each idle lane has its own number.
        words = np.where(on, addresses[:, phase.start : phase.stop] // WORD, HELD + lane)
        ordered = np.sort(words, axis=1)
        # The distance of each position from the start of its value: the longest run of equal values has the most lanes.
        begins = np.maximum.accumulate(np.where(new_values(ordered), lane, 0), axis=1)
        total += np.where(on.any(axis=1), (lane - begins).max(axis=1) + 1, 0)
    return total


def _of_copies(access: Access, mapping: Mapping) -> Ints:
    """Return the passes that reading the source takes alone, (N,)."""
    operation, active, source = access.operation, access.mask, access.source
    # By default lane i reads 16 i bytes behind the start of a line, see `wavefronts`.
    read = np.broadcast_to(ROW * np.arange(active.shape[1]), active.shape) if source is None else source
    reads = active & (read >= 0)
    if ".cg." not in operation.name:
        return _through_l1(operation, read, reads)
    passes = _past_l1(read, reads & first_lanes(access.addresses(mapping), active))
    zeros = (active & ~reads).any(axis=1) | operation.name.endswith(ZERO_FILL)
    return passes + np.where(zeros, _through_l1(operation, read, reads), 0)


def _through_l1(operation: Operation, source: Ints, reads: Bools) -> Ints:
    """Return (N,): the lanes of each phase that read the most wanted bank, summed; see `wavefronts._through_l1`."""
    banks = LINE // operation.width_bytes
    total = np.zeros(len(source), np.int64)
    for phase in operation.phases:
        bank = source[:, phase.start : phase.stop] % LINE // operation.width_bytes
        on = reads[:, phase.start : phase.stop]
        wanted = np.stack([((bank == number) & on).sum(axis=1) for number in range(banks)])
        total += wanted.max(axis=0)
    return total


def _past_l1(source: Ints, reads: Bools) -> Ints:
    """Return (N,): a pass for each line that is read, two if both even and odd halves of sectors are read.

    A pass moves chunks of 16 bytes: whole sectors of 32 bytes, only even halves or only odd halves (`wavefronts`).
    """
    chunks = np.where(reads, source // ROW, -1)
    mate = np.zeros(chunks.shape, bool)
    for lane in range(chunks.shape[1]):
        mate |= (chunks == (chunks[:, lane, None] ^ 1)) & reads[:, lane, None]
    passes = np.zeros(len(chunks), np.int64)
    line = np.where(reads, chunks // (LINE // ROW), -1)
    # Line and half in one number: whole sectors count as neither half.
    alone = np.where(reads & ~mate, line << 1 | chunks & 1, -1)
    halves = new_values(np.sort(alone, axis=1)).sum(axis=1)
    lines_alone = new_values(np.sort(np.where(alone >= 0, line, -1), axis=1)).sum(axis=1)
    passes += new_values(np.sort(line, axis=1)).sum(axis=1) + halves - lines_alone
    return passes


def crowded(access: Access, plain: Mapping, granule: int) -> str | None:
    """Return why no mapping that keeps `granule` elements together makes this access conflict-free; None if one might.

    A word keeps its position within its granule, and a 128-byte bank row holds a fixed number of granules. If one phase
    accesses words at the same position of more granules than that, they must share banks.
    """
    size = plain.element_bytes
    unit = max(access.operation.width_bytes, WORD, size) // size
    if granule <= unit or access.operation.kind in (ATOMIC, COPY):
        return None
    slots = LINE // (granule * size)
    offsets = plain.elements(access.rows, access.columns)
    active = access.mask
    most = 0
    for phase in access.operation.phases:
        lanes, on = offsets[:, phase.start : phase.stop], active[:, phase.start : phase.stop]
        for position in range(granule // unit):
            block = np.where(on & (lanes % granule // unit == position), lanes // granule, -1)
            most = max(most, int(new_values(np.sort(block, axis=1)).sum(axis=1).max(initial=0)))
    if most <= slots:
        return None
    return (
        f"{access.name}: {most} lanes of a phase need words at the same position in different {granule * size}-byte "
        f"units, but a bank row of 128 bytes holds only {slots}: no mapping that keeps units whole can separate them."
    )


def reasons(accesses: Sequence[Access], mapping: Mapping) -> tuple[tuple[str, str], ...]:
    """Return the accesses that take more wavefronts than their bytes fill under any mapping, and why."""
    return tuple((access.name, why) for access in accesses if (why := reason(access, mapping)))


def reason(access: Access, mapping: Mapping) -> str:
    """Return why an access takes more wavefronts than its bytes fill under any mapping; empty if it does not."""
    counted = access.wavefronts(mapping)
    fewest = least(access, mapping, counted.ideal)
    excess = np.where(counted.known, fewest - counted.ideal, 0)
    if not (excess > 0).any():
        return ""
    worst = int(excess.argmax())
    many, few = int(fewest[worst]), int(counted.ideal[worst])
    if access.operation.kind == COPY:
        return (
            f"a request takes {many} passes to read its source, and {few} would do if neighbouring lanes read whole "
            "128-byte lines: no layout of the tile changes that"
        )
    if access.operation.kind == ATOMIC:
        together = same_word(access.operation, access.addresses(mapping)[[worst]], access.mask[[worst]])
        first = "; combine their values in the warp first" if access.operation.name.split(".")[2] in COMBINED else ""
        return f"{int(together[0])} lanes of a request update one word: no layout of the tile changes that{first}"
    lanes = int(access.mask[worst].sum())
    return f"the {lanes} active lanes of a request lie in {many} of its phases, which take a wavefront each"


# The cost of a request if only some of its lanes, any of them, make it; and requests alone, without their tile.


def most_ways(op: str, addresses: Ints, active: Bools, source: Ints | None = None) -> int | None:
    """Return the most ways that N requests, (N, 32), can conflict, made by all or any of their lanes.

    1: conflict-free whichever lanes make them. None if no rule tells. A word that one lane fewer wants is never
    served later, so for loads, stores and atomics all lanes together are the worst; a bank serves each phase in as many
    wavefronts as its lanes want words of it.
    """
    operation = operations.find(op)
    if not len(addresses):
        return 1
    if operation.kind in (LDMATRIX, STMATRIX):
        active = np.ones_like(active) & (np.arange(active.shape[1]) < operation.addressed)
    if operation.name == SPIN:
        return None
    if operation.kind == COPY:
        return _ways_of_copies(op, addresses, active, source)
    if operation.kind == ATOMIC and operation.name != ADD_ONE:
        parts = [slice(phase.start, phase.stop) for phase in operation.phases]
        return int(max(most_lanes(addresses[:, p], active[:, p], operation.width_bytes).max() for p in parts))
    return int(phase_degrees(operation, addresses, active).max())


def _ways_of_copies(op: str, addresses: Ints, active: Bools, source: Ints | None) -> int | None:
    counted = wavefronts(op, addresses, active, source)
    if not counted.known.all():
        return None
    floor = np.maximum(_floor(op, addresses, active, source, counted.ideal), 1)
    return int((-(-counted.actual // floor)).max())


def is_unavoidable(op: str, addresses: Ints, active: Bools, source: Ints | None = None) -> bool:
    """Return whether no layout of the tile takes fewer wavefronts for any of these requests.

    Loads and stores of few lanes that lie in several phases take a wavefront for each: no two lanes want one bank.
    """
    if operations.find(op).kind in (LDMATRIX, STMATRIX):
        return False
    counted = wavefronts(op, addresses, active, source)
    floor = _floor(op, addresses, active, source, counted.ideal)
    return bool(counted.known.all()) and bool((counted.actual <= floor).all())


def _floor(op: str, addresses: Ints, active: Bools, source: Ints | None, ideal: Ints) -> Ints:
    first = int(addresses.min(initial=1 << 20, where=active)) // LINE * LINE
    within = np.where(active, addresses - first, 0)
    flat = Mapping(Layout((1, int(within.max()) + 1), (1, 1)), element_bytes=1)
    return least(Access(op, op, np.zeros_like(within), within, active=active, source=source), flat, ideal)
