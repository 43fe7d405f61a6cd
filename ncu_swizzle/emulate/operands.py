"""The function for each opcode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ncu_swizzle.emulate import dependence
from ncu_swizzle.emulate.code import (
    CONSTANT,
    FLOAT,
    INTEGER,
    MEMORY,
    PRED,
    REG,
    TRUE,
    UPRED,
    UREG,
    Operand,
    SassInstruction,
)
from ncu_swizzle.emulate.effects import BASES, operand_number, results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.values import Bits, Known, Value, computed, constant, derived, truth, unknown, wide

# Read operands: registers, immediates and constant banks, with their SASS modifiers.


Reader = Callable[[Machine], Value]


def integer(operand: Operand) -> Reader:
    """Return a reader of an operand as a 32-bit number."""
    read = raw(operand)
    if operand.inverted:
        return lambda m: _inverted(read(m))
    if operand.absolute:
        return lambda m: _absolute(read(m), operand.negated)
    if operand.negated and operand.kind != FLOAT:
        return lambda m: negated(read(m))
    return read


def raw(operand: Operand, plus: int = 0, single: bool = True) -> Reader:
    """Return a reader of the operand's bits, `plus` registers further on; float immediates are `single` or double.

    What is no number, such as a predicate or an address, reads as unknown.
    """
    if operand.kind in (REG, UREG):
        register = operand_number(operand)
        if register is None:
            zero = constant(0)
            return lambda m: zero
        source = register + plus
        return lambda m: m.get(source)
    if operand.kind == INTEGER:
        bits = constant(operand.number >> (32 * plus))
        return lambda m: bits
    if operand.kind == FLOAT:
        bits = _float_bits(operand, plus, single)
        return lambda m: bits
    if operand.kind == CONSTANT:
        return lambda m: constant_bank(m, operand, 4 * plus)
    return lambda m: unknown(m.now)


def _float_bits(operand: Operand, plus: int, single: bool) -> Value:
    real = -operand.real if operand.negated else operand.real
    if single:
        return constant(int(np.float32(real).view(np.uint32)))
    return constant(int(np.float64(real).view(np.uint64)) >> 32 * plus)


def predicate(operand: Operand) -> Reader:
    """Return a reader of a predicate, with its negation; anything else reads as unknown."""
    if operand.kind not in (PRED, UPRED):
        return lambda m: unknown(m.now, bool)
    register = operand_number(operand)
    if register is None:
        fixed = truth(not operand.negated)
        return lambda m: fixed
    if operand.negated:
        return lambda m: _not(m.get(register))
    return lambda m: m.get(register)


def guard_operands(operand: Operand | None) -> Reader | None:
    """Return a reader of an instruction's guard; None without a guard."""
    return None if operand is None or (operand.number == TRUE and not operand.negated) else predicate(operand)


def pair(operand: Operand) -> Callable[[Machine], tuple[Value, Value]]:
    """Return a reader of the lower and upper half of a 64-bit operand, negated if it has a minus."""
    low, high = raw(operand), raw(operand, 1)
    if not operand.negated or operand.kind == FLOAT:
        return lambda m: (low(m), high(m))
    return lambda m: _negated_pair(low(m), high(m))


def _negated_pair(low: Value, high: Value) -> tuple[Value, Value]:
    whole = (np.uint64(0) - wide(low.bits, high.bits)).astype(np.uint64)
    return (
        Value((whole & np.uint64(0xFFFFFFFF)).astype(np.uint32), low.known, low.origin, dependence.scaled(low.tag, -1)),
        computed((whole >> np.uint64(32)).astype(np.uint32), low, high),
    )


def negated(value: Value) -> Value:
    """Return minus the value."""
    return Value(np.uint32(0) - value.bits, value.known, value.origin, dependence.scaled(value.tag, -1))


def _inverted(value: Value) -> Value:
    return Value(~value.bits, value.known, value.origin, dependence.scaled(value.tag, -1))


def _absolute(value: Value, minus: bool) -> Value:
    bits = np.abs(value.bits.view(np.int32).astype(np.int64)).astype(np.uint32)
    return computed(np.uint32(0) - bits if minus else bits, value)


def _not(value: Value) -> Value:
    return Value(~value.bits, value.known, value.origin, value.tag)


def address(operand: Operand) -> Reader:
    """Return a reader of the lower 32 bits of an address."""
    terms = [_term(term) for term in operand.terms]
    offset = constant(operand.offset)
    if len(terms) == 1:
        only, zero = terms[0], operand.offset == 0
        return only if zero else lambda m: _offset(only(m), offset.bits)
    return lambda m: _sum(m, terms, offset)


def _term(term: Operand) -> Reader:
    read = integer(term)
    scale = next((int(suffix[1:]) for suffix in term.suffixes if suffix[:1] == "X" and suffix[1:].isdigit()), 1)
    if scale == 1:
        return read
    return lambda m: times(read(m), scale)


