"""What opcodes are made of: each primitive's value, tag and known bits, in one place.

A tag says how a value depends on the block or the iteration (see `dependence`). A primitive that decides something,
such as a comparison, keeps only the blocks for which the decision is the same (`Machine.keep_within`): its result needs
no tag. Arrays are (warps of the view or 1, 32 lanes or 1), uint32 or bool unless a docstring says otherwise.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ncu_swizzle.emulate.dependence import (
    ALIKE,
    EVERY,
    NOTHING,
    Tag,
    affine_tag,
    aligned_tag,
    bitwise_tag,
    changing_tag,
    function_tag,
    product_halves,
    right_shift_tag,
    scaled_tag,
    sum_tag,
    trailing_zeros,
)
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.values import (
    I32,
    Bits,
    Known,
    Value,
    all_known,
    computed,
    constant,
    dependent_tag,
    derived,
    first_origin,
    high_half,
    join_halves,
    known_in,
    low_half,
    lowest_known_bits,
    same_for_all,
    signed,
    sure_bits,
    sure_bits_of_bitwise,
    sure_bits_of_either,
    truth,
    with_sure_bits,
)
from ncu_swizzle.smem.operations import Bools, Ints

TOP = (1 << 32) - 1
FAR = np.int64(1) << 40  # farther than 32-bit numbers and their differences can be
ZERO = np.zeros((1, 1), np.int64)
LIMIT = np.full((1, 1), TOP, np.int64)

# ---------------------------------------------------------------------------------------------- sums and products


def add(*values: Value) -> Value:
    """Return the sum, modulo 2^32."""
    bits = values[0].bits
    for value in values[1:]:
        bits = bits + value.bits
    return with_sure_bits(
        derived(bits, *values, tag=sum_tag(*(value.tag for value in values))), lowest_known_bits(*values)
    )


def multiple(value: Value, factor: int) -> Value:
    """Return a multiple of the value, modulo 2^32; -1 negates it."""
    bits = value.bits * np.uint32(factor & TOP)
    return Value(bits, value.known, value.origin, scaled_tag(value.tag, factor))


def bitwise_not(value: Value) -> Value:
    """Return ~value, which is -value - 1: it changes as -value does."""
    return Value(~value.bits, value.known, value.origin, scaled_tag(value.tag, -1))


def absolute_value(m: Machine, value: Value) -> Value:
    """Return |value|."""
    return select(m, compare_numbers(m, value, constant(-1), "GT", True), value, multiple(value, -1))


def sums(m: Machine, terms: Sequence[tuple[Value, bool]], carries: Sequence[Value], count: int) -> tuple[Value, ...]:
    """Return the sum of terms (negated where marked) and carries, modulo 2^32; then `count` - 1 carries out."""
    if count == 1 and not carries:
        return (add(*(multiple(value, -1) if minus else value for value, minus in terms)),)
    # -x is ~x + 1, whose carry differs from that of 0 - x if x is 0.
    values = [bitwise_not(value) if minus else value for value, minus in terms]
    total_bits = np.full((1, 1), sum(minus for _, minus in terms), np.uint64)
    for value in (*values, *carries):
        total_bits = total_bits + value.bits.astype(np.uint64)
    sources = [*values, *carries]
    tag = sum_tag(*(value.tag for value in values), *(dependent_tag(carry) for carry in carries))
    low = derived(low_half(total_bits), *sources, tag=tag)
    if count == 1:
        return (low,)
    carry_tag = None
    if tag is not None and (tag.coefficients is None or not m.follows(*sources)):
        carry_tag = dependent_tag(*sources)
    elif tag is not None:  # blocks whose sum does not wrap have the same carry
        m.keep_within(tag, low.bits.astype(np.int64), ZERO, LIMIT, m.view.mask & np.asarray(all_known(*sources)))
    over = total_bits >> np.uint64(32)
    return (low, *(derived(over > k, *sources, tag=carry_tag) for k in range(count - 1)))


def add_wide(*pairs: tuple[Value, Value]) -> tuple[Value, Value]:
    """Return the halves of a sum of 64-bit numbers."""
    bits = np.zeros((1, 1), np.uint64)
    for low, high in pairs:
        bits = bits + join_halves(low.bits, high.bits)
    return add(*(low for low, _ in pairs)), computed(high_half(bits), *(half for pair in pairs for half in pair))


def multiply(a: Value, b: Value) -> Value:
    """Return the product, modulo 2^32."""
    return with_sure_bits(derived(a.bits * b.bits, a, b, tag=_product_tag(a, b)), lowest_known_bits(a, b))


def _product_tag(a: Value, b: Value) -> Tag | None:
    if a.tag is None and b.tag is None:
        return None
    for tagged, factor in ((a, b), (b, a)):
        if factor.tag is None and factor.certain and (same := same_for_all(factor.bits)) is not None:
            return scaled_tag(tagged.tag, same)
    tags = [value.tag for value in (a, b) if value.tag is not None]
    if any(not changes_anyhow(tag) for tag in tags):
        return dependent_tag(a, b)
    # (a + 2^i u)(b + 2^j v) = ab + 2^i u b + 2^j v a + 2^(i + j) u v: lanes whose a, or b, differ move apart.
    zeros = [trailing_zeros(int(np.bitwise_or.reduce(value.bits, axis=None))) for value in (a, b)]
    align, apart = ALIKE, ALIKE
    for value, other, of_other in ((a, b, zeros[1]), (b, a, zeros[0])):
        if value.tag is None:
            continue
        most = of_other if other.tag is None else min(of_other, other.tag.align)
        align = min(align, value.tag.align + most)
        uniform = other.bits.shape[1] == 1 and other.known is True
        apart = min(apart, (value.tag.apart if uniform else value.tag.align) + most)
    return changing_tag(
        functools.reduce(operator.or_, (tag.dims for tag in tags)), min(align, ALIKE), min(apart, ALIKE)
    )


def changes_anyhow(tag: Tag) -> bool:
    """Return whether a tag says only of what its value's changes are multiples."""
    return tag.coefficients is None and tag.stride == EVERY


