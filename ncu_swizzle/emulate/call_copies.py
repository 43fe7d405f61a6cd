"""Copy a function that is called from several places, one copy per call: what holds at one need not at another.

Compilers call internal functions for the slow path of a division, in the middle of code whose lanes reconverge.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ncu_swizzle.emulate.code import INTEGER, STEP, Operand, SassInstruction

MOST_COPIED = 1 << 12  # instructions
JUMPS = frozenset(("BRA", "JMP", "BSSY"))

Functions = Mapping[int, str]  # by offset


def copied_calls(
    instructions: Sequence[SassInstruction], functions: Functions
) -> tuple[tuple[SassInstruction, ...], Functions]:
    """Return the instructions and functions with such copies behind them.

    Only leaf functions that access no shared memory are copied.
    """
    code, named = list(instructions), dict(functions)
    bounds = [*sorted(functions), code[-1].offset + STEP if code else 0]
    for start, end in itertools.pairwise(bounds):
        body = [each for each in instructions if start <= each.offset < end]
        calls = [n for n, each in enumerate(code) if each.opcode == "CALL" and _target(each) == start]
        simple = not any(each.row.addressed or each.opcode == "CALL" for each in body)
        if not simple or len(calls) < 2 or len(body) * len(calls) > MOST_COPIED:
            continue
        for call in calls[1:]:
            shift = code[-1].offset + STEP - start
            code[call] = _retargeted_text(code[call], shift)
            named[start + shift] = functions[start]
            code += [_copied_instruction(each, shift, start, end) for each in body]
    return tuple(code), named


def _target(call: SassInstruction) -> int | None:
    numbers = [operand.number for operand in call.operands]
    return numbers[-1] if numbers and all(operand.kind == INTEGER for operand in call.operands) else None


def _copied_instruction(instruction: SassInstruction, shift: int, start: int, end: int) -> SassInstruction:
    """Return an instruction of a function further down; jumps within the function stay within its copy."""
    targets = [operand.number for operand in instruction.operands if operand.kind == INTEGER]
    within = instruction.opcode in JUMPS and bool(targets) and start <= targets[-1] < end
    moved = _retargeted_text(instruction, shift) if within else instruction
    return replace(moved, offset=instruction.offset + shift)


def _retargeted_text(instruction: SassInstruction, shift: int) -> SassInstruction:
    """Return a jump or call whose target, the last number among its operands, is further down."""
    last = max(n for n, operand in enumerate(instruction.operands) if operand.kind == INTEGER)
    operands: list[Operand] = list(instruction.operands)
    operands[last] = replace(operands[last], number=operands[last].number + shift)
    return replace(instruction, operands=tuple(operands))
