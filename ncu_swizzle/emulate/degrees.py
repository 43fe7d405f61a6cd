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

import numpy as np

from ncu_swizzle.base.degrees import AccessDegree, KernelDegrees
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate.accesses import WINDOW, access_width, operation_name
from ncu_swizzle.emulate.code import Code, SassInstruction
from ncu_swizzle.emulate.dependence import ALIKE, trailing_zeros
from ncu_swizzle.emulate.effects import GENERIC, TENSOR_READS, WGMMA, always_accesses
from ncu_swizzle.emulate.every_launch import EveryLaunch
from ncu_swizzle.emulate.fixed_point import FixedPoint, Observed
from ncu_swizzle.emulate.machine import SHARED_WINDOW, Index
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.operations import ATOMIC, COPY, LDMATRIX, LINE, SPIN, STMATRIX, WORD, Bools, Ints, Operation, most_lanes
from ncu_swizzle.smem.wavefronts import wavefronts

BEYOND = 24  # bits of an address within a block
ONE = Fraction(1)


class NotKnown(Exception):
    """Nothing is known of an access, for a reason."""


@dataclass(frozen=True)
class Degrees:
    least: Fraction
    most: Fraction

    def joined(self, other: Degrees) -> Degrees:
        return Degrees(min(self.least, other.least), max(self.most, other.most))


def degrees(code: Code, block: Index) -> KernelDegrees:
    """Return what is known of the accesses of a kernel in every launch with blocks of this shape."""
    point = FixedPoint(code, EveryLaunch.of(code, block))
    lacking = ""
    try:
        point.run()
    except NcuSwizzleError as error:
        lacking = str(error)
    accesses = [
        _access(point, number, lacking)
        for number, each in enumerate(point.instructions)
        if not each.never and (always_accesses(each.opcode) or number in point.observed)
    ]
    return KernelDegrees(kernel=code.name, block=block, accesses=tuple(filter(None, accesses)), reason=lacking)


def _access(point: FixedPoint, number: int, lacking: str) -> AccessDegree | None:
    instruction, observed = point.instructions[number], point.observed.get(number)
    row = {"offset": instruction.offset, "sass": instruction.text, "opcode": instruction.mnemonic}
    if lacking:
        return AccessDegree(**row, reason=lacking)
    try:
        if instruction.opcode in WGMMA:
            found = Degrees(ONE, ONE)
        elif observed is None:
            if instruction.opcode in TENSOR_READS:
                raise NotKnown("no rule is known")
            return None  # no launch comes there
        elif instruction.opcode in GENERIC and not _is_shared(observed):
            if _is_elsewhere(observed):
                return None
            raise NotKnown("whether its address is in shared memory")
        else:
            found = _degrees(point, instruction, observed)
    except NotKnown as why:
        return AccessDegree(**row, reason=str(why))
    return AccessDegree(**row, least=found.least, most=found.most)


def _is_shared(observed: Observed) -> bool:
    upper = observed.upper
    return upper is not None and upper.known is True and upper.tag is None and bool((upper.bits >> np.uint64(32) == SHARED_WINDOW).all())


def _is_elsewhere(observed: Observed) -> bool:
    return False


def _degrees(point: FixedPoint, instruction: SassInstruction, observed: Observed) -> Degrees:
    name = operation_name(instruction)
    if name is None:
        raise NotKnown("no rule is known for its wavefronts")
    operation = operations.find(name)
    lanes = observed.lanes.where(observed.guard)
    may, must = lanes.may, lanes.must
    if operation.kind in (LDMATRIX, STMATRIX):
        must = may  # the whole warp executes it, or the program is wrong (PTX ISA)
    address = observed.address
    known = np.broadcast_to(np.asarray(address.known), may.shape)
    if bool((may & ~known).any()):
        raise NotKnown(f"its address depends on {_source(point, address.origin)}")
    bits = np.broadcast_to(address.bits, may.shape).astype(np.int64)
    align = ALIKE if address.tag is None else address.tag.align
    apart = ALIKE if address.tag is None else address.tag.apart
    if operation.kind == COPY:
        raise NotKnown("a copy")
    if apart < trailing_zeros(LINE):
        raise NotKnown(f"lanes move apart by {address.tag.align} {address.tag.apart} {point.machine.decided(address.tag.dims)}")
    found: list[Degrees] = []
    for offset in _offsets(operation.width_bytes, align):
        at = (bits + offset) & int(WINDOW)
        rows = np.flatnonzero(may.any(axis=1) & ~((at & (operation.width_bytes - 1) != 0) & may).any(axis=1))
        found += [_of_row(operation, at[row], may[row], must[row], apart < BEYOND) for row in rows]
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
