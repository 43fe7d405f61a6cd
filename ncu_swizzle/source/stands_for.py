"""What a call, or a member of an object, stands for in an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ncu_swizzle.source import cuda

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True, eq=False)
class Inlined:
    """The expression that a call stands for, and the arguments by the parameters that it is written with.

    `closed` are the parameters that an argument may replace as it is: those of functions, and those of macros that
    stand in parentheses.
    """

    body: Node
    arguments: Mapping[str, Node]
    closed: frozenset[str]
    fields: Mapping[str, Node] = field(default_factory=dict)  # of the object whose method it is, as it was made
    indexing: bool = False  # the call is an access itself, of the element with this index

    def takes(self, node: Node) -> bool:
        """Say whether a node is an argument that needs no parentheses."""
        return any(cuda.same(node, given) and name in self.closed for name, given in self.arguments.items())
