"""Fixtures of the tests of bench/."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.support.places import ROOT


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("passes")


@pytest.fixture
def adversary(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("adversary")