def first_difference(m: Machine, first: int, *values: Value) -> int:
    """Return the lowest bit, from `first` on, in which active lanes of a warp differ in one of the values; or 32."""
    differing = 0
    for value in values:
        if value.known is not True:
            return first
        if value.bits.shape[1] > 1:
            lanes = np.broadcast_to(value.bits, m.view.mask.shape)
            one = np.take_along_axis(lanes, m.view.mask.argmax(axis=1)[:, None], axis=1)
            differing |= int(np.bitwise_or.reduce(np.where(m.view.mask, lanes ^ one, 0), axis=None))
    return first + trailing_zeros(differing >> first) if differing >> first else ALIKE


def multiply_wide(m: Machine, sources: Sequence[Value], is_signed: bool, minus: bool) -> tuple[Value, Value, Value]:
    """Return the halves of a * b + c, or of -a * b + c, and whether it overflows 64 bits.

    `sources`: a, b, the halves of c, and a carry, if one comes in.
    """
    a, b, low, high, *carries = sources
    if all_known(a, b, low) is False:
        nothing = Value(np.zeros((1, 32), np.uint32), False, first_origin(a, b, low))
        return nothing, nothing, Value(np.zeros((1, 32), bool), False, nothing.origin)
    if is_signed:
        product = (signed(a.bits) * signed(b.bits)).view(np.uint64)
    else:
        product = a.bits.astype(np.uint64) * b.bits.astype(np.uint64)
    product = np.uint64(0) - product if minus else product
    wide_sum = product + join_halves(low.bits, high.bits)
    over = wide_sum < product
    for carry in carries:
        before, wide_sum = wide_sum, wide_sum + carry.bits.astype(np.uint64)
        over = over | (wide_sum < before)
    lower_tag = sum_tag(scaled_tag(_product_tag(a, b), -1 if minus else 1), low.tag)
    lower = derived(low_half(wide_sum), a, b, low, *carries, tag=lower_tag)
    upper = derived(high_half(wide_sum), *sources)
    if any(source.tag for source in sources):
        upper.tag = _upper_tag(m, lower, sources, is_signed, minus)
    return lower, upper, computed(over, *sources)


