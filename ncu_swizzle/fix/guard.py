"""Whether a patch may be offered, as far as its source shows.

See `ownership`, `extents` and `effects`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ncu_swizzle.fix.accessors import RowXor, atom
from ncu_swizzle.fix.cuda import NOTHING, PARAMETERS, Node, Unfit
from ncu_swizzle.fix.draft import Draft, Swapped
from ncu_swizzle.fix.edits import Edit
from ncu_swizzle.fix.effects import FUNCTIONS, harmless
from ncu_swizzle.fix.extents import Extents
from ncu_swizzle.fix.objects import fields_made, numbers, pointed
from ncu_swizzle.fix.ownership import Ownership
from ncu_swizzle.fix.ranges import FAR, LOOPS, Range, Ranges
from ncu_swizzle.fix.scopes import Definition, declared_name, sizes_of
from ncu_swizzle.fix.sums import Term
from ncu_swizzle.fix.webs import Reach, ReachedPlace, ReachStep, SourceTile
from ncu_swizzle.smem.swizzle import Padding


@dataclass(eq=False)
class Columns:
    """Whether the column of an index may leave its row in another launch, or the index its part of the array.

    In a flat array that is not a mistake: ``t[r * 32 + c - flag]`` is an element of the row before if c is 0. With the
    row apart from the column, it would be another element; a function of the whole index is right for all. And
    ``a[i + 1024 * flag]`` is an element of b if ``float *b = a + 1024``, which has a mapping of its own, or none.
    """

    draft: Draft
    transform: RowXor | Padding
    _offsets: dict[tuple[int, bool], Range] = field(default_factory=dict)  # of places, by the declared identifier

    def __post_init__(self) -> None:
        draft, transform = self.draft, self.transform
        self.columns = transform.columns if isinstance(transform, RowXor) else transform.every
        self.row = self.columns * draft.element_bytes
        # Where the number of a row starts again at 0 in the midst of a period, it does so in each tile.
        again = isinstance(transform, RowXor) and transform.rows and not transform.repeats
        self.tile = transform.rows * self.row if isinstance(transform, RowXor) and again else 0
        self.ranges = Ranges(scopes=draft.scopes, constants=draft.source or draft.constants, block=draft.block)

    def stay(self, edits: Sequence[Edit]) -> None:
        """Raise Unfit if a column may leave its row, unless edits make the whole index the argument of a function."""
        wrapped = {edit.start for edit in edits if edit.start == edit.end and re.fullmatch(r"\w+\(", edit.text)}
        # The launch may make rows shorter, and more of them. Of an XOR, a comment says what they must be a multiple of.
        short = isinstance(self.transform, Padding) and self._rows_by_launch()
        for reach in self.draft.tile.reaches:
            self._in_last_dimension(reach)
            steps = self._counting(reach)
            whole = len(steps) == 1 and steps[0].node.start_byte in wrapped and self._at_start(reach.start)
            whole = whole and (reach.end is None or self.draft.ends(reach.end))
            if not whole and not self._by_length(reach, steps):
                self._within(reach, steps, self.draft.element_bytes if short else self.row, "its row")
            if self.tile and not whole and reach.end is None and self.draft.flat(reach, self.columns) is not None:
                self._within(reach, steps, self.tile, "its tile", rows=True)
        for tile in self._sharing():
            xor = self.transform if tile is self.draft.tile else None
            group = xor.group * self.draft.element_bytes if isinstance(xor, RowXor) else 1
            Columns(replace(self.draft, tile=tile), self.transform).apart(group)

    def _rows_by_launch(self) -> bool:
        """Return whether the launch says how long rows are; raise Unfit if some are as declared, or may be too many."""
        if self.draft.source is None:
            return False
        reaches = self.draft.tile.reaches
        used = [(reach, step, term) for reach in reaches for step in self._counting(reach)
                for term in self.draft.terms(step) if self._counts_rows(reach, step, term)]  # fmt: skip
        for reach in reaches if used else ():
            rows = [step for step in reach.steps if step.rank == 2 and step.node]
            if rows and not self.draft.zero(rows) and not self.draft.inner(reach.start, self.columns):
                raise reach.node.misfit(": its rows are as long as declared, and others as long as the launch says")
        for reach, step, term in used:
            if not self._are_padded(reach, step, term):
                raise reach.node.misfit(": with shorter rows, there may be more than are padded")
        return bool(used)

    def _are_padded(self, reach: Reach, step: ReachStep, term: Term) -> bool:
        """Return whether a row's number is less than how many are padded, however long the launch makes them."""
        sizes = [self.draft.constants.value(size) for size in sizes_of(self.draft.tile.roots[0].place.declared)[-2:]]
        padded = math.prod(size or 0 for size in sizes) // self.columns
        rows = abs(term.constant) * self.draft.size(step.unit, reach.node) // self.row
        row = self.ranges.number(rows)
        for factor in term.variable:
            row = self.ranges.combined("*", row, self.ranges.of(factor.node))
        # A row that is less than their length n: there are no more than the array has elements by n, nor than n.
        square = rows == len(term.variable) == 1 and self.ranges.below(term.variable[0].node.bare, self._is_length)
        return bool((row.high < padded).all()) or (square and self.columns <= padded)

    def _is_length(self, node: Node) -> bool:
        """Whether an expression is the length of rows that the launch decides."""
        source = self.draft.source
        return source is not None and self.draft.constants.value(node) == self.columns and source.value(node) is None

    def _in_last_dimension(self, reach: Reach) -> None:
        """Raise Unfit if the last subscript of an array leaves its row, which C++ forbids, and which is done.

        That is ``t[0][y * 32 + x]``, and ``((char *)t[0])[i]``, which C++ allows.
        """
        rank = reach.start.rank
        if rank < 2 or len(reach.steps) < rank or self.draft.inner(reach.start, self.columns):
            return
        step = reach.steps[rank - 1]
        if step.rank > 1 or not step.subscript or reach.steps[0].rank < rank:
            return
        if any(term.variable and self._counts_rows(reach, step, term) for term in self.draft.terms(step)):
            raise reach.node.misfit(": its last index counts rows")
        if self.draft.zero(reach.steps[rank - 2 : rank - 1]):  # t[0] stands for the whole array
            self._within(reach, (step,), self.row, "its row")
        if step.unit and self.draft.size(step.unit, reach.node) != self.draft.declared_bytes:
            self._within(reach, (step,), self.row, "its row")

    def _sharing(self) -> Sequence[SourceTile]:
        """Return the tiles that are parts of one array with this one, itself among them, if others are accessed."""
        arrays = {root.array for root in self.draft.tile.roots if not root.place.member}
        every = [t for t in self.draft.tile.web.tiles if any(root.array in arrays for root in t.roots)]
        used = [tile for tile in every if any(reach.end is None for reach in tile.reaches)]
        return used if any(tile is not self.draft.tile for tile in used) else ()

    def apart(self, group: int) -> None:
        """Raise Unfit if a use of the tile may lead to another part of its array; so many bytes move as one."""
        room = self._room(group)
        for reach in (reach for reach in self.draft.tile.reaches if reach.end is None):
            steps = () if reach.layout or reach.leading else self.draft.flat(reach, self.columns) or ()
            self._within(reach, steps, room, "its part of the array", rows=True)

    def _room(self, group: int) -> int:
        """Return the bytes, in whole groups, that a tile's part of its array has in every launch; or raise Unfit."""
        room = FAR
        behind = ((one, other) for one in self.draft.tile.roots for other in one.behind(self.draft.tile.web))
        for one, other in behind:
            self.ranges.unbounded.clear()
            distance = self.ranges.combined("-", self._start(other.place), self._start(one.place))
            least = int(distance.low.min()) // group * group
            if least <= 0:
                decides = " and ".join(node.quoted() for node in self.ranges.unbounded[:1]) or "only the launch"
                raise other.place.declared.unfit(f"{other.name} begins behind {one.name}, how far {decides} says")
            room = min(room, least)
        return room

    def _start(self, place: ReachedPlace) -> Range:
        """Return where in its array a place begins, in bytes."""
        if place.array:
            return self.ranges.number(0)
        made = [reach for reach in self.draft.tile.web.to(place) if not reach.advance]
        if len(made) != 1:
            return self.ranges.whole
        return self.ranges.combined("+", self._start(made[0].start), self._moved(made[0], made[0].steps, rows=True))

    def _within(self, reach: Reach, steps: Sequence[ReachStep], size: int, what: str, rows: bool = False) -> None:
        """Raise Unfit if a use may lead out of so many bytes; with `rows`, those of whole rows count too."""
        self.ranges.unbounded.clear()
        offset = self.ranges.combined("+", self._at(reach, rows), self._moved(reach, steps, rows))
        decides = [node.quoted() for node in self.ranges.unbounded[:1]]
        inside = (offset.low >= 0) & (offset.high < size) | offset.never
        if not (inside | ~self.ranges.reached(reach.node)).all():
            raise reach.node.misfit(f": {''.join(f'with another {name}, ' for name in decides)}it may leave {what}")

    def _by_length(self, reach: Reach, steps: Sequence[ReachStep]) -> bool:
        """Return whether the column is a name that is less than the rows' length, which a launch decides."""
        offset = self._at(reach, False)
        if self.draft.source is None or offset.low.any() or offset.high.any():
            return False
        terms = ((step, term) for step in steps for term in self.draft.terms(step))
        columns = [term for step, term in terms if not self._counts_rows(reach, step, term)]
        if len(columns) != 1 or columns[0].negative or columns[0].constant != 1 or len(columns[0].variable) != 1:
            return False

        name = columns[0].variable[0].node
        return bool((self.ranges.of(name).low >= 0).all()) and self.ranges.below(name, self._is_length)

    def _counting(self, reach: Reach) -> tuple[ReachStep, ...]:
        """Return the steps that count elements, over which rows lie behind each other."""
        steps = self.draft.flat(reach, self.columns) if not reach.layout and not reach.leading else None
        if steps is not None:
            return steps
        # Past the subscripts, such as in (&t[1][0][0])[i] and *(t[r] + c), an index counts elements, too; the last
        # subscript alone stays in its row, as C++ has it.
        rank, moving = reach.start.rank, self.draft.moving(reach)
        past = [*reach.steps[rank:], *(step for step in reach.steps if not step.subscript)]
        last = reach.steps[rank - 1 : rank] if past or reach.end is not None else ()
        return tuple(step for step in moving if step.rank == 1 and step in (*last, *past))

    def _counts_rows(self, reach: Reach, step: ReachStep, term: Term) -> bool:
        """Return whether a product moves from row to row: of its stride, a row's length is a factor in every launch."""
        stride, source = term.constant * self.draft.size(step.unit, reach.node), self.draft.source
        by_launch = source is None or any(f.value is not None and source.value(f.node) is None for f in term.factors)
        return bool(stride) and stride % self.row == 0 and by_launch

    def _moved(self, reach: Reach, steps: Sequence[ReachStep], rows: bool) -> Range:
        """Return the bytes that steps add within a row, or with `rows` in all."""
        total = self.ranges.number(0)
        for step, term in ((made, term) for made in steps for term in self.draft.terms(made)):
            if not rows and self._counts_rows(reach, step, term):
                continue
            product = self.ranges.number(term.constant * self.draft.size(step.unit, reach.node))
            for factor in term.variable:
                value = replace(self.ranges.of(factor.node), signed=None)
                product = self.ranges.combined("*", product, value)
            total = self.ranges.combined("-" if term.negative else "+", total, product)
        return total

    def _at(self, reach: Reach, rows: bool) -> Range:
        """Return where in a row, or with `rows` in its part of the array, a use finds its place, in bytes."""
        offset = self._offset(reach.start, rows)
        for advance in self.draft.tile.to(reach.start, advances=True):
            moved = self._advanced(advance, rows)
            if advance is not reach and (moved.low.any() or moved.high.any()):
                times = self._times(advance, reach.node)
                offset = self.ranges.combined("+", offset, self.ranges.combined("*", moved, times))
        return offset

    def _advanced(self, advance: Reach, rows: bool) -> Range:
        """Return the bytes by which a place is moved once, as `_moved` does."""
        if advance.node.type != "update_expression":
            return self._moved(advance, self._counting(advance), rows)
        size = self.draft.size(advance.steps[-1].unit, advance.node)
        return self.ranges.number(size if "++" in advance.node.text else -size)

    def _times(self, advance: Reach, use: Node) -> Range:
        """Return how often a place has been moved where it is used: at most as often as the loops go round."""
        node, loops = advance.node, list[Node]()
        function = node.above(*FUNCTIONS)
        again = any(below.type == "goto_statement" for below in function.walk())
        if not function or again or advance.start.declared.above(*FUNCTIONS) is not function:
            return self.ranges.whole  # a lambda, or a macro, is where it is called as often as it is
        while (loop := (loops or [node])[-1].above(*LOOPS)) and not advance.start.declared.inside(loop):
            loops.append(loop)
        rounds = self.ranges.number(1)
        for loop in loops:
            rounds = self.ranges.combined("*", rounds, self.ranges.rounds(loop))
        # Before it is moved in a round, it has been in those before; ``*p++`` accesses where p was.
        postfix = node.inside(use) and node.type == "update_expression" and node.children[0] is node.part("argument")
        before = postfix or use.end_byte <= node.start_byte or (loops and node.inside(loops[0].part("update")))
        if loops and use.inside(loops[0].part("body")) and before:
            rounds = self.ranges.combined("-", rounds, self.ranges.number(1))
        return replace(rounds, low=np.zeros_like(rounds.low))

    def _offset(self, place: ReachedPlace, rows: bool) -> Range:
        """Return where in a row, or with `rows` in its part of the array, a place begins, in bytes."""
        if any(root.place is place for root in self.draft.tile.roots):
            return self.ranges.number(0)
        key = place.declared.id, rows
        if key not in self._offsets:
            self._offsets[key] = found = self.ranges.nowhere  # the other ways to it decide
            for reach in (reach for reach in self.draft.tile.to(place) if reach.start is not place):
                moved = self._moved(reach, self._counting(reach), rows)
                found = found.joined(self.ranges.combined("+", self._at(reach, rows), moved))
            for reach in (reach for reach in self.draft.tile.to(place) if reach.start is place):  # p = p + 1
                moved = self._moved(reach, self._counting(reach), rows)
                found = found if not (moved.low.any() or moved.high.any()) else self.ranges.whole
            self._offsets[key] = found
        return self._offsets[key]

    def _at_start(self, place: ReachedPlace, within: frozenset[int] = frozenset()) -> bool:
        """Whether a place is the start of the tile: an index from there is that of the whole tile."""
        if any(root.place is place for root in self.draft.tile.roots):
            return True
        if place.declared.id in within:
            return True  # the other ways to it decide
        return all(
            self.draft.zero([step for step in reach.steps if step.node])
            and self._at_start(reach.start, within | {place.declared.id})
            for reach in self.draft.tile.reaches
            if reach.end is place
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
                text = re.sub(r"/\*.*?(?:\*/|\Z)|//.*", "", self.owned.macro_text(made), flags=re.DOTALL)
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
        fits = False
        if obstacle.length and isinstance(transform, RowXor):
            length = draft.constants.value(obstacle.row) if obstacle.row else None
            row = length and length * draft.size(obstacle.unit, obstacle.row)
            fits = not obstacle.row or row == transform.columns * draft.element_bytes
        if not fits:
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
    # Padding scales a factor or wraps the whole index: each operand is still evaluated once. An XOR repeats the row,
    # and swapping changes the order.
    harmless(draft, edits, list(edited.values()), repeats=not isinstance(transform, Padding))
    Extents(draft, transform, accessors).unseen()
    if not isinstance(transform, Swapped):
        Columns(draft, transform).stay(edits)
