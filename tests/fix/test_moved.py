"""Elements have a place of their own; arrays lie where they are said to lie; lines and accesses are found again."""

import numpy as np
import pytest

from ncu_swizzle.fix.excess import Moved, MovedPlaces
from ncu_swizzle.fix.rows import Lines, changed
from tests.support.fixes import array, swizzled

TILE = range(1024, 1024 + 64)


def test_elements_have_a_place_of_their_own() -> None:
    twice, overlapping = [0, 4, 8, 8, *range(16, 64, 4)], [0, 2, *range(8, 64, 4)]
    beyond, before = [*range(4, 68, 4)], [*range(-4, 60, 4)]
    for places in (twice, overlapping, beyond, before):
        with pytest.raises(ValueError, match="two elements share"):
            Moved(name="tile", before=TILE, after=TILE, element_bytes=4, places=np.array(places))
    with pytest.raises(ValueError, match="16 elements of 4 bytes"):
        Moved(name="tile", before=TILE, after=TILE, element_bytes=4, places=np.arange(15) * 4)


def test_arrays_that_share_bytes_are_refused() -> None:
    tile = array("tile", 1024, 4, swizzled(32))
    with pytest.raises(ValueError, match="shares bytes"):
        MovedPlaces([tile, array("other", 16, 4, swizzled(4), start=4096 - 32, at=8192)])


BEFORE = "int a;\nfloat tile[32][32];\nx = tile[y][x];\n// end\n"


def test_a_new_line_counts_as_the_one_that_calls_it() -> None:
    after = "int at(int y, int x) { return y ^ x; }\n" + BEFORE.replace("[y][x]", "[at(y, x)]")
    lines = Lines.between({"a.cu": BEFORE}, {"b/a.cu": after})
    assert lines.first([("b/a.cu", 1), ("b/a.cu", 4)]) == ("a.cu", 3)
    assert lines.first([("/usr/include/x.h", 9)]) == ("/usr/include/x.h", 9)
    assert lines.first([]) == ("", 0)
    assert changed({"a.cu": BEFORE}, {"b/a.cu": after}) == ({("a.cu", 3)}, {("b/a.cu", 1), ("b/a.cu", 4)})
