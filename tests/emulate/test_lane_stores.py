"""Which lane's value remains where several lanes of a warp store to one place: as an H100 does it."""

import numpy as np
import pytest

from ncu_swizzle.emulate.device_memory import storing_order

LANES = np.arange(32)
PATTERNS = (
    0 * LANES, LANES // 2, LANES // 8, LANES % 8, LANES % 16, (31 - LANES) // 4, LANES // 8 * 9,
    np.where(LANES < 16, 5, LANES),
)  # fmt: skip
# What bench/recording/lane_stores.cu printed, of shared and of global memory: at how many places the value of the
# lowest lane remains, that of the highest, and that of another one.
SMALL = ((1, 0, 0), (16, 0, 0), (4, 0, 0), (8, 0, 0), (16, 0, 0), (8, 0, 0), (4, 0, 0), (1, 0, 0))
REMAINS = {
    1: SMALL,
    2: SMALL,
    4: SMALL,
    8: ((0, 0, 1), (16, 0, 0), (4, 0, 0), (0, 0, 8), (0, 16, 0), (8, 0, 0), (4, 0, 0), (1, 0, 0)),
    16: ((0, 0, 1), (16, 0, 0), (4, 0, 0), (0, 8, 0), (0, 16, 0), (8, 0, 0), (4, 0, 0), (0, 0, 1)),
}


@pytest.mark.parametrize("size", REMAINS)
def test_the_lane_that_remains_is_that_of_an_h100(size: int) -> None:
    for pattern, expected in zip(PATTERNS, REMAINS[size], strict=True):
        order = storing_order(np.ones((1, 32), bool), size, backwards=False)
        left = np.full(64, -1)
        left[pattern[order]] = LANES[order]
        found = [0, 0, 0]
        for place in np.unique(pattern):
            storing = np.flatnonzero(pattern == place)
            if len(storing) > 1:
                found[[storing[0], storing[-1]].index(left[place]) if left[place] in storing[[0, -1]] else 2] += 1
        assert tuple(found) == expected
