"""What a program makes of a tile's layout besides indexing it: sizes, differences and comparisons of addresses.

Longer rows change what ``sizeof(tile)``, ``decltype(tile)`` and a template's deduced extents are; any mapping changes
the order of addresses, and what follows an element. A use of either is refused, and so is an access that is wider than
what the mapping keeps together, or that may run from one row into the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.accessors import RowXor
from ncu_swizzle.fix.cuda import CLASSES, field_of
from ncu_swizzle.fix.draft import Draft, Swapped
from ncu_swizzle.fix.scopes import shared_declarations, sizes_of
from ncu_swizzle.fix.webs import BYTES, Reach, ReachedPlace, ReachStep
from ncu_swizzle.smem.swizzle import Padding

if TYPE_CHECKING:
    from tree_sitter import Node

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
WIDEST = 16  # bytes that one instruction accesses


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
        padded = isinstance(self.transform, Padding)
        self.row = self.transform.every * self.draft.element_bytes if isinstance(self.transform, Padding) else 1
        self.within_rows = padded and not self.accessors

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
            if reach.end is None and reach.layout is None and reach.leading is None:
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
            texts = ["".join(self.file.of(size).split()) if value is None else str(value) for size, value in known]
            shapes.setdefault(tuple(texts), place)
        if len(shapes) > 1:
            one, another = list(shapes.values())[:2]
            raise self._refused(another.declared, f"{one.name} and {another.name} have other sizes, and share pointers")
        arrays = {root.array.declared.id for root in self.tile.roots}
        dynamic = [made for made in shared_declarations(self.scopes) if "extern" in self.file.words(made.statement)]
        for declared in (made for made in dynamic if made.declared.id in arrays):
            for other in (made for made in dynamic if made.declared.id not in self.tile.web.places):
                if not self._separate(declared.statement, other.statement):
                    names = f"{other.name} and {declared.name}"
                    raise self._refused(other.declared, f"{names} are the same dynamic shared memory")

    def _separate(self, one: Node, other: Node) -> bool:
        """Return whether two declarations stand in two kernels, which never run in one block."""
        first, second = (cuda.above(node, "function_definition") for node in (one, other))
        # All extern arrays of a kernel begin at the same byte: rows that grow in one would run into the other.
        if first is None or second is None or cuda.same(first, second):
            return False
        return all("__global__" in self.file.of(function).partition("{")[0] for function in (first, second))

    # ------------------------------------------------------------------------------------ uses

    def _use(self, use: Node, place: ReachedPlace) -> None:
        """Raise Unfit for a use of a name that measures, compares or is not followed."""
        struct, quoted = cuda.above(use, *CLASSES), self.draft.quoted
        # A name that a base class declares hides the one outside, and base classes are not searched.
        derived = struct is not None and any(child.type == "base_class_clause" for child in struct.children)
        if derived and cuda.above(place.declared, "compound_statement") is None and not place.member:
            raise self._refused(use, f"{place.name} may be a member of a base class here")
        node, parent = use, use.parent
        while parent is not None and parent.type not in STATEMENTS:
            if parent.type in MEASURING:
                if self.resized and not self._element(cuda.bare(node), place):
                    raise self._refused(use, f"{quoted(parent)} changes with the tile's layout")
                return
            if parent.type == "binary_expression" and self._compares(parent, node, place):
                raise self._refused(use, f"{quoted(parent)} compares addresses, which the mapping changes")
            if parent.type in GIVEN:
                break
            node, parent = parent, parent.parent
        measured = cuda.above(use, *MEASURING) if parent is not None and parent.type == "argument_list" else None
        if measured is not None and self.resized:
            raise self._refused(use, f"{quoted(measured)} may change with the tile's layout")
        if not self._followed(use, place):
            raise self._refused(use, f"{quoted(use.parent or use)} uses {place.name} where it is not followed")

    def _in_macros(self, place: ReachedPlace) -> None:
        """Raise Unfit if a macro uses a name of the tile that is also one of other things: it is not followed there."""
        name = self.file.of(place.keeper)
        for node in self.scopes.mentions.get(name, []):
            macro = self.scopes.macro(node) if node.type == "identifier" else None
            if macro is None or self.scopes.resolve(node) is not None:
                continue
            for site in self.scopes.mentions.get(macro.name, []):
                there = self.scopes.resolve(site, name)
                if self.scopes.macro(site) is not None or cuda.same(there, place.keeper):
                    raise self._refused(site, f"{macro.name} uses {place.name}, and that is not its only meaning")

    def _element(self, node: Node, place: ReachedPlace) -> bool:
        """Return whether an expression is an element of a place, whose size stays, or a pointer."""
        subscripts = 0
        while node.type in ("subscript_expression", "pointer_expression"):
            if node.type == "pointer_expression" and not self.file.of(node).startswith("*"):
                return False
            subscripts += 1
            node = cuda.bare(field_of(node, "argument") or node.named_children[0])
        holder = place.keeper.parent
        reference = holder is not None and holder.type == "reference_declarator"
        pointer = not place.array and place.rank == 1 and not reference
        return node.type == "identifier" and (subscripts >= place.rank or pointer)

    def _compares(self, node: Node, side: Node, place: ReachedPlace) -> bool:
        other = field_of(node, "right" if cuda.is_field(side, "left") else "left")
        if other is None or self.file.of(field_of(node, "operator")) not in COMPARING:
            return False
        address = not self._element(cuda.bare(side), place) or cuda.bare(side).type == "identifier"
        null = other.type in ("null", "nullptr") or self.file.of(other) in ("0", "NULL", "nullptr")
        return address and bool(place.rank) and not null and self._addressed(side, place)

    def _addressed(self, node: Node, place: ReachedPlace) -> bool:
        """Return whether an expression is an address of a place: fewer subscripts than lead to an element."""
        node, depth = cuda.bare(node), place.rank
        while node.type in ("subscript_expression", "pointer_expression", "binary_expression"):
            if node.type == "binary_expression":
                node = cuda.bare(field_of(node, "left") or node)
                continue
            depth += 1 if node.type == "pointer_expression" and self.file.of(node).startswith("&") else -1
            node = cuda.bare(field_of(node, "argument") or node.named_children[0])
        return node.type == "identifier" and depth > 0

    def _followed(self, use: Node, place: ReachedPlace) -> bool:
        """Return whether a use is part of one that was followed, or one that does nothing."""
        if any(cuda.inside(use, reach.node) for reach in self.tile.web.reaches):
            return True
        if place.kept is not None or not place.rank or any(m.through is place for m in self.tile.web.members):
            return True  # an object: its other members
        holder = cuda.out_of(use, *WITHIN).parent
        harmless = holder is not None and holder.type in (*UNMOVED, *MEASURING)
        return harmless or cuda.above(use, "return_statement", *MEASURING) is not None

    # ------------------------------------------------------------------------------------ types

    def _type(self, place: ReachedPlace) -> None:
        """Raise Unfit if the type of a place, or what a template deduces from it, is used for anything else."""
        holder = cuda.above(place.declared, "parameter_declaration", "declaration", "field_declaration")
        template = cuda.above(place.declared, "template_declaration")
        listed = field_of(template, "parameters")
        if holder is None:
            return
        if template is not None and listed is not None and holder.type == "parameter_declaration" and place.rank > 1:
            of_template = {self.file.of(n) for n in cuda.walk(listed) if n.type in ("identifier", "type_identifier")}
            sizes = (n for size in sizes_of(place.declared, self.file) for n in cuda.walk(size))
            names = {self.file.of(n) for n in sizes if n.type == "identifier"} & of_template
            for node in (node for name in names for node in self.scopes.mentions.get(name, [])):
                apart = not cuda.inside(node, holder) and not cuda.inside(node, listed)
                in_index = any(cuda.inside(node, reach.node) and reach.end is None for reach in self.tile.reaches)
                if cuda.inside(node, template) and apart and not in_index:
                    deduced = f"{self.file.of(node)} is deduced from the tile, and used for more than its indices"
                    raise self._refused(node, deduced)
        struct = cuda.above(place.declared, *CLASSES) if place.member else None
        if struct is not None:
            self._measured(self._holding(struct))
        if place.rank and not place.array and not place.member:
            return
        type_ = field_of(holder, "type")
        object_ = any(member.through is place for member in self.tile.web.members)
        if type_ is not None and type_.type == "type_identifier" and object_:
            self._measured({self.file.of(type_)})

    def _holding(self, struct: Node) -> set[str]:
        """Return the names of a class, and of those that have it as a member."""
        names, waiting = set[str](), [struct]
        while waiting:
            fresh = self.file.class_names(waiting.pop()) - names
            names |= fresh
            for node in self.file.nodes("field_declaration", "base_class_clause"):
                outer = cuda.above(node, *CLASSES)
                if outer is not None and fresh & set(re.findall(r"\w+", self.file.of(node))):
                    waiting.append(outer)
        return names

    def _measured(self, names: set[str]) -> None:
        for node in (node for name in names for node in self.scopes.mentions.get(name, [])):
            measured, call = cuda.above(node, *MEASURING), cuda.above(node, "call_expression")
            if measured is None and self.file.of(field_of(call, "function")) == "offsetof":
                measured = call
            if measured is not None:
                raise self._refused(node, f"{self.draft.quoted(measured)} changes with the tile's layout")

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
            raise self._refused(reach.node, f"{self.draft.quoted(reach.node)}: its {bytes_} bytes would be split")

    def _bytes(self, reach: Reach) -> int:
        """Return how many bytes an access has."""
        node = reach.node
        if node.parent is not None and node.parent.type == "gnu_asm_input_operand":
            statement = cuda.above(node, "gnu_asm_expression")
            return _of_asm(self.file.of(statement)) if statement is not None else WIDEST
        name = self.file.called(node) if node.type == "call_expression" else ""
        if COPYING.fullmatch(name):
            given = [child for child in cuda.arguments(node) if child.type != "comment"]
            # __pipeline_memcpy_async(to, from, size, zfill): the size is not last. Where a barrier is last, its value
            # is unknown, and the copy is refused.
            size = given[2 if name == "__pipeline_memcpy_async" else -1] if given else None
            value = self.draft.constants.value(size) if size is not None else None
            if not value:
                raise self._refused(node, f"{self.draft.quoted(node)}: how many bytes it copies is not known")
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
            apart = [step for step in steps[rank:] if step in moving]
            if not plain or any(term.variable for step in apart for term in self.draft.terms(step)):
                self._row_is_seen(reach, apart or steps)
        elif moving and not self._points_to_row(reach.start):
            self._row_is_seen(reach, moving)

    def _row_is_seen(self, reach: Reach, steps: Sequence[ReachStep]) -> None:
        """Raise Unfit if no stride of some steps is a row, so that they may leave it."""
        counted, variable, constant = False, False, 0
        for step in (step for step in reach.steps if step in steps and step.node is not None):
            unit = self.draft.size(step.unit, reach.node)
            for term in self.draft.terms(step):
                stride = abs(term.constant) * unit
                counted = counted or (stride > 0 and stride % self.row == 0)
                variable = variable or (bool(term.variable) and (stride == 0 or stride % self.row != 0))
                constant += 0 if term.variable else stride
        if not counted and (variable or constant >= self.row):
            quoted = self.draft.quoted(reach.node)
            raise self._refused(reach.node, f"{quoted}: the row's length is not to be seen in it")

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

    def _refused(self, node: Node, reason: str) -> Exception:
        return self.draft.unfit(node, reason)


def _of_asm(text: str) -> int:
    """Return how many bytes an asm statement accesses in shared memory, the most that it may if that is not seen."""
    if re.search(r"matrix|bulk|wgmma|tcgen", text):
        return WIDEST
    if copied := re.search(r"cp\.async[^;]*\],\s*\[[^\]]*\],\s*(\d+)", text):
        return int(copied[1])
    found = re.findall(r"\b(?:ld|st|atom|red)[.\w:]*?(?:\.v(\d))?\.[busf](\d+)\b", text)
    return max((int(count or 1) * int(bits) // 8 for count, bits in found), default=WIDEST)
