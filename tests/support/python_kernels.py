"""Marks of tests that need the compiler of a language, and a launch of each on the command line."""

from __future__ import annotations

import importlib.util

import pytest

from ncu_swizzle.kernels.toolchain import NVDISASM, PTXAS, Toolchain


def needs_language(package: str, *tools: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where a package, or one of CUDA's tools, is not installed."""
    try:
        lacks = importlib.util.find_spec(package) is None
    except ModuleNotFoundError:  # not even the package that it is in
        lacks = True
    missing = f"{package} is not installed" if lacks else Toolchain().lacking(*tools)
    return pytest.mark.skipif(bool(missing), reason=f"{missing}: pip install 'ncu-swizzle[python-kernels]'")


NEEDS_TRITON = needs_language("triton", NVDISASM)
NEEDS_NUMBA = needs_language("numba_cuda", NVDISASM, PTXAS)
NEEDS_CUTE_DSL = needs_language("cutlass.cute", NVDISASM)
NEEDS_CUDA_CORE = needs_language("cuda.core", NVDISASM)

TURN = ("--grid", "8,8", "--arg", "x=float32[256,256]", "--arg", "y=float32[256,256]:out")
TILES = (*TURN, "--arg", "rows=256", "--arg", "columns=256", "--arg", "BM=32", "--arg", "BN=32")
OURS = ("--config", "none", "--engine", "emulated", "--baseline", "none", "--reference", "none")

# A function that calls one of another file and one of Triton's, and one whose constant is a heuristic's.
SCALE = """import triton
import triton.language as tl
from factors import times


@triton.jit
def scale(x, y, n, f, B: tl.constexpr, KIND: tl.constexpr = "plain"):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.static_assert(KIND == "plain", "only the plain one")
    tl.store(y + i, times(tl.sum(v) + v, f), mask=i < n)


@triton.heuristics({"B": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def whole(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.cumsum(tl.load(x + i, mask=i < n), 0), mask=i < n)


@triton.autotune([triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["B"] == 0})
@triton.jit
def chosen(x, n, B: tl.constexpr, EVEN: tl.constexpr):
    tl.store(x + tl.arange(0, B), EVEN + tl.program_id(0))
"""
FACTORS = """import triton


@triton.jit
def times(v, f):
    return v * f
"""
