"""What the writers of a patch share, `Draft`, and the simpler ones: padding, and indices swapped to ``t[y][x]``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.fix.accessors import Accessors, Shorter, atom
from ncu_swizzle.fix.cuda import NOTHING, CudaFile, Node
from ncu_swizzle.fix.edits import Edit, called
from ncu_swizzle.fix.frames import CallFrame, IndexStep, SourceAccess, SourceTile
from ncu_swizzle.fix.names import BYTES, sizes_of
from ncu_swizzle.fix.sums import SIZES, Constants, Factor, Summand
from ncu_swizzle.smem.swizzle import Padding


@dataclass(frozen=True, eq=False, kw_only=True)
class Draft:
    """A tile in its source. `unit_bytes` are the known sizes of the types that its pointers count in."""

    file: CudaFile
    tile: SourceTile
    constants: Constants
    element_bytes: int  # of what the mapping counts
    declared_bytes: int  # of an element as declared
    unit_bytes: Mapping[str, int | None]

    @property
    def rank(self) -> int:
        """How many subscripts lead to an element of the tile."""
        return self.tile.roots[0].rank

    @property
    def name(self) -> str:
        return self.tile.roots[0].declared.text

    def size(self, step_unit: str, node: Node) -> int:
        """Return the bytes that a step counts; raise Unfit if they are unknown."""
        if step_unit == BYTES:
            return 1
        size = self.unit_bytes.get(step_unit) or SIZES.get(step_unit) if step_unit else self.declared_bytes
        if size is None:
            raise node.unfit(f"the size of {step_unit} is unknown")
        return size

    def home(self, access: SourceAccess) -> CallFrame:
        return self.constants.walk.home(access)

    def terms(self, step: IndexStep, home: CallFrame | None = None) -> tuple[Summand, ...]:
        return self.constants.terms(step.node, step.frame, home, step.negative) if step.node else ()

    def moving(self, steps: Sequence[IndexStep]) -> tuple[IndexStep, ...]:
        """Return the steps that move: subscripts of rows, and offsets other than 0."""
        return tuple(step for step in steps if step.rank != 1 or not self.zero([step]))

    def zero(self, steps: Sequence[IndexStep]) -> bool:
        """Return whether all these subscripts are 0."""
        return all(not step.node or self.constants.value(step.node, step.frame) == 0 for step in steps)

    def row_length(self) -> int | None:
        """Return the declared length of the last dimension of several; None if it is not known."""
        root = self.tile.roots[0]
        sizes = sizes_of(root.declared, self.file) if self.rank > 1 else ()
        return self.constants.value(sizes[-1], self.constants.walk.kernel) if sizes else None

    def inner(self, columns: int) -> bool:
        """Return whether rows of that many elements lie within the last dimension: ``t[2][32 * 32]``."""
        length = self.row_length()
        return length is not None and columns * self.element_bytes < length * self.declared_bytes

    def flat(self, access: SourceAccess, columns: int) -> tuple[IndexStep, ...] | None:
        """Return the moving steps that count elements; None if rows and columns have subscripts of their own.

        Those before them lead to the start of a tile.
        """
        rows = [step for step in access.steps if step.rank > 1]
        elements = tuple(step for step in access.steps if step.rank == 1)
        if self.rank < 2 or self.inner(columns):
            return self.moving(elements)
        if not rows or (self.zero(rows) and len(rows) == self.rank - 1 and self.zero(elements[:1]) and elements[1:]):
            return self.moving(elements)
        return None

    def row_and_column(self, access: SourceAccess) -> tuple[IndexStep, IndexStep]:
        """Return the last two indices of an access; raise Unfit if it has no such pair."""
        rank, steps = self.rank, access.steps
        ranks = [step.rank for step in steps[:rank]]
        if rank < 2 or ranks != [*range(rank, 0, -1)] or access.layout or access.leading:
            raise access.node.misfit(f" does not name row and column of an element of {self.name}")
        row, column = steps[rank - 2], steps[rank - 1]
        if self.moving(steps[rank:]):
            raise access.node.misfit(" adds to the address of an element")
        if not row.node or not column.node:
            raise access.node.misfit(" leaves out an index")
        return row, column

    def holds_use(self, node: Node) -> bool:
        """Return whether an expression contains another access to the tile."""
        return any(access.node.inside(node) for access in self.tile.accesses)

    def closed(self, start: int, end: int, node: Node) -> bool:
        """Return whether the bytes around a node are a whole argument or index, which needs no parentheses.

        A macro may use its argument beside any operator.
        """
        before, after = self.file.text[:start].rstrip()[-1:], self.file.text[end:].lstrip()[:1]
        callees = self.constants.walk.names.callables.get(node.above("call_expression").called, [])
        return before in b"([,{" and after in b")],}" and not any(definition.macro for definition in callees)


# Write longer rows into a source: in the declaration, and wherever a row's length is part of an index.


@dataclass(eq=False, kw_only=True)
class PaddingEdits:
    """The edits for one padding; `flat` writes every index of a flat array through an accessor."""

    draft: Draft
    padding: Padding
    flat: bool = False

    def __post_init__(self) -> None:
        self.accessors = Accessors(self.draft.file)

    def edits(self) -> list[Edit]:
        """Return the edits; raise Unfit for a use at which the padding cannot be written."""
        draft, edits = self.draft, list[Edit]()
        if self.padding.every * draft.element_bytes == draft.declared_bytes:
            return self._wrapped()
        for root in draft.tile.roots:
            if root.array.dynamic or (root.offset and not root.member):
                raise root.declared.unfit(f"{root.declared.text} lies in shared memory of a size that the launch gives")
            # A struct's array makes as many rows as it declares itself, whatever the struct's own array is.
            edits += self._declaration(root.declared, sizes_of(root.declared) if root.member else root.array.sizes)
        for declared in draft.tile.named:
            edits += self._pointer(declared)
        for access in draft.tile.accesses:
            edits += self._access(access)
        return [*dict.fromkeys(edits), *self.accessors.edits()]

    def _wrapped(self) -> list[Edit]:
        """Return the edits that put each struct of an array into a longer one: ``p[i]`` becomes ``p[i].value``."""
        draft, edits = self.draft, list[Edit]()
        for root in draft.tile.roots:
            shared = root.array
            if root.member or shared.dynamic or len(shared.statement.every("declarator")) != 1:
                raise root.declared.unfit(f"the elements of {root.declared.text} are not structs that can be wrapped")
            type_ = shared.statement.part("type")
            name = f"Padded{re.sub(r'[^0-9A-Za-z]', '', type_.text)}"
            text = f"struct {name} {{ {type_.text} value; char unused[{self.padding.by * draft.element_bytes}]; }};"
            edits.append(Edit(type_.start_byte, type_.end_byte, name))
            edits.append(self.accessors.definition(text, shared.statement))
        for access in draft.tile.accesses:
            subscripts = [step for step in access.steps if step.subscript and step.rank == 1]
            holder = subscripts[0].node.above("subscript_expression") if len(subscripts) == 1 else NOTHING
            if not holder or len(access.steps) != draft.rank:
                raise access.node.misfit(" is not the subscript of a struct")
            edits.append(Edit(holder.end_byte, holder.end_byte, ".value"))
        return list(dict.fromkeys(edits))

    # ---------------------------------------------------------------------------------------- declarations

    def _declaration(self, declared: Node, sizes: tuple[Node, ...]) -> list[Edit]:
        *_, last = sizes or (declared,)
        if len(sizes) > 1 and not self.draft.inner(self.padding.every):
            return [self._longer(last)]
        return self._scaled_size(last)

    def _scaled_size(self, last: Node) -> list[Edit]:
        """Return the edits of the size of a dimension that holds rows behind each other."""
        kernel = self.draft.constants.walk.kernel
        rows, terms = self._rows(self.draft.declared_bytes, last), self.draft.constants.terms(last, kernel)
        edit = self._scaled(terms[0], rows) if len(terms) == 1 else None
        if edit is not None:
            return [edit]
        size, length = atom(last.text), self.draft.constants.value(last, kernel)
        if length is None or length % rows.every:  # the last row may be a part of one: it is made a whole one
            size = f"({size} + {rows.every - 1})"
        return [Edit(last.start_byte, last.end_byte, f"{size} / {rows.every} * {rows.every + rows.by}")]

    def _longer(self, size: Node) -> Edit:
        """Return the edit of a dimension that is a row."""
        by = self.padding.by * self.draft.element_bytes // self.draft.declared_bytes
        return Edit(size.start_byte, size.end_byte, longer(size.text, by))

    def _pointer(self, declared: Node) -> list[Edit]:
        """Return the edit of a parameter or pointer whose type says how long a row is."""
        sizes = sizes_of(declared, self.draft.file)
        length = self.draft.constants.value(sizes[-1], self.draft.constants.walk.kernel) if sizes else None
        pointed = declared.above("pointer_declarator", "reference_declarator", "expression_statement")
        if not sizes or not pointed or self._deduced(sizes[-1]):
            return []
        if len(sizes) == 1 and declared.parent.type == "reference_declarator" and self.draft.rank < 2:
            return self._scaled_size(sizes[-1])
        if length is not None and self.padding.every * self.draft.element_bytes < length * self.draft.declared_bytes:
            return self._scaled_size(sizes[-1])
        return [self._longer(sizes[-1])]

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

    def _access(self, access: SourceAccess) -> list[Edit]:
        if access.layout:
            raise access.node.misfit(": the layout is not rewritten")
        draft, home = self.draft, self.draft.home(access)
        elements = [step for step in access.steps if step.rank == 1]
        # The column alone; a cast, as in ((float *)t)[i], leaves no subscripts before it.
        rows = sum(step.rank > 1 for step in access.steps)
        if draft.rank > 1 and rows == draft.rank - 1 and not draft.inner(self.padding.every):
            elements = elements[1:] if elements and elements[0].subscript else elements
        edits: list[Edit] = []
        if access.leading:
            leading = IndexStep(node=access.leading, frame=access.frame)
            edits += self._terms(access, leading, self._rows(draft.declared_bytes, access.node), home, alone=False)
        steps = [step for step in elements if step.node]
        for step in steps:
            padded = self._rows(draft.size(step.unit, access.node), access.node)
            alone = len(draft.moving(steps)) == 1 and draft.rank < 2
            edits += self._terms(access, step, padded, home, alone=alone)
        return edits

    def _rows(self, bytes_: int, node: Node) -> Padding:
        """Return the padding in units of some bytes; raise Unfit if a row does not hold whole ones."""
        element = self.draft.element_bytes
        old, by = self.padding.every * element, self.padding.by * element
        if old % bytes_ or (old + by) % bytes_:
            raise node.unfit(f"rows of {old + by} bytes do not hold whole units of {bytes_} bytes")
        return (Padding if by > 0 else Shorter)(old // bytes_, by // bytes_)

    def _terms(self, access: SourceAccess, step: IndexStep, rows: Padding, home: CallFrame, alone: bool) -> list[Edit]:
        """Return the edits of an index: of what in it counts rows, or of all of it if an accessor is wanted."""
        terms = self.draft.terms(step, home)
        counting = [term for term in terms if term.constant and term.constant % rows.every == 0]
        # An index of the whole array that names no row may still lead to any: what is not compiled is not proved.
        whole = self.flat or (not counting and alone)
        if whole and len(counting) < len(terms) and any(term.variable for term in terms):
            if access.leading or not home.sees(step.frame.function) or not alone:
                raise step.node.misfit(" cannot be split into row and column")
            return called(self.accessors.flat(rows, step.node), step.node)
        edits: list[Edit] = []
        for term in counting:
            edit = self._scaled(term, rows)
            if edit is None:
                raise step.node.unfit(f"{term.node.quoted()}: the row's length is not to be seen in it")
            edits.append(edit)
        return edits

    def _scaled(self, term: Summand, rows: Padding) -> Edit | None:
        """Return the edit that makes a product count longer rows; None if no factor of it is a number of rows."""
        written = [factor for factor in term.factors if factor.value is not None]
        exact = [factor for factor in written if factor.value == rows.every]
        named = [factor for factor in exact if not factor.node.text.isdecimal()]
        multiples = [factor for factor in written if factor.value and factor.value % rows.every == 0]
        # Of ``32 * W`` with W = 32, the name is the row's length more likely than the number; the proof decides.
        chosen = (named or exact)[-1:] or multiples
        return self._longer_factor(chosen[0], term, rows) if chosen else None

    def _longer_factor(self, factor: Factor, term: Summand, rows: Padding) -> Edit:
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
            alone = self.draft.closed(node.start_byte, node.end_byte, node)
            return Edit(node.start_byte, node.end_byte, sum_ if alone else atom(sum_))
        return Edit(node.start_byte, node.end_byte, f"({atom(text)} / {rows.every} * {new})")


def longer(length: str, by: int) -> str:
    """Return a row's length plus `by` elements: ``33`` for ``32``, ``W + 4`` for ``W + 1``."""
    if length.isdecimal():
        return str(int(length) + by)
    base, number = length, by
    if match := re.fullmatch(r"([\w.:]+|\([^()]*\)) *\+ *(\d+)", length):  # padding that is there already
        base, number = match[1], int(match[2]) + by
    return base if not number else f"{base} {'+' if number > 0 else '-'} {abs(number)}"


