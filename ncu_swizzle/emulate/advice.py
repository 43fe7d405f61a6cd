"""Suggest a conflict-free mapping for each tile of an emulated kernel, shared by all its writers and readers.

A cubin does not say which variables its shared memory holds, so a tile is a byte range: instructions whose ranges
overlap belong to the same tile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ncu_swizzle.emulate.requests import AccessRequests
from ncu_swizzle.emulate.run import Counts
from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.banks import Bools, Ints
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import WIDEST
from ncu_swizzle.smem.mapping import Mapping as Tile
from ncu_swizzle.smem.operations import LINE
from ncu_swizzle.smem.suggestions import Candidate, suggest
from ncu_swizzle.smem.swizzle import Padding

ROW_STEP = 16  # bytes: wmma takes leading dimensions in multiples of that
TRIED = 96  # distinct requests per operation to try candidates on; the best one is then checked on all


@dataclass(frozen=True)
class Advice:
    """Advice for the tile at these bytes of shared memory and the instructions at these offsets."""

    first: int
    end: int
    offsets: tuple[int, ...]
    text: str


def advise(counts: Counts, rigid: Collection[int] = ()) -> tuple[Advice, ...]:
    """Return advice for each tile with conflicts.

    `rigid`: the offsets of instructions that no swizzle can reach, because an API like ``load_matrix_sync`` computes
    their addresses from a leading dimension: only the rows of their tile can be made longer.
    """
    return tuple(
        Advice(first, end, tuple(offsets), _text(first, end, counts, offsets, rigid))
        for first, end, offsets in _tiles(counts.requests)
        if any(_excessive(counts, offset) for offset in offsets)
    )


def _excessive(counts: Counts, offset: int) -> bool:
    row = next(row for row in counts.rows if row.offset == offset)
    return row.wavefronts is not None and row.ideal is not None and row.wavefronts > row.ideal


def _tiles(requests: Mapping[int, AccessRequests]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield the first byte, the end and the instructions of each range of overlapping accesses."""
    spans = sorted((*_span(access), offset) for offset, access in requests.items() if access.active.any())
    first = end = 0
    offsets: list[int] = []
    for low, high, offset in spans:
        if offsets and low >= end:
            yield first, end, offsets
            offsets = []
        first = low if not offsets else first
        end = max(end, high) if offsets else high
        offsets.append(offset)
    if offsets:
        yield first, end, offsets


def _span(access: AccessRequests) -> tuple[int, int]:
    operation = operations.find(access.op)
    used = access.addresses[access.active & (np.arange(operations.WARP) < operation.addressed)]
    return int(used.min()), int(used.max()) + operation.width_bytes


@dataclass(frozen=True, eq=False)
class _Kind:
    """All requests of one operation in a tile: (N, 32) byte addresses from the tile's start, and their counts."""

    op: str
    addresses: Ints
    active: Bools
    source: Ints | None
    times: Ints
    complete: bool

    def access(self, tile: Tile, chosen: Ints | slice = slice(None)) -> Access:
        elements = self.addresses[chosen] // tile.element_bytes
        columns = tile.shape[1]
        full = bool(self.active[chosen].all()) or "matrix" in self.op
        return Access(
            name=self.op,
            op=self.op,
            rows=elements // columns,
            columns=elements % columns,
            active=None if full else self.active[chosen],
            source=None if self.source is None else self.source[chosen],
        )


def _text(first: int, end: int, counts: Counts, offsets: Sequence[int], rigid: Collection[int]) -> str:
    start = first // LINE * LINE
    kinds = _kinds([counts.requests[offset] for offset in offsets], start)
    span = f"shared memory from {first:#x} to {end - 1:#x}, {', '.join(kind.op for kind in kinds)}"
    if fixed := [counts.requests[offset] for offset in offsets if offset in rigid]:
        return f"{span}: {_longer_rows(kinds, _row(_kinds(fixed, start)), end - start)}"
    tile = _tile(kinds, end - start)
    try:
        suggestion = suggest(tile, [kind.access(tile, _some(kind)) for kind in kinds])
    except UsageError as error:
        return f"{span}: no mapping can be suggested: {error}"
    if suggestion.best is None:
        closest = suggestion.closest
        nearest = "" if closest is suggestion.plain else f"; {closest.mapping.transform} comes closest"
        return f"{span}: no swizzle or padding makes all of these accesses conflict-free{nearest}"
    return f"{span}: {_promise(suggestion.best, kinds)}"


def _promise(best: Candidate, kinds: Sequence[_Kind]) -> str:
    left = sum(_left(kind, best.mapping) for kind in kinds)
    size = best.mapping.element_bytes
    what = f"{best.mapping.transform} on elements of {size} byte{'s' if size > 1 else ''}"
    cost = f", {best.extra_bytes:,} more bytes" if best.extra_bytes else ""
    kept = (
        "all of these accesses conflict-free" if not left else f"{left:,} excessive wavefronts in the blocks that ran"
    )
    of_those = "" if all(kind.complete for kind in kinds) else " (judged by the most frequent requests only)"
    return f"{what}{cost} {'makes' if not left else 'leaves'} {kept}{of_those}"


