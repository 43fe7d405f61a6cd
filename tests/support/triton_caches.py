"""What Triton 3.6 left of a kernel in its cache, and reports of that kernel."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

from ncu_swizzle.reports import container
from tests.support.corpus import frames
from tests.support.places import DATA, PROGRAMS

CACHED = DATA / "python" / "cached"
SOURCE = "/tmp/ncu-swizzle/inlined/inlined.py"
HELPERS = "/tmp/ncu-swizzle/inlined/inlined_helpers.py"
_SOURCE_DATA, _BINARY = 1, 4


def fill(folder: Path, *left_out: str) -> Path:
    """Make the folder a cache that has the kernel, without some of its files; return it."""
    kernel = folder / "KEY"
    kernel.mkdir(parents=True)
    for file in CACHED.iterdir():
        if file.suffix not in left_out:
            shutil.copy(file, kernel)
    return folder


@cache
def report() -> bytes:
    """Return the report of tests/data/programs/triton_program.py as if the first kernel had inlined functions.

    Its machine code is the same, see tests/data/python/inlined.py: only the cubin's lines are others.
    """
    taken = frames.Report.taken_apart((PROGRAMS / "triton.ncu-rep").read_bytes())
    old = container.inspect(PROGRAMS / "triton.ncu-rep").results[0].cubin
    blocks = tuple(
        replace(block, payload=tuple((kind, _changed(kind, message, old)) for kind, message in block.payload))
        for block in taken.blocks
    )
    return replace(taken, blocks=blocks).put_together()


def _changed(kind: int, message: bytes, old: bytes) -> bytes:
    if kind != _SOURCE_DATA:
        return message
    new = (CACHED / "turn_tiles.cubin").read_bytes()
    parts = frames.taken_apart(message)
    return frames.put_together([(n, w, new if (n, value) == (_BINARY, old) else value) for n, w, value in parts])
