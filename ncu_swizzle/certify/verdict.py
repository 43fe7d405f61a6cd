"""The verdict on two versions of a kernel: proved, refuted or not proved, and what that rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Location(NamedTuple):
    """A file as the compiler names it, and a line of it."""

    file: str
    line: int


class ProofOutcome(StrEnum):
    """The verdict on the new version."""

    PROVED = "proved"
    REFUTED = "refuted"  # the checker knows no reason why the counterexample's values cannot occur: replay it
    UNPROVED = "not proved"


class Assumption(StrEnum):
    """What a proof assumes; only those that were needed are listed."""

    IN_BOUNDS = "with these arguments, the old kernel accesses no array out of bounds"
    NO_WRAP = "no signed 32-bit index of the old kernel overflows"
    TABLES = "nothing writes the tables of constants that the kernels read"
    TENSOR_MAPS = "tensor maps are encoded as described, and differ between the versions in nothing but their swizzle"
    MESSAGES = "what an assertion that fails prints does not matter: its line has moved"
    LAYOUT = "both versions place shared arrays that have the same sizes at the same addresses"


@dataclass(frozen=True, kw_only=True)
class MovedAccess:
    """One access of a counterexample: which thread, where in the source, at which byte of the array in each version."""

    thread: tuple[int, int, int]
    line: Location | None
    width: int  # bytes
    write: bool
    before: int  # bytes from the array's start; negative if it is below it
    after: int


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """Values for which the versions differ: two accesses that meet in one of them alone, or one out of bounds."""

    what: str  # a sentence without its full stop
    array: str  # its symbol
    accesses: tuple[MovedAccess, ...]
    block: tuple[int, int, int]  # index of the block
    values: Mapping[str, int]  # of parameters, by name, and of what was loaded or counted


@dataclass(frozen=True, kw_only=True)
class ProofObstacle:
    """Why nothing is proved: a sentence without its full stop, and the line that it is about, if it is about one."""

    reason: str
    line: Location | None = None


@dataclass(frozen=True, kw_only=True)
class Query:
    """One condition that was shown to have no counterexample: what it says, where, and its SMT-LIB text."""

    says: str
    line: Location | None
    smt: str


@dataclass(frozen=True, kw_only=True)
class KernelVerdict:
    """The verdict on one kernel. `block` is None if the proof holds for blocks of any shape."""

    kernel: str  # its symbol in the old version
    outcome: ProofOutcome
    mapped: tuple[str, ...] = ()  # symbols of the arrays whose elements move
    block: tuple[int, int, int] | None = None
    dynamic: int | None = None  # bytes of dynamic shared memory that it holds for; None if there is none
    assumptions: tuple[Assumption, ...] = ()
    obstacle: ProofObstacle | None = None  # of what is not proved
    counterexample: Counterexample | None = None  # of what is refuted
    accesses: int = 0  # to mapped arrays, compared
    queries: tuple[Query, ...] = ()  # if a certificate was asked for
