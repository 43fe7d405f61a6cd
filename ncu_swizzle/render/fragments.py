"""Which lane holds what of the kernel's ldmatrix and mma fragments, as pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.smem import layout
from ncu_swizzle.smem.layout import Fragment

LEFT, TOP, CELL_HEIGHT, BASELINE = 30, 18, 19, 14
LETTER = 7  # pixels of a label's letter
DEPTHS = {"1688": 8, "16816": 16}  # of HMMA's shapes with 16-bit operands

_LDSM = re.compile(r"\bLDSM\.16\.M(T?)88(?:\.([24]))?\b")
_HMMA = re.compile(r"\bHMMA\.(1688|16816)\.(?!\S*TF32)")


@dataclass(frozen=True, kw_only=True)
class FragmentPart:
    """One lane's elements that lie side by side: its colour is the lane's number."""

    x: int
    y: int
    width: int
    height: int
    lane: int
    label: str


@dataclass(frozen=True, kw_only=True)
class FragmentPicture:
    """One operand or matrix, ready to draw."""

    title: str
    width: int
    height: int
    parts: tuple[FragmentPart, ...]
    rows: tuple[tuple[int, str], ...]  # y of a row's number, and the number
    columns: tuple[tuple[int, str], ...]  # x of a column's numbers


@dataclass(frozen=True)
class FragmentShape:
    """One instruction's fragments, and what its labels say."""

    title: str
    note: str
    pictures: tuple[FragmentPicture, ...]


def fragment_section(comparison: Comparison) -> tuple[FragmentShape, ...]:
    """Return the fragments of the shapes that occur in the profiles' SASS; none if there are no such instructions."""
    sass = {instruction.sass for profile in comparison.profiles for instruction in profile.instructions}
    loads = {(int(match[2] or 1), bool(match[1])) for text in sass if (match := _LDSM.search(text))}
    depths = {DEPTHS[match[1]] for text in sass if (match := _HMMA.search(text))}
    return (
        *(_matrices(*load) for load in sorted(loads, key=lambda load: (-load[0], load[1]))),
        *(_product(depth) for depth in sorted(depths)),
    )


def _matrices(count: int, transposed: bool) -> FragmentShape:
    name = f"ldmatrix.x{count}{'.trans' if transposed else ''}"
    note = (
        "LANE:REGISTER that holds two elements; lane 8n + r gives the address of row r of matrix n."
        if count > 1
        else "LANE:REGISTER that holds two elements; lane r gives the address of row r."
    )
    drawn = tuple(_picture(each, each.name, "r", 2) for each in layout.matrices(count, transposed))
    return FragmentShape(name, note, drawn)


def _product(depth: int) -> FragmentShape:
    drawn = tuple(
        _picture(each, f"{each.name}, {each.shape[0]} x {each.shape[1]}", each.name.lower(), 1)
        for each in layout.fragments(depth)
    )
    return FragmentShape(f"mma.m16n8k{depth}, 16-bit operands", "LANE:ELEMENTS that hold each pair.", drawn)


def _picture(fragment: Fragment, title: str, letter: str, per_number: int) -> FragmentPicture:
    rows, columns = fragment.shape
    beside = bool((fragment.lane[:, ::2] == fragment.lane[:, 1::2]).all())  # a lane's pairs lie in a row
    down, across = (1, 2) if beside else (2, 1)

    def label(row: int, column: int) -> str:
        elements = fragment.element[row : row + down, column : column + across].ravel()
        numbers = dict.fromkeys(int(element) // per_number for element in elements)
        return f"{fragment.lane[row, column]}:{letter}{','.join(map(str, numbers))}"

    cells = [(row, column) for row in range(0, rows, down) for column in range(0, columns, across)]
    wide = (LETTER * max(len(label(*cell)) for cell in cells) + 6) // across
    heads = [
        (column, f"c{column}-{column + 1}" if across > 1 else f"c{column}") for column in range(0, columns, across)
    ]
    return FragmentPicture(
        title=title,
        width=LEFT + columns * wide + 2,
        height=TOP + rows * CELL_HEIGHT + 2,
        parts=tuple(
            FragmentPart(
                x=LEFT + column * wide,
                y=TOP + row * CELL_HEIGHT,
                width=across * wide,
                height=down * CELL_HEIGHT,
                lane=int(fragment.lane[row, column]),
                label=label(row, column),
            )
            for row, column in cells
        ),
        rows=tuple((TOP + row * CELL_HEIGHT + BASELINE, f"r{row}") for row in range(rows)),
        columns=tuple((LEFT + column * wide + across * wide // 2, name) for column, name in heads),
    )
