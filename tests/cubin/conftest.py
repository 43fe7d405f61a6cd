"""Fixtures of the tests of cubins."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels.toolchain import ARCH, NVCC, Toolchain
from ncu_swizzle.reports import container
from tests.support.own_kernel import NAMED


@pytest.fixture(scope="session")
def cubin() -> Cubin:
    """Return what nvcc makes of NAMED."""
    if missing := Toolchain().lacking(NVCC):
        pytest.skip(missing)
    return Cubin(Toolchain().compile(NAMED, (), ARCH, ()), "k.cu")


@pytest.fixture(scope="session")
def recorded_cubin(recorded_file: Callable[[str], Path]) -> bytes:
    """Return the cubin of a recorded kernel."""
    return container.inspect(recorded_file("transpose-xor")).results[0].cubin
