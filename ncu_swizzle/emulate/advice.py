"""Advise a conflict-free mapping for each tile of an emulated kernel, shared by all its writers and readers.

Every mapping is tried on the recorded requests before it is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.emulate.observed import ObservedTile
from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem.code import spelled
from ncu_swizzle.smem.judge import LEADING_STEP, Candidate, Constraints
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import LINE
from ncu_swizzle.smem.swizzle import Padding

API = "wmma takes a leading dimension and no swizzle"


@dataclass(frozen=True)
class Advice:
    """Advice for the tile at these bytes of shared memory and the instructions at these offsets."""

    first: int
    end: int
    offsets: tuple[int, ...]
    text: str


def advise(
    tiles: Sequence[ObservedTile], constraints: Constraints = Constraints(), untried: int = 0
) -> tuple[Advice, ...]:
    """Return advice for each tile with conflicts; adjacent ones with the same advice, such as stages, get it together.

    `untried` accesses have unknown addresses.
    """
    accesses = f"{untried} access{'es' if untried > 1 else ''} with unknown addresses"
    caveat = f" ({accesses} could not be tried)" if untried else ""
    runs: list[list[ObservedTile]] = []
    sentences: list[str] = []
    for tile in tiles:
        if not tile.excessive:
            continue
        sentence = _sentence(tile, constraints) + caveat
        if runs and sentences[-1] == sentence and runs[-1][-1].end == tile.first:
            runs[-1].append(tile)
        else:
            runs.append([tile])
            sentences.append(sentence)
    return tuple(_together(run, sentence) for run, sentence in zip(runs, sentences, strict=True))


def _together(run: Sequence[ObservedTile], sentence: str) -> Advice:
    first, end = run[0].first, run[-1].end
    each = f", {len(run)} tiles" if len(run) > 1 else ""
    offsets = tuple(offset for tile in run for offset in tile.offsets)
    return Advice(first, end, offsets, f"shared memory from {first:#x} to {end - 1:#x}{each}, {sentence}")


def _sentence(tile: ObservedTile, constraints: Constraints) -> str:
    """Return the operations of a tile and what was found by trying mappings on them."""
    operations = ", ".join(dict.fromkeys(access.op for access in tile.accesses))
    if tile.leading == 0:
        return f"{operations}: {API}: pad the rows by a multiple of {LEADING_STEP} bytes, but not of {LINE}"
    try:
        suggestion = tile.suggestion(constraints)
    except UsageError as error:
        return f"{operations}: no mapping can be suggested: {error}"
    if suggestion.best is None:
        closest = suggestion.closest
        left = f"leaves {closest.excessive:,} of {tile.excessive:,} excessive wavefronts in the blocks that ran"
        nearest = "" if closest is suggestion.plain else f"; {_mapped(tile, closest.mapping)} comes closest: it {left}"
        return f"{operations}: no {_options(tile, constraints)} makes all of these accesses conflict-free{nearest}"
    judged = "" if tile.complete else " (judged by the most frequent requests only)"
    return f"{operations}: {_mapped(tile, suggestion.best.mapping)} {_promise(suggestion.best)}{judged}"


def _options(tile: ObservedTile, constraints: Constraints) -> str:
    """Return what was tried."""
    if constraints.tma:
        return "mode of TMA's"
    if tile.leading:
        return "longer row"
    widest = max(access.operation.width_bytes for access in tile.accesses)
    whole = f" that keeps {widest}-byte accesses whole" if widest > tile.plain.element_bytes else ""
    return f"swizzle or padding{whole}"


def _mapped(tile: ObservedTile, mapping: Mapping) -> str:
    """Return the mapping in words; of rows that an API knows by their leading dimension, how long they are to be."""
    if tile.leading is None or not isinstance(mapping.transform, Padding):
        return spelled(mapping)
    row = mapping.transform.every * mapping.element_bytes
    longer = row + mapping.transform.by * mapping.element_bytes
    return f"{API}; padding the rows from {row} to {longer} bytes"


def _promise(best: Candidate) -> str:
    cost = f", for {best.extra_bytes:,} more bytes" if best.extra_bytes else ""
    return f"makes all of these accesses conflict-free{cost}"
