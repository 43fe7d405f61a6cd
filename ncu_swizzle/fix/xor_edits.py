"""Write an XOR swizzle into a source: at every access, the row's number into the column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.accessors import EFFECTS, Accessors, RowXor, atom, bits_of_row, sum_of
from ncu_swizzle.fix.conditions import composed, condition
from ncu_swizzle.fix.cuda import BYTES, CudaFile, Reach, ReachedPlace, ReachStep
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.expressions import Edit
from ncu_swizzle.fix.sums import Term

if TYPE_CHECKING:
    from tree_sitter import Node


# A column's number with bits of its row's number XORed into it, as the edits of an index.


def xored(file: CudaFile, start: int, end: int, bits: str, always: bool = False) -> list[Edit]:
    """Return the edits that XOR what stands between two bytes; in parentheses as a whole with `always`."""
    column = file.text[start:end].decode("utf-8", "surrogateescape")
    opening, closing = ("(", ")") if atom(column) != column.strip() else ("", "")
    outer = ("(", ")") if always else ("", "")
    return [Edit(start, start, f"{outer[0]}{opening}"), Edit(end, end, f"{closing} ^ {bits}{outer[1]}")]


def factored(file: CudaFile, node: Node, terms: Sequence[Term], xor: RowXor, row: str) -> list[Edit] | None:
    """Return the edits that XOR the number of a granule instead: ``(y ^ (x & 7)) * 4 + k``.

    The compiler sees that the granule stays whole, and keeps its vectors. None if no factor counts granules, or
    something else than what lies within one is added.
    """
    counting = [term for term in terms if term.variable and term.constant % (1 << xor.base) == 0]
    if not xor.base or len(counting) != 1 or any(term.negative for term in terms):
        return None
    (term,) = counting
    steps = [one.constant for one in terms if not one.variable]
    if term.constant != 1 << xor.base or len(term.variable) != 1 or any(step >> xor.base for step in steps):
        return None
    factor = term.variable[0].node
    if not cuda.inside(factor, node):
        return None
    bits = bits_of_row(replace(xor, base=0, columns=xor.columns >> xor.base), row)
    return xored(file, factor.start_byte, factor.end_byte, bits, always=True)


def outer(node: Node, limit: Node) -> Node:
    """Return a term with the parentheses right around it."""
    while node.parent is not None and node.parent.type == "parenthesized_expression" and node.id != limit.id:
        node = node.parent
    return node


@dataclass(frozen=True)
class _Base:
    """Where a place is within the pattern: at its start, or at the start of a row, whose number is an expression."""

    row: str = ""
    line: int = 0
    known: bool = True


@dataclass(eq=False, kw_only=True)
class XorEdits:
    """The edits for one mapping; `flat` writes every index of a flat array through an accessor.

    `factors` XORs the number of a granule, where an index has it as a factor.
    """

    draft: Draft
    xor: RowXor
    flat: bool = False
    factors: bool = False
    sums: bool = False  # such a factor is part of a sum
    accessors: Accessors | None = None
    within: set[int] = field(default_factory=set)  # places whose base is being found
    lengths: list[str] = field(default_factory=list)  # of rows, as the source names what the launch decides

    def edits(self) -> list[Edit]:
        """Return the edits; raise Unfit for a use that the mapping cannot be written at."""
        self.accessors = Accessors(self.draft.file)
        made: list[Edit] = []
        for reach in self.draft.tile.reaches:
            if self.draft.ends(reach.start):
                continue
            if reach.end is None or (not reach.advance and self.draft.ends(reach.end)):
                made += self._access(reach)
            else:
                self._base_of(reach)
        if self.factors and not self.sums:
            return []
        accessors = self.accessors.edits()
        if self.draft.source is not None and accessors:
            length = next(iter(self.lengths), "its rows' length")
            raise self.draft.unfit(self.draft.tile.places[0].declared, f"only the launch decides {length}")
        return [*made, *accessors, *condition(self.draft, self.xor, self.lengths)]

    # ---------------------------------------------------------------------------------------- where places are

    def _base(self, place: ReachedPlace) -> _Base:
        """Return where a place is; raise Unfit if it is neither at the pattern's start nor at a row's."""
        if any(root.place is place for root in self.draft.tile.roots):
            return _Base()
        if place.declared.id in self.within:  # it is made from itself: the other ways to it decide
            return _Base()
        self.within.add(place.declared.id)
        try:
            bases = [self._base_of(reach) for reach in self.draft.tile.to(place)]
        finally:
            self.within.discard(place.declared.id)
        if len({base.row for base in bases}) > 1:
            raise self.draft.unfit(place.declared, f"{place.name} points to different rows")
        return bases[0] if bases else _Base()

    def _base_of(self, reach: Reach) -> _Base:
        """Return where a use that goes on leads to."""
        self._here(reach)
        draft, steps = self.draft, self.draft.moving(reach)
        start = self._base(reach.start) if reach.end is not reach.start else _Base()
        if reach.layout is not None or reach.leading is not None:
            raise draft.unfit(reach.node, f"{draft.quoted(reach.node)}: an API computes the addresses")
        rank, flat = reach.start.rank, draft.flat(reach, self.xor.columns)
        if flat is None:
            if len(reach.steps) < rank - 1 - self.xor.outer or not reach.steps:
                return start  # whole tiles, each with the pattern
            outer = self.xor.outer
            row, *inner = reach.steps[rank - 2 - outer :]
            if draft.zero((row, *inner) if outer else (row,)) and not steps[rank:]:
                return start
            rest = [step for step in reach.steps[rank - 1 :] if step in steps]
            if rest or row.node is None or outer:
                part = "part" if outer else "a row"
                raise draft.unfit(reach.node, f"{draft.quoted(reach.node)} points into {part} of {reach.start.name}")
            return self._row(reach, draft.file.of(row.node))
        rows: list[tuple[bool, str]] = []
        for step in flat:
            row_terms, others = self._split(step)
            if others or (self.flat and row_terms):
                raise draft.unfit(
                    reach.node,
                    f"{draft.quoted(reach.node)} points between the starts of rows of {self.xor.columns} elements",
                )
            rows += row_terms
        if not rows:
            return start
        if start.row:
            rows.insert(0, (False, start.row))
        return self._row(reach, sum_of(rows))

    def _row(self, reach: Reach, row: str) -> _Base:
        end = reach.end
        if end is None or reach.advance or self._parameter(end):
            raise self.draft.unfit(
                reach.node, f"{self.draft.quoted(reach.node)}: the row's number is not known where it is used"
            )
        if EFFECTS.search(row):
            raise self.draft.unfit(reach.node, f"{row} would be evaluated twice")
        return _Base(row, self.draft.file.line(reach.node))

    def _here(self, reach: Reach) -> None:
        """Raise Unfit if a row's number is that of another function, by whose parameters it is written."""
        if any(step.foreign for step in reach.steps):
            raise self.draft.unfit(
                reach.node, f"{self.draft.quoted(reach.node)}: the row's number is not known where it is used"
            )

    def _parameter(self, place: ReachedPlace) -> bool:
        return cuda.above(place.declared, "parameter_declaration", "optional_parameter_declaration") is not None or (
            cuda.above(place.declared, "preproc_params") is not None
        )

    # ---------------------------------------------------------------------------------------- accesses

    def _access(self, reach: Reach) -> list[Edit]:
        self._here(reach)
        base = self._base(reach.start)
        if reach.layout is not None:
            return composed(self.draft, reach, self.xor)
        if reach.leading is not None:
            raise self.draft.unfit(reach.node, f"{self.draft.quoted(reach.node)}: an API computes the addresses")
        steps = self.draft.flat(reach, self.xor.columns)
        if steps is None:
            return self._subscripts(reach)
        if not steps and not base.row:
            return []
        if len(steps) != 1:
            return self._several(reach, steps, base)
        (step,) = steps
        if step.node is None or step.negative:
            raise self.draft.unfit(reach.node, f"{self.draft.quoted(reach.node)} has no index")
        return self._index(reach, step, step.node, base)

    def _subscripts(self, reach: Reach) -> list[Edit]:
        rank = reach.start.rank
        if not self.draft.full(reach):
            raise self.draft.unfit(
                reach.node, f"{self.draft.quoted(reach.node)} is not an element of {reach.start.name}"
            )
        row, column = reach.steps[rank - 2 - self.xor.outer].node, reach.steps[rank - 1].node
        if any(step in self.draft.moving(reach) for step in reach.steps[rank:]):
            raise self.draft.unfit(reach.node, f"{self.draft.quoted(reach.node)} adds to the address of an element")
        if row is None or column is None:
            raise self.draft.unfit(reach.node, f"{self.draft.quoted(reach.node)} leaves out an index")
        made = self.xor.in_subscript
        if row.type == "number_literal" and self.draft.constants.value(row) == 0:
            return []  # the first row stays as it is
        if reach.start.member and cuda.above(reach.start.declared, "template_declaration") is not None:
            made = replace(made, rows=0)  # another instance may have more rows
        text, terms = self._once(row), self.draft.terms(reach.steps[rank - 1])
        if within := self._factored(column, terms, made, text):
            return within
        return xored(self.draft.file, column.start_byte, column.end_byte, bits_of_row(made, text))

    def _once(self, row: Node) -> str:
        """Return a row's index that may be written twice."""
        text = " ".join(self.draft.file.of(row).split())
        if EFFECTS.search(text) or self.draft.holds_use(row):
            raise self.draft.unfit(row, f"{text} would be evaluated twice")
        return text

    def _index(self, reach: Reach, step: ReachStep, node: Node, base: _Base) -> list[Edit]:
        """Return the edits of one index of a flat array."""
        xor = self._counted(reach, step)
        rows, others = self._split(step)
        if base.row or (rows and others and not self.flat):
            made = self._in_columns(node, step, [(False, base.row), *rows] if base.row else rows, xor)
            if made is not None:
                return made
            if base.row:
                raise self.draft.unfit(reach.node, f"{self.draft.quoted(node)} cannot be split into row and column")
        if not rows and len(others) == 1 and self._in_first_row(others[0], xor):
            return []
        if self.draft.indexing(node):
            raise self.draft.unfit(reach.node, f"{self.draft.quoted(node)} cannot be split into row and column")
        name = self._accessors.address(xor, node) if step.unit == BYTES else self._accessors.flat(xor, node)
        return [Edit(node.start_byte, node.start_byte, f"{name}("), Edit(node.end_byte, node.end_byte, ")")]

    @staticmethod
    def _in_first_row(term: Term, xor: RowXor) -> bool:
        """Say whether a term is a constant, and an element of the first row."""
        return not term.variable and not term.negative and term.constant < xor.columns

    @property
    def _accessors(self) -> Accessors:
        assert self.accessors is not None
        return self.accessors

    def _in_columns(self, node: Node, step: ReachStep, rows: list[tuple[bool, str]], xor: RowXor) -> list[Edit] | None:
        """Return the edit of the part of an index that is the column; None if that is not one piece."""
        row = sum_of(rows)
        if EFFECTS.search(row) or self.draft.holds_use(node):
            return None
        _, others = self._split(step)
        if not others or others[0].negative:
            return None
        start, end = outer(others[0].node, node).start_byte, outer(others[-1].node, node).end_byte
        piece = self.draft.file.text[start:end].decode("utf-8", "surrogateescape")
        if piece.count("(") != piece.count(")") or any(start <= t.node.start_byte < end for t in self._rows(step)):
            return None
        if made := self._factored(node, others, xor, row):
            return made
        if not all(cuda.inside(term.node, node) for term in others) or "," in re.sub(r"\([^()]*\)", "", piece):
            return None  # it stands in a macro or function that computes the index, or in several arguments
        whole = step.subscript and start == node.start_byte and end == node.end_byte
        whole = whole or self.draft.closed(start, end, node)
        return xored(self.draft.file, start, end, bits_of_row(xor, row), always=not whole)

    def _factored(self, node: Node, terms: Sequence[Term], xor: RowXor, row: str) -> list[Edit] | None:
        made = factored(self.draft.file, node, terms, xor, row) if self.factors else None
        self.sums = self.sums or (made is not None and len(terms) > 1)
        return made

    def _several(self, reach: Reach, steps: tuple[ReachStep, ...], base: _Base) -> list[Edit]:
        """Return the edits of an access whose way has several steps: rows in some, the column in one."""
        rows = [(False, base.row)] if base.row else []
        column: ReachStep | None = None
        for step in steps:
            row_terms, others = self._split(step)
            rows += row_terms
            if others and column is not None:
                raise self.draft.unfit(reach.node, f"{self.draft.quoted(reach.node)} adds to the column twice")
            column = step if others else column
        if column is None or column.node is None:
            raise self.draft.unfit(reach.node, f"{self.draft.quoted(reach.node)} has no column")
        made = self._in_columns(column.node, column, rows, self._counted(reach, column))
        if made is None:
            raise self.draft.unfit(reach.node, f"{self.draft.quoted(reach.node)} cannot be split into row and column")
        return made

    # ---------------------------------------------------------------------------------------- sums

    def _counted(self, reach: Reach, step: ReachStep) -> RowXor:
        """Return the swizzle in what a step counts."""
        bytes_, element = self.draft.size(step.unit, reach.node), self.draft.element_bytes
        xor = self.xor.counted_in(bytes_ // element) if bytes_ >= element else self.xor.in_parts(element // bytes_)
        if xor is None or max(bytes_, element) % min(bytes_, element):
            raise self.draft.unfit(reach.node, f"{self.draft.quoted(reach.node)}: its {bytes_} bytes would be split")
        return xor

    def _split(self, step: ReachStep) -> tuple[list[tuple[bool, str]], list[Term]]:
        """Return what of a sum counts rows, as expressions, and the terms that do not; whole periods are left out."""
        if step.node is None:  # *p: no index that could be taken apart
            return [], []
        bytes_ = self.draft.size(step.unit, step.node)
        row_bytes = self.xor.columns * self.draft.element_bytes
        period = self.xor.period * self.draft.element_bytes
        rows: list[tuple[bool, str]] = []
        others: list[Term] = []
        for term in self.draft.terms(step):
            stride = term.constant * bytes_
            if stride and stride % row_bytes == 0:
                self.lengths += self.draft.of_launch(term)
                if stride % period or (self.xor.rows and not self.xor.repeats):
                    rows.append((term.negative, self._row_of(term, stride // row_bytes)))
            elif stride or term.variable:
                others.append(term)
        return rows, others

    def _rows(self, step: ReachStep) -> list[Term]:
        """Return the terms that count rows."""
        others = {term.node.id for term in self._split(step)[1]}
        return [term for term in self.draft.terms(step) if term.node.id not in others]

    def _row_of(self, term: Term, count: int) -> str:
        texts = [" ".join(self.draft.file.of(factor.node).split()) for factor in term.variable]
        product = " * ".join(text if len(texts) == 1 and count == 1 else atom(text) for text in texts)
        if not texts:
            return str(count)
        return product if count == 1 else f"{product} * {count}"