def _upper_tag(m: Machine, lower: Value, sources: Sequence[Value], is_signed: bool, minus: bool) -> Tag | None:
    """Return the tag of the upper half of a * b + c; keeps blocks whose lower half carries nothing into it, if it can.

    The upper half is then the same for all blocks, or steps as the quotient of a division does: see `product_halves`.
    """
    a, b, low, high, *carries = sources
    lanes = m.view.mask & np.asarray(all_known(*sources))
    steps = None if lower.tag is None else lower.tag.coefficients
    fixed = steps is not None and m.follows(lower, *sources) and high.tag is None and not carries
    if fixed and steps is not None and max(map(abs, steps)) < SMALL and _steps_little(a, b, is_signed):
        for number, with_sign in ((a, is_signed), (b, is_signed), (low, False)):
            no_wrap(m, number, with_sign)
        m.keep_within(lower.tag, lower.bits.astype(np.int64), ZERO, LIMIT, lanes)
        return None
    tagged, factor = (a, b) if a.tag else (b, a)
    same = same_for_all(factor.bits) if factor.certain else None
    others = [source for source in sources if source is not tagged and source.tag]
    if tagged.tag is not None and same is not None and not minus and m.follows(tagged) and not others:
        multiple = same - (1 << 32) if is_signed and same >> 31 else same
        halves = product_halves(tagged.tag, multiple, m.extents, m.coarsest_stride)
        if halves is not None:
            no_wrap(m, tagged, is_signed)
            m.keep_within(halves[0], lower.bits.astype(np.int64), ZERO, LIMIT, lanes)
            return halves[1]
    return dependent_tag(*sources)


SMALL = 1 << 30  # steps from block to block below this do not wrap around


def _steps_little(a: Value, b: Value, is_signed: bool) -> bool:
    """Return whether the product's step from block to block is too small to wrap."""
    for tagged, factor in ((a, b), (b, a)):
        if tagged.tag is not None and factor.tag is None:
            same, steps = same_for_all(factor.bits), tagged.tag.coefficients
            if same is None or steps is None:
                return False
            number = same - (1 << 32) if is_signed and same >> 31 else same
            return all(abs(step * number) < SMALL for step in steps)
    return a.tag is None and b.tag is None


# ---------------------------------------------------------------------------------------------- comparisons


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "LT": np.less,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GT": np.greater,
    "NE": np.not_equal,
    "GE": np.greater_equal,
}


def numbers(bits: Bits, is_signed: bool) -> Ints:
    """Return 32-bit numbers as int64."""
    return signed(bits) if is_signed else bits.astype(np.int64)


def no_wrap(m: Machine, value: Value, is_signed: bool) -> Ints:
    """Return the numbers as int64; keep only blocks for which they do not wrap, if their steps are followed."""
    result = numbers(value.bits, is_signed)
    if value.tag is not None and m.follows(value):
        least, most = (-(1 << 31), (1 << 31) - 1) if is_signed else (0, TOP)
        m.keep_within(value.tag, result, ZERO + least, ZERO + most, m.view.mask & np.asarray(value.known))
    return result


def compare_numbers(m: Machine, a: Value, b: Value, relation: str, is_signed: bool) -> Value:
    """Return whether a relation of COMPARISONS holds; keeps blocks in which a - b keeps its sign, or stays 0."""
    compare = COMPARISONS[relation]
    if a.tag is None and b.tag is None:
        return derived(compare(a.bits.view(I32), b.bits.view(I32)) if is_signed else compare(a.bits, b.bits), a, b)
    if not m.follows(a, b):
        result = computed(compare(numbers(a.bits, is_signed), numbers(b.bits, is_signed)), a, b)
        return _compared_alike(m, a, b, result, relation)
    first, second = no_wrap(m, a, is_signed), no_wrap(m, b, is_signed)
    result, difference = computed(compare(first, second), a, b), first - second
    tag = sum_tag(a.tag, scaled_tag(b.tag, -1))
    if result.tag is None or (tag is not None and tag.coefficients is None):
        return result
    least = np.where(difference > 0, 1, np.where(difference < 0, -FAR, 0))
    most = np.where(difference > 0, FAR, np.where(difference < 0, -1, 0))
    m.keep_within(tag, difference, least, most, m.view.mask & np.asarray(all_known(a, b)))
    result.tag = None
    return result


