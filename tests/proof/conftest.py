"""Fixtures of the proofs' tests: where an engine may write, and kernels that are emulated once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.executable import Executable, executable
from tests.support.fix_corpus import OnceEmulated, context, specs


@pytest.fixture
def emulated(tmp_path: Path) -> Context:
    return context(tmp_path)


@pytest.fixture(scope="session")
def once_emulated() -> OnceEmulated:
    """Return a function that emulates a kernel of the corpus as it is, once."""
    settings = EmulationSettings.of(context(Path()).request)

    @cache
    def emulate(name: str) -> Executable:
        return executable(specs()[name], settings)

    return emulate
