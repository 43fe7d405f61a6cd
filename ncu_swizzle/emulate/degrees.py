"""The degree of each access of a kernel in every launch with blocks of a shape.

What all lanes of a warp add alike moves all banks alike. Of an access of w bytes, it is a multiple of w, as the address
is one (or the launch fails), so banks of w bytes, at least 4, are renamed and nothing else changes. Of narrower ones,
the bytes within a word matter: all are tried. What lanes add differently is harmless from 2^24 on, which is beyond
shared memory, and below 128 decides the banks. In between, banks are known, and which lanes want the same word is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce

import numpy as np

from ncu_swizzle.base.degrees import AccessDegree, Case, KernelDegrees
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate.accesses import WINDOW, access_width, operation_name
from ncu_swizzle.emulate.code import Code, SassInstruction
from ncu_swizzle.emulate.dependence import ALIKE, trailing_zeros
from ncu_swizzle.emulate.effects import GENERIC, TENSOR_READS, WGMMA, always_accesses
from ncu_swizzle.emulate.every_launch import (
    BLOCK,
    CONSTANT_MEMORY,
    GRID,
    LOOP,
    PARAMETER,
    EveryLaunch,
    Name,
    Split,
    alike,
)
from ncu_swizzle.emulate.fixed_point import SLOTS, FixedPoint, Observed
from ncu_swizzle.emulate.machine import SHARED_WINDOW, Index
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.operations import ATOMIC, COPY, LDMATRIX, LINE, SPIN, STMATRIX, WORD, Bools, Ints, Operation, most_lanes
from ncu_swizzle.smem.wavefronts import wavefronts

BEYOND = 24  # bits of an address within a block
ONE = Fraction(1)


SPLIT_BITS = (5, 7)  # cases by a number's lower bits: of 4-byte elements the first are enough, of bytes the others
MOST_SPLIT = 4  # numbers by which accesses of a kernel are told apart
SPLIT = frozenset((PARAMETER, CONSTANT_MEMORY, BLOCK, GRID, LOOP))


class NotKnown(Exception):
    """Nothing is known of an access, for a reason; `dims` name what it depends on."""

    def __init__(self, reason: str, dims: int = 0) -> None:
        super().__init__(reason)
        self.dims = dims


@dataclass(frozen=True)
class Degrees:
    """The least and the greatest degree of some requests."""

    least: Fraction
    most: Fraction

    def joined(self, other: Degrees) -> Degrees:
        return Degrees(min(self.least, other.least), max(self.most, other.most))


Findings = dict[int, Degrees | NotKnown]


def degrees(code: Code, block: Index) -> KernelDegrees:
    """Return what is known of the accesses of a kernel in every launch with blocks of this shape."""
    point = FixedPoint(code, EveryLaunch.of(code, block))
    try:
        point.run()
    except NcuSwizzleError as error:
        return KernelDegrees(kernel=code.name, block=block, accesses=tuple(_rows(point, {}, {}, str(error))), reason=str(error))
    found = {number: _finding(point, number) for number in _accesses(point)}
    cases = _by_cases(point, code, block, found)
    return KernelDegrees(kernel=code.name, block=block, accesses=tuple(_rows(point, found, cases, "")))


def _accesses(point: FixedPoint) -> list[int]:
    """Return the accesses that some launch may execute."""
    return [
        number
        for number, each in enumerate(point.instructions)
        if not each.never
        and (number in point.observed or (each.opcode in WGMMA | TENSOR_READS and point.flow.first(number) in point.before))
    ]


def _finding(point: FixedPoint, number: int, rows: slice = slice(None)) -> Degrees | NotKnown:
    """Return the degrees of an access, in some of the warps."""
    instruction, observed = point.instructions[number], point.observed.get(number)
    try:
        if instruction.opcode in WGMMA:
            return Degrees(ONE, ONE)
        if observed is None:
            return NotKnown(f"what ncu counts for {instruction.opcode} has not been measured")
        if instruction.opcode in GENERIC and not _is_shared(observed):
            return NotKnown("whether its address is in shared memory is not known")
        return _degrees(point, instruction, observed, rows)
    except NotKnown as why:
        return why


def _by_cases(point: FixedPoint, code: Code, block: Index, found: Findings) -> dict[int, tuple[Split, list[Degrees | NotKnown]]]:
    """Return, of accesses of which nothing is known, what is in the cases of a number that launches decide."""
    cases: dict[int, tuple[Split, list[Degrees | NotKnown]]] = {}
    tried: set[Name] = set()
    for number in sorted(found):
        why = found[number]
        if not isinstance(why, NotKnown) or number in cases:
            continue
        for name in point.machine.decided(why.dims):
            if name.kind not in SPLIT or name in tried or len(tried) == MOST_SPLIT:
                continue
            tried.add(name)
            waiting = [n for n, each in found.items() if isinstance(each, NotKnown) and each.dims & point.machine.bit(name)]
            for bits in SPLIT_BITS:
                waiting = [n for n in waiting if n not in cases]
                split = _split(point, name, bits)
                if split is None or not waiting:
                    break
                apart = FixedPoint(code, EveryLaunch.of(code, block, split))
                apart.run()
                per_case = apart.machine.per_block
                for each in waiting:
                    if each not in apart.observed:
                        continue
                    by_case = [_finding(apart, each, slice(c * per_case, c * per_case + per_case)) for c in range(split.count)]
                    if any(isinstance(one, Degrees) for one in by_case):
                        cases[each] = split, by_case
    return cases


def _split(point: FixedPoint, name: Name, bits: int) -> Split | None:
    """Return the cases of a number by so many of its bits; None if it is not one number per warp."""
    if name.kind != LOOP:
        return Split(name=name, bits=bits)
    value = point.before[name.place].registers.get(name.register) if name.register < SLOTS else None
    if value is None or not alike(value) or value.tag is None or value.bits.dtype != np.uint32:
        return None
    return Split(name=name, first=value.tag.align, bits=min(bits, ALIKE - value.tag.align), start=value.bits)


def _rows(
    point: FixedPoint, found: Findings, cases: dict[int, tuple[Split, list[Degrees | NotKnown]]], lacking: str
) -> Iterator[AccessDegree]:
    numbers = found or {n: NotKnown(lacking) for n, each in enumerate(point.instructions) if always_accesses(each.opcode) and not each.never}
    for number, finding in numbers.items():
        instruction = point.instructions[number]
        row = partial(AccessDegree, offset=instruction.offset, sass=instruction.text, opcode=instruction.mnemonic)
        if number in cases:
            split, by_case = cases[number]
            sure = [one for one in by_case if isinstance(one, Degrees)]
            if len(sure) == len(by_case):
                whole = reduce(Degrees.joined, sure)
                yield row(least=whole.least, most=whole.most, depends_on=(str(split.name),), cases=tuple(_cases(split, sure)))
                continue
        if isinstance(finding, NotKnown):
            yield row(reason=str(finding), depends_on=tuple(map(str, point.machine.decided(finding.dims))))
        else:
            yield row(least=finding.least, most=finding.most)


def _cases(split: Split, by_case: list[Degrees]) -> Iterator[Case]:
    for remainder, degrees in zip(split.remainders.tolist(), by_case, strict=True):
        yield Case(when=f"{remainder}", least=degrees.least, most=degrees.most)


def _is_shared(observed: Observed) -> bool:
    """Return whether a generic address is one in shared memory; what its lower half carries would lead out of it."""
    upper = observed.upper
    return upper is not None and upper.known is True and bool((upper.bits >> np.uint64(32) == SHARED_WINDOW).all())


def _degrees(point: FixedPoint, instruction: SassInstruction, observed: Observed, rows: slice) -> Degrees:
    name = operation_name(instruction)
    if name is None:
        raise NotKnown("no rule is known for its wavefronts")
    operation = operations.find(name)
    lanes = observed.lanes.where(observed.guard)
    may, must = lanes.may[rows], lanes.must[rows]
    if operation.kind in (LDMATRIX, STMATRIX):
        must = may  # the whole warp executes it, or the program is wrong (PTX ISA)
    address = observed.address
    known = np.broadcast_to(np.asarray(address.known), lanes.may.shape)[rows]
    if bool((may & ~known).any()):
        raise NotKnown(f"its address depends on {_source(point, address.origin)}")
    bits = np.broadcast_to(address.bits, lanes.may.shape)[rows].astype(np.int64)
    align = ALIKE if address.tag is None else address.tag.align
    apart = ALIKE if address.tag is None else address.tag.apart
    if operation.kind == COPY:
        raise NotKnown("a copy")
    if apart < trailing_zeros(LINE):
        raise NotKnown("lanes move apart", address.tag.dims if address.tag else 0)
    found: list[Degrees] = []
    for offset in _offsets(operation.width_bytes, align):
        at = (bits + offset) & int(WINDOW)
        aligned = may.any(axis=1) & ~((at & (operation.width_bytes - 1) != 0) & may).any(axis=1)
        found += [_of_row(operation, at[row], may[row], must[row], apart < BEYOND) for row in np.flatnonzero(aligned)]
    if not found:
        raise NotKnown("no thread executes it at an aligned address")
    result = found[0]
    for other in found[1:]:
        result = result.joined(other)
    return result


def _source(point: FixedPoint, origin: int | None) -> str:
    if origin is None:
        return "a register that nothing wrote"
    instruction = point.instructions[origin]
    return f"{instruction.text} at {instruction.offset:#x}"


def _offsets(width: int, align: int) -> Sequence[int]:
    """Return what uniform changes by multiples of 2^align come to within a bank of an access's width."""
    unit = max(width, WORD)
    step = 1 << min(align, 24)
    return range(0, unit, step) if step < unit else (0,)