def swapped(draft: Draft) -> list[Edit]:
    """Return the edits that swap the last two indices of a tile; raise Unfit for a use that does not name both."""
    edits: list[Edit] = []
    for declared in dict.fromkeys(root.declared for root in draft.tile.roots):
        sizes = sizes_of(declared, draft.file)
        statement = declared.above("declaration", "field_declaration")
        if len(sizes) < 2 or not all(size.inside(statement) for size in sizes[-2:]):
            raise declared.unfit(f"{declared.text} does not declare its rows and columns here")
        edits += _exchanged(*sizes[-2:])
    for access in draft.tile.accesses:
        row, column = draft.row_and_column(access)
        if not row.node.inside(column.node.above("subscript_expression")):
            raise access.node.misfit(" does not name row and column of an element")
        if row.frame is not column.frame:
            raise access.node.misfit(" names row and column in different places")
        if draft.holds_use(row.node) or draft.holds_use(column.node):
            raise access.node.misfit(" has another use of the tile in its index")
        edits += _exchanged(row.node, column.node)
    return edits


def _exchanged(one: Node, other: Node) -> list[Edit]:
    texts = one.text, other.text
    if texts[0] == texts[1]:
        return []
    return [Edit(one.start_byte, one.end_byte, texts[1]), Edit(other.start_byte, other.end_byte, texts[0])]
