"""Fixtures of the emulator's tests."""

import math

import pytest

from ncu_swizzle.emulate import blocks, run
from ncu_swizzle.emulate.loops import Loops, Watched


@pytest.fixture
def skipped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many iterations are added, each time that some are."""
    times: list[int] = []
    count = Loops._count

    def noted(self: Loops, watched: Watched, further: int) -> None:
        times.append(further)
        count(self, watched, further)

    monkeypatch.setattr(Loops, "_count", noted)
    return times


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block runs alone however long it takes, which it takes without shortcuts: the same blocks run then."""
    monkeypatch.setattr(blocks, "ALONE_STEPS", math.inf)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch takes long."""
    monkeypatch.setattr(run, "LONG_EFFORT", 0)
