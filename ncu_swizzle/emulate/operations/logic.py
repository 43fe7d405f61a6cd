"""Bitwise logic, masks, bit counts, and moves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ncu_swizzle.emulate.code import PRED, UPRED, SassInstruction
from ncu_swizzle.emulate.dependence import NOTHING, Tag, affine, aligned, bitwise, function_of, scaled
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Compute, integer, operation, predicate, raw
from ncu_swizzle.emulate.operations.integer import keep_order, no_wrap
from ncu_swizzle.emulate.operations.predicates import conjunction, disjunction
from ncu_swizzle.emulate.values import (
    Bits,
    Value,
    computed,
    constant,
    dependent,
    derived,
    low_half,
    same_for_all,
    sure_of_bitwise,
    with_sure,
)

ONE = np.uint32(1)
FULL = np.uint32(0xFFFFFFFF)
AND = 0xC0  # the table of a & b


@operation("MOV", "UMOV", "CS2R", "MOV32I")
def mov(ins: SassInstruction) -> Compute | None:
    """A copy; CS2R of the zero register, twice."""
    source = ins.operands[1]
    if ins.opcode == "CS2R":
        if source.text != "SRZ":
            return None
        zero = constant(0)
        return lambda m: (zero,) if ins.has("32") else (zero, zero)
    if ins.has("64"):
        low, high = raw(source), raw(source, 1)
        return lambda m: (low(m), high(m))
    read = integer(source)
    return lambda m: (read(m),)


@operation("LOP3", "ULOP3", "LOP")
def lop3(ins: SassInstruction) -> Compute | None:
    """Any function of three bits, by an 8-entry table; optionally whether the result is not 0."""
    with_test = ins.operands[0].kind in (PRED, UPRED)
    first = 2 if with_test else 1
    a, b, c = (integer(operand) for operand in ins.operands[first : first + 3])
    table = ins.operands[first + 3].number
    also = predicate(ins.operands[first + 4]) if with_test and len(ins.operands) > first + 4 else None

    def compute(m: Machine) -> tuple[Value | None, ...]:
        values = a(m), b(m), c(m)
        result = _bitwise(m, values, table)
        if not with_test:
            return (result,)
        masked = table == AND and _keep_masked(m, values[0], values[1])
        test = derived(result.bits != 0, result) if masked else _not_zero(m, result)
        if also:
            test = conjunction(test, also(m)) if ins.has("PAND") else disjunction(test, also(m))
        return test, result

    return compute


def _bitwise(m: Machine, values: tuple[Value, Value, Value], table: int) -> Value:
    bits = by_table(values[0].bits, values[1].bits, values[2].bits, table)
    used = [value for position, value in enumerate(values) if _depends(table, position)]
    tag = _bitwise_tag(m, values, table) if any(value.tag for value in used) else None
    result = derived(bits, *used, tag=tag)
    if result.known is True:
        return result
    return with_sure(result, sure_of_bitwise(lambda a, b, c: by_table(a, b, c, table), values))


def _depends(table: int, position: int) -> bool:
    """Say whether the table depends on the argument at this position."""
    shift = (4, 2, 1)[position]
    mask = (0x0F, 0x33, 0x55)[position]
    return bool((table >> shift ^ table) & mask)


_COMMON: dict[int, Callable[[Bits, Bits, Bits], Bits]] = {
    0xC0: lambda a, b, c: a & b,
    0xFC: lambda a, b, c: a | b,
    0x3C: lambda a, b, c: a ^ b,
    0xF8: lambda a, b, c: a | b & c,
    0x78: lambda a, b, c: a ^ b & c,
    0x96: lambda a, b, c: a ^ b ^ c,
    0xFE: lambda a, b, c: a | b | c,
    0x80: lambda a, b, c: a & b & c,
    0x33: lambda a, b, c: ~b,
    0xE2: lambda a, b, c: (a & b) | (c & ~b),
}


def by_table(a: Bits, b: Bits, c: Bits, table: int) -> Bits:
    """Return the function of three bits whose value for (1, 1, 1) is the table's bit 7, for (0, 0, 0) bit 0."""
    if table in _COMMON:
        return _COMMON[table](a, b, c)
    result: Bits = np.zeros((1, 1), np.uint32)
    for entry in range(8):
        if table >> entry & 1:
            term = (a if entry & 4 else ~a) & (b if entry & 2 else ~b) & (c if entry & 1 else ~c)
            result = result | term
    return result


def _bitwise_tag(m: Machine, values: tuple[Value, Value, Value], table: int) -> Tag | None:
    """Return the tag if the other arguments keep, invert or clear the high bits of the only one that has one."""
    tagged = [position for position, value in enumerate(values) if value.tag is not None and _depends(table, position)]
    used = [value for position, value in enumerate(values) if _depends(table, position)]
    tags = tuple(value.tag for value in used if value.tag is not None)
    everything = bitwise(tags, all(value.bits.shape[-1] == 1 for value in used))
    others = [_constant_above(value) for position, value in enumerate(values) if position != tagged[0]]
    tag = aligned(values[tagged[0]].tag, max(bits for _, bits in others), m.coarsest)
    if len(tagged) != 1 or tag is None:
        return everything
    outcomes = []
    for bit in (0, 1):
        bits = [other for other, _ in others]
        bits.insert(tagged[0], bit)
        outcomes.append(table >> (bits[0] << 2 | bits[1] << 1 | bits[2]) & 1)
    if outcomes[0] == outcomes[1]:
        return affine(NOTHING, tag.stride)
    return tag if outcomes == [0, 1] else scaled(tag, -1)


