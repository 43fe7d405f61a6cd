"""What one request needs from each bank, phase by phase. Plain data, no rendering."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import BANKS, WORD, BankMap, contention
from ncu_swizzle.smem.layout import Ints
from ncu_swizzle.smem.operations import ATOMIC


@dataclass(frozen=True)
class PhaseLoad:
    """One phase of a request: its active lanes, the map's cells that they access, and the words needed from each bank.

    Of atomics, every lane counts; of other instructions, each word once.
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

    A map with another number of requests than the first has another access, and no say.
    """
    worst = [
        contention(bank_map.access, bank_map.mapping, bank_map.bank_count).max(axis=1)
        for bank_map in bank_maps
        if bank_map.access is not None
    ]
    alike = [each for each in worst if len(each) == len(worst[0])]
    return int(np.max(alike, axis=0).argmax()) if worst else 0


def loads(bank_map: BankMap, first: int = 0) -> Iterator[PhaseLoad]:
    """Yield the phases with active lanes of all requests, from request `first` on, and then from 0."""
    access = bank_map.access
    if access is None:
        return
    addresses = access.addresses(bank_map.mapping)
    active = np.ones(addresses.shape, bool) if access.active is None else access.active
    for request in (*range(first, access.requests), *range(first)):
        phases = _phases(access, bank_map.bank_count)
        for number, phase in enumerate(phases):
            lanes = tuple(lane for lane in phase if active[request, lane])
            if lanes:
                cells = tuple(bank_map.cell(*_element(access, request, lane)) for lane in lanes)
                words = _words(addresses[request, list(lanes)], access, bank_map.bank_count)
                yield PhaseLoad(request, number, len(phases), lanes, cells, words, access.operation.kind == ATOMIC)


def _phases(access: Access, banks: int) -> tuple[range, ...]:
    """Return the lanes of each phase; a toy memory serves a request in one."""
    return access.operation.phases if banks == BANKS else (range(access.operation.addressed),)


def _element(access: Access, request: int, lane: int) -> tuple[int, int]:
    return int(access.rows[request, lane]), int(access.columns[request, lane])


def _words(addresses: Ints, access: Access, banks: int) -> tuple[int, ...]:
    wide = max(1, access.operation.width_bytes // WORD)
    words = (addresses[:, None] // WORD + np.arange(wide)).ravel()
    if access.operation.kind != ATOMIC:
        words = np.unique(words)
    return tuple(int(count) for count in np.bincount(words % banks, minlength=banks))
