"""Integer arithmetic over a problem's sizes, as written in family.toml: ``"seq // 64"``."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from ncu_swizzle.errors import BadCatalog
from ncu_swizzle.validate import typed, within_64_bits

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(expression: str | int, names: Mapping[str, int]) -> int:
    """Return the value of an expression made of integers, names, ``+ - * // %`` and parentheses.

    Raises BadCatalog for anything else: a catalogue is data and never runs code.
    """
    try:
        text = str(expression)
        return _value(ast.parse(typed(text), mode="eval").body, names)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError) as error:
        shown = str(expression) if isinstance(expression, str) else "a number"
        raise BadCatalog(
            f"cannot evaluate {shown[:100]!r}: {_why(error)}",
            f"use integers, + - * // %, parentheses and the sizes {', '.join(names) or '(none given)'}",
        ) from error


def undefined(error: BadCatalog) -> str:
    """Return what to type after an expression that cannot be evaluated: the size that it lacks, if that is all."""
    lacking = re.search(r"there is no size '(\w+)'$", str(error))
    return f"define it: --problem {lacking[1]}=1024" if lacking else error.hint


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError | MemoryError):
        return "it is nested too deeply"
    return "a number has more than 64 bits" if "set_int_max_str_digits" in str(error) else str(error)


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return within_64_bits(value)
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name):
            raise ValueError(f"there is no size {name!r}")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return within_64_bits(_OPERATORS[type(op)](_value(left, names), _value(right, names)))
    raise ValueError(f"{ast.unparse(node)!r} is not integer arithmetic")
