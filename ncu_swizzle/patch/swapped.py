"""Swapped indices: ``t[x][y]`` for ``t[y][x]``, where every access names both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ncu_swizzle.patch.draft import Draft
from ncu_swizzle.smem.layout import Ints
from ncu_swizzle.source import cuda
from ncu_swizzle.source.arrays import sizes_of
from ncu_swizzle.source.edits import Edit
from ncu_swizzle.source.reach import Reach, ReachedPlace

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class Swapped:
    """Tiles of `rows` by `columns` elements, each transposed."""

    columns: int
    rows: int
    granule: int = 1
    operations: int = 0

    def __str__(self) -> str:
        return "swapped indices"

    def __call__(self, offsets: Ints) -> Ints:
        tile, within = np.divmod(offsets, self.rows * self.columns)
        row, column = np.divmod(within, self.columns)
        return np.asarray(tile * (self.rows * self.columns) + column * self.rows + row)

    def cuda(self, offset: str) -> str:
        tile = self.rows * self.columns
        row, column = f"{offset} % {tile} / {self.columns}", f"{offset} % {self.columns}"
        return f"{offset} / {tile} * {tile} + {column} * {self.rows} + {row}"


def swapped(draft: Draft) -> list[Edit]:
    """Return the edits that swap the last two indices of a tile; raise Unfit for a use that does not name both."""
    made: list[Edit] = []
    for place in dict.fromkeys(root.place for root in draft.tile.roots):
        made += _declaration(draft, place)
    for reach in draft.tile.reaches:
        if not draft.ends(reach.start):
            made += _subscripts(draft, reach)
    return made


def _declaration(draft: Draft, place: ReachedPlace) -> list[Edit]:
    sizes = sizes_of(place.declared, draft.file)
    statement = cuda.above(place.declared, "declaration", "field_declaration")
    if len(sizes) < 2 or statement is None or not all(cuda.inside(size, statement) for size in sizes[-2:]):
        raise draft.unfit(place.declared, f"{place.name} does not declare its rows and columns here")
    return _exchanged(draft, *sizes[-2:])


def _subscripts(draft: Draft, reach: Reach) -> list[Edit]:
    rank, quoted = reach.start.rank, draft.quoted(reach.node)
    whole = reach.end is None or draft.ends(reach.end)
    if not whole or not draft.full(reach) or reach.layout is not None or reach.leading is not None:
        raise draft.unfit(reach.node, f"{quoted} does not name row and column of an element")
    row, column = reach.steps[rank - 2], reach.steps[rank - 1]
    if any(step in draft.moving(reach) for step in reach.steps[rank:]) or row.foreign or column.foreign:
        raise draft.unfit(reach.node, f"{quoted} adds to the address of an element")
    if row.node is None or column.node is None or draft.holds_use(row.node) or draft.holds_use(column.node):
        raise draft.unfit(reach.node, f"{quoted} has another use of the tile in its index")
    return _exchanged(draft, row.node, column.node)


def _exchanged(draft: Draft, one: Node, other: Node) -> list[Edit]:
    texts = draft.file.of(one), draft.file.of(other)
    if texts[0] == texts[1]:
        return []
    return [Edit(one.start_byte, one.end_byte, texts[1]), Edit(other.start_byte, other.end_byte, texts[0])]
