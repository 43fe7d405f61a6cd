"""SharedExcess: the accesses that take more wavefronts than they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from swizzle_pack.facts import IDEAL, WAVEFRONTS, Counts, Facts, Instruction, grouped
from swizzle_pack.finding import OPTIMIZATION, Finding, Focus, Marker, Table, listed, percent

RULE = "SharedExcess"
NAMED = 3  # source lines named in the message
ROWS = 10  # rows of a table; the source view has the rest
MARKED = 100  # instructions annotated in the source view


def decide(facts: Facts) -> list[Finding]:
    """Return one finding with all details if there is excess, else none."""
    total = facts.total
    if total.excessive <= 0 or total.wavefronts <= 0:
        return []
    worst = facts.excessive()
    return [
        Finding(
            RULE,
            OPTIMIZATION,
            "Excessive Shared Wavefronts",
            _message(facts, total, worst),
            focus=(
                Focus(WAVEFRONTS, total.wavefronts, f"ideal: {total.ideal:,}"),
                Focus(IDEAL, total.ideal, "wavefronts needed without conflicts", good=True),
            ),
            markers=tuple(_markers(worst)),
            tables=tuple(_tables(facts, worst)),
        )
    ]


def _message(facts: Facts, total: Counts, worst: list[Instruction]) -> str:
    message = (
        f"{total.excessive:,} of {total.wavefronts:,} shared-memory wavefronts "
        f"({percent(total.excessive / total.wavefronts)}) are excessive: degree {total.degree:.2f}, actual over ideal."
    )
    kinds = [
        f"{kind} {counts.degree:.2f} ({counts.excessive:,} excessive)"
        for kind, counts in grouped(facts.accesses(), lambda i: i.access).items()
        if counts.excessive > 0
    ]
    if kinds:
        message += f" By access: {listed(kinds)}."
    lines = [
        f"{line} ({kind}, degree {counts.degree:.2f}, {counts.excessive:,})"
        for (line, kind), counts in list(_lines(worst, lambda i: (i.source, i.access)).items())[:NAMED]
    ]
    return f"{message} Worst source lines: {listed(lines)}." if lines else message


def _lines(worst: list[Instruction], key: Callable[[Instruction], Any]) -> dict[Any, Counts]:
    return grouped([i for i in worst if i.file], key)


def _markers(worst: list[Instruction]) -> list[Marker]:
    markers = [Marker(_remark(i, "this instruction's"), pc=i.pc) for i in worst[:MARKED]]
    lines = _lines(worst, lambda i: (i.file, i.line))
    return markers + [
        Marker(_remark(counts, "this line's conflicting"), file=file, line=line)
        for (file, line), counts in lines.items()
    ]


def _remark(counts: Counts, whose: str) -> str:
    return (
        f"{counts.excessive:,} of {whose} {counts.wavefronts:,} shared-memory wavefronts are excessive: "
        f"degree {counts.degree:.2f}."
    )


def _tables(facts: Facts, worst: list[Instruction]) -> list[Table]:
    if not worst:
        return []
    kinds = grouped(facts.accesses(), lambda i: i.access)
    lines = _lines(worst, lambda i: (i.file, i.line, i.access))
    tables = [
        Table("Wavefronts by access", ("Access", *HEADS), tuple((kind, *_cells(c)) for kind, c in kinds.items())),
        Table(
            f"Worst instructions (of {len(worst)})",
            ("Instruction", "Source", *HEADS),
            tuple((f"@sass:{i.pc}:{i.opcode}@", link(i), *_cells(i)) for i in worst[:ROWS]),
        ),
    ]
    if lines:
        rows = [
            (link(Instruction(file=file, line=line)), kind, *_cells(c))
            for (file, line, kind), c in list(lines.items())[:ROWS]
        ]
        tables.insert(1, Table(f"Worst source lines (of {len(lines)})", ("Source", "Access", *HEADS), tuple(rows)))
    return tables


HEADS = ("Executed", "Wavefronts", "Ideal", "Excessive", "Degree")


def _cells(counts: Counts) -> tuple[int | float, ...]:
    return (counts.executed, counts.wavefronts, counts.ideal, counts.excessive, round(counts.degree, 2))


def link(instruction: Instruction) -> str:
    """Return an instruction's source line as an ncu link; as plain text if the file name would break the link."""
    if not instruction.file or ":" in instruction.file or "@" in instruction.file:
        return instruction.source
    return f"@source:{instruction.file}:{instruction.line}:{instruction.source}@"
