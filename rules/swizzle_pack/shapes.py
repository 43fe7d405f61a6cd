"""How wide an access is, and how many fit one wavefront; docs/wavefronts.md has the rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

LINE = 128  # bytes of a bank row: 32 banks of 4 bytes
WORD = 4  # bytes of a bank
MATRIX = frozenset({"LDSM", "STSM"})


@dataclass(frozen=True)
class Shape:
    """Bytes that a lane accesses at once; of `matrices`, the bytes of a row."""

    width: int
    matrices: int = 0

    def __str__(self) -> str:
        if self.matrices:
            return f"{self.matrices} matri{'ces' if self.matrices > 1 else 'x'} of {self.width}-byte rows"
        return f"{self.width} byte{'s' if self.width > 1 else ''}"

    @property
    def unit(self) -> int:
        """The bytes that an access keeps busy, at least a bank's word."""
        return max(self.width, WORD)

    @property
    def slots(self) -> int:
        """How many such accesses fit one wavefront."""
        return LINE // self.unit

    @property
    def bits(self) -> int:
        """log2 of the slots: the width of the swizzle's XORed field."""
        return self.slots.bit_length() - 1


def shape(opcode: str) -> Shape:
    """Return an access's shape from its SASS opcode: LDS.64 moves 8 bytes, LDSM.16.M88.4 four matrices."""
    kind, *modifiers = opcode.split(".")
    if kind in MATRIX:
        return Shape(16, int(modifiers[-1]) if modifiers and modifiers[-1] in ("1", "2", "4") else 1)
    widths = [
        int(match[1]) // 8 for match in (re.fullmatch(r"[US]?(16|32|64|128|8)", word) for word in modifiers) if match
    ]
    return Shape(widths[-1] if widths else WORD)


def spelled(bits: int, base: int, shift: int, element_bytes: int) -> str:
    """Return a swizzle as ncu-swizzle prints it everywhere; `offset` counts the elements."""
    mask = hex(((1 << bits) - 1) << base)
    unit = f"elements of {element_bytes} byte{'s' if element_bytes > 1 else ''}"
    return f"Swizzle<{bits},{base},{shift}> on {unit} (offset ^ ((offset >> {shift}) & {mask}))"


def ways(degree: float, slots: int) -> int | None:
    """Return the ways of a regular conflict, whose degree is a power of two up to `slots`; None for any other."""
    whole = round(degree)
    regular = whole > 1 and abs(degree - whole) < 0.01 and whole & (whole - 1) == 0 and whole <= slots
    return whole if regular else None
