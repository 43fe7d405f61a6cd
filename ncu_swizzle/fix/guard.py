"""Whether a patch may be offered, as far as its source shows: see `ownership`, `extents` and `effects`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.accessors import RowXor, atom
from ncu_swizzle.fix.conditions import Columns
from ncu_swizzle.fix.cuda import PARAMETERS, field_of
from ncu_swizzle.fix.draft import Draft, Swapped, Unfit
from ncu_swizzle.fix.edits import Edit
from ncu_swizzle.fix.effects import harmless
from ncu_swizzle.fix.extents import Extents
from ncu_swizzle.fix.objects import fields_made, numbers, pointed
from ncu_swizzle.fix.ownership import Ownership
from ncu_swizzle.fix.scopes import Definition, declared_name
from ncu_swizzle.fix.webs import Reach, ReachedPlace
from ncu_swizzle.smem.swizzle import Padding

if TYPE_CHECKING:
    from tree_sitter import Node


class EditedUses:
    """What of a tile's source each edit is in."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.scopes, self.file = draft, draft.scopes, draft.file
        self.owned = Ownership(draft)
        self.calls = self.owned.calls

    def holding(self, edit: Edit) -> list[Reach]:  # noqa: PLR0912
        """Return the uses that an edit is in, none if it is in a declaration of the tile's; raise Unfit for others."""
        tile = self.draft.tile

        def within(node: Node | None) -> bool:
            return node is not None and node.start_byte <= edit.start and edit.end <= node.end_byte

        if uses := [reach for reach in tile.reaches if within(reach.node)]:
            # Uses nest, as in ``t[t[i]]``: the edit is in the innermost. Two may share a node, as those of ``(c ? a :
            # b)[i]``.
            size = min(reach.node.end_byte - reach.node.start_byte for reach in uses)
            return [reach for reach in uses if reach.node.end_byte - reach.node.start_byte == size]
        for reach in tile.reaches:  # what a function returns, where it is called: p + row * 32
            for step in reach.steps:
                statement = cuda.above(step.node, "return_statement")
                if statement is not None and within(step.node):
                    for name in (node for node in cuda.walk(statement) if node.type == "identifier"):
                        for place in self.owned.kept(self.owned.meant(name)):
                            self.owned.place(place)
                    return [reach]
        for reach in tile.reaches:  # what a view, or an API, is given beside the tile
            if reach.end is not None and reach.end.kept is not None and within(reach.node.parent):
                self._shape(reach.end)
                self.owned.place(reach.end)
                return [reach]
        for place in tile.places:
            kinds = ("declaration", "field_declaration", "expression_statement", *PARAMETERS)
            if within(cuda.above(place.declared, *kinds)):
                self.owned.place(place)
                return []
        for _, argument, macro in self.scopes.declaring:
            if within(macro.node):
                self._declaring(macro, argument)
                return []
        for alias in self.file.nodes("alias_declaration", "type_definition"):
            if within(alias):
                self._alias(alias)
                return []
        line = self.file.text.count(b"\n", 0, edit.start) + 1
        raise Unfit("the patch edits what was not followed from the tile", line)

    def operands(self, reach: Reach) -> None:
        """Show that what a use is indexed with is what it looks like: text of a macro may join with what is around it.

        ``t[x * 32 + COLUMN]`` with ``#define COLUMN r | 1`` is ``(x * 32 + r) | 1``: COLUMN is not an operand of it.
        """
        macro = self.scopes.macro(reach.node)
        for node in (n for step in reach.steps if step.node is not None for n in cuda.walk(step.node)):
            if node.type != "identifier":
                continue
            declared = self.scopes.resolve(node)
            for made in self.scopes.callables.get(self.file.of(node), []) if declared is None else ():
                text = re.sub(r"/\*.*?\*/|//.*", "", self.calls.text(made), flags=re.DOTALL)
                if made.node.type == "preproc_def" and atom(text) != text.strip():
                    quoted = self.draft.quoted(made.node)
                    raise self.draft.unfit(node, f"{made.name} is a macro without parentheses: {quoted}")
            closed = node.parent is not None and node.parent.type in ("parenthesized_expression", "argument_list")
            if macro is not None and declared is not None and not closed:
                self._bare_parameter(macro, declared)

    def _bare_parameter(self, macro: Definition, declared: Node) -> None:
        """Show that what a macro is given for a parameter without parentheses is one operand wherever it is used."""
        number = macro.takes(declared)
        for site in self.calls.expansions(macro) if number is not None else ():
            for given in cuda.arguments(site.parent)[number : number + 1] if number is not None else ():
                if atom(self.file.of(given)) != self.file.of(given).strip():
                    name = f"{self.file.of(declared)} of {macro.name}"
                    may_be = f"{name} has no parentheses, and may be {self.draft.quoted(given)}"
                    raise self.draft.unfit(given, may_be)

    def _declaring(self, macro: Definition, argument: Node) -> None:
        """Show that a macro only declares arrays of the tile."""
        self.calls.plain_macro(macro)
        roots = {root.place.declared.id for root in self.draft.tile.roots}
        declared = {call.id: given for call, given, made in self.scopes.declaring if made is macro}
        for node in self.calls.expansions(macro):
            statement = cuda.above(node, "expression_statement")
            given = declared.get(statement.id) if statement is not None else None
            if given is None or given.id not in roots:
                around = self.calls.around(node)
                raise self.draft.unfit(node, f"{around} declares another array than {self.file.of(argument)}")

    def _alias(self, alias: Node) -> None:
        """Show that only the tile, and pointers to its rows, are declared with an alias."""
        written = field_of(alias, "name") or field_of(alias, "declarator")
        parts = cuda.walk(written) if written is not None else ()
        named = next((node for node in parts if node.type == "type_identifier"), None)
        if named is None:
            raise self.draft.unfit(alias, f"{self.draft.quoted(alias)} is not understood")
        for node in self.scopes.mentions.get(self.file.of(named), []):
            if cuda.inside(node, alias):
                continue
            declarators = node.parent.children_by_field_name("declarator") if node.parent is not None else []
            if not declarators or not all(self.owned.kept(declared_name(declarator)) for declarator in declarators):
                raise self.draft.unfit(node, f"{self.file.of(node)} is the type of more than this tile")

    def _shape(self, place: ReachedPlace) -> None:
        """Show that a view's numbers, such as its rows' length, are used for nothing but its own indices."""
        for reach in self.draft.tile.web.to(place):
            made = fields_made(self.scopes, reach.node.parent)
            for name in numbers(self.file, made.struct) if made is not None else ():
                for node in self.scopes.mentions.get(name, []):
                    if made is not None:
                        self._of_shape(node, place, made.struct)

    def _of_shape(self, node: Node, place: ReachedPlace, struct: Node, depth: int = 3) -> None:
        holder = node.parent
        if holder is not None and holder.type == "field_expression" and not self.file.of(holder).startswith("this"):
            if not any(cuda.inside(node, reach.node) and reach.end is None for reach in self.draft.tile.reaches):
                quoted = self.draft.quoted(holder)
                raise self.draft.unfit(node, f"{quoted} is used for more than indices of {place.name}")
            return
        function = cuda.above(node, "function_definition")
        if function is None or not cuda.same(self.file.class_of(function), struct):
            return
        for method in (made for made in self.scopes.definitions if cuda.same(made.node, function)):
            does = pointed(self.file, method, place.pointer)
            index = does.index if does is not None else None
            if self.owned.constructor(method) or (index is not None and cuda.inside(node, index)):
                continue
            if does is None or does.used or depth == 0:
                text = self.file.of(node)
                raise self.draft.unfit(node, f"{text} of {place.name} is used for more than its indices")
            for call in self.scopes.mentions.get(method.name, []):  # of a method that computes the index
                if not cuda.inside(call, method.node) and not self.calls.declares(call, method):
                    self._of_shape(call, place, struct, depth - 1)


