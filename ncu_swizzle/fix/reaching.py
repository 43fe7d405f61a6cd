"""Follow a shared array through a file: its subscripts, and every pointer, parameter, object and address made from it.

`ReachWalk` goes from each name of a place to what its expressions come to: `_follow` asks the node around an
expression what becomes of it. An access ends the way; a variable, a parameter or an object's member is another place,
whose uses wait their turn. What is not understood is an obstacle, with its line.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ncu_swizzle.fix import cuda, objects, scopes
from ncu_swizzle.fix.cuda import CLASSES, NOTHING, UNION, Inlined, Node
from ncu_swizzle.fix.objects import arrays, given_by_name, member
from ncu_swizzle.fix.scopes import Definition, Scopes, SharedDeclaration, declared_name, sizes_of
from ncu_swizzle.fix.sums import SIZES
from ncu_swizzle.fix.webs import BYTES, Member, Obstacle, Reach, ReachedPlace, ReachStep, Web

TO_ADDRESS = ("__cvta_generic_to_shared", "cast_smem_ptr_to_uint", "cast_smem_ptr_to_uint32")
SAME = ("make_smem_ptr", "__builtin_assume_aligned", "launder")
MATRIX = ("load_matrix_sync", "store_matrix_sync")
# They access what they are pointed to, as wide as the pointer says or as they are told.
ACCESSING = re.compile(r"(atomic\w+|__pipeline_memcpy_async|memcpy_async|__ld\w+|__st\w+|memcpy)$")
BINDINGS = "structured_binding_declarator"
QUALIFIERS = ("const", "volatile", "__restrict__")
COMPARING = ("==", "!=", "<", ">", "<=", ">=", "&&", "||")
# What does nothing with an address.
IDLE = ("expression_statement", "sizeof_expression", "lambda_capture_specifier", "decltype")


@dataclass(frozen=True, kw_only=True)
class PointerState:
    """Where an expression points: its way from a place so far; `rank` subscripts lead on to an element."""

    start: ReachedPlace
    rank: int
    unit: str
    steps: tuple[ReachStep, ...] = ()

    def stepped(self, left: int, node: Node, **step: Any) -> PointerState:
        """Return the state after one more step, with `left` subscripts left; `step` are fields of a `ReachStep`."""
        return replace(self, steps=(*self.steps, ReachStep(node=node, unit=self.unit, **step)), rank=left)


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceView:
    """What a view is made with: its class, the member that points, and its other members as they were given."""

    struct: Node
    pointer: str
    fields: Mapping[str, Node]


def follow(names: Scopes, declaration: SharedDeclaration, every: tuple[SharedDeclaration, ...]) -> Web:
    """Return everything that reaches into an array, with the other arrays that the same pointers reach into."""
    walk = ReachWalk(names, every)
    walk.follow_array(declaration, others=True)
    return walk.web


class ReachWalk:
    """Collects the web of an array."""

    def __init__(self, names: Scopes, every: tuple[SharedDeclaration, ...]) -> None:
        self.scopes, self.file = names, names.file
        self.declarations = {declaration.declared.id: declaration for declaration in every}
        self._uses: dict[int, list[Node]] = {}
        self._through_this: dict[int, list[Node]] = {}  # this->v, by the declaration of v
        for node in self.file.nodes("this"):
            name = node.parent.part("field").text if node.is_part("argument", "field_expression") else ""
            if declared := member(self.file.class_around(node), name):
                self._through_this.setdefault(declared.id, []).append(node.parent)
        self._begin()

    def _begin(self) -> None:
        self.web = Web()
        self.waiting: list[ReachedPlace] = []
        self.passing: dict[int, tuple[int, str]] = {}  # parameters that are returned: with which rank and unit
        self.classes: dict[int, Node] = {}  # of the places that are objects or point to them, by declared identifier
        self.method_calls: dict[tuple[int, str], list[Node]] = {}  # by class and name
        self.returned: dict[tuple[int, str], list[tuple[PointerState, Definition]]] = {}
        self.views: dict[int, SourceView] = {}  # by what stands for the place
        self.slots: dict[int, tuple[int, str]] = {}  # what stands for which pointer of which name

    # ------------------------------------------------------------------------------------ places

    def follow_array(self, declaration: SharedDeclaration, *, others: bool) -> None:
        """Follow an array; with `others`, also the arrays that a name of its web is made from."""
        self._add_array(declaration)
        while self.waiting:
            place = self.waiting.pop()
            for use in self._uses_of(place.keeper):
                self._follow(use, PointerState(start=place, rank=place.rank, unit=place.unit))
            if others and not place.array:
                self._add_others(place)

    def _uses_of(self, declared: Node) -> list[Node]:
        if declared.id not in self._uses:
            named = [use for use in self.scopes.uses(declared) if use.type == "identifier" or scopes.is_argument(use)]
            self._uses[declared.id] = [*named, *self._through_this.get(declared.id, ())]
        return self._uses[declared.id]

    def _add(self, place: ReachedPlace) -> ReachedPlace:
        self.web.places[place.declared.id] = place
        self.waiting.append(place)
        return place

    def _add_array(self, declaration: SharedDeclaration) -> None:
        if declaration.declared.id not in self.web.places:
            place = ReachedPlace(
                name=declaration.name, declared=declaration.declared, rank=declaration.rank, array=True
            )
            self._is_object(self._add(place), declaration.element)

    def _add_others(self, place: ReachedPlace) -> None:
        """Add the other arrays that one of a web's names is made from: they share its mapping."""
        for declaration in self.declarations.values():
            if declaration.declared.id not in self.web.places:
                # By a walk of its own, with the same file and uses: only if it comes to this place does the other array
                # belong here.
                alone = copy.copy(self)
                alone._begin()
                alone.follow_array(declaration, others=False)
                if place.declared.id in alone.web.places:
                    self._add_array(declaration)

    def _type(self, state: PointerState) -> str:
        """Return the type of what a place's elements are."""
        if state.start.member and not state.unit:
            return state.start.declared.declared_type
        declaration = self.declarations.get(state.start.declared.id)
        return state.unit or (declaration.element if declaration else "")

    def _held(self, state: PointerState) -> Node:
        """Return the class of what a state points to, if it is an object that holds arrays."""
        return self.classes.get(state.start.declared.id, NOTHING)

    # ------------------------------------------------------------------------------------ what becomes of a pointer

    def _follow(self, node: Node, state: PointerState) -> None:  # noqa: PLR0912, PLR0915
        """Follow an expression that points into an array, by the one around it."""
        parent = node.parent
        if not parent:
            return
        view = self.views.get(state.start.declared.id) if not state.steps else None
        if view is not None and node.type == "identifier":
            if not self._viewed(node, parent, state, view):
                self._puzzled(node, parent, state)
            return
        if not state.rank and not state.steps:  # an object, or a reference to one
            self._element(node, state)
            return
        match parent.type:
            case "parenthesized_expression" | "init_statement":
                self._follow(parent, state)
            case "comma_expression":
                if node.is_part("right"):
                    self._follow(parent, state)
            case "conditional_expression":
                if not node.is_part("condition"):
                    self._follow(parent, state)
            case "subscript_expression":
                self._subscript(parent, node, state)
            case "pointer_expression":
                if parent.text.startswith("*"):
                    self._subscripted(parent, NOTHING, state)
                elif state.start.array and not state.steps:
                    self._follow(parent, state)  # &t: what is made of it is cast
                else:
                    self._stop(parent, state, f"{parent.quoted(80)} points to a pointer")
            case "field_expression":
                arrow = self._behind(node).startswith("->")
                self._member(parent, state.stepped(0, NOTHING) if arrow else state)
            case "binary_expression":
                self._sum(parent, node, state)
            case "cast_expression":
                self._cast(parent, parent.part("type").text, state)
            case "argument_list":
                self._argument(parent, node, state)
            case "initializer_list":
                if not self._makes(parent, node, state):
                    self._puzzled(node, parent, state)
            case "initializer_pair" | "parameter_declaration":  # View v(tile) is taken for that of a function
                if not self._makes(parent.parent, node, state):
                    self._stop(node, state, f"{state.start.name} initialises an object")
            case "init_declarator":
                declarator = parent.part("declarator")
                declared = declared_name(declarator) if declarator.type != BINDINGS else NOTHING
                if not declared or not node.is_part("value"):
                    self._stop(node, state, f"{state.start.name} initialises an object")
                else:
                    self._goes_to_declared(node, declared, state)
            case "assignment_expression":
                self._assigned(parent, node, state)
            case "update_expression":
                moved = state.stepped(1, NOTHING, subscript=False)
                self._record(parent, moved, end=state.start, advance=True)
                self._follow_value(parent, state)
            case "return_statement":
                self._return(parent, node, state)
            case "gnu_asm_input_operand":
                self._access(node, state)
            case kind if kind not in IDLE:
                self._puzzled(node, parent, state)

    def _behind(self, node: Node) -> str:
        """Return the text behind an expression in the one around it, such as the operator."""
        return node.parent.text[len(node.text) :].lstrip()

    def _subscript(self, parent: Node, node: Node, state: PointerState) -> None:
        if not node.is_part("argument"):
            self._stop(node, state, f"{state.start.name} is an index")
        elif len(parent.arguments) != 1 or state.unit == BYTES:
            self._stop(parent, state, f"{parent.quoted(80)} has no index of its own")
        else:
            self._subscripted(parent, parent.arguments[0], state)

    def _subscripted(self, parent: Node, index: Node, state: PointerState) -> None:
        rank = max(state.rank, 1)
        onward = self._follow if rank > 1 else self._element
        onward(parent, state.stepped(rank - 1, index, rank=rank))

    def _sum(self, parent: Node, node: Node, state: PointerState) -> None:
        operator, first = parent.part("operator").text, node.is_part("left")
        if operator in COMPARING:
            return
        if operator != "+" and not (operator == "-" and first):
            self._stop(parent, state, f"{parent.quoted(80)} computes with an address of {state.start.name}")
        elif state.rank > 1:
            self._stop(parent, state, f"{parent.quoted(80)} steps over rows of {state.start.name}")
        else:
            added = parent.part("right" if first else "left")
            self._follow(parent, state.stepped(1, added, subscript=False, negative=operator == "-"))

    def _cast(self, node: Node, type_: str, state: PointerState) -> None:
        struct = self._held(state)
        if struct and self.file.class_named(type_.strip(" *&")) is not struct:
            self._stop_bytes(node, state)
            return
        kind = " ".join(word for word in re.findall(r"[\w:<>]+|[*&]", type_) if word not in QUALIFIERS)
        rows = re.fullmatch(r"([\w:<>\s]+)\(\s*\*\s*\)((?:\s*\[[^\]]*\])+)", type_)
        if rows:
            self._follow(node, replace(state, rank=1 + rows[2].count("["), unit=""))
        elif kind.endswith("*") and kind.count("*") == 1:
            unit = kind.removesuffix("*").strip()
            self._follow(node, replace(state, rank=1, unit="" if unit == "void" else unit))
        elif state.unit == BYTES and cuda.INTEGERS.fullmatch(kind):
            self._follow(node, state)
        else:
            self._stop(node, state, f"{node.quoted(80)} makes {type_} of {state.start.name}")

    def _assigned(self, parent: Node, node: Node, state: PointerState) -> None:
        left, right = parent.part("left"), parent.part("right")
        operator = parent.part("operator").text
        if left is node and operator == "=":
            self._follow_value(parent, state)  # what it becomes is followed from there
        elif left is node and operator in ("+=", "-="):
            moved = state.stepped(1, right, subscript=False, negative=operator == "-=")
            self._record(parent, moved, end=state.start, advance=True)
            self._follow_value(parent, state)
        elif declared := scopes.pointer_to_array(parent.parent):
            self._goes_to(node, declared, 1 + len(sizes_of(declared)), "", state)
        elif operator == "=" and (target := self.scopes.meant(left)):
            self._goes_to_declared(node, target, state)
        else:
            kept = f"{parent.quoted(80)} keeps an address of {state.start.name} where it is not followed"
            self._stop(parent, state, kept)

    def _follow_value(self, node: Node, state: PointerState) -> None:
        """Follow the value of an expression that moves a pointer, as in ``*++p``, if it is used."""
        whole = node.out_of("parenthesized_expression", "comma_expression")
        if whole.parent.type not in ("expression_statement", "for_statement"):
            self._follow(node, state)

    def _goes_to_declared(self, node: Node, declared: Node, state: PointerState) -> None:
        """Go on with a variable, whose declaration says what it counts."""
        rank, unit = _shape_of(self.file, declared, state.rank, state.unit)
        self._goes_to(node, declared, rank, unit, state)

    def _goes_to(self, node: Node, declared: Node, rank: int, unit: str, state: PointerState) -> None:
        struct = self._held(state)
        if struct:
            holder = declared.above("declaration", "parameter_declaration")
            if unit in SIZES or holder.part("type").text == "void":
                self._stop_bytes(node, state)
                return
            unit = self._type(state)
        place = self.web.places.get(declared.id)
        if place is None:
            place = self._add(ReachedPlace(name=declared.text, declared=declared, rank=rank, unit=unit))
        self._record(node, state, end=place)
        if struct:
            self._is_object(place, unit)

    # ------------------------------------------------------------------------------------ elements and members

    def _element(self, node: Node, state: PointerState) -> None:
        """Follow an element: mostly it is read or written, but its address may go on, or it is an object."""
        struct = self._held(state)
        if not struct and self._stop_unknown(node, state):
            return
        node = node.out_of("parenthesized_expression")
        parent, kind = node.parent, node.parent.type
        reference = parent.part("declarator") if node.is_part("value", "init_declarator") else NOTHING
        if kind in ("", "expression_statement"):
            if not struct:
                self._access(node, state)
        elif kind == "pointer_expression" and parent.text.startswith("&"):
            self._follow(parent, replace(state, rank=1))
        elif kind == "field_expression" and (struct or self._behind(node).startswith(".")):
            self._member(parent, state)
        elif reference.type == "reference_declarator" and (declared := declared_name(reference)):  # auto &s = *p;
            self._goes_to(node, declared, 0, self._type(state), state)
        elif not struct:
            called = parent.parent.called if kind == "argument_list" else ""
            macro = any(definition.macro for definition in self.scopes.callables.get(called, []))
            # A macro may access more than the element.
            self._access(node, replace(state, unit=BYTES) if macro else state)
        elif kind == "argument_list":
            self._handed(parent, node, state)
        elif not self._use(node, struct):
            self._stop(parent, state, f"{parent.quoted(80)} uses {state.start.name} as a whole")

    def _member(self, node: Node, state: PointerState) -> None:
        """Follow a member of a struct: an array in it is a place of its own, anything else an element."""
        struct, name = self._held(state), node.part("field").text
        if struct and name:
            if declared := next((d for d in arrays(struct) if d.text == name), NOTHING):
                place = self._member_of(state.start, declared)
                self._follow(node, PointerState(start=place, rank=place.rank, unit=""))
            elif not self._named(node, struct):
                self._stop(node, state, f"{node.quoted(80)} is not to be found in {self._type(state)}")
            return
        declared = member(self.file.class_named(self._type(state), *CLASSES, UNION), name)
        rank = len(sizes_of(declared))
        if not rank:
            self._access(node, state)
            return
        new = ReachedPlace(name=name, declared=declared, rank=rank, member=True)
        place = self.web.places.setdefault(declared.id, new)
        self._holds(state.start, place)
        self._follow(node, PointerState(start=place, rank=rank, unit=""))

    def _holds(self, through: ReachedPlace, place: ReachedPlace) -> None:
        """Note that the structs which a place reaches hold an array."""
        if not any(held.place is place and held.through is through for held in self.web.members):
            outer = next((held for held in self.web.members if held.place is through), None)
            holder = f"{outer.object_}." if outer else ""
            object_ = f"{holder}{through.name}{'[0]' * through.rank}"
            self.web.members.append(Member(place=place, through=through, object_=object_, outer=outer))

    # ------------------------------------------------------------------------------------ calls

    def _argument(self, listed: Node, node: Node, state: PointerState) -> None:
        """Follow an argument: into an object, a function or macro of this file, an access, an address."""
        if self._makes(listed, node, state):
            return
        call, held, start = listed.parent, self._held(state), state.start.name
        name, count, number = call.called, len(listed.named_children), node.number
        definitions = self._definitions(call)
        if held and not definitions:
            self._stop_bytes(call, state)
        elif call.type != "call_expression":
            self._stop(node, state, f"{start} initialises an object")
        elif held:
            self._into(call, definitions, number, state)
        elif cast := call.cast_type:
            self._cast(call, cast, state)
        elif name in TO_ADDRESS:
            self._follow(call, replace(state, rank=1, unit=BYTES))
        elif name in SAME:
            self._follow(call, replace(state, rank=1))
        elif name == "make_tensor" and count == 2 and number == 0:
            self._access(call, state, layout=listed.named_children[1])
        elif name in MATRIX:
            self._access(call, state, leading=listed.named_children[2 if count > 2 else -1])
        elif definitions:
            self._into(call, definitions, number, state)
        elif ACCESSING.fullmatch(name):
            self._access(call, state)
        else:
            self._stop(call, state, f"{start} is handed to {name}, which this file does not define")

    def _definitions(self, call: Node) -> list[Definition]:
        """Return what a call may call: functions and macros of this file, or the operators of an object."""
        if call.type != "call_expression":
            return []
        return self.scopes.callables.get(call.called, []) or list(objects.called_objects(self.scopes, call))

    def _into(self, call: Node, definitions: Sequence[Definition], number: int, state: PointerState) -> None:
        """Follow an argument into the function or macro of this file that takes it."""
        for definition in definitions:
            parameter = definition.parameter(number)
            if not parameter:
                continue
            rank, unit = state.rank, state.unit
            if not definition.macro:
                rank, unit = _shape_of(self.file, parameter, rank, unit)
            # A return that was followed before this call was found went on to the earlier calls only.
            passed_on = parameter.id in self.passing
            self._goes_to(call, parameter, rank, unit, state)
            if passed_on:
                rank, unit = self.passing[parameter.id]
                self._follow(call, replace(state, rank=rank, unit=unit))

    def _return(self, statement: Node, node: Node, state: PointerState) -> None:
        """Follow what a function returns to wherever it is called."""
        definition, struct, start = self.scopes.holder(statement), self.file.class_around(statement), state.start
        if definition is None:
            self._stop(node, state, f"{start.name} is returned")
        elif struct and start.member:
            key = (struct.id, definition.name)
            self.returned.setdefault(key, []).append((state, definition))
            for call in tuple(self.method_calls.get(key, ())):
                self._resume(call, state, definition)
        elif state.steps and self._computed(definition, statement, state):
            return
        elif definition.takes(start.declared) is None or state.steps:
            self._stop(node, state, f"{definition.name} returns an address within {start.name}")
        else:
            self.passing[start.declared.id] = (state.rank, state.unit)
            for reach in self.web.to(start):
                self._follow(reach.node, replace(state, start=reach.start, steps=reach.steps))

    def _computed(self, definition: Definition, statement: Node, state: PointerState) -> bool:
        """Follow the address that a function only computes, ``return s + r * 32``, to where it is called."""
        if definition.macro or definition.statements != [statement]:
            return False
        for call in self.scopes.calls(definition.name):
            steps = objects.handed_steps(self.scopes, definition, call, state.steps)
            if steps is None:
                return False
            starts = [(state.start, tuple[ReachStep, ...]())]
            if definition.takes(state.start.declared) is not None:
                into = [reach for reach in self.web.to(state.start) if reach.node is call]
                starts = [(reach.start, reach.steps) for reach in into]
            for start, before in starts:
                self._follow(call, replace(state, start=start, steps=(*before, *steps)))
        return True

    # ------------------------------------------------------------------------------------ objects that hold arrays

    def _is_object(self, place: ReachedPlace, type_: str) -> None:
        """Note that a place is an object, if its class holds arrays."""
        struct = self.file.class_named(type_)
        if not struct or not arrays(struct) or place.declared.id in self.classes:
            return
        known = any(other is struct for other in self.classes.values())
        self.classes[place.declared.id] = struct
        for declared in arrays(struct):
            self._member_of(place, declared)
        if not known:
            self._follow_methods(struct)

    def _member_of(self, through: ReachedPlace, declared: Node) -> ReachedPlace:
        place = self.web.places.get(declared.id)
        if place is None:
            rank = len(sizes_of(declared))
            place = self._add(ReachedPlace(name=declared.text, declared=declared, rank=rank, member=True))
        self._holds(through, place)
        self._is_object(place, declared.declared_type)  # structs within structs
        return place

    def _follow_methods(self, struct: Node) -> None:
        """Follow what the methods of a class do with their own object, and with each other."""
        methods = self.file.method_names(struct)
        for node in (node for function in self.file.methods(struct) for node in function.walk()):
            function = node.part("function") if node.type == "call_expression" else NOTHING
            if function.type == "identifier" and function.text in methods:
                self._call(struct, function.text, node)
            elif node.type == "this":
                holder = node.parent
                object_ = holder.type == "pointer_expression" and holder.text.startswith("*")
                (self._use if object_ else self._named)(holder, struct)

    def _use(self, node: Node, struct: Node) -> bool:
        """Follow a use of an object that calls one of its methods; return whether it is one."""
        node = node.out_of("parenthesized_expression")
        if node.is_part("function", "call_expression"):
            return self._call(struct, "operator()", node.parent)
        if node.is_part("argument", "subscript_expression"):
            return self._call(struct, "operator[]", node.parent)
        return self._named(node.parent, struct)

    def _named(self, node: Node, struct: Node) -> bool:
        """Follow a member that is named; return whether it is one that needs no more."""
        name = node.part("field").text if node.type == "field_expression" else ""
        if name and node.is_part("function", "call_expression"):
            return self._call(struct, name, node.parent)
        declared = member(struct, name)
        return bool(declared) and not arrays(self.file.class_of_variable(declared))

    def _call(self, struct: Node, name: str, call: Node) -> bool:
        """Follow what a method returns to where it is called; return whether the file defines it."""
        self.method_calls.setdefault((struct.id, name), []).append(call)
        for state, method in tuple(self.returned.get((struct.id, name), ())):
            self._resume(call, state, method)
        return name in self.file.method_names(struct)

    def _resume(self, call: Node, state: PointerState, definition: Definition) -> None:
        """Go on where a method is called: its parameters are the arguments there."""
        given = call.arguments

        def there(step: ReachStep) -> ReachStep:
            if not step.node:
                return step
            number = definition.takes(self.scopes.meant(step.node))
            if number is not None and number < len(given):
                return replace(step, node=given[number])
            declared = (self.scopes.meant(node) for node in step.node.walk())
            return replace(step, foreign=any(d.inside(definition.node) for d in declared))

        self._follow(call, replace(state, steps=tuple(there(step) for step in state.steps)))

    def _handed(self, listed: Node, node: Node, state: PointerState) -> None:
        """Follow an object into the functions of this file that take a reference."""
        call, number, start = listed.parent, node.number, state.start.name
        definitions = [definition for definition in self._definitions(call) if definition.parameter(number)]
        for definition in definitions:
            parameter = definition.parameter(number)
            if definition.macro or parameter.above("reference_declarator"):
                self._goes_to(call, parameter, 0, self._type(state), state)
            else:
                self._stop(node, state, f"{call.called} takes {start} by value")
        if not definitions:
            self._stop(node, state, f"{start} is handed to {call.called}, which this file does not define")

    # ------------------------------------------------------------------------------------ views: objects that point

    def _makes(self, listed: Node, node: Node, state: PointerState) -> bool:
        """Follow a pointer into the object that it is given to; return whether it is one of this file's classes."""
        made_object = objects.fields_made(self.scopes, listed) if not self._held(state) else None
        pointers = [name for name, value in made_object.fields.items() if value is node] if made_object else []
        if made_object is None or not pointers:
            return False
        struct, whole, pointer = made_object.struct, made_object.whole, pointers[0]
        counts = objects.numbers(struct)
        if objects.are_changed(self.scopes, struct, counts):
            return False
        fields = {name: value for name, value in made_object.fields.items() if name in counts}
        view = SourceView(struct=struct, pointer=pointer, fields=fields)
        holder = whole.parent
        # In a declaration, what looks like a function is the variable.
        declarator = whole if holder.type == "declaration" else holder.part("declarator")
        if declarator.type == BINDINGS:
            return False
        if holder.type in ("declaration", "init_declarator") and (declared := declared_name(declarator)):
            return self._kept(node, declared, state, view)
        return holder.type == "argument_list" and self._passed(whole, state, view)

    def _kept(self, node: Node, declared: Node, state: PointerState, view: SourceView) -> bool:
        """Go on with a name for a view: where it is used."""
        slot = self._slot(declared, view.pointer)
        if (known := self.views.get(slot.id)) is not None and not self._alike(known, view):
            return False
        self.views[slot.id] = view
        place = self.web.places.get(slot.id)
        if place is None:
            name = declared.text + (f".{view.pointer}" if slot is not declared else "")
            place = self._add(
                ReachedPlace(name=name, declared=slot, rank=1, unit=state.unit, kept=declared, pointer=view.pointer)
            )
        self._record(node, state, end=place)
        return True

    def _slot(self, declared: Node, pointer: str) -> Node:
        """Return what stands for a pointer that a name keeps: the name, for another one a node beside it."""
        holder = declared.above("declaration", "parameter_declaration") or declared
        for slot in (declared, *holder.walk()):
            if self.slots.setdefault(slot.id, (declared.id, pointer)) == (declared.id, pointer):
                return slot
        return declared

    def _alike(self, one: SourceView, other: SourceView) -> bool:
        """Return whether two views have the same class and shape, so that one name may stand for both."""
        texts = [{name: node.text for name, node in view.fields.items()} for view in (one, other)]
        return one.struct is other.struct and one.pointer == other.pointer and texts[0] == texts[1]

    def _passed(self, node: Node, state: PointerState, view: SourceView) -> bool:
        """Follow a view into the functions that it is an argument of; return whether all of them show it."""
        definitions = self._definitions(node.parent.parent)
        number = node.number
        parameters = [m.parameters[number] for m in definitions if number < len(m.parameters) and not m.macro]
        return bool(parameters) and all(p and self._kept(node, p, state, view) for p in parameters)

    def _viewed(self, node: Node, parent: Node, state: PointerState, view: SourceView) -> bool:
        """Follow a use of a view; return whether it is understood."""
        match parent.type:
            case "field_expression":
                return self._member_viewed(parent, state, view)
            case "call_expression":
                return self._indexed(parent, "operator()", state, view)
            case "subscript_expression":
                return node.is_part("argument") and self._indexed(parent, "operator[]", state, view)
            case "argument_list":
                return self._passed(node, state, view)
            case "init_declarator":
                declared = declared_name(parent.part("declarator"))
                return bool(declared) and self._kept(node, declared, state, view)
            case kind:
                return kind in ("lambda_capture_specifier", "sizeof_expression", "decltype")

    def _member_viewed(self, node: Node, state: PointerState, view: SourceView) -> bool:
        name = (node.part("field").part("name") or node.part("field")).text
        if node.is_part("function", "call_expression"):
            return self._indexed(node.parent, name, state, view)
        if name == view.pointer:
            self._follow(node, state)
        elif name in view.fields:
            self.scopes.indexing[node.id] = Inlined(body=view.fields[name], arguments={}, closed=frozenset())
        return True

    def _indexed(self, call: Node, name: str, state: PointerState, view: SourceView) -> bool:
        """Follow a call of a method: its index is an expression of the arguments."""
        given = call.arguments
        method = objects.method_of(self.scopes, view.struct, name, len(given))
        does = objects.pointed(method, view.pointer) if method else None
        if method is None or does is None:
            return False
        if not does.used:
            return True
        if does.index:
            arguments = given_by_name(method, given)
            index = arguments.get(does.index.text, call) if does.index.type == "identifier" else call
            if index is call:  # it stands for what the method computes
                self.scopes.indexing[call.id] = Inlined(
                    body=does.index, arguments=arguments, closed=frozenset(arguments), fields=view.fields, indexing=True
                )
            state = state.stepped(1, index)
        if does.element and does.whole:
            self._element(call, replace(state, rank=0))
        elif does.element:
            self._access(call, state)
        else:
            self._follow(call, state)
        return True

    # ------------------------------------------------------------------------------------ what is found

    def _record(self, node: Node, state: PointerState, **rest: Any) -> None:
        """Note a use; `rest` are fields of a `Reach`."""
        self.web.reaches.append(Reach(start=state.start, steps=state.steps, node=node, unit=state.unit, **rest))

    def _access(self, node: Node, state: PointerState, layout: Node = NOTHING, leading: Node = NOTHING) -> None:
        if self._held(state):
            self._stop_bytes(node, state)
        else:
            self._record(node, state, layout=layout, leading=leading)

    def _stop(self, node: Node, state: PointerState, reason: str) -> None:
        self.web.obstacles.append(Obstacle(start=state.start, line=node.line, reason=reason))

    def _stop_bytes(self, node: Node, state: PointerState) -> None:
        self._stop(node, state, f"{node.quoted(80)} takes {state.start.name} as bytes")

    def _stop_unknown(self, node: Node, state: PointerState) -> bool:
        """Stop at an object of which the file shows no arrays, if it is used as one; return whether it is."""
        type_ = self._type(state)
        if not state.start.array or state.rank or state.steps or type_ in SIZES:
            return False
        if node.parent.type not in ("field_expression", "call_expression", "subscript_expression", "argument_list"):
            return False
        why = "is not defined in this file" if not self.file.class_named(type_) else "has no arrays of its own"
        if self.file.class_named(type_, UNION):
            why = "is a union, whose members share their bytes"
        self._stop(node, state, f"{state.start.name} is an object of {type_}, which {why}")
        return True

    def _puzzled(self, node: Node, around: Node, state: PointerState) -> None:
        reason = f"{state.start.name} is used in a way that is not understood: {around.quoted(80)}"
        self._stop(node, state, reason)


def _shape_of(file: cuda.CudaFile, declared: Node, rank: int, unit: str) -> tuple[int, str]:
    """Return how many subscripts a declared pointer, array or reference takes, and what it counts."""
    declarator, sizes, stars = declared.parent, 0, 0
    while declarator and not declarator.type.endswith(("declaration", "init_declarator")):
        sizes += declarator.type == "array_declarator"
        stars += declarator.type == "pointer_declarator"
        declarator = declarator.parent
    holder = declarator.parent if declarator.type == "init_declarator" else declarator
    type_ = holder.part("type")
    named, inner = file.array_alias(type_.text) if type_ else ("", ())
    sizes += len(inner)
    if named == "auto" and not stars and not sizes:
        return max(rank, 1), unit
    if sizes + stars == 0:
        return 1, BYTES
    return sizes + stars, unit if named == "auto" else "" if named == "void" else named
