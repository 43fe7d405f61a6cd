"""A bank map ready to draw: every cell in its bank's colour, the conflicts, and what one phase accesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ncu_swizzle.render.bank_steps import CellGrid, Step, steps_of
from ncu_swizzle.smem.bankmap import BANKS, BankMap, MapCounts, PhaseLoad

MOST_ROWS = 64
MOST_COLUMNS = 64
CELL_HEIGHT = 19
LEFT, TOP = 26, 20  # margins for row and column numbers
WIDE, NARROW = 34, 17  # cell widths with up to FEW columns, and with more: two maps of 32 lie side by side
FEW = 16
BASELINE = 14  # of a cell's label
KEY = "Each number is a bank; a border marks a cell that conflicts with another word of the same phase."
INSET = 1.5  # of a conflict's border


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell's label, the number of its first bank."""

    x: int
    label: str
    title: str
    conflict: bool


@dataclass(frozen=True)
class Line:
    """One row of the map: its number and its cells."""

    y: int
    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Fill:
    """All cells of one colour, 0 to 31, as an SVG path; `idle` ones are not accessed."""

    colour: int
    idle: bool
    path: str


@dataclass(frozen=True)
class Label:
    """A column number above the map."""

    x: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A map of banks or of places, ready to draw. `steps` are the phases that can be outlined, one at a time."""

    title: str
    verdict: str
    note: str
    width: int
    height: int
    fills: tuple[Fill, ...]
    lines: tuple[Line, ...]
    columns: tuple[Label, ...]
    borders: str  # an SVG path around each conflicting cell
    steps: tuple[Step, ...] = ()
    key: str = KEY
    kind: str = "Bank map"


def picture(bank_map: BankMap, title: str, rows: int, loads: Sequence[PhaseLoad] = (), tallest: int = 1) -> Picture:
    """Return the picture of the map's first rows, with a step for each of these phases.

    Bars of bank loads are relative to one of `tallest` words.
    """
    frame = _frame(bank_map, rows)
    lines = tuple(_lines(bank_map, frame))
    contended = ((row, column) for row, column in frame.cells if bank_map.ways[row, column] > 1)
    return Picture(
        title=title,
        verdict=_verdict(bank_map),
        note=_note(bank_map, frame.rows, frame.columns),
        width=frame.width,
        height=frame.height,
        fills=tuple(_fills(bank_map, frame)),
        lines=lines,
        columns=_column_labels(frame),
        borders="".join(frame.box(row, column, INSET) for row, column in contended),
        steps=steps_of(loads, frame, bank_map.period, tallest),
    )


def single_steps(drawn: Picture) -> tuple[Picture, ...]:
    """Return one picture for each step, titled after it."""
    return tuple(replace(drawn, title=f"{drawn.title}: {step.title}", steps=(step,)) for step in drawn.steps)


def rows_of(bank_maps: Sequence[BankMap]) -> int:
    """Return how many rows all of these maps show: as many as the one that repeats last needs."""
    return min(MOST_ROWS, max((bank_map.period for bank_map in bank_maps), default=0))


def _frame(bank_map: BankMap, rows: int) -> CellGrid:
    down, across = bank_map.banks.shape
    columns = min(across, MOST_COLUMNS)
    return CellGrid(
        rows=min(rows, down),
        columns=columns,
        left=LEFT,
        top=TOP,
        cell_width=WIDE if columns <= FEW else NARROW,
        cell_height=CELL_HEIGHT,
    )


def _lines(bank_map: BankMap, frame: CellGrid) -> Iterator[Line]:
    for row in range(frame.rows):
        cells = tuple(_cell(bank_map, row, column, frame) for column in range(frame.columns))
        yield Line(frame.y(row) + BASELINE, f"r{row}", cells)


def _cell(bank_map: BankMap, row: int, column: int, frame: CellGrid) -> Cell:
    bank, ways = int(bank_map.banks[row, column]), int(bank_map.ways[row, column])
    title = f"row {row}, column {column}: bank {bank}" + (f", {ways} ways" if ways > 1 else "")
    return Cell(x=frame.x(column) + frame.cell_width // 2, label=str(bank), title=title, conflict=ways > 1)


def _fills(bank_map: BankMap, frame: CellGrid) -> Iterator[Fill]:
    paths: dict[tuple[bool, int], list[str]] = {}
    for row, column in frame.cells:
        idle = bank_map.access is not None and not bank_map.ways[row, column]
        colour = int(bank_map.banks[row, column]) * BANKS // bank_map.bank_count
        paths.setdefault((idle, colour), []).append(frame.box(row, column))
    for (idle, colour), boxes in sorted(paths.items()):
        yield Fill(colour, idle, "".join(boxes))


def _column_labels(frame: CellGrid) -> tuple[Label, ...]:
    step = 1 if frame.columns <= FEW else 4
    middle = frame.cell_width // 2
    return tuple(Label(frame.x(column) + middle, f"c{column}") for column in range(0, frame.columns, step))


def _verdict(bank_map: BankMap) -> str:
    if bank_map.access is None or bank_map.counts is None:
        return ""
    counts: MapCounts = bank_map.counts
    if not counts.known:
        return f"{bank_map.access.name}: no rule is known for its wavefronts."
    excess = f"{counts.excessive:,} excessive" if counts.excessive else "no conflicts"
    return f"{bank_map.access.name}: {counts.actual:,} wavefronts, {counts.ideal:,} ideal: {excess}."


def _note(bank_map: BankMap, rows: int, columns: int) -> str:
    banks = bank_map.cell_bytes // 4
    what = f"A cell is {bank_map.cell_bytes} bytes" + (
        f", numbered by the first of its {banks} banks" if banks > 1 else ""
    )
    toy = f"; there are {bank_map.bank_count} banks" if bank_map.bank_count != BANKS else ""
    hidden: list[str] = []
    if bank_map.period <= rows < len(bank_map.banks):
        hidden.append(f"rows after r{rows - 1} repeat these")
    elif rows < len(bank_map.banks):
        hidden.append(f"{len(bank_map.banks) - rows} more rows not shown")
    if columns < bank_map.banks.shape[1]:
        hidden.append(f"{bank_map.banks.shape[1] - columns} more columns not shown")
    return f"{what}{toy}" + "".join(f"; {part}" for part in hidden) + "."
