"""Bank maps as a page shows them: every cell's place, label and shade is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.smem import bankmap
from ncu_swizzle.smem.bankmap import BANKS, BankMap, MapCounts
from ncu_swizzle.tiles.declaration import Tile

TilesOf = Callable[[Profile], Sequence[Tile]]  # a launch's declared tiles; empty where none are

MOST_ROWS = 64
MOST_COLUMNS = 64
CELL_HEIGHT = 20
LEFT, TOP = 34, 20  # room for the rows' and the columns' numbers
WIDE, NARROW = 38, 23  # a cell with few or with many neighbours
FEW = 16
HATCH = 7  # between two lines of hatching


@dataclass(frozen=True)
class Cell:
    """One cell; `shade` is from 0 to 1, bank after bank."""

    x: int
    y: int
    label: str
    title: str
    conflict: bool
    shade: str


@dataclass(frozen=True)
class Label:
    x: int
    y: int
    text: str


@dataclass(frozen=True)
class Picture:
    """A bank map, ready to be drawn."""

    title: str
    verdict: str
    note: str
    width: int
    height: int
    cell_width: int
    cell_height: int
    cells: tuple[Cell, ...]
    labels: tuple[Label, ...]
    hatching: str  # an SVG path across all cells with conflicts


def pictures(maps: Sequence[BankMap], titles: Sequence[str] = ()) -> tuple[Picture, ...]:
    """Return the pictures of maps, under titles of their own or under those given."""
    return tuple(
        _picture(one, titles[number] if number < len(titles) else one.title) for number, one in enumerate(maps)
    )


@dataclass(frozen=True)
class Section:
    """The bank maps of a comparison: one tile's, under the access that costs the first profile most."""

    access: str
    pictures: tuple[Picture, ...]


def section(comparison: Comparison, tiles_of: TilesOf) -> Section | None:
    """Return the maps of the first two profiles, if their tiles are declared and one has conflicts."""
    named = [tiles_of(profile) for profile in comparison.profiles[:2]]
    costs: dict[tuple[int, str], int] = {}
    for tiles_ in named:
        for number, tile in enumerate(tiles_):
            for one in tile.accesses:
                cost = int(one.wavefronts(tile.mapping).excessive.sum()) * one.times
                costs[number, one.name] = max(cost, costs.get((number, one.name), 0))
    worst = max(costs, key=lambda key: costs[key], default=None)
    if worst is None or costs[worst] == 0 or len({len(tiles_) for tiles_ in named}) > 1:
        return None
    number, name = worst
    found = [next(one for one in tiles_[number].accesses if one.name == name) for tiles_ in named]
    maps = [bankmap.build(tiles_[number].mapping, one) for tiles_, one in zip(named, found, strict=True)]
    titles = [f"{label}: {one.title}" for label, one in zip(comparison.labels, maps, strict=False)]
    return Section(f"{named[0][number].name}, {name} ({found[0].op})", pictures(maps, titles))


def _picture(one: BankMap, title: str) -> Picture:
    rows, columns = (min(size, most) for size, most in zip(one.banks.shape, (MOST_ROWS, MOST_COLUMNS), strict=True))
    rows = min(rows, one.period)
    wide = WIDE if columns <= FEW else NARROW
    cells = tuple(
        _cell(one, row, column, LEFT + column * wide, TOP + row * CELL_HEIGHT)
        for row in range(rows)
        for column in range(columns)
    )
    labels = [Label(LEFT - 6, TOP + row * CELL_HEIGHT + 14, f"r{row}") for row in range(rows)]
    step = 1 if columns <= FEW else 4
    labels += [Label(LEFT + column * wide + wide // 2 + 8, 14, f"c{column}") for column in range(0, columns, step)]
    return Picture(
        title=title,
        verdict=_verdict(one),
        note=_note(one, rows, columns),
        width=LEFT + columns * wide + 2,
        height=TOP + rows * CELL_HEIGHT + 2,
        cell_width=wide,
        cell_height=CELL_HEIGHT,
        cells=cells,
        labels=tuple(labels),
        hatching=" ".join(_hatch(cell, wide, CELL_HEIGHT) for cell in cells if cell.conflict),
    )


def _cell(one: BankMap, row: int, column: int, x: int, y: int) -> Cell:
    bank, ways = int(one.banks[row, column]), int(one.ways[row, column])
    conflict = ways > 1
    title = f"row {row}, column {column}: bank {bank}" + (f", {ways} ways" if conflict else "")
    shade = f"{0.08 + 0.5 * bank / max(1, one.bank_count - 1):.2f}" if ways else "0"
    return Cell(x, y, f"{bank}{'*' if conflict else ''}", title, conflict, shade)


def _hatch(cell: Cell, width: int, height: int) -> str:
    """Return lines of 45 degrees across a cell."""
    lines = []
    for start in range(HATCH, width + height, HATCH):
        x1, y1 = max(0, start - height), min(start, height)
        x2, y2 = min(start, width), max(0, start - width)
        lines.append(f"M{cell.x + x1} {cell.y + y1}L{cell.x + x2} {cell.y + y2}")
    return "".join(lines)


def _verdict(one: BankMap) -> str:
    if one.access is None or one.counts is None:
        return ""
    counts: MapCounts = one.counts
    if not counts.known:
        return f"{one.access.name}: no rule is known for its wavefronts."
    excess = f"{counts.excessive:,} excessive" if counts.excessive else "free of conflicts"
    return f"{one.access.name}: {counts.actual:,} wavefronts, {counts.ideal:,} ideal: {excess}."


def _note(one: BankMap, rows: int, columns: int) -> str:
    banks = one.cell_bytes // 4
    what = f"A cell is {one.cell_bytes} bytes" + (f", the number the first of its {banks} banks" if banks > 1 else "")
    toy = f" of {one.bank_count}" if one.bank_count != BANKS else ""
    hidden = []
    if one.period <= rows < len(one.banks):
        hidden.append(f"the rows after r{rows - 1} repeat these")
    elif rows < len(one.banks):
        hidden.append(f"{len(one.banks) - rows} more rows are not drawn")
    if columns < one.banks.shape[1]:
        hidden.append(f"{one.banks.shape[1] - columns} more columns are not drawn")
    return f"{what}{toy}" + "".join(f"; {part}" for part in hidden) + "."
