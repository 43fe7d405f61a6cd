"""The phases of a request, one after the other: what each accesses, outlined on its map, and the load of each bank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ncu_swizzle.smem.bankmap import BANKS, PhaseLoad

MOST_STEPS = 8
BAR_WIDTH, BAR_GAP = 14, 3
BAR_LEFT, BAR_TOP, BAR_ROOM = 26, 18, 64  # pixels; the room is the height of the tallest bar
LABEL_EVERY = 4


@dataclass(frozen=True, kw_only=True)
class CellGrid:
    """Where the cells of a map lie, in pixels."""

    rows: int
    columns: int
    left: int
    top: int
    cell_width: int
    cell_height: int

    @property
    def width(self) -> int:
        return self.left + self.columns * self.cell_width + 2

    @property
    def height(self) -> int:
        return self.top + self.rows * self.cell_height + 2

    @property
    def cells(self) -> Iterator[tuple[int, int]]:
        """Every row and column."""
        return ((row, column) for row in range(self.rows) for column in range(self.columns))

    def x(self, column: int) -> int:
        return self.left + column * self.cell_width

    def y(self, row: int) -> int:
        return self.top + row * self.cell_height

    def box(self, row: int, column: int, inset: float = 0) -> str:
        """Return a cell as an SVG path."""
        x, y = self.x(column) + inset, self.y(row) + inset
        wide = self.cell_width - 2 * inset
        return f"M{x:g} {y:g}h{wide:g}v{self.cell_height - 2 * inset:g}h{-wide:g}z"

    def outline(self, cells: set[tuple[int, int]]) -> str:
        """Return the border around cells as an SVG path, without the edges between them."""
        edges = []
        for row, column in sorted(cells):
            x, y = self.x(column), self.y(row)
            edges += [f"M{x} {y}h{self.cell_width}"] * ((row - 1, column) not in cells)
            edges += [f"M{x} {y + self.cell_height}h{self.cell_width}"] * ((row + 1, column) not in cells)
            edges += [f"M{x} {y}v{self.cell_height}"] * ((row, column - 1) not in cells)
            edges += [f"M{x + self.cell_width} {y}v{self.cell_height}"] * ((row, column + 1) not in cells)
        return "".join(edges)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What a phase needs from one bank: `first` is the word that fits in one wavefront, `more` those that do not."""

    colour: int
    first: str  # SVG paths
    more: str
    title: str


@dataclass(frozen=True)
class BankTick:
    """A bank's number below its bar."""

    x: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Load:
    """The words that one phase needs from each bank, as bars."""

    width: int
    height: int
    axis: str  # an SVG path
    peak: str
    peak_y: int
    baseline: int
    bars: tuple[Bar, ...]
    ticks: tuple[BankTick, ...]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One phase: its outline on the map, its bars, and the two in words."""

    request: int
    name: str  # in a row of buttons
    title: str
    verdict: str
    outline: str
    load: Load


def steps_of(loads: Sequence[PhaseLoad], frame: CellGrid, period: int, tallest: int) -> tuple[Step, ...]:
    """Return a step for each of these phases; bars are relative to one of `tallest` words."""
    return tuple(_step(load, frame, period, tallest) for load in loads)


def _step(load: PhaseLoad, frame: CellGrid, period: int, tallest: int) -> Step:
    cells = {_shown(cell, frame, period) for cell in load.cells}
    drawn = {(row, column) for row, column in cells if row < frame.rows and column < frame.columns}
    return Step(
        request=load.request,
        name=f"{load.request}.{load.phase}" if load.phases > 1 else str(load.request),
        title=_title(load),
        verdict=_verdict(load, len(cells) - len(drawn)),
        outline=frame.outline(drawn),
        load=_load(load, tallest),
    )


def _shown(cell: tuple[int, int], frame: CellGrid, period: int) -> tuple[int, int]:
    """Return the cell itself, or the one that stands for it if rows repeat."""
    row, column = cell
    return (row if row < frame.rows else row % period), column


def _title(load: PhaseLoad) -> str:
    """Return the request, and the phase if the instruction has several."""
    phase = f", phase {load.phase}" if load.phases > 1 else ""
    return f"request {load.request}{phase}"


def _verdict(load: PhaseLoad, hidden: int) -> str:
    lanes = f"lanes {load.lanes[0]} to {load.lanes[-1]}" if len(load.lanes) > 1 else f"lane {load.lanes[0]}"
    banks = sum(count > 0 for count in load.words)
    noun = "lane" if load.every_lane else "word"
    words = f"at most {load.busiest} {noun}s" if load.busiest > 1 else f"one {noun}"
    outside = f"; {hidden} of its cells are not on the map" if hidden else ""
    return f"{lanes} access {banks} bank{'s' if banks > 1 else ''}, {words} in each{outside}."


def _load(load: PhaseLoad, tallest: int) -> Load:
    banks = len(load.words)
    baseline = BAR_TOP + BAR_ROOM
    width = BAR_LEFT + banks * (BAR_WIDTH + BAR_GAP) + 2
    unit = BAR_ROOM / max(tallest, 1)
    bars = tuple(_bar(bank, words, banks, unit, baseline) for bank, words in enumerate(load.words) if words)
    ticks = tuple(
        BankTick(_left(bank) + BAR_WIDTH // 2, str(bank)) for bank in range(0, banks, LABEL_EVERY if banks > 8 else 1)
    )
    return Load(
        width=width,
        height=baseline + 18,
        axis=f"M{BAR_LEFT} {baseline}h{width - BAR_LEFT}",
        peak=str(load.busiest),
        peak_y=round(baseline - load.busiest * unit) + 4,
        baseline=baseline,
        bars=bars,
        ticks=ticks,
    )


def _bar(bank: int, words: int, banks: int, unit: float, baseline: int) -> Bar:
    x = _left(bank)
    more = _box(x, baseline - words * unit, (words - 1) * unit) if words > 1 else ""
    title = f"bank {bank}: {words} word{'s' if words > 1 else ''}"
    return Bar(colour=bank * BANKS // banks, first=_box(x, baseline - unit, unit), more=more, title=title)


def _box(x: int, top: float, height: float) -> str:
    return f"M{x} {top:.4g}h{BAR_WIDTH}v{height:.4g}h-{BAR_WIDTH}z"


def _left(bank: int) -> int:
    return BAR_LEFT + bank * (BAR_WIDTH + BAR_GAP) + BAR_GAP
