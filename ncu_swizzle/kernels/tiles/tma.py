"""The accesses of ``kernels/tma/tma.cuh``: TMA fills the tile, uncounted, and ldmatrix reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping as Names

import numpy as np

from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.catalog import KernelSource, Tile
from ncu_swizzle.smem.access import Access

TILE, ELEMENT = 64, 2
IN_CHUNK = 16 // ELEMENT

LANE = np.arange(32)[None, :]


def tiles(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the 64x64 fp16 tile as the hardware lays it out."""
    swizzled = re.search(r"layout::TmaSwizzle<(\d+),", source.text)
    if swizzled:
        mapping = catalog.boxed(int(swizzled[1]), TILE, TILE, ELEMENT)
    else:
        mapping = source.mapping(TILE, TILE, ELEMENT, 16)
    warp, step = np.divmod(np.arange(16)[:, None], 4)
    rows, columns = 16 * warp + LANE % 16, 16 * step + IN_CHUNK * (LANE // 16)
    times = (problem["n"] // TILE) ** 2
    accesses = [Access("blocks out", "ldmatrix.x4", rows, columns, times=times)]
    if "tma::stream<" in source.text:
        accesses.append(Access("blocks back", "stmatrix.x4", rows, columns, times=times))
    return (Tile(name="64x64 tile", mapping=mapping, accesses=tuple(accesses), unit=IN_CHUNK),)
