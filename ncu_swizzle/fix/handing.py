"""Pointers into a shared array that go on: to functions, variables, assembly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import BYTES, Inlined, Reach, ReachStep
from ncu_swizzle.fix.expressions import ACCESSING, MATRIX, SAME, TO_ADDRESS, PointerState, PointerUse, PointerWalk
from ncu_swizzle.fix.scopes import Definition, Scopes, declared_name, pointer_to_array, sizes_of

if TYPE_CHECKING:
    from tree_sitter import Node


# Objects that are called: what ``op(params, storage)`` and ``Op{}(params, storage)`` call.


def called_objects(scopes: Scopes, call: Node) -> Iterator[Definition]:
    """Yield the operators of the class whose object is called; of any class if only one takes as many arguments."""
    function, listed = cuda.field_of(call, "function"), cuda.field_of(call, "arguments")
    if function is None or listed is None or function.type == "field_expression":
        return
    every = [made for name, all_ in scopes.callables.items() if "".join(name.split()) == "operator()" for made in all_]
    fitting = [made for made in every if len(made.parameters) == listed.named_child_count]
    type_ = _type(scopes, function)
    struct = cuda.find(scopes.file, type_) if type_ else None
    if struct is not None:
        yield from (made for made in fitting if cuda.same(cuda.of_function(scopes.file, made.node), struct))
    elif type_ and len(fitting) == 1:
        yield fitting[0]


def handed_steps(
    scopes: Scopes, made: Definition, call: Node, given: Sequence[Node], state: PointerState
) -> tuple[ReachStep, ...] | None:
    """Return the steps in a function as they are where it is called; None if more than one computes with arguments.

    A step that is a parameter is the argument; for one that computes with them, the call stands.
    """
    names = [scopes.file.of(name) if name is not None else "" for name in made.parameters]
    if len(names) != len(given) or call.id in scopes.indexing:
        return None
    arguments, steps = dict(zip(names, given, strict=True)), list[ReachStep]()
    for step in state.steps:
        node = step.node
        if node is not None and node.type == "identifier" and scopes.file.of(node) in arguments:
            node = arguments[scopes.file.of(node)]
        elif node is not None and any(scopes.file.of(name) in arguments for name in cuda.walk(node)):
            if call.id in scopes.indexing:
                return None
            scopes.indexing[call.id] = Inlined(body=node, arguments=arguments, closed=frozenset(names), indexing=True)
            node = call
        steps.append(replace(step, node=node))
    return tuple(steps)


def _type(scopes: Scopes, function: Node) -> str:
    """Return the type of what is called; empty if it is no object."""
    holder: Node | None = function
    if function.type == "call_expression":  # Op()(…)
        named = cuda.field_of(function, "function")
        return scopes.file.of(named) if named is not None else ""
    if function.type == "identifier":
        declared = scopes.resolve(function)
        holder = cuda.above(declared, "declaration", "parameter_declaration") if declared is not None else None
    type_ = cuda.field_of(holder, "type") if holder is not None else None
    return scopes.file.of(type_) if type_ is not None else ""


class HandingWalk(PointerWalk):
    """Follows pointers to where they go: functions, variables, assembly."""

    def _in_argument_list(self, use: PointerUse) -> None:
        call = use.parent.parent
        if call is None or call.type != "call_expression":
            self._stop(use.node, use.state, f"{use.state.start.name} initialises an object")
            return
        name = cuda.called(self.file, call)
        position = next(i for i, child in enumerate(use.parent.named_children) if cuda.same(child, use.node))
        cast = cuda.cast_type(self.file, call)
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
        elif made := self._definitions(call):
            self._into(call, made, position, use.state)
        elif ACCESSING.fullmatch(name):
            self._access(call, use.state)
        else:
            self._stop(call, use.state, f"{use.state.start.name} is handed to {name}, which this file does not define")

    def _definitions(self, call: Node) -> list[Definition]:
        """Return what a call may call: functions and macros of this file, or the operators of an object."""
        found = self.scopes.callables.get(cuda.called(self.file, call), [])
        return found or list(called_objects(self.scopes, call))

    def _into(self, call: Node, definitions: Sequence[Definition], position: int, state: PointerState) -> None:
        """Follow an argument into the function or macro of this file that takes it."""
        for made in definitions:
            parameter = made.parameters[position] if position < len(made.parameters) else None
            if parameter is None:
                continue
            rank, unit = (
                cuda.shape_of(self.file, parameter, state.rank, state.unit)
                if not made.macro
                else (state.rank, state.unit)
            )
            known = parameter.id in self.passing
            self._goes_to(call, parameter, rank, unit, state)
            if known:
                self._follow(
                    call, replace(state, rank=self.passing[parameter.id][0], unit=self.passing[parameter.id][1])
                )

    def _in_init_declarator(self, use: PointerUse) -> None:
        declarator = cuda.field_of(use.parent, "declarator")
        declared = declared_name(declarator) if declarator is not None else None
        if declared is None or not cuda.same(cuda.field_of(use.parent, "value"), use.node):
            self._stop(use.node, use.state, f"{use.state.start.name} initialises an object")
            return
        self._goes_to(
            use.node, declared, *cuda.shape_of(self.file, declared, use.state.rank, use.state.unit), use.state
        )

    def _in_assignment_expression(self, use: PointerUse) -> None:
        left, right = cuda.field_of(use.parent, "left"), cuda.field_of(use.parent, "right")
        operator = next((self.file.of(child) for child in use.parent.children if not child.is_named), "")
        if left is None or right is None:
            return
        if cuda.same(left, use.node):
            if operator == "=":
                return  # what it becomes is followed from there
            if operator in ("+=", "-="):
                step = ReachStep(node=right, unit=use.state.unit, rank=1, subscript=False, negative=operator == "-=")
                self.web.reaches.append(
                    Reach(
                        start=use.state.start,
                        steps=(*use.state.steps, step),
                        node=use.parent,
                        end=use.state.start,
                        unit=use.state.unit,
                        advance=True,
                    )
                )
                return
        statement = use.parent.parent
        declared = pointer_to_array(statement) if statement is not None else None
        if declared is not None:
            self._goes_to(use.node, declared, 1 + len(sizes_of(declared)), "", use.state)
        elif left.type == "identifier" and operator == "=" and (target := self.scopes.resolve(left)) is not None:
            self._goes_to(
                use.node, target, *cuda.shape_of(self.file, target, use.state.rank, use.state.unit), use.state
            )
        else:
            self._stop(
                use.parent,
                use.state,
                f"{self._quoted(use.parent)} keeps an address of {use.state.start.name} where it is not followed",
            )

    def _in_update_expression(self, use: PointerUse) -> None:
        step = ReachStep(node=None, unit=use.state.unit, rank=1, subscript=False)
        self.web.reaches.append(
            Reach(
                start=use.state.start,
                steps=(*use.state.steps, step),
                node=use.parent,
                end=use.state.start,
                advance=True,
            )
        )

    def _in_return_statement(self, use: PointerUse) -> None:
        """Follow what a function returns to wherever it is called."""
        made = self.scopes.holder(use.parent)
        if made is None:
            self._stop(use.node, use.state, f"{use.state.start.name} is returned")
            return
        if use.state.steps and self._returned(made, use):
            return
        if use.state.start.declared.id not in {p.id for p in made.parameters if p is not None} or use.state.steps:
            self._stop(use.node, use.state, f"{made.name} returns an address within {use.state.start.name}")
            return
        self.passing[use.state.start.declared.id] = (use.state.rank, use.state.unit)
        for reach in self.web.to(use.state.start):
            self._follow(
                reach.node, PointerState(start=reach.start, rank=use.state.rank, unit=use.state.unit, steps=reach.steps)
            )

    def _returned(self, made: Definition, use: PointerUse) -> bool:
        """Follow the address that a function only computes, ``return s + r * 32``, to where it is called."""
        statements = [child for child in made.body.named_children if child.type != "comment"]
        if made.macro or len(statements) != 1 or not cuda.same(statements[0], use.parent):
            return False
        given = {p.id for p in made.parameters if p is not None}
        own = use.state.start.declared.id in given
        for call in [node for node in self.file.nodes("call_expression") if cuda.called(self.file, node) == made.name]:
            listed = cuda.field_of(call, "arguments")
            steps = handed_steps(
                self.scopes, made, call, listed.named_children if listed is not None else [], use.state
            )
            if steps is None:
                return False
            into = [reach for reach in self.web.to(use.state.start) if cuda.same(reach.node, call)] if own else []
            starts = [(reach.start, reach.steps) for reach in into] if own else [(use.state.start, ())]
            for start, before in starts:
                self._follow(
                    call, PointerState(start=start, rank=use.state.rank, unit=use.state.unit, steps=(*before, *steps))
                )
        return True

    def _in_gnu_asm_input_operand(self, use: PointerUse) -> None:
        self._access(use.node, use.state)

    def _in_init_statement(self, use: PointerUse) -> None:
        self._follow(use.parent, use.state)
