"""The instructions of a report that access shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.counts import Instruction
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import text

# Stall reasons that say how a warp's issue slot was used rather than why it waited.
NOT_STALLED = frozenset({"selected"})


@dataclass(frozen=True)
class InstructionRow:
    offset: str
    sass: str
    place: str
    executed: str
    wavefronts: str
    ideal: str
    excessive: str
    degree: str
    samples: str
    stall: str
    heat: str


@dataclass(frozen=True)
class InstructionTable:
    """The instructions of one profile that access shared memory, worst first."""

    label: str
    rows: tuple[InstructionRow, ...]


def tables(comparison: Comparison) -> tuple[InstructionTable, ...]:
    """Return the instructions that access shared memory, one table for each profile that has any."""
    named = zip(comparison.labels, comparison.profiles, strict=True)
    found = (InstructionTable(label, _instruction_rows(profile)) for label, profile in named)
    return tuple(table for table in found if table.rows)


def _instruction_rows(profile: Profile) -> tuple[InstructionRow, ...]:
    start = min((i.pc for i in profile.instructions), default=0)
    accesses = sorted(
        (i for i in profile.instructions if i.access),
        key=lambda i: (-(i.excessive or 0), -(i.wavefronts or 0), i.pc),
    )
    most = max((i.excessive or 0 for i in accesses), default=0)
    return tuple(_instruction(i, start, most) for i in accesses)


def _instruction(instruction: Instruction, start: int, most_excess: int) -> InstructionRow:
    stalled = {reason: n for reason, n in instruction.samples.items() if reason not in NOT_STALLED and n}
    top = max(stalled, key=lambda reason: (stalled[reason], reason), default="")
    return InstructionRow(
        offset=f"0x{instruction.pc - start:04x}",
        sass=instruction.sass,
        place=" ← ".join(f"{file}:{line}" for file, line in instruction.stack),
        executed=text.count(instruction.executed),
        wavefronts=text.count(instruction.wavefronts),
        ideal=text.count(instruction.ideal),
        excessive=text.count(instruction.excessive),
        degree="" if instruction.wavefronts == 0 else text.degree(instruction.degree),
        samples=text.count(sum(instruction.samples.values())),
        stall=f"{top} {100 * stalled[top] / sum(instruction.samples.values()):.0f} %" if top else "",
        heat=text.shade(instruction.excessive, most_excess),
    )
