"""Accesses of single lanes cut into units of a few bytes, each with its source line and what it does."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Self

import numpy as np

from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.emulate.accesses import access_width, operation_name
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.effects import COUNTED, GENERIC
from ncu_swizzle.emulate.tracing import LaneAccesses, Version, synchronises
from ncu_swizzle.engines.emulation import Executable
from ncu_swizzle.smem.operations import Bools, Ints

# Which line of the old source a line of the new one was, and so which access is which.

NOWHERE: Location = ("", 0)  # of an instruction without a source line
ALIKE = 0.5  # similarity of two lines from which on one is taken for a changed version of the other


@dataclass(frozen=True)
class Lines:
    """By file of the new sources: the old file, and its line for each line that is not new."""

    old: Mapping[str, tuple[str, Mapping[int, int]]]

    @classmethod
    def between(cls, before: Mapping[str, str], after: Mapping[str, str]) -> Lines:
        """Pair the lines of sources, texts by path. A file that has moved is found by its name, if that is unique."""
        earlier = {file: _earlier(file, before) for file in after}
        return cls(
            {file: (earlier[file], dict(_paired(before.get(earlier[file], ""), text))) for file, text in after.items()}
        )

    @classmethod
    def same(cls, sources: Mapping[str, str]) -> Lines:
        """Return the lines of sources that have not changed."""
        return cls.between(sources, sources)

    def first(self, stack: Sequence[Location]) -> Location:
        """Return the innermost line of a stack that the old sources have, as a line there.

        Lines of libraries count only if there is no other, as they are the same in both.
        """
        own = (self._old(file, line) for file, line in stack if file in self.old)
        libraries = (at for at in stack if at[0] not in self.old)
        return next(filter(None, own), None) or next(libraries, NOWHERE)

    def mapped(self, stack: Sequence[Location]) -> tuple[Location, ...]:
        """Return a stack with the lines that the old sources have, as lines there, and those of libraries."""
        found = ((file, line) if file not in self.old else self._old(file, line) for file, line in stack)
        return tuple(at for at in found if at is not None)

    def _old(self, file: str, line: int) -> Location | None:
        old, lines = self.old[file]
        return (old, lines[line]) if line in lines else None


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[frozenset[Location], frozenset[Location]]:
    """Return the lines of the old sources and of the new ones that the other sources do not have."""
    sides: tuple[set[Location], set[Location]] = set(), set()
    for file, text in after.items():
        other = _earlier(file, before)
        matcher = difflib.SequenceMatcher(None, before.get(other, "").splitlines(), text.splitlines(), autojunk=False)
        for tag, first, end, start, stop in matcher.get_opcodes():
            if tag != "equal":
                sides[0].update((other, line + 1) for line in range(first, end))
                sides[1].update((file, line + 1) for line in range(start, stop))
    return frozenset(sides[0]), frozenset(sides[1])


def _earlier(file: str, before: Mapping[str, str]) -> str:
    """Return the old path of a file; the new one if it is unknown."""
    named = [other for other in before if PurePath(other).name == PurePath(file).name]
    return named[0] if file not in before and len(named) == 1 else file


def _paired(before: str, after: str) -> Iterator[tuple[int, int]]:
    """Yield line numbers, of the new text and of the old one."""
    old, new = before.splitlines(), after.splitlines()
    for tag, first, end, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from ((start + k + 1, first + k + 1) for k in range(end - first))
        elif tag == "replace":
            yield from _changed(old[first:end], new[start:stop], first, start)


def _changed(old: Sequence[str], new: Sequence[str], first: int, start: int) -> Iterator[tuple[int, int]]:
    """Pair changed lines in order: all of them if they are as many, otherwise those that are most alike."""
    if len(old) == len(new):
        yield from ((start + k + 1, first + k + 1) for k in range(len(old)))
        return
    taken = 0
    for k, line in enumerate(new):
        ratios = [difflib.SequenceMatcher(None, line.split(), other.split()).ratio() for other in old[taken:]]
        best = max(range(len(ratios)), key=ratios.__getitem__, default=None)
        if best is not None and ratios[best] >= ALIKE:
            yield start + k + 1, first + taken + best + 1
            taken += best + 1


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


@dataclass(frozen=True, eq=False, kw_only=True)
class InstructionRows:
    """What each instruction of a version does: bytes per lane, the kind of access or sync, its line; [instruction]."""

    width: Ints
    kind: Ints
    line: Ints
    sync: Ints


def instruction_rows(
    before: Executable, after: Executable, traced: Sequence[Version], kinds: Numbers, places: Numbers
) -> list[InstructionRows]:
    """Return what the instructions of both versions do, by the same numbers, with the lines of the old source."""
    old, new = before.emulated.profile.sources, after.emulated.profile.sources
    tables: list[InstructionRows] = []
    sides = zip((before, after), traced, (Lines.same(old), Lines.between(old, new)), strict=True)
    for version, trace, lines in sides:
        width, kind, line, sync = (np.zeros(len(trace.instructions), np.int64) for _ in range(4))
        for number, instruction in enumerate(trace.instructions):
            line[number] = places.of(lines.first(version.stacks.get(instruction.offset, ())))
            if instruction.opcode in COUNTED | GENERIC:
                width[number] = access_width(instruction)
                kind[number] = kinds.of(_kind(instruction))
            elif synchronises(instruction):
                sync[number] = kinds.of(_sync(instruction))
        tables.append(InstructionRows(width=width, kind=kind, line=line, sync=sync))
    return tables


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
    """Accesses to units of shared memory, in the order of execution of each thread: columns of one length, [access]."""

    block: Ints
    thread: Ints
    epoch: Ints
    line: Ints
    kind: Ints
    at: Ints  # the address of the unit's first byte

    @classmethod
    def of(cls, accesses: LaneAccesses, table: InstructionRows, unit: int) -> Self:
        # An access of n units becomes n rows: 0, 1, … n - 1 units behind its address.
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
        # Bits of the key: 10 for a thread (a block has at most 1,024), 16 for a line's number, 8 for the kind.
        # Larger numbers would make one group of two, and two versions alike that are not.
        assert self.line.max(initial=0) < 1 << 16, "more lines than a key can hold"
        assert self.kind.max(initial=0) < 1 << 8, "more kinds of accesses than a key can hold"
        group = ((self.block << 10 | self.thread) << 16 | self.line) << 8 | self.kind
        order = np.argsort(group, kind="stable")
        return self.chosen(order), group[order]

    def by_place(self, reading: int, writing: int) -> Self:
        """Return the rows by block, thread, barriers passed and place, in order of execution.

        Reads after the thread's own access, and writes that only repeat one, are left out: whether the compiler keeps
        a value in a register between two barriers is its own affair.
        """
        # Bits of the key: 10 for the thread, 24 for the barriers passed, 20 for the byte (`excess.SPACE` needs 18).
        key = ((self.block << 10 | self.thread) << 24 | self.epoch) << 20 | self.at
        order = np.argsort(key, kind="stable")
        rows, key = self.chosen(order), key[order]
        for kind, after in ((reading, (reading, writing)), (writing, (writing,))):
            again = np.zeros(len(rows), bool)
            again[1:] = (key[1:] == key[:-1]) & (rows.kind[1:] == kind) & np.isin(rows.kind[:-1], after)
            rows, key = rows.chosen(~again), key[~again]
        return rows
