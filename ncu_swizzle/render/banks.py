"""Bank maps of a comparison, of a tile and of its memory, side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, repeat
from typing import TYPE_CHECKING

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.kernels.catalog import Tile
from ncu_swizzle.render.bank_picture import (
    MEMORY_KEY,
    MOST_STEPS,
    Picture,
    memory_picture,
    picture,
    rows_of,
    single_steps,
)
from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem import bankmap
from ncu_swizzle.smem.bankmap import BankMap, loads, worst_request
from ncu_swizzle.smem.mapping import Places
from ncu_swizzle.smem.observed import ObservedTile

if TYPE_CHECKING:
    from ncu_swizzle.reports.comparison import Comparison

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
    alike = {(each.access.op, each.access.requests) if each.access else None for each in bank_maps}
    first = worst_request(bank_maps) if request is None and len(alike) == 1 else request
    named = list(titles) + [bank_map.title for bank_map in bank_maps[len(titles) :]]
    starts = [worst_request([each]) if first is None else first for each in bank_maps]
    phases = [tuple(islice(loads(each, start), MOST_STEPS)) for each, start in zip(bank_maps, starts, strict=True)]
    tallest = max((load.busiest for phase in phases for load in phase), default=1)
    drawn = tuple(picture(*each, tallest) for each in zip(bank_maps, named, repeat(rows), phases, strict=False))
    count = min((len(each.steps) for each in drawn), default=0)
    names = [{each.steps[number].name for each in drawn} for number in range(count)]
    shared = all(len(each) == 1 for each in names)
    step_names = tuple(name.pop() if shared else str(number) for number, name in enumerate(names, start=1))
    kind = "Step" if not shared else "Request.phase" if any("." in name for name in step_names) else "Request"
    return Board(pictures=drawn, step_kind=kind, step_names=step_names if count > 1 else ())


def phases(bank_maps: Sequence[BankMap], request: int | None = None) -> tuple[Board, Board]:
    """Return maps with the phases of one request, the worst by default, to step through; and a map for each phase."""
    all_steps = bank_board(bank_maps, (), request)
    pictures = [
        replace(each, steps=tuple(step for step in each.steps if step.request == each.steps[0].request))
        for each in all_steps.pictures
    ]
    names = all_steps.step_names[: min(len(each.steps) for each in pictures)]
    stepped = replace(all_steps, pictures=tuple(pictures), step_names=names if len(names) > 1 else ())
    return stepped, Board(pictures=tuple(single for each in pictures for single in single_steps(each)))


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
