"""Bank maps as pictures, of a comparison, a tile or its memory: each cell in its bank's colour, conflicts, phases."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat
from typing import TYPE_CHECKING, NamedTuple

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.kernels.catalog import Tile
from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem import bankmap
from ncu_swizzle.smem.bankmap import BANKS, BankMap, PhaseLoad, loads, worst_request
from ncu_swizzle.smem.mapping import Places
from ncu_swizzle.smem.observed import ObservedTile

if TYPE_CHECKING:
    from ncu_swizzle.reports.comparison import Comparison


MOST_ROWS = MOST_COLUMNS = 64
CELL_HEIGHT = 19
WIDE, NARROW = 34, 17  # cell widths with up to FEW columns, and with more: two maps of 32 lie side by side
FEW = 16
LETTER = 7  # pixels: of a label's letter
BASELINE = 14  # of a cell's label
INSET = 1.5  # of a conflict's border
BANKS_KEY = "Each number is a bank; a border marks a cell that conflicts with another word of the same phase."
MEMORY_KEY = "Memory, in lines as long as a row of the tile: the cell at each position, in the colour of its column."

Label = tuple[int, str]  # x, and the text there


@dataclass(frozen=True, kw_only=True)
class CellGrid:
    """Where the cells of a picture lie, in pixels."""

    rows: int
    columns: int
    left: int
    top: int = 20
    cell_width: int

    @property
    def width(self) -> int:
        return self.left + self.columns * self.cell_width + 2

    @property
    def height(self) -> int:
        return self.top + self.rows * CELL_HEIGHT + 2

    @property
    def cells(self) -> Iterator[tuple[int, int]]:
        """Every row and column."""
        return ((row, column) for row in range(self.rows) for column in range(self.columns))

    def x(self, column: int) -> int:
        return self.left + column * self.cell_width

    def y(self, row: int) -> int:
        return self.top + row * CELL_HEIGHT

    def heads(self, letter: str) -> tuple[Label, ...]:
        """Return the column numbers above the cells: all of them, or every fourth."""
        numbered = range(0, self.columns, 1 if self.columns <= FEW else 4)
        return tuple((self.x(column) + self.cell_width // 2, f"{letter}{column}") for column in numbered)

    def box(self, row: int, column: int, inset: float = 0) -> str:
        """Return a cell as an SVG path."""
        x, y = self.x(column) + inset, self.y(row) + inset
        wide = self.cell_width - 2 * inset
        return f"M{x:g} {y:g}h{wide:g}v{CELL_HEIGHT - 2 * inset:g}h{-wide:g}z"

    def outline(self, cells: set[tuple[int, int]]) -> str:
        """Return the border around cells as an SVG path, without the edges between them."""
        edges = []
        for row, column in sorted(cells):
            x, y = self.x(column), self.y(row)
            edges += [f"M{x} {y}h{self.cell_width}"] * ((row - 1, column) not in cells)
            edges += [f"M{x} {y + CELL_HEIGHT}h{self.cell_width}"] * ((row + 1, column) not in cells)
            edges += [f"M{x} {y}v{CELL_HEIGHT}"] * ((row, column - 1) not in cells)
            edges += [f"M{x + self.cell_width} {y}v{CELL_HEIGHT}"] * ((row, column + 1) not in cells)
        return "".join(edges)


class Cell(NamedTuple):
    """One cell: its label and its tip."""

    x: int
    label: str
    title: str
    conflict: bool = False


class Line(NamedTuple):
    """One row of the picture: its number and its cells."""

    y: int
    name: str
    cells: tuple[Cell, ...]


class Fill(NamedTuple):
    """All cells of one colour, 0 to 31, as an SVG path; `idle` ones are not accessed."""

    idle: bool
    colour: int
    path: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A map of banks or of places, ready to draw. `steps` are the phases that can be outlined, one at a time."""

    title: str
    verdict: str = ""
    note: str
    width: int
    height: int
    fills: tuple[Fill, ...]
    lines: tuple[Line, ...]
    columns: tuple[Label, ...]
    borders: str = ""  # an SVG path around each conflicting cell
    steps: tuple[PhasePicture, ...] = ()
    key: str = BANKS_KEY
    kind: str = "Bank map"


