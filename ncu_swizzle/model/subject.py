"""What ``ncu-swizzle banks`` draws: a query, and the mappings and accesses that it refers to."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.model.own_kernels import KernelQuery
from ncu_swizzle.smem import bankmap
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import BANKS, BankMap
from ncu_swizzle.smem.mapping import Mapping


@dataclass(frozen=True)
class BanksQuery:
    """The command line of ``ncu-swizzle banks``."""

    what: str
    element_bytes: int | None = None  # 4 of a layout, of a kernel's tile its narrowest access
    swizzle: str | None = None
    pad: int = 0
    access: str | None = None
    show: str = "map"
    row: int | None = None
    request: int | None = None
    banks: int = BANKS
    kernel: KernelQuery = KernelQuery()


@dataclass(frozen=True)
class Subject:
    """The mappings before and after (equal if nothing moves), and an access to both.

    `later` is the access after, if it is another kernel's.
    """

    before: Mapping
    after: Mapping
    access: Access | None
    title: str = ""
    later: Access | None = None

    @property
    def pairs(self) -> tuple[tuple[Mapping, Access | None], ...]:
        """Each mapping with its access, once if they are equal."""
        return tuple(dict.fromkeys(((self.before, self.access), (self.after, self.later or self.access))))

    def maps(self, banks: int = BANKS) -> tuple[BankMap, ...]:
        """Return the maps before and after, or one map if they are equal."""
        return tuple(bankmap.build(mapping, access, banks) for mapping, access in self.pairs)
