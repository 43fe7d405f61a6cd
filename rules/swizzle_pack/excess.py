"""SharedExcess: which accesses take more wavefronts than their bytes need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from swizzle_pack import facts as known
from swizzle_pack.facts import Counts, Facts, Instruction
from swizzle_pack.finding import OPTIMIZATION, Finding, Focus, Marker, Table, listed, percent

RULE = "SharedExcess"
NAMED = 3  # source lines in the message
ROWS = 10  # of a table; the rest is in the source view
MARKED = 100  # instructions that get a remark in the source view


def decide(facts: Facts) -> list[Finding]:
    """Return one finding with everything in it where there is excess, none elsewhere."""
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
                Focus(known.WAVEFRONTS, total.wavefronts, f"ideal: {total.ideal:,}"),
                Focus(known.IDEAL, total.ideal, "what the same bytes need without a conflict", good=True),
            ),
            markers=tuple(_markers(worst)),
            tables=tuple(_tables(facts, worst)),
        )
    ]


def _message(facts: Facts, total: Counts, worst: list[Instruction]) -> str:
    said = (
        f"{total.excessive:,} of {total.wavefronts:,} shared-memory wavefronts "
        f"({percent(total.excessive / total.wavefronts)}) are excessive: degree {total.degree:.2f}, actual over ideal."
    )
    kinds = [
        f"{kind} {counts.degree:.2f} ({counts.excessive:,} excessive)"
        for kind, counts in known.by(facts.accesses(), lambda one: one.access).items()
        if counts.excessive > 0
    ]
    if kinds:
        said += f" By access: {listed(kinds)}."
    places = [
        f"{place} ({kind}, degree {counts.degree:.2f}, {counts.excessive:,})"
        for (place, kind), counts in list(_lines(worst, lambda one: (one.place, one.access)).items())[:NAMED]
    ]
    return f"{said} Worst source lines: {listed(places)}." if places else said


def _lines(worst: list[Instruction], key: Callable[[Instruction], Any]) -> dict[Any, Counts]:
    return known.by([one for one in worst if one.file], key)


def _markers(worst: list[Instruction]) -> list[Marker]:
    markers = [Marker(_remark(one, "this instruction's"), pc=one.pc) for one in worst[:MARKED]]
    lines = _lines(worst, lambda one: (one.file, one.line))
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
    kinds = known.by(facts.accesses(), lambda one: one.access)
    lines = _lines(worst, lambda one: (one.file, one.line, one.access))
    tables = [
        Table("Wavefronts by access", ("Access", *HEADS), tuple((kind, *_cells(c)) for kind, c in kinds.items())),
        Table(
            f"Worst instructions (of {len(worst)})",
            ("Instruction", "Source", *HEADS),
            tuple((f"@sass:{one.pc}:{one.opcode}@", link(one), *_cells(one)) for one in worst[:ROWS]),
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


def link(one: Instruction) -> str:
    """Return the place as a link of ncu's, as a text where the file's name would break the link."""
    if not one.file or ":" in one.file or "@" in one.file:
        return one.place
    return f"@source:{one.file}:{one.line}:{one.place}@"
