"""Count the wavefronts of wgmma. Its descriptors do not matter; its results are unknown."""

from __future__ import annotations

import re

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operations.registry import Step
from ncu_swizzle.emulate.parse import REG, SassInstruction
from ncu_swizzle.smem.wgmma import warpgroup_wavefronts

_SHAPE = re.compile(r"64x(\d+)x\d+")


def counted(instruction: SassInstruction, index: int) -> Step:
    """Return the step that counts a wgmma."""
    guard = operands.guard(instruction.guard)
    wavefronts = _wavefronts(instruction)

    def step(m: Machine) -> None:
        condition = guard(m) if guard else None
        selected, doubtful = m.certain_mask(condition)
        if wavefronts is None:
            m.log.miss(index, "no rule is known for the wavefronts of this shape", None)
        elif doubtful.any():
            m.log.miss(index, "whether its predicate holds", condition.origin if condition else None)
        else:
            m.log.record_wgmma(index, m.view_blocks()[selected.any(axis=1)], wavefronts)

    return step


def _wavefronts(instruction: SassInstruction) -> int | None:
    """Return the wavefronts of a warpgroup; None for an unknown shape."""
    shapes = [match for word in instruction.modifiers if (match := _SHAPE.fullmatch(word))]
    if not shapes or len(instruction.operands) < 2:
        return None
    return warpgroup_wavefronts(int(shapes[0][1]), instruction.operands[1].kind != REG, instruction.has("SP"))
