"""Integer products: 32 bits, 64 bits, and sums of products of packed numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.dependence import Tag, product_halves, scaled, total
from ncu_swizzle.emulate.effects import results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Compute, integer, operation, pair, predicate, raw
from ncu_swizzle.emulate.operations.integer import TOP, added, extended, no_wrap
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
    lowest,
    same_for_all,
    signed,
    wide,
    with_sure,
)


def multiplied(a: Value, b: Value) -> Value:
    """Return the product, modulo 2^32."""
    return with_sure(derived(a.bits * b.bits, a, b, tag=_product_tag(a, b)), lowest(a, b))


def _product_tag(a: Value, b: Value) -> Tag | None:
    if a.tag is None and b.tag is None:
        return None
    for tagged, factor in ((a, b), (b, a)):
        if factor.tag is None and factor.known is True:
            same = same_for_all(factor.bits)
            if same is not None:
                return scaled(tagged.tag, same)
    return dependent(a, b)


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
        upper = _upper(m, whole, low=first_half, sources=sources, is_signed=is_signed, minus=minus)
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
    """Return the tag of the upper half of a product with a constant; None if it has none, see `product_halves`.

    Keeps only blocks in which the lower half carries nothing into the upper one.
    """
    value, constant = sources[:2] if sources[0].tag else (sources[1], sources[0])
    others = [source for source in sources if source is not value]
    same = same_for_all(constant.bits) if constant.known is True else None
    if value.tag is None or same is None or minus or not m.follows(value) or any(other.tag for other in others):
        return None
    factor = same - (1 << 32) if is_signed and same >> 31 else same
    halves = product_halves(value.tag, factor, m.extents, m.coarsest)
    if halves is None:
        return None
    rest, quotient = halves
    no_wrap(m, value, is_signed)
    bounds = np.zeros((1, 1), np.int64), np.full((1, 1), TOP, np.int64)
    m.keep_within(rest, low.bits.astype(np.int64), *bounds, m.view.mask & np.asarray(joint(*sources)))
    return quotient


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
