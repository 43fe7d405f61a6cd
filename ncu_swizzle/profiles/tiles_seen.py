"""The tiles of a profile whose requests are known: those that the emulated engine saw."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ncu_swizzle.emulate.advice import Advice, advise
from ncu_swizzle.emulate.observed import ObservedTile, observed_tiles
from ncu_swizzle.profiles import attribution
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.profiles.saved_requests import SavedRequests
from ncu_swizzle.smem.judge import Constraints

# TMA and wgmma use the hardware's own swizzle modes, for tiles whose requests the emulator does not see.
HARDWARE = frozenset({"UTMALDG", "UTMASTG", "UTMAREDG", "HGMMA", "QGMMA", "IGMMA", "BGMMA"})
KEPT = 16  # profiles, whose tiles are shown several times in one run

Labels = tuple[tuple[int, str], ...]
Offsets = frozenset[int]


def tiles(profile: Profile) -> tuple[ObservedTile, ...]:
    """Return the tiles, with accesses named by the source line to blame, such as ``tile.cu:12``; empty if unknown.

    Raises DamagedFile if the saved requests are damaged.
    """
    return _tiles(profile.requests, _labels(profile), _leading(profile))


def advice(profile: Profile) -> tuple[Advice, ...]:
    """Return a mapping for each tile with conflicts, tried on its requests; none where a compiler chose the layout."""
    if any(not note.explicit for note in profile.layouts):
        return ()
    unknown = len(untried(profile))
    return _advice(profile.requests, _labels(profile), _leading(profile), constraints(profile), unknown)


def untried(profile: Profile) -> tuple[str, ...]:
    """Return the accesses whose addresses are unknown, such as ``LDS at tile.cu:12``: no mapping is tried on them."""
    lines = dict(_labels(profile))
    missed = [access for access in profile.shared() if access.wavefronts is None and access.executed != 0]
    named = (f"{access.access} at {lines.get(access.pc, f'{access.pc:#x}')}" for access in missed)
    return tuple(dict.fromkeys(named))


def constraints(profile: Profile, given: Constraints = Constraints()) -> Constraints:
    """Return what a mapping of the profile's tiles must respect, besides what is given."""
    hardware = any(instruction.opcode.split(".")[0] in HARDWARE for instruction in profile.instructions)
    return replace(given, tma=given.tma or hardware)


def _labels(profile: Profile) -> Labels:
    if not profile.requests:
        return ()
    return tuple((site.access.pc, site.name) for site in attribution.sites(profile))


def _leading(profile: Profile) -> Offsets:
    return frozenset(access.pc for access in profile.shared() if access.by_wmma)


@lru_cache(KEPT)
def _tiles(saved: tuple[SavedRequests, ...], labels: Labels, leading: Offsets) -> tuple[ObservedTile, ...]:
    names = dict(labels)
    return observed_tiles({made.pc: made.unpacked() for made in saved}, lambda offset: names.get(offset, ""), leading)


@lru_cache(KEPT)
def _advice(
    saved: tuple[SavedRequests, ...], labels: Labels, leading: Offsets, limits: Constraints, unknown: int
) -> tuple[Advice, ...]:
    return advise(_tiles(saved, labels, leading), limits, unknown)