def _compared_alike(m: Machine, a: Value, b: Value, result: Value, relation: str) -> Value:
    """Mark the result as the same in all lanes of each warp, if it certainly is.

    It is if the bits that may change are the same in all lanes, and so is the relation of those below, which decides if
    the others are equal: t + 256 u < 256 v, for t below 256.
    """
    tags = [value.tag for value in (a, b) if value.tag is not None]
    if result.bits.shape[1] == 1 or not all(changes_anyhow(tag) and tag.uniform for tag in tags):
        return result
    align = min(tag.align for tag in tags)
    low = np.uint32((1 << align) - 1)
    below = COMPARISONS[relation](a.bits & low, b.bits & low)
    if first_difference(m, align, a, b) < ALIKE or first_difference(m, 0, Value(below)) < ALIKE:
        return result
    bits = np.take_along_axis(
        np.broadcast_to(result.bits, m.view.mask.shape), m.view.mask.argmax(axis=1)[:, None], axis=1
    )
    return Value(bits, tag=changing_tag(functools.reduce(operator.or_, (tag.dims for tag in tags))))


def select(m: Machine, choice: Value, a: Value, b: Value) -> Value:
    """Return a where the choice is true, elsewhere b; an unknown choice between equal bits decides nothing."""
    bits = np.where(choice.bits, a.bits, b.bits)
    tag = _chosen_tag(choice, a, b, m.view.mask)
    if choice.known is True and a.known is True and b.known is True:
        return Value(bits, True, None, tag)
    known = np.where(choice.bits, np.asarray(a.known), np.asarray(b.known)) & choice.known
    return with_sure_bits(Value(bits, known, first_origin(choice, a, b), tag), sure_bits_of_either(choice, a, b))


def _chosen_tag(choice: Value, a: Value, b: Value, lanes: Bools) -> Tag | None:
    """Return the common tag, or that of the only value that lanes select."""
    if choice.tag is not None or not known_in(choice, lanes):
        return dependent_tag(choice, a, b)
    if bool((choice.bits | ~lanes).all()):
        return a.tag
    if not bool((choice.bits & lanes).any()):
        return b.tag
    if a.tag == b.tag and (a.tag is None or a.tag.coefficients is not None):
        return a.tag  # both change by the same; by multiples of the same, each may change by another
    uniform = choice.bits.shape[-1] == a.bits.shape[-1] == b.bits.shape[-1] == 1
    tags = tuple(tag for tag in (a.tag, b.tag) if tag is not None)
    if choice.bits.shape[-1] == 1 and all(map(changes_anyhow, tags)):  # every warp takes one
        align, apart = min(tag.align for tag in tags), min(tag.apart for tag in tags)
        return changing_tag(functools.reduce(operator.or_, (tag.dims for tag in tags)), align, apart)
    return bitwise_tag(tags, uniform)


def minimum_or_maximum(m: Machine, a: Value, b: Value, smaller: Value, is_signed: bool) -> Value:
    """Return the minimum where `smaller` is true, elsewhere the maximum."""
    return select(m, exclusive_or(compare_numbers(m, a, b, "LT", is_signed), negation(smaller)), a, b)


# ---------------------------------------------------------------------------------------------- predicates


def conjunction(a: Value, b: Value) -> Value:
    """Return a and b; known to be false if one of them is."""
    bits = a.bits & b.bits
    known: Known = True
    if a.known is not True or b.known is not True:
        no = (~a.bits & a.known) | (~b.bits & b.known)
        sure = no | (np.asarray(a.known) & np.asarray(b.known))
        known = True if np.all(sure) else np.asarray(sure)
        bits = bits & ~no
    return Value(bits, known, first_origin(a, b), dependent_tag(a, b))


