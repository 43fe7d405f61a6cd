"""The catalogue: the shipped families, each read from its ``family.toml``; and what a tile is.

The tiles of the shipped families are in `tiles`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ncu_swizzle.base import paths, validate
from ncu_swizzle.base.errors import (
    BadCatalog,
    BadFile,
    Hint,
    Typed,
    UnknownKernel,
    UsageError,
    as_word,
    did_you_mean,
)
from ncu_swizzle.base.files import brief, read_toml
from ncu_swizzle.kernels.family import BYTES, DTYPES, Argument, Family, Kernel, LaunchTexts, Parameter, Target
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


@dataclass(frozen=True)
class Catalog:
    """Families, and their kernels by name."""

    families: tuple[Family, ...]

    def __iter__(self) -> Iterator[tuple[Family, Kernel]]:
        return ((family, kernel) for family in self.families for kernel in family.kernels)

    def run(self) -> Iterator[tuple[Family, Kernel]]:
        """Yield the kernels that have run on hardware."""
        return ((family, kernel) for family, kernel in self if not family.never_run)

    def targets(self) -> Iterator[Target]:
        """Yield the kernels at their default sizes, except those of libraries, whose source is not available."""
        return (Target(family, kernel, family.problem()) for family, kernel in self if not kernel.library)

    def named(self, name: str) -> tuple[Family, Kernel]:
        """Return a kernel and its family by the kernel's name; raise UnknownKernel with the closest match."""
        by_name = {kernel.name: (family, kernel) for family, kernel in self}
        if name in by_name:
            return by_name[name]
        if name.endswith(".ncu-rep"):
            raise UnknownKernel(
                f"{name} is a report, and holds neither source nor addresses",
                Hint(Typed(shlex.join(["ncu-swizzle", "check", as_word(name)])), " judges its counts"),
            )
        raise UnknownKernel(
            f"unknown kernel {name!r}{did_you_mean(name, by_name, cutoff=0.5)}",
            Hint(Typed("ncu-swizzle list"), " shows all kernels"),
        )

    def target(self, name: str, sizes: Mapping[str, int] | None = None) -> Target:
        """Return a kernel at a problem size; `sizes` override the defaults. Raises UnknownKernel or BadProblem."""
        family, kernel = self.named(name)
        return Target(family, kernel, family.problem(sizes))

    def named_together(self, names: Sequence[str]) -> tuple[Family, list[Kernel]]:
        """Return kernels of one family; raise UnknownKernel, or UsageError if they belong to several."""
        pairs = [self.named(name) for name in names]
        family = pairs[0][0]
        for other, kernel in pairs:
            if other is not family:
                raise UsageError(
                    f"{kernel.name} does not belong to the family {family.name}", "name kernels of a single family"
                )
        return family, [kernel for _, kernel in pairs]

    def family_or_kernels(self, names: Sequence[str]) -> tuple[Family, list[Kernel]]:
        """Return the family of that name without kernels, else kernels of one family; raises as `named_together`."""
        family = next((family for family in self.families if [family.name] == list(names)), None)
        return (family, []) if family else self.named_together(list(dict.fromkeys(names)))


@cache
def shipped() -> Catalog:
    """Return the kernels that come with the project."""
    return load(paths.kernels())


def load(*folders: Path) -> Catalog:
    """Read every family.toml one level below folders of ours; only its form is checked."""
    return merge(_read(file) for folder in folders for file in sorted(folder.resolve().glob("*/family.toml")))


def merge(families: Iterable[Family]) -> Catalog:
    """Return the families as one catalogue; raise BadCatalog if two families or two kernels share a name."""
    catalog = Catalog(tuple(families))
    names: dict[str, Family] = {}
    for family in catalog.families:
        other = names.setdefault(family.name, family)
        if other is not family:
            raise BadCatalog(
                f"two families are called {family.name!r}: in {other.folder} and in {family.folder}",
                "rename one of them, in its family.toml or ncu-swizzle.toml",
            )
    seen: dict[str, Family] = {}
    for family, kernel in catalog:
        other = seen.setdefault(kernel.name, family)
        if other is not family or [variant.name for variant in family.kernels].count(kernel.name) > 1:
            raise BadCatalog(
                f"two kernels are called {kernel.name!r}: in {other.folder} and in {family.folder}",
                "rename one of them, in its family.toml or ncu-swizzle.toml",
            )
    return catalog


def _read(file: Path) -> Family:
    try:
        family = _family(read_toml(file), file.parent)
        if mismatch := validate.mismatch(family):
            raise ValueError(mismatch)
    except (BadFile, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadCatalog(
            f"{file} cannot be used: {type(error).__name__}: {brief(error)}",
            "compare it with kernels/attention/family.toml; CONTRIBUTING.md explains every entry",
        ) from error
    return family


def _family(table: dict[str, Any], folder: Path) -> Family:
    head, launch = table["family"], table["launch"]
    grid, block = launch["grid"], launch["block"]
    return Family(
        name=head["name"],
        title=head["title"],
        folder=folder,
        reference=head.get("reference", ""),
        flops=str(head.get("flops", 0)),
        bytes=str(head.get("bytes", 0)),
        parameters=tuple(Parameter(name, **entry) for name, entry in table.get("problem", {}).items()),
        launch=LaunchTexts(
            grid=(str(grid[0]), str(grid[1]), str(grid[2])),
            block=(str(block[0]), str(block[1]), str(block[2])),
            shared=str(launch.get("shared", 0)),
        ),
        compute_capability=tuple(int(part) for part in head.get("compute_capability", "8.0").split(".")),
        headers=tuple(head.get("headers", ())),
        arguments=tuple(_argument(entry) for entry in table.get("argument", ())),
        kernels=tuple(_kernel({"arch": head.get("arch", ""), **entry}) for entry in table["variant"]),
        never_run=head.get("never_run", False),
    )


def _argument(entry: Mapping[str, Any]) -> Argument:
    if entry.get("dtype") not in (*DTYPES, BYTES):
        raise ValueError(f"the dtype of {entry.get('name')!r} is {entry.get('dtype')!r}: {', '.join(DTYPES)}")
    sizes = tuple(str(size) for size in entry.get("shape", ()))
    return Argument(**{**entry, "shape": sizes, "value": str(entry.get("value", ""))})


def _kernel(entry: Mapping[str, Any]) -> Kernel:
    grid, block = (tuple(str(size) for size in entry.get(name, ())) for name in ("grid", "block"))
    boxes = {name: tuple(box) for name, box in entry.get("boxes", {}).items()}
    launch = LaunchTexts(grid=grid, block=block, shared=entry.get("shared", ""))
    plain = {name: value for name, value in entry.items() if name not in ("grid", "block", "shared")}
    return Kernel(**{**plain, "box": tuple(entry.get("box", ())), "boxes": boxes, "launch": launch})
