"""The accesses of ``kernels/cute/cute.cuh``: one access per TiledCopy."""

from __future__ import annotations

import re
from collections.abc import Mapping as Names

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.kernels.catalog import KernelSource, Tile
from ncu_swizzle.smem import layout as layouts
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.swizzle import Identity, Swizzle

ELEMENT = 4
WARPS = 4  # of a block
REQUEST, LANE = np.indices((32, 32))  # the 32 requests of a 128x32 tile, 4 floats per lane


def tiles(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the single tile of a warp or a block."""
    mapping = _mapping(source.text)
    rows, columns = mapping.shape
    times = problem["n"] ** 2 // (rows * columns)
    journey = re.search(r"\btiles::(\w+_\w+)\(", source.text)
    if not journey or journey[1] not in _JOURNEYS:
        raise UsageError("the kernel's source calls no known copy of a tile", f"one of {', '.join(_JOURNEYS)}")
    copies = WARPS if rows == 8 else 1
    accesses = _JOURNEYS[journey[1]](times)
    return (Tile(name=f"{rows}x{columns} tile", mapping=mapping, accesses=accesses, copies=copies),)


def _mapping(text: str) -> Mapping:
    """Return the mapping that the source writes in CuTe types."""
    match = re.search(r"Layout<Shape<_(\d+), _(\d+)>, Stride<_(\d+), _(\d+)>>", text)
    if not match:
        raise UsageError("the kernel's source names no layout", "Layout<Shape<_8, _8>, Stride<_1, _8>>() is one")
    layout = layouts.parse_layout("({},{}):({},{})".format(*match.groups()))
    swizzle = re.search(r"Swizzle<(\d+), (\d+), (\d+)>", text)
    if not swizzle:
        return Mapping(layout, Identity(), ELEMENT)
    bits, base, shift = map(int, swizzle.groups())
    return Mapping(layout, Swizzle(bits=bits, base=base, shift=shift), ELEMENT)


def _columns_of_8(times: int) -> tuple[Access, ...]:
    lane = np.arange(32)[None, :]
    half = np.arange(2)[:, None]
    return (
        Access("columns in", "st.shared.b64", lane % 4 * 2, lane // 4, times=times),
        Access("rows out", "ld.shared.b32", 4 * half + lane // 8, lane % 8 + 0 * half, times=times),
    )


def _columns_of_128(times: int) -> tuple[Access, ...]:
    return (
        Access("columns in", "st.shared.v4.b32", 4 * LANE, REQUEST, times=times),
        Access("rows out", "ld.shared.v4.b32", 4 * REQUEST, LANE, times=times),
    )


def _rows_of_32(times: int) -> tuple[Access, ...]:
    group, part = np.divmod(REQUEST, 8)
    return (
        Access("rows in", "st.shared.v4.b32", 4 * REQUEST + LANE // 8, LANE % 8 * 4, times=times),
        Access("rows out", "ld.shared.v4.b32", 32 * group + LANE, 4 * part, times=times),
    )


def _words_of_32(times: int) -> tuple[Access, ...]:
    request, lane = np.indices((128, 32))
    group, column = np.divmod(request, 32)
    return (
        Access("rows in", "st.shared.b32", request, lane, times=times),
        Access("columns out", "ld.shared.b32", 32 * group + lane, column, times=times),
    )


_JOURNEYS = {"columns_of_8": _columns_of_8, "columns_of_128": _columns_of_128, "rows_of_32": _rows_of_32,
             "words_of_32": _words_of_32}  # fmt: skip
