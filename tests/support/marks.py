"""Marks of tests that need one of CUDA's tools, or a machine without a GPU."""

from __future__ import annotations

import shutil

import pytest

from ncu_swizzle.capture.running import COMPILERS
from ncu_swizzle.kernels import device
from ncu_swizzle.kernels.toolchain import NVCC, NVDISASM, PTXAS, Toolchain


def needs(*tools: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where one of CUDA's tools is not installed."""
    missing = Toolchain().lacking(*tools)
    return pytest.mark.skipif(bool(missing), reason=f"{missing}: pip install 'ncu-swizzle[nvcc]'")


NEEDS_NVCC = needs(NVCC)
NEEDS_PTXAS = needs(PTXAS)
NEEDS_ALL = needs(NVCC, PTXAS, NVDISASM)
needs_cc = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="needs a C compiler")
without_gpu = pytest.mark.skipif(not device.absent(), reason="about machines without a GPU")
