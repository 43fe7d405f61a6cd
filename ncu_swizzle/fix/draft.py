"""What the writers of a patch share, `Draft`, and the simpler ones: padding, and indices swapped to ``t[y][x]``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.fix.accessors import Accessors, Shorter, atom
from ncu_swizzle.fix.cuda import NOTHING, CudaFile, Inlined, Node
from ncu_swizzle.fix.edits import Edit, called
from ncu_swizzle.fix.scopes import Scopes, SharedDeclaration, sizes_of
from ncu_swizzle.fix.sums import CALLS, SIZES, Constants, Factor, Term
from ncu_swizzle.fix.webs import BYTES, Reach, ReachedPlace, ReachStep, SourceTile
from ncu_swizzle.smem.swizzle import Padding

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
        if self.padding.every * draft.element_bytes == draft.declared_bytes:
            return self._wrapped()
        for root in draft.tile.roots:
            declared, member = root.place.declared, root.place.member
            holder = self.declarations.get(root.array.declared.id if member else declared.id)
            if holder is None or holder.dynamic or (root.offset and not member):
                raise declared.unfit(f"{root.place.name} lies in shared memory of a size that the launch gives")
            # A struct's array makes as many rows as it declares itself, whatever the struct's own array is.
            edits += self._declaration(declared, sizes_of(declared) if member else holder.sizes)
        for place in draft.tile.places:
            edits += self._parameter(place)
        for reach in draft.tile.reaches:
            edits += self._reach(reach)
        return [*dict.fromkeys(edits), *self.accessors.edits()]

    # ---------------------------------------------------------------------------------------- structs as rows

    def _wrapped(self) -> list[Edit]:
        """Return the edits that put each struct of an array into a longer one: ``p[i]`` becomes ``p[i].value``."""
        draft, edits = self.draft, list[Edit]()
        for root in draft.tile.roots:
            shared = self.declarations.get(root.place.declared.id)
            if shared is None or shared.dynamic or len(shared.statement.every("declarator")) != 1:
                raise root.place.declared.unfit(
                    f"the elements of {root.place.name} are not structs that can be wrapped"
                )
            type_ = shared.statement.part("type")
            name = f"Padded{re.sub(r'[^0-9A-Za-z]', '', type_.text)}"
            text = f"struct {name} {{ {type_.text} value; char unused[{self.padding.by * draft.element_bytes}]; }};"
            edits.append(Edit(type_.start_byte, type_.end_byte, name))
            edits.append(self.accessors.definition(text, shared.statement))
        for reach in draft.tile.reaches:
            subscripts = [step for step in reach.steps if step.subscript and step.rank == 1]
            holder = subscripts[0].node.above("subscript_expression") if len(subscripts) == 1 else NOTHING
            if reach.end is not None or not holder or len(reach.steps) != reach.start.rank:
                raise reach.node.misfit(" is not the subscript of a struct")
            edits.append(Edit(holder.end_byte, holder.end_byte, ".value"))
        return list(dict.fromkeys(edits))

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
        size, length = atom(last.text), self.draft.constants.value(last)
        if length is None or length % rows.every:  # the last row may be a part of one: it is made a whole one
            size = f"({size} + {rows.every - 1})"
        return [Edit(last.start_byte, last.end_byte, f"{size} / {rows.every} * {rows.every + rows.by}")]

    def _longer(self, size: Node) -> Edit:
        """Return the edit of a dimension that is a row."""
        by = self.padding.by * self.draft.element_bytes // self.draft.declared_bytes
        return Edit(size.start_byte, size.end_byte, longer(size.text, by))

    def _parameter(self, place: ReachedPlace) -> list[Edit]:
        """Return the edit of a parameter or pointer whose type says how long a row is."""
        if place.array or place.member or place.rank < 2:
            return []
        sizes = sizes_of(place.declared, self.draft.file)
        if not sizes:
            raise place.declared.unfit(f"the type of {place.name} does not say how long its rows are")
        if self._deduced(sizes[-1]):
            return []
        return self._scaled_size(sizes[-1]) if self._inner(sizes[-1]) else [self._longer(sizes[-1])]

    def _deduced(self, size: Node) -> bool:
        """Return whether a size is a parameter of the template: it follows from the argument."""

        def uses(holder: Node) -> int:
            return sum(node.type == "identifier" and node.text == size.text for node in holder.walk())

        if not uses(size.above("template_declaration").part("parameters")):
            return False
        # ``float (&t)[N][N]`` no longer binds to an array of N rows of N + 1.
        if uses(size.above("parameter_declaration")) > 1:
            raise size.unfit(f"{size.text} is the length of two dimensions, of which one would change")
        return True

    # ---------------------------------------------------------------------------------------- uses

    def _reach(self, reach: Reach) -> list[Edit]:
        if reach.layout:
            raise reach.node.misfit(": the layout is not rewritten")
        rank, steps = reach.start.rank, reach.steps
        # The steps that count elements, not rows: a cast, as in ((float *)t)[i], leaves no subscripts before them.
        first = next((number for number, step in enumerate(steps) if step.rank == 1), len(steps))
        own = rank > 1 and first == rank - 1 and not self.draft.inner(reach.start, self.padding.every)
        if own and steps[first:] and steps[first].subscript:
            first += 1  # the column, in a row of its own
        edits: list[Edit] = []
        if reach.leading:
            edits += self._terms(reach.leading, self._rows(self.draft.declared_bytes, reach.node), reach)
        for step in (step for step in steps[first:] if step.node):
            rows = self._rows(self.draft.size(step.unit, reach.node), reach.node)
            edits += self._terms(step.node, rows, reach)
        return edits

    def _rows(self, bytes_: int, node: Node) -> Padding:
        """Return the padding in units of some bytes; raise Unfit if a row does not hold whole ones."""
        element = self.draft.element_bytes
        old, by = self.padding.every * element, self.padding.by * element
        if old % bytes_ or (old + by) % bytes_:
            raise node.unfit(f"rows of {old + by} bytes do not hold whole units of {bytes_} bytes")
        return (Padding if by > 0 else Shorter)(old // bytes_, by // bytes_)

    def _terms(self, node: Node, rows: Padding, reach: Reach) -> list[Edit]:
        """Return the edits of an index: of what in it counts rows, or of all of it if an accessor is wanted."""
        draft, terms = self.draft, self.draft.constants.terms(node)
        counting = [term for term in terms if term.constant and term.constant % rows.every == 0]
        # An index of the whole array that names no row may still lead to any: what is not compiled is not proved.
        whole = self.flat or (not counting and self._begins(reach.start))
        if whole and len(counting) < len(terms) and any(term.variable for term in terms):
            if reach.leading:
                raise reach.node.misfit(": an API computes the addresses")
            if draft.indexing(node):
                raise node.misfit(" cannot be split into row and column")
            return called(self.accessors.flat(rows, node), node)
        factors = [factor.node for term in terms for factor in term.variable]
        if draft.indexing(node) and not all(factor.inside(node) for factor in factors):
            raise node.misfit(": the index that it computes is not understood")
        edits: list[Edit] = []
        for term in counting:
            edit = self._scaled(term, rows, node)
            if edit is None:
                raise node.unfit(f"{term.node.quoted()}: the row's length is not to be seen in it")
            edits.append(edit)
        return edits

    def _begins(self, place: ReachedPlace) -> bool:
        """Return whether a place is the start of a flat tile."""
        return place.rank == 1 and any(root.place is place for root in self.draft.tile.roots)

    def _scaled(self, term: Term, rows: Padding, whole: Node) -> Edit | None:
        """Return the edit that makes a product count longer rows; None if no factor of it is a number of rows."""
        written = [f for f in term.factors if f.value is not None and self._written(f.node, whole)]
        exact = [factor for factor in written if factor.value == rows.every]
        named = [factor for factor in exact if not factor.node.text.isdecimal()]
        multiples = [factor for factor in written if factor.value and factor.value % rows.every == 0]
        # Of ``32 * W`` with W = 32, the name is the row's length more likely than the number; the proof decides.
        chosen = (named or exact)[-1:] or multiples
        return self._longer_factor(chosen[0], term, rows, whole) if chosen else None

    def _written(self, node: Node, whole: Node) -> bool:
        """Return whether a node stands in an index, or is what the view that computes the index was given."""
        method = self.draft.indexing(whole)
        arguments = method.fields.values() if method else ()
        return node.inside(whole) or any(node.inside(argument) for argument in arguments)

    def _longer_factor(self, factor: Factor, term: Term, rows: Padding, whole: Node) -> Edit:
        """Return the edit of a factor: ``33`` for ``32``, ``W + 1`` for ``W``, ``y * 33`` for ``y << 5``."""
        node, value, new = factor.node, factor.value or 0, rows.every + rows.by
        text = node.text
        if factor.shift:
            left = atom(term.node.part("left").text or "1")
            return Edit(term.node.start_byte, term.node.end_byte, f"{left} * {value // rows.every * new}")
        if text.isdecimal():
            return Edit(node.start_byte, node.end_byte, str(value // rows.every * new))
        if value == rows.every:
            sum_ = longer(text, rows.by)
            return Edit(node.start_byte, node.end_byte, sum_ if self._alone(node, whole) else atom(sum_))
        return Edit(node.start_byte, node.end_byte, f"({atom(text)} / {rows.every} * {new})")

    def _alone(self, node: Node, whole: Node) -> bool:
        """Return whether a sum may stand where a node does."""
        holder = node.parent.type
        if not node.inside(whole):  # what a view was given
            return holder in ("argument_list", "initializer_list", "parameter_declaration")
        if holder == "argument_list" and node is not whole:
            return self.draft.closed(node.start_byte, node.end_byte, whole)
        return holder in ("subscript_argument_list", "array_declarator", "argument_list")


def longer(length: str, by: int) -> str:
    """Return a row's length with so many elements more, or fewer: ``33`` for ``32``, ``W + 4`` for ``W + 1``."""
    if length.isdecimal():
        return str(int(length) + by)
    base, number = length, by
    if match := re.fullmatch(r"([\w.:]+|\([^()]*\)) *\+ *(\d+)", length):  # padding that is there already
        base, number = match[1], int(match[2]) + by
    return base if not number else f"{base} {'+' if number > 0 else '-'} {abs(number)}"


