"""Write longer rows into a source: in the declaration, and wherever a row's length is part of an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.accessors import Accessors, atom
from ncu_swizzle.fix.cuda import Reach, ReachedPlace, ReachStep
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.expressions import Edit
from ncu_swizzle.fix.scopes import SharedDeclaration, sizes_of
from ncu_swizzle.fix.sums import Factor, Term
from ncu_swizzle.fix.webs import Root
from ncu_swizzle.smem.swizzle import Padding

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class _RowLengths:
    """Row lengths in what an index counts, before and after."""

    old: int
    new: int


@dataclass(eq=False, kw_only=True)
class PaddingEdits:
    """The edits for one padding; `flat` writes every index of a flat array through an accessor."""

    draft: Draft
    padding: Padding
    declarations: Mapping[int, SharedDeclaration]  # by the declared identifier
    flat: bool = False

    def edits(self) -> list[Edit]:
        """Return the edits; raise Unfit for a use that the padding cannot be written at."""
        self.accessors = Accessors(self.draft.file)
        made: list[Edit] = []
        for root in self.draft.tile.roots:
            declaration = self._declared(root)
            if declaration is None or declaration.dynamic or (root.offset and not root.place.member):
                raise self.draft.unfit(
                    root.place.declared, f"{root.place.name} lies in shared memory of a size that the launch gives"
                )
            made += self._declaration(declaration)
        for place in self.draft.tile.places:
            made += self._parameter(place)
        for reach in self.draft.tile.reaches:
            made += self._reach(reach)
        return [*dict.fromkeys(made), *self.accessors.edits()]

    def _declared(self, root: Root) -> SharedDeclaration | None:
        """Return the declaration of a root; that of a struct's member makes as many rows as the struct's own."""
        declared, holder = root.place.declared, self.declarations.get(root.array.declared.id)
        if not root.place.member or holder is None:
            return self.declarations.get(declared.id)
        statement = cuda.above(declared, "field_declaration") or declared
        return SharedDeclaration(
            name=root.place.name,
            declared=declared,
            statement=statement,
            element="",
            sizes=sizes_of(declared),
            dynamic=holder.dynamic,
        )

    def _declaration(self, declaration: SharedDeclaration) -> list[Edit]:
        *_, last = declaration.sizes or (declaration.declared,)
        count = self.draft.declared_bytes // self.draft.element_bytes
        if len(declaration.sizes) > 1 and not self._inner(last):
            return [self._longer(last, self.padding.by // count)]
        return self._scaled_size(last)

    def _inner(self, size: Node) -> bool:
        """Say whether several rows lie within a dimension."""
        length = self.draft.constants.value(size)
        return length is not None and self.padding.every * self.draft.element_bytes < length * self.draft.declared_bytes

    def _scaled_size(self, last: Node) -> list[Edit]:
        """Return the edits of the size of a dimension that holds rows behind each other."""
        rows = self._rows(self.draft.declared_bytes, last)
        made = (
            self._scaled(self.draft.constants.terms(last)[0], rows, last)
            if len(self.draft.constants.terms(last)) == 1
            else None
        )
        if made is None:
            made = [Edit(last.start_byte, last.end_byte, f"{atom(self.draft.file.of(last))} / {rows.old} * {rows.new}")]
        return made

    def _longer(self, size: Node, by: int) -> Edit:
        text = self.draft.file.of(size)
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
        if self._inner(last):
            return self._scaled_size(last)
        return [self._longer(last, self.padding.by * self.draft.element_bytes // self.draft.declared_bytes)]

    def _deduced(self, size: Node) -> bool:
        """Say whether a size is a parameter of the template: it follows from the argument."""
        holder = cuda.above(size, "template_declaration")
        listed = cuda.field_of(holder, "parameters") if holder is not None else None
        text = self.draft.file.of(size)
        names = (self.draft.file.of(node) for node in cuda.walk(listed) if node.type == "identifier") if listed else ()
        if text not in names:
            return False
        declaration = cuda.above(size, "parameter_declaration")
        uses = (n for n in cuda.walk(declaration) if n.type == "identifier") if declaration is not None else ()
        if sum(self.draft.file.of(use) == text for use in uses) > 1:
            raise self.draft.unfit(size, f"{text} is the length of two dimensions, of which one would change")
        return True

    def _reach(self, reach: Reach) -> list[Edit]:
        if reach.layout is not None:
            raise self.draft.unfit(reach.node, f"{self.draft.quoted(reach.node)}: the layout is not rewritten")
        self._seen(reach)
        made: list[Edit] = []
        if reach.leading is not None:
            made += self._terms(reach.leading, self._rows(self.draft.declared_bytes, reach.node), reach)
        for step in self._counting(reach):
            if step.node is not None:
                made += self._terms(step.node, self._rows(self.draft.size(step.unit, reach.node), reach.node), reach)
        return made

    def _counting(self, reach: Reach) -> tuple[ReachStep, ...]:
        """Return the steps of a use that count elements, not rows."""
        rank = reach.start.rank
        if rank < 2:
            return reach.steps
        return reach.steps[rank - 1 if self.draft.inner(reach.start, self.padding.every) else rank :]

    def _seen(self, reach: Reach) -> None:
        """Raise Unfit if a method adds to a place, and nothing shows that it does not leave the row.

        A method may be one that the kernel does not call, so that the proof would not see it.
        """
        if self.flat or not reach.start.member or cuda.around(self.draft.file, reach.node) is None:
            return
        steps = self._counting(reach)
        terms = [(term, self.draft.size(step.unit, reach.node)) for step in steps for term in self.draft.terms(step)]
        row = self.padding.every * self.draft.element_bytes
        if any(term.variable for term, _ in terms) and not any(
            term.constant and term.constant * unit % row == 0 for term, unit in terms
        ):
            raise self.draft.unfit(
                reach.node, f"{self.draft.quoted(reach.node)}: the row's length is not to be seen in it"
            )

    def _rows(self, bytes_: int, node: Node) -> _RowLengths:
        old, new = (
            length * self.draft.element_bytes for length in (self.padding.every, self.padding.every + self.padding.by)
        )
        if old % bytes_ or new % bytes_:
            raise self.draft.unfit(node, f"rows of {new} bytes do not hold whole units of {bytes_} bytes")
        return _RowLengths(old // bytes_, new // bytes_)

    def _terms(self, node: Node, rows: _RowLengths, reach: Reach) -> list[Edit]:
        terms = self.draft.constants.terms(node)
        counting = [term for term in terms if term.constant and term.constant % rows.old == 0]
        if (self.flat or not counting) and len(counting) < len(terms) and any(t.variable for t in terms) and self.flat:
            if reach.leading is not None:
                raise self.draft.unfit(reach.node, f"{self.draft.quoted(reach.node)}: an API computes the addresses")
            if self.draft.indexing(node):
                raise self.draft.unfit(node, f"{self.draft.quoted(node)} cannot be split into row and column")
            name = self.accessors.flat(Padding(rows.old, rows.new - rows.old), node)
            return [Edit(node.start_byte, node.start_byte, f"{name}("), Edit(node.end_byte, node.end_byte, ")")]
        made_of = [factor.node for term in terms for factor in term.variable]
        if self.draft.indexing(node) and not all(cuda.inside(factor, node) for factor in made_of):
            raise self.draft.unfit(node, f"{self.draft.quoted(node)}: the index that it computes is not understood")
        made: list[Edit] = []
        for term in counting:
            edits = self._scaled(term, rows, node)
            if edits is None:
                raise self.draft.unfit(
                    node, f"{self.draft.quoted(term.node)}: the row's length is not to be seen in it"
                )
            made += edits
        return made

    def _scaled(self, term: Term, rows: _RowLengths, whole: Node) -> list[Edit] | None:
        """Return the edit that makes a product count longer rows; None if no factor of it is a number of rows."""
        known = [f for f in term.factors if f.value is not None and self._written(f.node, whole)]
        exact = [factor for factor in known if factor.value == rows.old]
        named = [factor for factor in exact if not self.draft.file.of(factor.node).isdecimal()]
        chosen = (named or exact)[-1:] or [factor for factor in known if factor.value and factor.value % rows.old == 0]
        return [self._factor(chosen[0], term, rows, whole)] if chosen else None

    def _written(self, node: Node, whole: Node) -> bool:
        """Say whether a node stands in an index, or is what the view that computes the index was given."""
        made = self.draft.indexing(whole)
        given = made.fields.values() if made is not None else ()
        return cuda.inside(node, whole) or any(cuda.inside(node, value) for value in given)

    def _factor(self, factor: Factor, term: Term, rows: _RowLengths, whole: Node) -> Edit:
        node, value = factor.node, factor.value or 0
        text = self.draft.file.of(node)
        if factor.shift:
            product = cuda.field_of(term.node, "left")
            left = atom(self.draft.file.of(product)) if product is not None else "1"
            return Edit(term.node.start_byte, term.node.end_byte, f"{left} * {value // rows.old * rows.new}")
        if text.isdecimal():
            return Edit(node.start_byte, node.end_byte, str(value // rows.old * rows.new))
        if value == rows.old:
            alone = self._alone(node, whole)
            longer = f"{text} + {rows.new - rows.old}"
            return Edit(node.start_byte, node.end_byte, longer if alone else f"({longer})")
        return Edit(node.start_byte, node.end_byte, f"({atom(text)} / {rows.old} * {rows.new})")

    def _alone(self, node: Node, whole: Node) -> bool:
        """Say whether a sum may stand where a node does."""
        holder = node.parent.type if node.parent is not None else ""
        if not cuda.inside(node, whole):  # what a view was given
            return holder in ("argument_list", "initializer_list", "parameter_declaration")
        if holder == "argument_list" and not cuda.same(node, whole):
            return self.draft.closed(node.start_byte, node.end_byte, whole)
        return holder in ("subscript_argument_list", "array_declarator", "argument_list")
