"""Fixtures of the tests of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.places import ROOT


@pytest.fixture(scope="session")
def explorer_file() -> Path:
    """The bank explorer, as a reader of a checkout opens it."""
    return ROOT / "docs" / "explorer" / "index.html"
