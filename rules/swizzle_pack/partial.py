"""PartialSwizzle: a conflict only partly removed, because the swizzle's mask covers too few bits."""

from __future__ import annotations

from swizzle_pack.facts import Counts, Facts, Instruction, grouped
from swizzle_pack.finding import OPTIMIZATION, Finding, Marker
from swizzle_pack.shapes import MATRIX, shape, ways

RULE = "PartialSwizzle"


def decide(facts: Facts) -> list[Finding]:
    """Return one finding if 16-byte accesses are left with a degree of 2 or 4 out of 8."""
    partial = [instruction for instruction in facts.excessive() if _left(instruction)]
    if not partial:
        return []
    groups = grouped(partial, lambda i: (i.access, _left(i)))
    sentences = [_sentence(kind, left, counts) for (kind, left), counts in groups.items()]
    return [
        Finding(
            RULE,
            OPTIMIZATION,
            "Partial Swizzle",
            f"{' '.join(sentences)} Either rows this short are not swizzled at all, or the swizzle's mask covers too "
            "few bits of the row index, or bits that do not change within a phase.",
            markers=tuple(Marker(_remark(instruction), pc=instruction.pc) for instruction in partial),
        )
    ]


def _left(instruction: Instruction) -> int | None:
    """Return 2 or 4 if the access is a regular 2- or 4-way conflict on 16-byte chunks."""
    form = shape(instruction.opcode)
    if form.width != 16 or instruction.access not in MATRIX | {"LDS", "STS"}:
        return None
    left = ways(instruction.degree, form.slots)
    return left if left and left < form.slots else None


def _sentence(kind: str, left: int, counts: Counts) -> str:
    values = 8 // left
    return (
        f"{kind} is left with degree {left} ({counts.excessive:,} excessive wavefronts): the eight 16-byte chunks of a "
        f"phase fall into {values} of the eight groups of four banks. The XORed field takes only {values} "
        f"value{'s' if values > 1 else ''} within a phase; it needs 8, i.e. 3 bits."
    )


def _remark(instruction: Instruction) -> str:
    left = _left(instruction) or 1
    return f"Degree {left} of 8: the XORed field takes {8 // left} of 8 values within a phase."
