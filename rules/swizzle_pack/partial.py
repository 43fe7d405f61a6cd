"""PartialSwizzle: a conflict that is half gone, because the swizzle's mask reaches too few bits."""

from __future__ import annotations

from swizzle_pack import facts as known
from swizzle_pack.facts import Counts, Facts, Instruction
from swizzle_pack.finding import OPTIMIZATION, Finding, Marker
from swizzle_pack.shapes import MATRIX, shape, ways

RULE = "PartialSwizzle"


def decide(facts: Facts) -> list[Finding]:
    """Return one finding where accesses of 16-byte pieces are left with a degree of 2 or 4 of the 8 possible."""
    found = [one for one in facts.excessive() if _left(one)]
    if not found:
        return []
    groups = known.by(found, lambda one: (one.access, _left(one)))
    said = [_sentence(kind, left, counts) for (kind, left), counts in groups.items()]
    return [
        Finding(
            RULE,
            OPTIMIZATION,
            "Partial Swizzle",
            f"{' '.join(said)} Either rows this short are not swizzled at all, or the swizzle's mask reaches too few "
            "bits of the row's number, or bits that do not change within a phase.",
            markers=tuple(Marker(_remark(one), pc=one.pc) for one in found),
        )
    ]


def _left(one: Instruction) -> int | None:
    """Return 2 or 4 where the access is a regular conflict of so many ways on 16-byte pieces."""
    form = shape(one.opcode)
    if form.width != 16 or one.access not in MATRIX | {"LDS", "STS"}:
        return None
    left = ways(one.degree, form.slots)
    return left if left and left < form.slots else None


def _sentence(kind: str, left: int, counts: Counts) -> str:
    values = 8 // left
    return (
        f"{kind} is left with degree {left} ({counts.excessive:,} excessive wavefronts): the eight 16-byte pieces of a "
        f"phase lie in {values} of the eight groups of four banks. An XORed field that takes {values} "
        f"value{'s' if values > 1 else ''} over the phase does this; it has to take 8, that is 3 bits."
    )


def _remark(one: Instruction) -> str:
    left = _left(one) or 1
    return f"Degree {left} of 8: the XORed field takes {8 // left} of 8 values over the pieces of a phase."
