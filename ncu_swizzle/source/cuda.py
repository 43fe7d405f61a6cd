"""A CUDA C++ file and its syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.errors import EnvironmentLacking

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

INSTALL = "pip install 'ncu-swizzle[fix]'"
# The grammar takes `__align__(16)` for a type; `alignas(16)` says the same in as many characters.
_ALIGN = re.compile(rb"__align__(?=\s*\()")


@dataclass(frozen=True, eq=False)
class CudaFile:
    """A source: its bytes as they are, and the tree of the same positions."""

    name: str
    text: bytes
    root: Node

    def of(self, node: Node) -> str:
        """Return a node's text."""
        return self.text[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape")

    def line(self, node: Node) -> int:
        return self.text.count(b"\n", 0, node.start_byte) + 1  # macros' bodies are trees of their own, in one line

    def nodes(self, *kinds: str) -> Iterator[Node]:
        """Yield the nodes of these types, in the order of the file."""
        return (node for node in walk(self.root) if node.type in kinds)


def parse(text: bytes, name: str) -> CudaFile:
    """Return the file with its tree; raise EnvironmentLacking without the parser."""
    root = _parser().parse(_ALIGN.sub(b"  alignas", text)).root_node
    return CudaFile(name, text, root)


def _parser() -> Parser:
    try:
        import tree_sitter_cuda
        from tree_sitter import Language, Parser
    except ImportError as error:
        raise EnvironmentLacking(f"reading CUDA sources takes {error.name}, which is not installed", INSTALL) from error
    return Parser(Language(tree_sitter_cuda.language()))


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything below it, parents first."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def above(node: Node, *kinds: str) -> Node | None:
    """Return the nearest node of these types that holds this one."""
    holder = node.parent
    while holder is not None and holder.type not in kinds:
        holder = holder.parent
    return holder


def same(one: Node | None, other: Node | None) -> bool:
    """Return whether two nodes are one and the same: each look at the tree makes new objects."""
    return one is not None and other is not None and one.id == other.id


def inside(node: Node, holder: Node) -> bool:
    """Return whether a node lies within another one, or is it."""
    return holder.start_byte <= node.start_byte and node.end_byte <= holder.end_byte


def field(node: Node, name: str) -> Node | None:
    return node.child_by_field_name(name)


def bare(node: Node) -> Node:
    """Return the expression within parentheses."""
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    return node
