"""Sectors and tags of requests, held against sets of what each lane touches."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.smem import sectors
from ncu_swizzle.smem.operations import Bools, Ints

BASE = 0x7F00_0000_0000
WIDTHS = (1, 2, 4, 8, 16)
REQUESTS = st.tuples(
    st.sampled_from(WIDTHS), st.lists(st.integers(0, 500), min_size=32, max_size=32), st.integers(0, (1 << 32) - 1)
)


def request(width: int, units: list[int], mask: int) -> tuple[Ints, Bools]:
    active = (mask >> np.arange(32) & 1).astype(bool)
    return (BASE + width * np.array(units, np.int64))[None], active[None]


@given(REQUESTS)
def test_global_requests_take_what_their_bytes_touch(drawn: tuple[int, list[int], int]) -> None:
    width, units, _ = drawn
    addresses, active = request(*drawn)
    touched = {int(at) + k for at in addresses[active] for k in range(width)}
    counted = sectors.global_sectors(addresses, active, width)
    assert counted.actual.tolist() == [len({byte // 32 for byte in touched})]
    assert counted.tags.tolist() == [len({byte // 128 for byte in touched})]
    assert counted.ideal.tolist() == [min(-(-width * int(active.sum()) // 32), *counted.actual)]
    shifted = sectors.global_sectors(addresses + 128 * units[0], active, width)
    assert [shifted.actual, shifted.ideal, shifted.tags] == [counted.actual, counted.ideal, counted.tags]


@given(REQUESTS)
def test_local_words_of_a_warp_are_side_by_side(drawn: tuple[int, list[int], int]) -> None:
    width = drawn[0]
    addresses, active = request(*drawn)
    # Word w of thread t is at (32 w + t) words.
    places = {
        (32 * word + lane) * 4 // 32
        for lane in np.flatnonzero(active[0]).tolist()
        for word in range(int(addresses[0, lane]) // 4, (int(addresses[0, lane]) + width - 1) // 4 + 1)
    }
    assert sectors.local_sectors(addresses, active, width).tolist() == [len(places)]


def test_copies_past_l1_move_whole_sectors_or_halves() -> None:
    lane, all_lanes = np.arange(32), np.ones((1, 32), bool)
    for source, target, mask, expected in (
        (16 * lane, 16 * lane, ~0, (16, 16, 4)),
        (16 * lane + 16, 16 * lane, ~0, (32, 16, 5)),  # each half to the other half of a sector
        (16 * (lane ^ 1), 16 * lane, ~0, (16, 16, 4)),
        (16 * (lane ^ 2), 16 * lane, ~0, (16, 16, 4)),
        (0 * lane, 16 * lane, ~0, (32, 16, 1)),
        (16 * (lane % 2), 16 * lane, ~0, (16, 16, 1)),
        (16 * (lane // 2), 16 * lane, ~0, (32, 16, 2)),
        (16 * lane, 16 * lane, 0x7, (2, 2, 1)),
        (16 * lane, 16 * lane, 0, (0, 0, 0)),
    ):
        active = (mask >> lane & 1).astype(bool)[None] & all_lanes
        counted = sectors.copy_sectors(BASE + source[None], 0x400 + target[None], active)
        assert (counted.actual[0], counted.ideal[0], counted.tags[0]) == expected, (source, target)


def test_the_usual_patterns() -> None:
    lane, all_lanes = np.arange(32), np.ones((1, 32), bool)
    for width, offsets, expected in (
        (4, 4 * lane, (4, 4, 1)),
        (4, 4 * lane + 4, (5, 4, 2)),
        (16, 16 * lane, (16, 16, 4)),
        (4, 16 * lane, (16, 4, 4)),
        (4, 128 * lane, (32, 4, 32)),
        (4, 0 * lane, (1, 1, 1)),
        (4, lane // 2 * 64, (16, 4, 8)),
    ):
        counted = sectors.global_sectors(BASE + offsets[None], all_lanes, width)
        assert (counted.actual[0], counted.ideal[0], counted.tags[0]) == expected
    for width, offsets, local in ((4, 0 * lane, 4), (8, 0 * lane, 8), (1, 0 * lane, 4), (4, 4 * lane, 32)):
        assert sectors.local_sectors(offsets[None], all_lanes, width).tolist() == [local]
