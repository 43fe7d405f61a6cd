"""The layout policies of ``kernels/common/layout.cuh`` as mappings; a test compiles them and compares."""

from __future__ import annotations

from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.swizzle import TMA_MODES, Identity, Padding, Swizzle, Table, Transform, on_elements, square_32

LAP = 128  # bytes, once around the banks
NAMES = ("RowMajor", "Padded", "XorSwizzle", "HalfSwizzle", "AddSwizzle", "Sudoku")


def mapping(policy: str, rows: int, columns: int, element_bytes: int, unit_bytes: int) -> Mapping:
    """Return where a policy puts a row-major tile; its rows are whole laps, `unit_bytes` are moved together."""
    unit = unit_bytes // element_bytes
    row_bytes = columns * element_bytes
    transform: Transform
    match policy:
        case "RowMajor":
            transform = Identity()
        case "Padded":
            transform = Padding(columns, unit)
        case "XorSwizzle" | "AddSwizzle" | "HalfSwizzle":
            bits = _log2(LAP // unit_bytes)
            shift = bits + _log2(row_bytes // LAP)  # the lowest bit of the row's number, above that of the unit's
            transform = Swizzle(bits, _log2(unit), shift, "add" if policy == "AddSwizzle" else "xor")
            if policy == "HalfSwizzle":  # bits 2 and 3 of the row's number only
                transform = Swizzle(2, _log2(unit), shift + 2)
        case "Sudoku":
            transform = Table(square_32(), unit)
        case _:
            raise UsageError(f"layout::{policy} has no mapping here", f"one of {', '.join(NAMES)}")
    return Mapping(Layout((rows, columns), (columns, 1)), transform, element_bytes)


def boxed(span: int, rows: int, columns: int, element_bytes: int) -> Mapping:
    """Return where TMA puts a tile in the mode of that span: boxes of `span` bytes a row, one behind the other."""
    inner = span // element_bytes
    layout = Layout((rows, (inner, columns // inner)), (inner, (1, rows * inner)))
    return Mapping(layout, on_elements(TMA_MODES[f"{span}B"], element_bytes), element_bytes)


def _log2(number: int) -> int:
    return number.bit_length() - 1
