"""GlobalSectors: the accesses that take more sectors of global memory than they need, and lines that ncu adds up.

ncu's UncoalescedGlobalAccess adds up source lines by their number and ignores the file.
"""

from __future__ import annotations

from collections.abc import Iterable

from swizzle_pack.excess import NAMED, ROWS, link
from swizzle_pack.facts import IDEAL_SECTORS, SECTORS, Facts, Instruction, opcode
from swizzle_pack.finding import OPTIMIZATION, Finding, Focus, Marker, Table, listed, percent

RULE = "GlobalSectors"
NOTICED = 0.05  # of the ideal sectors: borders of arrays take a few more
Line = tuple[str, int]


def decide(facts: Facts) -> list[Finding]:
    """Return one finding if there is excess worth one, else none."""
    accesses = [each for each in facts.instructions if each.sectors > 0]
    taken, ideal = sum(each.sectors for each in accesses), sum(each.ideal_sectors for each in accesses)
    if taken - ideal <= NOTICED * ideal:
        return []
    lines = _excess(accesses)
    worst = sorted(lines, key=lambda line: (-lines[line], line))
    said = [f"{_name(line)} ({lines[line]:,})" for line in worst[:NAMED]]
    rows = tuple(
        (link(Instruction(file=line[0], line=line[1])), _kinds(accesses, line), lines[line]) for line in worst[:ROWS]
    )
    message = (
        f"{taken - ideal:,} of {taken:,} sectors of global memory ({percent((taken - ideal) / taken)}) are excessive."
        + (f" Worst source lines: {listed(said)}." if said else "")
        + "".join(_added_up(lines))
    )
    return [
        Finding(
            RULE,
            OPTIMIZATION,
            "Excessive Sectors Of Global Memory",
            message,
            focus=(
                Focus(SECTORS, taken, f"ideal: {ideal:,}"),
                Focus(IDEAL_SECTORS, ideal, "sectors that the bytes asked for fill", good=True),
            ),
            markers=tuple(
                Marker(f"{lines[line]:,} excessive sectors of global memory.", file=line[0], line=line[1])
                for line in worst
            ),
            tables=(Table("Excessive sectors by source line", ("Source", "Access", "Excessive"), rows),)
            if rows
            else (),
        )
    ]


def _excess(accesses: Iterable[Instruction]) -> dict[Line, int]:
    """Return the excessive sectors of each line that has any."""
    lines: dict[Line, int] = {}
    for each in accesses:
        if each.file and each.sectors > each.ideal_sectors:
            lines[_at(each)] = lines.get(_at(each), 0) + each.sectors - each.ideal_sectors
    return lines


def _added_up(lines: dict[Line, int]) -> Iterable[str]:
    """Yield a sentence for each number that lines of several files have: ncu's own rule makes one line of them."""
    by_number: dict[int, list[Line]] = {}
    for line in lines:
        by_number.setdefault(line[1], []).append(line)
    for number, same in sorted(by_number.items()):
        if len(same) > 1:
            parts = listed([f"{_name(line)} ({lines[line]:,})" for line in same])
            total = sum(lines[line] for line in same)
            yield f" UncoalescedGlobalAccess ignores the file: its {total:,} of line {number} are {parts}."


def _at(instruction: Instruction) -> Line:
    return instruction.file, instruction.line


def _name(line: Line) -> str:
    return Instruction(file=line[0], line=line[1]).source


def _kinds(accesses: Iterable[Instruction], line: Line) -> str:
    return "/".join(dict.fromkeys(opcode(each.sass).split(".")[0] for each in accesses if _at(each) == line))
