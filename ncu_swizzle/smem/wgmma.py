"""The wavefronts of wgmma: they depend on the shape alone, not on the tiles' descriptors (docs/wavefronts.md)."""

from __future__ import annotations

from ncu_swizzle.smem.operations import LINE

WARPS = 4  # of a warpgroup, which execute a wgmma together
ROWS = 64  # of A
K_BYTES = 32  # of a row of A and of a column of B in one instruction, whatever the type
SPARSE_FACTOR = 2  # sparse A selects from twice as many elements of B


def warpgroup_wavefronts(columns: int, a_in_shared: bool, sparse: bool = False) -> int:
    """Return the wavefronts that one wgmma takes, all four warps together; its ideal is the same.

    A of 64 rows counts unless it is in registers, B of `columns` columns always: 128 bytes a wavefront.
    """
    b = columns * K_BYTES * (SPARSE_FACTOR if sparse else 1)
    return (b + (ROWS * K_BYTES if a_in_shared else 0)) // LINE
