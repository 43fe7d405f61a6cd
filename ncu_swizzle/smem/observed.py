"""Advise a conflict-free mapping for each tile of an emulated kernel, shared by all its writers and readers.

Every mapping is tried on the recorded requests before it is named.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from ncu_swizzle.base import pool
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.pool import ItemOutcome
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.judge import LEADING_STEP, Candidate, Constraints
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import WIDEST
from ncu_swizzle.smem.mapping import Mapping as TileMapping
from ncu_swizzle.smem.operations import LDMATRIX, LINE, STMATRIX, Bools, Ints
from ncu_swizzle.smem.requests import AccessRequests
from ncu_swizzle.smem.suggestions import Suggestion, suggest_by_trial
from ncu_swizzle.smem.swizzle import Padding

# The length of a tile's rows, inferred from the addresses of its accesses.
#
# A cubin says how many bytes an array has, but not that they are 4 rows of 128 floats. For each request, take all lanes
# together: the bytes they touch are intervals, and with 16 x 4 threads on rows of 128 floats those are 64 bytes of one
# row and 64 bytes of the next, which begin 512 bytes apart. (Lane 16 is 452 bytes after lane 15; that is not a length.)
# A row length has to explain every request that touches several intervals: it divides all distances between them, and
# none of them crosses the end of a row. If no length does, the rows are not known. A single interval, such as that of
# a copy of element i by thread i, tells nothing.


@dataclass(frozen=True, eq=False)
class Touched:
    """The bytes that an access touches: addresses, (N, 32), those that count, (N, 32), and the bytes of a lane."""

    addresses: Ints
    used: Bools
    width: int

    def intervals(self) -> tuple[Ints, Ints, Ints]:
        """Return the intervals of each request without gaps: its number, the first byte and the end, (I,) each."""
        request, lane = np.nonzero(self.used)
        first = self.addresses[request, lane]
        order = np.lexsort((first, request))
        request, first = request[order], first[order]
        begins = np.ones(len(first), bool)
        begins[1:] = (request[1:] != request[:-1]) | (first[1:] - first[:-1] > self.width)
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(first)) - 1 if len(starts) else starts
        return request[starts], first[starts], first[ends] + self.width


@dataclass(frozen=True)
class RowLength:
    """The bytes of a row, and how many bytes after the start of a row the tile begins."""

    size: int
    begins: int = 0


def row_length(accesses: Iterable[Touched], start: int | None) -> RowLength | None:
    """Return the length of a tile's rows; None if the accesses do not show one.

    `start` is the byte where the first row begins; None if that is unknown.
    """
    parts = [_apart(touched) for touched in accesses]
    every = [part for part in parts if len(part.first)]
    size = math.gcd(0, *(distance for part in every for distance in part.distances))
    if not every or size % max(part.width for part in parts) or size < 2 * min(part.width for part in parts):
        return None
    first, end = (np.concatenate([getattr(part, name) for part in every]) for name in ("first", "end"))
    if start is not None:
        inside = (first - start) // size == (end - 1 - start) // size
        return RowLength(size) if bool(inside.all()) else None
    origin = int(first.min())
    cut = _uncut(first - origin, end - origin, size)
    return None if cut is None else RowLength(size, -cut % size)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Apart:
    """The intervals of requests that have several, (I,), and the distances between those of one request."""

    width: int
    first: Ints
    end: Ints
    distances: list[int]


def _apart(touched: Touched) -> _Apart:
    request, first, end = touched.intervals()
    together = request[1:] == request[:-1]
    several = np.zeros(len(request), bool)
    several[1:] |= together
    several[:-1] |= together
    return _Apart(
        width=touched.width,
        first=first[several],
        end=end[several],
        distances=np.unique(np.diff(first)[together]).tolist(),
    )


def _uncut(firsts: Ints, ends: Ints, size: int) -> int | None:
    """Return the first position on a circle of `size` bytes that no interval contains."""
    if bool((ends - firsts > size).any()):
        return None
    # The ends of intervals are enough: if any position is free, so is one of these.
    begins, lengths = np.unique(np.stack([firsts % size, ends - firsts], axis=1), axis=0).T
    places = np.unique(np.concatenate([[0], begins, (begins + lengths) % size]))
    for position in places.tolist():
        within = (position - begins) % size
        if not bool(((within > 0) & (within < lengths)).any()):
            return int(position)
    return None


# The tiles of an emulated kernel: byte ranges of shared memory, and all recorded accesses to them.
#
# A static array that the PTX declares is one tile, from its first byte to its last, whatever is accessed. Dynamic
# shared memory, and an array of a struct, may hold several: there, and if no PTX was kept, instructions whose ranges
# overlap belong to the same tile. How long its rows are is inferred from all of its accesses.


Name = Callable[[int], str]  # of the instruction at an offset: its source line, for example


class DeclaredArray(Protocol):
    """A shared array, as `cubin.shared_arrays` finds it."""

    @property
    def name(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def dynamic(self) -> bool: ...


SUGGESTED = 256  # tiles whose mappings are kept: a page says them, and draws one


@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedTile:
    """Shared memory from byte `first` to `end`, with the kernel's own layout, and the accesses to it.

    The elements of `plain` are the narrowest access. If its rows are not `known`, they are whole bank rows.
    `complete` is whether all of the requests are known, not just the most frequent ones.
    """

    first: int
    end: int
    offsets: tuple[int, ...]  # of the instructions, in the kernel
    plain: TileMapping
    accesses: tuple[Access, ...]  # one per operation and name
    complete: bool
    known: bool = False
    array: str = ""  # its name, if it is a declared array
    taken: int = 0  # bytes of the declared array; 0 if unknown
    leading: int | None = None  # bytes of a row if an API computes the addresses, see `Constraints`; 0 if unknown

    @property
    def span(self) -> str:
        """Name its byte range."""
        name = f"{self.array}, " if self.array else ""
        return f"{name}shared memory from {self.first:#x} to {self.end - 1:#x}"

    @cached_property
    def excessive(self) -> int:
        """The excessive wavefronts of all its known requests."""
        counted = ((access, access.wavefronts(self.plain)) for access in self.accesses)
        return sum(access.total(np.where(waves.known, waves.actual - waves.ideal, 0)) for access, waves in counted)

    def suggestion(self, constraints: Constraints | None = None) -> Suggestion:
        """Return the cheapest mappings that leave all accesses conflict-free, tried on the recorded requests.

        Raises UsageError if an access is impossible or no rule gives its wavefronts.
        """
        key = self, constraints or Constraints()
        if key not in _searched:
            while len(_searched) >= SUGGESTED:
                del _searched[next(iter(_searched))]
            try:
                _searched[key] = ItemOutcome(_suggestion(*key))
            except UsageError as error:
                _searched[key] = ItemOutcome(error=error)
        suggestion: Suggestion = _searched[key].result()
        return suggestion


_searched: dict[tuple[ObservedTile, Constraints], ItemOutcome] = {}  # in the order in which they were searched for


def search_together(wanted: Sequence[tuple[ObservedTile, Constraints]], jobs: int) -> None:
    """Search for the mappings of several tiles, on several cores: `suggestion` then has them."""
    keys = [key for key in dict.fromkeys(wanted) if key not in _searched][:SUGGESTED]
    if jobs > 1 and len(keys) > 1:
        for number, outcome in pool.outcomes(_search_one, None, keys, jobs):
            _searched[keys[number]] = outcome


def search_next(wanted: Iterable[tuple[ObservedTile, Constraints]]) -> bool:
    """Search for the mapping of the first tile that was not searched for; return whether there was one."""
    for tile, limits in itertools.islice(wanted, SUGGESTED):
        if (tile, limits) not in _searched:
            with contextlib.suppress(UsageError):  # which `suggestion` raises again
                tile.suggestion(limits)
            return True
    return False


def _search_one(_: None, key: tuple[ObservedTile, Constraints], hear: object) -> Suggestion:  # noqa: ARG001
    return _suggestion(*key)


def _suggestion(tile: ObservedTile, limits: Constraints) -> Suggestion:
    # In a part of an array that other accesses see in another shape, rows are neither shortened nor swapped.
    rows = tile.known and bool(tile.taken or not tile.array)
    limits = replace(limits, leading=tile.leading is not None, rows=rows)
    return suggest_by_trial(tile.plain, tile.accesses, limits, tile.taken)


def observed_tiles(
    requests: Mapping[int, AccessRequests],
    name: Name = lambda offset: "",
    leading: Collection[int] = (),
    arrays: Sequence[DeclaredArray] = (),
) -> tuple[ObservedTile, ...]:
    """Return the tiles that the requests of these instructions make up, by their first byte.

    `leading` are the instructions whose addresses an API computes; `arrays` are the declared ones, if they are known.
    """
    counted = {offset: made for offset, request in requests.items() if len((made := _counted(request)).times)}
    return tuple(_tile(part, counted, name, leading) for part in _parts(counted, arrays))


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Bytes of shared memory that are one tile, and the instructions that access them.

    `declared` is whether the first byte is where an array begins; `taken` its bytes, 0 if they are unknown.
    """

    first: int
    end: int
    offsets: tuple[int, ...]
    array: str = ""
    declared: bool = False
    taken: int = 0


