"""How wide an access is, and what of its address decides about the banks: the rules that docs/wavefronts.md tells."""

from __future__ import annotations

import re
from dataclasses import dataclass

LINE = 128  # bytes: one lap around the 32 banks of 4 bytes
MATRIX = frozenset({"LDSM", "STSM"})


@dataclass(frozen=True)
class Shape:
    """Bytes that a lane moves at once (of a matrix: a row), and how many of them one wavefront can hold."""

    width: int

    @property
    def slots(self) -> int:
        """How many such pieces fit a wavefront: what has to differ between the lanes of a phase."""
        return LINE // self.width

    @property
    def bits(self) -> int:
        return self.slots.bit_length() - 1


def shape(opcode: str) -> Shape:
    """Return the shape of an access by its SASS opcode: LDS.64 has 8 bytes, every LDSM has rows of 16."""
    kind, *modifiers = opcode.split(".")
    if kind in MATRIX:
        return Shape(16)
    widths = [
        int(found[1]) // 8 for found in (re.fullmatch(r"[US]?(16|32|64|128|8)", word) for word in modifiers) if found
    ]
    return Shape(max(widths[-1], 4) if widths else 4)


def ways(degree: float, slots: int) -> int | None:
    """Return the conflict's ways where the degree is that of a regular one: a power of two up to `slots`."""
    whole = round(degree)
    regular = whole > 1 and abs(degree - whole) < 0.01 and whole & (whole - 1) == 0 and whole <= slots
    return whole if regular else None