def unobstructed(draft: Draft, transform: RowXor | Padding | Swapped) -> None:
    """Raise Unfit if a use of the tile was not followed."""
    for obstacle in draft.tile.obstacles:
        if not obstacle.length or not isinstance(transform, RowXor):
            raise Unfit(obstacle.reason, obstacle.line)


def guard(draft: Draft, transform: RowXor | Padding | Swapped, edits: Sequence[Edit], accessors: bool) -> None:
    """Raise Unfit unless the source shows that edits change the layout of a tile, and nothing else.

    With `accessors`, all indices of a flat array go through a function.
    """
    uses = EditedUses(draft)
    edited: dict[int, Reach] = {}
    for edit in edits:
        if edit.start == edit.end and edit.text.lstrip().startswith("//"):
            continue  # a function of our own, or a comment
        edited.update((id(reach), reach) for reach in uses.holding(edit))
    for reach in edited.values():
        uses.owned.reach(reach)
        uses.operands(reach)
    if not isinstance(transform, Swapped):
        Columns(draft).stay(transform, accessors)
    # Padding scales a factor or wraps the whole index: each operand is still evaluated once. An XOR repeats the row,
    # and swapping changes the order.
    harmless(draft, edits, list(edited.values()), repeats=not isinstance(transform, Padding))
    Extents(draft, transform, accessors).unseen()
