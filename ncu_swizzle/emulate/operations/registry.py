"""The function for each opcode."""

from __future__ import annotations

from collections.abc import Callable

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.effects import BASES, number, results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.parse import PRED, UPRED, SassInstruction
from ncu_swizzle.emulate.values import Value

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
    guard = operands.guard(instruction.guard)
    registers = [number(operand) for operand in instruction.operands[: results(instruction)]]
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
