"""Fixtures of the tests of capturing."""

from __future__ import annotations

import pytest

from ncu_swizzle.launches import container
from tests.support import captures


@pytest.fixture
def cubin() -> bytes:
    with container.open_launches(captures.recorded("driver")) as file:
        return file.cubin(next(iter(file.manifest.cubins)))
