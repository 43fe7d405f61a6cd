"""The per-instruction table of profiles as CSV: every SASS instruction, every count, nothing rounded."""

from __future__ import annotations

import csv
import io

from ncu_swizzle import mix
from ncu_swizzle.compare import Comparison
from ncu_swizzle.profile import Instruction

COLUMNS = (
    *("profile", "engine", "pc", "offset", "sass", "opcode", "class", "access", "file", "line", "callers"),
    *("executed", "wavefronts", "ideal", "excessive", "degree", "samples"),
)


def to_csv(*comparisons: Comparison) -> str:
    """Return one row per instruction and profile, and after the columns of `COLUMNS` one per stall reason.

    Offsets count bytes from the first instruction. A count that the report lacks is empty. Of several comparisons,
    a profile is called by the kernel's title and, where that has several, its label.
    """
    named = [
        (label if one.title in ("", label) else f"{one.title}: {label}", profile)
        for one in comparisons
        for label, profile in zip(one.labels, one.profiles, strict=True)
    ]
    reasons = sorted({reason for _, p in named for i in p.instructions for reason in i.samples})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *(f"stall_{reason}" for reason in reasons)])
    for label, profile in named:
        start = min((i.pc for i in profile.instructions), default=0)
        for instruction in profile.instructions:
            writer.writerow([label, profile.engine, *_cells(instruction, start, reasons)])
    return text.getvalue()


def _cells(i: Instruction, start: int, reasons: list[str]) -> list[object]:
    callers = " < ".join(f"{file}:{line}" for file, line in i.stack[1:])
    return [
        *(i.pc, i.pc - start, i.sass, i.opcode, mix.classify(mix.named(i)), i.access, i.file, i.line or "", callers),
        *(i.executed, i.wavefronts, i.ideal, i.excessive, i.degree, sum(i.samples.values())),
        *(i.samples.get(reason, 0) for reason in reasons),
    ]
