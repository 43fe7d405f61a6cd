"""Follow a shared array through a file: its subscripts, and every pointer, parameter and address made from it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncu_swizzle.source import calls, cuda, structs
from ncu_swizzle.source.arrays import SharedDeclaration, sizes_of
from ncu_swizzle.source.reach import BYTES, Member, Obstacle, Reach, ReachedPlace, ReachStep, Web
from ncu_swizzle.source.scopes import Scopes, declared_name, pointer_to_array

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
class _State:
    """Where an expression points: its way from a place so far."""

    start: ReachedPlace
    rank: int
    unit: str
    steps: tuple[ReachStep, ...] = ()

    def stepped(self, step: ReachStep, rank: int) -> _State:
        return replace(self, steps=(*self.steps, step), rank=rank)


@dataclass(frozen=True)
class _PointerUse:
    """An expression that points into an array, in the one around it."""

    parent: Node
    node: Node
    state: _State


def follow(scopes: Scopes, declaration: SharedDeclaration, every: tuple[SharedDeclaration, ...]) -> Web:
    """Return everything that reaches into an array, with the other arrays that the same pointers reach into."""
    return _Follower(scopes, every).web_of(declaration)


class _Follower:
    def __init__(self, scopes: Scopes, every: tuple[SharedDeclaration, ...]) -> None:
        self.scopes, self.file = scopes, scopes.file
        self.arrays = {declaration.declared.id: declaration for declaration in every}
        self.uses: dict[int, list[Node]] = {}
        for use in scopes.identifiers():
            declared = scopes.resolve(use)
            if declared is not None and not cuda.same(declared, use):
                self.uses.setdefault(declared.id, []).append(use)
        self.web = Web()
        self.waiting: list[ReachedPlace] = []
        self.passing: dict[int, tuple[int, str]] = {}  # parameters that are returned: with which rank and unit

    def web_of(self, declaration: SharedDeclaration) -> Web:
        self._add_array(declaration)
        while self.waiting:
            place = self.waiting.pop()
            for use in self.uses.get(place.declared.id, []):
                self._follow(use, _State(place, place.rank, place.unit))
            self._others_into(place)
        return self.web

    def _add_array(self, declaration: SharedDeclaration) -> None:
        if declaration.declared.id not in self.web.places:
            self._add(ReachedPlace(declaration.name, declaration.declared, declaration.rank, array=True))

    def _add(self, place: ReachedPlace) -> ReachedPlace:
        self.web.places[place.declared.id] = place
        self.waiting.append(place)
        return place

    def _others_into(self, place: ReachedPlace) -> None:
        """Add the other arrays that one of a web's names is made from: they share its mapping."""
        if place.array:
            return
        for declaration in self.arrays.values():
            if declaration.declared.id in self.web.places:
                continue
            alone = _Follower.__new__(_Follower)
            alone.__dict__ = {**self.__dict__, "web": Web(), "waiting": [], "passing": {}}
            alone._add_array(declaration)
            while alone.waiting:
                other = alone.waiting.pop()
                for use in alone.uses.get(other.declared.id, []):
                    alone._follow(use, _State(other, other.rank, other.unit))
            if place.declared.id in alone.web.places:
                self._add_array(declaration)

    # ------------------------------------------------------------------------------------------ expressions

    def _follow(self, node: Node, state: _State) -> None:
        parent = node.parent
        if parent is None:
            return
        if not state.rank and not state.steps:  # an object, or a reference to one
            self._element(node, state)
            return
        handler = getattr(self, f"_in_{parent.type}", None)
        if handler is not None:
            handler(_PointerUse(parent, node, state))
        elif parent.type not in ("expression_statement", "sizeof_expression", "lambda_capture_specifier", "decltype"):
            self._stop(
                node, state, f"{state.start.name} is used in a way that is not understood: {self._quoted(parent)}"
            )

    def _in_parenthesized_expression(self, use: _PointerUse) -> None:
        self._follow(use.parent, use.state)

    def _in_comma_expression(self, use: _PointerUse) -> None:
        if cuda.same(cuda.field(use.parent, "right"), use.node):
            self._follow(use.parent, use.state)

    def _in_conditional_expression(self, use: _PointerUse) -> None:
        if not cuda.same(cuda.field(use.parent, "condition"), use.node):
            self._follow(use.parent, use.state)

    def _in_subscript_expression(self, use: _PointerUse) -> None:
        if not cuda.same(cuda.field(use.parent, "argument"), use.node):
            self._stop(use.node, use.state, f"{use.state.start.name} is an index")
            return
        indices = cuda.field(use.parent, "indices")
        index = indices.named_children[0] if indices is not None and indices.named_child_count == 1 else None
        if index is None or use.state.unit == BYTES:
            self._stop(use.parent, use.state, f"{self._quoted(use.parent)} has no index of its own")
            return
        self._stepped(use.parent, use.state, index)

    def _stepped(self, parent: Node, state: _State, index: Node | None) -> None:
        following = state.stepped(ReachStep(index, state.unit, max(state.rank, 1)), max(state.rank, 1) - 1)
        if following.rank:
            self._follow(parent, following)
        else:
            self._element(parent, following)

    def _in_pointer_expression(self, use: _PointerUse) -> None:
        operator = self.file.of(use.parent)[:1]
        if operator == "*":
            self._stepped(use.parent, use.state, None)
        elif use.state.start.array and not use.state.steps:
            self._follow(use.parent, use.state)  # &t: what is made of it is cast
        else:
            self._stop(use.parent, use.state, f"{self._quoted(use.parent)} points to a pointer")

    def _element(self, node: Node, state: _State) -> None:
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

    def _in_field_expression(self, use: _PointerUse) -> None:
        arrow = self.file.of(use.parent)[len(self.file.of(use.node)) :].lstrip().startswith("->")
        self._member(use.parent, use.state.stepped(ReachStep(None, use.state.unit), 0) if arrow else use.state)

    def _member(self, node: Node, state: _State) -> None:
        """Follow a member of a struct: an array in it is a place of its own, anything else an element."""
        name = cuda.field(node, "field")
        declared = structs.member(self.file, self._type(state), self.file.of(name)) if name is not None else None
        if declared is None or not (rank := len(sizes_of(declared))):
            self._access(node, state)
            return
        place = self.web.places.get(declared.id)
        if place is None:
            place = self.web.places[declared.id] = ReachedPlace(self.file.of(declared), declared, rank, member=True)
        through = state.start
        if not any(made.place is place and made.through is through for made in self.web.members):
            self.web.members.append(Member(place, through, f"{through.name}{'[0]' * through.rank}"))
        self._follow(node, _State(place, rank, ""))

    def _type(self, state: _State) -> str:
        """Return the type of what a place's elements are."""
        declaration = self.arrays.get(state.start.declared.id)
        return state.unit or (declaration.element if declaration is not None else "")

    def _in_binary_expression(self, use: _PointerUse) -> None:
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

    def _in_cast_expression(self, use: _PointerUse) -> None:
        type_ = cuda.field(use.parent, "type")
        self._cast(use.parent, self.file.of(type_) if type_ is not None else "", use.state)

    def _cast(self, node: Node, type_: str, state: _State) -> None:
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

    # ------------------------------------------------------------------------------------------ where it goes

    def _in_argument_list(self, use: _PointerUse) -> None:
        call = use.parent.parent
        if call is None or call.type != "call_expression":
            self._stop(use.node, use.state, f"{use.state.start.name} initialises an object")
            return
        name = calls.called(self.file, call)
        position = next(i for i, child in enumerate(use.parent.named_children) if cuda.same(child, use.node))
        cast = calls.cast_type(self.file, call)
        if cast:
            self._cast(call, cast, use.state)
        elif name in TO_ADDRESS:
            self._follow(call, replace(use.state, rank=1, unit=BYTES))
        elif name in SAME:
            self._follow(call, replace(use.state, rank=1))
        elif name == "make_tensor" and use.parent.named_child_count == 2 and position == 0:
            self._reach(call, use.state, layout=use.parent.named_children[1])
        elif name in MATRIX:
            self._reach(
                call, use.state, leading=use.parent.named_children[2 if use.parent.named_child_count > 2 else -1]
            )
        elif name in self.scopes.callables:
            self._into(call, name, position, use.state)
        elif ACCESSING.fullmatch(name):
            self._access(call, use.state)
        else:
            self._stop(call, use.state, f"{use.state.start.name} is handed to {name}, which this file does not define")

    def _into(self, call: Node, name: str, position: int, state: _State) -> None:
        """Follow an argument into the function or macro of this file that takes it."""
        for made in self.scopes.callables[name]:
            parameter = made.parameters[position] if position < len(made.parameters) else None
            if parameter is None:
                continue
            rank, unit = (
                calls.shape_of(self.file, parameter, state.rank, state.unit)
                if not made.macro
                else (state.rank, state.unit)
            )
            known = parameter.id in self.passing
            self._goes_to(call, parameter, rank, unit, state)
            if known:
                self._follow(
                    call, replace(state, rank=self.passing[parameter.id][0], unit=self.passing[parameter.id][1])
                )

    def _goes_to(self, node: Node, declared: Node, rank: int, unit: str, state: _State) -> None:
        place = self.web.places.get(declared.id)
        if place is None:
            place = self._add(ReachedPlace(self.file.of(declared), declared, rank, unit))
        self.web.reaches.append(Reach(state.start, state.steps, node, place, unit=state.unit))

    def _in_init_declarator(self, use: _PointerUse) -> None:
        declarator = cuda.field(use.parent, "declarator")
        declared = declared_name(declarator) if declarator is not None else None
        if declared is None or not cuda.same(cuda.field(use.parent, "value"), use.node):
            self._stop(use.node, use.state, f"{use.state.start.name} initialises an object")
            return
        self._goes_to(
            use.node, declared, *calls.shape_of(self.file, declared, use.state.rank, use.state.unit), use.state
        )

    def _in_assignment_expression(self, use: _PointerUse) -> None:
        left, right = cuda.field(use.parent, "left"), cuda.field(use.parent, "right")
        operator = next((self.file.of(child) for child in use.parent.children if not child.is_named), "")
        if left is None or right is None:
            return
        if cuda.same(left, use.node):
            if operator == "=":
                return  # what it becomes is followed from there
            if operator in ("+=", "-="):
                step = ReachStep(right, use.state.unit, 1, subscript=False, negative=operator == "-=")
                self.web.reaches.append(
                    Reach(
                        use.state.start,
                        (*use.state.steps, step),
                        use.parent,
                        use.state.start,
                        unit=use.state.unit,
                        advance=True,
                    )
                )
                return
        statement = use.parent.parent
        declared = pointer_to_array(statement) if statement is not None else None
        if declared is not None:
            self._goes_to(use.node, declared, 2, "", use.state)
        elif left.type == "identifier" and operator == "=" and (target := self.scopes.resolve(left)) is not None:
            self._goes_to(
                use.node, target, *calls.shape_of(self.file, target, use.state.rank, use.state.unit), use.state
            )
        else:
            self._stop(
                use.parent,
                use.state,
                f"{self._quoted(use.parent)} keeps an address of {use.state.start.name} where it is not followed",
            )

    def _in_update_expression(self, use: _PointerUse) -> None:
        step = ReachStep(None, use.state.unit, 1, subscript=False)
        self.web.reaches.append(
            Reach(use.state.start, (*use.state.steps, step), use.parent, use.state.start, advance=True)
        )

    def _in_return_statement(self, use: _PointerUse) -> None:
        """Follow what a function returns to wherever it is called."""
        made = self.scopes.holder(use.parent)
        if made is None:
            self._stop(use.node, use.state, f"{use.state.start.name} is returned")
            return
        if use.state.start.declared.id not in {p.id for p in made.parameters if p is not None} or use.state.steps:
            self._stop(use.node, use.state, f"{made.name} returns an address within {use.state.start.name}")
            return
        self.passing[use.state.start.declared.id] = (use.state.rank, use.state.unit)
        for reach in self.web.to(use.state.start):
            self._follow(reach.node, _State(reach.start, use.state.rank, use.state.unit, reach.steps))

    def _in_gnu_asm_input_operand(self, use: _PointerUse) -> None:
        self._access(use.node, use.state)

    def _in_init_statement(self, use: _PointerUse) -> None:
        self._follow(use.parent, use.state)

    # ------------------------------------------------------------------------------------------ ends

    def _access(self, node: Node, state: _State) -> None:
        self._reach(node, state)

    def _reach(self, node: Node, state: _State, layout: Node | None = None, leading: Node | None = None) -> None:
        self.web.reaches.append(Reach(state.start, state.steps, node, None, layout, leading, state.unit))

    def _stop(self, node: Node, state: _State, reason: str) -> None:
        self.web.obstacles.append(Obstacle(state.start, self.file.line(node), reason))

    def _quoted(self, node: Node) -> str:
        text = " ".join(self.file.of(node).split())
        return text if len(text) <= 80 else f"{text[:77]}..."
