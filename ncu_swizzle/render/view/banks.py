"""Bank maps ready to draw: the position, label and shade of every cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import observed
from ncu_swizzle.smem import bankmap
from ncu_swizzle.smem.bankmap import BANKS, BankMap, MapCounts
from ncu_swizzle.tiles.declaration import Tile

TilesOf = Callable[[Profile], Sequence[Tile]]  # a launch's declared tiles; empty if none are declared

MOST_ROWS = 64
MOST_COLUMNS = 64
CELL_HEIGHT = 20
LEFT, TOP = 34, 20  # margins for row and column numbers
WIDE, NARROW = 38, 23  # cell widths with up to FEW columns, and with more
FEW = 16
HATCH = 7  # distance between hatch lines


@dataclass(frozen=True)
class Cell:
    """One cell; `shade` runs from 0 to 1 with the bank number."""

    x: int
    y: int
    label: str
    title: str
    conflict: bool
    shade: str


@dataclass(frozen=True)
class Label:
    """A row or column number beside the map."""

    x: int
    y: int
    text: str


@dataclass(frozen=True)
class Picture:
    """A bank map, ready to draw."""

    title: str
    verdict: str
    note: str
    width: int
    height: int
    cell_width: int
    cell_height: int
    cells: tuple[Cell, ...]
    labels: tuple[Label, ...]
    hatching: str  # an SVG path across all conflicting cells


def pictures(maps: Sequence[BankMap], titles: Sequence[str] = ()) -> tuple[Picture, ...]:
    """Return the pictures of these maps; `titles` replace the maps' own."""
    return tuple(
        _picture(bank_map, titles[number] if number < len(titles) else bank_map.title)
        for number, bank_map in enumerate(maps)
    )


@dataclass(frozen=True)
class BankSection:
    """The bank maps of a comparison: one tile, under its most expensive access."""

    access: str
    pictures: tuple[Picture, ...]


def section(comparison: Comparison, tiles_of: TilesOf) -> BankSection | None:
    """Return the maps of the first two profiles, or of one and what is suggested for it.

    None if no access of both, declared or emulated, has conflicts.
    """
    declared = [tiles_of(profile) for profile in comparison.profiles[:2]]
    labels = comparison.labels
    if len(comparison.profiles) == 1 and (suggested := observed.suggested(comparison.profiles[0], declared[0])):
        declared.append(suggested)
        labels = (*labels, "suggested")
    costs = [_costs(tiles) for tiles in declared]
    common = [key for key in costs[0] if all(key in others for others in costs)]
    if not common or len({len(tiles) for tiles in declared}) > 1:
        return None
    worst = max(common, key=lambda key: max(each[key] for each in costs))
    if not any(each[worst] for each in costs):
        return None
    number, name = worst
    accesses = [next(access for access in tiles[number].accesses if access.name == name) for tiles in declared]
    maps = [bankmap.build(tiles[number].mapping, access) for tiles, access in zip(declared, accesses, strict=True)]
    titles = [f"{label}: {bank_map.title}" for label, bank_map in zip(labels, maps, strict=False)]
    return BankSection(f"{declared[0][number].name}, {name} ({accesses[0].op})", pictures(maps, titles))


def _costs(tiles: Sequence[Tile]) -> dict[tuple[int, str], int]:
    """Return the excessive wavefronts of each access, by the tile's number and the access's name."""
    return {
        (number, access.name): access.total(access.wavefronts(tile.mapping).excessive)
        for number, tile in enumerate(tiles)
        for access in tile.accesses
    }


def _picture(bank_map: BankMap, title: str) -> Picture:
    rows, columns = (
        min(size, most) for size, most in zip(bank_map.banks.shape, (MOST_ROWS, MOST_COLUMNS), strict=True)
    )
    rows = min(rows, bank_map.period)
    wide = WIDE if columns <= FEW else NARROW
    cells = tuple(
        _cell(bank_map, row, column, LEFT + column * wide, TOP + row * CELL_HEIGHT)
        for row in range(rows)
        for column in range(columns)
    )
    labels = [Label(LEFT - 6, TOP + row * CELL_HEIGHT + 14, f"r{row}") for row in range(rows)]
    step = 1 if columns <= FEW else 4
    labels += [Label(LEFT + column * wide + wide // 2 + 8, 14, f"c{column}") for column in range(0, columns, step)]
    return Picture(
        title=title,
        verdict=_verdict(bank_map),
        note=_note(bank_map, rows, columns),
        width=LEFT + columns * wide + 2,
        height=TOP + rows * CELL_HEIGHT + 2,
        cell_width=wide,
        cell_height=CELL_HEIGHT,
        cells=cells,
        labels=tuple(labels),
        hatching=" ".join(_hatch(cell, wide, CELL_HEIGHT) for cell in cells if cell.conflict),
    )


def _cell(bank_map: BankMap, row: int, column: int, x: int, y: int) -> Cell:
    bank, ways = int(bank_map.banks[row, column]), int(bank_map.ways[row, column])
    conflict = ways > 1
    title = f"row {row}, column {column}: bank {bank}" + (f", {ways} ways" if conflict else "")
    shade = f"{0.08 + 0.5 * bank / max(1, bank_map.bank_count - 1):.2f}" if ways else "0"
    return Cell(x, y, f"{bank}{'*' if conflict else ''}", title, conflict, shade)


def _hatch(cell: Cell, width: int, height: int) -> str:
    """Return 45-degree lines across a cell as an SVG path."""
    lines = []
    for start in range(HATCH, width + height, HATCH):
        x1, y1 = max(0, start - height), min(start, height)
        x2, y2 = min(start, width), max(0, start - width)
        lines.append(f"M{cell.x + x1} {cell.y + y1}L{cell.x + x2} {cell.y + y2}")
    return "".join(lines)


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
    toy = f" of {bank_map.bank_count}" if bank_map.bank_count != BANKS else ""
    hidden: list[str] = []
    if bank_map.period <= rows < len(bank_map.banks):
        hidden.append(f"rows after r{rows - 1} repeat these")
    elif rows < len(bank_map.banks):
        hidden.append(f"{len(bank_map.banks) - rows} more rows not shown")
    if columns < bank_map.banks.shape[1]:
        hidden.append(f"{bank_map.banks.shape[1] - columns} more columns not shown")
    return f"{what}{toy}" + "".join(f"; {part}" for part in hidden) + "."
