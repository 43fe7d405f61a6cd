"""Memory, one line per row of a tile: which cell is at each position, in the colour of its column."""

from __future__ import annotations

from collections.abc import Sequence

from ncu_swizzle.render.view.bank_picture import Cell, Fill, Label, Line, Picture
from ncu_swizzle.render.view.bank_steps import Frame
from ncu_swizzle.render.view.banks import Board
from ncu_swizzle.smem.bankmap import BANKS
from ncu_swizzle.smem.pictures import Places

GLOSS = "Memory, in lines as long as a row of the tile: the cell at each position, in the colour of its column."
MOST_ROWS = MOST_COLUMNS = 64
LEFT, TOP, HEIGHT, BASELINE = 30, 20, 19, 14
LETTER, LEAST = 7, 17  # pixels: of a label's letter, of a cell


def board(memory: Sequence[Places], titles: Sequence[str]) -> Board:
    """Return memory before and after, side by side."""
    return Board(tuple(_picture(each, title) for each, title in zip(memory, titles, strict=True)), gloss=GLOSS)


def _picture(places: Places, title: str) -> Picture:
    down, across = places.columns.shape
    rows, columns = min(down, MOST_ROWS), min(across, MOST_COLUMNS)
    labels = {(row, column): _label(places, row, column) for row in range(rows) for column in range(columns)}
    frame = Frame(rows, columns, LEFT, TOP, max(LEAST, LETTER * max(map(len, labels.values())) + 4), HEIGHT)
    boxes: dict[int, list[str]] = {}
    for row, column in frame.cells:
        if (held := int(places.columns[row, column])) >= 0:
            boxes.setdefault(held * BANKS // across % BANKS, []).append(frame.box(row, column))
    every = 1 if columns <= 16 else 4
    hidden = [f"{down - rows} more lines"] * (down > rows) + [f"{across - columns} more positions"] * (across > columns)
    left_out = f"; not shown: {' and '.join(hidden)}" if hidden else ""
    numbered = "its column" if places.stays_in_row else "its row and column"
    return Picture(
        title=title,
        verdict="",
        note=f"Each cell shows {numbered}{left_out}.",
        width=frame.width,
        height=frame.height,
        fills=tuple(Fill(colour, False, "".join(paths)) for colour, paths in sorted(boxes.items())),
        lines=tuple(
            Line(frame.y(row) + BASELINE, f"r{row}", tuple(_cell(labels[row, c], c, frame) for c in range(columns)))
            for row in range(rows)
        ),
        columns=tuple(Label(frame.x(c) + frame.cell_width // 2, f"p{c}") for c in range(0, columns, every)),
        borders="",
        key=GLOSS,
        kind="Memory map",
    )


def _cell(label: str, column: int, frame: Frame) -> Cell:
    return Cell(frame.x(column) + frame.cell_width // 2, label, f"position {column}: {label}", False)


def _label(places: Places, row: int, column: int) -> str:
    held = int(places.rows[row, column]), int(places.columns[row, column])
    if held[0] < 0:
        return "-"
    return str(held[1]) if places.stays_in_row else f"{held[0]}.{held[1]}"
