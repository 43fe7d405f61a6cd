"""Fixtures of the tests of unfinished files."""

import pytest

from ncu_swizzle.base import unfinished


@pytest.fixture(autouse=True)
def _looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test be a process that has not looked into any folder yet."""
    monkeypatch.setattr(unfinished, "_cleared", set())
