"""Objects of a class that hold a shared array: what their methods and those who are handed them do with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda, expressions
from ncu_swizzle.fix.cuda import CudaFile, Obstacle, ReachedPlace, ReachStep, Web, called
from ncu_swizzle.fix.expressions import PointerState, PointerUse
from ncu_swizzle.fix.handing import HandingWalk
from ncu_swizzle.fix.scopes import Definition, Scopes, declared_name, sizes_of
from ncu_swizzle.fix.sums import SIZES

if TYPE_CHECKING:
    from tree_sitter import Node


# Where else a file speaks of a class: an edit of the class changes other objects with those in shared memory.


PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
POINTING = (
    "reference_declarator", "pointer_declarator", "abstract_reference_declarator", "abstract_pointer_declarator",
)  # fmt: skip
NAMING = ("template_type", "template_function", "qualified_identifier")
DEFINING = ("alias_declaration", "type_definition", *cuda.CLASSES)


def elsewhere(scopes: Scopes, struct: Node, web: Web) -> Iterator[tuple[Node, str]]:
    """Yield the mentions of a class that are, or may be, objects out of shared memory, each with what to say of it."""
    file = scopes.file
    names = cuda.names(file, struct)
    for node in file.nodes("type_identifier", "identifier"):
        if file.of(node) in names and not _known(file, node, web):
            holder = cuda.above(node, "declaration", "field_declaration", *PARAMETERS, "expression_statement") or node
            text = " ".join(file.of(holder).split())
            yield node, f"{file.of(node)} is used where it cannot be followed: {text[:80]}"


def _known(file: CudaFile, node: Node, web: Web) -> bool:
    """Say whether a mention makes no object, or one that is followed."""
    while node.parent is not None and node.parent.type in NAMING:
        if cuda.same(cuda.field_of(node.parent, "scope"), node):
            return True  # a constant or a method of the class
        if not cuda.same(cuda.field_of(node.parent, "name"), node):
            break
        node = node.parent
    holder = node.parent
    if holder is None or holder.type in DEFINING:
        return holder is not None and not (holder.type in cuda.CLASSES and node.type != "type_identifier")
    if holder.type == "function_declarator":  # a constructor
        return cuda.above(holder, *cuda.CLASSES) is not None
    if holder.type == "type_descriptor":
        return _converted(file, holder, web)
    return _declaring(file, holder, web)


def _converted(file: CudaFile, described: Node, web: Web) -> bool:
    """Say whether a type is an alias's, or that of a conversion which is followed."""
    holder = described.parent
    if holder is None or holder.type in DEFINING:
        return holder is not None
    if holder.type == "template_argument_list":
        call = cuda.above(holder, "call_expression")
        function = cuda.field_of(call, "function") if call is not None else None
        if call is None or not cuda.same(holder.parent, function):
            return False
        holder = call
        if not called(file, call).endswith("_cast"):
            return False
    return any(cuda.inside(holder, reach.node) for reach in web.reaches)


def _declaring(file: CudaFile, holder: Node, web: Web) -> bool:
    """Say whether a declaration makes shared objects, or references that are followed."""
    declarators = holder.children_by_field_name("declarator")
    words = {file.of(child) for child in holder.children}
    if holder.type == "declaration" and "__shared__" in words:
        return True
    if holder.type == "field_declaration" and declarators and all(d.type == "array_declarator" for d in declarators):
        named = (declared_name(declarator) for declarator in declarators)
        return all(name is not None and name.id in web.places for name in named)
    inner = [cuda.field_of(d, "declarator") or d if d.type == "init_declarator" else d for d in declarators]
    if not inner or not all(d.type in POINTING for d in inner):
        return False
    if holder.type == "declaration":
        named = (declared_name(declarator) for declarator in inner)
        return all(name is not None and name.id in web.places for name in named)
    if holder.type in ("function_definition", "field_declaration"):
        return all(d.type == "reference_declarator" for d in inner)
    return holder.type in PARAMETERS and _on_device(file, holder)


