"""How the shared-memory accesses of a catalogue kernel are declared: the tiles of a block, and every access to them.

One module per family, named after it, with a function ``tiles(source, problem)``: the kernel's own source says which
layout policy it uses, the problem size how often each access is executed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.wgmma import WARPS, warpgroup_wavefronts
from ncu_swizzle.tiles import policies


@dataclass(frozen=True)
class Product:
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


@dataclass(frozen=True)
class Tile:
    """Tiles of one shape that share a mapping, and all accesses of one launch to them.

    A block has `copies` of them. A policy's ``at(row, unit)`` counts units of `unit` elements. The `products` read it
    without lanes' addresses.
    """

    name: str
    mapping: Mapping
    accesses: tuple[Access, ...]
    copies: int = 1
    unit: int = 1
    products: tuple[Product, ...] = ()


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

    def mapping(self, rows: int, columns: int, element_bytes: int, unit_bytes: int) -> Mapping:
        """Return the mapping of a tile under the policy."""
        return policies.mapping(self.policy, rows, columns, element_bytes, unit_bytes)
