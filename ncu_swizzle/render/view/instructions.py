"""The shared-memory instructions of a report."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.counts import Instruction
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import sampling, text

MOST_ROWS = 3_000  # of all profiles together
MOST_FRAMES = 30  # of an instruction's lines
# Not a stall: the warp issued.
NOT_STALLED = frozenset({"selected"})


@dataclass(frozen=True)
class InstructionRow:
    """One instruction; `source` is its line and the lines it was inlined into, `heat` a shade from 0 to 1.

    `few` if the share of its top stall rests on too few samples.
    """

    offset: str
    sass: str
    source: str
    executed: str
    wavefronts: str
    ideal: str
    excessive: str
    degree: str
    samples: str
    stall: str
    heat: str
    few: bool


@dataclass(frozen=True)
class InstructionTable:
    """One profile's shared-memory instructions, worst first."""

    label: str
    rows: tuple[InstructionRow, ...]
    left_out: int = 0


def tables(comparison: Comparison) -> tuple[InstructionTable, ...]:
    """Return a table of shared-memory instructions for each profile that has any: the worst, if there are many."""
    named = zip(comparison.labels, comparison.profiles, strict=True)
    all_tables = (_table(label, profile, MOST_ROWS // len(comparison.profiles)) for label, profile in named)
    return tuple(table for table in all_tables if table.rows)


def _table(label: str, profile: Profile, room: int) -> InstructionTable:
    start = min((i.pc for i in profile.instructions), default=0)
    accesses = sorted(
        (i for i in profile.instructions if i.access),
        key=lambda i: (-(i.excessive or 0), -(i.wavefronts or 0), i.pc),
    )
    most = max((i.excessive or 0 for i in accesses), default=0)
    rows = tuple(_instruction(i, start, most) for i in accesses[:room])
    return InstructionTable(label, rows, len(accesses) - len(rows))


def _source(instruction: Instruction) -> str:
    shown = [f"{text.cut(file)}:{line}" for file, line in instruction.stack[:MOST_FRAMES]]
    more = len(instruction.stack) - len(shown)
    return " ← ".join([*shown, f"{more} more"] if more else shown)


def _instruction(instruction: Instruction, start: int, most_excess: int) -> InstructionRow:
    stalled = {reason: n for reason, n in instruction.samples.items() if reason not in NOT_STALLED and n}
    samples = sum(instruction.samples.values())
    top = max(stalled, key=lambda reason: (stalled[reason], reason), default="")
    return InstructionRow(
        offset=f"0x{instruction.pc - start:04x}",
        sass=text.cut(instruction.sass),
        source=_source(instruction),
        executed=text.count(instruction.executed),
        wavefronts=text.count(instruction.wavefronts),
        ideal=text.count(instruction.ideal),
        excessive=text.count(instruction.excessive),
        degree="" if instruction.wavefronts == 0 else text.degree(instruction.degree),
        samples=text.count(samples),
        stall=f"{top} {text.percent(100 * stalled[top] / samples)}" if top else "",
        heat=text.shade(instruction.excessive, most_excess),
        few=sampling.few(samples),
    )
