"""Follow wgmmas: which operands they read, and what they add them to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.copies import of_row
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.operations.exchange import first_lane
from ncu_swizzle.emulate.operations.registry import Step
from ncu_swizzle.emulate.parse import MEMORY, PRED, REG, TRUE, UPRED, ZERO, Operand, SassInstruction
from ncu_swizzle.emulate.tile_operand import OperandSeen
from ncu_swizzle.emulate.tile_products import Product
from ncu_swizzle.emulate.tile_record import TileRecord
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem.descriptors import Descriptor
from ncu_swizzle.smem.wgmma import K_BYTES, ROWS, WARPS

_SHAPE = re.compile(r"64x(\d+)x(\d+)")
_FOLLOWED_K = (8, 16, 32)  # of types of 32, 16 and 8 bits
Span = tuple[int, int]


def results_of(instruction: SassInstruction) -> Span:
    """Return the registers that a wgmma adds to: the first, and behind the last."""
    shape = _shape(instruction)
    first = instruction.operands[0].number
    return first, first + (shape[0] // 2 if shape else 1)


def _shape(instruction: SassInstruction) -> Span | None:
    """Return the columns and K of a wgmma; None if they are not known."""
    found = next((match for word in instruction.modifiers if (match := _SHAPE.fullmatch(word))), None)
    return (int(found[1]), int(found[2])) if found else None


def _multiplies(instruction: SassInstruction) -> bool:
    """Say whether it is a product: compilers also emit wgmmas that only order others."""
    memory = [operand for operand in instruction.operands if operand.kind == MEMORY and operand.terms]
    return bool(memory) and memory[0].terms[0].text != "URZ"


@dataclass
class ProductProbe:
    """Follows the operands of a wgmma."""

    record: TileRecord
    instruction: SassInstruction
    columns: int
    element: int  # bytes
    memory: Operand = field(init=False)

    def __post_init__(self) -> None:
        given = self.instruction.operands
        self.guard = operands.guard(self.instruction.guard)
        at = next(number for number, operand in enumerate(given) if operand.kind == MEMORY)
        first = given[at].terms[0]
        # With A in registers, the descriptor of B is in the same two registers.
        self.in_registers = given[1].kind == REG
        places = [("B", 2, self.columns)] if self.in_registers else [("A", 0, ROWS), ("B", 2, self.columns)]
        self.operands = [
            (side, operands.raw(first, at), operands.raw(first, at + 1), rows, f"tnsp{side}" in self.instruction.text)
            for side, at, rows in places
        ]
        self.fresh = not any(operand.kind == REG and operand.number != ZERO for operand in given[at + 1 :])
        flag = next((operand for operand in given[at + 1 :] if operand.kind in (PRED, UPRED)), None)
        self.adds = operands.guard(flag)
        self.fresh |= flag is not None and flag.number == TRUE and flag.negated

    @classmethod
    def of(cls, record: TileRecord, instruction: SassInstruction) -> Step | None:
        """Return the step; None for wgmmas that multiply nothing."""
        if not _multiplies(instruction):
            return None
        shape = _shape(instruction)
        if shape is None or shape[1] not in _FOLLOWED_K or instruction.has("SP"):
            return _Unfollowed(record, instruction).step
        return cls(record, instruction, shape[0], K_BYTES // shape[1]).step

    def step(self, m: Machine) -> None:
        selected, doubtful = m.selection(self.guard(m) if self.guard else None)
        values = [(first_lane(low(m), m.view.mask), first_lane(high(m), m.view.mask))
                  for _, low, high, *_ in self.operands]  # fmt: skip
        if doubtful.any() or not all(low.certain and high.certain for low, high in values):
            self.record.lose(m, f"what {self.instruction.text} reads is not known")
            return
        self.record.check_waits(m, self.instruction.offset)
        if self.in_registers:
            self.record.leave(
                f"A of {self.instruction.text} is in registers: whether its K goes with that of B is not known"
            )
        for row in np.flatnonzero(selected.any(axis=1)).tolist():
            if int(m.view.warps[row]) % m.per_block % WARPS:
                continue  # the warps of a warpgroup read the same tiles
            self._judge(m, row, values)

    def _judge(self, m: Machine, row: int, values: list[tuple[Value, Value]]) -> None:
        seen = []
        for (side, _, _, rows, mn), (low, high) in zip(self.operands, values, strict=True):
            bits = of_row(low, row) | of_row(high, row) << 32
            seen.append(OperandSeen(side, Descriptor.of_bits(bits), rows, mn, self.element))
        block = int(m.view_blocks()[row])
        chain = int(m.view.warps[row]), self.instruction.operands[0].number
        if self._starts_anew(m, row):
            self.record.chains.end(chain)
        Product(self.record, self.record.placed(m), self.instruction, block, tuple(seen), chain).judge(m)
        self.record.count()

    def _starts_anew(self, m: Machine, row: int) -> bool:
        """Say whether its results are not added to others, as far as is known."""
        if self.fresh or self.adds is None:
            return self.fresh
        adds = first_lane(self.adds(m), m.view.mask)
        return not adds.certain or not of_row(adds, row)


@dataclass
class _Unfollowed:
    """Says that a wgmma is not followed."""

    record: TileRecord
    instruction: SassInstruction

    def step(self, m: Machine) -> None:  # noqa: ARG002 - steps take the machine
        self.record.leave(f"{self.instruction.text} is not followed", lost=True)


@dataclass
class EndProbe:
    """Ends what is added up in registers that another instruction writes."""

    record: TileRecord
    instruction: SassInstruction
    spans: list[Span]

    def step(self, m: Machine) -> None:
        if not self.record.chains.open:
            return
        warps = m.view.warps.tolist()
        for first, end in self.spans:
            self.record.chains.touched(warps, first, end)
