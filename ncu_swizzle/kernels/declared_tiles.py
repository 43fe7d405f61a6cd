"""The tiles of a shipped kernel, by its family."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ncu_swizzle.base.errors import NcuSwizzleError, UsageError
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.descriptors import WARPS, warpgroup_wavefronts
from ncu_swizzle.smem.layout import Layout
from ncu_swizzle.smem.mapping import Mapping as TileMapping
from ncu_swizzle.smem.swizzle import TMA_MODES, Identity, Padding, Swizzle, Table, Transform, on_elements, square_32

# The layout policies of ``kernels/common/layout.cuh`` as mappings; a test compiles the header and compares.


BANK_ROW, CHUNK = 128, 16  # bytes
NAMES = ("RowMajor", "Padded", "XorSwizzle", "HalfSwizzle", "AddSwizzle", "Sudoku")


def policy_mapping(policy: str, rows: int, columns: int, element_bytes: int, unit_bytes: int) -> TileMapping:
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
            transform = Swizzle(
                bits=bits, base=_log2(unit), shift=shift, combine="add" if policy == "AddSwizzle" else "xor"
            )
            if policy == "HalfSwizzle":  # only bits 2 and 3 of the row number
                transform = Swizzle(bits=2, base=_log2(unit), shift=shift + 2)
        case "Sudoku":
            transform = Table(square_32(), unit)
        case _:
            raise UsageError(f"layout::{policy} has no mapping", f"one of {', '.join(NAMES)}")
    return TileMapping(Layout((rows, columns), (columns, 1)), transform, element_bytes)


def boxed(span: int, rows: int, columns: int, element_bytes: int) -> TileMapping:
    """Return the mapping that TMA writes in the mode of that span: consecutive boxes with rows of `span` bytes.

    Boxes of 16 bytes are not swizzled.
    """
    inner = span // element_bytes
    layout = Layout((rows, (inner, columns // inner)), (inner, (1, rows * inner)))
    swizzle = Identity() if span == CHUNK else on_elements(TMA_MODES[f"{span}B"], element_bytes)
    return TileMapping(layout, swizzle, element_bytes)


def _log2(number: int) -> int:
    return number.bit_length() - 1


# How the shared-memory accesses of a catalogue kernel are declared: the tiles of a block, and every access to them.
#
# One module per family, named after it, with a function ``tiles(source, problem)``: the kernel's own source says which
# layout policy it uses, the problem size how often each access is executed.


@dataclass(frozen=True, kw_only=True)
class DeclaredProduct:
    """All wgmma of one shape in a launch: `columns` of B, A from shared memory or from registers."""

    name: str
    columns: int
    times: int
    a_in_shared: bool = True

    @property
    def executed(self) -> int:
        """How many warps execute one, together."""
        return WARPS * self.times

    @property
    def wavefronts(self) -> int:
        """The wavefronts of all, which are ideal whatever the tiles' swizzle."""
        return self.times * warpgroup_wavefronts(self.columns, self.a_in_shared)


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Tiles of one shape that share a mapping, and all accesses of one launch to them.

    A block has `copies` of them. A policy's ``at(row, unit)`` counts units of `unit` elements. The `products` read it
    without lanes' addresses.
    """

    name: str
    mapping: TileMapping
    accesses: tuple[Access, ...]
    copies: int = 1
    unit: int = 1
    products: tuple[DeclaredProduct, ...] = ()


@dataclass(frozen=True)
class KernelSource:
    """The choices in a kernel's own source: its layout policy, and the integer arguments of its templates."""

    text: str

    @property
    def policy(self) -> str:
        """The name of the first layout policy in the source."""
        match = re.search(r"\blayout::(\w+)<", self.text)
        if not match:
            raise UsageError("the kernel's source names no layout policy", "layout::RowMajor<…> is the plain one")
        return match[1]

    def argument(self, template: str) -> int:
        """Return the first integer argument of a template, such as 4 of ``sum_rows<4, …>``."""
        match = re.search(rf"\b{template}<(\d+)", self.text)
        if not match:
            raise UsageError(f"the kernel's source names no {template}<number>", "its accesses depend on it")
        return int(match[1])

    def mapping(self, rows: int, columns: int, element_bytes: int, unit_bytes: int) -> TileMapping:
        """Return the mapping of a tile under the policy."""
        return policy_mapping(self.policy, rows, columns, element_bytes, unit_bytes)


def declared(family: str, kernel: str, problem: Mapping[str, int]) -> tuple[Tile, ...]:
    """Return the tiles of a shipped kernel by name; none for a library kernel or one from another catalogue."""
    try:
        target = catalog.shipped().target(kernel, problem)
        return tiles_of(target) if target.family.name == family else ()
    except NcuSwizzleError:
        return ()


def has_tiles(target: Target) -> bool:
    """Return whether the accesses of a kernel are declared."""
    family = target.family
    known = importlib.util.find_spec(f"ncu_swizzle.kernels.tiles.{family.name}") if family.name.isidentifier() else None
    return known is not None and family.shipped and not target.kernel.library


def tiles_of(target: Target) -> tuple[Tile, ...]:
    """Return the tiles of a kernel and all accesses to them; raise UsageError if they are not declared."""
    family, kernel = target.family, target.kernel
    if kernel.library:
        raise UsageError(f"{kernel.name} is a library kernel: its layouts are not declared", "name another kernel")
    if family.standalone:
        raise UsageError(f"the accesses of {kernel.name} are not declared", "ncu-swizzle profile measures them")
    try:
        module = importlib.import_module(f"ncu_swizzle.kernels.tiles.{family.name}")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the accesses of the family {family.name} are not declared",
            f"declare them in ncu_swizzle/tiles/{family.name}.py; docs/model.md says how",
        ) from error
    source = KernelSource(target.source.read_text(encoding="utf-8"))
    tiles: tuple[Tile, ...] = module.tiles(source, target.problem)
    return tiles
