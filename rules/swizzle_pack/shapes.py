"""How wide an access is, and how many fit one wavefront; docs/wavefronts.md has the rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

LINE = 128  # bytes of a bank row: 32 banks of 4 bytes
MATRIX = frozenset({"LDSM", "STSM"})


@dataclass(frozen=True)
class Shape:
    """Bytes that a lane moves at once (a row of a matrix), and how many such chunks fit one wavefront."""

    width: int

    @property
    def slots(self) -> int:
        """How many such chunks fit one wavefront."""
        return LINE // self.width

    @property
    def bits(self) -> int:
        """log2 of the slots: the width of the swizzle's XORed field."""
        return self.slots.bit_length() - 1


def shape(opcode: str) -> Shape:
    """Return an access's shape from its SASS opcode: LDS.64 moves 8 bytes, LDSM rows of 16."""
    kind, *modifiers = opcode.split(".")
    if kind in MATRIX:
        return Shape(16)
    widths = [
        int(match[1]) // 8 for match in (re.fullmatch(r"[US]?(16|32|64|128|8)", word) for word in modifiers) if match
    ]
    return Shape(max(widths[-1], 4) if widths else 4)


def ways(degree: float, slots: int) -> int | None:
    """Return the ways of a regular conflict, whose degree is a power of two up to `slots`; None for any other."""
    whole = round(degree)
    regular = whole > 1 and abs(degree - whole) < 0.01 and whole & (whole - 1) == 0 and whole <= slots
    return whole if regular else None
