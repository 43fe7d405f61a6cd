"""The kernel of tests/data/programs/triton_program.py, with its lines in functions that are inlined."""

from __future__ import annotations

import triton
import triton.language as tl
from inlined_helpers import indices, turned


@triton.jit
def turn_tiles(source, target, size, TILE: tl.constexpr):  # noqa: N803 - Triton's constants are written like this
    rows = indices(0, TILE)
    columns = indices(1, TILE)
    turned(source, target, rows, columns, size)
