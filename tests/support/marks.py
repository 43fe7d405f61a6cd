"""Marks of tests that need tools, and programs that leave a mark when they run."""

import shutil
from pathlib import Path

import pytest

from ncu_swizzle.base.native import COMPILERS
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


PYTHON = "open({marker!r}, 'w').close()\n"


def executable(file: Path, *lines: str, shell: str = "/bin/sh") -> Path:
    """Write a program of a shell's lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([f"#!{shell}", *lines, ""]), encoding="utf-8")
    file.chmod(0o755)
    return file


def program(file: Path, marker: Path, then: str = "exit 1") -> Path:
    """Write a program that leaves the marker, then does something else."""
    return executable(file, f'touch "{marker}"', then)
