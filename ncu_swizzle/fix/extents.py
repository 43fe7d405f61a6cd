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
from ncu_swizzle.fix.cuda import BYTES, Reach, ReachedPlace
from ncu_swizzle.fix.draft import Draft, Swapped
from ncu_swizzle.fix.scopes import shared_declarations, sizes_of
from ncu_swizzle.smem.swizzle import Padding

if TYPE_CHECKING:
    from tree_sitter import Node

MEASURING = ("sizeof_expression", "decltype", "alignof_expression", "offsetof_expression", "noexcept")
COMPARING = ("==", "!=", "<", ">", "<=", ">=", "<=>")
COPYING = re.compile(r"(__pipeline_)?memcpy(_async)?|memset|memmove")
STATEMENTS = ("expression_statement", "declaration", "compound_statement", "return_statement")
WITHIN = ("parenthesized_expression", "cast_expression", "pointer_expression")
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
        self._rows: dict[int, bool] = {}  # whether pointers point to rows, by declared identifier

    @property
    def resized(self) -> bool:
        """Whether the tile's type changes."""
        return not isinstance(self.transform, RowXor)

    def unseen(self) -> None:
        """Raise Unfit if the mapping may be seen."""
        self._roots()
        objects = (made.through for made in self.tile.web.members if made.place in self.tile.places)
        for place in dict.fromkeys((*self.tile.places, *objects)):
            for use in self.scopes.uses(place.kept or place.declared):
                self._use(use, place)
            self._in_macros(place)
            if self.resized:
                self._type(place)
        for reach in self.tile.reaches:
            if reach.end is None and reach.layout is None and reach.leading is None:
                self._width(reach)
            if isinstance(self.transform, Padding) and not self.accessors:
                self._within_rows(reach)

    # ------------------------------------------------------------------------------------ arrays

    def _roots(self) -> None:
        """Raise Unfit if arrays that share a mapping differ, or one has another name."""
        shapes: dict[tuple[str, ...], ReachedPlace] = {}
        for place in (root.place for root in self.tile.roots if root.place.rank > 1):
            sizes = [self._size(size) for size in sizes_of(place.declared, self.file)[-2:]]
            shapes.setdefault(tuple(sizes), place)
        if len(shapes) > 1:
            one, another = list(shapes.values())[:2]
            raise self._refused(another.declared, f"{one.name} and {another.name} have other sizes, and share pointers")
        every = list(shared_declarations(self.scopes))
        arrays = {root.array.declared.id for root in self.tile.roots}
        for declared in (made for made in every if made.declared.id in arrays and self._outside(made.statement)):
            for other in every:
                alone = other.declared.id not in self.tile.web.places and self._outside(other.statement)
                if alone and not self._separate(declared.statement, other.statement):
                    raise self._refused(
                        other.declared, f"{other.name} and {declared.name} are the same dynamic shared memory"
                    )

    def _size(self, node: Node) -> str:
        value = self.draft.constants.value(node)
        return str(value) if value is not None else "".join(self.file.of(node).split())

    def _outside(self, statement: Node) -> bool:
        return "extern" in {self.file.of(child) for child in statement.children}

    def _separate(self, one: Node, other: Node) -> bool:
        """Return whether two declarations stand in two kernels, which never run in one block."""
        functions = [cuda.above(node, "function_definition") for node in (one, other)]
        if functions[0] is None or functions[1] is None or cuda.same(functions[0], functions[1]):
            return False
        return all("__global__" in self.file.of(f).partition("{")[0] for f in functions if f is not None)

    # ------------------------------------------------------------------------------------ uses

    def _use(self, use: Node, place: ReachedPlace) -> None:
        """Raise Unfit for a use of a name that measures, compares or is not followed."""
        struct = cuda.above(use, *cuda.CLASSES)
        derived = struct is not None and any(child.type == "base_class_clause" for child in struct.children)
        if derived and cuda.above(place.declared, "compound_statement") is None and not place.member:
            raise self._refused(use, f"{place.name} may be a member of a base class here")
        node, parent = use, use.parent
        while parent is not None and parent.type not in STATEMENTS:
            if parent.type in MEASURING:
                if self.resized and not self._element(cuda.bare(node), place):
                    raise self._refused(use, f"{self.draft.quoted(parent)} changes with the tile's layout")
                return
            if parent.type == "binary_expression" and self._compares(parent, node, place):
                raise self._refused(use, f"{self.draft.quoted(parent)} compares addresses, which the mapping changes")
            if parent.type in (
                "subscript_argument_list",
                "argument_list",
                "lambda_capture_specifier",
                "init_declarator",
            ):
                break
            node, parent = parent, parent.parent
        if parent is not None and parent.type == "argument_list":
            measured = cuda.above(use, *MEASURING)
            if measured is not None and self.resized:
                raise self._refused(use, f"{self.draft.quoted(measured)} may change with the tile's layout")
        if not self._followed(use, place):
            raise self._refused(
                use, f"{self.draft.quoted(use.parent or use)} uses {place.name} where it is not followed"
            )

    def _in_macros(self, place: ReachedPlace) -> None:
        """Raise Unfit if a macro uses a name of the tile that is also one of other things: it is not followed there."""
        declared = place.kept or place.declared
        for node in self.scopes.mentions.get(self.file.of(declared), []):
            macro = self.scopes.macro(node) if node.type == "identifier" else None
            if (
                macro is None
                or self.scopes.resolve(node) is not None
                or cuda.same(cuda.field_of(macro.node, "name"), node)
            ):
                continue
            for site in self.scopes.mentions.get(macro.name, []):
                there = self.scopes.resolve(site, self.file.of(declared))
                if self.scopes.macro(site) is not None or cuda.same(there, declared):
                    raise self._refused(site, f"{macro.name} uses {place.name}, and that is not its only meaning")

    def _element(self, node: Node, place: ReachedPlace) -> bool:
        """Return whether an expression is an element of a place, whose size stays, or a pointer."""
        subscripts = 0
        while node.type in ("subscript_expression", "pointer_expression"):
            if node.type == "pointer_expression" and not self.file.of(node).startswith("*"):
                return False
            subscripts += 1
            node = cuda.bare(cuda.field_of(node, "argument") or node.named_children[0])
        holder = (place.kept or place.declared).parent
        pointer = (
            not place.array and place.rank == 1 and not (holder is not None and holder.type == "reference_declarator")
        )
        return node.type == "identifier" and (subscripts >= place.rank or pointer)

    def _compares(self, node: Node, side: Node, place: ReachedPlace) -> bool:
        operator = cuda.field_of(node, "operator")
        other = cuda.field_of(node, "right" if cuda.same(cuda.field_of(node, "left"), side) else "left")
        if operator is None or other is None or self.file.of(operator) not in COMPARING:
            return False
        address = not self._element(cuda.bare(side), place) or cuda.bare(side).type == "identifier"
        null = other.type in ("null", "nullptr") or self.file.of(other) in ("0", "NULL", "nullptr")
        return address and bool(place.rank) and not null and self._addressed(side, place)

    def _addressed(self, node: Node, place: ReachedPlace) -> bool:
        """Return whether an expression is an address of a place: fewer subscripts than lead to an element."""
        node, depth = cuda.bare(node), place.rank
        while True:
            if node.type == "subscript_expression":
                node, depth = cuda.bare(cuda.field_of(node, "argument") or node.named_children[0]), depth - 1
            elif node.type == "pointer_expression":
                depth += 1 if self.file.of(node).startswith("&") else -1
                node = cuda.bare(cuda.field_of(node, "argument") or node.named_children[0])
            elif node.type == "binary_expression":
                node = cuda.bare(cuda.field_of(node, "left") or node)
            else:
                return node.type == "identifier" and depth > 0

    def _followed(self, use: Node, place: ReachedPlace) -> bool:
        """Return whether a use is part of one that was followed, or one that does nothing."""
        if any(cuda.inside(use, reach.node) for reach in self.tile.web.reaches):
            return True
        if place.kept is not None or not place.rank or any(m.through is place for m in self.tile.web.members):
            return True  # an object: its other members
        parent = use.parent
        while parent is not None and parent.type in WITHIN:
            parent = parent.parent
        harmless = parent is not None and parent.type in (*UNMOVED, *MEASURING)
        return harmless or cuda.above(use, "return_statement", *MEASURING) is not None

    # ------------------------------------------------------------------------------------ types

    def _type(self, place: ReachedPlace) -> None:
        """Raise Unfit if the type of a place, or what a template deduces from it, is used for anything else."""
        holder = cuda.above(place.declared, "parameter_declaration", "declaration", "field_declaration")
        template = cuda.above(place.declared, "template_declaration")
        if holder is None:
            return
        names: set[str] = set()
        if template is not None and holder.type == "parameter_declaration":
            listed = cuda.field_of(template, "parameters")
            of_template = (
                {self.file.of(n) for n in cuda.walk(listed) if n.type in ("identifier", "type_identifier")}
                if listed
                else set()
            )
            sizes = sizes_of(place.declared, self.file) if place.rank > 1 else ()
            names |= {
                self.file.of(n) for size in sizes for n in cuda.walk(size) if n.type == "identifier"
            } & of_template
            for node in (node for name in names for node in self.scopes.mentions.get(name, [])):
                apart = not cuda.inside(node, holder) and listed is not None and not cuda.inside(node, listed)
                if cuda.inside(node, template) and apart and not self._in_index(node):
                    raise self._refused(
                        node, f"{self.file.of(node)} is deduced from the tile, and used for more than its indices"
                    )
        struct = cuda.above(place.declared, *cuda.CLASSES) if place.member else None
        if struct is not None:
            self._measured(self._holding(struct))
        if place.rank and not place.array and not place.member:
            return
        type_ = cuda.field_of(holder, "type")
        if (
            type_ is not None
            and type_.type == "type_identifier"
            and any(m.through is place for m in self.tile.web.members)
        ):
            self._measured({self.file.of(type_)})

    def _in_index(self, node: Node) -> bool:
        """Return whether a name is part of an index of the tile, where it counts its elements."""
        return any(cuda.inside(node, reach.node) and reach.end is None for reach in self.tile.reaches)

    def _holding(self, struct: Node) -> set[str]:
        """Return the names of a class, and of those that have it as a member."""
        names, waiting = set[str](), [struct]
        while waiting:
            made = waiting.pop()
            fresh = self.file.class_names(made) - names
            names |= fresh
            for node in self.file.nodes("field_declaration", "base_class_clause"):
                outer = cuda.above(node, *cuda.CLASSES)
                words = set(re.findall(r"\w+", self.file.of(node)))
                if outer is not None and words & fresh:
                    waiting.append(outer)
        return names

    def _measured(self, names: set[str]) -> None:
        for node in (node for name in names for node in self.scopes.mentions.get(name, [])):
            measured = cuda.above(node, *MEASURING)
            if measured is None:
                call = cuda.above(node, "call_expression")
                function = cuda.field_of(call, "function") if call is not None else None
                measured = call if function is not None and self.file.of(function) == "offsetof" else None
            if measured is not None:
                raise self._refused(node, f"{self.draft.quoted(measured)} changes with the tile's layout")

    # ------------------------------------------------------------------------------------ accesses

    def _width(self, reach: Reach) -> None:
        """Raise Unfit if an access is wider than what the mapping keeps together."""
        bytes_ = self._bytes(reach)
        if self.draft.ends(reach.start) or self.draft.moving(reach) or reach.steps:
            kept = self._kept()
            if any(one % bytes_ for one in kept):
                raise self._refused(reach.node, f"{self.draft.quoted(reach.node)}: its {bytes_} bytes would be split")

    def _kept(self) -> tuple[int, ...]:
        """Return the numbers of bytes of which an access has to be a divisor."""
        element = self.draft.element_bytes
        if isinstance(self.transform, Padding):
            return self.transform.every * element, self.transform.by * element
        return (element << self.transform.base if isinstance(self.transform, RowXor) else self.draft.declared_bytes,)

    def _bytes(self, reach: Reach) -> int:
        node = reach.node
        if node.parent is not None and node.parent.type == "gnu_asm_input_operand":
            statement = cuda.above(node, "gnu_asm_expression")
            return _of_asm(self.file.of(statement)) if statement is not None else WIDEST
        name = self.file.called(node) if node.type == "call_expression" else ""
        if COPYING.fullmatch(name):
            given = [child for child in self._part(node).named_children if child.type != "comment"]
            value = (
                self.draft.constants.value(given[-1] if name != "__pipeline_memcpy_async" else given[2])
                if given
                else None
            )
            if not value:
                raise self._refused(node, f"{self.draft.quoted(node)}: how many bytes it copies is not known")
            return value
        return 1 if reach.unit == BYTES else self.draft.size(reach.unit, node)

    @staticmethod
    def _part(call: Node) -> Node:
        return cuda.field_of(call, "arguments") or call

    def _within_rows(self, reach: Reach) -> None:
        """Raise Unfit if an index may run from one row into the next, which is longer now.

        The launch may not come here, so that its trace would not show it.
        """
        rank, steps = reach.start.rank, reach.steps
        if rank > 1:
            leading = steps[: rank - 1] if len(steps) >= rank else steps
            plain = all(step.subscript and step.rank == rank - number for number, step in enumerate(leading))
            apart = [step for step in steps[rank:] if step in self.draft.moving(reach)]
            if not plain or (apart and any(t.variable for step in apart for t in self.draft.terms(step))):
                self._seen(reach, [s for s in (apart or steps) if s.node is not None])
            return
        moving = list(self.draft.moving(reach))
        if moving and not self._row(reach.start):
            self._seen(reach, moving)

    def _seen(self, reach: Reach, steps: Sequence[object]) -> None:
        row = self.transform.every * self.draft.element_bytes if isinstance(self.transform, Padding) else 1
        counted, variable, constant = False, False, 0
        for step in reach.steps:
            if step in steps and step.node is not None:
                unit = self.draft.size(step.unit, reach.node)
                for term in self.draft.terms(step):
                    stride = abs(term.constant) * unit
                    counted = counted or (stride > 0 and stride % row == 0)
                    variable = variable or (bool(term.variable) and (stride == 0 or stride % row != 0))
                    constant += 0 if term.variable else stride
        if (variable and not counted) or (not counted and constant >= row):
            raise self._refused(
                reach.node, f"{self.draft.quoted(reach.node)}: the row's length is not to be seen in it"
            )

    def _row(self, place: ReachedPlace) -> bool:
        """Return whether a pointer always points into one row."""
        if place.declared.id not in self._rows:
            self._rows[place.declared.id] = True  # made from itself: the other ways to it decide
            ways = [reach for reach in self.tile.web.to(place) if not reach.advance]
            root = place.array or (place.member and place.rank) or any(r.place is place for r in self.tile.roots)
            self._rows[place.declared.id] = not root and bool(ways) and all(self._into_row(reach) for reach in ways)
        return self._rows[place.declared.id]

    def _into_row(self, reach: Reach) -> bool:
        if reach.start.rank > 1:
            return bool(reach.steps) and all(step.subscript for step in reach.steps[: reach.start.rank - 1])
        row = self.transform.every * self.draft.element_bytes if isinstance(self.transform, Padding) else 1
        for step in reach.steps:
            for term in self.draft.terms(step):
                if term.constant and term.constant * self.draft.size(step.unit, reach.node) % row == 0:
                    return True
        return self._row(reach.start)

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
