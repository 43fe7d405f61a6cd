"""Comparisons and predicate logic. What is false whatever an unknown operand is, is known to be false."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ncu_swizzle.emulate.code import FLOAT, INTEGER, PRED, UPRED, Operand, SassInstruction
from ncu_swizzle.emulate.dependence import Tag, bitwise
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operands import Compute, Reader, integer, operation, predicate, raw
from ncu_swizzle.emulate.operations.integer import keep_order, ordered
from ncu_swizzle.emulate.values import (
    Bits,
    Known,
    Value,
    computed,
    dependent,
    first_origin,
    sure_of_either,
    truth,
    with_sure,
)

SIGN = np.uint32(1 << 31)
COMPARISONS: dict[str, Callable[[Bits, Bits], Bits]] = {
    "LT": np.less,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GT": np.greater,
    "NE": np.not_equal,
    "GE": np.greater_equal,
}


def conjunction(a: Value, b: Value) -> Value:
    """Return a and b; known to be false if one of them is."""
    bits = a.bits & b.bits
    known: Known = True
    if a.known is not True or b.known is not True:
        no = (~a.bits & a.known) | (~b.bits & b.known)
        sure = no | (np.asarray(a.known) & np.asarray(b.known))
        known = True if np.all(sure) else np.asarray(sure)
        bits = bits & ~no
    return Value(bits, known, first_origin(a, b), dependent(a, b))


def negation(a: Value) -> Value:
    """Return not a."""
    return Value(~a.bits, a.known, a.origin, a.tag)


def disjunction(a: Value, b: Value) -> Value:
    """Return a or b; known to be true if one of them is."""
    return negation(conjunction(negation(a), negation(b)))


def exclusive(a: Value, b: Value) -> Value:
    """Return a xor b."""
    return computed(a.bits ^ b.bits, a, b)


COMBINATIONS = {"AND": conjunction, "OR": disjunction, "XOR": exclusive}


@operation("ISETP", "UISETP")
def isetp(ins: SassInstruction) -> Compute | None:
    """(a < b) and p, and (not a < b) and p; with other comparisons and combinations, and of 64 bits in two (.EX)."""
    relation = next((word for word in ins.modifiers if word in COMPARISONS), None)
    combine = next((COMBINATIONS[word] for word in ins.modifiers if word in COMBINATIONS), None)
    if relation is None or combine is None:
        return None
    a, b = (integer(operand) for operand in ins.operands[2:4])
    with_this = predicate(ins.operands[4])
    chained = predicate(ins.operands[5]) if ins.has("EX") else None
    compare, is_signed = COMPARISONS[relation], not ins.has("U32")

    def compute(m: Machine) -> tuple[Value | None, ...]:
        result = _compared(m, a(m), b(m), compare, is_signed)
        if chained:
            result = _with_lower(m, result, a=a(m), b=b(m), lower=chained(m), relation=relation, is_signed=is_signed)
        other = with_this(m)
        return combine(result, other), combine(negation(result), other)

    return compute


def _compared(m: Machine, a: Value, b: Value, compare: Callable[[Bits, Bits], Bits], is_signed: bool) -> Value:
    first, second = ordered(m, a, b, is_signed)
    result = computed(compare(first, second), a, b)
    if result.tag is not None and keep_order(m, a, b, first - second):
        result.tag = None  # the same for all blocks that are kept
    return result


def _with_lower(m: Machine, result: Value, a: Value, b: Value, lower: Value, relation: str, is_signed: bool) -> Value:
    equal = _compared(m, a, b, np.equal, is_signed)
    if relation == "EQ":
        return conjunction(equal, lower)
    if relation == "NE":
        return disjunction(negation(equal), lower)
    strict = conjunction(result, negation(equal))
    return disjunction(strict, conjunction(equal, lower))


@operation("PSETP", "UPSETP")
def psetp(ins: SassInstruction) -> Compute | None:
    """(p op q) op r, and (not p op q) op r."""
    names = [word for word in ins.modifiers if word in COMBINATIONS]
    if len(names) != 2:
        return None
    p, q, r = (predicate(operand) for operand in ins.operands[2:5])
    inner, outer = (COMBINATIONS[name] for name in names)

    def compute(m: Machine) -> tuple[Value | None, ...]:
        first = inner(p(m), q(m))
        return outer(first, r(m)), outer(negation(first), r(m))

    return compute


@operation("PLOP3", "UPLOP3")
def plop3(ins: SassInstruction) -> Compute | None:
    """Two functions of three predicates, by 8-bit tables."""
    tables = [operand.number for operand in ins.operands if operand.kind == INTEGER]
    readers = [predicate(operand) for operand in ins.operands[2:5] if operand.kind in (PRED, UPRED)]
    if len(readers) != 3 or not tables:
        return None
    tables = [*tables, 0][:2]

    def compute(m: Machine) -> tuple[Value | None, ...]:
        values = [read(m) for read in readers]
        return tuple(_by_table(values, table) for table in tables)

    return compute


def _by_table(values: list[Value], table: int) -> Value:
    """OR the true entries of the table, each a conjunction; keeps results that unknowns cannot change."""
    always, never = table & 0xFF == 0xFF, table & 0xFF == 0
    if always or never:
        return truth(always)
    result = truth(False)
    for entry in range(8):
        if table >> entry & 1:
            # The first value is the highest bit of the entry's number.
            term = truth(True)
            for position, value in enumerate(values):
                term = conjunction(term, value if entry >> (2 - position) & 1 else negation(value))
            result = disjunction(result, term)
    return result


@operation("SEL", "USEL", "FSEL")
def sel(ins: SassInstruction) -> Compute | None:
    """The first value if the predicate is true, else the second."""
    if ins.opcode == "FSEL" and ins.has("FTZ"):
        return None
    read = signed_float if ins.opcode == "FSEL" else integer
    a, b = (read(operand) for operand in ins.operands[1:3])
    choice = predicate(ins.operands[3])
    return lambda m: (chosen(choice(m), a(m), b(m)),)


def signed_float(operand: Operand) -> Reader:
    """Return a reader of a float's bits with its sign changed as the operand says; what NaN keeps is not known."""
    read = raw(operand)
    if operand.kind == FLOAT or not (operand.negated or operand.absolute):
        return read

    def bits(m: Machine) -> Value:
        value = read(m)
        number = value.bits & ~SIGN if operand.absolute else value.bits
        number = number ^ SIGN if operand.negated else number
        nan = np.isnan(value.bits.view(np.float32))
        known = value.known if not nan.any() else np.asarray(value.known) & ~nan
        return Value(number, known, m.now if value.origin is None else value.origin, value.tag)

    return bits


