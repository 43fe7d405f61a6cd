"""The accesses of ``kernels/transpose/transpose.cuh``: rows in, columns out."""

from __future__ import annotations

from collections.abc import Mapping as Names

import numpy as np

from ncu_swizzle.base.errors import BadProblem, Typed
from ncu_swizzle.kernels.catalog import KernelSource, Tile
from ncu_swizzle.smem.access import Access

TILE, ELEMENT = 32, 4


def tiles(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the 32x32 tile of floats. Raises BadProblem if n is not a multiple of the tile."""
    n = problem["n"]
    if n % TILE:
        raise BadProblem(
            f"n={n} ends within a tile: accesses to partial tiles are not declared", Typed("--problem n=4096")
        )
    blocks = (n // TILE) ** 2
    line, lane = np.indices((TILE, 32))
    accesses = (
        Access("rows in", "st.shared.b32", line, lane, times=blocks),
        Access("columns out", "ld.shared.b32", lane, line, times=blocks),
    )
    return (Tile(name="32x32 tile", mapping=source.mapping(TILE, TILE, ELEMENT, ELEMENT), accesses=accesses),)
