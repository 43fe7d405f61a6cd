"""What a patch asks of launches other than the one that it was proved for, and of the layouts of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.accessors import RowXor
from ncu_swizzle.fix.cuda import field_of, is_field
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.edits import Edit, composition, line_end
from ncu_swizzle.fix.webs import Reach, ReachedPlace
from ncu_swizzle.smem.swizzle import Padding

if TYPE_CHECKING:
    from tree_sitter import Node


BOUNDING = ("%", "&")  # by a constant: whatever the other side is


@dataclass(eq=False)
class Columns:
    """Whether a parameter of the kernel, or data, may move a flat index's column out of its row in another launch.

    In a flat array that is not a mistake: ``t[r * 32 + c - flag]`` is an element of the row before if c is 0. With the
    row apart from the column, it would be another element; a function of the whole index is right for all.
    """

    draft: Draft
    _seen: set[int] = field(default_factory=set)  # names, by their declaration

    def stay(self, transform: RowXor | Padding, whole: bool) -> None:
        """Raise Unfit if a launch may decide a column; if `whole`, functions of whole indices are written."""
        columns = transform.columns if isinstance(transform, RowXor) else transform.every
        row = columns * self.draft.element_bytes
        for reach in self.draft.tile.reaches:
            steps = self.draft.flat(reach, columns) if reach.layout is None and reach.leading is None else None
            if whole and steps is not None and len(steps) == 1 and reach.end is None and self._at_start(reach.start):
                continue
            terms = [(t, self.draft.size(s.unit, reach.node)) for s in steps or () for t in self.draft.terms(s)]
            # A term whose stride is a multiple of the row's bytes moves from row to row; only the others move the
            # column.
            counting = [bool(t.constant) and t.constant * unit % row == 0 for t, unit in terms]
            for (term, _), counts in zip(terms, counting, strict=True):
                if counts:
                    continue
                for decides in (made for factor in term.variable for made in self._deciding(factor.node)):
                    name, quoted = self.draft.quoted(decides), self.draft.quoted(reach.node)
                    raise self.draft.unfit(reach.node, f"{quoted}: with another {name}, it may leave its row")

    def _at_start(self, place: ReachedPlace, within: frozenset[int] = frozenset()) -> bool:
        """Whether a place is the start of the tile: an index from there is that of the whole tile."""
        if any(root.place is place for root in self.draft.tile.roots):
            return True
        if place.declared.id in within:
            return True  # the other ways to it decide
        return all(
            not self.draft.moving(reach) and self._at_start(reach.start, within | {place.declared.id})
            for reach in self.draft.tile.to(place)
        )

    def _deciding(self, node: Node) -> Iterator[Node]:
        """Yield the parameters of kernels, and loads of memory, that an expression's value comes from."""
        node = cuda.bare(node)
        if self.draft.constants.value(node) is not None:
            return
        if node.type == "identifier":
            yield from self._named(node)
        elif node.type == "pointer_expression" or (
            node.type == "subscript_expression" and not self.draft.indexing(node)
        ):
            yield node
        elif node.type == "binary_expression" and self._bounded(node):
            return
        elif node.type != "field_expression":  # threadIdx.x, blockDim.x
            parts = field_of(node, "arguments") if node.type == "call_expression" else node
            for child in parts.named_children if parts is not None else ():
                yield from self._deciding(child)

    def _bounded(self, node: Node) -> bool:
        left, right = (self._constant(field_of(node, side)) for side in ("left", "right"))
        operator = self.draft.file.of(field_of(node, "operator"))
        return operator in BOUNDING and (right or (operator == "&" and left))

    def _constant(self, node: Node | None) -> bool:
        return node is not None and self.draft.constants.value(node) is not None

    def _named(self, node: Node) -> Iterator[Node]:
        scopes, file = self.draft.scopes, self.draft.file
        declared = scopes.resolve(node)
        if declared is None or declared.id in self._seen:
            return
        self._seen.add(declared.id)
        for value in self._values(declared):
            yield from self._deciding(value)
        for made, number in scopes.taking(declared):
            # A kernel's parameter comes from the launch; that of another function from its calls in this file, which
            # are followed.
            if "__global__" in file.of(made.node).partition("(")[0]:
                yield node
            for call in (cuda.above(mention, "call_expression") for mention in scopes.mentions.get(made.name, [])):
                if file.called(call) == made.name:
                    for given in cuda.arguments(call)[number : number + 1]:
                        yield from self._deciding(given)

    def _values(self, declared: Node) -> Iterator[Node]:
        """Yield what a variable is given, but for what a loop counts."""
        value = field_of(declared.parent, "value") if is_field(declared, "declarator", "init_declarator") else None
        if value is not None:
            yield value
        for use in self.draft.scopes.uses(declared):
            right = field_of(use.parent, "right") if is_field(use, "left", "assignment_expression") else None
            if right is not None:
                yield right


def condition(draft: Draft, xor: RowXor, lengths: Sequence[str]) -> list[Edit]:
    """Return the edit that says of which multiples rows must be long, above the tile; `lengths` as the source says."""
    named = " and ".join(dict.fromkeys(lengths))
    declared = draft.tile.roots[0].place.declared
    statement = cuda.above(declared, "declaration", "field_declaration")
    if not named:
        return []
    if statement is None:
        raise draft.unfit(declared, f"rows are as long as {named} says, and there is no place to say so")
    text, at = draft.file.text, draft.file.text.rfind(b"\n", 0, statement.start_byte) + 1
    indent = text[at : statement.start_byte].decode("utf-8", "surrogateescape")
    # The XOR changes bits base to base + bits - 1 of a column, so it stays within aligned groups of 2^(base + bits)
    # elements: a row must hold whole ones.
    least = 1 << (xor.base + xor.bits)
    said = f"{indent}// Columns are XORed with their row's number: {named} must be a multiple of {least}."
    if said.encode() in text:
        return []
    if indent.strip():  # the declaration is not the first in its line
        raise draft.unfit(declared, f"rows are as long as {named} says, and there is no place to say so")
    return [Edit(at, at, f"{said}{line_end(text, at)}")]


def composed(draft: Draft, reach: Reach, xor: RowXor) -> list[Edit]:
    """Return the edits that compose the layout; raise Unfit if no Swizzle of CuTe's does what the mapping does."""
    layout, swizzle = reach.layout, xor.swizzle
    # CuTe swizzles offsets from the tensor's own pointer: after a step, that is not where the pattern starts.
    if layout is None or swizzle is None or draft.moving(reach):
        raise draft.unfit(reach.node, f"{draft.quoted(reach.node)}: no Swizzle does that")
    prefix = "cute::" if b"using namespace cute" not in draft.file.text else ""
    return list(composition(layout.start_byte, layout.end_byte, prefix, swizzle))
