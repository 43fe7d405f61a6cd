"""The degrees of a kernel's accesses in every launch with blocks of one shape: records of results.

A degree is wavefronts / ideal wavefronts of a request, one instruction of one warp; 1 is conflict-free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from ncu_swizzle.base.texts import without_last_ones

FREE, FIXED, DEPENDS, UNKNOWN = "free", "fixed", "depends", "unknown"
# Some of what the degree of an access may depend on, and what usually holds.
WHO, WHERE = "which lanes take part", "where in lines of 128 bytes it reads"
WHO_AND_WHERE = f"{WHO}, and {WHERE}"
RULE = {
    WHO: "all lanes of its warps take part",
    WHERE: "its lanes read from a multiple of 128 bytes on",
    WHO_AND_WHERE: "all lanes of its warps take part, and read from a multiple of 128 bytes on",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """The degrees of an access under a condition that the launch or its data decide."""

    when: str
    least: Fraction
    most: Fraction


@dataclass(frozen=True, kw_only=True)
class AccessDegree:
    """One access: the least and the greatest degree of its requests; None if unknown, with the reason."""

    offset: int
    sass: str
    opcode: str
    least: Fraction | None = None
    most: Fraction | None = None
    depends_on: tuple[str, ...] = ()  # what decides it, if known
    cases: tuple[Case, ...] = ()
    reason: str = ""
    on_data: bool = False  # whether unknown because of what an instruction yields, not of the launch alone

    @property
    def in_words(self) -> str:
        """Its degrees in a phrase: ``degree up to 32 if n is even; 1 if it is odd``."""
        if self.least is None or self.most is None:
            return f"not known: {self.reason}"
        return "free" if self.verdict == FREE else _decided(self)

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


MOST_CASES = 4  # that are listed


def _decided(access: AccessDegree) -> str:
    if not access.cases:
        return f"degree {_degree(access)}{'' if access.verdict == FIXED else ', as the launch decides'}"
    cases, more = access.cases[:MOST_CASES], len(access.cases) - MOST_CASES
    subject = access.depends_on[0]
    texts = [f"{_degree(case)} if {case.when}" for case in cases[:1]]
    texts += [f"{_degree(case)} if {case.when.replace(subject, 'it', 1)}" for case in cases[1:]]
    texts += [f"{more} more cases"] if more > 0 else []
    if subject in RULE:
        texts.append(f"up to {float(access.most or 1):.4g} if not")
    return f"degree {'; '.join(texts)}"


def _degree(said: AccessDegree | Case) -> str:
    least, most = float(said.least or 1), float(said.most or 1)
    return f"{most:.4g}" if least == most else f"up to {most:.4g}" if least == 1 else f"{least:.4g} to {most:.4g}"


def shape_of(block: tuple[int, int, int]) -> str:
    """Return a block's shape without the axes that have one thread: ``16 x 16``."""
    return " x ".join(map(str, without_last_ones(block)))


def by_shapes(said: Mapping[tuple[int, int, int], str]) -> str:
    """Join the phrases for several block shapes: ``degree 16 with blocks of 16 x 16; free with 32 x 8``."""
    groups: dict[str, list[tuple[int, int, int]]] = {}
    for block, text in said.items():
        groups.setdefault(text, []).append(block)
    parts = [f"{text} with {in_words(blocks)}" for text, blocks in groups.items()]
    return "; ".join([parts[0], *(part.replace("with blocks of", "with", 1) for part in parts[1:])])


def in_words(blocks: Iterable[tuple[int, int, int]]) -> str:
    """Return shapes of blocks: ``blocks of 16 x 16 or 32 x 8``."""
    return f"blocks of {shapes(blocks)}"


def shapes(blocks: Iterable[tuple[int, int, int]]) -> str:
    """Return shapes of blocks: ``16 x 16 or 32 x 8``."""
    return " or ".join(dict.fromkeys(map(shape_of, blocks)))
