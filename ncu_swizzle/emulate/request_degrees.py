"""The degrees of the requests that an access can make: wavefronts from a set of addresses and lanes.

An offset that all lanes share moves all banks alike. For an access of w bytes it is a multiple of w, as the address
is one (or the launch fails): banks of w bytes, at least 4, are renamed, and nothing else changes. For narrower ones,
the bytes within a word matter: all are tried. Offsets that differ by lane are harmless from 2^24 on, beyond shared
memory, and from 128 on leaves the banks as they are: then it is not known which lanes of a bank want the same word. A
copy also depends on where it reads and writes within lines of 128 bytes: all combinations are tried.

If it is not known which lanes take part, n wavefronts need n lanes, and their ideal is what their bytes fill: so
a load of 128 bits, free if all lanes take part, may be 4-way for four lanes, one in each phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import product

import numpy as np

from ncu_swizzle.base.degrees import WHERE, WHO, WHO_AND_WHERE
from ncu_swizzle.emulate.accesses import WINDOW, from_first_line, operation_name
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.copies import counted_as_zeros, p0_miscount, reads_by_p0
from ncu_swizzle.emulate.dependence import ALIKE, trailing_zeros
from ncu_swizzle.emulate.every_launch import Lanes
from ncu_swizzle.emulate.launch_steps import Observed
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.operations import (
    ATOMIC,
    COPY,
    LDMATRIX,
    LINE,
    SPIN,
    STMATRIX,
    WARP,
    WORD,
    Bools,
    Ints,
    Operation,
    most_lanes,
)
from ncu_swizzle.smem.wavefronts import Wavefronts, wavefronts

BEYOND = 24  # bits of an address within a block
ONE = Fraction(1)
DISTANCES = "its lanes' addresses are at distances"


class NotKnown(Exception):
    """Why nothing is known about an access: `what` depends on what `dims` name, or on an instruction, `origin`."""

    def __init__(self, what: str, verb: str = "", dims: int = 0, origin: int | None = None) -> None:
        super().__init__(what)
        self.verb, self.dims, self.origin = verb, dims, origin

    def in_words(self, names: str) -> str:
        """Return the reason with the names of what decides it."""
        return f"{self} {self.verb} {names}" if names else str(self)


@dataclass(frozen=True)
class Degrees:
    """The least and the greatest degree of some requests; `whole`: those of the usual requests.

    If it is not known which lanes take part, usual means all; if it is not known where a copy reads, whole lines.
    """

    least: Fraction
    most: Fraction
    whole: tuple[Fraction, Fraction] | None = None
    depends_on: str = WHO

    @property
    def of_whole(self) -> tuple[Fraction, Fraction]:
        return (self.least, self.most) if self.whole is None else self.whole

    def joined(self, other: Degrees) -> Degrees:
        """Return the degrees of both."""
        whole = None
        if self.whole is not None or other.whole is not None:
            (least, most), (also_least, also_most) = self.of_whole, other.of_whole
            whole = min(least, also_least), max(most, also_most)
        depends_on = self.depends_on if self.whole is not None else other.depends_on
        return Degrees(min(self.least, other.least), max(self.most, other.most), whole, depends_on)


def request_degrees(instruction: SassInstruction, observed: Observed, rows: slice) -> Degrees:
    """Return the degrees of an access in some of the warps. Raises NotKnown."""
    name = operation_name(instruction)
    if name is None:
        raise NotKnown("no rule is known for its wavefronts")
    operation, lanes = operations.find(name), observed.lanes.where(observed.guard)
    may, must = lanes.may[rows], lanes.must[rows]
    at, align, apart = _addresses(observed.address, lanes, rows, "its address")
    if operation.kind == COPY:
        return _copies(instruction, operation, observed, lanes, rows)
    if apart < trailing_zeros(LINE):
        dims = observed.address.tag.dims if observed.address.tag else 0
        raise NotKnown(DISTANCES, "that depend on", dims)
    if operation.kind in (LDMATRIX, STMATRIX):
        must = may  # the whole warp executes it, or the program is wrong (PTX ISA)
    unit, way = max(operation.width_bytes, WORD), SPREAD if apart < BEYOND else ""
    requests: dict[tuple[str, bytes, bytes, bytes], None] = {}
    for offset in _offsets(align, unit):
        moved = (at + offset) & int(WINDOW)
        used = may.any(axis=1) & ~((moved & (operation.width_bytes - 1) != 0) & may).any(axis=1)
        # Multiples of 128 bytes that all lanes share change nothing: most requests of a kernel are alike.
        start = np.where(may, moved, int(WINDOW)).min(axis=1, keepdims=True) & -LINE
        apart_by = np.where(may, moved - start, 0)
        for row in np.flatnonzero(used):
            requests[way, apart_by[row].tobytes(), may[row].tobytes(), must[row].tobytes()] = None
    return _all_of([each for request in requests for each in _of_request(operation.name, *request)])


SPREAD = "spread"  # lanes in a bank may want the same word or different ones


@lru_cache(maxsize=1 << 14)
def _of_request(name: str, way: str, addresses: bytes, who: bytes, surely: bytes) -> Sequence[Degrees]:
    """Return the degrees of a warp's request, whose arrays are given as bytes."""
    operation, at = operations.find(name), np.frombuffer(addresses, np.int64)
    may, must = np.frombuffer(who, bool), np.frombuffer(surely, bool)
    exact = who == surely
    if way == SPREAD:
        return [_spread_degrees(operation, at, may, exact)]
    return _ratios(_counted(operation, at[None], may[None])) if exact else [_some_lanes(operation, at, may, must)]


