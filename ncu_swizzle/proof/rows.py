"""Accesses of single lanes cut into units of a few bytes, each with its source line and what it does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.emulate.accesses import access_width, operation_name
from ncu_swizzle.emulate.opcodes import COUNTED, GENERIC
from ncu_swizzle.emulate.parse import SassInstruction
from ncu_swizzle.emulate.tracing import LaneAccesses, synchronises
from ncu_swizzle.engines.executable import Executable
from ncu_swizzle.proof.lines import Lines
from ncu_swizzle.smem.banks import Bools, Ints

READ, WRITE, COPY = "reads", "writes", "copies to"
_NUMBER = re.compile(r"SB0|0x")
_PLAIN = {"LDS": READ, "LD": READ, "STS": WRITE, "ST": WRITE, "LDGSTS": COPY}


class Numbers:
    """Numbers for things, the same for both versions."""

    def __init__(self) -> None:
        self.things: list[object] = []
        self._numbers: dict[object, int] = {}

    def of(self, thing: object) -> int:
        """Return the number of a thing, a new one if it has none."""
        if thing not in self._numbers:
            self._numbers[thing] = len(self.things)
            self.things.append(thing)
        return self._numbers[thing]


@dataclass(frozen=True, eq=False)
class Table:
    """What each instruction of a version does, by index: bytes per lane, the kind of access or sync, its line."""

    width: Ints
    kind: Ints
    line: Ints
    sync: Ints

    @classmethod
    def of(
        cls, version: Executable, instructions: Sequence[SassInstruction], lines: Lines, kinds: Numbers, places: Numbers
    ) -> Self:
        width, kind, line, sync = (np.zeros(len(instructions), np.int64) for _ in range(4))
        for number, instruction in enumerate(instructions):
            line[number] = places.of(lines.first(version.stacks.get(instruction.offset, ())))
            if instruction.opcode in COUNTED | GENERIC:
                width[number] = access_width(instruction)
                kind[number] = kinds.of(_kind(instruction))
            elif synchronises(instruction):
                sync[number] = kinds.of(_sync(instruction))
        return cls(width, kind, line, sync)


def _kind(instruction: SassInstruction) -> str:
    """Return what an access does, in words; two instructions that differ only in how much they move do the same."""
    if instruction.opcode in _PLAIN:
        return _PLAIN[instruction.opcode]
    return operation_name(instruction) or instruction.mnemonic


def _sync(instruction: SassInstruction) -> str:
    """Return what synchronises, without the registers, which the compiler is free to choose."""
    numbers = (word for word in instruction.text.partition(instruction.mnemonic)[2].split() if _NUMBER.match(word))
    return " ".join((instruction.mnemonic, *numbers))


@dataclass(frozen=True, eq=False)
class Rows:
    """Accesses to units of shared memory, in the order of execution of each thread."""

    block: Ints
    thread: Ints
    epoch: Ints
    line: Ints
    kind: Ints
    at: Ints  # the address of the unit's first byte

    @classmethod
    def of(cls, accesses: LaneAccesses, table: Table, unit: int) -> Self:
        count = table.width[accesses.pc] // unit
        each = np.repeat(np.arange(len(count)), count)
        within = np.arange(len(each)) - np.repeat(np.cumsum(count) - count, count)
        pc = accesses.pc[each]
        return cls(
            accesses.block[each],
            accesses.thread[each],
            accesses.epoch[each],
            table.line[pc],
            table.kind[pc],
            accesses.address[each] + unit * within,
        )

    def __len__(self) -> int:
        return len(self.at)

    def chosen(self, rows: Ints | Bools) -> Self:
        """Return some of the rows."""
        return type(self)(*(getattr(self, column.name)[rows] for column in fields(self)))

    def by_line(self) -> tuple[Self, Ints]:
        """Return the rows by block, thread, line and kind, in order of execution, and a number for each such group."""
        group = ((self.block << 10 | self.thread) << 16 | self.line) << 8 | self.kind
        order = np.argsort(group, kind="stable")
        return self.chosen(order), group[order]

    def by_place(self, reading: int, writing: int) -> Self:
        """Return the rows by block, thread, barriers passed and place, in order of execution.

        Reads after the thread's own access, and writes that only repeat one, are left out: whether the compiler keeps
        a value in a register between two barriers is its own affair.
        """
        key = ((self.block << 10 | self.thread) << 24 | self.epoch) << 20 | self.at
        order = np.argsort(key, kind="stable")
        rows, key = self.chosen(order), key[order]
        for kind, after in ((reading, (reading, writing)), (writing, (writing,))):
            again = np.zeros(len(rows), bool)
            again[1:] = (key[1:] == key[:-1]) & (rows.kind[1:] == kind) & np.isin(rows.kind[:-1], after)
            rows, key = rows.chosen(~again), key[~again]
        return rows


def location(places: Numbers, number: int) -> Location | None:
    """Return a line by its number; None for an instruction without one."""
    line = places.things[number]
    return line if isinstance(line, tuple) and line[0] else None
