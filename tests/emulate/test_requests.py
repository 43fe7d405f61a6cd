"""Requests are kept once for blocks and lines that repeat them; the counts of each block stay what they were."""

from __future__ import annotations

import numpy as np
import pytest

from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.requests import Seen, count_accesses
from ncu_swizzle.smem import operations, wavefronts

LANE = np.arange(32)


def test_blocks_that_repeat_requests_count_like_blocks_that_make_their_own() -> None:
    free, conflicted = 4 * LANE, 8 * LANE
    mine = np.stack([free, conflicted]).astype(np.uint32)
    blocks = np.array([0, 0, 1, 1, 2, 2])
    once = Seen(mine, np.ones((2, 32), bool), None, blocks, count=3)
    each = Seen(np.tile(mine, (3, 1)), np.ones((6, 32), bool), None, blocks, count=3)
    short, long = (count_accesses("ld.shared.b32", [seen], 3) for seen in (once, each))
    assert short.wavefronts.tolist() == long.wavefronts.tolist() == [9, 9, 9]
    assert short.ideal.tolist() == long.ideal.tolist() == [6, 6, 6]
    assert short.requests is not None
    assert long.requests is not None
    assert sorted(short.requests.times.tolist()) == sorted(long.requests.times.tolist()) == [9, 9]


def test_requests_that_a_loop_took_back_count_nothing() -> None:
    log = RequestLog((), 1024, 1)
    none = Seen(np.zeros((1, 32), np.uint32), np.ones((1, 32), bool), None, np.array([0]), count=0)
    log.seen[0] = {(0,): none}
    assert log.counts() == {}


@pytest.mark.parametrize("op", operations.NAMES)
def test_requests_a_number_of_lines_apart_take_the_same_wavefronts(op: str) -> None:
    rng = np.random.default_rng(1)
    addresses = 16 * rng.integers(0, 256, (100, 32))
    active = np.ones((100, 32), bool) if "matrix" in op else rng.random((100, 32)) < 0.7
    active[:, 0] = True
    source = 16 * rng.integers(0, 64, (100, 32)) if "cp.async" in op else None
    first = wavefronts(op, addresses, active, source)
    moved = wavefronts(op, addresses + operations.LINE * 1001, active, source)
    assert first.actual.tolist() == moved.actual.tolist()
    assert first.ideal.tolist() == moved.ideal.tolist()
    assert first.known.tolist() == moved.known.tolist()
