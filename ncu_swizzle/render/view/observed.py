"""The tiles that the emulator saw in a launch, for its bank maps: as they are, and under the suggested mapping."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from ncu_swizzle.emulate.observed import ObservedTile
from ncu_swizzle.errors import UsageError
from ncu_swizzle.profiles import tiles_seen
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.tiles.declaration import Tile


def tiles(profile: Profile) -> tuple[Tile, ...]:
    """Return the tiles of a launch as its kernel has them; none if it was not emulated."""
    return tuple(map(_tile, tiles_seen.tiles(profile)))


def suggested(profile: Profile, drawn: Sequence[Tile]) -> tuple[Tile, ...]:
    """Return the same tiles under the mapping that leaves the fewest conflicts; none if other ones are `drawn`."""
    if [tile.name for tile in drawn] != [tile.span for tile in tiles_seen.tiles(profile)]:
        return ()
    limits = tiles_seen.constraints(profile)
    changed = []
    for tile in tiles_seen.tiles(profile):
        mapping = tile.plain
        if tile.excessive:
            with contextlib.suppress(UsageError):  # no rule gives its wavefronts
                mapping = tile.suggestion(limits).closest.mapping
        changed.append(replace(_tile(tile), mapping=mapping))
    return tuple(changed)


def _tile(tile: ObservedTile) -> Tile:
    accesses = tuple(replace(access, name=f"{access.name}, {access.op}") for access in tile.accesses)
    return Tile(tile.span, tile.plain, accesses)
