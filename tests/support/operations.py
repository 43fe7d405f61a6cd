"""Carry out a few SASS instructions by themselves, in one warp."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncu_swizzle.emulate.code import Code, Sass
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.values import Value

Lane = tuple[int, int, int, bool, bool]  # a, b, c, and two predicates


def machine() -> Machine:
    return Machine(np.zeros((1, 3), np.int64), (1, 1, 1), (32, 1, 1), (1, 1, 1), {}, {}, {}, 0)


def execute(sass: str, lanes: Sequence[Lane], known: bool = True) -> Machine:
    """Carry out instructions, one a line, with a, b, c in R2, R4, R6 (upper halves in R3, R5, R7), P0, P1."""
    lines = [*sass.splitlines(), "EXIT"]
    code = Code(name="test", instructions=tuple(Sass(16 * number, line) for number, line in enumerate(lines)))
    program = prepare(code, everything=True)
    m = machine()
    for place in range(3):
        numbers = np.array([[lane[place] for lane in lanes]], np.uint32)
        m.registers[2 + 2 * place] = Value(numbers, known)
        m.registers[3 + 2 * place] = Value(numbers[:, ::-1].copy(), known)
    m.registers[320] = Value(np.array([[lane[3] for lane in lanes]]))
    m.registers[321] = Value(np.array([[lane[4] for lane in lanes]]))
    assert not program.unsupported
    for step in program.steps[: len(lines) - 1]:
        assert step is not None
        step(m)
    return m
