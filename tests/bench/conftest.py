"""Fixtures of the tests of bench/."""

import importlib
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.support.places import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return a function that imports a script of bench/."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module


@pytest.fixture
def adversary(bench: Callable[[str], ModuleType]) -> ModuleType:
    return bench("adversary")
