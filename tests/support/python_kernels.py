"""Marks of tests that need the compiler of a language, and a launch of each on the command line."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.kernels.toolchain import NVDISASM, PTXAS, Toolchain
from ncu_swizzle.reports.model import Profile
from tests.support.places import DATA

TEXTS = DATA / "python" / "texts"  # Python files with kernels, a folder per language


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

# What the fixtures `profiled`, `refused` and `linted` give: a profile; an error and its hint; an exit code and a text.
Profiled = Callable[..., Profile]
Refused = Callable[..., tuple[str, str]]
Linted = Callable[..., tuple[int, str]]


def line_of(file: Path, text: str) -> int:
    """Return the number of the line that is this text, without what indents it."""
    return [line.strip() for line in file.read_text(encoding="utf-8").splitlines()].index(text) + 1
