"""What the writers of a patch share, `Draft`, and the simplest one: swapped indices, ``t[x][y]`` for ``t[y][x]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import CudaFile, Inlined
from ncu_swizzle.fix.edits import Edit
from ncu_swizzle.fix.scopes import Scopes, sizes_of
from ncu_swizzle.fix.sums import CALLS, SIZES, Constants, Term
from ncu_swizzle.fix.webs import BYTES, Reach, ReachedPlace, ReachStep, SourceTile
from ncu_swizzle.smem.operations import Ints

if TYPE_CHECKING:
    from tree_sitter import Node


# What the writers of a patch share: the tile in its source, what is constant there, and why a mapping does not fit.


class Unfit(Exception):
    """A mapping cannot be written at a line of the source; the text says why."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, eq=False, kw_only=True)
class Draft:
    """A tile in its source. `unit_bytes` are the sizes of the types that its pointers count, as far as known."""

    file: CudaFile
    scopes: Scopes
    tile: SourceTile
    constants: Constants
    element_bytes: int  # of what the mapping counts
    declared_bytes: int  # of an element as declared
    unit_bytes: Mapping[str, int]
    source: Constants | None = None  # what is constant whatever the launch, if `constants` are those of one

    def unfit(self, node: Node, reason: str) -> Unfit:
        return Unfit(reason, self.file.line(node))

    def misfit(self, node: Node, rest: str) -> Unfit:
        """Return the same for an expression that is quoted; `rest` is what is wrong with it."""
        return self.unfit(node, f"{self.quoted(node)}{rest}")

    def quoted(self, node: Node) -> str:
        text = " ".join(self.file.of(node).split())
        return text if len(text) <= 60 else f"{text[:57]}..."

    def size(self, step_unit: str, node: Node) -> int:
        """Return the bytes that a step counts; raise Unfit if they are unknown."""
        if step_unit == BYTES:
            return 1
        size = self.unit_bytes.get(step_unit, SIZES.get(step_unit)) if step_unit else self.declared_bytes
        if size is None:
            raise self.unfit(node, f"the size of {step_unit} is unknown")
        return size

    def moving(self, reach: Reach) -> tuple[ReachStep, ...]:
        """Return the steps of a use that go anywhere: not those to the first element, nor within a granule."""
        return tuple(
            step for step in reach.steps if step.rank != 1 or (step.node is not None and not self.zero([step]))
        )

    def terms(self, step: ReachStep) -> tuple[Term, ...]:
        return self.constants.terms(step.node, step.negative) if step.node is not None else ()

    def closed(self, start: int, end: int, within: Node) -> bool:
        """Return whether these bytes are a whole argument of a call in an index, which needs no parentheses."""
        for node in cuda.walk(within):
            call = self.constants.inline(node) if node.type in CALLS else None
            for argument in call.arguments.values() if call is not None else ():
                if (argument.start_byte, argument.end_byte) == (start, end):
                    return call is not None and call.takes(argument)
        return False

    def indexing(self, node: Node) -> Inlined | None:
        """Return the index that a method of a view computes; None if a node is not a call of one."""
        call = self.constants.inline(cuda.bare(node))
        return call if call is not None and call.indexing else None

    def launch_decides(self, term: Term) -> list[str]:
        """Return the factors of a product that only the launch makes constant, such as a row's length."""
        source = self.source
        if source is None or not term.variable:
            return []
        return [self.file.of(f.node) for f in term.factors if f.value is not None and source.value(f.node) is None]

    def full(self, reach: Reach) -> bool:
        """Return whether the steps of a use begin with a subscript for every dimension."""
        rank = reach.start.rank
        return rank > 1 and len(reach.steps) >= rank and all(s.subscript for s in reach.steps[:rank])

    def zero(self, steps: Sequence[ReachStep]) -> bool:
        """Return whether all of some subscripts are the constant 0."""
        return all(step.node is not None and self.constants.value(step.node) == 0 for step in steps)

    def inner(self, place: ReachedPlace, columns: int) -> bool:
        """Return whether rows of that many elements lie within a place's last dimension: ``t[2][32 * 32]``."""
        sizes = sizes_of(place.declared, self.file) if place.rank > 1 else ()
        length = self.constants.value(sizes[-1]) if sizes else None
        size = self.unit_bytes.get(place.unit) or self.declared_bytes
        return length is not None and columns * self.element_bytes < length * size

    def flat(self, reach: Reach, columns: int) -> tuple[ReachStep, ...] | None:
        """Return the moving steps that count elements; None if rows and columns have subscripts of their own.

        Those before them lead to the start of a tile.
        """
        rank, moving = reach.start.rank, self.moving(reach)
        if rank < 2:
            return moving
        if self.inner(reach.start, columns):
            return tuple(step for step in reach.steps[rank - 1 :] if step in moving)
        if rank < len(reach.steps) and self.zero(reach.steps[:rank]):
            return tuple(step for step in reach.steps[rank:] if step in moving)
        return None

    def ends(self, place: ReachedPlace, seen: frozenset[int] = frozenset()) -> bool:
        """Return whether a place is only accessed as it is: nothing is added to it any more."""
        if place.array or place.declared.id in seen or any(root.place is place for root in self.tile.roots):
            return False
        inner = seen | {place.declared.id}
        return all(
            not self.moving(reach) and not reach.advance and reach.layout is None and reach.leading is None
            and (reach.end is None or self.ends(reach.end, inner))
            for reach in self.tile.from_(place)
        )  # fmt: skip

    def holds_use(self, node: Node) -> bool:
        """Return whether an expression contains another use of the tile."""
        own = node if self.indexing(node) else None  # the call that indexes is the use itself
        return any(cuda.inside(r.node, node) and not cuda.same(r.node, own) for r in self.tile.reaches)


@dataclass(frozen=True, kw_only=True)
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
    edits: list[Edit] = []
    for place in dict.fromkeys(root.place for root in draft.tile.roots):
        sizes = sizes_of(place.declared, draft.file)
        statement = cuda.above(place.declared, "declaration", "field_declaration")
        if len(sizes) < 2 or statement is None or not all(cuda.inside(size, statement) for size in sizes[-2:]):
            raise draft.unfit(place.declared, f"{place.name} does not declare its rows and columns here")
        edits += _exchanged(draft, *sizes[-2:])
    for reach in draft.tile.reaches:
        if draft.ends(reach.start):
            continue
        rank, names_element = reach.start.rank, reach.end is None or draft.ends(reach.end)
        if not names_element or not draft.full(reach) or reach.layout is not None or reach.leading is not None:
            raise draft.misfit(reach.node, " does not name row and column of an element")
        row, column = reach.steps[rank - 2], reach.steps[rank - 1]
        if any(step in draft.moving(reach) for step in reach.steps[rank:]) or row.foreign or column.foreign:
            raise draft.misfit(reach.node, " adds to the address of an element")
        if row.node is None or column.node is None or draft.holds_use(row.node) or draft.holds_use(column.node):
            raise draft.misfit(reach.node, " has another use of the tile in its index")
        edits += _exchanged(draft, row.node, column.node)
    return edits


def _exchanged(draft: Draft, one: Node, other: Node) -> list[Edit]:
    texts = draft.file.of(one), draft.file.of(other)
    if texts[0] == texts[1]:
        return []
    return [Edit(one.start_byte, one.end_byte, texts[1]), Edit(other.start_byte, other.end_byte, texts[0])]
