"""The accesses of ``kernels/attention/attention.cuh``, function by function, and of ``warpgroups.cuh``."""

from __future__ import annotations

from collections.abc import Mapping as Names

import numpy as np

from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.catalog import DeclaredProduct, KernelSource, Tile
from ncu_swizzle.smem.access import Access

ROWS, HEAD = 64, 128  # rows of a tile, elements of a row
KEYS = 128  # rows of a tile of K or V that warpgroups read
WARPS, WARP_ROWS = 4, 16
ELEMENT, CHUNK = 2, 16  # bytes
IN_CHUNK = CHUNK // ELEMENT
CHUNKS = HEAD // IN_CHUNK  # of a row

LANE = np.arange(32)[None, :]


def tiles(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the one kind of tile: Q (later overwritten by O), K and V, 64x128 bf16 each."""
    if "warpgroups::" in source.text:
        return _of_warpgroups(problem)
    steps = problem["seq"] // ROWS
    blocks = steps * problem["heads"] * problem["batch"]
    accesses = (
        _copy(blocks * (1 + 2 * steps)),
        _load_queries(blocks),
        _fragments("K", "ldmatrix.x4", blocks * steps),
        _fragments("V", "ldmatrix.x4.trans", blocks * steps),
        _stage_output(blocks),
        _store_output(blocks),
    )
    return (
        Tile(
            name="Q, K, V and O",
            mapping=source.mapping(ROWS, HEAD, ELEMENT, CHUNK),
            accesses=accesses,
            copies=3,
            unit=IN_CHUNK,
        ),
    )


def _of_warpgroups(problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return Q's tile (later O's), and those of K and V: TMA fills them, wgmma reads them."""
    heads = problem["heads"] * problem["batch"]
    queries, keys = -(-problem["seq"] // (2 * ROWS)), -(-problem["seq"] // KEYS)
    # A wgmma takes 16 of the dimension that is summed over: QK^T sums over the head, PV over the keys.
    times = 2 * heads * queries * keys  # warpgroups, times their tiles of keys
    scores = DeclaredProduct(name="QK^T", columns=KEYS, times=times * HEAD // 16)
    values = DeclaredProduct(name="PV", columns=HEAD, times=times * KEYS // 16, a_in_shared=False)
    warp, step = np.divmod(np.arange(WARPS * CHUNKS // 2)[:, None], CHUNKS // 2)
    rows, columns = WARP_ROWS * warp + LANE % 16, 16 * step + IN_CHUNK * (LANE // 16)
    staged = Access("O staged", "stmatrix.x4", rows, columns, times=2 * heads * queries)
    own, shared = (catalog.boxed(128, rows, HEAD, ELEMENT) for rows in (ROWS, KEYS))
    return (
        Tile(name="Q and O", mapping=own, accesses=(staged,), copies=2, unit=IN_CHUNK, products=(scores,)),
        Tile(name="K and V", mapping=shared, accesses=(), copies=4, unit=IN_CHUNK, products=(values,)),
    )


def _copy(times: int) -> Access:
    """load_tile: 16 threads copy a row, so a warp copies two."""
    request = np.arange(ROWS // 2)[:, None]
    rows, chunks = 2 * request + LANE // CHUNKS, LANE % CHUNKS + 0 * request
    source = rows * HEAD * ELEMENT + chunks * CHUNK
    return Access("Q, K, V in", "cp.async.cg.16", rows, chunks * IN_CHUNK, source=source, times=times)


def _load_queries(times: int) -> Access:
    """load_queries: each warp loads its own 16 rows, in steps of 16 along d_head."""
    warp, step = np.divmod(np.arange(WARPS * CHUNKS // 2)[:, None], CHUNKS // 2)
    return Access(
        "Q out", "ldmatrix.x4", WARP_ROWS * warp + LANE % 16, 16 * step + IN_CHUNK * (LANE // 16), times=times
    )


def _fragments(name: str, op: str, times: int) -> Access:
    """multiply_keys and multiply_values: every warp loads all 16x16 blocks of the tile."""
    block, step = np.divmod(np.arange(ROWS // 16 * CHUNKS // 2)[:, None], CHUNKS // 2)
    return Access(f"{name} out", op, 16 * block + LANE % 16, 16 * step + IN_CHUNK * (LANE // 16), times=WARPS * times)


def _stage_output(times: int) -> Access:
    """stage_output: 8 rows at a time, four lanes per chunk, 4 bytes per lane."""
    eight, chunk = np.divmod(np.arange(ROWS // 8 * CHUNKS)[:, None], CHUNKS)
    return Access("O staged", "st.shared.b32", 8 * eight + LANE // 4, IN_CHUNK * chunk + 2 * (LANE % 4), times=times)


def _store_output(times: int) -> Access:
    """store_output: two rows per request, 16 bytes per lane."""
    request = np.arange(ROWS // 2)[:, None]
    return Access(
        "O out", "ld.shared.v4.b32", 2 * request + LANE // CHUNKS, LANE % CHUNKS * IN_CHUNK + 0 * request, times=times
    )