def chosen(choice: Value, a: Value, b: Value) -> Value:
    """Return a where the choice is true, elsewhere b; an unknown choice between equal bits decides nothing."""
    bits = np.where(choice.bits, a.bits, b.bits)
    tag = _chosen_tag(choice, a, b)
    if choice.known is True and a.known is True and b.known is True:
        return Value(bits, True, None, tag)
    known = np.where(choice.bits, np.asarray(a.known), np.asarray(b.known)) & choice.known
    return with_sure(Value(bits, known, first_origin(choice, a, b), tag), sure_of_either(choice, a, b))


def _chosen_tag(choice: Value, a: Value, b: Value) -> Tag | None:
    """Return the tag of a selected value: the common tag, or that of the only value that lanes select."""
    if choice.tag is None and choice.known is True:
        if a.tag == b.tag or bool(choice.bits.all()):
            return a.tag
        if not choice.bits.any():
            return b.tag
        uniform = choice.bits.shape[-1] == a.bits.shape[-1] == b.bits.shape[-1] == 1
        return bitwise(tuple(tag for tag in (a.tag, b.tag) if tag is not None), uniform)
    return dependent(choice, a, b)


@operation("P2R", "UP2R")
def p2r(ins: SassInstruction) -> Compute | None:
    """The predicates in the mask as bits; the other bits come from a register."""
    mask = ins.operands[-1].number
    if ins.operands[0].suffixes:
        return None
    base = integer(ins.operands[2])
    readers = _all_predicates()

    def compute(m: Machine) -> tuple[Value | None, ...]:
        values = [read(m) for bit, read in enumerate(readers) if mask >> bit & 1]
        numbers = [bit for bit in range(7) if mask >> bit & 1]
        kept = base(m)
        bits = kept.bits & np.uint32(~mask & 0xFFFFFFFF)
        for number, value in zip(numbers, values, strict=True):
            bits = bits | value.bits.astype(np.uint32) << np.uint32(number)
        return (computed(bits, kept, *values),)

    return compute


def _all_predicates() -> list[Reader]:
    from ncu_swizzle.emulate.code import Operand

    return [predicate(Operand(kind=PRED, number=number)) for number in range(7)]


@operation("R2P", "UR2P")
def r2p(ins: SassInstruction) -> Compute | None:
    """Bits of a register to the predicates in the mask."""
    mask = ins.operands[-1].number
    source = raw(ins.operands[1])
    byte = next((int(s[1]) for s in ins.operands[1].suffixes if s[:1] == "B"), 0)

    def compute(m: Machine) -> tuple[Value | None, ...]:
        value = source(m)
        truths = []
        for bit in range(7):
            shift = np.uint32(bit + 8 * byte)
            wanted = computed((value.bits >> shift & np.uint32(1)).astype(bool), value)
            truths.append(wanted if mask >> bit & 1 else None)
        return tuple(truths)

    return compute