def negation(a: Value) -> Value:
    """Return not a."""
    return Value(~a.bits, a.known, a.origin, a.tag)


def disjunction(a: Value, b: Value) -> Value:
    """Return a or b; known to be true if one of them is."""
    return negation(conjunction(negation(a), negation(b)))


def exclusive_or(a: Value, b: Value) -> Value:
    """Return a xor b."""
    return computed(a.bits ^ b.bits, a, b)


COMBINATIONS = {"AND": conjunction, "OR": disjunction, "XOR": exclusive_or}


def predicate_by_table(values: Sequence[Value], table: int) -> Value:
    """Return the function of three predicates whose value for (1, 1, 1) is the table's bit 7, for (0, 0, 0) bit 0.

    It is the disjunction of the true entries, each a conjunction: unknowns that cannot change it do not matter.
    """
    always, never = table & 0xFF == 0xFF, table & 0xFF == 0
    if always or never:
        return truth(always)
    result = truth(False)
    for entry in range(8):
        if table >> entry & 1:
            term = truth(True)
            for position, value in enumerate(values):
                term = conjunction(term, value if entry >> (2 - position) & 1 else negation(value))
            result = disjunction(result, term)
    return result


# ---------------------------------------------------------------------------------------------- bits


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


def bits_by_table(a: Bits, b: Bits, c: Bits, table: int) -> Bits:
    """Return the function of three bits whose value for (1, 1, 1) is the table's bit 7, for (0, 0, 0) bit 0."""
    if table in _COMMON:
        return _COMMON[table](a, b, c)
    result: Bits = np.zeros((1, 1), np.uint32)
    for entry in range(8):
        if table >> entry & 1:
            term = (a if entry & 4 else ~a) & (b if entry & 2 else ~b) & (c if entry & 1 else ~c)
            result = result | term
    return result


def logic(m: Machine, values: tuple[Value, Value, Value], table: int) -> Value:
    """Return a function of three bits, by its table, of each bit of three numbers."""
    # The table depends on an argument if it changes when that argument's bit of the entry's number does.
    shifts = ((0, 4, 0x0F), (1, 2, 0x33), (2, 1, 0x55))
    used = [position for position, shift, mask in shifts if (table >> shift ^ table) & mask]
    sources = [values[position] for position in used]
    tag = _logic_tag(m, values, used, table) if any(value.tag for value in sources) else None
    result = derived(bits_by_table(values[0].bits, values[1].bits, values[2].bits, table), *sources, tag=tag)
    if result.known is True:
        return result
    return with_sure_bits(result, sure_bits_of_bitwise(lambda a, b, c: bits_by_table(a, b, c, table), values))


def _logic_tag(m: Machine, values: tuple[Value, Value, Value], used: Sequence[int], table: int) -> Tag | None:
    """Return the tag if the other arguments keep, invert or clear the high bits of the only one that has one."""
    tagged = [position for position in used if values[position].tag is not None]
    one = tagged[0]
    others = [_constant_above(value) for position, value in enumerate(values) if position != one]
    tag = aligned_tag(values[one].tag, max(bits for _, bits in others), m.coarsest_stride)
    if len(tagged) != 1 or tag is None:
        return _bitwise_tag(m, [values[position] for position in used])
    outcomes = []  # of a high bit that is 0, and that is 1
    for bit in (0, 1):
        entry = [other for other, _ in others]
        entry.insert(one, bit)
        outcomes.append(table >> (entry[0] << 2 | entry[1] << 1 | entry[2]) & 1)
    if outcomes[0] == outcomes[1]:
        return affine_tag(NOTHING, tag.stride)
    return tag if outcomes == [0, 1] else scaled_tag(tag, -1)


