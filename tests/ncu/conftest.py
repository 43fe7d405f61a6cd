"""Fixtures of the tests of ncu."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import fake_ncu
from tests.support.stand_in import Fake


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    program = fake_ncu.install(tmp_path / "bin" / "ncu")
    work = tmp_path / "work"
    work.mkdir()
    return Fake(program, work)
