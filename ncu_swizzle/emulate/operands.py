"""How operands are read, and the step that an opcode's operation becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ncu_swizzle.emulate.code import (
    CONSTANT,
    FLOAT,
    INTEGER,
    MEMORY,
    PRED,
    REG,
    RPC,
    TRUE,
    UPRED,
    UREG,
    Operand,
    SassInstruction,
)
from ncu_swizzle.emulate.dependence import Tag, sum_tag
from ncu_swizzle.emulate.effects import BASES, operand_number, results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operations.primitives import absolute_value, add, bitwise_not, multiple, negation
from ncu_swizzle.emulate.values import (
    I32,
    I64,
    U64,
    Value,
    computed,
    constant,
    derived,
    high_half,
    join_halves,
    truth,
    unknown,
)
from ncu_swizzle.smem.opcodes import Registry

Reader = Callable[[Machine], Value]
PREDICATES = (PRED, UPRED)


def integer(operand: Operand) -> Reader:
    """Return a reader of an operand as a 32-bit number."""
    read = raw(operand)
    if operand.inverted:
        return lambda m: bitwise_not(read(m))
    if operand.absolute:
        return lambda m: multiple(absolute_value(m, read(m)), -1 if operand.negated else 1)
    if operand.negated and operand.kind != FLOAT:
        return lambda m: multiple(read(m), -1)
    return read


def extended_integer(operand: Operand) -> Reader:
    """Return a reader of an operand of an .X instruction: - and ~ both invert, and the carry adds the 1."""
    read = raw(operand)
    return (lambda m: bitwise_not(read(m))) if operand.negated or operand.inverted else read


def raw(operand: Operand, plus: int = 0, single: bool = True) -> Reader:
    """Return a reader of the operand's bits, `plus` registers further on; float immediates are `single` or double.

    Anything but a number, such as a predicate or an address, reads as unknown.
    """
    if operand.kind in (REG, RPC, UREG):
        register = operand_number(operand)
        if register is None:
            zero = constant(0)
            return lambda m: zero
        source = register + plus
        return lambda m: m.get(source)
    if operand.kind == CONSTANT:
        return lambda m: constant_bank(m, operand, 4 * plus)
    if operand.kind == INTEGER:
        number = operand.number >> 32 * plus
    elif operand.kind == FLOAT:
        real = -operand.real if operand.negated else operand.real
        number = int(np.float32(real).view(np.uint32)) if single else int(np.float64(real).view(U64)) >> 32 * plus
    else:
        return lambda m: unknown(m.now)
    bits = constant(number)
    return lambda m: bits


def predicate(operand: Operand) -> Reader:
    """Return a reader of a predicate, with its negation; anything else reads as unknown."""
    if operand.kind not in PREDICATES:
        return lambda m: unknown(m.now, bool)
    register = operand_number(operand)
    if register is None:
        fixed = truth(not operand.negated)
        return lambda m: fixed
    if operand.negated:
        return lambda m: negation(m.get(register))
    return lambda m: m.get(register)


def guard_operands(operand: Operand | None) -> Reader | None:
    """Return a reader of an instruction's guard; None without a guard."""
    return None if operand is None or (operand.number == TRUE and not operand.negated) else predicate(operand)


def pair(operand: Operand) -> Callable[[Machine], tuple[Value, Value]]:
    """Return a reader of the lower and upper half of a 64-bit operand, negated if it has a minus."""
    low, high = raw(operand), raw(operand, 1)
    if not operand.negated or operand.kind == FLOAT:
        return lambda m: (low(m), high(m))

    def negated(m: Machine) -> tuple[Value, Value]:
        first, second = low(m), high(m)
        return multiple(first, -1), computed(high_half(U64(0) - join_halves(first.bits, second.bits)), first, second)

    return negated


def address(operand: Operand) -> Reader:
    """Return a reader of the lower 32 bits of an address."""
    terms = [_term(term) for term in operand.terms]
    if len(terms) == 1 and not operand.offset:
        return terms[0]
    offset = constant(operand.offset)
    return lambda m: add(*(term(m) for term in terms), offset)


def _term(term: Operand) -> Reader:
    read = integer(term)
    scale = next((int(suffix[1:]) for suffix in term.suffixes if suffix[:1] == "X" and suffix[1:].isdigit()), 1)
    return read if scale == 1 else lambda m: multiple(read(m), scale)