def _lines(grid: CellGrid, cell: Callable[[int, int], tuple[str, str, bool]]) -> tuple[Line, ...]:
    """Return the rows; `cell` gives a cell's label, its tip, and whether it conflicts."""
    half = grid.cell_width // 2
    return tuple(
        Line(
            grid.y(row) + BASELINE,
            f"r{row}",
            tuple(Cell(grid.x(column) + half, *cell(row, column)) for column in range(grid.columns)),
        )
        for row in range(grid.rows)
    )


def _fills(grid: CellGrid, colour: Callable[[int, int], tuple[bool, int] | None]) -> tuple[Fill, ...]:
    """Return a path per colour; `colour` gives whether a cell is idle, and its colour, or None for none."""
    paths: dict[tuple[bool, int], list[str]] = {}
    for row, column in grid.cells:
        if (kind := colour(row, column)) is not None:
            paths.setdefault(kind, []).append(grid.box(row, column))
    return tuple(Fill(*kind, "".join(boxes)) for kind, boxes in sorted(paths.items()))


def rows_of(bank_maps: Sequence[BankMap]) -> int:
    """Return how many rows all of these maps show: the most that any of them needs before it repeats."""
    return min(MOST_ROWS, max((bank_map.period for bank_map in bank_maps), default=0))


def picture(bank_map: BankMap, title: str, rows: int, loads: Sequence[PhaseLoad] = (), tallest: int = 1) -> Picture:
    """Return the picture of the map's first rows, with a step for each of these phases.

    Bars of bank loads are relative to one of `tallest` words.
    """
    banks, ways = bank_map.banks, bank_map.ways
    columns = min(banks.shape[1], MOST_COLUMNS)
    grid = CellGrid(rows=min(rows, len(banks)), columns=columns, left=26, cell_width=WIDE if columns <= FEW else NARROW)

    def cell(row: int, column: int) -> tuple[str, str, bool]:
        bank, conflict = int(banks[row, column]), int(ways[row, column])
        title = f"row {row}, column {column}: bank {bank}" + (f", {conflict} ways" if conflict > 1 else "")
        return str(bank), title, conflict > 1

    def colour(row: int, column: int) -> tuple[bool, int]:
        idle = bank_map.access is not None and not ways[row, column]
        return idle, int(banks[row, column]) * BANKS // bank_map.bank_count

    return Picture(
        title=title,
        verdict=_map_verdict(bank_map),
        note=_map_note(bank_map, grid),
        width=grid.width,
        height=grid.height,
        fills=_fills(grid, colour),
        lines=_lines(grid, cell),
        columns=grid.heads("c"),
        borders="".join(grid.box(row, column, INSET) for row, column in grid.cells if ways[row, column] > 1),
        steps=tuple(_step(load, grid, bank_map.period, tallest) for load in loads),
    )


def single_steps(drawn: Picture) -> tuple[Picture, ...]:
    """Return one picture for each step, titled after it."""
    return tuple(replace(drawn, title=f"{drawn.title}: {step.title}", steps=(step,)) for step in drawn.steps)


def _map_verdict(bank_map: BankMap) -> str:
    counts = bank_map.counts
    if bank_map.access is None or counts is None:
        return ""
    if not counts.known:
        return f"{bank_map.access.name}: no rule is known for its wavefronts."
    excess = f"{counts.excessive:,} excessive" if counts.excessive else "no conflicts"
    return f"{bank_map.access.name}: {counts.actual:,} wavefronts, {counts.ideal:,} ideal: {excess}."


