"""Byte addresses in binary, before and after a swizzle, ready to draw: the bits that it reads and those it changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.emulate.observed import ObservedTile
from ncu_swizzle.kernels.declared_tiles import Tile
from ncu_swizzle.render.bank_picture import Cell, Fill, Label, Line, Picture, picture, rows_of, single_steps
from ncu_swizzle.render.bank_steps import MOST_STEPS, CellGrid
from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem import bankmap
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankmap import BANKS, BankMap, loads, worst_request
from ncu_swizzle.smem.mapping import Bits, Places

# The tiles that the emulator saw in a launch, for its bank maps: as they are, and under the suggested mapping.


def tiles(profile: Profile) -> tuple[Tile, ...]:
    """Return the tiles of a launch as its kernel has them; none if it was not emulated."""
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


TilesOf = Callable[[Profile], Sequence[Tile]]  # a launch's tiles and its accesses to them; empty if they are unknown


@dataclass(frozen=True, kw_only=True)
class Board:
    """Maps side by side, with the same phases to step through; `step_names` label the buttons, if there are several.

    `gloss` explains what is not a bank map.
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
    first = worst_request(bank_maps) if request is None and _same_requests(bank_maps) else request
    named = list(titles) + [bank_map.title for bank_map in bank_maps[len(titles) :]]
    phases = [tuple(islice(loads(bank_map, _first(bank_map, first)), MOST_STEPS)) for bank_map in bank_maps]
    tallest = max((load.busiest for each in phases for load in each), default=1)
    drawn = tuple(picture(*each, tallest) for each in zip(bank_maps, named, repeat(rows), phases, strict=False))
    count = min((len(each.steps) for each in drawn), default=0)
    names = [{each.steps[number].name for each in drawn} for number in range(count)]
    shared = all(len(each) == 1 for each in names)
    step_names = tuple(name.pop() if shared else str(number) for number, name in enumerate(names, start=1))
    return Board(pictures=drawn, step_kind=_step_kind(step_names, shared), step_names=step_names if count > 1 else ())


def phases(bank_maps: Sequence[BankMap], request: int | None = None) -> tuple[Board, Board]:
    """Return maps with the phases of one request, the worst by default, to step through; and a map for each phase."""
    whole = bank_board(bank_maps, (), request)
    pictures = [
        replace(each, steps=tuple(step for step in each.steps if step.request == each.steps[0].request))
        for each in whole.pictures
    ]
    names = whole.step_names[: min(len(each.steps) for each in pictures)]
    stepped = replace(whole, pictures=tuple(pictures), step_names=names if len(names) > 1 else ())
    return stepped, Board(pictures=tuple(single for each in pictures for single in single_steps(each)))


def _same_requests(bank_maps: Sequence[BankMap]) -> bool:
    """Return whether the maps show the same instruction, with as many requests."""
    return len({(bank_map.access.op, bank_map.access.requests) if bank_map.access else None
                for bank_map in bank_maps}) == 1  # fmt: skip


def _first(bank_map: BankMap, together: int | None) -> int:
    return worst_request([bank_map]) if together is None else together


def _step_kind(names: Sequence[str], shared: bool) -> str:
    if not shared:
        return "Step"
    return "Request.phase" if any("." in name for name in names) else "Request"


def section(comparison: Comparison, tiles_of: TilesOf) -> BankSection | None:
    """Return the maps of the first two profiles, or of one and what is suggested for it.

    Both show the same access if they have one in common, else each its most expensive one. None if no access of known
    addresses has conflicts.
    """
    labels, profiles = comparison.labels[:2], comparison.profiles[:2]
    tiles = [tuple(tiles_of(profile)) for profile in profiles]
    if len(profiles) == 1 and (suggested := suggested_mapping(profiles[0], tiles[0])):
        labels, tiles = (*labels, "suggested"), [*tiles, suggested]
    costs = [_costs(each) for each in tiles]
    worst = _worst(tiles, costs)
    if not any(cost[key] for key, cost in zip(worst, costs, strict=True) if key):
        return None
    maps, titles, names, notes = [], [], [], []
    for label, each, key in zip(labels, tiles, worst, strict=True):
        if key is None:
            lanes = any(tile.accesses for tile in each) or not each
            notes.append(
                f"The addresses that {label} accesses are not known."
                if lanes
                else f"In {label}, only TMA and wgmma access the tiles."
            )
            continue
        tile, access = each[key[0]], _access(each, key)
        maps.append(bankmap.build(tile.mapping, access))
        titles.append(f"{label}: {maps[-1].title}")
        names.append(f"{tile.name}, {access.name}" + (f" ({access.op})" if access.op not in access.name else ""))
    return BankSection("; ".join(dict.fromkeys(names)), bank_board(maps, titles), tuple(notes))


