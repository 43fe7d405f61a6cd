"""The accesses of ``kernels/gemm/gemm.cuh``, function by function."""

from __future__ import annotations

from collections.abc import Mapping as Names

import numpy as np

from ncu_swizzle.kernels.catalog import KernelSource, Tile
from ncu_swizzle.smem.access import Access

ROWS, COLUMNS, DEPTH = 256, 128, 64  # rows of A, rows of B and columns of both, per tile
WARP_TILE = 64  # rows of A, and of B, that a warp reads
ELEMENT, CHUNK = 2, 16  # bytes
IN_CHUNK = CHUNK // ELEMENT
STAGES = 3  # tiles in shared memory if loads run ahead

# One row of lanes, (1, 32): with a column of requests, (N, 1), it broadcasts to (N, 32), as an `Access` takes rows and
# columns.
LANE = np.arange(32)[None, :]


def tiles(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the tiles of A and B. A row of A is read by one row of warps, a row of B by one column of warps."""
    n = problem["n"]
    times = n // ROWS * (n // COLUMNS) * (n // DEPTH)
    copies = STAGES if "Loads::kAhead" in source.text else 1
    return (
        _tile("A", ROWS, readers=COLUMNS // WARP_TILE, source=source, times=times, copies=copies),
        _tile("B", COLUMNS, readers=ROWS // WARP_TILE, source=source, times=times, copies=copies),
    )


def _tile(name: str, rows: int, readers: int, source: KernelSource, times: int, copies: int) -> Tile:
    mapping = source.mapping(rows, DEPTH, ELEMENT, CHUNK)
    straddles = int(mapping.addresses(np.array([[1]]), np.array([[0]]))[0, 0]) % 128 != 0
    accesses = (_copy(name, rows, "ca" if straddles else "cg", times), _fragments(name, rows, readers * times))
    return Tile(name=f"tile of {name}", mapping=mapping, accesses=accesses, copies=copies, unit=IN_CHUNK)


def _copy(name: str, rows: int, cache: str, times: int) -> Access:
    """load_rows: 8 threads copy a row, so a warp copies four: (rows / 4, 32)."""
    request = np.arange(rows // 4)[:, None]
    # 0 * request: the chunks depend on the lane alone, but need the shape (N, 32), too.
    row, chunk = 4 * request + LANE // 8, LANE % 8 + 0 * request
    source = row * DEPTH * ELEMENT + chunk * CHUNK  # each row in lines of its own, wherever they are
    return Access(f"{name} in", f"cp.async.{cache}.16", row, chunk * IN_CHUNK, source=source, times=times)


def _fragments(name: str, rows: int, times: int) -> Access:
    """load_operands: 16x16 blocks, 16 columns per step: (blocks * steps, 32)."""
    block, step = np.divmod(np.arange(rows // 16 * DEPTH // 16)[:, None], DEPTH // 16)
    return Access(
        f"{name} out", "ldmatrix.x4", 16 * block + LANE % 16, 16 * step + IN_CHUNK * (LANE // 16), times=times
    )