def _constant_above(value: Value) -> tuple[int, int]:
    """Return 0 or 1, and from which bit on all bits of the value are that in all lanes; 32 if none is."""
    if value.known is not True:
        return 0, 32
    clear = int(np.bitwise_or.reduce(value.bits, axis=None)).bit_length()
    filled = int(np.bitwise_or.reduce(~value.bits, axis=None)).bit_length()
    return (0, clear) if clear <= filled else (1, filled)


def _keep_masked(m: Machine, value: Value, mask: Value) -> bool:
    """Keep only blocks for which value & mask is 0 or not as here, if the mask is that of a number's high bits."""
    if mask.tag is not None or value.tag is None:
        value, mask = mask, value
    bits = same_for_all(mask.bits) if mask.known is True and mask.tag is None else None
    if not bits or value.tag is None or not m.follows(value):
        return False
    lowest = bits & -bits
    end = bits + lowest
    numbers = value.bits.astype(np.int64)
    if end & (end - 1) or bool((numbers >= end).any()):
        return False
    above = numbers >= lowest
    least, most = np.where(above, lowest, 0), np.where(above, end, lowest) - 1
    m.keep_within(value.tag, numbers, least, most, m.view.mask & np.asarray(value.known))
    return True


def _not_zero(m: Machine, value: Value) -> Value:
    nonzero = derived(value.bits != 0, value)
    if value.tag is not None and not keep_order(m, value, constant(0), no_wrap(m, value, False)):
        nonzero.tag = dependent(value)
    return nonzero


# ---------------------------------------------------------------------------------------------- shifts


# ---------------------------------------------------------------------------------------------- fields and counts


@operation("BMSK", "UBMSK")
def bmsk(ins: SassInstruction) -> Compute | None:
    """b ones, starting at bit a."""
    a, b = (integer(operand) for operand in ins.operands[1:3])
    wraps = ins.has("W")

    def compute(m: Machine) -> tuple[Value | None, ...]:
        first, count = a(m), b(m)
        start = (first.bits & np.uint32(31) if wraps else np.minimum(first.bits, 32)).astype(np.uint64)
        size = (count.bits & np.uint32(31) if wraps else np.minimum(count.bits, 32)).astype(np.uint64)
        ones = (np.uint64(1) << size) - np.uint64(1)
        return (computed(low_half(ones << start), first, count),)

    return compute


@operation("SGXT", "USGXT")
def sgxt(ins: SassInstruction) -> Compute | None:
    """The lowest b bits of a, sign-extended (zero-extended with .U32)."""
    a, b = (integer(operand) for operand in ins.operands[1:3])
    wraps, unsigned = ins.has("W"), ins.has("U32")

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value, count = a(m), b(m)
        size = (count.bits & np.uint32(31) if wraps else np.minimum(count.bits, 32)).astype(np.int64)
        unused = 64 - size
        moved = value.bits.astype(np.uint64) << np.minimum(unused, 63).astype(np.uint64)
        if unsigned:
            bits: Bits = moved >> np.minimum(unused, 63).astype(np.uint64)
        else:
            bits = (moved.view(np.int64) >> np.minimum(unused, 63)).view(np.uint64)
        fields = np.where(size == 0, np.uint32(0), low_half(bits))
        tag = function_of((value.tag, int(size.max())), (count.tag, 32))
        return (derived(fields, value, count, tag=tag),)

    return compute


@operation("POPC", "UPOPC")
def popc(ins: SassInstruction) -> Compute | None:
    """The number of set bits."""
    a = integer(ins.operands[1])
    return lambda m: (_of_bits(a(m), _ones),)


def _ones(bits: Bits) -> Bits:
    as_bytes = np.ascontiguousarray(bits)[..., None].view(np.uint8)
    counts: Bits = np.unpackbits(as_bytes, axis=-1).sum(axis=-1, dtype=np.uint32)
    return counts


def _of_bits(value: Value, function: Callable[[Bits], Bits]) -> Value:
    return computed(function(value.bits), value)


@operation("FLO", "UFLO")
def flo(ins: SassInstruction) -> Compute | None:
    """The highest set bit (of a signed number the highest that differs from its sign); with .SH counted from above."""
    a = integer(ins.operands[1])
    from_above, unsigned = ins.has("SH"), ins.has("U32")

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value = a(m)
        bits = value.bits if unsigned else np.where(value.bits >> np.uint32(31), ~value.bits, value.bits)
        exponent = np.frexp(bits.astype(np.float64))[1].astype(np.int64) - 1
        position = 31 - exponent if from_above else exponent
        return (computed(np.where(bits == 0, FULL, position.astype(np.uint32)), value),)

    return compute


@operation("BREV", "UBREV")
def brev(ins: SassInstruction) -> Compute | None:
    """The bits in reverse."""
    a = integer(ins.operands[1])
    return lambda m: (_of_bits(a(m), reversed_bits),)


def reversed_bits(bits: Bits) -> Bits:
    """Return each number's bits in reverse."""
    result: Bits = np.zeros_like(bits)
    for bit in range(32):
        result = result | (bits >> np.uint32(bit) & ONE) << np.uint32(31 - bit)
    return result
