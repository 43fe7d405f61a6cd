"""What `inlined` calls, in a file of its own."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def indices(axis, TILE: tl.constexpr):  # noqa: N803 - Triton's constants are written like this
    return tl.program_id(axis) * TILE + tl.arange(0, TILE)


@triton.jit
def turned(source, target, rows, columns, size):
    tile = tl.load(source + rows[:, None] * size + columns[None, :])
    tl.store(target + columns[:, None] * size + rows[None, :], tl.trans(tile))