def _bitwise_tag(m: Machine, sources: Sequence[Value]) -> Tag | None:
    """Return the tag of any bitwise function: lanes change alike up to where they, or what they change by, differ."""
    tags = tuple(source.tag for source in sources if source.tag is not None)
    tag = bitwise_tag(tags, all(source.bits.shape[-1] == 1 for source in sources))
    if tag is None or tag.uniform or not all(map(changes_anyhow, tags)):
        return tag
    # Below the lowest bit that changes, nothing carries: from there on, lanes with the same bits get the same carries.
    align = min(tag.align for tag in tags)
    apart = min(first_difference(m, align, *sources), *(tag.apart for tag in tags))
    return changing_tag(tag.dims, align, apart)


def _constant_above(value: Value) -> tuple[int, int]:
    """Return 0 or 1, and the bit from which on all bits of the value equal it in all lanes; 32 if none do."""
    if value.known is not True:
        return 0, 32
    clear = int(np.bitwise_or.reduce(value.bits, axis=None)).bit_length()
    filled = int(np.bitwise_or.reduce(~value.bits, axis=None)).bit_length()
    return (0, clear) if clear <= filled else (1, filled)


def masked_not_zero(m: Machine, value: Value, mask: Value, masked: Value) -> Value:
    """Return whether `masked`, value & mask, is not 0; keeps blocks with the same answer, if it can.

    It can if the mask is that of a number's high bits, above which the number is 0.
    """
    if mask.tag is not None or value.tag is None:
        value, mask = mask, value
    bits = same_for_all(mask.bits) if mask.known is True and mask.tag is None else None
    if bits and value.tag is not None and m.follows(value):
        lowest_bit = bits & -bits
        end = bits + lowest_bit
        number = value.bits.astype(np.int64)
        if not end & (end - 1) and not bool((number >= end).any()):
            above = number >= lowest_bit
            least, most = np.where(above, lowest_bit, 0), np.where(above, end, lowest_bit) - 1
            m.keep_within(value.tag, number, least, most, m.view.mask & np.asarray(value.known))
            return derived(masked.bits != 0, masked)
    return compare_numbers(m, masked, constant(0), "NE", False)


FEW = 64  # a coarser stride leaves more kinds of blocks than neighbours with the same quotient do


def quotient_tag(m: Machine, value: Value, bits: int, is_signed: bool, most: int, fixed: bool) -> Tag | None:
    """Return the tag of value >> bits, which is the same in all lanes: at a stride up to `most`, if there is one.

    Else, if `fixed`, only blocks with the same quotient are kept.
    """
    if value.tag is None:
        return None
    if changes_anyhow(value.tag):
        return _shifted_anyhow(m, value, value.tag, bits)
    if not m.follows(value):
        return dependent_tag(value)
    fine = aligned_tag(value.tag, bits, most)
    if fine:
        no_wrap(m, value, is_signed)
        return right_shift_tag(fine, bits)
    if not fixed:
        return dependent_tag(value)
    number = numbers(value.bits, is_signed)
    least = (number >> bits) << bits
    top = least + (1 << bits) - 1
    m.keep_within(
        value.tag,
        number,
        least,
        np.minimum(top, (1 << 31) - 1) if is_signed else top,
        m.view.mask & np.asarray(value.known),
    )
    return None


def _shifted_anyhow(m: Machine, value: Value, tag: Tag, bits: int) -> Tag | None:
    """Return the tag of value >> bits."""
    same = first_difference(m, tag.align, value)
    if same == ALIKE and tag.uniform:  # the changing bits are the same in all lanes, those below do not change
        return changing_tag(tag.dims, max(0, tag.align - bits))
    if tag.align < bits:
        return dependent_tag(value)
    # A value that wraps around loses a multiple of 2^32, in some lanes.
    return changing_tag(tag.dims, tag.align - bits, min(tag.apart, ALIKE) - bits)


def shift_left(value: Value, count: Value, steps: Bits, fixed: int | None) -> Value:
    """Return the value shifted left by `steps`, derived from `count`; `fixed` if all lanes have the same."""
    if fixed is not None and fixed < 32:
        return multiple(value, 1 << fixed)
    moved = value.bits.astype(np.uint64) << np.minimum(steps, 63).astype(np.uint64)
    return computed(low_half(np.where(steps >= 32, np.uint64(0), moved)), value, count)


