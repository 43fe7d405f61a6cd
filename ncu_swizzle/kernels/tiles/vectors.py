"""The accesses of ``kernels/vectors/vectors.cuh``: rows in, columns out with 4, 8 or 16 bytes per lane."""

from __future__ import annotations

from collections.abc import Mapping as Names

import numpy as np

from ncu_swizzle.kernels.catalog import KernelSource, Tile
from ncu_swizzle.smem.access import TYPES, Access

TILE, ELEMENT, WARPS = 32, 4, 4


def tiles(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the 32x32 fp32 tile of a warp."""
    width = source.argument("sum_rows")  # floats per lane
    units = TILE // width
    step, lane = np.indices((units, 32))
    row, unit = np.divmod(32 * step + lane, units)
    kind = TYPES[ELEMENT * width]
    accesses = (
        Access("rows in", f"st.shared.{kind}", row, unit * width, times=problem["tiles"]),
        Access("columns out", f"ld.shared.{kind}", lane, step * width, times=problem["tiles"]),
    )
    mapping = source.mapping(TILE, TILE, ELEMENT, ELEMENT * width)
    return (Tile(name="32x32 tile of a warp", mapping=mapping, accesses=accesses, copies=WARPS, unit=width),)
