"""What a program makes of a tile's layout besides indexing it: sizes, differences and comparisons of addresses.

Longer rows change what ``sizeof(tile)``, ``decltype(tile)`` and a template's deduced extents are; any mapping changes
the order of addresses, and what follows an element. A use of either is refused, and so is an access that is wider than
what the mapping keeps together, or that may run from one row into the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.fix import ptx
from ncu_swizzle.fix.cuda import CLASSES, NOTHING, Node
from ncu_swizzle.fix.draft import Draft, Swapped
from ncu_swizzle.fix.scopes import shared_declarations, sizes_of
from ncu_swizzle.fix.webs import BYTES, Reach, ReachedPlace, ReachStep
from ncu_swizzle.smem.swizzle import Padding, RowXor

MEASURING = ("sizeof_expression", "decltype", "alignof_expression", "offsetof_expression", "noexcept")
COMPARING = ("==", "!=", "<", ">", "<=", ">=", "<=>")
COPYING = re.compile(r"(__pipeline_)?memcpy(_async)?|memset|memmove")
STATEMENTS = ("expression_statement", "declaration", "compound_statement", "return_statement")
WITHIN = ("parenthesized_expression", "cast_expression", "pointer_expression")
GIVEN = ("subscript_argument_list", "argument_list", "lambda_capture_specifier", "init_declarator")
# What a name may stand in without a use that is followed: what it is compared with, or assigned, is looked at itself.
UNMOVED = (
    "return_statement", "expression_statement", "lambda_capture_specifier", "update_expression",
    "assignment_expression", "conditional_expression", "condition_clause", "comma_expression", "unary_expression",
    "binary_expression", "gnu_asm_output_operand",
)  # fmt: skip


@dataclass(eq=False)
class Extents:
    """The uses of one tile, and whether a mapping of it may be seen in them otherwise than by an index."""

    draft: Draft
    transform: RowXor | Padding | Swapped
    accessors: bool = False  # every index of a flat array goes through a function

    def __post_init__(self) -> None:
        self.scopes, self.file, self.tile = self.draft.scopes, self.draft.file, self.draft.tile
        self.resized = not isinstance(self.transform, RowXor)  # whether the tile's type changes
        self._rows: dict[int, bool] = {}  # whether pointers point to rows, by declared identifier
        # Bytes of a row whose length is padded; of other mappings, any number is a multiple of one.
        self.row = self.transform.every * self.draft.element_bytes if isinstance(self.transform, Padding) else 1
        self.within_rows = isinstance(self.transform, Padding) and not self.accessors

    def unseen(self) -> None:
        """Raise Unfit if the mapping may be seen."""
        self._roots()
        objects = (made.through for made in self.tile.web.members if made.place in self.tile.places)
        for place in dict.fromkeys((*self.tile.places, *objects)):
            for use in self.scopes.uses(place.keeper):
                self._use(use, place)
            self._in_macros(place)
            if self.resized:
                self._type(place)
        for reach in self.tile.reaches:
            if reach.end is None and not reach.layout and not reach.leading:
                self._width(reach)
            if self.within_rows:
                self._within_rows(reach)

    # ------------------------------------------------------------------------------------ arrays

    def _roots(self) -> None:
        """Raise Unfit if arrays that share a mapping differ, or one has another name."""
        shapes: dict[tuple[str, ...], ReachedPlace] = {}
        for place in (root.place for root in self.tile.roots if root.place.rank > 1):
            sizes = sizes_of(place.declared, self.file)[-2:]
            known = [(size, self.draft.constants.value(size)) for size in sizes]
            texts = ["".join(size.text.split()) if value is None else str(value) for size, value in known]
            shapes.setdefault(tuple(texts), place)
        if len(shapes) > 1:
            one, another = list(shapes.values())[:2]
            raise another.declared.unfit(f"{one.name} and {another.name} have other sizes, and share pointers")
        arrays = {root.array.declared.id for root in self.tile.roots}
        dynamic = [made for made in shared_declarations(self.scopes) if "extern" in made.statement.words]
        for declared in (made for made in dynamic if made.declared.id in arrays):
            for other in (made for made in dynamic if made.declared.id not in self.tile.web.places):
                if not self._separate(declared.statement, other.statement):
                    raise other.declared.unfit(f"{other.name} and {declared.name} are the same dynamic shared memory")

    def _separate(self, one: Node, other: Node) -> bool:
        """Return whether two declarations stand in two kernels, which never run in one block."""
        first, second = (node.above("function_definition") for node in (one, other))
        # All extern arrays of a kernel begin at the same byte: rows that grow in one would run into the other.
        return first is not second and all(
            "__global__" in function.text.partition("{")[0] for function in (first, second)
        )

    # ------------------------------------------------------------------------------------ uses

    def _use(self, use: Node, place: ReachedPlace) -> None:
        """Raise Unfit for a use of a name that measures, compares or is not followed."""
        # A name that a base class declares hides the one outside, and base classes are not searched.
        derived = any(child.type == "base_class_clause" for child in use.above(*CLASSES).children)
        if derived and not place.declared.above("compound_statement") and not place.member:
            raise use.unfit(f"{place.name} may be a member of a base class here")
        node, parent = use, use.parent
        while parent and parent.type not in STATEMENTS:
            if parent.type in MEASURING:
                if self.resized and not self._element(node.bare, place):
                    raise use.unfit(f"{parent.quoted()} changes with the tile's layout")
                return
            if parent.type == "binary_expression" and self._compares(parent, node, place):
                raise use.unfit(f"{parent.quoted()} compares addresses, which the mapping changes")
            if parent.type in GIVEN:
                break
            node, parent = parent, parent.parent
        measured = use.above(*MEASURING) if parent.type == "argument_list" else NOTHING
        if measured and self.resized:
            raise use.unfit(f"{measured.quoted()} may change with the tile's layout")
        if not self._followed(use, place):
            raise use.unfit(f"{use.parent.quoted()} uses {place.name} where it is not followed")

    def _in_macros(self, place: ReachedPlace) -> None:
        """Raise Unfit if a macro uses a name of the tile that is also one of other things: it is not followed there."""
        name = place.keeper.text
        for node in self.scopes.mentions.get(name, []):
            macro = self.scopes.macro(node) if node.type == "identifier" else None
            if macro is None or self.scopes.resolve(node):
                continue
            for site in self.scopes.mentions.get(macro.name, []):
                there = self.scopes.resolve(site, name)
                if self.scopes.macro(site) is not None or there is place.keeper:
                    raise site.unfit(f"{macro.name} uses {place.name}, and that is not its only meaning")

    def _element(self, node: Node, place: ReachedPlace) -> bool:
        """Return whether an expression is an element of a place, whose size stays, or a pointer."""
        subscripts = 0
        while node.type in ("subscript_expression", "pointer_expression"):
            if node.type == "pointer_expression" and not node.text.startswith("*"):
                return False
            subscripts += 1
            node = (node.part("argument") or node.named_children[0]).bare
        pointer = not place.array and place.rank == 1 and place.keeper.parent.type != "reference_declarator"
        return node.type == "identifier" and (subscripts >= place.rank or pointer)

    def _compares(self, node: Node, side: Node, place: ReachedPlace) -> bool:
        other = node.part("right" if side.is_part("left") else "left")
        if node.part("operator").text not in COMPARING:
            return False
        address = not self._element(side.bare, place) or side.bare.type == "identifier"
        null = other.type in ("null", "nullptr") or other.text in ("0", "NULL", "nullptr")
        return address and bool(place.rank) and not null and self._addressed(side, place)

    def _addressed(self, node: Node, place: ReachedPlace) -> bool:
        """Return whether an expression is an address of a place: fewer subscripts than lead to an element."""
        node, depth = node.bare, place.rank
        while node.type in ("subscript_expression", "pointer_expression", "binary_expression"):
            if node.type == "binary_expression":
                node = (node.part("left") or node).bare
                continue
            depth += 1 if node.type == "pointer_expression" and node.text.startswith("&") else -1
            node = (node.part("argument") or node.named_children[0]).bare
        return node.type == "identifier" and depth > 0

    def _followed(self, use: Node, place: ReachedPlace) -> bool:
        """Return whether a use is part of one that was followed, or one that does nothing."""
        if any(use.inside(reach.node) for reach in self.tile.web.reaches):
            return True
        if place.kept or not place.rank or any(m.through is place for m in self.tile.web.members):
            return True  # an object: its other members
        harmless = use.out_of(*WITHIN).parent.type in (*UNMOVED, *MEASURING)
        return harmless or bool(use.above("return_statement", *MEASURING))

    # ------------------------------------------------------------------------------------ types

    def _type(self, place: ReachedPlace) -> None:
        """Raise Unfit if the type of a place, or what a template deduces from it, is used for anything else."""
        holder = place.declared.above("parameter_declaration", "declaration", "field_declaration")
        template = place.declared.above("template_declaration")
        listed = template.part("parameters")
        if not holder:
            return
        if listed and holder.type == "parameter_declaration" and place.rank > 1:
            of_template = {n.text for n in listed.walk() if n.type in ("identifier", "type_identifier")}
            sizes = (n for size in sizes_of(place.declared, self.file) for n in size.walk())
            names = {n.text for n in sizes if n.type == "identifier"} & of_template
            for node in (node for name in names for node in self.scopes.mentions.get(name, [])):
                apart = not node.inside(holder) and not node.inside(listed)
                in_index = any(node.inside(reach.node) and reach.end is None for reach in self.tile.reaches)
                if node.inside(template) and apart and in_index and self.accessors:  # padded(r * L + c): L grows, too
                    raise node.unfit(f"{node.text} is deduced from the tile, and grows with its rows")
                if node.inside(template) and apart and not in_index:
                    raise node.unfit(f"{node.text} is deduced from the tile, and used for more than its indices")
        if place.member and (struct := place.declared.above(*CLASSES)):
            self._measured(self._holding(struct))
        if place.rank and not place.array and not place.member:
            return
        type_ = holder.part("type")
        object_ = any(member.through is place for member in self.tile.web.members)
        if type_.type == "type_identifier" and object_:
            self._measured({type_.text})

    def _holding(self, struct: Node) -> set[str]:
        """Return the names of a class, and of those that have it as a member."""
        names, waiting = set[str](), [struct]
        while waiting:
            fresh = self.file.class_names(waiting.pop()) - names
            names |= fresh
            for node in self.file.nodes("field_declaration", "base_class_clause"):
                outer = node.above(*CLASSES)
                if outer and fresh & set(re.findall(r"\w+", node.text)):
                    waiting.append(outer)
        return names

    def _measured(self, names: set[str]) -> None:
        for node in (node for name in names for node in self.scopes.mentions.get(name, [])):
            measured, call = node.above(*MEASURING), node.above("call_expression")
            if not measured and call.part("function").text == "offsetof":
                measured = call
            if measured:
                raise node.unfit(f"{measured.quoted()} changes with the tile's layout")

    # ------------------------------------------------------------------------------------ accesses

    def _width(self, reach: Reach) -> None:
        """Raise Unfit if an access is wider than what the mapping keeps together."""
        bytes_, element = self._bytes(reach), self.draft.element_bytes
        # An access may move as one piece only if what it covers does: after padding, rows begin at multiples of every +
        # by elements; an XOR keeps the lowest `base` bits of a column.
        match self.transform:
            case Padding(every=every, by=by):
                together = [every * element, by * element]
            case RowXor(base=base):
                together = [element << base]
            case _:
                together = [self.draft.declared_bytes]
        indexed = self.draft.ends(reach.start) or self.draft.moving(reach) or reach.steps
        if indexed and any(size % bytes_ for size in together):
            raise reach.node.unfit(f"{reach.node.quoted()}: its {bytes_} bytes would be split")

    def _bytes(self, reach: Reach) -> int:
        """Return how many bytes an access has."""
        node = reach.node
        if node.parent.type == "gnu_asm_input_operand":
            return ptx.width(node.parent)
        name = node.called if node.type == "call_expression" else ""
        if COPYING.fullmatch(name):
            given = node.arguments
            # __pipeline_memcpy_async(to, from, size, zfill): the size is not last. Where a barrier is last, its value
            # is unknown, and the copy is refused.
            size = given[2 if name == "__pipeline_memcpy_async" else -1] if given else NOTHING
            value = self.draft.constants.value(size)
            if not value:
                raise node.unfit(f"{node.quoted()}: how many bytes it copies is not known")
            return value
        return 1 if reach.unit == BYTES else self.draft.size(reach.unit, node)

    def _within_rows(self, reach: Reach) -> None:
        """Raise Unfit if an index may run from one row into the next, which is longer now.

        The launch may not come here, so that its trace would not show it.
        """
        rank, steps, moving = reach.start.rank, reach.steps, self.draft.moving(reach)
        if rank > 1:
            leading = steps[: rank - 1] if len(steps) >= rank else steps
            plain = all(step.subscript and step.rank == rank - number for number, step in enumerate(leading))
            # Where rows lie behind each other in the last dimension, its subscript counts elements of all of them.
            first = rank - 1 if self.draft.inner(reach.start, self.row // self.draft.element_bytes) else rank
            apart = [step for step in steps[first:] if step in moving]
            if not plain or any(term.variable for step in apart for term in self.draft.terms(step)):
                self._row_is_seen(reach, apart or steps)
        elif moving and not self._points_to_row(reach.start):
            self._row_is_seen(reach, moving)

    def _row_is_seen(self, reach: Reach, steps: Sequence[ReachStep]) -> None:
        """Raise Unfit if no stride of some steps is a row, so that they may leave it."""
        counted, variable, constant = False, False, 0
        for step in (step for step in reach.steps if step in steps and step.node):
            unit = self.draft.size(step.unit, reach.node)
            for term in self.draft.terms(step):
                stride = abs(term.constant) * unit
                counted = counted or (stride > 0 and stride % self.row == 0)
                variable = variable or (bool(term.variable) and (stride == 0 or stride % self.row != 0))
                constant += 0 if term.variable else stride
        if not counted and (variable or constant >= self.row):
            quoted = reach.node.quoted()
            raise reach.node.unfit(f"{quoted}: the row's length is not to be seen in it")

    def _points_to_row(self, place: ReachedPlace) -> bool:
        """Return whether a pointer always points into one row."""
        if place.declared.id not in self._rows:
            self._rows[place.declared.id] = True  # made from itself: the other ways to it decide
            ways = self.tile.to(place)
            root = place.array or (place.member and place.rank) or any(r.place is place for r in self.tile.roots)
            self._rows[place.declared.id] = not root and bool(ways) and all(self._into_row(reach) for reach in ways)
        return self._rows[place.declared.id]

    def _into_row(self, reach: Reach) -> bool:
        if reach.start.rank > 1:
            return bool(reach.steps) and all(step.subscript for step in reach.steps[: reach.start.rank - 1])
        for step in reach.steps:
            for term in self.draft.terms(step):
                if term.constant and term.constant * self.draft.size(step.unit, reach.node) % self.row == 0:
                    return True
        return self._points_to_row(reach.start)
