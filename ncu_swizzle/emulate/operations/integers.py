"""Integers, bits and predicates: each opcode as an expression over primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ncu_swizzle.emulate.code import INTEGER, PRED, UPRED, Operand, SassInstruction
from ncu_swizzle.emulate.dependence import function_tag
from ncu_swizzle.emulate.effects import operand_number, results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import (
    PREDICATES,
    Compute,
    Reader,
    apply,
    extended_integer,
    integer,
    operation,
    pair,
    predicate,
    raw,
)
from ncu_swizzle.emulate.operations.primitives import (
    COMBINATIONS,
    COMPARISONS,
    TOP,
    absolute_value,
    add,
    add_wide,
    compare_numbers,
    conjunction,
    disjunction,
    funnel_left,
    logic,
    masked_not_zero,
    minimum_or_maximum,
    multiple,
    multiply,
    multiply_wide,
    negation,
    permute_bytes,
    predicate_by_table,
    select,
    shift_left,
    shift_right,
    sign_of,
    sums,
)
from ncu_swizzle.emulate.values import (
    Bits,
    Value,
    computed,
    constant,
    derived,
    high_half,
    join_halves,
    low_half,
    same_for_all,
    truth,
    unknown,
)

# ---------------------------------------------------------------------------------------------- sums and products


def _numbers(operands: Sequence[Operand]) -> list[Operand]:
    """Return the operands that are not predicates."""
    return [operand for operand in operands if operand.kind not in PREDICATES]


def _summed(ins: SassInstruction, terms: Sequence[tuple[Reader, bool]], carries: Sequence[Operand]) -> Compute:
    """Return the sum of terms (negated where marked) and carries in; with the carries out that are read."""
    count = results(ins)
    if all(operand_number(operand) is None for operand in ins.operands[1:count]):
        count = 1  # from sm_100 on, carries that nothing reads go to PT
    inward = [predicate(operand) for operand in carries]
    return lambda m: sums(m, [(read(m), minus) for read, minus in terms], [carry(m) for carry in inward], count)


def _term(operand: Operand) -> tuple[Reader, bool]:
    """Return a reader of a term of a sum, and whether what it reads is to be subtracted."""
    minus = operand.negated and not operand.absolute
    return (raw(operand) if minus else integer(operand)), minus


@operation("IADD3", "UIADD3", "IADD")
def iadd3(ins: SassInstruction) -> Compute | None:
    """a + b + c, with carries out to predicates and in from them (.X)."""
    sources = ins.operands[results(ins) :]
    if ins.has("64"):
        pairs = [pair(operand) for operand in _numbers(sources)]
        carries = results(ins) - 1  # out of 64 bits, never seen in real code
        return lambda m: (*add_wide(*(read(m) for read in pairs)), *[unknown(m.now)] * carries)
    if not ins.has("X"):
        return _summed(ins, [_term(operand) for operand in _numbers(sources)], ())
    terms = [(extended_integer(operand), False) for operand in _numbers(sources)]
    return _summed(ins, terms, [operand for operand in sources if operand.kind in PREDICATES])


@operation("VIADD", "UVIADD")
def viadd(ins: SassInstruction) -> Compute | None:
    """a + b."""
    return apply(lambda m, a, b: (add(a, b),), *map(integer, ins.operands[1:3]))


@operation("LEA", "ULEA")
def lea(ins: SassInstruction) -> Compute | None:
    """(a << s) + b, or with .HI ((c:a) >> (32 - s)) + b."""
    numbers = _numbers(ins.operands[results(ins) :])
    if len(numbers) != (4 if ins.has("HI") and not ins.has("SX32") else 3):
        return None
    first, second, *third = numbers
    shift, minus = numbers[-1].number & 31, first.negated
    carries = ins.operands[-1:] if ins.has("X") else ()
    if not ins.has("HI"):
        scaled = raw(first)
        return _summed(
            ins, [(lambda m: multiple(scaled(m), 1 << shift), minus), (raw(second), second.negated)], carries
        )
    a, c = raw(first), None if ins.has("SX32") else raw(third[0])

    def upper(m: Machine) -> Value:
        low = a(m)
        high = c(m) if c else sign_of(low)
        if minus:
            bits = np.uint64(0) - join_halves(low.bits, high.bits) << np.uint64(shift)
            return computed(high_half(bits), low, high)
        return funnel_left(m, low, high, shift, sign_extends=c is None)

    addend = (extended_integer(second), False) if carries else (raw(second), second.negated)
    return _summed(ins, [(upper, False), addend], carries)


@operation("IMAD", "UIMAD")
def imad(ins: SassInstruction) -> Compute | None:
    """a * b + c: 32 bits of it, 64 (.WIDE), or the upper half (.HI)."""
    count = results(ins)
    sources = ins.operands[count : count + 3]
    carry = [predicate(ins.operands[count + 3])] if ins.has("X") else []
    if ins.has("WIDE", "HI"):
        a, b, addend = raw(sources[0]), raw(sources[1]), pair(sources[2])
        minus, is_signed = sources[0].negated != sources[1].negated, not ins.has("U32")
        first, last = 1 if ins.has("HI") else 0, 3 if count > 1 else 2

        def product(m: Machine) -> Sequence[Value]:
            values = [a(m), b(m), *addend(m), *(read(m) for read in carry)]
            return multiply_wide(m, values, is_signed, minus)[first:last]

        return product
    if carry:
        return apply(
            lambda m, a, b, c, carried: sums(m, [(multiply(a, b), False), (c, False)], [carried], 1),
            *map(extended_integer, sources),
            *carry,
        )
    if count > 1:
        return None
    return apply(lambda m, a, b, c: (add(multiply(a, b), c),), *map(integer, sources))


@operation("IDP", "UIDP")
def idp(ins: SassInstruction) -> Compute | None:
    """The sum of products of packed numbers, and c: four bytes by four (.4A), or two half words by two bytes (.2A)."""
    kinds = [word for word in ins.modifiers if word in ("S8", "U8", "S16", "U16")]
    if len(kinds) != 2 or not ins.has("4A", "2A"):
        return None
    count = 4 if ins.has("4A") else 2
    first = 2 if ins.has("HI") and count == 2 else 0

    def products(_: Machine, a: Value, b: Value, c: Value) -> tuple[Value]:
        result = c.bits.astype(np.int64)
        for position in range(count):
            factor = _field(a.bits, 32 // count * position, kinds[0])
            result = result + factor * _field(b.bits, 8 * (position + first), kinds[1])
        return (computed((result & TOP).astype(np.uint32), a, b, c),)

    a, b, c = ins.operands[1:4]
    return apply(products, raw(a), raw(b), integer(c))


@operation("VABSDIFF4")
def vabsdiff4(ins: SassInstruction) -> Compute | None:
    """The differences of four pairs of bytes without their signs: packed, or their sum and c (.ACC)."""
    if len(ins.operands) != 4:  # one with a predicate, which no compiler emits
        return None
    kind = "U8" if ins.has("U8") else "S8"

    def differences(_: Machine, a: Value, b: Value, c: Value) -> tuple[Value]:
        apart = [np.abs(_field(a.bits, at, kind) - _field(b.bits, at, kind)) for at in range(0, 32, 8)]
        total = c.bits + sum(apart) if ins.has("ACC") else sum(byte << 8 * k for k, byte in enumerate(apart))
        return (computed((total & TOP).astype(np.uint32), a, b, c),)

    return apply(differences, *map(raw, ins.operands[1:]))


def _field(bits: Bits, start: int, kind: str) -> Bits:
    """Return the 8 or 16 bits from `start` on as int64."""
    size = int(kind[1:])
    field: Bits = (bits >> np.uint32(start) & np.uint32((1 << size) - 1)).astype(np.int64)
    return np.where(field >> (size - 1), field - (1 << size), field) if kind[0] == "S" else field


# ---------------------------------------------------------------------------------------------- minimum and maximum


@operation("IABS", "UIABS")
def iabs(ins: SassInstruction) -> Compute | None:
    """|a|."""
    return apply(lambda m, a: (absolute_value(m, a),), integer(ins.operands[1]))


@operation("IMNMX", "UIMNMX", "VIMNMX", "UVIMNMX", "VIMNMX3", "UVIMNMX3", "VIADDMNMX", "UVIADDMNMX")
def imnmx(ins: SassInstruction) -> Compute | None:
    """The minimum of two or three numbers, or of a + b and c, if the last predicate is true; else the maximum."""
    between, adds, is_signed = ins.operands[1:-1], "ADD" in ins.opcode, not ins.has("U32")
    halves = next((like for word, like in (("U16x2", np.uint16), ("S16x2", np.int16)) if ins.has(word)), None)
    # From sm_100 on, two predicates come before the numbers; what they get is not known.
    written = any(operand.kind in PREDICATES and operand_number(operand) is not None for operand in between)
    numbers = _numbers(between)
    if ins.has("U64", "S64"):
        return _extreme_wide(ins)
    if written or len(numbers) not in ((2,) if halves else (2, 3)):
        return None
    if not {"U32", "S32", "U16x2", "S16x2", "RELU"}.issuperset(ins.modifiers):
        return None
    least = ins.has("RELU")  # 0

    def smallest(m: Machine, smaller: Value, a: Value, b: Value, *rest: Value) -> tuple[Value]:
        if halves:
            return (_extreme_halves(a, b, smaller, halves, least),)
        first = add(a, b) if adds else minimum_or_maximum(m, a, b, smaller, is_signed)
        found = minimum_or_maximum(m, first, rest[0], smaller, is_signed) if rest else first
        return (minimum_or_maximum(m, found, constant(0), truth(False), is_signed) if least else found,)

    return apply(smallest, predicate(ins.operands[-1]), *map(integer, numbers))


def _extreme_halves(a: Value, b: Value, smaller: Value, like: type, clamps: bool) -> Value:
    """Return the minima or maxima of two numbers of 16 bits in a word, or 0 where they are below it."""
    halves: list[Any] = [np.ascontiguousarray(value.bits)[..., None].view(like) for value in (a, b)]  # (…, 2) each
    bits = np.where(smaller.bits[..., None], np.minimum(*halves), np.maximum(*halves))
    bits = np.maximum(bits, like(0)) if clamps else bits
    return computed(np.ascontiguousarray(bits).view(np.uint32)[..., 0], a, b, smaller)


def _extreme_wide(ins: SassInstruction) -> Compute | None:
    """The minimum of two numbers of 64 bits if the first predicate behind them is true, else the maximum."""
    kinds = [operand.kind in PREDICATES for operand in ins.operands]
    if kinds != [False, False, False, True, True] or not {"U64", "S64"}.issuperset(ins.modifiers):
        return None
    a, b, smaller = pair(ins.operands[1]), pair(ins.operands[2]), predicate(ins.operands[3])
    like: type[np.int64 | np.uint64] = np.int64 if ins.has("S64") else np.uint64

    def result(m: Machine) -> tuple[Value, Value]:
        values = (*a(m), *b(m), smaller(m))
        one, other = (join_halves(values[k].bits, values[k + 1].bits) for k in (0, 2))
        bits = np.where((one.view(like) < other.view(like)) == values[4].bits, one, other)
        return computed(low_half(bits), *values), computed(high_half(bits), *values)

    return result


# ---------------------------------------------------------------------------------------------- bits


@operation("MOV", "UMOV", "CS2R", "MOV32I", "RPCMOV")
def mov(ins: SassInstruction) -> Compute | None:
    """A copy; CS2R of the zero register, twice, or of which cluster size runs: the constants of both are alike."""
    source = ins.operands[1]
    if ins.opcode == "CS2R":
        zeros = (constant(0),) * (1 if ins.has("32") else 2)
        return (lambda m: zeros) if source.text in ("SRZ", "SR_CgaSize") else None
    return apply(lambda m, *words: words, *([raw(source), raw(source, 1)] if ins.has("64") else [integer(source)]))


@operation("LOP3", "ULOP3", "LOP")
def lop3(ins: SassInstruction) -> Compute | None:
    """Any function of three bits, by an 8-entry table; optionally whether the result is not 0."""
    tests = ins.operands[0].kind in PREDICATES
    a, b, c, entries, *also = ins.operands[2 if tests else 1 :]
    table, combine = entries.number, conjunction if ins.has("PAND") else disjunction

    def bitwise(m: Machine, a: Value, b: Value, c: Value, *also: Value) -> tuple[Value, ...]:
        result = logic(m, (a, b, c), table)
        if not tests:
            return (result,)
        is_and = table == 0xC0
        test = masked_not_zero(m, a, b, result) if is_and else compare_numbers(m, result, constant(0), "NE", False)
        return combine(test, also[0]) if also else test, result

    return apply(bitwise, *map(integer, (a, b, c)), *map(predicate, also[:1] if tests else ()))


@operation("SHF", "USHF")
def shf(ins: SassInstruction) -> Compute | None:
    """Shift the 64 bits of c:a by b; the upper (.HI) or the lower half of the result."""
    left, high, is_signed = ins.has("L"), ins.has("HI"), ins.has("S32", "S64")
    of_64, wraps = ins.has("U64", "S64"), ins.has("W")

    def shift(m: Machine, low: Value, count: Value, upper: Value) -> tuple[Value]:
        most = np.uint32((64 if of_64 else 32) - wraps)
        steps = count.bits & most if wraps else np.minimum(count.bits, most)
        fixed = same_for_all(steps) if count.known is True and count.tag is None else None
        if left and not high:
            return (shift_left(low, count, steps, fixed),)
        if left and fixed is not None and 0 < fixed < 32:
            return (funnel_left(m, low, upper, fixed),)
        if left:
            return (
                computed(high_half(join_halves(low.bits, upper.bits) << steps.astype(np.uint64)), low, upper, count),
            )
        if high:
            return (shift_right(m, upper, count, steps, fixed, is_signed=is_signed),)
        if upper.known is True and upper.tag is None and same_for_all(upper.bits) == 0:
            return (shift_right(m, low, count, steps, fixed, is_signed=False),)
        both = join_halves(low.bits, upper.bits)
        signs = is_signed and of_64
        moved = (both.view(np.int64) >> steps.astype(np.int64)).view(np.uint64) if signs else both >> steps
        return (computed(low_half(moved), low, upper, count),)

    return apply(shift, *map(integer, ins.operands[1:4]))


# What the modes of PRMT select by two bits (PTX ISA, "prmt").
SELECTORS = {
    "F4E": (0x3210, 0x4321, 0x5432, 0x6543), "B4E": (0x5670, 0x6701, 0x7012, 0x0123),
    "RC8": (0x0000, 0x1111, 0x2222, 0x3333), "ECL": (0x3210, 0x3211, 0x3222, 0x3333),
    "ECR": (0x0000, 0x1110, 0x2210, 0x3210), "RC16": (0x1010, 0x3232, 0x1010, 0x3232),
}  # fmt: skip


@operation("PRMT", "UPRMT")
def prmt(ins: SassInstruction) -> Compute | None:
    """Four bytes picked from two numbers, by a selector of four digits, or one of four by its lowest two bits."""
    selectors = next((np.array(four, np.uint32) for mode, four in SELECTORS.items() if ins.has(mode)), None)

    def picked(_: Machine, a: Value, selector: Value, b: Value) -> tuple[Value]:
        if selectors is not None:
            selector = computed(selectors[selector.bits & np.uint32(3)], selector)
        return (permute_bytes(a, selector, b),)

    return apply(picked, *map(integer, ins.operands[1:4]))


def _size(bits: Bits, wraps: bool) -> Bits:
    """Return a number of bits as int64: at most 32, or modulo 32."""
    return (bits & np.uint32(31) if wraps else np.minimum(bits, 32)).astype(np.int64)


@operation("BMSK", "UBMSK")
def bmsk(ins: SassInstruction) -> Compute | None:
    """b ones, starting at bit a."""
    wraps = ins.has("W")

    def ones(_: Machine, first: Value, count: Value) -> tuple[Value]:
        mask = (1 << _size(count.bits, wraps)) - 1 << _size(first.bits, wraps)
        return (computed((mask & TOP).astype(np.uint32), first, count),)

    return apply(ones, *map(integer, ins.operands[1:3]))


@operation("SGXT", "USGXT")
def sgxt(ins: SassInstruction) -> Compute | None:
    """The lowest b bits of a, sign-extended (zero-extended with .U32)."""
    wraps, unsigned = ins.has("W"), ins.has("U32")

    def extend(_: Machine, value: Value, count: Value) -> tuple[Value]:
        size = _size(count.bits, wraps)
        field = value.bits.astype(np.int64) & (1 << size) - 1
        sign = 1 << np.maximum(size, 1) - 1
        bits = field if unsigned else (field ^ sign) - sign  # a field with its sign set becomes negative
        tag = function_tag((value.tag, int(size.max())), (count.tag, 32))
        return (derived(np.where(size == 0, 0, bits & TOP).astype(np.uint32), value, count, tag=tag),)

    return apply(extend, *map(integer, ins.operands[1:3]))


def _of_bits(ins: SassInstruction, function: Callable[[Bits], Bits]) -> Compute:
    return apply(lambda m, a: (computed(function(a.bits), a),), integer(ins.operands[1]))


@operation("POPC", "UPOPC")
def popc(ins: SassInstruction) -> Compute | None:
    """The number of set bits."""

    def count(bits: Bits) -> Bits:
        as_bytes = np.ascontiguousarray(bits)[..., None].view(np.uint8)
        counts: Bits = np.unpackbits(as_bytes, axis=-1).sum(axis=-1, dtype=np.uint32)
        return counts

    return _of_bits(ins, count)


@operation("FLO", "UFLO")
def flo(ins: SassInstruction) -> Compute | None:
    """The highest set bit (of a signed number the highest that differs from its sign); with .SH counted from above."""
    from_above, unsigned = ins.has("SH"), ins.has("U32")

    def highest(bits: Bits) -> Bits:
        bits = bits if unsigned else np.where(bits >> np.uint32(31), ~bits, bits)
        position = np.frexp(bits.astype(np.float64))[1].astype(np.int64) - 1
        position = 31 - position if from_above else position
        return np.where(bits == 0, np.uint32(TOP), position.astype(np.uint32))

    return _of_bits(ins, highest)


@operation("BREV", "UBREV")
def brev(ins: SassInstruction) -> Compute | None:
    """The bits in reverse."""

    def reverse(bits: Bits) -> Bits:
        result: Bits = np.zeros_like(bits)
        for bit in range(32):
            result = result | (bits >> np.uint32(bit) & np.uint32(1)) << np.uint32(31 - bit)
        return result

    return _of_bits(ins, reverse)


# ---------------------------------------------------------------------------------------------- predicates


Combine = Callable[[Value, Value], Value]


def combinations(ins: SassInstruction) -> list[Combine]:
    """Return the functions of two predicates that the modifiers name, in order."""
    return [COMBINATIONS[word] for word in ins.modifiers if word in COMBINATIONS]


def both(combine: Combine, result: Value, other: Value) -> tuple[Value, Value]:
    """Return a comparison and its opposite, each combined with another predicate."""
    return combine(result, other), combine(negation(result), other)


@operation("ISETP", "UISETP")
def isetp(ins: SassInstruction) -> Compute | None:
    """(a < b) and p, and (not a < b) and p; with other comparisons and combinations, and of 64 bits in two (.EX)."""
    relation = next((word for word in ins.modifiers if word in COMPARISONS), None)
    combine = combinations(ins)
    if relation is None or not combine:
        return None
    is_signed, is_upper = not ins.has("U32"), ins.has("EX")
    if ins.has("U64", "S64"):
        return _compared_wide(ins, relation, combine[0])

    def compare(m: Machine, a: Value, b: Value, other: Value, *lower: Value) -> tuple[Value, Value]:
        result = compare_numbers(m, a, b, relation, is_signed)
        if is_upper:  # the lower halves decide if the upper ones are equal
            equal = compare_numbers(m, a, b, "EQ", is_signed)
            if relation == "EQ":
                result = conjunction(equal, lower[0])
            elif relation == "NE":
                result = disjunction(negation(equal), lower[0])
            else:
                strict = conjunction(result, negation(equal))
                result = disjunction(strict, conjunction(equal, lower[0]))
        return both(combine[0], result, other)

    a, b, *others = ins.operands[2 : 6 if is_upper else 5]
    return apply(compare, integer(a), integer(b), *map(predicate, others))


def _compared_wide(ins: SassInstruction, relation: str, combine: Callable[[Value, Value], Value]) -> Compute:
    """A comparison of numbers of 64 bits, combined with a predicate."""
    a, b, other = pair(ins.operands[2]), pair(ins.operands[3]), predicate(ins.operands[4])
    like = np.int64 if ins.has("S64") else np.uint64

    def result(m: Machine) -> tuple[Value, Value]:
        values = (*a(m), *b(m))
        one, another = (join_halves(values[k].bits, values[k + 1].bits).view(like) for k in (0, 2))
        return both(combine, computed(COMPARISONS[relation](one, another), *values), other(m))

    return result


@operation("VISET")
def viset(ins: SassInstruction) -> Compute | None:
    """All bits set if a comparison holds, else none."""
    relation = next((word for word in ins.modifiers if word in COMPARISONS), None)
    if relation is None or not ins.has("BM") or not {"BM", relation, "S32", "U32"}.issuperset(ins.modifiers):
        return None

    def mask(m: Machine, a: Value, b: Value) -> tuple[Value]:
        truths = compare_numbers(m, a, b, relation, not ins.has("U32"))
        return (computed(np.where(truths.bits, TOP, np.uint32(0)).astype(np.uint32), truths),)

    return apply(mask, integer(ins.operands[1]), integer(ins.operands[2]))


@operation("PSETP", "UPSETP")
def psetp(ins: SassInstruction) -> Compute | None:
    """(p op q) op r, and (not p op q) op r."""
    combine = combinations(ins)
    if len(combine) != 2:
        return None
    return apply(lambda m, p, q, r: both(combine[1], combine[0](p, q), r), *map(predicate, ins.operands[2:5]))


@operation("PLOP3", "UPLOP3")
def plop3(ins: SassInstruction) -> Compute | None:
    """Two functions of three predicates, by 8-bit tables."""
    tables = [operand.number for operand in ins.operands if operand.kind == INTEGER]
    sources = [operand for operand in ins.operands[2:5] if operand.kind in PREDICATES]
    if len(sources) != 3 or not tables:
        return None
    tables = [*tables, 0][:2]
    return apply(lambda m, *values: [predicate_by_table(values, table) for table in tables], *map(predicate, sources))


@operation("SEL", "USEL")
def sel(ins: SassInstruction) -> Compute | None:
    """The first number if the predicate is true, else the second; of 64 bits, both halves of it."""
    a, b, choice = ins.operands[1:4]
    first, second, decides = pair(a), pair(b), predicate(choice)
    if ins.has("64"):
        return lambda m: [select(m, decides(m), *halves) for halves in zip(first(m), second(m), strict=True)]
    return apply(lambda m, *values: (select(m, *values),), decides, integer(a), integer(b))


@operation("P2R", "UP2R", "UP2UR")
def p2r(ins: SassInstruction) -> Compute | None:
    """The predicates in the mask as bits, of byte 1 with .B1; the other bits come from a register."""
    mask = ins.operands[-1].number
    if ins.operands[0].suffixes:
        return None
    places = [bit for bit in range(7) if mask >> bit & 1]
    first = 8 * next((int(word[1]) for word in ins.modifiers if word in ("B1", "B2", "B3")), 0)

    def packed(_: Machine, kept: Value, *values: Value) -> tuple[Value]:
        bits = kept.bits & np.uint32(~(mask << first) & TOP)
        for bit, value in zip(places, values, strict=True):
            bits = bits | value.bits.astype(np.uint32) << np.uint32(first + bit)
        return (computed(bits, kept, *values),)

    kind = UPRED if ins.operands[1].text == "UPR" else PRED
    predicates = [predicate(Operand(kind=kind, number=bit)) for bit in places]
    return apply(packed, integer(ins.operands[2]), *predicates)


@operation("R2P", "UR2P", "UR2UP")
def r2p(ins: SassInstruction) -> Compute | None:
    """Bits of a register to the predicates in the mask."""
    mask, source = ins.operands[-1].number, ins.operands[1]
    first = 8 * next((int(suffix[1]) for suffix in source.suffixes if suffix[:1] == "B"), 0)

    def truths(_: Machine, value: Value) -> list[Value | None]:
        bits = [(value.bits >> np.uint32(first + bit) & np.uint32(1)).astype(bool) for bit in range(7)]
        return [computed(truth, value) if mask >> bit & 1 else None for bit, truth in enumerate(bits)]

    return apply(truths, raw(source))
