"""Write longer rows into a source: in the declaration, and wherever a row's length is part of an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.accessors import Accessors, atom
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.edits import Edit
from ncu_swizzle.fix.scopes import SharedDeclaration, sizes_of
from ncu_swizzle.fix.sums import Factor, Term
from ncu_swizzle.fix.webs import Reach, ReachedPlace, ReachStep
from ncu_swizzle.smem.swizzle import Padding

if TYPE_CHECKING:
    from tree_sitter import Node


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