def _parts(requests: Mapping[int, AccessRequests], arrays: Sequence[DeclaredArray]) -> Iterator[_Part]:
    """Yield the tiles by their first byte: declared arrays if they have one shape, else ranges that overlap."""
    spans = {offset: _span(request) for offset, request in requests.items()}
    rest = set(spans)
    parts: list[_Part] = []
    for array in (array for array in arrays if array.size):
        mine = [at for at, (low, high) in spans.items() if low < array.start + array.size and high > array.start]
        inside = all(array.start <= spans[at][0] and spans[at][1] <= array.start + array.size for at in mine)
        if not mine or not inside:  # nothing, or instructions that access several arrays
            continue
        rest -= set(mine)
        ranges = list(_ranges({at: spans[at] for at in mine}))
        is_one_tile = len(ranges) == 1 or (not array.dynamic and _is_one(requests, mine, array))
        if is_one_tile:  # the accessed part of dynamic memory: its allocated size tells nothing about the tile
            ranges = [(array.start, ranges[-1][1] if array.dynamic else array.start + array.size, mine)]
        for first, end, offsets in ranges:
            tile_part = _Part(first=first, end=end, offsets=tuple(sorted(offsets)), array=array.name)
            parts.append(replace(tile_part, declared=True, taken=array.size) if is_one_tile else tile_part)
    for first, end, offsets in _ranges({at: spans[at] for at in rest}):
        parts.append(_Part(first=first, end=end, offsets=tuple(sorted(offsets))))
    yield from sorted(parts, key=lambda tile_part: tile_part.first)


