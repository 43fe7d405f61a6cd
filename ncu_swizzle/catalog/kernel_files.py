"""Which texts name a kernel's file: ``my.cu``, a cubin or PTX file, or a function in a Python file, ``my.py::name``.

A string of CUDA C++ in a Python file is named with its kernel: ``my.py::SOURCE::kernel``.
"""

from __future__ import annotations

from pathlib import Path

from ncu_swizzle.catalog.family import FILES, PYTHON

INSIDE = "::"


def split(text: str) -> tuple[Path, str]:
    """Return a file, and what is named in it; empty if that is nothing."""
    file, inside, name = text.partition(f"{PYTHON}{INSIDE}")
    return (Path(f"{file}{PYTHON}"), name) if inside and name else (Path(text), "")


def is_kernel_file(text: str) -> bool:
    """Return whether a text names a file with kernels, and of a Python file one of them."""
    file, name = split(text)
    return bool(name) or file.suffix in FILES
