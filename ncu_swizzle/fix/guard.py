"""Whether a patch may be offered, as far as its source shows: see `ownership`, `extents` and `effects`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda, objects
from ncu_swizzle.fix.accessors import RowXor, atom
from ncu_swizzle.fix.conditions import Columns
from ncu_swizzle.fix.cuda import Reach, ReachedPlace
from ncu_swizzle.fix.draft import Draft, Swapped, Unfit
from ncu_swizzle.fix.effects import harmless
from ncu_swizzle.fix.expressions import Edit
from ncu_swizzle.fix.extents import Extents
from ncu_swizzle.fix.objects import fields_made, pointed
from ncu_swizzle.fix.ownership import PARAMETERS, Ownership
from ncu_swizzle.fix.scopes import Definition, declared_name
from ncu_swizzle.smem.swizzle import Padding

if TYPE_CHECKING:
    from tree_sitter import Node


class EditedUses(Ownership):
    """What of a tile's source each edit is in."""

    def holding(self, edit: Edit) -> list[Reach]:  # noqa: PLR0912
        """Return the uses that an edit is in, none if it is in a declaration of the tile's; raise Unfit for others."""
        tile = self.draft.tile
        if found := [r for r in tile.reaches if r.node.start_byte <= edit.start and edit.end <= r.node.end_byte]:
            size = min(reach.node.end_byte - reach.node.start_byte for reach in found)
            return [reach for reach in found if reach.node.end_byte - reach.node.start_byte == size]
        for reach in tile.reaches:  # what a function returns, where it is called: p + row * 32
            for step in (step.node for step in reach.steps if step.node is not None):
                statement = cuda.above(step, "return_statement")
                if step.start_byte <= edit.start and edit.end <= step.end_byte and statement is not None:
                    for use in (
                        n for n in cuda.walk(statement) if n.type == "identifier" and self._meant(n) is not None
                    ):
                        declared = self._meant(use)
                        for place in self._kept.get(declared.id, []) if declared is not None else []:
                            self.place(place)
                    return [reach]
        for reach in tile.reaches:  # what a view, or an API, is given beside the tile
            listed = reach.node.parent
            within = listed is not None and listed.start_byte <= edit.start and edit.end <= listed.end_byte
            if within and reach.end is not None and reach.end.kept is not None:
                self._shape(reach.end)
                self.place(reach.end)
                return [reach]
        for place in tile.places:
            holder = cuda.above(place.declared, "declaration", "field_declaration", "expression_statement", *PARAMETERS)
            if holder is not None and holder.start_byte <= edit.start and edit.end <= holder.end_byte:
                self.place(place)
                return []
        for _, argument, macro in self.scopes.declaring:
            if macro.node.start_byte <= edit.start and edit.end <= macro.node.end_byte:
                self._declaring(macro, argument)
                return []
        for alias in self.file.nodes("alias_declaration", "type_definition"):
            if alias.start_byte <= edit.start and edit.end <= alias.end_byte:
                self._alias(alias)
                return []
        line = self.file.text.count(b"\n", 0, edit.start) + 1
        raise Unfit("the patch edits what was not followed from the tile", line)

    def operands(self, reach: Reach) -> None:
        """Show that what a use is indexed with is what it looks like: text of a macro may join with what is around it.

        ``t[x * 32 + COLUMN]`` with ``#define COLUMN r | 1`` is ``(x * 32 + r) | 1``, of which COLUMN is no operand.
        """
        macro = self.scopes.macro(reach.node)
        for node in (n for step in reach.steps if step.node is not None for n in cuda.walk(step.node)):
            if node.type != "identifier":
                continue
            declared = self.scopes.resolve(node)
            plain = [m for m in self.scopes.callables.get(self.file.of(node), []) if m.node.type == "preproc_def"]
            for made in plain if declared is None else ():
                text = re.sub(r"/\*.*?\*/|//.*", "", self._text(made), flags=re.DOTALL)
                if atom(text) != text.strip():
                    raise self._refused(
                        node, f"{made.name} is a macro without parentheses: {self.draft.quoted(made.node)}"
                    )
            closed = node.parent is not None and node.parent.type in ("parenthesized_expression", "argument_list")
            if macro is not None and declared is not None and not closed:
                self._bare_parameter(macro, declared)

    def _bare_parameter(self, macro: Definition, declared: Node) -> None:
        """Show that what a macro is given for a parameter without parentheses is one operand wherever it is used."""
        numbers = [number for number, each in enumerate(macro.parameters) if cuda.same(each, declared)]
        for site in self._sites(macro) if numbers else ():
            listed = cuda.field_of(site.parent, "arguments") if site.parent is not None else None
            for given in listed.named_children[numbers[0] : numbers[0] + 1] if listed is not None else ():
                if atom(self.file.of(given)) != self.file.of(given).strip():
                    name = f"{self.file.of(declared)} of {macro.name}"
                    raise self._refused(given, f"{name} has no parentheses, and may be {self.draft.quoted(given)}")

    def _declaring(self, macro: Definition, argument: Node) -> None:
        """Show that a macro only declares arrays of the tile."""
        self._one_macro(macro)
        roots = {root.place.declared.id for root in self.draft.tile.roots}
        arguments = {call.id: given for call, given, made in self.scopes.declaring if made is macro}
        for node in self._sites(macro):
            statement = cuda.above(node, "expression_statement")
            given = arguments.get(statement.id) if statement is not None else None
            if given is None or given.id not in roots:
                raise self._refused(node, f"{self._around(node)} declares another array than {self.file.of(argument)}")

    def _alias(self, alias: Node) -> None:
        """Show that only the tile, and pointers to its rows, are declared with an alias."""
        written = cuda.field_of(alias, "name") or cuda.field_of(alias, "declarator")
        named = (
            next((n for n in cuda.walk(written) if n.type == "type_identifier"), None) if written is not None else None
        )
        if named is None:
            raise self._refused(alias, f"{self.draft.quoted(alias)} is not understood")
        for node in self.scopes.mentions.get(self.file.of(named), []):
            if cuda.inside(node, alias):
                continue
            holder = node.parent
            declarators = holder.children_by_field_name("declarator") if holder is not None else []
            names = [declared_name(declarator) for declarator in declarators]
            if not names or any(name is None or name.id not in self._kept for name in names):
                raise self._refused(node, f"{self.file.of(node)} is the type of more than this tile")

    def _shape(self, place: ReachedPlace) -> None:
        """Show that a view's numbers, such as its rows' length, are used for nothing but its own indices."""
        made = [r for r in self.web.to(place) if r.node.parent is not None]
        for reach in made:
            found = fields_made(self.scopes, reach.node.parent) if reach.node.parent is not None else None
            for name in objects.numbers(self.file, found.struct) if found is not None else ():
                for node in self.scopes.mentions.get(name, []):
                    self._of_shape(node, place, found.struct) if found is not None else None

    def _of_shape(self, node: Node, place: ReachedPlace, struct: Node, depth: int = 3) -> None:
        holder = node.parent
        if holder is not None and holder.type == "field_expression" and not self.file.of(holder).startswith("this"):
            if not any(cuda.inside(node, reach.node) and reach.end is None for reach in self.draft.tile.reaches):
                raise self._refused(node, f"{self.draft.quoted(holder)} is used for more than indices of {place.name}")
            return
        function = cuda.above(node, "function_definition")
        if function is None or not cuda.same(self.file.class_of(function), struct):
            return
        for method in self._definitions(function):
            found = pointed(self.file, method, place.pointer)
            index = found.index if found is not None else None
            if self._constructor(method) or (index is not None and cuda.inside(node, index)):
                continue
            if found is None or found.used or depth == 0:
                raise self._refused(node, f"{self.file.of(node)} of {place.name} is used for more than its indices")
            for call in self.scopes.mentions.get(method.name, []):  # of a method that computes the index
                if not cuda.inside(call, method.node) and not self._declares(call, method):
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
        for reach in uses.holding(edit):
            edited[id(reach)] = reach
    for reach in edited.values():
        uses.reach(reach)
        uses.operands(reach)
    if not isinstance(transform, Swapped):
        Columns(draft).stay(transform, accessors)
    harmless(draft, edits, list(edited.values()), repeats=not isinstance(transform, Padding))
    Extents(draft, transform, accessors).unseen()
