"""The kernels of tests/data/tiles and their launches: unlike the catalogue's, with conflicts worked out by hand."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.places import DATA

SQUARE = {"problem": {"n": 128}, "block": "32,8"}
# By source, as keywords of Python's functions.
KEYWORDS: Mapping[str, Mapping[str, Any]] = {
    "half.cu": {**SQUARE, "grid": "n//64,n//64", "args": ("uint16[n,n]:random", "uint16[n,n]:out", "int32:n")},
    "double.cu": {**SQUARE, "grid": "n//32,n//32", "args": ("float64[n,n]:random", "float64[n,n]:out", "int32:n")},
    "wide.cu": {"grid": "1", "block": "128", "args": ("float32[2048]:random", "float32[2048]:out")},
    "odd.cu": {"grid": "1", "block": "32", "args": ("float32[768]:random", "float32[768]:out"), "shared": "4096"},
    "clean.cu": {"grid": "1", "block": "32", "args": ("float32[32]:random", "float32[32]:out")},
    "gather.cu": {"grid": "1", "block": "32", "args": ("int32[32]:random", "float32[32]:out")},
    "unshared.cu": {"grid": "1", "block": "32", "args": ("float32[32]:random", "float32[32]:out")},
}


def _words(
    grid: str, block: str, args: tuple[str, ...], problem: Mapping[str, int] = {}, shared: str = ""
) -> Iterator[str]:
    for name, size in problem.items():
        yield from ("--problem", f"{name}={size}")
    yield from ("--grid", grid, "--block", block)
    for argument in args:
        yield from ("--arg", argument)
    if shared:
        yield from ("--shared", shared)


LAUNCHES = {source: tuple(_words(**keywords)) for source, keywords in KEYWORDS.items()}  # as words of a command line


def write(folder: Path) -> None:
    """Write all sources to a folder, and a project that describes two of them."""
    shutil.copytree(DATA / "tiles", folder, dirs_exist_ok=True)