def _all_of(degrees: Sequence[Degrees]) -> Degrees:
    if not degrees:
        raise NotKnown("no thread executes it at an aligned address")
    return reduce(Degrees.joined, degrees)


def _addresses(address: Value, lanes: Lanes, rows: slice, what: str) -> tuple[Ints, int, int]:
    """Return addresses, (N, 32), and how they change in all lanes and in each: see `Tag`."""
    shape = lanes.may.shape
    if bool((lanes.may & ~np.asarray(address.known))[rows].any()):
        raise NotKnown(what, "depends on", origin=address.origin)
    align, apart = (ALIKE, ALIKE) if address.tag is None else (address.tag.align, address.tag.apart)
    return np.broadcast_to(address.bits, shape)[rows].astype(np.int64), align, apart


def _offsets(align: int, unit: int) -> Sequence[int]:
    """Return the multiples of 2^align, modulo a unit."""
    step = 1 << min(align, BEYOND)
    return range(0, unit, step) if step < unit else (0,)


def _counted(operation: Operation, at: Ints, active: Bools, source: Ints | None = None) -> Wavefronts:
    counts = wavefronts(operation.name, at, None if operation.kind in (LDMATRIX, STMATRIX) else active, source)
    if not counts.known.all():
        raise NotKnown("no rule is known for some of its requests")
    return counts


def _ratios(counts: Wavefronts) -> list[Degrees]:
    pairs = set(zip(counts.actual.tolist(), counts.ideal.tolist(), strict=True))
    return [Degrees(ratio, ratio) for ratio in {Fraction(actual, ideal) for actual, ideal in pairs if ideal}]


def _some_lanes(operation: Operation, at: Ints, may: Bools, must: Bools) -> Degrees:
    """Return the degrees of a warp's request if it is not known which lanes take part."""
    whole = _ratios(_counted(operation, at[None], may[None]))[0].most
    if operation.name == SPIN:
        return Degrees(ONE, ONE)
    busiest = _busiest(operation, at, may, most_lanes if operation.kind == ATOMIC else operations.degrees)
    least = ONE
    if operation.width_bytes <= WORD and must.any():  # more lanes take no fewer wavefronts, and their ideal is 1
        least = _ratios(_counted(operation, at[None], must[None]))[0].least
    return Degrees(least, _worst_degree(operation, busiest), (whole, whole))