def times(value: Value, factor: int) -> Value:
    """Return a multiple of the value, modulo 2^32."""
    bits = value.bits * np.uint32(factor & 0xFFFFFFFF)
    return Value(bits, value.known, value.origin, dependence.scaled(value.tag, factor))


def _offset(value: Value, by: Bits) -> Value:
    return Value(value.bits + by, value.known, value.origin, value.tag)


def _sum(m: Machine, terms: list[Reader], offset: Value) -> Value:
    values = [term(m) for term in terms]
    bits: Bits = offset.bits
    for value in values:
        bits = bits + value.bits
    return derived(bits, *values, tag=dependence.total(*(value.tag for value in values)))


def wide_address(operand: Operand) -> Callable[[Machine], Value]:
    """Return a reader of a 64-bit address, as uint64."""
    assert operand.kind == MEMORY
    readers = []
    for term in operand.terms:
        if "64" in term.suffixes:
            readers.append(_wide_term(term))
        else:
            read = _term(term)
            signed = term.kind == UREG and len(operand.terms) == 1
            readers.append(_narrow_term(read, signed))
    return lambda m: _wide_sum(m, readers, operand.offset)


def _wide_term(term: Operand) -> Reader:
    low, high = raw(term), raw(term, 1)
    if operand_number(term) is None:
        high = low

    def read(m: Machine) -> Value:
        first, second = low(m), high(m)
        return computed(wide(first.bits, second.bits), first, second)

    return read


def _narrow_term(read: Reader, signed: bool) -> Reader:
    def widened(m: Machine) -> Value:
        value = read(m)
        bits = value.bits.view(np.int32).astype(np.int64).view(np.uint64) if signed else value.bits.astype(np.uint64)
        return Value(bits, value.known, value.origin, value.tag)

    return widened


def _wide_sum(m: Machine, readers: list[Reader], offset: int) -> Value:
    values = [read(m) for read in readers]
    bits: Bits = np.full((1, 1), offset % (1 << 64), np.uint64)
    for value in values:
        bits = bits + value.bits
    return computed(bits, *values)


def constant_bank(m: Machine, operand: Operand, plus: int = 0, size: int = 4) -> Value:
    """Return what a constant bank holds, `size` bytes, zero-extended; unknown if the bank was not given."""
    content = m.constants.get(operand.number)
    if content is None:
        return unknown(m.now, uniform=not operand.terms)
    given = m.known_constants.get(operand.number)
    start = address(operand)(m)
    data = np.frombuffer(content, np.uint8)
    # An offset may be negative if a register makes the sum positive.
    at = start.bits.astype(np.int64)[..., None] + plus + np.arange(size)
    inside = (at >= 0) & (at < len(data))
    at = np.where(inside, at, 0)
    loaded = np.where(inside, data[at] if len(data) else 0, 0).astype(np.uint32)
    bits = (loaded << (8 * np.arange(size, dtype=np.uint32))).sum(axis=-1, dtype=np.uint32)
    sure = inside.all(axis=-1)
    if given is not None and len(data):
        sure = sure & given[at].all(axis=-1)
    value = computed(bits, start)
    if start.known is not True:
        return Value(bits, np.asarray(sure & np.asarray(start.known)), start.origin, value.tag)
    everything: Known = True if np.all(sure) else np.asarray(sure)
    return Value(bits, everything, None if everything is True else m.now, value.tag)


Step = Callable[[Machine], None]
Compute = Callable[[Machine], tuple[Value | None, ...]]  # one result per register
Compiler = Callable[[SassInstruction], Compute | None]  # None if a modifier is not supported

COMPILERS: dict[str, Compiler] = {}


def operation(*opcodes: str) -> Callable[[Compiler], Compiler]:
    """Register the compiler of these opcodes."""

    def register(compiler: Compiler) -> Compiler:
        COMPILERS.update(dict.fromkeys(opcodes, compiler))
        return compiler

    return register


def compiled(instruction: SassInstruction) -> Step | None:
    """Return the step of an instruction; None if it is not emulated."""
    compiler = COMPILERS.get(instruction.opcode)
    compute = compiler(instruction) if compiler else None
    if compute is None:
        return None
    guard = guard_operands(instruction.guard)
    registers = [operand_number(operand) for operand in instruction.operands[: results(instruction)]]
    if instruction.opcode in ("R2P", "UR2P"):
        base = BASES[PRED if instruction.opcode == "R2P" else UPRED]
        registers = [base + bit for bit in range(7)]

    def step(m: Machine) -> None:
        values = compute(m)
        condition = guard(m) if guard else None
        for register, value in zip(_spread(registers, len(values)), values, strict=False):
            if value is not None:
                m.put(register, value, condition)

    return step


def _spread(registers: list[int | None], count: int) -> list[int | None]:
    """Return the register of each result: extra results go to the registers after the first."""
    extra = count - len(registers)
    if extra <= 0 or not registers:
        return registers
    first = registers[0]
    return [None if first is None else first + k for k in range(extra + 1)] + registers[1:]
