"""Instructions and their counts, alone and together: counts are stored, ratios are properties."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ncu_swizzle.cubin.location import Location

Key = TypeVar("Key", bound=Hashable)
UNKNOWN = "unknown"  # the kind of an access of which the report has no text
NEVER = "@!PT"  # the guard of instructions that are never carried out, such as the LDS around LDGSTS
# What moves when an instruction of this kind accesses shared memory.
TRANSFERS = {
    "LDS": "SMEM→RF",
    "LDSM": "SMEM→RF",
    "STS": "RF→SMEM",
    "STSM": "RF→SMEM",
    "LDGSTS": "GMEM→SMEM",
    "ATOMS": "in SMEM",
    "HGMMA": "SMEM→TC",
}


class Ratios:
    """The ratios of anything that has wavefronts, ideal wavefronts and executions."""

    executed: int | None
    wavefronts: int | None
    ideal: int | None

    @property
    def excessive(self) -> int | None:
        """Wavefronts beyond the ideal number; None where ncu did not say."""
        return None if self.wavefronts is None or self.ideal is None else self.wavefronts - self.ideal

    @property
    def degree(self) -> float | None:
        """Actual over ideal wavefronts, 1 for an access without conflicts; None where there are none."""
        return self.wavefronts / self.ideal if self.wavefronts is not None and self.ideal else None


@dataclass(frozen=True)
class Instruction(Ratios):
    """One SASS instruction. `executed` counts warps, `samples` the warp samples per stall reason.

    `stack` is where its source stands: the innermost inlined function's file and line first, then its callers'.
    `at` is the number, in the stack, of the one place that ncu itself names.
    """

    pc: int
    sass: str
    opcode: str
    access: str = ""
    stack: tuple[Location, ...] = ()
    executed: int | None = None
    wavefronts: int | None = None
    ideal: int | None = None
    samples: Mapping[str, int] = field(default_factory=dict)
    at: int = 0

    @property
    def named(self) -> Location | None:
        """The place that ncu's own pages show for it; None where it knows none."""
        return self.stack[min(self.at, len(self.stack) - 1)] if self.stack else None

    @property
    def never(self) -> bool:
        """Whether it is never carried out: its guard is always false."""
        return self.sass.startswith(NEVER)

    @property
    def file(self) -> str:
        return self.stack[0][0] if self.stack else ""

    @property
    def line(self) -> int:
        return self.stack[0][1] if self.stack else 0


@dataclass(frozen=True)
class Total(Ratios):
    """Several instructions together: all of one access kind, or of one source line."""

    executed: int | None
    wavefronts: int | None
    ideal: int | None
    samples: int = 0


def added(parts: Iterable[Instruction]) -> Total:
    instructions = list(parts)
    return Total(
        executed=_sum(i.executed for i in instructions),
        wavefronts=_sum(i.wavefronts for i in instructions if i.access or i.wavefronts is not None),
        ideal=_sum(i.ideal for i in instructions if i.access or i.ideal is not None),
        samples=sum(sum(i.samples.values()) for i in instructions),
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None where there is nothing to add, or anything unknown."""
    values = list(counts)
    return None if None in values or not values else sum(count for count in values if count is not None)


def grouped(instructions: Iterable[Instruction], keys: Callable[[Instruction], Iterable[Key]]) -> dict[Key, Total]:
    groups: dict[Key, list[Instruction]] = {}
    for instruction in instructions:
        for key in keys(instruction):
            groups.setdefault(key, []).append(instruction)
    return {name: added(group) for name, group in groups.items()}
