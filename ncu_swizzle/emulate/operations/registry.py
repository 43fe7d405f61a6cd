"""Which function carries out which opcode."""

from __future__ import annotations

from collections.abc import Callable

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.effects import BASES, number, results
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.parse import PRED, UPRED, Instruction
from ncu_swizzle.emulate.values import Value

Step = Callable[[Machine], None]
Compute = Callable[[Machine], tuple[Value | None, ...]]  # the results, register by register
Compiler = Callable[[Instruction], Compute | None]  # None where a modifier is not known

COMPILERS: dict[str, Compiler] = {}


def operation(*opcodes: str) -> Callable[[Compiler], Compiler]:
    """Register what compiles instructions with these opcodes."""

    def register(compiler: Compiler) -> Compiler:
        COMPILERS.update(dict.fromkeys(opcodes, compiler))
        return compiler

    return register


def compiled(instruction: Instruction) -> Step | None:
    """Return what carries the instruction out on a machine; None where it is not known how."""
    compiler = COMPILERS.get(instruction.opcode)
    compute = compiler(instruction) if compiler else None
    if compute is None:
        return None
    guard = operands.guard(instruction.guard)
    places = [number(operand) for operand in instruction.operands[: results(instruction)]]
    if instruction.opcode in ("R2P", "UR2P"):
        base = BASES[PRED if instruction.opcode == "R2P" else UPRED]
        places = [base + bit for bit in range(7)]

    def step(m: Machine) -> None:
        values = compute(m)
        condition = guard(m) if guard else None
        for place, value in zip(_spread(places, len(values)), values, strict=False):
            if value is not None:
                m.put(place, value, condition)

    return step


def _spread(places: list[int | None], count: int) -> list[int | None]:
    """Return where each result goes: the first place takes as many neighbours as there are results too many."""
    extra = count - len(places)
    if extra <= 0 or not places:
        return places
    first = places[0]
    return [None if first is None else first + k for k in range(extra + 1)] + places[1:]
