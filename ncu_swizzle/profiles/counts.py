"""Instructions, their counts and totals: counts are stored, ratios are properties."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ncu_swizzle.cubin.libraries import is_wmma
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.validate import Count

Key = TypeVar("Key", bound=Hashable)
UNKNOWN = "unknown"  # the kind of an access whose SASS the report lacks
NEVER = "@!PT"  # the guard of instructions that are never executed, such as the LDS around LDGSTS
# The transfer that each kind of shared-memory access makes.
TRANSFERS = {
    "LDS": "SMEM→RF",
    "LDSM": "SMEM→RF",
    "STS": "RF→SMEM",
    "STSM": "RF→SMEM",
    "LDGSTS": "GMEM→SMEM",
    "ATOMS": "in SMEM",
    "HGMMA": "SMEM→TC",
    "QGMMA": "SMEM→TC",
    "IGMMA": "SMEM→TC",
    "BGMMA": "SMEM→TC",
}


class Ratios:
    """The ratios of anything with wavefronts, ideal wavefronts and executions."""

    executed: int | None
    wavefronts: int | None
    ideal: int | None

    @property
    def implausible(self) -> bool:
        """Whether the wavefronts are fewer than the ideal, which ncu never counts: a damaged file, or a changed one."""
        return self.wavefronts is not None and self.ideal is not None and self.wavefronts < self.ideal

    @property
    def excessive(self) -> int | None:
        """Wavefronts beyond the ideal; None if unknown or implausible."""
        if self.wavefronts is None or self.ideal is None or self.implausible:
            return None
        return self.wavefronts - self.ideal

    @property
    def degree(self) -> float | None:
        """Actual over ideal wavefronts, 1 without conflicts; None if there are none, unknown or implausible."""
        return (
            self.wavefronts / self.ideal
            if self.wavefronts is not None and self.ideal and not self.implausible
            else None
        )


@dataclass(frozen=True)
class Instruction(Ratios):
    """One SASS instruction. `executed` counts warps, `samples` warp samples per stall reason.

    `stack` is its source location: the innermost inlined function's file and line first, then its callers'. `at` is
    the index in the stack of the location that ncu shows.
    """

    pc: Count
    sass: str
    opcode: str
    access: str = ""
    stack: tuple[Location, ...] = ()
    executed: Count | None = None
    wavefronts: Count | None = None
    ideal: Count | None = None
    samples: Mapping[str, Count] = field(default_factory=dict)
    at: Count = 0

    @property
    def named(self) -> Location | None:
        """The location that ncu shows for it; None if there is none."""
        return self.stack[min(self.at, len(self.stack) - 1)] if self.stack else None

    @property
    def never(self) -> bool:
        """Whether it is never executed because its guard is always false."""
        return self.sass.startswith(NEVER)

    @property
    def by_wmma(self) -> bool:
        """Whether nvcuda::wmma computes its addresses, from a leading dimension."""
        return any(is_wmma(file) for file, _ in self.stack)

    @property
    def file(self) -> str:
        return self.stack[0][0] if self.stack else ""

    @property
    def line(self) -> int:
        return self.stack[0][1] if self.stack else 0


@dataclass(frozen=True)
class Total(Ratios):
    """The sums over several instructions, such as all of one access kind or one source line.

    If the wavefronts of some accesses are unknown, `counted` has the sums over the others: the least that it can be.
    """

    executed: int | None
    wavefronts: int | None
    ideal: int | None
    samples: int = 0
    counted: Total | None = None


def added(parts: Iterable[Instruction]) -> Total:
    instructions = list(parts)
    known = [i for i in instructions if not i.access or i.wavefronts is not None]
    partly = len(known) < len(instructions) and any(i.access for i in known) and not any(i.implausible for i in known)
    return Total(
        counted=added(known) if partly else None,
        executed=_sum(i.executed for i in instructions),
        wavefronts=_sum(i.wavefronts for i in instructions if i.access or i.wavefronts is not None),
        ideal=_sum(None if i.implausible else i.ideal for i in instructions if i.access or i.ideal is not None),
        samples=sum(sum(i.samples.values()) for i in instructions),
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None if there is nothing to add, or anything is unknown."""
    values = list(counts)
    return None if None in values or not values else sum(count for count in values if count is not None)


def grouped(instructions: Iterable[Instruction], keys: Callable[[Instruction], Iterable[Key]]) -> dict[Key, Total]:
    groups: dict[Key, list[Instruction]] = {}
    for instruction in instructions:
        for key in keys(instruction):
            groups.setdefault(key, []).append(instruction)
    return {name: added(group) for name, group in groups.items()}
