"""The degrees of each access of a kernel, for every launch with blocks of a given shape.

Where the distances of lanes depend on a number that the launch decides, as in ``tile[threadIdx.x * ld]``, the fixed
point is computed again in the cases of that number's remainder by 32, or 128, which decides the banks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial, reduce

import numpy as np

from ncu_swizzle.base import bounds
from ncu_swizzle.base.degrees import RULE, AccessDegree, Case, KernelDegrees
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate.code import SHARED_WINDOW, Code
from ncu_swizzle.emulate.dependence import ALIKE
from ncu_swizzle.emulate.every_launch import (
    BLOCK,
    CONSTANT_MEMORY,
    DATA,
    GRID,
    LOOP,
    PARAMETER,
    EveryLaunch,
    Name,
    Split,
    uniform_in_warps,
)
from ncu_swizzle.emulate.fixed_point import SLOTS, FixedPoint
from ncu_swizzle.emulate.launch_steps import RANK, Observed
from ncu_swizzle.emulate.request_degrees import ONE, Degrees, NotKnown, request_degrees
from ncu_swizzle.smem.access import Index
from ncu_swizzle.smem.opcodes import Shared

SPLIT_BITS = (5, 7)  # to split a number by: the first suffices for 4-byte elements, bytes need the second
MOST_SPLIT = 4  # numbers that a kernel's accesses are split by
MOST_NAMES = 5  # that may decide an access that is split: with more, the cases of one tell nothing
MOST_WORK = 1 << 22  # instructions times warps times cases: some seconds
OF_THE_LAUNCH = frozenset((PARAMETER, CONSTANT_MEMORY, BLOCK, GRID))
SPLIT = OF_THE_LAUNCH | {LOOP}
PER_WORD = 4  # bytes of a launch's sizes

Finding = Degrees | NotKnown
ByCase = tuple[Split, list[Degrees]]


def by_byte(offset: int) -> str:
    """Describe a parameter whose name is not known."""
    return f"the parameter at byte {offset:#x}"


def degrees(code: Code, block: Index, named: Callable[[int], str] = by_byte) -> KernelDegrees:
    """Return the degrees of a kernel's accesses in every launch with blocks of this shape.

    `named` returns the name of the parameter at a byte.
    """
    point = FixedPoint(code, EveryLaunch.of(code, block), named)
    try:
        point.run()
    except NcuSwizzleError as error:
        numbers = [n for n, each in enumerate(point.instructions) if each.row.always_accesses and not each.never]
        findings: dict[int, Finding] = dict.fromkeys(numbers, NotKnown(str(error)))
        return KernelDegrees(kernel=code.name, block=block, accesses=tuple(_rows(point, findings, {})))
    findings = {number: _finding(point, number) for number in _accesses(point)}
    return KernelDegrees(
        kernel=code.name, block=block, accesses=tuple(_rows(point, findings, _by_cases(point, findings)))
    )


def _accesses(point: FixedPoint) -> Iterator[int]:
    """Yield the accesses that some launch may execute."""
    for number, instruction in enumerate(point.instructions):
        tensor = instruction.row.tile and point.flow.first(number) in point.before
        observed = point.observed.get(number)
        some = observed is not None and bool(observed.lanes.where(observed.guard).may.any())
        if not instruction.never and (some or tensor):
            yield number


def _finding(point: FixedPoint, number: int, rows: slice = slice(None)) -> Finding:
    """Return the degrees of an access in some of the warps, or why they are not known."""
    instruction, observed = point.instructions[number], point.observed.get(number)
    if instruction.row.shared is Shared.WGMMA:
        return Degrees(ONE, ONE)
    if observed is None:
        return NotKnown(f"what ncu counts for {instruction.opcode} has not been measured")
    if instruction.row.shared is Shared.GENERIC and not _is_shared(observed):
        return NotKnown("whether its address is in shared memory depends on the launch")
    try:
        return request_degrees(instruction, observed, rows)
    except NotKnown as why:
        return why


def _is_shared(observed: Observed) -> bool:
    """Return whether a generic address is in shared memory; a carry from its lower half would lead out of it."""
    upper = observed.upper
    return upper is not None and upper.known is True and bool((upper.bits >> np.uint64(32) == SHARED_WINDOW).all())


# ---------------------------------------------------------------------------------------------- cases


def _by_cases(point: FixedPoint, findings: dict[int, Finding]) -> dict[int, ByCase]:
    """Return the degrees, by cases of a number that launches decide, of accesses that are otherwise unknown."""
    cases: dict[int, ByCase] = {}
    tried: list[Name] = []
    work = 0
    for number, why in findings.items():
        names = point.machine.deciding_names(why.dims) if isinstance(why, NotKnown) and number not in cases else []
        for name in names if len(names) <= MOST_NAMES else ():
            if name.kind not in SPLIT or name in tried or len(tried) == MOST_SPLIT:
                continue
            tried.append(name)
            bit = point.machine.bit(name)
            for bits in SPLIT_BITS:
                waiting = [
                    n
                    for n, each in findings.items()
                    if isinstance(each, NotKnown) and each.dims & bit and n not in cases
                ]
                split = _split(point, name, bits) if waiting else None
                if split is not None:
                    work += len(point.instructions) * split.count * point.machine.per_block
                    if work > MOST_WORK:
                        return cases
                    cases.update(_known_in_all_cases(point, split, waiting))
    return cases


def _split(point: FixedPoint, name: Name, bits: int) -> Split | None:
    """Return the cases of a number by its low `bits`; None if it is not one number per warp."""
    if name.kind != LOOP:
        return Split(name=name, bits=bits)
    value = point.before[name.place].registers.get(name.register) if name.register < SLOTS else None
    if value is None or not uniform_in_warps(value) or value.tag is None or value.bits.dtype != np.uint32:
        return None
    return Split(name=name, first=value.tag.align, bits=min(bits, ALIKE - value.tag.align), start=value.bits)


def _known_in_all_cases(point: FixedPoint, split: Split, waiting: Sequence[int]) -> Iterator[tuple[int, ByCase]]:
    """Yield the accesses whose degrees are known in all cases."""
    apart = FixedPoint(point.code, EveryLaunch.of(point.code, point.machine.block, split))
    apart.run()
    warps = apart.machine.per_block
    for number in waiting:
        joint = []
        for case in range(split.count if number in apart.observed else 0):
            finding = _finding(apart, number, slice(case * warps, case * warps + warps))
            if isinstance(finding, NotKnown):
                break
            joint.append(finding)
        if joint and len(joint) == split.count:
            yield number, (split, joint)


def _cases_by_degree(point: FixedPoint, split: Split, by_case: Sequence[Degrees]) -> Iterator[Case]:
    """Yield the cases of a number, merging those with the same degrees; the greatest degrees first."""
    name, step, count = in_words(point, split.name), 1 << split.first, split.count
    groups: dict[tuple[Fraction, Fraction], list[int]] = {}
    for case, finding in enumerate(by_case):
        groups.setdefault((finding.least, finding.most), []).append(case)
    for (least, most), members in sorted(groups.items(), key=lambda group: (-group[0][1], group[0][0])):
        if split.name.kind == LOOP:
            some = ", ".join(str(int(split.start.flat[0] + step * case) % (step * count)) for case in members[:4])
            more = ", …" if len(members) > 4 else ""
            when = f"{name} is {some}{more} modulo {step * count}"
        else:
            when = f"{name} {_kind(members, count)}"
        yield Case(when=when, least=least, most=most)


def _kind(members: Sequence[int], count: int) -> str:
    """Describe a set of remainders by a power of two."""
    for power in (1 << shift for shift in range(count.bit_length())):
        multiples = list(range(0, count, power))
        if list(members) == multiples:
            return "is any number" if power == 1 else f"is a multiple of {power}"
        others = [each for each in multiples if each % (2 * power)]
        if list(members) == others:
            return "is odd" if power == 1 else f"is a multiple of {power}, and not of {2 * power}"
    some = ", ".join(map(str, members[:4]))
    return f"is {some}{', …' if len(members) > 4 else ''} modulo {count}"


# ---------------------------------------------------------------------------------------------- in words


def _rows(point: FixedPoint, findings: dict[int, Finding], cases: dict[int, ByCase]) -> Iterator[AccessDegree]:
    for number, finding in findings.items():
        instruction = point.instructions[number]
        row = partial(AccessDegree, offset=instruction.offset, sass=instruction.text, opcode=instruction.mnemonic)
        if number in cases:
            split, by_case = cases[number]
            every = reduce(Degrees.joined, by_case)
            apart = tuple(_cases_by_degree(point, split, by_case)) if every.least < every.most else ()
            depends_on = (in_words(point, split.name),) if apart else ()
            yield row(least=every.least, most=every.most, depends_on=depends_on, cases=apart)
        elif isinstance(finding, NotKnown):
            names = _deciding(point, finding)
            listed = bounds.some(dict.fromkeys(in_words(point, name) for name in names), MOST_NAMES)
            yield row(reason=finding.in_words(listed), on_data=any(name.kind not in OF_THE_LAUNCH for name in names))
        elif finding.whole is not None and finding.least < finding.most:
            usual = Case(when=RULE[finding.depends_on], least=finding.whole[0], most=finding.whole[1])
            yield row(least=finding.least, most=finding.most, depends_on=(finding.depends_on,), cases=(usual,))
        else:
            yield row(least=finding.least, most=finding.most)


def _deciding(point: FixedPoint, why: NotKnown) -> list[Name]:
    """Return what decides an access that is not known."""
    decided = point.machine.deciding_names(why.dims)
    # A block's shared memory begins there for all of its lanes.
    decided = [name for name in decided if name != Name(BLOCK, RANK)] or decided
    return decided if why.origin is None else [*decided, Name(DATA, why.origin)]


def in_words(point: FixedPoint, name: Name) -> str:
    """Name what a launch decides."""
    if name.kind == PARAMETER:
        return _constant(point, name.place)
    if name.kind == CONSTANT_MEMORY:
        return f"constant memory, c[{name.register:#x}][{name.place:#x}]"
    if name.kind in (BLOCK, GRID):
        what = "blockIdx" if name.kind == BLOCK else "gridDim"
        return "the block's rank in its cluster" if name.place == RANK else f"{what}.{'xyz'[name.place]}"
    instruction = point.instructions[name.place]
    kinds = {DATA: instruction.text, LOOP: "a variable of the loop"}
    return f"{kinds.get(name.kind, 'the way')} at {instruction.offset:#x}"


def _constant(point: FixedPoint, byte: int) -> str:
    """Name what constant bank 0 holds at a byte."""
    code = point.code
    first = code.launch_constants.grid
    if byte >= code.parameter_offset:
        return point.named(byte - code.parameter_offset)
    axis = (byte - first) // PER_WORD
    return f"gridDim.{'xyz'[axis]}" if 0 <= axis < len("xyz") else f"c[0x0][{byte:#x}]"
