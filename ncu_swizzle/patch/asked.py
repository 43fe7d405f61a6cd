"""Which parts of an index the compiler is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncu_swizzle.source import cuda
from ncu_swizzle.source.inlined import inlined
from ncu_swizzle.source.scopes import Scopes

if TYPE_CHECKING:
    from tree_sitter import Node


def named(node: Node) -> Iterator[Node]:
    """Yield what stands for a value in an expression: names, those of classes' members as a whole, and sizes."""
    if node.type in ("identifier", "qualified_identifier", "sizeof_expression"):
        yield node
        return
    for child in node.children:
        yield from named(child)


def parts(scopes: Scopes, node: Node) -> Iterator[Node]:
    """Yield an expression; of a call that indexes, its arguments, the index, and what the view was given."""
    made = scopes.indexing.get(node.id)
    if made is None:
        yield node
        members = (scopes.indexing.get(part.id) for part in cuda.walk(node) if part.type == "field_expression")
        yield from (member.body for member in members if member is not None)
    else:
        yield from (*made.arguments.values(), *made.fields.values())
        yield from _bodies(scopes, made.body)


def _bodies(scopes: Scopes, body: Node, depth: int = 3) -> Iterator[Node]:
    """Yield an index, and the expressions that the calls in it stand for."""
    yield body
    for call in (node for node in cuda.walk(body) if depth and node.type == "call_expression"):
        if (made := inlined(scopes, call)) is not None:
            yield from _bodies(scopes, made.body, depth - 1)
