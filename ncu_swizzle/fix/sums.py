"""Index expressions as sums of products, with what is constant in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import CudaFile, Inlined

if TYPE_CHECKING:
    from tree_sitter import Node

SIZES = {
    "char": 1, "int8_t": 1, "uint8_t": 1, "bool": 1, "short": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2,
    "int16_t": 2, "uint16_t": 2, "int": 4, "float": 4, "unsigned": 4, "int32_t": 4, "uint32_t": 4, "half2": 4,
    "__half2": 4, "double": 8, "float2": 8, "int2": 8, "uint2": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8,
    "float4": 16, "int4": 16, "uint4": 16, "double2": 16, "unsigned char": 1, "unsigned int": 4, "unsigned short": 2,
    "byte": 1,
}  # fmt: skip
_LITERAL = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)[uUlLzZ]*")

NAMES = ("identifier", "type_identifier", "qualified_identifier")

CALLS = ("call_expression", "subscript_expression")  # what a method may be called by
MEMBERS = (*CALLS, "field_expression")  # what may stand for something that an object was made with

Value = Callable[["Node"], "int | None"]


@dataclass(frozen=True, eq=False)
class Factor:
    """One factor of a product, and its value if that is constant; `shift` is that of ``y << 5``."""

    node: Node
    value: int | None
    shift: bool = False


@dataclass(frozen=True, eq=False)
class Term:
    """A product; `negative` if it is subtracted."""

    node: Node
    factors: tuple[Factor, ...]
    negative: bool = False

    @property
    def constant(self) -> int:
        """The product of the constant factors."""
        return prod(factor.value for factor in self.factors if factor.value is not None)

    @property
    def variable(self) -> tuple[Factor, ...]:
        return tuple(factor for factor in self.factors if factor.value is None)


@dataclass(frozen=True, kw_only=True)
class Constants:
    """What the names of a file stand for, as far as that is constant."""

    file: CudaFile
    name: Value  # of an identifier
    of_launch: bool = False  # `name` also knows members, such as blockDim.x
    inline: Callable[[Node], Inlined | None] | None = None  # what a call stands for
    part: Callable[[Node, Node], Inlined | None] | None = None  # what a call of a member stands for, as it was made
    bound: Mapping[str, Node] = field(default_factory=dict)  # parameters of such a call
    outer: Constants | None = None  # by which its arguments are understood
    fields: Mapping[str, Node] = field(default_factory=dict)  # of the object whose method it is: understood as they are

    def value(self, node: Node) -> int | None:
        """Return the value of a constant expression; None if it is not one."""
        node, within = self._reached(cuda.bare(node))
        return within._value(node)

    def _value(self, node: Node) -> int | None:
        if node.type in NAMES or (self.of_launch and node.type == "field_expression"):
            known = self.name(node)
            made = self.inline(node) if known is None and self.inline is not None else None
            return self.value(made.body) if made is not None and node.type == "identifier" else known
        if node.type == "cast_expression":
            inner = cuda.field_of(node, "value")
            return self.value(inner) if inner is not None else None
        read = {"number_literal": self._literal, "sizeof_expression": self._size, "binary_expression": self._binary}
        return read[node.type](node) if node.type in read else None

    def _reached(self, node: Node) -> tuple[Node, Constants]:
        """Return what a parameter or a call stands for, with the constants by which it is understood."""
        given = self.bound.get(self.file.of(node)) if node.type == "identifier" else None
        if given is not None and self.outer is not None:
            return self.outer._reached(cuda.bare(given))
        kept = self.fields.get(self.file.of(node)) if node.type == "identifier" else None
        if kept is not None:
            return replace(self, bound={}, outer=None, fields={})._reached(cuda.bare(kept))
        made = self.inline(node) if self.inline is not None and node.type in MEMBERS else None
        if made is None and (object_ := self._called(node)) is not None and self.part is not None:
            made = self.part(object_, node)
        if made is None:
            return node, self
        within = replace(self, bound=made.arguments, outer=self, fields=made.fields or self.fields)
        named = (n for n in cuda.walk(made.body) if n.type == "identifier" and _is_value(n))
        names = (n for n in named if self.file.of(n) not in {*within.bound, *within.fields})
        if any(within._value(n) is None for n in names):
            return node, self  # it depends on more than its arguments
        return within._reached(cuda.bare(made.body))

    def _called(self, node: Node) -> Node | None:
        """Return what the member was made as that a call, such as ``layout(r, c)``, is one of."""
        function = cuda.field_of(node, "function") if node.type == "call_expression" and self.fields else None
        named = (
            cuda.field_of(function, "argument")
            if function is not None and function.type == "field_expression"
            else None
        )
        name = named or function
        return self.fields.get(self.file.of(name)) if name is not None else None

    def _literal(self, node: Node) -> int | None:
        match = _LITERAL.fullmatch(self.file.of(node).replace("'", ""))
        return int(match[1], 8 if re.fullmatch("0[0-7]+", match[1]) else 0) if match else None

    def _size(self, node: Node) -> int | None:
        text = self.file.of(node).removeprefix("sizeof").strip()[1:-1].strip()
        known = self.name(node)
        return SIZES.get(text) if known is None else known

    def _binary(self, node: Node) -> int | None:
        left, right = cuda.field_of(node, "left"), cuda.field_of(node, "right")
        one = self.value(left) if left is not None else None
        other = self.value(right) if right is not None else None
        operator = operator_of(self.file, node)
        if one is None or other is None or (operator in "/%" and other <= 0) or (operator == "<<" and other > 30):
            return None
        made: dict[str, Callable[[int, int], int]] = {
            "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__, "%": int.__mod__,
            "<<": int.__lshift__, "&": int.__and__, "|": int.__or__,
        }  # fmt: skip
        return made[operator](one, other) if operator in made else None

    def terms(self, node: Node, negative: bool = False) -> tuple[Term, ...]:
        """Return the sum that an expression is."""
        return tuple(self._terms(node, negative))

    def _terms(self, node: Node, negative: bool) -> Iterator[Term]:
        inner, within = self._reached(cuda.bare(node))
        left, right = cuda.field_of(inner, "left"), cuda.field_of(inner, "right")
        operator = operator_of(self.file, inner)
        if inner.type == "binary_expression" and left is not None and right is not None and operator in ("+", "-"):
            yield from within._terms(left, negative)
            yield from within._terms(right, negative ^ (operator == "-"))
            return
        if within is not self and cuda.bare(node).type == "call_expression" and within.value(inner) is not None:
            inner, within = cuda.bare(node), self  # a constant by its name
        yield Term(inner, tuple(within._factors(inner)), negative)

    def _factors(self, node: Node) -> Iterator[Factor]:
        known, (made, within) = self.value(node), self._reached(cuda.bare(node))
        if within is not self and (known is None or cuda.bare(node).type == "identifier"):
            yield from within._factors(made)
            return
        left, right = cuda.field_of(node, "left"), cuda.field_of(node, "right")
        operator = operator_of(self.file, node)
        product = node.type == "binary_expression" and left is not None and right is not None
        if product and operator == "*" and left is not None and right is not None:
            inner = cuda.bare(left)
            yield from self._factors(inner if operator_of(self.file, inner) == "*" else left)
            yield from self._factors(right)
        elif left is not None and right is not None and operator == "<<" and (shift := self.value(right)) is not None:
            yield from self._factors(left)
            yield Factor(right, 1 << shift, shift=True)
        else:
            yield Factor(node, known)


def _is_value(name: Node) -> bool:
    """Say whether an identifier is not that of a function."""
    return name.parent is None or name.parent.type != "call_expression"


def operator_of(file: CudaFile, node: Node) -> str:
    """Return the operator of a binary expression; empty for anything else."""
    found = cuda.field_of(node, "operator") if node.type == "binary_expression" else None
    return file.of(found) if found is not None else ""