def _spread_degrees(operation: Operation, at: Ints, may: Bools, exact: bool) -> Degrees:
    """Return the degrees of a warp's request whose lanes in a bank may want the same word or different ones."""
    if operation.name == SPIN:
        return Degrees(ONE, ONE)
    busiest = _busiest(operation, at, may, most_lanes)
    if not exact:
        return Degrees(ONE, _worst_degree(operation, busiest))
    used = may & (np.arange(len(may)) < operation.addressed)
    ideal = -(-int(used.sum()) * operation.width_bytes // LINE)
    return Degrees(ONE, max(ONE, Fraction(sum(busiest), ideal)))


def _busiest(operation: Operation, at: Ints, may: Bools, count: object) -> list[int]:
    """Return how many lanes, or words, the busiest bank of each phase may serve."""
    width = max(operation.width_bytes, WORD) if count is most_lanes else operation.width_bytes
    parts = [slice(phase.start, phase.stop) for phase in operation.phases]
    return [int(count(at[None, part], may[None, part], width)[0]) for part in parts]  # type: ignore[operator]


def _worst_degree(operation: Operation, busiest: Iterable[int]) -> Fraction:
    """Return the greatest degree of any lanes whose phases take at most these wavefronts."""
    together = LINE // max(operation.width_bytes, WORD)  # lanes that one wavefront serves
    return max((Fraction(n, -(-n // together)) for n in range(1, sum(busiest) + 1)), default=ONE)


# ---------------------------------------------------------------------------------------------- copies


def _copies(
    instruction: SassInstruction, operation: Operation, observed: Observed, lanes: Lanes, rows: slice
) -> Degrees:
    """Return the degrees of cp.async."""
    if p0_miscount(instruction) or counted_as_zeros(instruction) or reads_by_p0(instruction):
        raise NotKnown("ncu does not read P0, and what it counts instead depends on the launch")
    reads, source = observed.reads, observed.source
    if source is None or (reads is not None and (reads.known is not True or reads.tag is not None)):
        raise NotKnown("which of its lanes write zeros depends on the launch")
    may, width = lanes.may[rows], operation.width_bytes
    at, align, apart = _addresses(observed.address, lanes, rows, "its address")
    start, source_align, source_apart = _addresses(source, lanes, rows, "where it reads")
    for value, own_apart in ((observed.address, apart), (source, source_apart)):
        if own_apart < ALIKE and value.tag is not None:
            raise NotKnown(DISTANCES, "that depend on", value.tag.dims)
    reading = may if reads is None else may & np.broadcast_to(reads.bits, lanes.may.shape)[rows]
    all_ratios, lined = [], list[Degrees]()
    for to, origin in product(_offsets(align, LINE), _offsets(source_align, LINE)):
        moved, read = (at + to) & int(WINDOW), (start + origin) & 0xFFFFFFFF
        wrong = ((moved & (width - 1) != 0) & may) | ((read & (width - 1) != 0) & reading)
        used = may.any(axis=1) & ~wrong.any(axis=1)
        origins = from_first_line(read[used], may[used], reading[used])
        ratios = _ratios(_counted(operation, moved[used], may[used], origins)) if used.any() else []
        all_ratios += ratios
        lined += ratios if origin == 0 else []
    every = _all_of(all_ratios)
    whole = _all_of(lined) if lined and every.least < every.most else None
    usual = (whole.least, whole.most) if whole else None
    if lanes.exact:
        return replace(every, whole=usual, depends_on=WHERE)
    most = max(every.most, _worst_copy(operation))
    return Degrees(ONE, most, usual or every.of_whole, WHO if every.least == every.most else WHO_AND_WHERE)


def _worst_copy(operation: Operation) -> Fraction:
    """Return a degree that no lanes' copies exceed.

    Through L1, a lane takes at most a wavefront. Past it, so does a sector, and one more if both of its chunks are read
    twice; what `.zfill` adds, actual and ideal, goes through L1.
    """
    past = ".cg." in operation.name
    bounds = [(n + n // 2 if past else n, -(-n * operation.width_bytes // LINE)) for n in range(1, WARP + 1)]
    return max(Fraction(actual, ideal) for actual, ideal in bounds)
