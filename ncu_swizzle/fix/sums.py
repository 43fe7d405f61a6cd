"""Index expressions as sums of products, with what is constant in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from ncu_swizzle.fix.cuda import NOTHING, Inlined, Node

SIZES = {
    "char": 1, "int8_t": 1, "uint8_t": 1, "bool": 1, "short": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2,
    "int16_t": 2, "uint16_t": 2, "int": 4, "float": 4, "unsigned": 4, "int32_t": 4, "uint32_t": 4, "half2": 4,
    "__half2": 4, "double": 8, "float2": 8, "int2": 8, "uint2": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8,
    "float4": 16, "int4": 16, "uint4": 16, "double2": 16, "unsigned char": 1, "unsigned int": 4, "unsigned short": 2,
    "byte": 1, "half_t": 2, "bfloat16_t": 2, "tfloat32_t": 4,
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
    """The constant values of a file's names, and the expressions that its calls stand for."""

    name: Value  # of an identifier
    of_launch: bool = False  # `name` also knows members, such as blockDim.x
    inline: Callable[[Node], Inlined | None] = lambda node: None  # what a call stands for
    part: Callable[[Node, Node], Inlined | None] = lambda object_, call: None  # the same of a member's, as it was made
    bound: Mapping[str, Node] = field(default_factory=dict)  # parameters of such a call
    outer: Constants | None = None  # by which its arguments are understood
    fields: Mapping[str, Node] = field(default_factory=dict)  # of the object whose method it is: understood as they are

    def value(self, node: Node) -> int | None:
        """Return the value of a constant expression; None if it is not one."""
        node, within = self._reached(node.bare)
        return within._value(node)

    def _value(self, node: Node) -> int | None:
        """Return the value of an expression as it is written, without what a parameter of it stands for."""
        if node.type in NAMES or (self.of_launch and node.type == "field_expression"):
            named = self.name(node)
            call = self.inline(node) if named is None and node.type == "identifier" else None
            return self.value(call.body) if call else named
        text = node.text
        match node.type:
            case "cast_expression":
                return self.value(node.part("value"))
            case "number_literal":
                match = _LITERAL.fullmatch(text.replace("'", ""))
                return int(match[1], 8 if re.fullmatch("0[0-7]+", match[1]) else 0) if match else None
            case "sizeof_expression":
                asked = self.name(node)
                return SIZES.get(text.removeprefix("sizeof").strip()[1:-1].strip()) if asked is None else asked
            case "binary_expression":
                return self._binary(node)
        return None

    def _binary(self, node: Node) -> int | None:
        one, other, operator = self.value(node.part("left")), self.value(node.part("right")), operator_of(node)
        if one is None or other is None or (operator in "/%" and other <= 0) or (operator == "<<" and other > 30):
            return None
        operations: dict[str, Callable[[int, int], int]] = {
            "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__, "%": int.__mod__,
            "<<": int.__lshift__, "&": int.__and__, "|": int.__or__,
        }  # fmt: skip
        return operations[operator](one, other) if operator in operations else None

    def _reached(self, node: Node) -> tuple[Node, Constants]:
        """Return what a parameter or a call stands for, with the constants by which it is understood."""
        named, text = node.type == "identifier", node.text
        if named and text in self.bound and self.outer is not None:
            return self.outer._reached(self.bound[text].bare)
        if named and text in self.fields:
            return replace(self, bound={}, outer=None, fields={})._reached(self.fields[text].bare)
        call = self.inline(node) if node.type in MEMBERS else None
        if call is None and (object_ := self._called(node)):
            call = self.part(object_, node)
        if call is None:
            return node, self
        within = replace(self, bound=call.arguments, outer=self, fields=call.fields or self.fields)
        for name in (n for n in call.body.walk() if n.type == "identifier"):
            own = name.text in within.bound or name.text in within.fields
            if name.parent.type != "call_expression" and not own and within._value(name) is None:
                return node, self  # it depends on more than its arguments
        return within._reached(call.body.bare)

    def _called(self, node: Node) -> Node:
        """Return what the member was made as that a call, such as ``layout(r, c)``, is one of."""
        function = node.part("function") if node.type == "call_expression" and self.fields else NOTHING
        name = function.part("argument") if function.type == "field_expression" else function
        return self.fields.get(name.text, NOTHING)

    def terms(self, node: Node, negative: bool = False) -> tuple[Term, ...]:
        """Return the sum that an expression is."""
        return tuple(self._terms(node, negative))

    def _terms(self, node: Node, negative: bool) -> Iterator[Term]:
        inner, within = self._reached(node.bare)
        operator = operator_of(inner)
        if operator in ("+", "-"):
            yield from within._terms(inner.part("left"), negative)
            yield from within._terms(inner.part("right"), negative ^ (operator == "-"))
            return
        if within is not self and node.bare.type == "call_expression" and within.value(inner) is not None:
            inner, within = node.bare, self  # a constant by its name
        yield Term(inner, tuple(within._factors(inner)), negative)

    def _factors(self, node: Node) -> Iterator[Factor]:
        value, (inner, within) = self.value(node), self._reached(node.bare)
        if within is not self and (value is None or node.bare.type == "identifier"):
            yield from within._factors(inner)
            return
        left, right = node.part("left"), node.part("right")
        operator = operator_of(node)
        if operator == "*":
            product = left.bare
            yield from self._factors(product if operator_of(product) == "*" else left)
            yield from self._factors(right)
        elif operator == "<<" and (shift := self.value(right)) is not None:
            yield from self._factors(left)
            yield Factor(right, 1 << shift, shift=True)
        else:
            yield Factor(node, value)


def operator_of(node: Node) -> str:
    """Return the operator of a binary expression; empty for anything else."""
    return node.part("operator").text if node.type == "binary_expression" else ""
