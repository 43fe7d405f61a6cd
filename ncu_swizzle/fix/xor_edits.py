"""Write an XOR swizzle into a source: at every access, the row's number into the column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ncu_swizzle.fix.accessors import EFFECTS, Accessors, atom, bits_of_row, sum_of
from ncu_swizzle.fix.cuda import Node
from ncu_swizzle.fix.draft import Draft, row_and_column
from ncu_swizzle.fix.edits import Edit, called, composition
from ncu_swizzle.fix.sums import Term
from ncu_swizzle.fix.webs import BYTES, Reach, ReachedPlace, ReachStep
from ncu_swizzle.smem.swizzle import RowXor, XorMatrix

ROW_AND_COLUMN = 2  # the indices of an array
NOT_KNOWN = ": the row's number is not known where it is used"
NO_SPLIT = " cannot be split into row and column"
Summands = list[tuple[bool, str]]  # of a row's number: whether one is subtracted, and its text


@dataclass(eq=False, kw_only=True)
class XorEdits:
    """The edits for one mapping; `flat` writes every index of a flat array through an accessor.

    `factors` XORs the number of a granule, where an index has it as a factor, `vectors` that of a granule which it has
    not: ``((x & ~3) ^ bits) + (x & 3)``. The compiler sees that granules stay whole, and keeps its vectors. `now` are
    the elements of a row as the source has it, if other edits change that.
    """

    draft: Draft
    xor: RowXor
    now: int = 0
    flat: bool = False
    factors: bool = False
    vectors: bool = False

    def __post_init__(self) -> None:
        self.accessors = Accessors(self.draft.file)
        self.sums = False  # whether a factor that is XORed is part of a sum
        self.within = set[int]()  # places whose base is being looked for
        self.columns = self.now or self.xor.columns

    def edits(self) -> list[Edit]:
        """Return the edits; raise Unfit for a use that the mapping cannot be written at."""
        edits: list[Edit] = []
        for reach in self.draft.tile.reaches:
            if self.draft.ends(reach.start):
                continue
            if reach.end is None or (not reach.advance and self.draft.ends(reach.end)):
                edits += self._access(reach)
            else:
                self._base_of(reach)
        if (self.factors or self.vectors) and not self.sums:
            return []
        return [*edits, *self.accessors.edits()]

    # ---------------------------------------------------------------------------------------- where places are
    # A base is where a place is within the pattern: the number of its row as an expression, empty at the start.

    def _base(self, place: ReachedPlace) -> str:
        """Return where a place is; raise Unfit if it is neither at the pattern's start nor at a row's."""
        if any(root.place is place for root in self.draft.tile.roots):
            return ""
        if place.declared.id in self.within:  # it is made from itself: the other ways to it decide
            return ""
        self.within.add(place.declared.id)
        try:
            rows = {self._base_of(reach) for reach in self.draft.tile.to(place)}
        finally:
            self.within.discard(place.declared.id)
        if len(rows) > 1:
            raise place.declared.unfit(f"{place.name} points to different rows")
        return next(iter(rows), "")

    def _base_of(self, reach: Reach) -> str:
        """Return where a use that goes on leads to."""
        self._refuse_foreign(reach)
        draft, steps = self.draft, self.draft.moving(reach)
        start = self._base(reach.start) if reach.end is not reach.start else ""
        if reach.layout or reach.leading:
            raise reach.node.misfit(": an API computes the addresses")
        rank, flat = reach.start.rank, draft.flat(reach, self.columns)
        if flat is None:
            if len(reach.steps) < rank - 1:
                return start  # whole tiles, each with the pattern
            row = reach.steps[rank - 2]
            if draft.zero((row,)) and not steps[rank:]:
                return start
            if not row.node or any(step in steps for step in reach.steps[rank - 1 :]):
                raise reach.node.misfit(f" points into a row of {reach.start.name}")
            return self._row(reach, row.node.text)
        rows: Summands = []
        for step in flat:
            row_terms, others = self._split(step)
            if others or (self.flat and row_terms):
                raise reach.node.misfit(f" points between the starts of rows of {self.columns} elements")
            rows += row_terms
        if not rows:
            return start
        if start:
            rows.insert(0, (False, start))
        return self._row(reach, sum_of(rows))

    def _row(self, reach: Reach, row: str) -> str:
        """Return the number of the row that a use leads to, if it may be written where that place is used."""
        # A parameter, of a function or a macro, stands where the caller's names mean something else, or nothing.
        parameters = ("parameter_declaration", "optional_parameter_declaration", "preproc_params")
        if reach.end is None or reach.advance or reach.end.declared.above(*parameters):
            raise reach.node.misfit(NOT_KNOWN)
        if EFFECTS.search(row):
            raise reach.node.unfit(f"{row} would be evaluated twice")
        return row

    def _refuse_foreign(self, reach: Reach) -> None:
        """Raise Unfit if a row's number is that of another function, by whose parameters it is written."""
        if any(step.foreign for step in reach.steps):
            raise reach.node.misfit(NOT_KNOWN)

    # ---------------------------------------------------------------------------------------- accesses

    def _access(self, reach: Reach) -> list[Edit]:
        self._refuse_foreign(reach)
        base = self._base(reach.start)
        if reach.layout:
            return composed(self.draft, reach, self.xor)
        if reach.leading:
            raise reach.node.misfit(": an API computes the addresses")
        steps = self.draft.flat(reach, self.columns)
        if steps is None:
            return self._subscripts(reach)
        if not steps and not base:
            return []
        if len(steps) != 1:
            return self._several(reach, steps, base)
        (step,) = steps
        if not step.node or step.negative:
            raise reach.node.misfit(" has no index")
        return self._index(reach, step, step.node, base)

    def _subscripts(self, reach: Reach) -> list[Edit]:
        """Return the edits of an access with a subscript for the row and one for the column."""
        draft, rank = self.draft, reach.start.rank
        if not draft.full(reach):
            raise reach.node.misfit(f" is not an element of {reach.start.name}")
        row, column = reach.steps[rank - 2].node, reach.steps[rank - 1].node
        if any(step in draft.moving(reach) for step in reach.steps[rank:]):
            raise reach.node.misfit(" adds to the address of an element")
        if not row or not column:
            raise reach.node.misfit(" leaves out an index")
        xor = self.xor
        if row.type == "number_literal" and draft.constants.value(row) == 0:
            return []  # the first row stays as it is
        if reach.start.member and reach.start.declared.above("template_declaration"):
            xor = replace(xor, rows=0)  # another instance may have more rows
        text = " ".join(row.text.split())
        if EFFECTS.search(text) or draft.holds_use(row):
            raise row.unfit(f"{text} would be evaluated twice")
        terms = draft.terms(reach.steps[rank - 1])
        factored = self._factored(column, terms, xor, text)
        low = 0 if draft.holds_use(column) else self._kept(terms, xor)
        return factored or self._xored(column.start_byte, column.end_byte, bits_of_row(xor, text), low=low)

    def _index(self, reach: Reach, step: ReachStep, node: Node, base: str) -> list[Edit]:
        """Return the edits of one index of a flat array."""
        xor = self._counted(reach, step)
        rows, others = self._split(step)
        if base or (rows and others and not self.flat):
            in_columns = self._in_columns(node, step, [(False, base), *rows] if base else rows, xor)
            if in_columns is not None:
                return in_columns
            if base:
                raise reach.node.unfit(f"{node.quoted()}{NO_SPLIT}")
        if not rows and len(others) == 1:
            (term,) = others
            if not term.variable and not term.negative and term.constant < self.columns:
                return []  # an element of the first row, which stays as it is
        if self.draft.indexing(node) or self.now:
            raise reach.node.unfit(f"{node.quoted()}{NO_SPLIT}")
        name = self.accessors.address(xor, node) if step.unit == BYTES else self.accessors.flat(xor, node)
        return called(name, node)

    def _several(self, reach: Reach, steps: tuple[ReachStep, ...], base: str) -> list[Edit]:
        """Return the edits of an access whose way has several steps: rows in some, the column in one."""
        rows: Summands = [(False, base)] if base else []
        columns: list[ReachStep] = []
        for step in steps:
            row_terms, others = self._split(step)
            rows += row_terms
            columns += [step] if others else []
        if not columns or not columns[0].node:
            raise reach.node.misfit(" has no column")
        if len(columns) > 1:  # p + row * 32 + k + x * 4
            first, last = columns[0], columns[-1]
            together = steps[steps.index(first) : steps.index(last) + 1] == tuple(columns)
            if not together or any(step.negative or step.subscript or not step.node for step in columns):
                raise reach.node.misfit(" adds to the column in several places")
            bits = bits_of_row(self._counted(reach, first), sum_of(rows))
            if EFFECTS.search(bits) or any(self._split(step)[0] for step in columns):
                raise reach.node.misfit(NO_SPLIT)
            return self._xored(first.node.start_byte, last.node.end_byte, bits, always=True)
        (column,) = columns
        edits = self._in_columns(column.node, column, rows, self._counted(reach, column))
        if edits is None:
            raise reach.node.misfit(NO_SPLIT)
        return edits

    def _in_columns(self, node: Node, step: ReachStep, rows: Summands, xor: RowXor) -> list[Edit] | None:
        """Return the edit of the part of an index that is the column; None if that is not one piece."""
        row = sum_of(rows)
        if EFFECTS.search(row) or self.draft.holds_use(node):
            return None
        _, others = self._split(step)
        if not others or others[0].negative:
            return None
        start = _with_parentheses(others[0].node, node).start_byte
        end = _with_parentheses(others[-1].node, node).end_byte
        piece = self.draft.file.between(start, end)
        columns = {term.node.id for term in others}
        counting = [term.node for term in self.draft.terms(step) if term.node.id not in columns]
        if piece.count("(") != piece.count(")") or any(start <= term.start_byte < end for term in counting):
            return None
        if factored := self._factored(node, others, xor, row):
            return factored
        if not all(term.node.inside(node) for term in others) or "," in re.sub(r"\([^()]*\)", "", piece):
            return None  # it stands in a macro or function that computes the index, or in several arguments
        whole = step.subscript and start == node.start_byte and end == node.end_byte
        whole = whole or self.draft.closed(start, end, node)
        return self._xored(start, end, bits_of_row(xor, row), always=not whole, low=self._kept(others, xor))

    def _factored(self, node: Node, terms: Sequence[Term], xor: RowXor, row: str) -> list[Edit] | None:
        """Return the edits that XOR the number of a granule instead: ``(y ^ (x & 7)) * 4 + k``.

        The compiler sees that the granule stays whole, and keeps its vectors. None if no factor counts granules, or
        something else than what lies within one is added.
        """
        counting = [term for term in terms if term.variable and term.constant % (1 << xor.base) == 0]
        if not self.factors or not xor.base or len(counting) != 1 or any(term.negative for term in terms):
            return None
        (term,) = counting
        steps = [other.constant for other in terms if not other.variable]
        if term.constant != 1 << xor.base or len(term.variable) != 1 or any(step >> xor.base for step in steps):
            return None
        factor = term.variable[0].node
        if not factor.inside(node):
            return None
        self.sums = self.sums or len(terms) > 1
        # Counted in granules of 2^base elements, the XOR has base 0, and a row has that many fewer columns.
        bits = bits_of_row(replace(xor, base=0, columns=xor.columns >> xor.base), row)
        return self._xored(factor.start_byte, factor.end_byte, bits, always=True)

    def _kept(self, terms: Sequence[Term], xor: RowXor) -> int:
        """Return the mask of a column's bits within a granule, if they are to be written apart; 0 if not."""
        low = (1 << xor.base) - 1
        if not self.vectors or not any(term.constant & low for term in terms):
            return 0
        self.sums = True
        return low

    def _xored(self, start: int, end: int, bits: str, always: bool = False, low: int = 0) -> list[Edit]:
        """Return the edits that XOR what stands between two bytes; in parentheses as a whole with `always`.

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

    def _counted(self, reach: Reach, step: ReachStep) -> RowXor:
        """Return the swizzle in what a step counts."""
        bytes_, element = self.draft.size(step.unit, reach.node), self.draft.element_bytes
        xor = self.xor.counted_in(bytes_ // element) if bytes_ >= element else self.xor.in_parts(element // bytes_)
        if xor is None or max(bytes_, element) % min(bytes_, element):
            raise reach.node.misfit(f": its {bytes_} bytes would be split")
        # Of a flat index, the row's number may go on counting in the next tile.
        return replace(xor, rows=0) if xor.repeats else xor

    def _split(self, step: ReachStep) -> tuple[Summands, list[Term]]:
        """Return what of a sum counts rows, as expressions, and the terms that do not; whole periods are left out."""
        if not step.node:  # *p: no index that could be taken apart
            return [], []
        bytes_, element = self.draft.size(step.unit, step.node), self.draft.element_bytes
        row_bytes = self.columns * element
        period = row_bytes << (self.xor.drop + self.xor.bits)
        rows: Summands = []
        others: list[Term] = []
        for term in self.draft.terms(step):
            stride = term.constant * bytes_
            if stride and stride % row_bytes == 0:
                # Whole periods add nothing to the bits that are used, unless the row's number starts again at 0 in
                # every tile.
                if stride % period or (self.xor.rows and not self.xor.repeats):
                    rows.append((term.negative, self._row_number(term, stride // row_bytes)))
            elif stride or term.variable:
                others.append(term)
        return rows, others

    def _row_number(self, term: Term, count: int) -> str:
        """Return what a term adds to the row's number: its variable factors, times `count` rows."""
        texts = [" ".join(factor.node.text.split()) for factor in term.variable]
        if not texts:
            return str(count)
        product = " * ".join(text if len(texts) == 1 and count == 1 else atom(text) for text in texts)
        return product if count == 1 else f"{product} * {count}"


