"""What the writers of a patch share, `Draft`, and the simpler ones: padding, and indices swapped to ``t[y][x]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.accessors import Accessors, atom
from ncu_swizzle.fix.cuda import CudaFile, Inlined
from ncu_swizzle.fix.edits import Edit
from ncu_swizzle.fix.scopes import Scopes, SharedDeclaration, sizes_of
from ncu_swizzle.fix.sums import CALLS, SIZES, Constants, Factor, Term
from ncu_swizzle.fix.webs import BYTES, Reach, ReachedPlace, ReachStep, SourceTile
from ncu_swizzle.smem.operations import Ints
from ncu_swizzle.smem.swizzle import Padding

if TYPE_CHECKING:
    from tree_sitter import Node


# Write longer rows into a source: in the declaration, and wherever a row's length is part of an index.


@dataclass(eq=False, kw_only=True)
class PaddingEdits:
    """The edits for one padding; `flat` writes every index of a flat array through an accessor."""

    draft: Draft
    padding: Padding
    declarations: Mapping[int, SharedDeclaration]  # by the declared identifier
    flat: bool = False

    def __post_init__(self) -> None:
        self.accessors = Accessors(self.draft.file)

    def edits(self) -> list[Edit]:
        """Return the edits; raise Unfit for a use that the padding cannot be written at."""
        draft, edits = self.draft, list[Edit]()
        for root in draft.tile.roots:
            declared, member = root.place.declared, root.place.member
            holder = self.declarations.get(root.array.declared.id if member else declared.id)
            if holder is None or holder.dynamic or (root.offset and not member):
                name = root.place.name
                raise draft.unfit(declared, f"{name} lies in shared memory of a size that the launch gives")
            # A struct's array makes as many rows as it declares itself, whatever the struct's own array is.
            edits += self._declaration(declared, sizes_of(declared) if member else holder.sizes)
        for place in draft.tile.places:
            edits += self._parameter(place)
        for reach in draft.tile.reaches:
            edits += self._reach(reach)
        return [*dict.fromkeys(edits), *self.accessors.edits()]

    # ---------------------------------------------------------------------------------------- declarations

    def _declaration(self, declared: Node, sizes: tuple[Node, ...]) -> list[Edit]:
        *_, last = sizes or (declared,)
        if len(sizes) > 1 and not self._inner(last):
            return [self._longer(last)]
        return self._scaled_size(last)

    def _inner(self, size: Node) -> bool:
        """Return whether several rows lie within a dimension."""
        length = self.draft.constants.value(size)
        return length is not None and self.padding.every * self.draft.element_bytes < length * self.draft.declared_bytes

    def _scaled_size(self, last: Node) -> list[Edit]:
        """Return the edits of the size of a dimension that holds rows behind each other."""
        rows, terms = self._rows(self.draft.declared_bytes, last), self.draft.constants.terms(last)
        edit = self._scaled(terms[0], rows, last) if len(terms) == 1 else None
        if edit is not None:
            return [edit]
        size = atom(self.draft.file.of(last))
        length = self.draft.constants.value(last)
        if length is None or length % rows.every:  # the last row may be a part of one: it is made a whole one
            size = f"({size} + {rows.every - 1})"
        return [Edit(last.start_byte, last.end_byte, f"{size} / {rows.every} * {rows.every + rows.by}")]

    def _longer(self, size: Node) -> Edit:
        """Return the edit of a dimension that is a row."""
        text, by = self.draft.file.of(size), self.padding.by * self.draft.element_bytes // self.draft.declared_bytes
        return Edit(size.start_byte, size.end_byte, str(int(text) + by) if text.isdecimal() else f"{text} + {by}")

    def _parameter(self, place: ReachedPlace) -> list[Edit]:
        """Return the edit of a parameter or pointer whose type says how long a row is."""
        if place.array or place.member or place.rank < 2:
            return []
        sizes = sizes_of(place.declared, self.draft.file)
        if not sizes:
            raise self.draft.unfit(place.declared, f"the type of {place.name} does not say how long its rows are")
        last = sizes[-1]
        if self._deduced(last):
            return []
        return self._scaled_size(last) if self._inner(last) else [self._longer(last)]

    def _deduced(self, size: Node) -> bool:
        """Return whether a size is a parameter of the template: it follows from the argument."""
        file = self.draft.file
        holder = cuda.above(size, "template_declaration")
        listed = cuda.field_of(holder, "parameters") if holder is not None else None
        text = file.of(size)
        names = (file.of(node) for node in cuda.walk(listed) if node.type == "identifier") if listed else ()
        if text not in names:
            return False
        declaration = cuda.above(size, "parameter_declaration")
        uses = (n for n in cuda.walk(declaration) if n.type == "identifier") if declaration is not None else ()
        # ``float (&t)[N][N]`` no longer binds to an array of N rows of N + 1.
        if sum(file.of(use) == text for use in uses) > 1:
            raise self.draft.unfit(size, f"{text} is the length of two dimensions, of which one would change")
        return True

    # ---------------------------------------------------------------------------------------- uses

    def _reach(self, reach: Reach) -> list[Edit]:
        if reach.layout is not None:
            raise self.draft.misfit(reach.node, ": the layout is not rewritten")
        rank, first = reach.start.rank, 0
        if rank > 1:  # the steps that count elements, not rows
            first = rank - 1 if self.draft.inner(reach.start, self.padding.every) else rank
        steps = reach.steps[first:]
        self._refuse_hidden(reach, steps)
        edits: list[Edit] = []
        if reach.leading is not None:
            edits += self._terms(reach.leading, self._rows(self.draft.declared_bytes, reach.node), reach)
        for step in steps:
            if step.node is not None:
                rows = self._rows(self.draft.size(step.unit, reach.node), reach.node)
                edits += self._terms(step.node, rows, reach)
        return edits

    def _refuse_hidden(self, reach: Reach, steps: Sequence[ReachStep]) -> None:
        """Raise Unfit if a method adds to a place, and nothing shows that it does not leave the row.

        A method may be one that the kernel does not call, so that the proof would not see it.
        """
        if self.flat or not reach.start.member or self.draft.file.class_around(reach.node) is None:
            return
        terms = [(term, self.draft.size(step.unit, reach.node)) for step in steps for term in self.draft.terms(step)]
        row = self.padding.every * self.draft.element_bytes
        counts_rows = any(term.constant and term.constant * unit % row == 0 for term, unit in terms)
        if any(term.variable for term, _ in terms) and not counts_rows:
            raise self.draft.misfit(reach.node, ": the row's length is not to be seen in it")

    def _rows(self, bytes_: int, node: Node) -> Padding:
        """Return the padding in units of some bytes; raise Unfit if a row does not hold whole ones."""
        element = self.draft.element_bytes
        old, by = self.padding.every * element, self.padding.by * element
        if old % bytes_ or (old + by) % bytes_:
            raise self.draft.unfit(node, f"rows of {old + by} bytes do not hold whole units of {bytes_} bytes")
        return Padding(old // bytes_, by // bytes_)

    def _terms(self, node: Node, rows: Padding, reach: Reach) -> list[Edit]:
        """Return the edits of an index: of what in it counts rows, or of all of it if an accessor is wanted."""
        draft, terms = self.draft, self.draft.constants.terms(node)
        counting = [term for term in terms if term.constant and term.constant % rows.every == 0]
        if self.flat and len(counting) < len(terms) and any(term.variable for term in terms):
            if reach.leading is not None:
                raise draft.misfit(reach.node, ": an API computes the addresses")
            if draft.indexing(node):
                raise draft.misfit(node, " cannot be split into row and column")
            name = self.accessors.flat(rows, node)
            return [Edit(node.start_byte, node.start_byte, f"{name}("), Edit(node.end_byte, node.end_byte, ")")]
        factors = [factor.node for term in terms for factor in term.variable]
        if draft.indexing(node) and not all(cuda.inside(factor, node) for factor in factors):
            raise draft.misfit(node, ": the index that it computes is not understood")
        edits: list[Edit] = []
        for term in counting:
            edit = self._scaled(term, rows, node)
            if edit is None:
                raise draft.unfit(node, f"{draft.quoted(term.node)}: the row's length is not to be seen in it")
            edits.append(edit)
        return edits

    def _scaled(self, term: Term, rows: Padding, whole: Node) -> Edit | None:
        """Return the edit that makes a product count longer rows; None if no factor of it is a number of rows."""
        written = [f for f in term.factors if f.value is not None and self._written(f.node, whole)]
        exact = [factor for factor in written if factor.value == rows.every]
        named = [factor for factor in exact if not self.draft.file.of(factor.node).isdecimal()]
        multiples = [factor for factor in written if factor.value and factor.value % rows.every == 0]
        # Of ``32 * W`` with W = 32, the name is the row's length more likely than the number; the proof decides.
        chosen = (named or exact)[-1:] or multiples
        return self._longer_factor(chosen[0], term, rows, whole) if chosen else None

    def _written(self, node: Node, whole: Node) -> bool:
        """Return whether a node stands in an index, or is what the view that computes the index was given."""
        method = self.draft.indexing(whole)
        arguments = method.fields.values() if method is not None else ()
        return cuda.inside(node, whole) or any(cuda.inside(node, argument) for argument in arguments)

    def _longer_factor(self, factor: Factor, term: Term, rows: Padding, whole: Node) -> Edit:
        """Return the edit of a factor: ``33`` for ``32``, ``W + 1`` for ``W``, ``y * 33`` for ``y << 5``."""
        node, value, new = factor.node, factor.value or 0, rows.every + rows.by
        text = self.draft.file.of(node)
        if factor.shift:
            product = cuda.field_of(term.node, "left")
            left = atom(self.draft.file.of(product)) if product is not None else "1"
            return Edit(term.node.start_byte, term.node.end_byte, f"{left} * {value // rows.every * new}")
        if text.isdecimal():
            return Edit(node.start_byte, node.end_byte, str(value // rows.every * new))
        if value == rows.every:
            longer = f"{text} + {rows.by}"
            return Edit(node.start_byte, node.end_byte, longer if self._alone(node, whole) else f"({longer})")
        return Edit(node.start_byte, node.end_byte, f"({atom(text)} / {rows.every} * {new})")

    def _alone(self, node: Node, whole: Node) -> bool:
        """Return whether a sum may stand where a node does."""
        holder = node.parent.type if node.parent is not None else ""
        if not cuda.inside(node, whole):  # what a view was given
            return holder in ("argument_list", "initializer_list", "parameter_declaration")
        if holder == "argument_list" and not cuda.same(node, whole):
            return self.draft.closed(node.start_byte, node.end_byte, whole)
        return holder in ("subscript_argument_list", "array_declarator", "argument_list")


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
