"""Bank maps: the bank of each cell of a tile, the cells that conflict under an access, what each phase needs.

Plain data, no rendering.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.smem.access import Access, Surface
from ncu_swizzle.smem.code import titled
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import ATOMIC, WORD, Bools, Ints
from ncu_swizzle.smem.swizzle import Identity

BANKS = 32
MOST_BANKS = 1024  # of a toy memory
LEAST_PERIOD = 8  # rows: those of an 8x8 matrix
CHUNK = 1 << 12  # requests processed together


@dataclass(frozen=True, kw_only=True)
class MapCounts:
    """The wavefronts of an access under one mapping; `collisions` counts the lanes beyond the first of each bank."""

    requests: int
    actual: int
    ideal: int
    collisions: int
    known: bool = True

    @property
    def excessive(self) -> int:
        return self.actual - self.ideal


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Lanes served together: the cell and the first bank of each active lane, and how many ways they conflict."""

    lanes: tuple[int, ...]
    cells: tuple[tuple[int, int], ...]
    banks: tuple[int, ...]  # the first bank of each lane
    width: int  # banks per lane
    ways: int


@dataclass(frozen=True, eq=False, kw_only=True)
class BankMap:
    """A tile in cells of `cell_bytes`: the first bank of each, and how many words of that bank its phase accesses."""

    mapping: Mapping
    access: Access | None
    banks: Ints  # (rows, columns) of cells
    ways: Ints  # 0: not accessed, 1: alone
    cell_bytes: int
    bank_count: int
    counts: MapCounts | None
    lines: tuple[
        tuple[int, int], ...
    ] = ()  # actual and ideal wavefronts of each row of cells, if the access is by rows

    @property
    def title(self) -> str:
        plain = isinstance(self.mapping.transform, Identity)
        return f"{self.mapping.layout}, plain" if plain else titled(self.mapping)

    @property
    def period(self) -> int:
        """The number of rows, 8 or more, after which the map repeats."""
        rows = len(self.banks)
        # (2, rows, columns)
        both = np.stack([self.banks, self.ways])
        sizes = (size for size in range(min(LEAST_PERIOD, rows), rows) if rows % size == 0)
        return next((size for size in sizes if (both == np.tile(both[:, :size], (1, rows // size, 1))).all()), rows)

    def cell(self, row: int, column: int) -> tuple[int, int]:
        """Return the row and column, in cells, of an element."""
        surface = Surface(self.mapping.layout, self.mapping.element_bytes)
        length = max(1, self.cell_bytes // self.mapping.element_bytes)
        return surface.units_of(row, column, length)

    @property
    def conflicts(self) -> bool:
        return bool((self.ways > 1).any())


def build(mapping: Mapping, access: Access | None = None, banks: int = BANKS, cell_bytes: int | None = None) -> BankMap:
    """Return the bank map of a tile. A cell is an element, or the bytes that a lane accesses if that is more.

    `banks` other than 32 is a toy memory: the whole request is one phase, and ideal is 1.
    """
    if not 1 <= banks <= MOST_BANKS:
        raise UsageError(f"shared memory cannot have {banks} banks", "--banks 32, or 4 for a toy")
    width = access.operation.width_bytes if access else mapping.element_bytes
    width = cell_bytes or max(width, mapping.element_bytes)
    surface = Surface(mapping.layout, mapping.element_bytes)
    down, across, length = surface.units(width)
    rows, columns = np.indices((down, across))
    first = surface.cells(rows, columns, length)
    first_banks = mapping.addresses(*first) // WORD % banks
    ways = np.zeros((down, across), dtype=np.int64)
    counts: MapCounts | None = None
    lines: tuple[tuple[int, int], ...] = ()
    if access is not None:
        contended, active = contention(access, mapping, banks), access.mask
        np.maximum.at(ways, surface.units_of(access.rows[active], access.columns[active], length), contended[active])
        counts, per_request = _count(access, mapping, contended, active, banks)
        lines = _by_row(access, per_request, down, length if surface.column_major else 1)
    return BankMap(
        mapping=mapping,
        access=access,
        banks=first_banks,
        ways=ways,
        cell_bytes=width,
        bank_count=banks,
        counts=counts,
        lines=lines,
    )


def contention(access: Access, mapping: Mapping, banks: int = BANKS) -> Ints:
    """Return, for each lane of each request, (N, 32), how many units its phase accesses in the lane's bank.

    A unit is what a lane accesses, at least a word; atomics count every lane, other accesses each unit once.
    """
    units, lanes, wide = _units(access, mapping, banks)
    active, shape = access.mask, (-1, lanes)
    ways = [
        _contended(u.reshape(shape), a.reshape(shape), wide, access.operation.kind == ATOMIC).reshape(u.shape)
        for u, a in ((units[i : i + CHUNK], active[i : i + CHUNK]) for i in range(0, len(units), CHUNK))
    ]
    return np.concatenate(ways)


def _units(access: Access, mapping: Mapping, banks: int) -> tuple[Ints, int, int]:
    """Return the units that the lanes access, (N, 32), the lanes of a phase, and how many units lie side by side."""
    unit = max(access.operation.width_bytes, WORD)
    units = access.addresses(mapping) // unit
    # A toy memory serves a request in one phase.
    lanes = access.operation.lanes if banks == BANKS else units.shape[1]
    return units, lanes, max(1, banks * WORD // unit)


def _contended(units: Ints, active: Bools, wide: int, every_lane: bool) -> Ints:
    """Return (G, L): how many different units the active lanes of the group access in the same bank."""
    bank = units % wide
    # (G, L, L): whether lane i has to share its bank with lane j. All pairs are compared, which is why only CHUNK
    # requests are taken at a time: 4 MiB of booleans.
    together = (bank[:, :, None] == bank[:, None, :]) & active[:, None, :]
    if not every_lane:
        same = (units[:, :, None] == units[:, None, :]) & active[:, None, :] & active[:, :, None]
        first = ~(np.tril(same, -1).any(axis=2))  # no lane before it accesses the same unit
        together &= first[:, None, :]
    return np.where(active, together.sum(axis=2), 0)


def _count(access: Access, mapping: Mapping, contended: Ints, active: Bools, banks: int) -> tuple[MapCounts, Ints]:
    if banks == BANKS:
        counted = access.wavefronts(mapping)
        actual, ideal, known = counted.actual, counted.ideal, bool(counted.known.all())
    else:
        actual, ideal, known = contended.max(axis=1), np.ones(len(contended), np.int64), True
    units, lanes, wide = _units(access, mapping, banks)
    collisions = 0  # units that hit a busy bank, over all phases
    for phase, used in zip(units.reshape(-1, lanes), active.reshape(-1, lanes), strict=True):
        distinct = np.unique(phase[used])
        collisions += len(distinct) - len(np.unique(distinct % wide))
    counts = MapCounts(
        requests=access.requests, actual=int(actual.sum()), ideal=int(ideal.sum()), collisions=collisions, known=known
    )
    return counts, np.stack([actual, ideal], axis=1)


def _by_row(access: Access, per_request: Ints, rows: int, tall: int) -> tuple[tuple[int, int], ...]:
    """Return actual and ideal wavefronts of each row of cells, `tall` elements high, if each request is in one row."""
    if access.name.partition(":")[0] != "row":
        return ()
    sums = np.zeros((rows, 2), dtype=np.int64)
    np.add.at(sums, access.rows[:, 0] // tall, per_request)
    return tuple((int(actual), int(ideal)) for actual, ideal in sums)


def phases(access: Access, mapping: Mapping, request: int | None = None) -> tuple[int, tuple[Phase, ...]]:
    """Return the number of a request, the worst by default, and its phases."""
    contended = contention(access, mapping)
    number = int(contended.max(axis=1).argmax()) if request is None else request
    if not 0 <= number < access.requests:
        raise UsageError(f"{access.name} has no request {number}", f"--request 0 to {access.requests - 1}")
    addresses = access.addresses(mapping)[number]
    active = access.mask[number]
    width = max(1, access.operation.width_bytes // WORD)
    result = []
    for phase in access.operation.phases:
        lanes = tuple(lane for lane in phase if active[lane])
        cells = tuple((int(access.rows[number, lane]), int(access.columns[number, lane])) for lane in lanes)
        banks = tuple(int(addresses[lane]) // WORD % BANKS for lane in lanes)
        result.append(
            Phase(
                lanes=lanes,
                cells=cells,
                banks=banks,
                width=width,
                ways=int(contended[number, list(lanes)].max()) if lanes else 0,
            )
        )
    return number, tuple(result)


@dataclass(frozen=True, kw_only=True)
class PhaseLoad:
    """One phase of a request: its active lanes, the map's cells that they access, and the words needed from each bank.

    For atomics, every lane counts; for other instructions, each word once.
    """

    request: int
    phase: int
    phases: int  # of the instruction
    lanes: tuple[int, ...]
    cells: tuple[tuple[int, int], ...]
    words: tuple[int, ...]  # by bank
    every_lane: bool = False

    @property
    def busiest(self) -> int:
        """The words needed from the busiest bank."""
        return max(self.words, default=0)


def worst_request(bank_maps: Sequence[BankMap]) -> int:
    """Return the number of the request with the busiest bank under any of these mappings of one access.

    A map with a different number of requests than the first has another access and is ignored.
    """
    worst = [
        contention(bank_map.access, bank_map.mapping, bank_map.bank_count).max(axis=1)
        for bank_map in bank_maps
        if bank_map.access is not None
    ]
    alike = [ways for ways in worst if len(ways) == len(worst[0])]
    return int(np.max(alike, axis=0).argmax()) if worst else 0


def loads(bank_map: BankMap, first: int = 0) -> Iterator[PhaseLoad]:
    """Yield the phases with active lanes of all requests, from request `first` on, and then from 0."""
    access = bank_map.access
    if access is None:
        return
    addresses = access.addresses(bank_map.mapping)
    active = access.mask
    # A toy memory serves a request in one phase.
    phases = access.operation.phases if bank_map.bank_count == BANKS else (range(access.operation.addressed),)
    wide = max(1, access.operation.width_bytes // WORD)  # words per lane
    for request in (*range(first, access.requests), *range(first)):
        for number, phase in enumerate(phases):
            lanes = tuple(lane for lane in phase if active[request, lane])
            if lanes:
                words = (addresses[request, list(lanes), None] // WORD + np.arange(wide)).ravel()
                every_lane = access.operation.kind == ATOMIC
                banks = (words if every_lane else np.unique(words)) % bank_map.bank_count
                yield PhaseLoad(
                    request=request,
                    phase=number,
                    phases=len(phases),
                    lanes=lanes,
                    cells=tuple(
                        bank_map.cell(int(access.rows[request, lane]), int(access.columns[request, lane]))
                        for lane in lanes
                    ),
                    words=tuple(np.bincount(banks, minlength=bank_map.bank_count).tolist()),
                    every_lane=every_lane,
                )
