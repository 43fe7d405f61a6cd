"""What each phase of a request asks of the banks, against sums done by hand."""

from __future__ import annotations

import numpy as np

from ncu_swizzle.smem import access, bankmap, mapping
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import PhaseLoad, loads, worst_request


def first(layout: str, element_bytes: int, name: str, swizzle: str | None = None) -> PhaseLoad:
    tile = mapping.parse(layout, element_bytes, swizzle)
    return next(loads(bankmap.build(tile, access.parse(name, tile.layout, element_bytes))))


def test_a_column_wants_32_words_of_one_bank_and_swizzled_one_of_each() -> None:
    assert first("(32,32):(32,1)", 4, "column").words == (32, *[0] * 31)
    assert first("(32,32):(32,1)", 4, "column", "5,0,5").words == (1,) * 32


def test_ldmatrix_is_served_in_phases_of_eight_rows_of_four_banks() -> None:
    tile = mapping.parse("(64,64):(64,1)", 2)
    phases = list(loads(bankmap.build(tile, access.parse("ldmatrix", tile.layout, 2))))[:4]
    assert [phase.words for phase in phases] == [(*[0] * i, *[8] * 4, *[0] * (28 - i)) for i in (0, 0, 4, 4)]
    assert [phase.lanes for phase in phases] == [tuple(range(n, n + 8)) for n in (0, 8, 16, 24)]
    assert phases[0].cells == tuple((row, 0) for row in range(8))
    assert {(phase.request, phase.phases, phase.busiest) for phase in phases} == {(0, 4, 8)}


def test_a_broadcast_is_one_word_but_an_atomic_counts_every_lane() -> None:
    tile = mapping.parse("(32,32):(32,1)", 4)
    same = np.zeros((1, 32), np.int64)
    for op, words in (("ld.shared.b32", 1), ("atom.shared.add.u32", 32)):
        (load,) = loads(bankmap.build(tile, Access("same", op, same, same)))
        assert (load.busiest, load.every_lane) == (words, words == 32)


def test_inactive_lanes_want_nothing_and_the_worst_request_comes_first() -> None:
    tile = mapping.parse("(32,32):(32,1)", 4)
    lane, zero = np.arange(32), np.zeros(32, np.int64)
    active = np.ones((3, 32), bool)
    active[1, 4:] = False
    three = Access("three", "ld.shared.b32", np.stack([zero, lane, lane]), np.stack([lane, zero, zero]), active)
    built = bankmap.build(tile, three)
    assert worst_request([built]) == 2
    assert [load.request for load in loads(built, 2)] == [2, 0, 1]
    assert [load.busiest for load in loads(built)] == [1, 4, 32]
    assert next(loads(built, 1)).lanes == (0, 1, 2, 3)


def test_a_toy_memory_serves_a_request_in_one_phase() -> None:
    tile = mapping.parse("(4,4):(4,1)", 4)
    load = next(loads(bankmap.build(tile, access.parse("column", tile.layout, 4), banks=4)))
    assert (load.words, load.phases) == ((4, 0, 0, 0), 1)