def wide_address(operand: Operand, followed: bool = False) -> Reader:
    """Return a reader of a 64-bit address, as uint64.

    `followed`: its tag is that of the lower half, on which sectors and lines depend.
    """
    assert operand.kind == MEMORY
    # A uniform register by itself is an offset with a sign.
    signed = len(operand.terms) == 1 and operand.terms[0].kind == UREG
    terms = [pair(term) if "64" in term.suffixes else _widened(_term(term), signed) for term in operand.terms]
    offset = np.full((1, 1), operand.offset % (1 << 64), U64)

    def summed(m: Machine) -> Value:
        bits, sources, tags = offset, list[Value](), list[Tag | None]()
        for term in terms:
            halves = term(m)
            sources += halves
            tags.append(halves[0].tag)
            bits = bits + (halves[0].bits if len(halves) == 1 else join_halves(halves[0].bits, halves[1].bits))
        return derived(bits, *sources, tag=sum_tag(*tags)) if followed else computed(bits, *sources)

    return summed


def _widened(read: Reader, signed: bool) -> Callable[[Machine], tuple[Value]]:
    def widened(m: Machine) -> tuple[Value]:
        value = read(m)
        bits = value.bits.view(I32).astype(I64).view(U64) if signed else value.bits.astype(U64)
        return (Value(bits, value.known, value.origin, value.tag),)

    return widened


def constant_bank(m: Machine, operand: Operand, plus: int = 0, size: int = 4) -> Value:
    """Return what a constant bank holds, `size` bytes, zero-extended; unknown if the bank was not given."""
    content = m.constants.get(operand.number)
    start = address(operand)(m)
    if content is None:
        return m.lacking_constant(operand.number, start, plus, unknown(m.now, uniform=not operand.terms))
    given_bytes = m.known_constants.get(operand.number)
    data = np.frombuffer(content, np.uint8)
    # An offset may be negative if a register makes the sum positive.
    at = start.bits.astype(I64)[..., None] + plus + np.arange(size)  # (warps or 1, lanes or 1, bytes)
    inside = (at >= 0) & (at < len(data))
    at = np.where(inside, at, 0)
    loaded = np.where(inside, data[at] if len(data) else 0, 0).astype(np.uint32)
    bits = (loaded << (8 * np.arange(size, dtype=np.uint32))).sum(axis=-1, dtype=np.uint32)
    sure = np.asarray(inside.all(axis=-1))
    if given_bytes is not None and len(data):
        sure = np.asarray(sure & given_bytes[at].all(axis=-1))
    value = computed(bits, start)
    if start.known is not True:
        return Value(bits, np.asarray(sure & start.known), start.origin, value.tag)
    if np.all(sure):
        return value
    return m.lacking_constant(operand.number, start, plus, Value(bits, sure, m.now, value.tag))


Step = Callable[[Machine], None]


@dataclass(frozen=True)
class Use:
    """What matters about an instruction that has its own step."""

    index: int  # of the instruction
    matters: bool  # its results
    contents: bool  # what shared memory holds


Maker = Callable[[SassInstruction, Use], Step | None]  # None if it does nothing

MAKERS: Registry[Maker] = Registry()  # for opcodes that access memory or a barrier, rather than compute
executes = MAKERS.register


def both(first: Step, second: Step | None) -> Step:
    """Return the step that runs both, one after the other."""

    def step(m: Machine) -> None:
        first(m)
        if second is not None:
            second(m)

    return step


Compute = Callable[[Machine], Sequence[Value | None]]  # one result per register
Compiler = Callable[[SassInstruction], Compute | None]  # None if a modifier is not supported

COMPILERS: Registry[Compiler] = Registry()
operation = COMPILERS.register


def apply(function: Callable[..., Sequence[Value | None]], *readers: Reader) -> Compute:
    """Return a computation that applies a function of the machine and some values to what the readers read."""
    return lambda m: function(m, *[read(m) for read in readers])


def compiled_step(instruction: SassInstruction) -> Step | None:
    """Return the step of an instruction; None if it is not emulated."""
    compiler = COMPILERS.get(instruction.opcode)
    compute = compiler(instruction) if compiler else None
    if compute is None:
        return None
    guard = guard_operands(instruction.guard)
    registers = [operand_number(operand) for operand in instruction.operands[: results(instruction)]]
    if instruction.opcode in ("R2P", "UR2P", "UR2UP"):
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