def _map_note(bank_map: BankMap, grid: CellGrid) -> str:
    down, across = bank_map.banks.shape
    parts = [f"A cell is {bank_map.cell_bytes} bytes"]
    if (banks := bank_map.cell_bytes // 4) > 1:
        parts[0] += f", numbered by the first of its {banks} banks"
    if bank_map.bank_count != BANKS:
        parts.append(f"there are {bank_map.bank_count} banks")
    if bank_map.period <= grid.rows < down:
        parts.append(f"rows after r{grid.rows - 1} repeat these")
    elif grid.rows < down:
        parts.append(f"{down - grid.rows} more rows not shown")
    if grid.columns < across:
        parts.append(f"{across - grid.columns} more columns not shown")
    return "; ".join(parts) + "."


def memory_picture(places: Places, title: str) -> Picture:
    """Return the picture of memory, a line per row of the tile: which cell is at each position."""
    down, across = places.columns.shape
    rows, columns = min(down, MOST_ROWS), min(across, MOST_COLUMNS)

    def label(row: int, column: int) -> str:
        held = int(places.rows[row, column]), int(places.columns[row, column])
        if held[0] < 0:
            return "-"
        return str(held[1]) if places.stays_in_row else f"{held[0]}.{held[1]}"

    def colour(row: int, column: int) -> tuple[bool, int] | None:
        held = int(places.columns[row, column])
        return (False, held * BANKS // across % BANKS) if held >= 0 else None

    longest = max(len(label(row, column)) for row in range(rows) for column in range(columns))
    grid = CellGrid(rows=rows, columns=columns, left=30, cell_width=max(NARROW, LETTER * longest + 4))
    hidden = [f"{down - rows} more lines"] * (down > rows) + [f"{across - columns} more positions"] * (across > columns)
    left_out = f"; not shown: {' and '.join(hidden)}" if hidden else ""
    numbered = "its column" if places.stays_in_row else "its row and column"
    return Picture(
        title=title,
        note=f"Each cell shows {numbered}{left_out}.",
        width=grid.width,
        height=grid.height,
        fills=_fills(grid, colour),
        lines=_lines(grid, lambda row, c: (label(row, c), f"position {c}: {label(row, c)}", False)),
        columns=grid.heads("p"),
        key=MEMORY_KEY,
        kind="Memory map",
    )


# The phases of a request, one after the other: what each accesses, outlined on its map, and the load of each bank.

MOST_STEPS = 8
BAR_WIDTH, BAR_GAP = 14, 3
BAR_LEFT, BAR_TOP, BAR_ROOM = 26, 18, 64  # pixels; the room is the height of the tallest bar
LABEL_EVERY = 4


class Bar(NamedTuple):
    """What a phase needs from one bank: `first` is the word that fits in one wavefront, `more` those that do not."""

    colour: int
    first: str  # SVG paths
    more: str
    title: str


@dataclass(frozen=True, kw_only=True)
class PhasePicture:
    """One phase: its outline on the map, the words that it needs from each bank as bars, and captions for both."""

    request: int
    name: str  # in a row of buttons
    title: str
    verdict: str
    outline: str
    width: int  # of the bars
    height: int
    axis: str  # an SVG path
    peak: int
    peak_y: int
    bars: tuple[Bar, ...]
    ticks: tuple[Label, ...]


def _step(load: PhaseLoad, grid: CellGrid, period: int, tallest: int) -> PhasePicture:
    # A cell below the map is drawn at its equivalent row, if rows repeat.
    cells = {(row if row < grid.rows else row % period, column) for row, column in load.cells}
    drawn = {(row, column) for row, column in cells if row < grid.rows and column < grid.columns}
    banks, baseline, unit = len(load.words), BAR_TOP + BAR_ROOM, BAR_ROOM / max(tallest, 1)
    lefts = [BAR_LEFT + bank * (BAR_WIDTH + BAR_GAP) + BAR_GAP for bank in range(banks)]
    width = BAR_LEFT + banks * (BAR_WIDTH + BAR_GAP) + 2

    def box(bank: int, words: int, height: int) -> str:
        """Return a bar's part that begins below the top word, `height` words high."""
        return f"M{lefts[bank]} {baseline - words * unit:.4g}h{BAR_WIDTH}v{height * unit:.4g}h-{BAR_WIDTH}z"

    return PhasePicture(
        request=load.request,
        name=f"{load.request}.{load.phase}" if load.phases > 1 else str(load.request),
        title=f"request {load.request}" + (f", phase {load.phase}" if load.phases > 1 else ""),
        verdict=_step_verdict(load, len(cells) - len(drawn)),
        outline=grid.outline(drawn),
        width=width,
        height=baseline + 18,
        axis=f"M{BAR_LEFT} {baseline}h{width - BAR_LEFT}",
        peak=load.busiest,
        peak_y=round(baseline - load.busiest * unit) + 4,
        bars=tuple(
            Bar(
                bank * BANKS // banks,
                box(bank, 1, 1),
                box(bank, words, words - 1) if words > 1 else "",
                f"bank {bank}: {words} word{'s' if words > 1 else ''}",
            )
            for bank, words in enumerate(load.words)
            if words
        ),
        ticks=tuple(
            (lefts[bank] + BAR_WIDTH // 2, str(bank)) for bank in range(0, banks, LABEL_EVERY if banks > 8 else 1)
        ),
    )


def _step_verdict(load: PhaseLoad, hidden: int) -> str:
    lanes = f"lanes {load.lanes[0]} to {load.lanes[-1]}" if len(load.lanes) > 1 else f"lane {load.lanes[0]}"
    banks = sum(count > 0 for count in load.words)
    noun = "lane" if load.every_lane else "word"
    words = f"at most {load.busiest} {noun}s" if load.busiest > 1 else f"one {noun}"
    outside = f"; {hidden} of its cells are not on the map" if hidden else ""
    return f"{lanes} access {banks} bank{'s' if banks > 1 else ''}, {words} in each{outside}."


# The tiles that the emulator saw in a launch, for its bank maps: as they are, and under the suggested mapping.


def tiles(profile: Profile) -> tuple[Tile, ...]:
    """Return a launch's tiles with the kernel's own layouts; none if it was not emulated."""
    return tuple(map(_tile, attribution.tiles(profile)))


def suggested_mapping(profile: Profile, drawn: Sequence[Tile]) -> tuple[Tile, ...]:
    """Return the same tiles under the mapping that leaves the fewest conflicts; none if other ones are `drawn`."""
    if [tile.name for tile in drawn] != [tile.span for tile in attribution.tiles(profile)]:
        return ()
    limits = attribution.constraints(profile)
    changed = []
    for tile in attribution.tiles(profile):
        mapping = tile.plain
        if tile.excessive:
            with contextlib.suppress(UsageError):  # no rule gives its wavefronts
                mapping = tile.suggestion(limits).closest.mapping
        changed.append(replace(_tile(tile), mapping=mapping))
    return tuple(changed)


def _tile(tile: ObservedTile) -> Tile:
    accesses = tuple(replace(access, name=f"{access.name}, {access.op}") for access in tile.accesses)
    return Tile(name=tile.span, mapping=tile.plain, accesses=accesses)


# The bank maps of a comparison: the tile and the access that cost most, before and after.

TilesOf = Callable[[Profile], Sequence[Tile]]  # a launch's tiles and its accesses to them; empty if unknown


@dataclass(frozen=True, kw_only=True)
class Board:
    """Maps side by side, with the same phases to step through; `step_names` label the buttons, if there are several.

    `gloss` explains anything other than a bank map.
    """

    pictures: tuple[Picture, ...]
    step_kind: str = ""
    step_names: tuple[str, ...] = ()
    gloss: str = ""


@dataclass(frozen=True)
class BankSection:
    """The bank maps of a comparison: one tile, under its most expensive access."""

    access: str
    board: Board
    notes: tuple[str, ...] = ()


def bank_board(bank_maps: Sequence[BankMap], titles: Sequence[str] = (), request: int | None = None) -> Board:
    """Return maps of one access side by side; `titles` replace the maps' own.

    The phases start with those of `request`, by default the worst one.
    """
    rows = rows_of(bank_maps)
    # If their requests are the same, all maps show the phases of the same one.
    alike = {(bank_map.access.op, bank_map.access.requests) if bank_map.access else None for bank_map in bank_maps}
    first = worst_request(bank_maps) if request is None and len(alike) == 1 else request
    named = list(titles) + [bank_map.title for bank_map in bank_maps[len(titles) :]]
    starts = [worst_request([bank_map]) if first is None else first for bank_map in bank_maps]
    phases = [
        tuple(islice(loads(bank_map, start), MOST_STEPS)) for bank_map, start in zip(bank_maps, starts, strict=True)
    ]
    tallest = max((load.busiest for phase in phases for load in phase), default=1)
    drawn = tuple(picture(*placed, tallest) for placed in zip(bank_maps, named, repeat(rows), phases, strict=False))
    count = min((len(picture.steps) for picture in drawn), default=0)
    names = [{picture.steps[number].name for picture in drawn} for number in range(count)]
    shared = all(len(same) == 1 for same in names)
    step_names = tuple(name.pop() if shared else str(number) for number, name in enumerate(names, start=1))
    kind = "Step" if not shared else "Request.phase" if any("." in name for name in step_names) else "Request"
    return Board(pictures=drawn, step_kind=kind, step_names=step_names if count > 1 else ())


def phases(bank_maps: Sequence[BankMap], request: int | None = None) -> tuple[Board, Board]:
    """Return maps with the phases of one request, the worst by default, to step through; and a map for each phase."""
    all_steps = bank_board(bank_maps, (), request)
    pictures = [
        replace(picture, steps=tuple(step for step in picture.steps if step.request == picture.steps[0].request))
        for picture in all_steps.pictures
    ]
    names = all_steps.step_names[: min(len(picture.steps) for picture in pictures)]
    stepped = replace(all_steps, pictures=tuple(pictures), step_names=names if len(names) > 1 else ())
    return stepped, Board(pictures=tuple(single for picture in pictures for single in single_steps(picture)))


def section(comparison: Comparison, tiles_of: TilesOf) -> BankSection | None:
    """Return the maps of the first two profiles, or of one and what is suggested for it.

    Both show the same access if they share one, else each its most expensive one. None if no access with known
    addresses has conflicts.
    """
    labels, profiles = comparison.labels[:2], comparison.profiles[:2]
    tiles = [tuple(tiles_of(profile)) for profile in profiles]
    if len(profiles) == 1 and (suggested := suggested_mapping(profiles[0], tiles[0])):
        labels, tiles = (*labels, "suggested"), [*tiles, suggested]
    costs = [_costs(profile_tiles) for profile_tiles in tiles]
    worst = _worst(tiles, costs)
    if not any(cost[key] for key, cost in zip(worst, costs, strict=True) if key):
        return None
    maps, titles, names, notes = [], [], [], []
    for label, profile_tiles, key in zip(labels, tiles, worst, strict=True):
        if key is None:
            lanes = any(tile.accesses for tile in profile_tiles) or not profile_tiles
            why = (
                "The addresses that {} accesses are not known."
                if lanes
                else "In {}, only TMA and wgmma access the tiles."
            )
            notes.append(why.format(label))
            continue
        number, name, op = key
        tile = profile_tiles[number]
        access = next(access for access in tile.accesses if (access.name, access.op) == (name, op))
        maps.append(bankmap.build(tile.mapping, access))
        titles.append(f"{label}: {maps[-1].title}")
        names.append(f"{tile.name}, {name}" + (f" ({op})" if op not in name else ""))
    return BankSection("; ".join(dict.fromkeys(names)), bank_board(maps, titles), tuple(notes))


Key = tuple[int, str, str]  # of an access: its tile's number, its name, its operation


def _worst(tiles: Sequence[Sequence[Tile]], costs: Sequence[dict[Key, int]]) -> list[Key | None]:
    """Return the access to show of each profile; None if none of its accesses is known."""
    common = [key for key in costs[0] if all(key in others for others in costs)]
    if common and len({len(tile) for tile in tiles}) == 1:
        return [max(common, key=lambda key: max(cost[key] for cost in costs))] * len(costs)
    return [max(cost, key=lambda key: cost[key]) if cost else None for cost in costs]


def _costs(tiles: Sequence[Tile]) -> dict[Key, int]:
    """Return the excessive wavefronts of each access whose wavefronts are known."""
    costs = {}
    for number, tile in enumerate(tiles):
        for access in tile.accesses:
            counted = access.wavefronts(tile.mapping)
            if counted.known.all():
                costs[number, access.name, access.op] = int((counted.excessive * access.times).sum())
    return costs


def board(memory: Sequence[Places], titles: Sequence[str]) -> Board:
    """Return memory before and after, side by side."""
    return Board(pictures=tuple(map(memory_picture, memory, titles)), gloss=MEMORY_KEY)
