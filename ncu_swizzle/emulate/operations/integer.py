"""Integer addition, multiplication and comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncu_swizzle.emulate.dependence import Tag, affine, scaled, total
from ncu_swizzle.emulate.effects import results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Reader, integer, pair, predicate, raw
from ncu_swizzle.emulate.operations.registry import Compute, operation
from ncu_swizzle.emulate.parse import PRED, UPRED, Operand, SassInstruction
from ncu_swizzle.emulate.values import (
    Bits,
    Value,
    computed,
    dependent,
    derived,
    first_origin,
    high_half,
    joint,
    low_half,
    same_for_all,
    signed,
    wide,
)

TOP = (1 << 32) - 1


def added(*values: Value) -> Value:
    """Return the sum, modulo 2^32."""
    bits = values[0].bits
    for value in values[1:]:
        bits = bits + value.bits
    return derived(bits, *values, tag=total(*(value.tag for value in values)))


def multiplied(a: Value, b: Value) -> Value:
    """Return the product, modulo 2^32."""
    return derived(a.bits * b.bits, a, b, tag=_product_tag(a, b))


def _product_tag(a: Value, b: Value) -> Tag | None:
    if a.tag is None and b.tag is None:
        return None
    for tagged, factor in ((a, b), (b, a)):
        if factor.tag is None and factor.known is True:
            same = same_for_all(factor.bits)
            if same is not None:
                return scaled(tagged.tag, same)
    return dependent(a, b)


def ordered(m: Machine, a: Value, b: Value, is_signed: bool) -> tuple[Bits, Bits]:
    """Return two numbers to compare, as int64; they do not wrap if `keep_order` applies to them."""
    if m.follows(a, b):
        return no_wrap(m, a, is_signed), no_wrap(m, b, is_signed)
    return (signed(a.bits), signed(b.bits)) if is_signed else (a.bits.astype(np.int64), b.bits.astype(np.int64))


def no_wrap(m: Machine, value: Value, is_signed: bool) -> Bits:
    """Return the numbers as int64, and keep only blocks for which they do not wrap, if `follows` holds."""
    numbers: Bits = signed(value.bits) if is_signed else value.bits.astype(np.int64)
    if value.tag is not None and m.follows(value):
        least, most = (-(1 << 31), (1 << 31) - 1) if is_signed else (0, TOP)
        bounds = np.full((1, 1), least, np.int64), np.full((1, 1), most, np.int64)
        m.keep_within(value.tag, numbers, *bounds, m.view.mask & np.asarray(value.known))
    return numbers


def keep_order(m: Machine, a: Value, b: Value, difference: Bits) -> bool:
    """Keep only blocks for which a - b keeps its sign or stays 0; say whether that was possible."""
    if not m.follows(a, b):
        return False
    tag = total(a.tag, scaled(b.tag, -1))
    if tag is None:
        return True
    if tag.coefficients is None:
        return False
    far = np.int64(1) << 40
    least = np.where(difference > 0, 1, np.where(difference < 0, -far, 0))
    most = np.where(difference > 0, far, np.where(difference < 0, -1, 0))
    m.keep_within(tag, difference, least, most, m.view.mask & np.asarray(joint(a, b)))
    return True


# ---------------------------------------------------------------------------------------------- sums


@operation("IADD3", "UIADD3", "IADD")
def iadd3(ins: SassInstruction) -> Compute | None:
    """a + b + c, with carries out to predicates and in from them (.X)."""
    count = results(ins)
    sources = ins.operands[count:]
    if ins.has("64"):
        return _add64(sources)
    numbers = [operand for operand in sources if operand.kind not in (PRED, UPRED)]
    carries = [predicate(operand) for operand in sources if operand.kind in (PRED, UPRED)] if ins.has("X") else []
    if ins.has("X"):
        readers = [extended(operand) for operand in numbers]
        return lambda m: sums(m, [read(m) for read in readers], [carry(m) for carry in carries], count)
    readers = [integer(operand) for operand in numbers]
    if count == 1:
        return lambda m: (added(*[read(m) for read in readers]),)
    minus = [operand.negated for operand in numbers]
    plain = [raw(operand) for operand in numbers]
    return lambda m: sums(m, [exact(read(m), n) for read, n in zip(plain, minus, strict=True)], [], count)


def extended(operand: Operand) -> Reader:
    """Return a reader of an operand of an .X instruction: - and ~ both invert, and the carry adds the one."""
    read = raw(operand)
    if operand.negated or operand.inverted:
        return lambda m: flipped_bits(read(m))
    return read


def flipped_bits(value: Value) -> Value:
    """Return ~value."""
    return Value(~value.bits, value.known, value.origin, scaled(value.tag, -1))


class Minus(Value):
    """A number to subtract: ~x + 1, whose carry differs from that of -x if x is 0."""


def exact(value: Value, minus: bool) -> Value:
    """Return the value, or its `Minus`, which gives the right carry."""
    if not minus:
        return value
    flipped = flipped_bits(value)
    return Minus(flipped.bits, flipped.known, flipped.origin, flipped.tag)


def sums(m: Machine, values: Sequence[Value], carries: Sequence[Value], count: int) -> tuple[Value | None, ...]:
    """Return the sum of values and carries, modulo 2^32, and the carries out: `count` results in all."""
    ones = sum(isinstance(value, Minus) for value in values)
    whole = np.full((1, 1), ones, np.uint64)
    for value in values:
        whole = whole + value.bits.astype(np.uint64)
    for carry in carries:
        whole = whole + carry.bits
    everything = [*values, *carries]
    tag = total(*(value.tag for value in values), *(dependent(carry) for carry in carries))
    low = derived(low_half(whole), *everything, tag=tag)
    if count == 1:
        return (low,)
    carry_tag = _decided_carry(m, whole, everything, tag)
    over = whole >> np.uint64(32)
    outs = [derived(over > k, *everything, tag=carry_tag) for k in range(count - 1)]
    return (low, *outs)


def _decided_carry(m: Machine, whole: Bits, sources: Sequence[Value], tag: Tag | None) -> Tag | None:
    """Keep only blocks with the same carry, so that it does not depend on the block."""
    if tag is None:
        return None
    if tag.coefficients is None or not m.follows(*sources):
        return dependent(*sources)
    low = (whole & np.uint64(TOP)).astype(np.int64)
    zero, top = np.zeros((1, 1), np.int64), np.full((1, 1), TOP, np.int64)
    m.keep_within(tag, low, zero, top, m.view.mask & np.asarray(joint(*sources)))
    return None


def _add64(sources: Sequence[Operand]) -> Compute:
    readers = [pair(operand) for operand in sources if operand.kind not in (PRED, UPRED)]

    def compute(m: Machine) -> tuple[Value | None, ...]:
        halves = [read(m) for read in readers]
        whole = np.zeros((1, 1), np.uint64)
        for low, high in halves:
            whole = whole + wide(low.bits, high.bits)
        every = [half for both in halves for half in both]
        return computed(low_half(whole), *every), computed(high_half(whole), *every)

    return compute


@operation("VIADD", "UVIADD")
def viadd(ins: SassInstruction) -> Compute | None:
    """a + b."""
    a, b = (integer(operand) for operand in ins.operands[1:3])
    return lambda m: (added(a(m), b(m)),)


# ---------------------------------------------------------------------------------------------- products


@operation("IMAD", "UIMAD")
def imad(ins: SassInstruction) -> Compute | None:
    """a * b + c: 32 bits of it, 64 (.WIDE), or the upper half (.HI)."""
    if ins.has("WIDE", "HI"):
        return _wide_product(ins)
    count = results(ins)
    a, b, c = (integer(operand) for operand in ins.operands[count : count + 3])
    if ins.has("X"):
        carry = predicate(ins.operands[count + 3])
        readers = [extended(operand) for operand in ins.operands[count : count + 3]]
        return lambda m: _product_and_carry([read(m) for read in readers], carry(m))
    if count > 1:
        return None
    return lambda m: (added(multiplied(a(m), b(m)), c(m)),)


def _product_and_carry(values: Sequence[Value], carry: Value) -> tuple[Value | None, ...]:
    a, b, c = values
    product = multiplied(a, b)
    bits = product.bits + c.bits + carry.bits.astype(np.uint32)
    return (derived(bits, product, c, carry, tag=total(product.tag, c.tag, dependent(carry))),)


def _wide_product(ins: SassInstruction) -> Compute | None:
    count = results(ins)
    first, second, third = ins.operands[count : count + 3]
    plain = [raw(first), raw(second)]
    minus = first.negated != second.negated
    addend = pair(third)
    carry = predicate(ins.operands[count + 3]) if ins.has("X") else None
    is_signed = not ins.has("U32")
    only_high = ins.has("HI")

    def compute(m: Machine) -> tuple[Value | None, ...]:
        a, b = (read(m) for read in plain)
        low, high = addend(m)
        sources = [a, b, low, high, *([carry(m)] if carry else [])]
        if joint(a, b, low) is False:
            nothing = Value(np.zeros((1, 32), np.uint32), False, first_origin(a, b, low))
            return (*([nothing] if only_high else [nothing, nothing]), *_no_carry(count, nothing))
        whole, over = _accumulated(sources, is_signed, minus)
        low_tag = total(scaled(_product_tag(a, b), -1 if minus else 1), low.tag)
        first_half = derived(low_half(whole), a, b, low, *sources[4:], tag=low_tag)
        upper = _upper(m, whole, first_half, sources, is_signed, minus)
        halves = [upper] if only_high else [first_half, upper]
        return (*halves, *([computed(over, *sources)] if count > 1 else []))

    return compute


def _no_carry(count: int, nothing: Value) -> list[Value]:
    return [Value(np.zeros((1, 32), bool), False, nothing.origin)] * (count - 1)


def _accumulated(sources: Sequence[Value], is_signed: bool, minus: bool) -> tuple[Bits, Bits]:
    """Return a * b + c (+ carry) modulo 2^64, and whether the sum overflowed."""
    a, b, low, high = sources[:4]
    if is_signed:
        product = (signed(a.bits) * signed(b.bits)).view(np.uint64)
    else:
        product = a.bits.astype(np.uint64) * b.bits.astype(np.uint64)
    if minus:
        product = np.uint64(0) - product
    whole = product + wide(low.bits, high.bits)
    over = whole < product
    if len(sources) > 4:
        carry = sources[4].bits.astype(np.uint64)
        over = over | ((whole + carry) < whole)
        whole = whole + carry
    return whole, over


def _upper(
    m: Machine, whole: Bits, low: Value, sources: Sequence[Value], is_signed: bool, minus: bool = False
) -> Value:
    """Return the upper half; keep only blocks whose lower half stays within 32 bits, so that it is fixed."""
    upper = derived(high_half(whole), *sources)
    tags = [source.tag for source in sources]
    if not any(tags):
        return upper
    a, b, addend, high = sources[:4]
    flat = low.tag is not None and m.follows(low, *sources) and high.tag is None and len(sources) == 4
    if flat and low.tag is not None and _small_steps(low.tag) and _factor_is_plain(a, b, is_signed):
        zero, top = np.zeros((1, 1), np.int64), np.full((1, 1), TOP, np.int64)
        for factor in (a, b):
            no_wrap(m, factor, is_signed)
        no_wrap(m, addend, False)
        m.keep_within(low.tag, low.bits.astype(np.int64), zero, top, m.view.mask & np.asarray(joint(*sources)))
        return upper
    upper.tag = _quotient_tag(m, low, sources, is_signed, minus) or dependent(*sources)
    return upper


def _quotient_tag(m: Machine, low: Value, sources: Sequence[Value], is_signed: bool, minus: bool) -> Tag | None:
    """Return the tag of the upper half of a product with a constant, which is how compilers divide by one.

    At some stride, the divisor, the product changes by nearly a multiple of 2^32. Keeps only blocks in which the rest
    of that change carries nothing into the upper half. None if there is no such stride.
    """
    value, constant = sources[:2] if sources[0].tag else (sources[1], sources[0])
    others = [source for source in sources if source is not value]
    same = same_for_all(constant.bits) if constant.known is True else None
    if same is None or minus or not m.follows(value) or any(other.tag for other in others):
        return None
    assert value.tag is not None
    assert value.tag.coefficients is not None
    factor = same - (1 << 32) if is_signed and same >> 31 else same
    strides = [
        _dividing_stride(c * factor, size, m.coarsest) for c, size in zip(value.tag.coefficients, m.grid, strict=True)
    ]
    if None in strides:
        return None
    changes = [c * factor * (step or 1) for c, step in zip(value.tag.coefficients, strides, strict=True)]
    quotients = [(change + (1 << 31)) >> 32 for change in changes]
    x, y, z = (step * (more or 1) for step, more in zip(value.tag.stride, strides, strict=True))
    rests = [change - (quotient << 32) for change, quotient in zip(changes, quotients, strict=True)]
    no_wrap(m, value, is_signed)
    bounds = np.zeros((1, 1), np.int64), np.full((1, 1), TOP, np.int64)
    rest = affine((rests[0], rests[1], rests[2]), (x, y, z))
    m.keep_within(rest, low.bits.astype(np.int64), *bounds, m.view.mask & np.asarray(joint(*sources)))
    return affine((quotients[0], quotients[1], quotients[2]), (x, y, z))


def _dividing_stride(change: int, blocks: int, most: int) -> int | None:
    """Return the least stride whose change is so near a multiple of 2^32 that the rest carries nothing in the grid."""
    for stride in range(1, most + 1):
        rest = (change * stride + (1 << 31)) % (1 << 32) - (1 << 31)
        if abs(rest) * (blocks // stride) < 1 << 31:
            return stride
    return None


def _small_steps(tag: Tag) -> bool:
    return tag.coefficients is not None and all(abs(c) < 1 << 30 for c in tag.coefficients)


def _factor_is_plain(a: Value, b: Value, is_signed: bool) -> bool:
    """Say whether the product's step from block to block is small enough to be what its tag says."""
    for tagged, factor in ((a, b), (b, a)):
        if tagged.tag is not None and factor.tag is None:
            same = same_for_all(factor.bits)
            steps = tagged.tag.coefficients
            if same is None or steps is None:
                return False
            value = same - (1 << 32) if is_signed and same >> 31 else same
            return all(abs(step * value) < 1 << 30 for step in steps)
    return a.tag is None and b.tag is None


