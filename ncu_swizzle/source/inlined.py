"""Calls that stand for one expression: of a macro, or of a function or lambda that only returns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ncu_swizzle.source import calls, cuda
from ncu_swizzle.source.scopes import Definition, Scopes
from ncu_swizzle.source.stands_for import Inlined

if TYPE_CHECKING:
    from tree_sitter import Node


def inlined(scopes: Scopes, node: Node) -> Inlined | None:
    """Return what a call, or the name of a macro, stands for; None if that is not one expression of this file."""
    if node.id in scopes.indexing:
        return scopes.indexing[node.id]
    listed = cuda.field(node, "arguments") if node.type == "call_expression" else None
    name = calls.called(scopes.file, node) if listed is not None else scopes.file.of(node)
    every = scopes.callables.get(name, [])
    if len(every) != 1 or (listed is None and not every[0].macro):
        return None
    (made,), given = every, listed.named_children if listed is not None else []
    names = [scopes.file.of(declared) for declared in made.parameters if declared is not None]
    body = only_expression(made)
    if body is None or len(names) != len(given) or len(names) != len(made.parameters):
        return None
    closed = frozenset(name for name in names if not made.macro or _enclosed(scopes, body, name))
    return Inlined(body, dict(zip(names, given, strict=True)), closed)


def only_expression(made: Definition) -> Node | None:
    """Return the only expression of a definition; None if it is more than that."""
    body = made.body
    if made.macro:
        found = next((node for node in cuda.walk(body) if node.type == "compound_statement"), None)
        if body.has_error or found is None:
            return None
        body = found
    if body.type != "compound_statement":
        return None
    statements = [child for child in body.named_children if child.type != "comment"]
    wanted = "expression_statement" if made.macro else "return_statement"
    if len(statements) != 1 or statements[0].type != wanted or statements[0].named_child_count != 1:
        return None
    return statements[0].named_children[0]


def _enclosed(scopes: Scopes, body: Node, name: str) -> bool:
    uses = [node for node in cuda.walk(body) if node.type == "identifier" and scopes.file.of(node) == name]
    return all(
        use.parent is not None and use.parent.type in ("parenthesized_expression", "argument_list") for use in uses
    )
