"""The tiles of ``kernels/wgmma/wgmma.cuh``: TMA fills them, uncounted, wgmma reads them; C leaves through others."""

from __future__ import annotations

import re
from collections.abc import Mapping as Names

import numpy as np

from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.catalog import DeclaredProduct, KernelSource, Tile
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.mapping import Mapping

ROWS, DEPTH = 128, 64  # rows of A, and columns of A and B, per tile
PIECE = 64  # rows and columns of C that a warpgroup stages at once
ELEMENT, CHUNK = 2, 16  # bytes
IN_CHUNK = CHUNK // ELEMENT
STEPS = ("InTurn", "Ring", "Wide", "Specialised", "Cluster", "Persistent", "Staged", "Matrix", "Stored")

LANE = np.arange(32)[None, :]


def tiles(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the tiles of A and B, and of the pieces of C if they are staged."""
    n, span = problem["n"], source.argument("Design")
    named = re.search(r"Step::k(\w+)", source.text)
    step = STEPS.index(named[1]) if named else 0
    columns = 256 if step >= STEPS.index("Wide") else 128
    stages = 4 if step >= STEPS.index("Wide") else 1 + (step >= STEPS.index("Ring"))
    # An instruction m64nNk16 does 64 x columns x 16 of the n^3 multiplications.
    products = n * n * n // (64 * columns * 16)
    a, b = _mapping(span, ROWS), _mapping(span, columns)
    operands = (
        Tile(
            name="tile of A",
            mapping=a,
            accesses=(),
            copies=stages,
            unit=IN_CHUNK,
            products=(DeclaredProduct(name="A B^T", columns=columns, times=products),),
        ),
        Tile(name="tile of B", mapping=b, accesses=(), copies=stages, unit=IN_CHUNK),
    )
    if step < STEPS.index("Staged"):
        return operands
    return (*operands, _pieces(source, STEPS[step], n * n // PIECE**2))


def _mapping(span: int, rows: int) -> Mapping:
    """Return what TMA writes in boxes of `span` bytes; 16 is no swizzle."""
    return catalog.boxed(span, rows, DEPTH, ELEMENT)


def _pieces(source: KernelSource, step: str, times: int) -> Tile:
    """Return the tile that stages 64x64 elements of C: a warpgroup has two."""
    mapping = source.mapping(PIECE, PIECE, ELEMENT, CHUNK) if step != "Staged" else _plain()
    accesses = [_stored(times) if step == "Staged" else _matrices(times)]
    if step != "Stored":
        accesses.append(_loaded(times))
    return Tile(name="piece of C", mapping=mapping, accesses=tuple(accesses), copies=4, unit=IN_CHUNK)


def _plain() -> Mapping:
    return catalog.policy_mapping("RowMajor", PIECE, PIECE, ELEMENT, CHUNK)


def _stored(times: int) -> Access:
    """stage_piece: 8 rows at a time, four lanes per chunk, 4 bytes per lane."""
    eight, chunk = np.divmod(np.arange(64)[:, None], 8)
    return Access("C staged", "st.shared.b32", 8 * eight + LANE // 4, IN_CHUNK * chunk + 2 * (LANE % 4), times=times)


def _matrices(times: int) -> Access:
    """stage_piece: each warp stores its 16 rows in blocks of 16 columns."""
    warp, block = np.divmod(np.arange(16)[:, None], 4)
    rows, columns = 16 * warp + LANE % 16, 16 * block + IN_CHUNK * (LANE // 16)
    return Access("C staged", "stmatrix.x4", rows, columns, times=times)


def _loaded(times: int) -> Access:
    """store_piece: four rows per request, 16 bytes per lane."""
    request = np.arange(16)[:, None]
    rows, columns = 4 * request + LANE // 8, IN_CHUNK * (LANE % 8) + 0 * request
    return Access("C out", "ld.shared.v4.b32", rows, columns, times=times)
