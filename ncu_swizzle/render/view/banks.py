"""The bank maps of a comparison: the tile and the access that cost most, before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat

from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.view import observed
from ncu_swizzle.render.view.bank_picture import Picture, picture, rows_of, single_steps
from ncu_swizzle.render.view.bank_steps import MOST_STEPS
from ncu_swizzle.smem import bankmap
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.bankload import loads, worst_request
from ncu_swizzle.smem.bankmap import BankMap
from ncu_swizzle.tiles.declaration import Tile

TilesOf = Callable[[Profile], Sequence[Tile]]  # a launch's tiles and its accesses to them; empty if they are unknown


@dataclass(frozen=True)
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


def board(bank_maps: Sequence[BankMap], titles: Sequence[str] = (), request: int | None = None) -> Board:
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
    return Board(drawn, _step_kind(step_names, shared), step_names if count > 1 else ())


def phases(bank_maps: Sequence[BankMap], request: int | None = None) -> tuple[Board, Board]:
    """Return maps with the phases of one request, the worst by default, to step through; and a map for each phase."""
    whole = board(bank_maps, (), request)
    pictures = [
        replace(each, steps=tuple(step for step in each.steps if step.request == each.steps[0].request))
        for each in whole.pictures
    ]
    names = whole.step_names[: min(len(each.steps) for each in pictures)]
    stepped = replace(whole, pictures=tuple(pictures), step_names=names if len(names) > 1 else ())
    return stepped, Board(tuple(single for each in pictures for single in single_steps(each)))


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
    if len(profiles) == 1 and (suggested := observed.suggested(profiles[0], tiles[0])):
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
    return BankSection("; ".join(dict.fromkeys(names)), board(maps, titles), tuple(notes))


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
