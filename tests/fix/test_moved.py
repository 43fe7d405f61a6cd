"""Elements have a place of their own; arrays lie where they are said to lie; lines and accesses are found again."""

import numpy as np
import pytest

from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.fix.excess import GAP, UNRESOLVED, Moved, MovedPlaces
from ncu_swizzle.fix.rows import Lines, Rows, changed
from tests.support.fixes import array, padded, swizzled

TILE = range(1024, 1024 + 64)


def test_elements_have_a_place_of_their_own() -> None:
    twice, overlapping = [0, 4, 8, 8, *range(16, 64, 4)], [0, 2, *range(8, 64, 4)]
    beyond, before = [*range(4, 68, 4)], [*range(-4, 60, 4)]
    for places in (twice, overlapping, beyond, before):
        with pytest.raises(ValueError, match="two elements share"):
            Moved(name="tile", before=TILE, after=TILE, element_bytes=4, places=np.array(places))
    with pytest.raises(ValueError, match="16 elements of 4 bytes"):
        Moved(name="tile", before=TILE, after=TILE, element_bytes=4, places=np.arange(15) * 4)


def test_a_padded_array_has_bytes_of_no_element() -> None:
    places = MovedPlaces([array("tile", 1024, 4, padded(32), after=32 * 33)])
    assert places.old(np.array([1024, 1024 + 33 * 4, 1024 + 31 * 4 + 4])).tolist() == [1024, 1024 + 128, GAP]
    assert places.element(1024 + 132) == "tile[33]"


def test_a_swizzled_element_is_found() -> None:
    places = MovedPlaces([array("tile", 1024, 4, swizzled(32))])
    assert places.old(np.array([1024 + 128 + 4 * 5])).tolist() == [1024 + 128 + 4 * (5 ^ 1)]


def test_arrays_behind_a_longer_one_have_moved_as_a_whole() -> None:
    tile = array("tile", 1024, 4, padded(32), after=32 * 33)
    before = [
        SharedArray(name="tile", symbol="tile", start=1024, size=4096, align=4),
        SharedArray(name="sums", symbol="sums", start=5120, size=128, align=4),
    ]
    after = [
        SharedArray(name="tile", symbol="tile", start=1024, size=4224, align=4),
        SharedArray(name="sums", symbol="sums", start=5248, size=128, align=4),
    ]
    places = MovedPlaces([tile], before, after)
    assert places.old(np.array([5248, 5248 + 127, 5248 + 128])).tolist() == [5120, 5247, UNRESOLVED]


def test_so_have_the_parts_of_dynamic_shared_memory() -> None:
    second = array("b", 1024, 4, padded(32), start=4096, after=32 * 33)
    pool = SharedArray(name="pool", symbol="pool", start=1024, size=12288, align=16, dynamic=True)
    longer = SharedArray(name="pool", symbol="pool", start=1024, size=12288 + 128, align=16, dynamic=True)
    places = MovedPlaces([second], [pool], [longer])
    assert places.old(np.array([1024, 1024 + 8192 + 128])).tolist() == [1024, 1024 + 8192]


def test_arrays_that_share_bytes_are_refused() -> None:
    tile = array("tile", 1024, 4, swizzled(32))
    with pytest.raises(ValueError, match="shares bytes"):
        MovedPlaces([tile, array("other", 16, 4, swizzled(4), start=4096 - 32, at=8192)])


def test_places_are_learned_only_from_as_many_bytes() -> None:
    places = MovedPlaces([])
    places.learn(np.array([2048, 2052]), np.array([1024, 1028, 1032]), 4)
    assert places.old(np.array([2048])).tolist() == [UNRESOLVED]
    places.learn(np.array([2052, 2048, 2048]), np.array([1024, 1028, 1024]), 4)
    assert places.old(np.array([2048, 2055])).tolist() == [1024, 1031]


BEFORE = "int a;\nfloat tile[32][32];\nx = tile[y][x];\n// end\n"


def test_lines_are_found_again_behind_inserted_ones() -> None:
    after = BEFORE.replace("float tile[32][32];", "int at(int y, int x);\nfloat tile[32][33];")
    lines = Lines.between({"a.cu": BEFORE}, {"a.cu": after})
    assert [lines.first([("a.cu", line)]) for line in (1, 3, 4)] == [("a.cu", 1), ("a.cu", 2), ("a.cu", 3)]


def test_a_new_line_counts_as_the_one_that_calls_it() -> None:
    after = "int at(int y, int x) { return y ^ x; }\n" + BEFORE.replace("[y][x]", "[at(y, x)]")
    lines = Lines.between({"a.cu": BEFORE}, {"b/a.cu": after})
    assert lines.first([("b/a.cu", 1), ("b/a.cu", 4)]) == ("a.cu", 3)
    assert lines.first([("/usr/include/x.h", 9)]) == ("/usr/include/x.h", 9)
    assert lines.first([]) == ("", 0)
    assert changed({"a.cu": BEFORE}, {"b/a.cu": after}) == ({("a.cu", 3)}, {("b/a.cu", 1), ("b/a.cu", 4)})


def test_each_threads_first_access_to_a_place_between_two_barriers_counts() -> None:
    reading, writing = 0, 1
    accesses = [  # block, thread, barriers passed, kind, byte
        (0, 0, 0, writing, 4), (0, 0, 0, reading, 4), (0, 1, 0, reading, 4), (0, 0, 0, writing, 4),
        (1, 0, 0, reading, 4), (0, 0, 1, reading, 4), (0, 0, 0, reading, 0),
    ]  # fmt: skip
    block, thread, epoch, kind, at = np.array(accesses).T
    rows = Rows(block, thread, epoch=epoch, line=np.zeros_like(at), kind=kind, at=at).by_place(reading, writing)
    kept = np.stack([rows.block, rows.thread, rows.epoch, rows.kind, rows.at], axis=1)
    assert kept.tolist() == [
        [0, 0, 0, reading, 0], [0, 0, 0, writing, 4], [0, 0, 1, reading, 4], [0, 1, 0, reading, 4],
        [1, 0, 0, reading, 4],
    ]  # fmt: skip
