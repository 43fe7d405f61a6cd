"""Byte addresses in binary, before and after a swizzle, ready to draw: the bits that it reads and those it changes."""

from __future__ import annotations

from dataclasses import dataclass

from ncu_swizzle.smem.pictures import Bits

MOST_ROWS = 256
LEFT, TOP, LINE, BASELINE = 176, 40, 18, 13  # pixels; the margin holds a label and the address
DIGIT, GAP = 15, 96  # pixels of a digit, and between the two addresses
COLOURS = {"S": 19, "T": 4, "B": 27}  # of the banks' palette: sources, targets, both


@dataclass(frozen=True)
class Band:
    """A column of bits that are read or changed."""

    x: int
    letter: str
    colour: int


@dataclass(frozen=True)
class AddressLine:
    """One address before and after, with each digit's place in `places`; `changed` if the swizzle moves the cell."""

    y: int
    label: str
    before: str
    after: str
    hex_before: str
    hex_after: str
    changed: bool


@dataclass(frozen=True)
class BitPicture:
    """Addresses in binary, ready to draw."""

    note: str
    width: int
    height: int
    left: int
    right: int
    digit: int
    line: int
    top: int
    bands: tuple[Band, ...]
    numbers: tuple[tuple[int, int], ...]  # x and bit
    places_before: str  # the digits' x, as SVG wants them
    places_after: str
    lines: tuple[AddressLine, ...]


def bit_picture(bits: Bits) -> BitPicture:
    """Return the picture of these addresses."""
    shown = bits.rows[:MOST_ROWS]
    right = LEFT + bits.width * DIGIT + GAP
    both = [[start + place * DIGIT for place in range(bits.width)] for start in (LEFT, right)]
    bands = [
        Band(x, letter, COLOURS[letter])
        for places in both
        for x, letter in zip(places, bits.legend, strict=True)
        if letter in COLOURS
    ]
    numbers = [(x + DIGIT // 2, bits.width - 1 - place) for places in both for place, x in enumerate(places)]
    return BitPicture(
        note=_note(bits, len(bits.rows) - len(shown)),
        width=right + bits.width * DIGIT + 8,
        height=TOP + len(shown) * LINE + 6,
        left=LEFT,
        right=right,
        digit=DIGIT,
        line=LINE,
        top=TOP,
        bands=tuple(bands),
        numbers=tuple(numbers),
        places_before=_middles(both[0]),
        places_after=_middles(both[1]),
        lines=tuple(
            AddressLine(
                y=TOP + number * LINE + BASELINE,
                label=row.label,
                before=format(row.before, f"0{bits.width}b"),
                after=format(row.after, f"0{bits.width}b"),
                hex_before=f"{row.before:#06x}",
                hex_after=f"{row.after:#06x}",
                changed=row.before != row.after,
            )
            for number, row in enumerate(shown)
        ),
    )


def _middles(places: list[int]) -> str:
    return " ".join(str(x + DIGIT // 2) for x in places)


def _note(bits: Bits, hidden: int) -> str:
    what = "Byte addresses in binary, before and after."
    swizzle = " S: source bits, XORed into T, the target bits; B: both." if bits.source else ""
    moved = " Addresses in bold change."
    return f"{what}{swizzle}{moved}" + (f" {hidden:,} more are not shown." if hidden else "")
