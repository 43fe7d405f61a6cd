"""The results of jobs: comparisons or times, and the source of their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncu_swizzle.catalog.family import Family, Kernel
from ncu_swizzle.profiles.engine import Engine

if TYPE_CHECKING:  # pandas, which takes half a second to import
    from ncu_swizzle.profiles.comparison import Comparison


@dataclass(frozen=True)
class JobResult:
    """One comparison per kernel or pair of kernels; `notes` apply to all of them, `title` is the page's."""

    comparisons: tuple[Comparison, ...]
    engine: Engine
    folder: Path | None = None
    notes: tuple[str, ...] = ()
    title: str = ""

    @property
    def comparison(self) -> Comparison:
        """The first comparison, usually the only one."""
        return self.comparisons[0]

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(sorted(self.folder.iterdir())) if self.folder else ()


@dataclass(frozen=True)
class Timing:
    """Kernels of one family, timed in turn in one process; `facts` are those of the launching program."""

    family: Family
    kernels: tuple[Kernel, ...]
    facts: dict[str, Any]
