"""Advise a conflict-free mapping for each tile of an emulated kernel, shared by all its writers and readers.

Every mapping is tried on the recorded requests before it is named.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.emulate.requests import AccessRequests
from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.code import spelled
from ncu_swizzle.smem.judge import LEADING_STEP, Constraints
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import WIDEST
from ncu_swizzle.smem.mapping import Mapping as TileMapping
from ncu_swizzle.smem.operations import LDMATRIX, LINE, STMATRIX, Ints
from ncu_swizzle.smem.suggestions import Suggestion, suggest_by_trial
from ncu_swizzle.smem.swizzle import Identity, Padding

# The tiles of an emulated kernel: byte ranges of shared memory, and all recorded accesses to them.
#
# A cubin does not say which variables its shared memory holds, so a tile is a byte range: instructions whose ranges
# overlap belong to the same tile.


LONGEST_PITCH = 1 << 12  # bytes

Name = Callable[[int], str]  # of the instruction at an offset: its source line, for example


@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedTile:
    """Shared memory from byte `first` to `end`, laid out as the kernel has it, and the accesses to it.

    `plain` has rows as long as the most common distance between the lanes of a conflicting request; its elements are
    the narrowest access. `complete` is whether all of the requests are known, not just the most frequent ones.
    """

    first: int
    end: int
    offsets: tuple[int, ...]  # of the instructions, in the kernel
    plain: TileMapping
    accesses: tuple[Access, ...]  # one per operation and name
    complete: bool
    leading: int | None = None  # bytes of a row if an API computes the addresses, see `Constraints`; 0 if unknown

    @property
    def span(self) -> str:
        """Return its bytes in words."""
        return f"shared memory from {self.first:#x} to {self.end - 1:#x}"

    @cached_property
    def excessive(self) -> int:
        """The excessive wavefronts of all its requests, as far as they are known."""
        counted = ((access, access.wavefronts(self.plain)) for access in self.accesses)
        return sum(access.total(np.where(waves.known, waves.actual - waves.ideal, 0)) for access, waves in counted)

    def suggestion(self, constraints: Constraints | None = None) -> Suggestion:
        """Return the cheapest mappings that leave all accesses conflict-free, tried on the recorded requests.

        Raises UsageError if an access is impossible or no rule gives its wavefronts.
        """
        limits = constraints or Constraints()
        return suggest_by_trial(self.plain, self.accesses, replace(limits, leading=self.leading is not None))


def observed_tiles(
    requests: Mapping[int, AccessRequests], name: Name = lambda offset: "", leading: Collection[int] = ()
) -> tuple[ObservedTile, ...]:
    """Return the tiles that the requests of these instructions make up, by their first byte.

    `leading` are the instructions whose addresses an API computes.
    """
    return tuple(_tile(*span, requests, name, leading) for span in _spans(requests))


def _spans(requests: Mapping[int, AccessRequests]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield the first byte, the end and the instructions of each range of overlapping accesses."""
    spans = sorted((*_span(request), offset) for offset, request in requests.items() if len(_counted(request).times))
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


def _span(request: AccessRequests) -> tuple[int, int]:
    operation, request = operations.find(request.op), _counted(request)
    used = request.addresses[request.active & (np.arange(operations.WARP) < operation.addressed)]
    return int(used.min()), int(used.max()) + operation.width_bytes


def _tile(
    first: int,
    end: int,
    offsets: Sequence[int],
    requests: Mapping[int, AccessRequests],
    name: Name,
    leading: Collection[int],
) -> ObservedTile:
    groups: dict[tuple[str, str], list[AccessRequests]] = {}
    for offset in sorted(offsets):
        if len((request := _counted(requests[offset])).times):
            groups.setdefault((request.op, name(offset)), []).append(request)
    merged = {key: functools.reduce(AccessRequests.plus, same) for key, same in groups.items()}
    start = first // WIDEST * WIDEST
    by_api = [requests[offset] for offset in offsets if offset in leading]
    row = _leading_dimension(by_api) if by_api else None
    plain = _plain(tuple(merged.values()), start, end, row or 0)
    accesses = tuple(_access(request, plain, start, label or op) for (op, label), request in merged.items())
    complete = all(request.complete for request in merged.values())
    return ObservedTile(
        first=first, end=end, offsets=tuple(offsets), plain=plain, accesses=accesses, complete=complete, leading=row
    )