# What the writers of a patch share: the tile in its source, what is constant there, and why a mapping does not fit.


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

    def size(self, step_unit: str, node: Node) -> int:
        """Return the bytes that a step counts; raise Unfit if they are unknown."""
        if step_unit == BYTES:
            return 1
        size = self.unit_bytes.get(step_unit, SIZES.get(step_unit)) if step_unit else self.declared_bytes
        if size is None:
            raise node.unfit(f"the size of {step_unit} is unknown")
        return size

    def moving(self, reach: Reach) -> tuple[ReachStep, ...]:
        """Return the steps of a use that go anywhere: not those to the first element, nor within a granule."""
        return tuple(step for step in reach.steps if step.rank != 1 or (step.node and not self.zero([step])))

    def terms(self, step: ReachStep) -> tuple[Term, ...]:
        return self.constants.terms(step.node, step.negative) if step.node else ()

    def closed(self, start: int, end: int, within: Node) -> bool:
        """Return whether these bytes are a whole argument of a call in an index, which needs no parentheses."""
        for node in within.walk():
            call = self.constants.inline(node) if node.type in CALLS else None
            for argument in call.arguments.values() if call else ():
                if (argument.start_byte, argument.end_byte) == (start, end):
                    return call is not None and call.takes(argument)
        return False

    def indexing(self, node: Node) -> Inlined | None:
        """Return the index that a method of a view computes; None if a node is not a call of one."""
        call = self.constants.inline(node.bare)
        return call if call and call.indexing else None

    def full(self, reach: Reach) -> bool:
        """Return whether the steps of a use begin with a subscript for every dimension."""
        rank = reach.start.rank
        return rank > 1 and len(reach.steps) >= rank and all(s.subscript for s in reach.steps[:rank])

    def zero(self, steps: Sequence[ReachStep]) -> bool:
        """Return whether all of some subscripts are the constant 0."""
        return all(step.node and self.constants.value(step.node) == 0 for step in steps)

    def inner(self, place: ReachedPlace, columns: int) -> bool:
        """Return whether rows of that many elements lie within a place's last dimension: ``t[2][32 * 32]``."""
        length = self.row_length(place)
        size = self.unit_bytes.get(place.unit) or self.declared_bytes
        return length is not None and columns * self.element_bytes < length * size

    def row_length(self, place: ReachedPlace) -> int | None:
        """Return the declared length of a place's last dimension of several; None if it is not known."""
        sizes = sizes_of(place.declared, self.file) if place.rank > 1 else ()
        return self.constants.value(sizes[-1] if sizes else NOTHING)

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
            not self.moving(reach) and not reach.advance and not reach.layout and not reach.leading
            and (reach.end is None or self.ends(reach.end, inner))
            for reach in self.tile.from_(place)
        )  # fmt: skip

    def holds_use(self, node: Node) -> bool:
        """Return whether an expression contains another use of the tile."""
        own = node if self.indexing(node) else NOTHING  # the call that indexes is the use itself
        return any(r.node.inside(node) and r.node is not own for r in self.tile.reaches)


