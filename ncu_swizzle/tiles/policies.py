"""The layout policies of ``kernels/common/layout.cuh`` as mappings; a test compiles the header and compares."""

from __future__ import annotations

from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.swizzle import TMA_MODES, Identity, Padding, Swizzle, Table, Transform, on_elements, square_32

BANK_ROW, CHUNK = 128, 16  # bytes
NAMES = ("RowMajor", "Padded", "XorSwizzle", "HalfSwizzle", "AddSwizzle", "Sudoku")


def mapping(policy: str, rows: int, columns: int, element_bytes: int, unit_bytes: int) -> Mapping:
    """Return the mapping of a row-major tile under a policy; rows are whole bank rows, `unit_bytes` move together."""
    unit = unit_bytes // element_bytes
    row_bytes = columns * element_bytes
    transform: Transform
    match policy:
        case "RowMajor":
            transform = Identity()
        case "Padded":
            transform = Padding(columns, unit)
        case "XorSwizzle" | "AddSwizzle" | "HalfSwizzle":
            bits = _log2(BANK_ROW // unit_bytes)
            shift = bits + _log2(row_bytes // BANK_ROW)  # the lowest bit of the row number, above the unit number
            transform = Swizzle(bits, _log2(unit), shift, "add" if policy == "AddSwizzle" else "xor")
            if policy == "HalfSwizzle":  # only bits 2 and 3 of the row number
                transform = Swizzle(2, _log2(unit), shift + 2)
        case "Sudoku":
            transform = Table(square_32(), unit)
        case _:
            raise UsageError(f"layout::{policy} has no mapping", f"one of {', '.join(NAMES)}")
    return Mapping(Layout((rows, columns), (columns, 1)), transform, element_bytes)


def boxed(span: int, rows: int, columns: int, element_bytes: int) -> Mapping:
    """Return the mapping that TMA writes in the mode of that span: consecutive boxes with rows of `span` bytes.

    Boxes of 16 bytes are not swizzled.
    """
    inner = span // element_bytes
    layout = Layout((rows, (inner, columns // inner)), (inner, (1, rows * inner)))
    swizzle = Identity() if span == CHUNK else on_elements(TMA_MODES[f"{span}B"], element_bytes)
    return Mapping(layout, swizzle, element_bytes)


def _log2(number: int) -> int:
    return number.bit_length() - 1