def _on_device(file: CudaFile, parameter: Node) -> bool:
    function = cuda.above(parameter, "function_definition", "field_declaration", "declaration", "lambda_expression")
    if function is None:
        return False
    words = {file.of(child) for child in function.children if child.child_count == 0}
    return function.type == "lambda_expression" or ("__device__" in words and "__global__" not in words)


@dataclass(frozen=True, eq=False)
class _MethodCall:
    """A call of a method, with its arguments."""

    node: Node
    arguments: tuple[Node, ...]


class ObjectWalk(HandingWalk):
    """Follows objects of the file's classes, from where they are declared to the arrays in them."""

    def _start(self) -> None:
        super()._start()
        self.classes: dict[int, Node] = {}  # of the places that are objects or point to them, by declared identifier
        self.called: dict[tuple[int, str], list[_MethodCall]] = {}  # by class and name
        self.returned: dict[tuple[int, str], list[tuple[PointerState, Definition]]] = {}

    def _held(self, state: PointerState) -> Node | None:
        """Return the class of what a state points to; None if it is no object that holds arrays."""
        return self.classes.get(state.start.declared.id)

    def _is_object(self, place: ReachedPlace, type_: str) -> None:
        """Note that a place is an object, if its class holds arrays."""
        struct = cuda.find(self.file, type_)
        if struct is None or not expressions.arrays(struct) or place.declared.id in self.classes:
            return
        known = any(cuda.same(other, struct) for other in self.classes.values())
        self.classes[place.declared.id] = struct
        for declared in expressions.arrays(struct):
            self._member_of(place, declared)
        if not known:
            self._within(struct)

    def _member_of(self, through: ReachedPlace, declared: Node) -> ReachedPlace:
        place = self.web.places.get(declared.id)
        if place is None:
            place = self._add(
                ReachedPlace(name=self.file.of(declared), declared=declared, rank=len(sizes_of(declared)), member=True)
            )
        self._holds(through, place)
        self._is_object(place, expressions.type_of(self.file, declared))  # structs within structs
        return place

    def _within(self, struct: Node) -> None:
        """Follow what the methods of a class do with their own object, and with each other."""
        methods = cuda.methods(self.file, struct)
        for node in (node for function in cuda.functions(self.file, struct) for node in cuda.walk(function)):
            function = cuda.field_of(node, "function") if node.type == "call_expression" else None
            if function is not None and function.type == "identifier" and self.file.of(function) in methods:
                self._call(struct, self.file.of(function), node)
            elif node.type == "this" and node.parent is not None:
                holder = node.parent
                pointed = holder.type == "pointer_expression" and self.file.of(holder).startswith("*")
                if not (self._use(holder, struct) if pointed else self._named(holder, struct)):
                    self._obstruct(struct, holder, f"{self._quoted(holder)} hands the object on")

    def _use(self, node: Node, struct: Node) -> bool:
        """Follow a use of an object that calls one of its methods; say whether it is one."""
        parent = node.parent
        while parent is not None and parent.type == "parenthesized_expression":
            node, parent = parent, parent.parent
        if parent is None:
            return False
        if parent.type == "call_expression" and cuda.same(cuda.field_of(parent, "function"), node):
            return self._call(struct, "operator()", parent)
        if parent.type == "subscript_expression" and cuda.same(cuda.field_of(parent, "argument"), node):
            return self._call(struct, "operator[]", parent)
        return self._named(parent, struct)

    def _named(self, node: Node, struct: Node) -> bool:
        """Follow a member that is named; say whether it is one that needs no more."""
        name = cuda.field_of(node, "field") if node.type == "field_expression" else None
        if name is None:
            return False
        text, holder = self.file.of(name), node.parent
        if (
            holder is not None
            and holder.type == "call_expression"
            and cuda.same(cuda.field_of(holder, "function"), node)
        ):
            return self._call(struct, text, holder)
        for declaration, declared in expressions.members(struct):
            if self.file.of(declared) == text:
                type_ = cuda.field_of(declaration, "type")
                inner = cuda.find(self.file, self.file.of(type_)) if type_ is not None else None
                return inner is None or not expressions.arrays(inner)
        return False

    def _call(self, struct: Node, name: str, call: Node) -> bool:
        """Follow what a method returns to where it is called; say whether the file defines it."""
        listed = cuda.field_of(call, "arguments") or cuda.field_of(call, "indices")
        made = _MethodCall(call, tuple(listed.named_children) if listed is not None else ())
        self.called.setdefault((struct.id, name), []).append(made)
        outer = call.parent
        while outer is not None and outer.type == "parenthesized_expression":
            outer = outer.parent
        if outer is not None and outer.type == "pointer_expression" and self.file.of(outer).startswith("&"):
            self._obstruct(struct, outer, f"{self._quoted(outer)} is an address that a method returns")
        for state, method in tuple(self.returned.get((struct.id, name), ())):
            self._resume(made, state, method)
        return name in cuda.methods(self.file, struct)

    def _in_return_statement(self, use: PointerUse) -> None:
        made, struct = self.scopes.holder(use.parent), cuda.around(self.file, use.parent)
        if made is None or struct is None or not use.state.start.member:
            super()._in_return_statement(use)
            return
        key = (struct.id, "".join(made.name.split()))
        self.returned.setdefault(key, []).append((use.state, made))
        for call in tuple(self.called.get(key, ())):
            self._resume(call, use.state, made)

    def _resume(self, call: _MethodCall, state: PointerState, made: Definition) -> None:
        """Go on where a method is called: its parameters are the arguments there."""
        parameters = {p.id: number for number, p in enumerate(made.parameters) if p is not None}

        def there(step: ReachStep) -> ReachStep:
            if step.node is None:
                return step
            declared = [self.scopes.resolve(node) for node in cuda.walk(step.node) if node.type == "identifier"]
            number = parameters.get(declared[0].id) if declared and declared[0] is not None else None
            if step.node.type == "identifier" and number is not None and number < len(call.arguments):
                return replace(step, node=call.arguments[number])
            return replace(step, foreign=any(cuda.inside(d, made.node) for d in declared if d is not None))

        self._follow(call.node, replace(state, steps=tuple(there(step) for step in state.steps)))

    # ------------------------------------------------------------------------------------ uses of objects

    def _element(self, node: Node, state: PointerState) -> None:
        struct = self._held(state)
        if struct is None:
            if not self._unknown(node, state):
                super()._element(node, state)
            return
        parent = node.parent
        while parent is not None and parent.type == "parenthesized_expression":
            node, parent = parent, parent.parent
        if parent is None or parent.type == "expression_statement":
            return
        reference = self._reference(parent, node)
        if parent.type == "field_expression":
            self._member(parent, state)
        elif parent.type == "pointer_expression" and self.file.of(parent).startswith("&"):
            self._follow(parent, replace(state, rank=1))
        elif reference is not None:
            self._goes_to(node, reference, 0, self._type(state), state)
        elif parent.type == "argument_list" and not cuda.same(cuda.field_of(parent, "function"), node):
            self._handed(parent, node, state)
        elif not self._use(node, struct):
            self._stop(parent, state, f"{self._quoted(parent)} uses {state.start.name} as a whole")

    def _unknown(self, node: Node, state: PointerState) -> bool:
        """Stop at an object of which the file shows no arrays, if it is used as one."""
        type_ = self._type(state)
        if not state.start.array or state.rank or state.steps or node.parent is None or type_ in SIZES:
            return False
        if node.parent.type not in ("field_expression", "call_expression", "subscript_expression", "argument_list"):
            return False
        struct, union = cuda.find(self.file, type_), cuda.find(self.file, type_, "union_specifier")
        why = "has no arrays of its own" if struct is not None else "is not defined in this file"
        why = "is a union, whose members share their bytes" if union is not None else why
        self._stop(node, state, f"{state.start.name} is an object of {type_}, which {why}")
        return True

    def _handed(self, listed: Node, node: Node, state: PointerState) -> None:
        """Follow an object into the functions of this file that take a reference."""
        call = listed.parent
        is_call = call is not None and call.type == "call_expression"
        name = cuda.called(self.file, call) if call is not None and is_call else ""
        position = next(i for i, child in enumerate(listed.named_children) if cuda.same(child, node))
        found = False
        for made in self._definitions(call) if call is not None and is_call else ():
            parameter = made.parameters[position] if position < len(made.parameters) else None
            if parameter is not None and call is not None:
                found = True
                if not made.macro and cuda.above(parameter, "reference_declarator") is None:
                    self._stop(node, state, f"{name} takes {state.start.name} by value")
                    continue
                self._goes_to(call, parameter, 0, self._type(state), state)
        if not found:
            self._stop(node, state, f"{state.start.name} is handed to {name}, which this file does not define")

    def _member(self, node: Node, state: PointerState) -> None:
        struct, name = self._held(state), cuda.field_of(node, "field")
        if struct is None or name is None:
            super()._member(node, state)
            return
        for declared in expressions.arrays(struct):
            if self.file.of(declared) == self.file.of(name):
                place = self._member_of(state.start, declared)
                self._follow(node, PointerState(start=place, rank=place.rank, unit=""))
                return
        if not self._named(node, struct):
            self._stop(node, state, f"{self._quoted(node)} is not to be found in {self._type(state)}")

    def _in_argument_list(self, use: PointerUse) -> None:
        call = use.parent.parent
        if self._held(use.state) is None:
            super()._in_argument_list(use)
        elif call is not None and call.type == "call_expression" and (made := self._definitions(call)):
            position = next(i for i, child in enumerate(use.parent.named_children) if cuda.same(child, use.node))
            self._into(call, made, position, use.state)
        else:
            self._whole(use.parent if call is None else call, use.state)

    def _goes_to(self, node: Node, declared: Node, rank: int, unit: str, state: PointerState) -> None:
        if self._held(state) is None:
            super()._goes_to(node, declared, rank, unit, state)
            return
        holder = cuda.above(declared, "declaration", "parameter_declaration")
        named = cuda.field_of(holder, "type") if holder is not None else None
        if unit in SIZES or (named is not None and self.file.of(named) == "void"):
            self._whole(node, state)
            return
        type_ = self._type(state)
        super()._goes_to(node, declared, rank, type_, state)
        self._is_object(self.web.places[declared.id], type_)

    def _cast(self, node: Node, type_: str, state: PointerState) -> None:
        struct = self._held(state)
        if struct is not None and not cuda.same(cuda.find(self.file, type_.strip(" *&")), struct):
            self._whole(node, state)
        else:
            super()._cast(node, type_, state)

    def _reach(self, node: Node, state: PointerState, layout: Node | None = None, leading: Node | None = None) -> None:
        if self._held(state) is not None:
            self._whole(node, state)
        else:
            super()._reach(node, state, layout, leading)

    def _whole(self, node: Node, state: PointerState) -> None:
        self._stop(node, state, f"{self._quoted(node)} takes {state.start.name} as bytes")

    def _stop(self, node: Node, state: PointerState, reason: str) -> None:
        struct = self._held(state)
        if struct is None:
            super()._stop(node, state, reason)
        else:
            self._obstruct(struct, node, reason)

    def _obstruct(self, struct: Node, node: Node, reason: str, length: bool = False) -> None:
        """Put something in the way of all arrays of a class, or with `length` only of longer rows."""
        for declared in expressions.arrays(struct):
            place = self.web.places[declared.id]
            self.web.obstacles.append(Obstacle(start=place, line=self.file.line(node), reason=reason, length=length))

    def _mentioned(self) -> None:
        """Put other objects of the same classes in the way: an edit of the class is one of them, too."""
        for key in self.returned.keys() - self.called.keys():
            for state, made in self.returned[key]:
                reason = f"{made.name} returns an address within {state.start.name}, and nothing shows what for"
                self._stop(made.node, state, reason)
        for struct in {struct.id: struct for struct in self.classes.values()}.values():
            data = not cuda.methods(self.file, struct)  # other objects are only changed with their class
            for node, reason in elsewhere(self.scopes, struct, self.web):
                self._obstruct(struct, node, reason, length=data)
