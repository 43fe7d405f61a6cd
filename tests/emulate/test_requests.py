"""Requests are kept once for blocks and lines that repeat them; the counts of each block stay what they were."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ncu_swizzle.emulate import requests
from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.requests import AccessRequests, SharedRequests, count_accesses
from ncu_swizzle.smem import operations, wavefronts
from tests.support.operations import machine

LANE = np.arange(32)


def test_blocks_that_repeat_requests_count_like_blocks_that_make_their_own() -> None:
    free, conflicted = 4 * LANE, 8 * LANE
    mine = np.stack([free, conflicted]).astype(np.uint32)
    blocks = np.array([0, 0, 1, 1, 2, 2])
    once = SharedRequests(addresses=mine, selected=np.ones((2, 32), bool), source=None, blocks=blocks, count=3)
    each = SharedRequests(
        addresses=np.tile(mine, (3, 1)), selected=np.ones((6, 32), bool), source=None, blocks=blocks, count=3
    )
    short, long = (count_accesses("ld.shared.b32", [seen], 3) for seen in (once, each))
    assert short.wavefronts.tolist() == long.wavefronts.tolist() == [9, 9, 9]
    assert short.ideal.tolist() == long.ideal.tolist() == [6, 6, 6]
    assert short.requests is not None
    assert long.requests is not None
    assert sorted(short.requests.times.tolist()) == sorted(long.requests.times.tolist()) == [9, 9]


def test_requests_that_a_loop_took_back_count_nothing() -> None:
    log = RequestLog(machine(), ())
    addresses, selected = np.zeros((1, 32), np.uint32), np.ones((1, 32), bool)
    none = SharedRequests(addresses=addresses, selected=selected, source=None, blocks=np.array([0]), count=0)
    log.seen[0] = {(0,): none}
    assert log.counts() == {}


def some_requests(rng: np.random.Generator, count: int) -> AccessRequests:
    """Return different requests out of few, each with the number of times it is made."""
    addresses = 4 * rng.integers(0, 3, (count, 32)) * (LANE < 2)
    active = np.ones((count, 32), bool)
    active[:, 31] = rng.random(count) < 0.5
    return AccessRequests(
        op="ld.shared.b32", addresses=addresses, active=active, times=np.ones(count, np.int64)
    ).distinct()[0]


def tally(made: AccessRequests) -> Counter[bytes]:
    rows = zip(made.addresses, made.active, made.times.tolist(), strict=True)
    found = [(addresses.tobytes() + active.tobytes(), times) for addresses, active, times in rows]
    assert len(found) == len(dict(found))  # each once
    return Counter(dict(found))


@pytest.mark.parametrize("alike", [False, True])  # hashes
def test_requests_of_two_runs_are_added_each_once(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if alike:
        monkeypatch.setattr(requests, "_FACTORS", np.zeros_like(requests._FACTORS))
    rng = np.random.default_rng(3)
    one, other = some_requests(rng, 20), some_requests(rng, 20)
    if not alike:
        assert tally(one.plus(other)) == tally(one) + tally(other)
    assert sum(tally(one).values()) == sum(tally(other).values()) == 20
    again = one.plus(other).ordered()
    assert again.times.sum() == 40


def test_of_too_many_requests_those_that_are_kept_count_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "DISTINCT_REQUESTS", 4)
    rng = np.random.default_rng(4)
    made = some_requests(rng, 200)
    kept = made.most_frequent()
    more = kept.plus(made.chosen(np.argsort(made.times, kind="stable")[:2])).plus(kept)  # rare ones are left out
    assert len(kept.times) == len(more.times) == 4
    assert not more.complete
    assert tally(more) == tally(kept) + tally(kept)


def test_requests_a_number_of_lines_apart_take_the_same_wavefronts() -> None:
    for op in operations.NAMES:
        rng = np.random.default_rng(1)
        addresses = 16 * rng.integers(0, 256, (100, 32))
        active = np.ones((100, 32), bool) if "matrix" in op else rng.random((100, 32)) < 0.7
        active[:, 0] = True
        source = 16 * rng.integers(0, 64, (100, 32)) if "cp.async" in op else None
        first = wavefronts(op, addresses, active, source)
        moved = wavefronts(op, addresses + operations.LINE * 1001, active, source)
        for name in ("actual", "ideal", "known"):
            assert (getattr(first, name) == getattr(moved, name)).all(), (op, name)
