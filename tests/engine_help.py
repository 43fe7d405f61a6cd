"""What the tests of the emulated engine share."""

from __future__ import annotations

import pytest

from ncu_swizzle.build.toolchain import NVCC, NVDISASM, PTXAS, Toolchain


def needs(*tools: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where one of CUDA's tools is not installed."""
    missing = Toolchain().lacking(*tools)
    return pytest.mark.skipif(bool(missing), reason=f"{missing}: pip install 'ncu-swizzle[nvcc]'")


NEEDS_NVCC = needs(NVCC)
NEEDS_PTXAS = needs(PTXAS)
NEEDS_ALL = needs(NVCC, PTXAS, NVDISASM)
