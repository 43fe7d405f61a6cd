"""Whether a patch may be offered, as far as its source shows.

See `ownership`, `extents` and `effects`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.fix.accessors import RowXor, atom
from ncu_swizzle.fix.cuda import NOTHING, PARAMETERS, Node, Unfit
from ncu_swizzle.fix.deciding import Deciding
from ncu_swizzle.fix.draft import Draft, Swapped
from ncu_swizzle.fix.edits import Edit
from ncu_swizzle.fix.effects import harmless
from ncu_swizzle.fix.extents import Extents
from ncu_swizzle.fix.objects import fields_made, numbers, pointed
from ncu_swizzle.fix.ownership import Ownership
from ncu_swizzle.fix.scopes import Definition, declared_name
from ncu_swizzle.fix.webs import Reach, ReachedPlace
from ncu_swizzle.smem.swizzle import Padding


@dataclass(eq=False)
class Columns:
    """Whether a parameter of the kernel, or data, may move a flat index's column out of its row in another launch.

    In a flat array that is not a mistake: ``t[r * 32 + c - flag]`` is an element of the row before if c is 0. With the
    row apart from the column, it would be another element; a function of the whole index is right for all.
    """

    draft: Draft

    def stay(self, transform: RowXor | Padding, whole: bool) -> None:
        """Raise Unfit if a launch may decide a column; if `whole`, functions of whole indices are written."""
        columns = transform.columns if isinstance(transform, RowXor) else transform.every
        row = columns * self.draft.element_bytes
        deciding = Deciding(
            scopes=self.draft.scopes,
            constant=lambda node: self.draft.constants.value(node) is not None,
            indexing=lambda node: self.draft.indexing(node) is not None,
        )
        for reach in self.draft.tile.reaches:
            steps = self.draft.flat(reach, columns) if not reach.layout and not reach.leading else None
            if steps is None:
                # Past the subscripts, such as in (&t[1][0][0])[i] and *(t[r] + c), an index counts elements, too.
                past = [*reach.steps[reach.start.rank :], *(s for s in reach.steps if not s.subscript)]
                steps = tuple(step for step in self.draft.moving(reach) if step in past and step.rank == 1)
            elif whole and len(steps) == 1 and reach.end is None and self._at_start(reach.start):
                continue
            terms = [(t, self.draft.size(s.unit, reach.node)) for s in steps for t in self.draft.terms(s)]
            # A term whose stride is a multiple of the row's bytes moves from row to row; only the others move the
            # column.
            counting = [bool(t.constant) and t.constant * unit % row == 0 for t, unit in terms]
            for (term, _), counts in zip(terms, counting, strict=True):
                if counts:
                    continue
                for decides in (made for factor in term.variable for made in deciding.of(factor.node)):
                    raise reach.node.misfit(f": with another {decides.quoted()}, it may leave its row")

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


class EditedUses:
    """What of a tile's source each edit is in."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.scopes, self.file = draft, draft.scopes, draft.file
        self.owned = Ownership(draft)

    def holding(self, edit: Edit) -> list[Reach]:  # noqa: PLR0912
        """Return the uses that an edit is in, none if it is in a declaration of the tile's; raise Unfit for others."""
        tile = self.draft.tile

        def within(node: Node) -> bool:
            return bool(node) and node.start_byte <= edit.start and edit.end <= node.end_byte

        if uses := [reach for reach in tile.reaches if within(reach.node)]:
            # Uses nest, as in ``t[t[i]]``: the edit is in the innermost. Two may share a node, as those of ``(c ? a :
            # b)[i]``.
            size = min(reach.node.end_byte - reach.node.start_byte for reach in uses)
            return [reach for reach in uses if reach.node.end_byte - reach.node.start_byte == size]
        for reach in tile.reaches:  # what a function returns, where it is called: p + row * 32
            for step in reach.steps:
                statement = step.node.above("return_statement")
                if statement and within(step.node):
                    for name in (node for node in statement.walk() if node.type == "identifier"):
                        for place in self.owned.kept(self.owned.meant(name)):
                            self.owned.place(place)
                    return [reach]
        for reach in tile.reaches:  # what a view, or an API, is given beside the tile
            if reach.end and reach.end.kept and within(reach.node.parent):
                self._shape(reach.end)
                self.owned.place(reach.end)
                return [reach]
        for place in tile.places:
            kinds = ("declaration", "field_declaration", "expression_statement", *PARAMETERS)
            if within(place.declared.above(*kinds)):
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
        for node in (n for step in reach.steps for n in step.node.walk() if n.type == "identifier"):
            declared = self.scopes.resolve(node)
            for made in self.scopes.callables.get(node.text, []) if not declared else ():
                text = re.sub(r"/\*.*?\*/|//.*", "", self.owned.macro_text(made), flags=re.DOTALL)
                if made.node.type == "preproc_def" and atom(text) != text.strip():
                    raise node.unfit(f"{made.name} is a macro without parentheses: {made.node.quoted()}")
            if macro and declared and node.parent.type not in ("parenthesized_expression", "argument_list"):
                self._bare_parameter(macro, declared)

    def _bare_parameter(self, macro: Definition, declared: Node) -> None:
        """Show that what a macro is given for a parameter without parentheses is one operand wherever it is used."""
        number = macro.takes(declared)
        if number is None:
            return
        for given in (n for site in self.owned.expansions(macro) for n in site.parent.arguments[number : number + 1]):
            if atom(given.text) != given.text.strip():
                name = f"{declared.text} of {macro.name}"
                raise given.unfit(f"{name} has no parentheses, and may be {given.quoted()}")

    def _declaring(self, macro: Definition, argument: Node) -> None:
        """Show that a macro only declares arrays of the tile."""
        self.owned.plain_macro(macro)
        roots = {root.place.declared.id for root in self.draft.tile.roots}
        declared = {call.id: given for call, given, made in self.scopes.declaring if made is macro}
        for node in self.owned.expansions(macro):
            if declared.get(node.above("expression_statement").id, NOTHING).id not in roots:
                raise node.unfit(f"{self.owned.around(node)} declares another array than {argument.text}")

    def _alias(self, alias: Node) -> None:
        """Show that only the tile, and pointers to its rows, are declared with an alias."""
        named = next((n for n in alias.part("name", "declarator").walk() if n.type == "type_identifier"), NOTHING)
        if not named:
            raise alias.misfit(" is not understood")
        for node in self.scopes.mentions.get(named.text, []):
            if node.inside(alias):
                continue
            declarators = node.parent.every("declarator")
            if not declarators or not all(self.owned.kept(declared_name(declarator)) for declarator in declarators):
                raise node.unfit(f"{node.text} is the type of more than this tile")

    def _shape(self, place: ReachedPlace) -> None:
        """Show that a view's numbers, such as its rows' length, are used for nothing but its own indices."""
        for reach in self.draft.tile.web.to(place):
            made = fields_made(self.scopes, reach.node.parent)
            struct = made.struct if made else NOTHING
            for node in (node for name in numbers(struct) for node in self.scopes.mentions.get(name, [])):
                self._of_shape(node, place, struct)

    def _of_shape(self, node: Node, place: ReachedPlace, struct: Node, depth: int = 3) -> None:
        holder = node.parent
        if holder.type == "field_expression" and not holder.text.startswith("this"):
            if not any(node.inside(reach.node) and reach.end is None for reach in self.draft.tile.reaches):
                raise node.unfit(f"{holder.quoted()} is used for more than indices of {place.name}")
            return
        function = node.above("function_definition")
        if not function or self.file.class_of(function) is not struct:
            return
        for method in (made for made in self.scopes.definitions if made.node is function):
            does = pointed(method, place.pointer)
            if self.owned.constructor(method) or (does and node.inside(does.index)):
                continue
            if does is None or does.used or depth == 0:
                raise node.unfit(f"{node.text} of {place.name} is used for more than its indices")
            for call in self.scopes.mentions.get(method.name, []):  # of a method that computes the index
                if not call.inside(method.node) and not self.owned.declares(call, method):
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