def swapped(draft: Draft) -> list[Edit]:
    """Return the edits that swap the last two indices of a tile; raise Unfit for a use that does not name both."""
    edits: list[Edit] = []
    for place in dict.fromkeys(root.place for root in draft.tile.roots):
        sizes = sizes_of(place.declared, draft.file)
        statement = place.declared.above("declaration", "field_declaration")
        if len(sizes) < 2 or not all(size.inside(statement) for size in sizes[-2:]):
            raise place.declared.unfit(f"{place.name} does not declare its rows and columns here")
        edits += _exchanged(*sizes[-2:])
    for reach in draft.tile.reaches:
        if draft.ends(reach.start):
            continue
        edits += _exchanged(*row_and_column(draft, reach))
    return edits


def row_and_column(draft: Draft, reach: Reach) -> tuple[Node, Node]:
    """Return the last two indices with which a use names an element; raise Unfit if it does it otherwise."""
    rank, names_element = reach.start.rank, reach.end is None or draft.ends(reach.end)
    if not names_element or not draft.full(reach) or reach.layout or reach.leading:
        raise reach.node.misfit(" does not name row and column of an element")
    row, column = reach.steps[rank - 2], reach.steps[rank - 1]
    if any(step in draft.moving(reach) for step in reach.steps[rank:]) or row.foreign or column.foreign:
        raise reach.node.misfit(" adds to the address of an element")
    if not row.node or not column.node or draft.holds_use(row.node) or draft.holds_use(column.node):
        raise reach.node.misfit(" has another use of the tile in its index")
    return row.node, column.node


def _exchanged(one: Node, other: Node) -> list[Edit]:
    texts = one.text, other.text
    if texts[0] == texts[1]:
        return []
    return [Edit(one.start_byte, one.end_byte, texts[1]), Edit(other.start_byte, other.end_byte, texts[0])]