Key = tuple[int, str, str]  # of an access: its tile's number, its name, its operation


def _worst(tiles: Sequence[Sequence[Tile]], costs: Sequence[dict[Key, int]]) -> list[Key | None]:
    """Return the access to show of each profile; None if none of its accesses is known."""
    common = [key for key in costs[0] if all(key in others for others in costs)]
    if common and len({len(each) for each in tiles}) == 1:
        return [max(common, key=lambda key: max(cost[key] for cost in costs))] * len(costs)
    return [max(cost, key=lambda key: cost[key]) if cost else None for cost in costs]


def _access(tiles: Sequence[Tile], key: Key) -> Access:
    number, name, op = key
    return next(access for access in tiles[number].accesses if (access.name, access.op) == (name, op))


def _costs(tiles: Sequence[Tile]) -> dict[Key, int]:
    """Return the excessive wavefronts of each access whose wavefronts are known."""
    costs = {}
    for number, tile in enumerate(tiles):
        for access in tile.accesses:
            counted = access.wavefronts(tile.mapping)
            if counted.known.all():
                costs[number, access.name, access.op] = int((counted.excessive * access.times).sum())
    return costs


# Memory, one line per row of a tile: which cell is at each position, in the colour of its column.


GLOSS = "Memory, in lines as long as a row of the tile: the cell at each position, in the colour of its column."
PLACE_PICTURE_MOST_ROWS = MOST_COLUMNS = 64
PLACE_PICTURE_LEFT, PLACE_PICTURE_TOP, HEIGHT, PLACE_PICTURE_BASELINE = 30, 20, 19, 14
LETTER, LEAST = 7, 17  # pixels: of a label's letter, of a cell


def board(memory: Sequence[Places], titles: Sequence[str]) -> Board:
    """Return memory before and after, side by side."""
    return Board(pictures=tuple(_picture(each, title) for each, title in zip(memory, titles, strict=True)), gloss=GLOSS)


def _picture(places: Places, title: str) -> Picture:
    down, across = places.columns.shape
    rows, columns = min(down, PLACE_PICTURE_MOST_ROWS), min(across, MOST_COLUMNS)
    labels = {(row, column): _label(places, row, column) for row in range(rows) for column in range(columns)}
    frame = CellGrid(
        rows=rows,
        columns=columns,
        left=PLACE_PICTURE_LEFT,
        top=PLACE_PICTURE_TOP,
        cell_width=max(LEAST, LETTER * max(map(len, labels.values())) + 4),
        cell_height=HEIGHT,
    )
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
            Line(
                frame.y(row) + PLACE_PICTURE_BASELINE,
                f"r{row}",
                tuple(_cell(labels[row, c], c, frame) for c in range(columns)),
            )
            for row in range(rows)
        ),
        columns=tuple(Label(frame.x(c) + frame.cell_width // 2, f"p{c}") for c in range(0, columns, every)),
        borders="",
        key=GLOSS,
        kind="Memory map",
    )


def _cell(label: str, column: int, frame: CellGrid) -> Cell:
    return Cell(
        x=frame.x(column) + frame.cell_width // 2, label=label, title=f"position {column}: {label}", conflict=False
    )


def _label(places: Places, row: int, column: int) -> str:
    held = int(places.rows[row, column]), int(places.columns[row, column])
    if held[0] < 0:
        return "-"
    return str(held[1]) if places.stays_in_row else f"{held[0]}.{held[1]}"


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


@dataclass(frozen=True, kw_only=True)
class AddressLine:
    """One address before and after, with each digit's place in `places`; `changed` if the swizzle moves the cell."""

    y: int
    label: str
    before: str
    after: str
    hex_before: str
    hex_after: str
    changed: bool


@dataclass(frozen=True, kw_only=True)
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