@operation("IDP", "UIDP")
def idp(ins: SassInstruction) -> Compute | None:
    """The sum of products of packed numbers, and c: four bytes by four (.4A), or two half words by two bytes (.2A)."""
    kinds = [word for word in ins.modifiers if word in ("S8", "U8", "S16", "U16")]
    if len(kinds) != 2 or not ins.has("4A", "2A"):
        return None
    count = 4 if ins.has("4A") else 2
    first = 2 if ins.has("HI") and count == 2 else 0
    a, b = (raw(operand) for operand in ins.operands[1:3])
    c = integer(ins.operands[3])

    def compute(m: Machine) -> tuple[Value | None, ...]:
        values = a(m), b(m), c(m)
        result = values[2].bits.astype(np.int64)
        for position in range(count):
            factor = _field(values[0].bits, 32 // count * position, kinds[0])
            result = result + factor * _field(values[1].bits, 8 * (position + first), kinds[1])
        return (computed((result & TOP).astype(np.uint32), *values),)

    return compute


def _field(bits: Bits, start: int, kind: str) -> Bits:
    """Return the 8 or 16 bits from `start` on as int64."""
    size = int(kind[1:])
    field: Bits = (bits >> np.uint32(start) & np.uint32((1 << size) - 1)).astype(np.int64)
    return np.where(field >> (size - 1), field - (1 << size), field) if kind[0] == "S" else field
