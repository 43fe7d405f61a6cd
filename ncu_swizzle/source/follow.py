"""Follow a shared array through a file: its subscripts, and every pointer, parameter and address made from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncu_swizzle.source import cuda
from ncu_swizzle.source.arrays import SharedDeclaration
from ncu_swizzle.source.reach import BYTES, Obstacle, Place, Reach, Step, Web
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
CASTS = ("reinterpret_cast", "static_cast", "const_cast")
INTEGERS = re.compile(r"(std::)?(u?int(32|64|ptr)?_t|unsigned( int| long| long long)?|int|size_t|auto|uint|uint32)")


@dataclass(frozen=True)
class _State:
    """Where an expression points: its way from a place so far."""

    start: Place
    rank: int
    unit: str
    steps: tuple[Step, ...] = ()

    def stepped(self, step: Step, rank: int) -> _State:
        return replace(self, steps=(*self.steps, step), rank=rank)


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
        self.waiting: list[Place] = []
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
            self._add(Place(declaration.name, declaration.declared, declaration.rank, array=True))

    def _add(self, place: Place) -> Place:
        self.web.places[place.declared.id] = place
        self.waiting.append(place)
        return place

    def _others_into(self, place: Place) -> None:
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
        handler = getattr(self, f"_in_{parent.type}", None)
        if handler is not None:
            handler(parent, node, state)
        elif parent.type not in ("expression_statement", "sizeof_expression", "lambda_capture_specifier", "decltype"):
            self._stop(node, state, f"{state.start.name} is used in a way that is not understood: {self._quoted(parent)}")

    def _in_parenthesized_expression(self, parent: Node, node: Node, state: _State) -> None:
        self._follow(parent, state)

    def _in_comma_expression(self, parent: Node, node: Node, state: _State) -> None:
        if cuda.same(cuda.field(parent, "right"), node):
            self._follow(parent, state)

    def _in_conditional_expression(self, parent: Node, node: Node, state: _State) -> None:
        if not cuda.same(cuda.field(parent, "condition"), node):
            self._follow(parent, state)

    def _in_subscript_expression(self, parent: Node, node: Node, state: _State) -> None:
        if not cuda.same(cuda.field(parent, "argument"), node):
            self._stop(node, state, f"{state.start.name} is an index")
            return
        indices = cuda.field(parent, "indices")
        index = indices.named_children[0] if indices is not None and indices.named_child_count == 1 else None
        if index is None or state.unit == BYTES:
            self._stop(parent, state, f"{self._quoted(parent)} has no index of its own")
            return
        self._stepped(parent, state, index)

    def _stepped(self, parent: Node, state: _State, index: Node | None) -> None:
        following = state.stepped(Step(index, state.unit, max(state.rank, 1)), max(state.rank, 1) - 1)
        if following.rank:
            self._follow(parent, following)
        else:
            self._element(parent, following)

    def _in_pointer_expression(self, parent: Node, node: Node, state: _State) -> None:
        operator = self.file.of(parent)[:1]
        if operator == "*":
            self._stepped(parent, state, None)
        elif state.start.array and not state.steps:
            self._follow(parent, state)  # &t: what is made of it is cast
        else:
            self._stop(parent, state, f"{self._quoted(parent)} points to a pointer")

    def _element(self, node: Node, state: _State) -> None:
        """Follow an element: mostly it is read or written, but its address may go on."""
        parent = node.parent
        while parent is not None and parent.type == "parenthesized_expression":
            node, parent = parent, parent.parent
        if parent is not None and parent.type == "pointer_expression" and self.file.of(parent).startswith("&"):
            self._follow(parent, replace(state, rank=1))
            return
        if parent is not None and parent.type == "argument_list":
            call = parent.parent
            name = self._called(call) if call is not None else ""
            if any(made.macro for made in self.scopes.callables.get(name, [])):
                self._access(node, replace(state, unit=BYTES))  # the macro may access more than the element
                return
        self._access(node, state)

    def _in_field_expression(self, parent: Node, node: Node, state: _State) -> None:
        if self.file.of(parent)[len(self.file.of(node)) :].lstrip().startswith("->"):
            self._access(parent, state.stepped(Step(None, state.unit), 0))
        else:
            self._stop(node, state, f"{self._quoted(parent)}: members of shared structs are not followed")

    def _in_binary_expression(self, parent: Node, node: Node, state: _State) -> None:
        left, right = cuda.field(parent, "left"), cuda.field(parent, "right")
        operator = next((self.file.of(child) for child in parent.children if not child.is_named), "")
        other = right if cuda.same(left, node) else left
        if operator in ("==", "!=", "<", ">", "<=", ">=", "&&", "||"):
            return
        if operator == "+" or (operator == "-" and cuda.same(left, node)):
            if state.rank > 1:
                self._stop(parent, state, f"{self._quoted(parent)} steps over rows of {state.start.name}")
                return
            step = Step(other, state.unit, 1, subscript=False, negative=operator == "-")
            self._follow(parent, state.stepped(step, 1))
        else:
            self._stop(parent, state, f"{self._quoted(parent)} computes with an address of {state.start.name}")

    def _in_cast_expression(self, parent: Node, node: Node, state: _State) -> None:
        self._cast(parent, self.file.of(parent)[1:].partition(")")[0], state)

    def _cast(self, node: Node, type_: str, state: _State) -> None:
        kind = " ".join(word for word in re.findall(r"[\w:<>]+|[*&]", type_) if word not in ("const", "volatile", "__restrict__"))
        if kind.endswith("*") and kind.count("*") == 1:
            unit = kind.removesuffix("*").strip()
            self._follow(node, replace(state, rank=1, unit="" if unit == "void" else unit))
        elif state.unit == BYTES and INTEGERS.fullmatch(kind):
            self._follow(node, state)
        else:
            self._stop(node, state, f"{self._quoted(node)} makes {type_} of {state.start.name}")

    # ------------------------------------------------------------------------------------------ where it goes

    def _in_argument_list(self, parent: Node, node: Node, state: _State) -> None:
        call = parent.parent
        if call is None or call.type != "call_expression":
            self._stop(node, state, f"{state.start.name} initialises an object")
            return
        name = self._called(call)
        position = next(i for i, child in enumerate(parent.named_children) if cuda.same(child, node))
        cast = self._cast_type(call)
        if cast:
            self._cast(call, cast, state)
        elif name in TO_ADDRESS:
            self._follow(call, replace(state, rank=1, unit=BYTES))
        elif name in SAME:
            self._follow(call, replace(state, rank=1))
        elif name == "make_tensor" and parent.named_child_count == 2 and position == 0:
            self._reach(call, state, layout=parent.named_children[1])
        elif name in MATRIX:
            self._reach(call, state, leading=parent.named_children[2 if parent.named_child_count > 2 else -1])
        elif name in self.scopes.callables:
            self._into(call, name, position, state)
        elif ACCESSING.fullmatch(name):
            self._access(call, state)
        else:
            self._stop(call, state, f"{state.start.name} is handed to {name}, which this file does not define")

    def _into(self, call: Node, name: str, position: int, state: _State) -> None:
        """Follow an argument into the function or macro of this file that takes it."""
        for made in self.scopes.callables[name]:
            parameter = made.parameters[position] if position < len(made.parameters) else None
            if parameter is None:
                continue
            rank, unit = self._shape(parameter, state) if not made.macro else (state.rank, state.unit)
            known = parameter.id in self.passing
            self._goes_to(call, parameter, rank, unit, state)
            if known:
                self._follow(call, replace(state, rank=self.passing[parameter.id][0], unit=self.passing[parameter.id][1]))

    def _shape(self, declared: Node, state: _State) -> tuple[int, str]:
        """Return how many subscripts a declared pointer, array or reference takes, and what it counts."""
        declarator, rank, stars = declared.parent, 0, 0
        while declarator is not None and not declarator.type.endswith(("declaration", "init_declarator")):
            rank += declarator.type == "array_declarator"
            stars += declarator.type == "pointer_declarator"
            declarator = declarator.parent
        holder = declarator.parent if declarator is not None and declarator.type == "init_declarator" else declarator
        type_ = cuda.field(holder, "type") if holder is not None else None
        named = self.file.of(type_) if type_ is not None else ""
        if named == "auto" and not stars and not rank:
            return max(state.rank, 1), state.unit
        if rank + stars == 0:
            return 1, BYTES
        return rank + stars, "" if named in ("auto", "void") else named

    def _goes_to(self, node: Node, declared: Node, rank: int, unit: str, state: _State) -> None:
        place = self.web.places.get(declared.id)
        if place is None:
            place = self._add(Place(self.file.of(declared), declared, rank, unit))
        self.web.reaches.append(Reach(state.start, state.steps, node, place, unit=state.unit))

    def _in_init_declarator(self, parent: Node, node: Node, state: _State) -> None:
        declarator = cuda.field(parent, "declarator")
        declared = declared_name(declarator) if declarator is not None else None
        if declared is None or not cuda.same(cuda.field(parent, "value"), node):
            self._stop(node, state, f"{state.start.name} initialises an object")
            return
        self._goes_to(node, declared, *self._shape(declared, state), state)

    def _in_assignment_expression(self, parent: Node, node: Node, state: _State) -> None:
        left, right = cuda.field(parent, "left"), cuda.field(parent, "right")
        operator = next((self.file.of(child) for child in parent.children if not child.is_named), "")
        if left is None or right is None:
            return
        if cuda.same(left, node):
            if operator == "=":
                return  # what it becomes is followed from there
            if operator in ("+=", "-="):
                step = Step(right, state.unit, 1, subscript=False, negative=operator == "-=")
                self.web.reaches.append(
                    Reach(state.start, (*state.steps, step), parent, state.start, unit=state.unit, advance=True)
                )
                return
        statement = parent.parent
        declared = pointer_to_array(statement) if statement is not None else None
        if declared is not None:
            self._goes_to(node, declared, 2, "", state)
        elif left.type == "identifier" and operator == "=" and (target := self.scopes.resolve(left)) is not None:
            self._goes_to(node, target, *self._shape(target, state), state)
        else:
            self._stop(parent, state, f"{self._quoted(parent)} keeps an address of {state.start.name} where it is not followed")

    def _in_update_expression(self, parent: Node, node: Node, state: _State) -> None:
        step = Step(None, state.unit, 1, subscript=False)
        self.web.reaches.append(Reach(state.start, (*state.steps, step), parent, state.start, advance=True))

    def _in_return_statement(self, parent: Node, node: Node, state: _State) -> None:
        """Follow what a function returns to wherever it is called."""
        made = self.scopes.holder(parent)
        if made is None:
            self._stop(node, state, f"{state.start.name} is returned")
            return
        if state.start.declared.id not in {p.id for p in made.parameters if p is not None} or state.steps:
            self._stop(node, state, f"{made.name} returns an address within {state.start.name}")
            return
        self.passing[state.start.declared.id] = (state.rank, state.unit)
        for reach in self.web.to(state.start):
            self._follow(reach.node, _State(reach.start, state.rank, state.unit, reach.steps))

    def _in_gnu_asm_input_operand(self, parent: Node, node: Node, state: _State) -> None:
        self._access(node, state)

    def _in_init_statement(self, parent: Node, node: Node, state: _State) -> None:
        self._follow(parent, state)

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

    def _called(self, call: Node) -> str:
        function = cuda.field(call, "function")
        if function is None:
            return ""
        if function.type == "template_function":
            function = cuda.field(function, "name") or function
        return re.sub(r"<.*", "", self.file.of(function), flags=re.DOTALL).rpartition("::")[2].rpartition(".")[2].strip()

    def _cast_type(self, call: Node) -> str:
        """Return the type that a call converts to; empty if it is another call."""
        function = cuda.field(call, "function")
        if function is None:
            return ""
        name, listed = cuda.field(function, "name"), cuda.field(function, "arguments")
        if function.type == "template_function" and name is not None and listed is not None:
            return self.file.of(listed).strip("<>") if self.file.of(name) in CASTS else ""
        text = self.file.of(function)
        return text if INTEGERS.fullmatch(text) and function.type != "template_function" else ""


def lines_of(web: Web) -> Iterator[int]:
    """Yield the lines of all uses."""
    return (reach.node.start_point[0] + 1 for reach in web.reaches)
