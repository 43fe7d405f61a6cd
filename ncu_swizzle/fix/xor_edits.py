"""Write an XOR swizzle into a source: at every access, the row's number into the column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ncu_swizzle.fix.accessors import EFFECTS, Accessors, atom, bits_of_row, sum_of
from ncu_swizzle.fix.cuda import Node
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.edits import Edit, called, composition
from ncu_swizzle.fix.frames import CallFrame, IndexStep, SourceAccess
from ncu_swizzle.fix.names import BYTES
from ncu_swizzle.fix.sums import Summand
from ncu_swizzle.smem.swizzle import RowXor, XorMatrix

NO_SPLIT = " cannot be split into row and column"
Rows = list[tuple[Summand, str]]  # terms that count rows, each with what it adds to the row's number
Others = list[Summand]
Split = tuple[IndexStep, Rows, Others]
LISTS = ("argument_list", "subscript_argument_list", "initializer_list")


@dataclass(eq=False, kw_only=True)
class XorEdits:
    """The edits for one mapping; `flat` writes every index of a flat array through an accessor.

    `vectors` XORs what counts whole granules: ``((x * 4) ^ bits) + k``, or ``((x & ~3) ^ bits) + (x & 3)`` if no term
    does. The compiler sees that granules stay whole, and keeps its vectors. `now` are the elements of a row as the
    source has it, if other edits change that.
    """

    draft: Draft
    xor: RowXor
    now: int = 0
    flat: bool = False
    vectors: bool = False

    def __post_init__(self) -> None:
        self.accessors = Accessors(self.draft.file)
        self.sums = False  # whether what is XORed is part of a sum
        self.columns = self.now or self.xor.columns

    def edits(self) -> list[Edit]:
        """Return the edits; raise Unfit for a use at which the mapping cannot be written."""
        edits = [edit for access in self.draft.tile.accesses for edit in self._access(access)]
        if self.vectors and not self.sums:
            return []
        return [*edits, *self.accessors.edits()]

    def _access(self, access: SourceAccess) -> list[Edit]:
        """Return the edits of an access: of the part of its index that is the column, else of all of it."""
        draft, home = self.draft, self.draft.home(access)
        if access.layout:
            return composed(draft, access, self.xor)
        if access.leading:
            raise access.node.misfit(": an API computes the addresses")
        flat = draft.flat(access, self.columns)
        steps = draft.row_and_column(access) if flat is None else flat
        split: list[Split] = [(step, *self._split(step, home)) for step in steps]
        if flat is None:  # t[row][column]
            split[-1] = steps[-1], [], list(draft.terms(steps[-1], home))
        rows = [(term.negative, text) for _, some, _ in split for term, text in some]
        columns = [each for each in split if each[2]]
        if not rows and (flat is None or not columns):
            return []  # the first row stays as it is, and so do whole patterns
        if any(some and step.advance for step, some, _ in split):
            raise access.node.misfit(": the row's number is not known where it is used")
        row = sum_of(rows)
        twice = EFFECTS.search(row) or any(draft.holds_use(term.node) for _, some, _ in split for term, _ in some)
        written = None
        if rows and columns and not (self.flat and len(split) == 1) and not twice:
            written = self._columns(access, split, columns, row, home)
        if written is None and flat is None:
            raise access.node.unfit(f"{row} would be evaluated twice" if twice else f"{access.node.quoted()}{NO_SPLIT}")
        return self._whole(access, split, home) if written is None else written

    def _whole(self, access: SourceAccess, split: Sequence[Split], home: CallFrame) -> list[Edit]:
        """Return the edits that map an index of a flat array by a function."""
        (step, rows, others), *more = split
        if more or not step.node or step.negative or step.advance:
            raise access.node.misfit(NO_SPLIT)
        if not rows and len(others) == 1:
            (term,) = others
            if not term.variable and not term.negative and term.constant < self.columns:
                return []  # an element of the first row
        if self.now or not self._readable(step.frame, home):
            raise access.node.unfit(f"{step.node.quoted()}{NO_SPLIT}")
        name = (self.accessors.address if step.unit == BYTES else self.accessors.flat)(
            self._counted(access, step), step.node
        )
        return called(name, step.node)

    def _columns(
        self, access: SourceAccess, split: Sequence[Split], columns: Sequence[Split], row: str, home: CallFrame
    ) -> list[Edit] | None:
        """Return the edits of the part of an index that is the column; None if that is not one piece."""
        step, _, terms = columns[0]
        xor, node = self._counted(access, step), step.node
        if len(columns) > 1:  # p + row * 32 + k + x * 4
            last = columns[-1][0]
            together = [*split[split.index(columns[0]) : split.index(columns[-1]) + 1]] == [*columns]
            apart = any(each.negative or each.subscript or each.advance or not each.node for each, *_ in columns)
            if not together or apart or any(rows for _, rows, _ in columns) or not node.inside(last.node.parent):
                return None
            return self._xored(node.start_byte, last.node.end_byte, bits_of_row(xor, row), always=True)
        if not node or step.advance or not all(self._readable(term.frame, home) for term in terms):
            return None
        if split[0][0].rank == 2:  # t[row][column]; of another instance there may be more rows
            root, above = self.draft.tile.roots[0], split[0][0].node.inside(node.above("subscript_expression"))
            other = not above or (root.member and bool(root.declared.above("template_declaration")))
            xor = replace(xor, rows=0 if other else self.xor.rows)
        counting = self._counting(terms, xor)
        every = self.draft.terms(step, home)
        own = {term.node.id for term in terms}
        piece = self._piece(node, counting, [term for term in every if term.node.id not in own], len(every))
        if piece is None:
            return None
        start, end = piece
        whole = step.subscript and piece == (node.start_byte, node.end_byte)
        whole = whole or self.draft.closed(start, end, counting[0].node if counting else node)
        low = 0 if self.draft.holds_use(node) else self._kept(counting, xor)
        bare = whole and len(counting) == len(terms)
        return self._xored(start, end, bits_of_row(xor, row), always=not bare, low=low)

    def _piece(self, node: Node, terms: Others, others: Others, count: int) -> tuple[int, int] | None:
        """Return where the text of some of an index's `count` terms is; None if others stand between them."""
        inside = all(term.node.inside(node) for term in (*terms, *others))
        if inside and len(terms) == count:
            return node.start_byte, node.end_byte
        if not terms or terms[0].negative or not (terms[0].node.inside(node) or _whole_argument(terms)):
            return None
        limit = node if all(term.node.inside(node) for term in terms) else terms[0].node.parent
        start = _with_parentheses(terms[0].node, limit).start_byte
        end = _with_parentheses(terms[-1].node, limit).end_byte
        piece = self.draft.file.between(start, end)
        several = "," in re.sub(r"\([^()]*\)", "", piece)  # arguments
        foreign = any(start <= term.node.start_byte < end for term in others)
        return None if several or foreign or piece.count("(") != piece.count(")") else (start, end)

    def _counting(self, terms: Others, xor: RowXor) -> Others:
        """Return the terms to XOR: all, or with `vectors` those that count whole granules, if they stand together."""
        granules = [term for term in terms if term.variable and term.constant % (1 << xor.base) == 0]
        first = terms.index(granules[0]) if granules else 0
        together = granules == list(terms[first : first + len(granules)])
        more = any(not term.variable and term.constant >> xor.base for term in terms)
        if not (self.vectors and xor.base and granules and together) or more or any(term.negative for term in terms):
            return terms
        self.sums = self.sums or len(granules) < len(terms)
        return granules

    def _kept(self, terms: Others, xor: RowXor) -> int:
        """Return the mask of a column's bits within a granule if they are written separately; 0 if not."""
        low = (1 << xor.base) - 1
        if not self.vectors or not any(term.constant & low for term in terms):
            return 0
        self.sums = True
        return low

    def _xored(self, start: int, end: int, bits: str, always: bool = False, low: int = 0) -> list[Edit]:
        """Return the edits that XOR the text between two bytes; with `always` in parentheses.

        All but its bits of the mask `low`, which are added, if that is not 0.
        """
        column = self.draft.file.between(start, end)
        opening, closing = ("(", ")") if atom(column) != column.strip() else ("", "")
        if low and not EFFECTS.search(column):
            text = atom(column)
            opening, closing = ("(((" if always else "((") + opening, f"{closing} & ~{low})"
            bits += f") + ({text} & {low})" + (")" if always else "")
            return [Edit(start, start, opening), Edit(end, end, f"{closing} ^ {bits}")]
        outer = ("(", ")") if always else ("", "")
        return [Edit(start, start, f"{outer[0]}{opening}"), Edit(end, end, f"{closing} ^ {bits}{outer[1]}")]

    # ---------------------------------------------------------------------------------------- sums

    def _readable(self, frame: CallFrame, home: CallFrame) -> bool:
        """Return whether the names of an expression in a frame mean the same where an access is written."""
        return home.sees(frame.function) or frame.function is home

    def _counted(self, access: SourceAccess, step: IndexStep) -> RowXor:
        """Return the swizzle in what a step counts."""
        bytes_, element = self.draft.size(step.unit, access.node), self.draft.element_bytes
        xor = self.xor.counted_in(bytes_ // element) if bytes_ >= element else self.xor.in_parts(element // bytes_)
        if xor is None or max(bytes_, element) % min(bytes_, element):
            raise access.node.misfit(f": its {bytes_} bytes would be split")
        # Of a flat index, the row's number may go on counting in the next tile.
        return replace(xor, rows=0) if xor.repeats else xor

    def _split(self, step: IndexStep, home: CallFrame) -> tuple[Rows, Others]:
        """Return the terms of a sum that count rows, each with what it adds to the row's number, and the others.

        Whole periods are left out.
        """
        if not step.node:  # *p: no index that could be taken apart
            return [], []
        row_bytes = self.columns * self.draft.element_bytes
        bytes_ = row_bytes if step.rank > 1 else self.draft.size(step.unit, step.node)
        period = row_bytes << (self.xor.drop + self.xor.bits)
        rows: Rows = []
        others: Others = []
        for term in self.draft.terms(step, home):
            stride = term.constant * bytes_
            if stride and stride % row_bytes == 0:
                # Whole periods add nothing to the bits that are used, unless the row's number starts again at 0 in
                # every tile.
                if stride % period or (self.xor.rows and not self.xor.repeats) or step.rank > 1:
                    if not all(self._readable(factor.frame, home) for factor in term.variable):
                        raise step.node.misfit(": the row's number is not known where it is used")
                    rows.append((term, self._row_number(term, stride // row_bytes)))
            elif stride or term.variable:
                others.append(term)
        return rows, others

    def _row_number(self, term: Summand, count: int) -> str:
        """Return what a term adds to the row's number: its variable factors, times `count` rows."""
        if count == term.constant and all(factor.node.inside(term.node) for factor in term.variable):
            return " ".join(term.node.text.split())  # as it is written: 16 * b
        texts = [" ".join(factor.node.text.split()) for factor in term.variable]
        if not texts:
            return str(count)
        product = " * ".join(text if len(texts) == 1 and count == 1 else atom(text) for text in texts)
        return product if count == 1 else f"{product} * {count}"


def _whole_argument(terms: Others) -> bool:
    """Return whether terms, which stand in a call of what computes the index, are in one of its arguments."""
    holders = []
    for term in terms:
        node = term.node
        while node and node.parent.type not in LISTS:
            node = node.parent
        holders.append(node)
    return bool(holders[0]) and all(holder is holders[0] for holder in holders)


def _with_parentheses(node: Node, limit: Node) -> Node:
    """Return a term with the parentheses right around it."""
    while node.parent.type == "parenthesized_expression" and node.id != limit.id:
        node = node.parent
    return node


@dataclass(eq=False, kw_only=True)
class MatrixEdits:
    """The edits for an XOR of bits of an element's number: indices from the tile's start go through a function."""

    draft: Draft
    matrix: XorMatrix

    def edits(self) -> list[Edit]:
        """Return the edits; raise Unfit for a use whose index is not one number from the tile's start."""
        accessors, edits, draft = Accessors(self.draft.file), list[Edit](), self.draft
        for access in draft.tile.accesses:
            if access.layout or access.leading:
                raise access.node.misfit(": the address is computed elsewhere")
            if steps := draft.moving(access.steps):
                edits += self._index(accessors, access, steps)
        return [*edits, *accessors.edits()]

    def _index(self, accessors: Accessors, access: SourceAccess, steps: Sequence[IndexStep]) -> list[Edit]:
        first, last = steps[0], steps[-1]
        apart = any(step.negative or step.advance or not step.node or step.unit != first.unit for step in steps)
        if self.draft.rank > 1 or apart or (first is not last and not first.node.inside(last.node.parent)):
            raise access.node.misfit(" has no index that counts from the tile's start")
        bytes_, element = self.draft.size(first.unit, access.node), self.draft.element_bytes
        lanes = [(shift, mask * element) for shift, mask in self.matrix.terms]
        if any(mask % bytes_ for _, mask in lanes):
            raise access.node.misfit(f": its {bytes_} bytes would be split")
        counted = XorMatrix(tuple((shift, mask // bytes_) for shift, mask in lanes))
        name = (accessors.address if first.unit == BYTES else accessors.flat)(counted, first.node)
        start, end = first.node.start_byte, last.node.end_byte
        return [Edit(start, start, f"{name}("), Edit(end, end, ")")]


def composed(draft: Draft, access: SourceAccess, xor: RowXor) -> list[Edit]:
    """Return the edits that compose the layout; raise Unfit if no Swizzle of CuTe's does what the mapping does."""
    layout, swizzle = access.layout, xor.swizzle
    # CuTe swizzles offsets from the tensor's own pointer: after a step, that is not where the pattern starts.
    if not layout or swizzle is None or draft.moving(access.steps):
        raise access.node.misfit(": no Swizzle does that")
    prefix = "cute::" if b"using namespace cute" not in draft.file.text else ""
    return list(composition(layout.start_byte, layout.end_byte, prefix, swizzle))