def _is_one(requests: Mapping[int, AccessRequests], offsets: Sequence[int], array: DeclaredArray) -> bool:
    """Return whether the accesses to parts of an array have one row length, or show none."""
    touched = [_touched(requests[offset]) for offset in offsets]
    shown = [length for access in touched if (length := row_length([access], array.start)) is not None]
    return not shown or row_length(touched, array.start) is not None


def _ranges(spans: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield the first byte, the end and the instructions of each range of overlapping accesses."""
    first = end = 0
    offsets: list[int] = []
    for low, high, offset in sorted((*span, offset) for offset, span in spans.items()):
        if offsets and low >= end:
            yield first, end, offsets
            offsets = []
        first = low if not offsets else first
        end = max(end, high) if offsets else high
        offsets.append(offset)
    if offsets:
        yield first, end, offsets


def _span(request: AccessRequests) -> tuple[int, int]:
    used = request.addresses[request.used]
    return int(used.min()), int(used.max()) + operations.find(request.op).width_bytes


def _touched(request: AccessRequests) -> Touched:
    return Touched(request.addresses, request.used, operations.find(request.op).width_bytes)


def _tile(part: _Part, requests: Mapping[int, AccessRequests], name: Name, leading: Collection[int]) -> ObservedTile:
    groups: dict[tuple[str, str], list[AccessRequests]] = {}
    for offset in part.offsets:
        groups.setdefault((requests[offset].op, name(offset)), []).append(requests[offset])
    merged = {key: functools.reduce(AccessRequests.plus, same) for key, same in groups.items()}
    by_api = [requests[offset] for offset in part.offsets if offset in leading]
    row = _leading_dimension(by_api) if by_api else None
    length = (
        RowLength(row) if row else row_length(map(_touched, merged.values()), part.first if part.declared else None)
    )
    start, plain = _plain(tuple(merged.values()), part, length)
    accesses = tuple(_access(request, plain, start, label or op) for (op, label), request in merged.items())
    complete = all(request.complete for request in merged.values())
    return ObservedTile(
        first=part.first,
        end=part.end,
        offsets=part.offsets,
        plain=plain,
        accesses=accesses,
        complete=complete,
        known=length is not None,
        array=part.array,
        taken=part.taken,
        leading=row,
    )


def _counted(request: AccessRequests) -> AccessRequests:
    """Return the requests with lanes that access something; a matrix needs all of its rows."""
    operation = operations.find(request.op)
    matrix = operation.kind in (LDMATRIX, STMATRIX)
    used = request.active[:, : operation.addressed]
    return request.chosen(np.flatnonzero(used.all(axis=1) if matrix else used.any(axis=1)))


def _plain(requests: Sequence[AccessRequests], part: _Part, length: RowLength | None) -> tuple[int, TileMapping]:
    """Return where the first row begins, and the layout of whole rows up to the end."""
    element = min(operations.find(request.op).width_bytes for request in requests)
    start = part.first if part.declared else part.first // WIDEST * WIDEST
    if length is not None:
        start = part.first - length.begins
    size = length.size if length else LINE
    columns = size // element
    layout = Layout((-(-(part.end - start) // size), columns), (columns, 1))
    return start, TileMapping(layout, element_bytes=element, origin=start % LINE)


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
    layout: bool = True  # False if the active lanes alone cause the conflicts: no layout helps


def advise(
    tiles: Sequence[ObservedTile], constraints: Constraints = Constraints(), untried: int = 0
) -> tuple[Advice, ...]:
    """Return advice for each tile with conflicts; adjacent ones with the same advice, such as stages, share it.

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
    count = f", {len(run)} tiles" if len(run) > 1 else ""
    offsets = tuple(offset for tile in run for offset in tile.offsets)
    text = f"shared memory from {first:#x} to {end - 1:#x}{count}, {sentence}"
    return Advice(first=first, end=end, offsets=offsets, text=text, layout=layout)


def _sentence(tile: ObservedTile, constraints: Constraints) -> tuple[str, bool]:
    """Return a sentence with a tile's operations and the best mappings found, and whether the layout matters."""
    operations = ", ".join(dict.fromkeys(access.op for access in tile.accesses))
    if tile.leading == 0:
        return f"{operations}: {API}: pad the rows by a multiple of {LEADING_STEP} bytes, but not of {LINE}", True
    try:
        suggestion = tile.suggestion(constraints)
    except UsageError as error:
        return f"{operations}: no mapping can be suggested: {error}", True
    best, closest = suggestion.best, suggestion.closest
    judged = "" if tile.complete else " (judged by the most frequent requests only)"
    if best is not None and best.mapping == tile.plain:
        why = "; ".join(dict.fromkeys(why for _, why in suggestion.fixed))
        # No two words of a phase share a bank: the active lanes are spread over more phases than their bytes fill.
        lanes = "no layout does better, only which lanes take part decides the wavefronts"
        return f"{operations}: {why or lanes}{judged}", bool(why)
    if best is not None:
        cost = f", for {best.extra_bytes:,} more bytes" if best.extra_bytes > 0 else ""
        rest = "".join(f"; what {name} has left: {why}" for name, why in suggestion.fixed)
        mapped = _mapped(tile, best)
        makes = "make" if mapped.startswith(("rows of", "swapped indices")) else "makes"
        return f"{operations}: {mapped} {makes} all of these accesses conflict-free{cost}{rest}{judged}", True
    closer = _mapped(tile, closest)
    many = closer.startswith(("rows of", "swapped indices"))
    come, leaves = ("come", "they leave") if many else ("comes", "it leaves")
    left = f"{leaves} {closest.excessive:,} of {tile.excessive:,} excessive wavefronts in the blocks that ran"
    nearest = "" if closest.mapping == tile.plain else f"; {closer} {come} closest: {left}"
    if (apart := suggestion.apart) is not None:
        nearest += f"; with accesses of {suggestion.narrow} bytes instead of wider ones, use {apart.spelled}"
    none = f"none of {suggestion.tried}" if suggestion.complete else f"none that was found among {suggestion.tried}"
    return f"{operations}: {none} makes all of these accesses conflict-free{nearest}{judged}", True


def _mapped(tile: ObservedTile, candidate: Candidate) -> str:
    """Describe the mapping; for rows that an API knows by their leading dimension, the new row length."""
    transform, element = candidate.mapping.transform, candidate.mapping.element_bytes
    if tile.leading is None or not isinstance(transform, Padding):
        return candidate.spelled
    row = transform.every * element
    return f"{API}; padding the rows from {row} to {row + transform.by * element} bytes"
