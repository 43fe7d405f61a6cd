"""What is said of the accesses of a kernel in every launch with blocks of one shape: records of results.

A degree is wavefronts / ideal wavefronts of a request, one instruction of one warp; 1 is free of conflicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

FREE, FIXED, DEPENDS, UNKNOWN = "free", "fixed", "depends", "unknown"
# What the degree of an access may depend on, among others, and what holds as a rule.
WHO, WHERE = "which lanes take part", "where in lines of 128 bytes it reads"
RULE = {WHO: "all lanes of its warps take part", WHERE: "its lanes read from a multiple of 128 bytes on"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """The degrees that an access has if something holds, which the launch or its data decide."""

    when: str
    least: Fraction
    most: Fraction


@dataclass(frozen=True, kw_only=True)
class AccessDegree:
    """One access: the least and the greatest degree of its requests; None if nothing is known, for a reason."""

    offset: int
    sass: str
    opcode: str
    least: Fraction | None = None
    most: Fraction | None = None
    depends_on: tuple[str, ...] = ()  # what decides it, if that is known
    cases: tuple[Case, ...] = ()
    reason: str = ""

    @property
    def verdict(self) -> str:
        """Return one of FREE, FIXED (of one degree in every launch), DEPENDS and UNKNOWN."""
        if self.least is None or self.most is None:
            return UNKNOWN
        if self.least == self.most:
            return FREE if self.most == 1 else FIXED
        return DEPENDS


@dataclass(frozen=True, kw_only=True)
class KernelDegrees:
    """The accesses of a kernel to shared memory, for blocks of a shape."""

    kernel: str
    block: tuple[int, int, int]
    accesses: tuple[AccessDegree, ...]
    reason: str = ""  # why nothing is known