# ---------------------------------------------------------------------------------------------- leading dimensions


def _row(fixed: Sequence[_Kind]) -> int:
    """Return the bytes from one row of a matrix to the next; 0 if the requests do not show them.

    Lanes 0 to 7 of an ldmatrix address consecutive rows; otherwise four lanes share a row of a fragment.
    """
    steps = []
    for kind in fixed:
        apart = 1 if "matrix" in kind.op else 4
        both = kind.active[:, apart:8] & kind.active[:, : 8 - apart]
        steps.append((kind.addresses[:, apart:8] - kind.addresses[:, : 8 - apart])[both])
    rows, times = np.unique(np.abs(np.concatenate(steps)), return_counts=True)
    row = int(rows[times.argmax()]) if len(rows) else 0
    return row if row % ROW_STEP == 0 else 0


def _longer_rows(kinds: Sequence[_Kind], row: int, size: int) -> str:
    """Return the leading dimension that costs the fewest wavefronts, tried on all requests."""
    api = "a matrix loaded or stored by wmma takes a leading dimension and no swizzle"
    element = min(operations.find(kind.op).width_bytes for kind in kinds)
    if not row or ROW_STEP % element:
        return f"{api}: pad its rows by a multiple of {ROW_STEP} bytes, not of {LINE}"
    tile = Tile(Layout((-(-size // row), row // element), (row // element, 1)), element_bytes=element)
    tried = {
        by: replace(tile, transform=Padding(row // element, by // element)) for by in range(ROW_STEP, LINE, ROW_STEP)
    }
    left = {by: sum(_left(kind, mapping) for kind in kinds) for by, mapping in tried.items()}
    best = min(left, key=lambda by: (left[by], by))
    kept = (
        "makes all of these accesses conflict-free"
        if not left[best]
        else f"leaves {left[best]:,} excessive wavefronts in the blocks that ran"
    )
    return f"{api}; padding its rows from {row} to {row + best} bytes {kept}"


def _left(kind: _Kind, mapping: Tile) -> int:
    counted = kind.access(mapping).wavefronts(mapping)
    return int((np.where(counted.known, counted.actual - counted.ideal, 0) * kind.times).sum())


def _kinds(requests: Sequence[AccessRequests], start: int) -> list[_Kind]:
    """Group the requests by operation."""
    groups: dict[str, list[AccessRequests]] = {}
    for access in requests:
        groups.setdefault(access.op, []).append(access)
    kinds = []
    for op, group in groups.items():
        source = None
        if all(access.source is not None for access in group):
            source = np.concatenate([access.source for access in group if access.source is not None])
        active = np.concatenate([access.active for access in group])
        addresses = np.where(active, np.concatenate([access.addresses for access in group]) - start, 0)
        times = np.concatenate([access.times for access in group])
        kinds.append(_Kind(op, addresses, active, source, times, all(access.complete for access in group)))
    return kinds


def _some(kind: _Kind) -> Ints:
    """Return the indices of a sample of distinct requests: the worst half first, then an even spread of the rest."""
    counted = wavefronts(kind.op, kind.addresses, None if "matrix" in kind.op else kind.active, kind.source)
    _, unlike = np.unique(kind.addresses, axis=0, return_index=True)
    order = unlike[np.argsort(-counted.actual[unlike], kind="stable")]
    if len(order) <= TRIED:
        return np.asarray(order)
    worst, rest = order[: TRIED // 2], order[TRIED // 2 :]
    return np.concatenate([worst, rest[:: -(-len(rest) // (TRIED - len(worst)))]])


def _tile(kinds: Sequence[_Kind], size: int) -> Tile:
    """Return the plain tile: rows as long as the lanes' most common stride, or 128 bytes."""
    element = min(operations.find(kind.op).width_bytes for kind in kinds)
    pitch = _pitch(kinds)
    rows = -(-size // pitch)
    return Tile(Layout((rows, pitch // element), (pitch // element, 1)), element_bytes=element)


def _pitch(kinds: Sequence[_Kind]) -> int:
    steps = []
    for kind in kinds:
        both = kind.active[:, 1:] & kind.active[:, :-1]
        steps.append(np.abs(np.diff(kind.addresses, axis=1))[both])
    distances = np.concatenate(steps)
    distances = distances[(distances >= LINE) & (distances % WIDEST == 0) & (distances <= 1 << 12)]
    if not len(distances):
        return LINE
    values, counts = np.unique(distances, return_counts=True)
    return int(values[counts.argmax()])