def _of_row(operation: Operation, at: Ints, may: Bools, must: Bools, spread: bool) -> Degrees:
    """Return the degrees of a warp's request; `spread`: lanes in the same bank may want the same word or others."""
    exact = bool((may == must).all())
    if exact and not spread:
        counts = wavefronts(operation.name, at[None], None if operation.kind in (LDMATRIX, STMATRIX) else may[None])
        if not counts.known.all():
            raise NotKnown("no rule is known for some of its requests")
        ratio = Fraction(int(counts.actual[0]), int(counts.ideal[0]))
        return Degrees(ratio, ratio)
    busiest = _phases(operation, at, may, spread)
    most = _worst(operation, busiest, int(may.sum()) if exact else None)
    least = ONE
    if not spread and operation.width_bytes <= WORD and must.any():
        counts = wavefronts(operation.name, at[None], must[None])
        least = Fraction(int(counts.actual[0]), int(counts.ideal[0]))
    return Degrees(least, most)


def _phases(operation: Operation, at: Ints, may: Bools, spread: bool) -> list[int]:
    """Return of each phase how many lanes, or words, its busiest bank may serve."""
    serial = spread or operation.kind == ATOMIC
    counts = []
    for phase in operation.phases:
        part = slice(phase.start, phase.stop)
        count = most_lanes if serial else operations.degrees
        counts.append(int(count(at[None, part], may[None, part], max(operation.width_bytes, WORD) if serial else operation.width_bytes)[0]))
    return counts


def _worst(operation: Operation, busiest: Sequence[int], lanes: int | None) -> Fraction:
    """Return the most that a request's degree can be if each phase takes up to so many wavefronts.

    If it is not known who takes part, n wavefronts need n lanes, whose ideal is what their bytes fill.
    """
    if operation.name == SPIN:
        return ONE
    total = sum(busiest)
    per_wavefront = LINE // max(operation.width_bytes, WORD)
    if lanes is not None:
        return max(ONE, Fraction(total, -(-lanes // per_wavefront)))
    return max((Fraction(n, -(-n // per_wavefront)) for n in range(1, total + 1)), default=ONE)