def shift_right(m: Machine, value: Value, count: Value, steps: Bits, fixed: int | None, *, is_signed: bool) -> Value:
    """Return the value shifted right; parameters as for `shift_left`."""
    few = np.minimum(steps, np.uint32(31))
    if is_signed:
        bits = (value.bits.view(I32) >> few.astype(I32)).view(np.uint32)
    else:
        bits = np.where(steps > 31, np.uint32(0), value.bits >> few)
    if fixed is None or value.tag is None:
        return computed(bits, value, count)
    # Of the sign alone, neighbours that have the same are worth more than any stride.
    tag = quotient_tag(m, value, fixed, is_signed, m.coarsest_stride, fixed=is_signed and fixed == 31)
    return derived(bits, value, count, tag=tag)


def funnel_left(m: Machine, low: Value, high: Value, fixed: int, sign_extends: bool = False) -> Value:
    """Return the upper half of high:low << fixed, which is high:low >> 32 - fixed.

    `sign_extends`: high is the sign of low, and has no tag.
    """
    bits = high_half(join_halves(low.bits, high.bits) << np.uint64(fixed))
    if low.tag is not None and (sign_extends or (high.tag is None and same_for_all(high.bits) == 0)):
        tag = quotient_tag(m, low, 32 - fixed, sign_extends, min(FEW, m.coarsest_stride), fixed=True)
    else:
        tag = dependent_tag(low, high)
    return derived(bits, low, high, tag=tag)


def sign_of(value: Value) -> Value:
    """Return the sign in all bits, the upper half of a sign-extended number; its tag is the lower half's."""
    return Value((value.bits.view(I32) >> 31).view(np.uint32), value.known, value.origin)


def permute_bytes(low: Value, selector: Value, high: Value) -> Value:
    """Return four bytes of high:low, picked by one digit each: 3 bits number the byte, 8 takes only its sign."""
    digits = same_for_all(selector.bits) if selector.known is True and selector.tag is None else None
    if digits is None:
        return computed(_bytes_by_lane(low.bits, selector.bits, high.bits), low, selector, high)
    # A result depends on the lower bits of the numbers, up to the highest byte that it takes.
    highest = [-1, -1]
    for position in range(4):
        digit = digits >> 4 * position & 7
        highest[digit >> 2] = max(highest[digit >> 2], digit & 3)
    used = [(value, 8 * (highest[half] + 1)) for half, value in enumerate((low, high)) if highest[half] >= 0]
    tag = function_tag(*((value.tag, bits) for value, bits in used))
    picked = derived(_bytes(low.bits, digits, high.bits), selector, *(value for value, _ in used), tag=tag)
    if picked.known is True:
        return picked
    return with_sure_bits(picked, _bytes(sure_bits(low), digits, sure_bits(high)))


def _bytes_by_lane(low: Bits, selector: Bits, high: Bits) -> Bits:
    both = join_halves(low, high)
    result: Bits = np.zeros((1, 1), np.uint64)
    for position in range(4):
        digit = selector >> np.uint32(4 * position) & np.uint32(0xF)
        byte = both >> (8 * (digit & np.uint32(7))).astype(np.uint64) & np.uint64(0xFF)
        filled = np.where(byte >> np.uint64(7) & np.uint64(1), np.uint64(0xFF), np.uint64(0))
        byte = np.where(digit & np.uint32(8), filled, byte)
        result = result | byte << np.uint64(8 * position)
    return low_half(result)


def _bytes(low: Bits, selector: int, high: Bits) -> Bits:
    """Return the picked bytes if all lanes have the same selector: they are copied as bytes."""
    picked = np.empty(np.broadcast_shapes(low.shape, high.shape), np.uint32)
    halves = [np.ascontiguousarray(half)[..., None].view(np.uint8) for half in (low, high)]  # (…, 4) each
    for position in range(4):
        digit = selector >> 4 * position
        byte = halves[digit >> 2 & 1][..., digit & 3]
        picked[..., None].view(np.uint8)[..., position] = np.where(byte & 0x80, 0xFF, 0) if digit & 8 else byte
    return picked
