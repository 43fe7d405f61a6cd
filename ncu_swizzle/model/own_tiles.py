"""The bank maps of an emulated kernel: its worst access, before and after the mapping that is suggested or typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ncu_swizzle.emulate.observed import ObservedTile
from ncu_swizzle.errors import UsageError
from ncu_swizzle.model import own_kernels
from ncu_swizzle.model.subject import BanksQuery, Subject
from ncu_swizzle.profiles import tiles_seen
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.mapping import Mapping

Drawn = tuple[ObservedTile, Access]


def subject(query: BanksQuery, profiles: Sequence[Profile]) -> Subject:
    """Return the worst access of one kernel under two mappings, or of two variants, as both have it. Raises UsageError.

    The second mapping is the one typed, else the one suggested.
    """
    first, last = profiles[0], profiles[-1]
    tile, access = _worst(first, query.access)
    name = f"{tile.span}: {access.name} ({access.op})"
    if first is last or query.swizzle or query.pad:
        after = _after(query, first, tile)
        return Subject(tile.plain, after, replace(access, times=1), f"{first.kernel.name}, {name}")
    other, later = _worst(last, query.access or access.name)
    title = f"{first.kernel.name} → {last.kernel.name}, {name}"
    return Subject(tile.plain, other.plain, replace(access, times=1), title, replace(later, times=1))


def _after(query: BanksQuery, profile: Profile, tile: ObservedTile) -> Mapping:
    typed = own_kernels.transform(tile, query.swizzle, query.pad, query.element_bytes)
    if typed:
        return replace(tile.plain, transform=typed)
    return tile.suggestion(tiles_seen.constraints(profile)).closest.mapping if tile.excessive else tile.plain


def _worst(profile: Profile, named: str | None) -> Drawn:
    """Return the access with the most excessive wavefronts, of those with this name or operation, and its tile."""
    drawn = [(tile, access) for tile in own_kernels.tiles(profile) for access in tile.accesses]
    chosen = [pair for pair in drawn if named in (None, pair[1].name, pair[1].op)]
    if not chosen:
        names = ", ".join(dict.fromkeys(repr(access.name) for _, access in drawn))
        raise UsageError(f"{profile.kernel.name} has no access {named!r}", f"--access one of {names}")
    return max(chosen, key=_excess)


def _excess(pair: Drawn) -> int:
    tile, access = pair
    counted = access.wavefronts(tile.plain)
    return access.total(np.where(counted.known, counted.actual - counted.ideal, 0))
