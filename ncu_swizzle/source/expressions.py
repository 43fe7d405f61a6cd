"""Expressions that point into a shared array: what is made of them, step by step."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncu_swizzle.source import calls, classes, cuda, structs
from ncu_swizzle.source.arrays import SharedDeclaration, sizes_of
from ncu_swizzle.source.reach import BYTES, Member, Obstacle, Reach, ReachedPlace, ReachStep, Web
from ncu_swizzle.source.scopes import Scopes, declared_name

if TYPE_CHECKING:
    from tree_sitter import Node

TO_ADDRESS = ("__cvta_generic_to_shared", "cast_smem_ptr_to_uint", "cast_smem_ptr_to_uint32")
SAME = ("make_smem_ptr", "__builtin_assume_aligned", "launder")
MATRIX = ("load_matrix_sync", "store_matrix_sync")
# They access what they are pointed to, as wide as the pointer says or as they are told.
ACCESSING = re.compile(
    r"(atomic\w+|__pipeline_memcpy_async|memcpy_async|__ld\w+|__st\w+|memcpy|__shfl\w*|__half2float|float2half|min|max|f(ma|min|max)f?)$"
)


@dataclass(frozen=True)
class PointerState:
    """Where an expression points: its way from a place so far."""

    start: ReachedPlace
    rank: int
    unit: str
    steps: tuple[ReachStep, ...] = ()

    def stepped(self, step: ReachStep, rank: int) -> PointerState:
        return replace(self, steps=(*self.steps, step), rank=rank)


@dataclass(frozen=True)
class PointerUse:
    """An expression that points into an array, in the one around it."""

    parent: Node
    node: Node
    state: PointerState


class PointerWalk:
    """Collects the web of an array: every expression is handled by a method named after its type."""

    def __init__(self, scopes: Scopes, every: tuple[SharedDeclaration, ...]) -> None:
        self.scopes, self.file = scopes, scopes.file
        self.arrays = {declaration.declared.id: declaration for declaration in every}
        self.uses: dict[int, list[Node]] = {}
        for use in scopes.identifiers():
            declared = scopes.resolve(use)
            if declared is not None and not cuda.same(declared, use):
                self.uses.setdefault(declared.id, []).append(use)
        for node in self.file.nodes("this"):
            if (declared := self._own(node)) is not None and node.parent is not None:
                self.uses.setdefault(declared.id, []).append(node.parent)
        self._start()

    def _own(self, this: Node) -> Node | None:
        """Return the declaration of the member that ``this->v`` is."""
        holder, struct = this.parent, classes.around(self.file, this)
        name = cuda.field(holder, "field") if holder is not None and holder.type == "field_expression" else None
        if name is None or struct is None:
            return None
        found = (declared for _, declared in structs.members(struct) if self.file.of(declared) == self.file.of(name))
        return next(found, None)

    def _start(self) -> None:
        """Begin a web."""
        self.web = Web()
        self.waiting: list[ReachedPlace] = []
        self.passing: dict[int, tuple[int, str]] = {}  # parameters that are returned: with which rank and unit

    def _add(self, place: ReachedPlace) -> ReachedPlace:
        self.web.places[place.declared.id] = place
        self.waiting.append(place)
        return place

    def _follow(self, node: Node, state: PointerState) -> None:
        parent = node.parent
        if parent is None:
            return
        if not state.rank and not state.steps:  # an object, or a reference to one
            self._element(node, state)
            return
        handler = getattr(self, f"_in_{parent.type}", None)
        if handler is not None:
            handler(PointerUse(parent, node, state))
        elif parent.type not in ("expression_statement", "sizeof_expression", "lambda_capture_specifier", "decltype"):
            self._stop(
                node, state, f"{state.start.name} is used in a way that is not understood: {self._quoted(parent)}"
            )

    def _in_parenthesized_expression(self, use: PointerUse) -> None:
        self._follow(use.parent, use.state)

    def _in_comma_expression(self, use: PointerUse) -> None:
        if cuda.same(cuda.field(use.parent, "right"), use.node):
            self._follow(use.parent, use.state)

    def _in_conditional_expression(self, use: PointerUse) -> None:
        if not cuda.same(cuda.field(use.parent, "condition"), use.node):
            self._follow(use.parent, use.state)

    def _in_subscript_expression(self, use: PointerUse) -> None:
        if not cuda.same(cuda.field(use.parent, "argument"), use.node):
            self._stop(use.node, use.state, f"{use.state.start.name} is an index")
            return
        indices = cuda.field(use.parent, "indices")
        index = indices.named_children[0] if indices is not None and indices.named_child_count == 1 else None
        if index is None or use.state.unit == BYTES:
            self._stop(use.parent, use.state, f"{self._quoted(use.parent)} has no index of its own")
            return
        self._stepped(use.parent, use.state, index)

    def _stepped(self, parent: Node, state: PointerState, index: Node | None) -> None:
        following = state.stepped(ReachStep(index, state.unit, max(state.rank, 1)), max(state.rank, 1) - 1)
        if following.rank:
            self._follow(parent, following)
        else:
            self._element(parent, following)

    def _in_pointer_expression(self, use: PointerUse) -> None:
        operator = self.file.of(use.parent)[:1]
        if operator == "*":
            self._stepped(use.parent, use.state, None)
        elif use.state.start.array and not use.state.steps:
            self._follow(use.parent, use.state)  # &t: what is made of it is cast
        else:
            self._stop(use.parent, use.state, f"{self._quoted(use.parent)} points to a pointer")

    def _element(self, node: Node, state: PointerState) -> None:
        """Follow an element: mostly it is read or written, but its address may go on."""
        parent = node.parent
        while parent is not None and parent.type == "parenthesized_expression":
            node, parent = parent, parent.parent
        if parent is not None and parent.type == "pointer_expression" and self.file.of(parent).startswith("&"):
            self._follow(parent, replace(state, rank=1))
            return
        if (
            parent is not None
            and parent.type == "field_expression"
            and self.file.of(parent)[len(self.file.of(node)) :].lstrip().startswith(".")
        ):
            self._member(parent, state)
            return
        reference = self._reference(parent, node)
        if reference is not None:
            self._goes_to(node, reference, 0, state.unit or self._type(state), state)
            return
        if parent is not None and parent.type == "argument_list":
            call = parent.parent
            name = calls.called(self.file, call) if call is not None else ""
            if any(made.macro for made in self.scopes.callables.get(name, [])):
                self._access(node, replace(state, unit=BYTES))  # the macro may access more than the element
                return
        self._access(node, state)

    def _reference(self, parent: Node | None, node: Node) -> Node | None:
        """Return the name that ``auto &s = *p;`` declares."""
        if parent is None or parent.type != "init_declarator" or not cuda.same(cuda.field(parent, "value"), node):
            return None
        declarator = cuda.field(parent, "declarator")
        return (
            declared_name(declarator) if declarator is not None and declarator.type == "reference_declarator" else None
        )

    def _in_field_expression(self, use: PointerUse) -> None:
        arrow = self.file.of(use.parent)[len(self.file.of(use.node)) :].lstrip().startswith("->")
        self._member(use.parent, use.state.stepped(ReachStep(None, use.state.unit), 0) if arrow else use.state)

    def _member(self, node: Node, state: PointerState) -> None:
        """Follow a member of a struct: an array in it is a place of its own, anything else an element."""
        name = cuda.field(node, "field")
        declared = structs.member(self.file, self._type(state), self.file.of(name)) if name is not None else None
        if declared is None or not (rank := len(sizes_of(declared))):
            self._access(node, state)
            return
        place = self.web.places.get(declared.id)
        if place is None:
            place = self.web.places[declared.id] = ReachedPlace(self.file.of(declared), declared, rank, member=True)
        self._holds(state.start, place)
        self._follow(node, PointerState(place, rank, ""))

    def _holds(self, through: ReachedPlace, place: ReachedPlace) -> None:
        """Note that the structs which a place reaches hold an array."""
        if not any(made.place is place and made.through is through for made in self.web.members):
            outer = next((made for made in self.web.members if made.place is through), None)
            holder = f"{outer.object_}." if outer is not None else ""
            self.web.members.append(Member(place, through, f"{holder}{through.name}{'[0]' * through.rank}", outer))

    def _type(self, state: PointerState) -> str:
        """Return the type of what a place's elements are."""
        declaration = self.arrays.get(state.start.declared.id)
        if state.start.member and not state.unit:
            return structs.type_of(self.file, state.start.declared)
        return state.unit or (declaration.element if declaration is not None else "")

    def _in_binary_expression(self, use: PointerUse) -> None:
        left, right = cuda.field(use.parent, "left"), cuda.field(use.parent, "right")
        operator = next((self.file.of(child) for child in use.parent.children if not child.is_named), "")
        other = right if cuda.same(left, use.node) else left
        if operator in ("==", "!=", "<", ">", "<=", ">=", "&&", "||"):
            return
        if operator == "+" or (operator == "-" and cuda.same(left, use.node)):
            if use.state.rank > 1:
                self._stop(
                    use.parent, use.state, f"{self._quoted(use.parent)} steps over rows of {use.state.start.name}"
                )
                return
            step = ReachStep(other, use.state.unit, 1, subscript=False, negative=operator == "-")
            self._follow(use.parent, use.state.stepped(step, 1))
        else:
            self._stop(
                use.parent, use.state, f"{self._quoted(use.parent)} computes with an address of {use.state.start.name}"
            )

    def _in_cast_expression(self, use: PointerUse) -> None:
        type_ = cuda.field(use.parent, "type")
        self._cast(use.parent, self.file.of(type_) if type_ is not None else "", use.state)

    def _cast(self, node: Node, type_: str, state: PointerState) -> None:
        kind = " ".join(
            word for word in re.findall(r"[\w:<>]+|[*&]", type_) if word not in ("const", "volatile", "__restrict__")
        )
        rows = re.fullmatch(r"([\w:<>\s]+)\(\s*\*\s*\)((?:\s*\[[^\]]*\])+)", type_)
        if rows:
            self._follow(node, replace(state, rank=1 + rows[2].count("["), unit=""))
        elif kind.endswith("*") and kind.count("*") == 1:
            unit = kind.removesuffix("*").strip()
            self._follow(node, replace(state, rank=1, unit="" if unit == "void" else unit))
        elif state.unit == BYTES and calls.INTEGERS.fullmatch(kind):
            self._follow(node, state)
        else:
            self._stop(node, state, f"{self._quoted(node)} makes {type_} of {state.start.name}")

    def _goes_to(self, node: Node, declared: Node, rank: int, unit: str, state: PointerState) -> None:
        place = self.web.places.get(declared.id)
        if place is None:
            place = self._add(ReachedPlace(self.file.of(declared), declared, rank, unit))
        self.web.reaches.append(Reach(state.start, state.steps, node, place, unit=state.unit))

    def _access(self, node: Node, state: PointerState) -> None:
        self._reach(node, state)

    def _reach(self, node: Node, state: PointerState, layout: Node | None = None, leading: Node | None = None) -> None:
        self.web.reaches.append(Reach(state.start, state.steps, node, None, layout, leading, state.unit))

    def _stop(self, node: Node, state: PointerState, reason: str) -> None:
        self.web.obstacles.append(Obstacle(state.start, self.file.line(node), reason))

    def _quoted(self, node: Node) -> str:
        text = " ".join(self.file.of(node).split())
        return text if len(text) <= 80 else f"{text[:77]}..."
