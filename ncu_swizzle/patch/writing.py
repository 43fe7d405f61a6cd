"""Patches of one tile: each mapping in the source, as it would be written by hand first, through an accessor next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ncu_swizzle.patch.candidates import Ranked
from ncu_swizzle.patch.draft import Draft, Unfit
from ncu_swizzle.patch.guard import guard, unobstructed
from ncu_swizzle.patch.padding_edits import PaddingEdits
from ncu_swizzle.patch.row_xor import RowXor
from ncu_swizzle.patch.seen import TileSeen
from ncu_swizzle.patch.subject import FixSubject
from ncu_swizzle.patch.swapped import Swapped, swapped
from ncu_swizzle.patch.xor_edits import XorEdits
from ncu_swizzle.source.edits import Edit, Overlap, edited

COLUMNS, FACTORS, FLAT = "columns", "factors of columns", "flat"  # what a mapping is written into


@dataclass(frozen=True, eq=False)
class WrittenPatch:
    """A source with a mapping in it."""

    ranked: Ranked
    text: bytes
    edits: int


def written(subject: FixSubject, seen: TileSeen, made: Ranked) -> Iterator[WrittenPatch | Unfit]:
    """Yield the texts that a mapping can be written as, or why it cannot be."""
    launched, plain = subject.launched(seen), subject.draft(seen)
    # What is right for rows of any length comes first; the other asks launches for one, see `conditions`.
    ways = [(launched, COLUMNS)] if launched is not None else []
    texts: set[bytes] = set()
    for draft, way in ((plain, COLUMNS), (plain, FACTORS), (plain, FLAT), *ways):
        try:
            edits = _edits(subject, draft, made, way)
            guard(draft, made.transform, edits, way == FLAT)
            text = edited(subject.file.text, edits)
        except Unfit as reason:
            yield reason
            continue
        except Overlap:
            yield Unfit("two uses of the tile stand within each other", 0)
            continue
        if text != subject.file.text and text not in texts:
            texts.add(text)
            yield WrittenPatch(made, text, len(edits))


def _edits(subject: FixSubject, draft: Draft, made: Ranked, way: str) -> list[Edit]:
    unobstructed(draft, made.transform)
    if isinstance(made.transform, Swapped):
        return swapped(draft)
    if isinstance(made.transform, RowXor):
        return XorEdits(draft, made.transform, way == FLAT, way == FACTORS).edits()
    return PaddingEdits(draft, made.transform, dict(subject.declarations), way == FLAT).edits()
