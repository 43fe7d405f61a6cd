"""Objects that are called: what ``op(params, storage)`` and ``Op{}(params, storage)`` call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ncu_swizzle.source import classes, cuda
from ncu_swizzle.source.expressions import PointerState
from ncu_swizzle.source.reach import ReachStep
from ncu_swizzle.source.scopes import Definition, Scopes
from ncu_swizzle.source.stands_for import Inlined

if TYPE_CHECKING:
    from tree_sitter import Node


def called_objects(scopes: Scopes, call: Node) -> Iterator[Definition]:
    """Yield the operators of the class whose object is called; of any class if only one takes as many arguments."""
    function, listed = cuda.field(call, "function"), cuda.field(call, "arguments")
    if function is None or listed is None or function.type == "field_expression":
        return
    every = [made for name, all_ in scopes.callables.items() if "".join(name.split()) == "operator()" for made in all_]
    fitting = [made for made in every if len(made.parameters) == listed.named_child_count]
    type_ = _type(scopes, function)
    struct = classes.find(scopes.file, type_) if type_ else None
    if struct is not None:
        yield from (made for made in fitting if cuda.same(classes.of_function(scopes.file, made.node), struct))
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
            scopes.indexing[call.id] = Inlined(node, arguments, frozenset(names), indexing=True)
            node = call
        steps.append(replace(step, node=node))
    return tuple(steps)


def _type(scopes: Scopes, function: Node) -> str:
    """Return the type of what is called; empty if it is no object."""
    holder: Node | None = function
    if function.type == "call_expression":  # Op()(…)
        named = cuda.field(function, "function")
        return scopes.file.of(named) if named is not None else ""
    if function.type == "identifier":
        declared = scopes.resolve(function)
        holder = cuda.above(declared, "declaration", "parameter_declaration") if declared is not None else None
    type_ = cuda.field(holder, "type") if holder is not None else None
    return scopes.file.of(type_) if type_ is not None else ""