def _with_parentheses(node: Node, limit: Node) -> Node:
    """Return a term with the parentheses right around it."""
    while node.parent.type == "parenthesized_expression" and node.id != limit.id:
        node = node.parent
    return node


@dataclass(eq=False, kw_only=True)
class MatrixEdits:
    """The edits for an XOR of bits of an element's number.

    Indices that count from the tile's start go through a function. Of a row and a column, each is XORed with the bits
    that it takes from either.
    """

    draft: Draft
    matrix: XorMatrix

    def edits(self) -> list[Edit]:
        """Return the edits; raise Unfit for a use whose index is not one number from the tile's start."""
        accessors, edits, draft = Accessors(self.draft.file), list[Edit](), self.draft
        for reach in draft.tile.reaches:
            steps = draft.moving(reach)
            if draft.ends(reach.start):
                continue
            if reach.start.rank == ROW_AND_COLUMN:
                edits += self._row_and_column(reach)
                continue
            if reach.end is not None and not draft.ends(reach.end) and not reach.advance:
                if steps:
                    raise reach.node.misfit(" points into the tile, whose elements are no longer in order")
                continue
            if reach.layout or reach.leading or reach.advance:
                raise reach.node.misfit(": the address is computed elsewhere")
            if steps:
                edits += self._index(accessors, reach, steps)
        return [*edits, *accessors.edits()]

    def _index(self, accessors: Accessors, reach: Reach, steps: Sequence[ReachStep]) -> list[Edit]:
        first, last = steps[0], steps[-1]
        if reach.start.rank > 1 or any(step.negative or not step.node or step.unit != first.unit for step in steps):
            raise reach.node.misfit(" has no index that counts from the tile's start")
        bytes_, element = self.draft.size(first.unit, reach.node), self.draft.element_bytes
        lanes = [(shift, mask * element) for shift, mask in self.matrix.terms]
        if any(mask % bytes_ for _, mask in lanes):
            raise reach.node.misfit(f": its {bytes_} bytes would be split")
        counted = XorMatrix(tuple((shift, mask // bytes_) for shift, mask in lanes))
        name = (accessors.address if first.unit == BYTES else accessors.flat)(counted, first.node)
        start, end = first.node.start_byte, last.node.end_byte
        return [Edit(start, start, f"{name}("), Edit(end, end, ")")]

    def _row_and_column(self, reach: Reach) -> list[Edit]:
        row, column = row_and_column(self.draft, reach)
        length = self.draft.row_length(reach.start)
        if length is None or length & (length - 1) or self.draft.element_bytes != self.draft.declared_bytes:
            raise reach.node.misfit(": its rows have no power of two of elements")
        if EFFECTS.search(row.text) or EFFECTS.search(column.text):
            raise reach.node.unfit(f"{reach.node.quoted()} would be evaluated twice")
        of_row, of_column = (atom(" ".join(node.text.split())) for node in (row, column))
        bits = length.bit_length() - 1  # the row has the number's bits from this one on
        rows, columns = [of_row], [of_column]
        for shift, mask in self.matrix.terms:
            in_row, own = mask >> bits, mask & (length - 1) & ((length - 1) >> shift)
            rows += [_taken(of_row, shift, in_row)] if in_row else []
            columns += [_taken(of_column, shift, own)] if own else []
            from_row = mask & (length - 1) & ~own
            columns += [_taken(of_row, shift - bits, from_row)] if from_row else []
        changed = [(node, texts) for node, texts in ((row, rows), (column, columns)) if len(texts) > 1]
        return [Edit(node.start_byte, node.end_byte, " ^ ".join(texts)) for node, texts in changed]


def _taken(text: str, shift: int, mask: int) -> str:
    """Return bits of a number, shifted to where the mask has them."""
    moved = f"{text} >> {shift}" if shift > 0 else f"{text} << {-shift}" if shift else text
    return f"(({moved}) & {mask})" if shift else f"({text} & {mask})"


def composed(draft: Draft, reach: Reach, xor: RowXor) -> list[Edit]:
    """Return the edits that compose the layout; raise Unfit if no Swizzle of CuTe's does what the mapping does."""
    layout, swizzle = reach.layout, xor.swizzle
    # CuTe swizzles offsets from the tensor's own pointer: after a step, that is not where the pattern starts.
    if not layout or swizzle is None or draft.moving(reach):
        raise reach.node.misfit(": no Swizzle does that")
    prefix = "cute::" if b"using namespace cute" not in draft.file.text else ""
    return list(composition(layout.start_byte, layout.end_byte, prefix, swizzle))
