"""Index expressions as sums of products, with what is constant in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from ncu_swizzle.fix.cuda import Node
from ncu_swizzle.fix.frames import CallFrame
from ncu_swizzle.fix.walking import Walk

SIZES = {
    "char": 1, "int8_t": 1, "uint8_t": 1, "bool": 1, "short": 2, "half": 2, "__half": 2, "__nv_bfloat16": 2,
    "int16_t": 2, "uint16_t": 2, "int": 4, "float": 4, "unsigned": 4, "int32_t": 4, "uint32_t": 4, "half2": 4,
    "__half2": 4, "double": 8, "float2": 8, "int2": 8, "uint2": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8,
    "float4": 16, "int4": 16, "uint4": 16, "double2": 16, "unsigned char": 1, "unsigned int": 4, "unsigned short": 2,
    "byte": 1, "half_t": 2, "bfloat16_t": 2, "tfloat32_t": 4,
}  # fmt: skip
_LITERAL = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)[uUlLzZ]*")
NAMES = ("identifier", "type_identifier", "qualified_identifier")
Value = Callable[[Node, CallFrame], "int | None"]


@dataclass(frozen=True, eq=False)
class Factor:
    """One factor of a product, and its value if that is constant; `shift` is that of ``y << 5``."""

    node: Node
    frame: CallFrame
    value: int | None
    shift: bool = False


@dataclass(frozen=True, eq=False)
class Summand:
    """A product; `negative` if it is subtracted."""

    node: Node
    frame: CallFrame
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
    """The values of a file's names in a frame, and of its expressions."""

    walk: Walk
    name: Value  # of an identifier, a size, a member such as blockDim.x

    def value(self, node: Node, frame: CallFrame) -> int | None:
        """Return the value of a constant expression; None if it is not one."""
        return self._value(*self._reached(node.bare, frame, None))

    def _value(self, node: Node, frame: CallFrame) -> int | None:
        match node.type:
            case kind if kind in (*NAMES, "field_expression"):
                return self.name(node, frame)
            case "cast_expression":
                return self.value(node.part("value"), frame)
            case "number_literal":
                match = _LITERAL.fullmatch(node.text.replace("'", ""))
                return int(match[1], 8 if re.fullmatch("0[0-7]+", match[1]) else 0) if match else None
            case "sizeof_expression":
                asked = self.name(node, frame)
                return SIZES.get(node.text.removeprefix("sizeof").strip()[1:-1].strip()) if asked is None else asked
            case "binary_expression":
                return self._binary(node, frame)
        return None

    def _binary(self, node: Node, frame: CallFrame) -> int | None:
        one, other = self.value(node.part("left"), frame), self.value(node.part("right"), frame)
        operator = operator_of(node)
        if one is None or other is None or (operator in "/%" and other <= 0) or (operator == "<<" and other > 30):
            return None
        operations: dict[str, Callable[[int, int], int]] = {
            "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__, "%": int.__mod__,
            "<<": int.__lshift__, "&": int.__and__, "|": int.__or__,
        }  # fmt: skip
        return operations[operator](one, other) if operator in operations else None

    def _reached(self, node: Node, frame: CallFrame, home: CallFrame | None) -> tuple[Node, CallFrame]:
        """Return what a parameter or a call expands to; with `home`, only if it has no meaning there."""
        while True:
            node = node.bare
            onward = self.walk.argument(node, frame, home) or self._expanded(node, frame)
            if onward is None:
                return node, frame
            node, frame = onward

    def _expanded(self, node: Node, frame: CallFrame) -> tuple[Node, CallFrame] | None:
        """Return the only expression of a called function or a macro, if it depends on nothing else."""
        entered = self.walk.expression(node, frame)
        if entered is None:
            return None
        body, inner = entered
        for name in (n for n in body.walk() if n.type == "identifier"):
            function = name.is_part("function", "call_expression")
            if not function and inner.bound(name.text) is None and self.name(name, inner) is None:
                return None
        return entered

    def terms(
        self, node: Node, frame: CallFrame, home: CallFrame | None = None, negative: bool = False
    ) -> tuple[Summand, ...]:
        """Return the sum that an expression is, in what is written in a frame."""
        return tuple(self._terms(node, frame, home, negative))

    def _terms(self, node: Node, frame: CallFrame, home: CallFrame | None, negative: bool) -> Iterator[Summand]:
        inner, within = self._reached(node, frame, home)
        operator = operator_of(inner)
        if operator in ("+", "-"):
            yield from self._terms(inner.part("left"), within, home, negative)
            yield from self._terms(inner.part("right"), within, home, negative ^ (operator == "-"))
            return
        if within is not frame and home in (None, frame) and self._value(inner, within) is not None:
            inner, within = node.bare, frame  # a constant by its name
        yield Summand(inner, within, tuple(self._factors(inner, within, home)), negative)

    def _factors(self, node: Node, frame: CallFrame, home: CallFrame | None) -> Iterator[Factor]:
        value = self.value(node, frame)
        inner, within = self._reached(node, frame, home)
        if inner is not node.bare and (value is None or node.bare.type == "identifier"):
            yield from self._factors(inner, within, home)
            return
        left, right = node.part("left"), node.part("right")
        operator = operator_of(node)
        if operator == "*":
            product = left.bare
            yield from self._factors(product if operator_of(product) == "*" else left, frame, home)
            yield from self._factors(right, frame, home)
        elif operator == "<<" and (shift := self.value(right, frame)) is not None:
            yield from self._factors(left, frame, home)
            yield Factor(right, frame, 1 << shift, shift=True)
        else:
            yield Factor(node, frame, value)


def operator_of(node: Node) -> str:
    """Return the operator of a binary expression; empty for anything else."""
    return node.part("operator").text if node.type == "binary_expression" else ""
