"""The requests in a saved profile: packed and unpacked unchanged, and what damaged ones lead to."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace

import numpy as np
import pytest

from ncu_swizzle.base.errors import DamagedFile
from ncu_swizzle.emulate.requests import AccessRequests
from ncu_swizzle.reports.counts import KEPT, SavedRequests

RANDOM = np.random.default_rng(5)


def requests(count: int, source: bool = False) -> AccessRequests:
    return AccessRequests(
        op="cp.async.cg.16" if source else "ld.shared.b32",
        addresses=RANDOM.integers(0, 1 << 14, (count, 32)) * 16,
        active=RANDOM.integers(0, 2, (count, 32)).astype(bool),
        times=RANDOM.integers(1, 1 << 40, count),
        source=RANDOM.integers(-1, 1 << 38, (count, 32)) if source else None,  # -1 of lanes that write zeros
    )


@pytest.mark.parametrize("source", [False, True])
def test_requests_come_back_as_they_were(source: bool) -> None:
    made = requests(50, source)
    back = SavedRequests.of(16, made).unpacked()
    assert (back.op, back.complete) == (made.op, True)
    for name in ("addresses", "active", "times"):
        assert np.array_equal(getattr(back, name), getattr(made, name))
    assert (back.source is None) == (made.source is None)
    assert made.source is None or np.array_equal(back.source, made.source)


def test_of_many_requests_the_most_frequent_are_kept() -> None:
    made = requests(KEPT + 10)
    back = SavedRequests.of(16, made).unpacked()
    assert len(back.times) == KEPT
    assert not back.complete
    assert back.times.min() >= np.sort(made.times)[9]


def packed(numbers: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(numbers.astype("<i8").tobytes())).decode()


@pytest.mark.parametrize(
    "wrong",
    [
        {"packed": "no base 64"},
        {"packed": base64.b64encode(b"not zlib").decode()},
        {"packed": packed(np.zeros(1 << 20))},  # far larger than it says
        {"packed": packed(np.full(34, -1))},
        {"packed": packed(np.full(34, 1 << 40))},
        {"count": KEPT + 1},
        {"count": 2},
        {"op": "ld.shared.b99"},
    ],
)
def test_damaged_requests_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(DamagedFile, match="the requests of the instruction at 0x10 are damaged"):
        replace(SavedRequests.of(16, requests(1)), **wrong).unpacked()  # type: ignore[arg-type]