def _counted(request: AccessRequests) -> AccessRequests:
    """Return the requests with lanes that access something; a matrix needs all of its rows."""
    operation = operations.find(request.op)
    matrix = operation.kind in (LDMATRIX, STMATRIX)
    used = request.active[:, : operation.addressed]
    return request.chosen(np.flatnonzero(used.all(axis=1) if matrix else used.any(axis=1)))


def _plain(requests: Sequence[AccessRequests], start: int, end: int, leading_dimension: int) -> TileMapping:
    widths = [operations.find(request.op).width_bytes for request in requests]
    element, pitch = min(widths), leading_dimension or _pitch(requests, max(widths))
    columns = pitch // element
    return TileMapping(
        Layout((-(-(end - start) // pitch), columns), (columns, 1)), element_bytes=element, origin=start % LINE
    )


def _pitch(requests: Sequence[AccessRequests], widest: int) -> int:
    """Return the most common distance of neighbouring lanes in conflicting requests, a multiple of `widest` bytes."""
    steps = [np.zeros(0, np.int64)]
    for request in requests:
        operation = operations.find(request.op)
        matrix = operation.kind in (LDMATRIX, STMATRIX)
        counted = wavefronts(request.op, request.addresses, None if matrix else request.active, request.source)
        used = request.active & (np.arange(operations.WARP) < operation.addressed)
        both = used[:, 1:] & used[:, :-1] & (counted.actual > counted.ideal)[:, None]
        steps.append(np.abs(np.diff(request.addresses, axis=1))[both])
    distances: Ints = np.concatenate(steps)
    distances = distances[(distances >= 2 * widest) & (distances % widest == 0) & (distances <= LONGEST_PITCH)]
    if not len(distances):
        return LINE
    values, counts = np.unique(distances, return_counts=True)
    return int(values[counts.argmax()])


def _leading_dimension(requests: Sequence[AccessRequests]) -> int:
    """Return the bytes from one row of an API's matrices to the next; 0 if the requests do not show them.

    Lanes 0 to 7 of an ldmatrix address consecutive rows; otherwise four lanes share a row of a fragment.
    """
    steps = [np.zeros(0, np.int64)]
    for request in requests:
        apart = 1 if operations.find(request.op).kind in (LDMATRIX, STMATRIX) else 4
        both = request.active[:, apart:8] & request.active[:, : 8 - apart]
        steps.append(np.abs(request.addresses[:, apart:8] - request.addresses[:, : 8 - apart])[both])
    distances: Ints = np.concatenate(steps)
    distances = distances[(distances > 0) & (distances % LEADING_STEP == 0)]
    values, counts = np.unique(distances, return_counts=True)
    return int(values[counts.argmax()]) if len(values) else 0


def _access(request: AccessRequests, plain: TileMapping, start: int, name: str) -> Access:
    addresses = np.where(request.active, request.addresses - start, 0)
    rows, columns = np.divmod(addresses // plain.element_bytes, plain.shape[1])
    full = bool(request.active.all()) or operations.find(request.op).kind in (LDMATRIX, STMATRIX)
    return Access(
        name,
        request.op,
        rows=rows,
        columns=columns,
        active=None if full else request.active,
        source=request.source,
        times=request.times,
    )


API = "wmma takes a leading dimension and no swizzle"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Advice for the tile at these bytes of shared memory and the instructions at these offsets."""

    first: int
    end: int
    offsets: tuple[int, ...]
    text: str
    layout: bool = True  # the layout is what conflicts, and not which lanes take part


def advise(
    tiles: Sequence[ObservedTile], constraints: Constraints = Constraints(), untried: int = 0
) -> tuple[Advice, ...]:
    """Return advice for each tile with conflicts; adjacent ones with the same advice, such as stages, get it together.

    `untried` accesses have unknown addresses.
    """
    accesses = f"{untried} access{'es' if untried > 1 else ''} with unknown addresses"
    caveat = f" ({accesses} could not be tried)" if untried else ""
    runs: list[list[ObservedTile]] = []
    sentences: list[tuple[str, bool]] = []
    for tile in tiles:
        if not tile.excessive:
            continue
        found, layout = _sentence(tile, constraints)
        sentence = found + caveat, layout
        if runs and sentences[-1] == sentence and runs[-1][-1].end == tile.first:
            runs[-1].append(tile)
        else:
            runs.append([tile])
            sentences.append(sentence)
    return tuple(_together(run, *sentence) for run, sentence in zip(runs, sentences, strict=True))


def _together(run: Sequence[ObservedTile], sentence: str, layout: bool) -> Advice:
    first, end = run[0].first, run[-1].end
    each = f", {len(run)} tiles" if len(run) > 1 else ""
    offsets = tuple(offset for tile in run for offset in tile.offsets)
    text = f"shared memory from {first:#x} to {end - 1:#x}{each}, {sentence}"
    return Advice(first=first, end=end, offsets=offsets, text=text, layout=layout)


def _sentence(tile: ObservedTile, constraints: Constraints) -> tuple[str, bool]:
    """Return the operations of a tile and what was found by trying mappings on them; and whether the layout matters."""
    operations = ", ".join(dict.fromkeys(access.op for access in tile.accesses))
    if tile.leading == 0:
        return f"{operations}: {API}: pad the rows by a multiple of {LEADING_STEP} bytes, but not of {LINE}", True
    try:
        suggestion = tile.suggestion(constraints)
    except UsageError as error:
        return f"{operations}: no mapping can be suggested: {error}", True
    if suggestion.best is None:
        closest = suggestion.closest
        left = f"leaves {closest.excessive:,} of {tile.excessive:,} excessive wavefronts in the blocks that ran"
        nearest = "" if closest is suggestion.plain else f"; {_mapped(tile, closest.mapping)} comes closest: it {left}"
        return (
            f"{operations}: no {_options(tile, constraints)} makes all of these accesses conflict-free{nearest}",
            True,
        )
    best = suggestion.best
    if isinstance(best.mapping.transform, Identity):
        # No two words of a phase share a bank: the active lanes are spread over more phases than their bytes fill.
        return f"{operations}: no layout does better, only which lanes take part decides the wavefronts", False
    cost = f", for {best.extra_bytes:,} more bytes" if best.extra_bytes else ""
    judged = "" if tile.complete else " (judged by the most frequent requests only)"
    return f"{operations}: {_mapped(tile, best.mapping)} makes all of these accesses conflict-free{cost}{judged}", True


def _options(tile: ObservedTile, constraints: Constraints) -> str:
    """Return what was tried."""
    if constraints.tma:
        return "mode of TMA's"
    if tile.leading:
        return "longer row"
    widest = max(access.operation.width_bytes for access in tile.accesses)
    whole = f" that keeps {widest}-byte accesses whole" if widest > tile.plain.element_bytes else ""
    return f"swizzle or padding{whole}"


def _mapped(tile: ObservedTile, mapping: TileMapping) -> str:
    """Return the mapping in words; of rows that an API knows by their leading dimension, how long they are to be."""
    if tile.leading is None or not isinstance(mapping.transform, Padding):
        return spelled(mapping)
    row = mapping.transform.every * mapping.element_bytes
    longer = row + mapping.transform.by * mapping.element_bytes
    return f"{API}; padding the rows from {row} to {longer} bytes"
