"""The fragments of mma.m16n8k8 and mma.m16n8k16 with 16-bit operands, and of ldmatrix: which lane holds which element.

Source: PTX ISA, "Matrix Fragments for mma.m16n8k8" and "… for mma.m16n8k16" with .f16 and .bf16; "ldmatrix", the
fragment layout of .m8n8 with .b16: lane i holds elements 2 (i mod 4) and the next of row i / 4, with .trans of column
i / 4, in one 32-bit register per matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ncu_swizzle.smem.layout import Ints

LANES = 32


@dataclass(frozen=True, eq=False)
class Fragment:
    """One operand: the lane that holds element (row, column), and its index within the lane."""

    name: str  # A, B, C, or ldmatrix's matrix
    lane: Ints  # (rows, columns)
    element: Ints

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.lane.shape
        return rows, columns

    @property
    def elements(self) -> int:
        """The number of elements per lane."""
        return self.lane.size // LANES


def fragments(depth: int) -> tuple[Fragment, ...]:
    """Return A (16 x depth), B (depth x 8) and C (16 x 8, also D) of mma.m16n8k<depth>, depth 8 or 16."""
    a_row, a_column = np.indices((16, depth))
    b_row, b_column = np.indices((depth, 8))
    return (
        _by_pairs("A", a_row, a_column),
        _by_pairs("B", b_column, b_row),  # like A, along its columns
        _by_pairs("C", *np.indices((16, 8))),
    )


def matrices(count: int, transposed: bool = False) -> tuple[Fragment, ...]:
    """Return the 8x8 matrices of ldmatrix.x<count>, 1, 2 or 4; element 2 n and 2 n + 1 are register n's halves.

    Row r of matrix n is at the address that lane 8 n + r gives.
    """
    row, column = np.indices((8, 8))
    across, down = (row, column) if transposed else (column, row)
    lane = down * 4 + across // 2
    return tuple(Fragment(f"matrix {number}", lane, 2 * number + across % 2) for number in range(count))


def _by_pairs(name: str, row: Ints, column: Ints) -> Fragment:
    """Lane 4 r + c / 2 holds two adjacent elements of a row; the next two are 8 rows down, then 8 columns on."""
    lane = row % 8 * 4 + column % 8 // 2
    element = column % 2 + row // 8 * 2 + column // 8 * 2 * (1 + int(row.max() >= 8))
    return Fragment(name, lane, element)
