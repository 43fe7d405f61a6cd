"""Integer expressions in ``tid``, ``lane`` and ``warp``, for all threads of a block at once."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

import numpy as np

from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem.capacity import MOST_THREADS
from ncu_swizzle.smem.layout import LONGEST_TEXT, Ints
from ncu_swizzle.smem.operations import WARP

LARGEST = 1 << 40  # larger products could overflow 64 bits; shared memory needs 18
HINT = "use tid, lane, warp, integers, + - * / % << >> & | ^ ~, comparisons and parentheses: (tid % 32) * 128"

_BINARY: dict[type[ast.operator], Callable[[Ints, Ints], Ints]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,  # integer division, as in CUDA
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Ints, Ints], Ints]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def evaluate(expression: str, threads: int = WARP) -> Ints:
    """Return the value for each thread; a comparison is 1 or 0. Raises UsageError."""
    if threads % WARP or not 0 < threads <= MOST_THREADS:
        raise UsageError(f"{threads} threads are not whole warps of one block", "a multiple of 32, up to 1024")
    tid = np.arange(threads, dtype=np.int64)
    names = {"tid": tid, "lane": tid % WARP, "warp": tid // WARP}
    try:
        value = _value(ast.parse(_bounded(expression), mode="eval").body, names)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = f": {error}" if isinstance(error, ValueError) else ""
        raise UsageError(f"cannot evaluate {expression!r}{reason}", HINT) from error
    return np.broadcast_to(value, tid.shape).astype(np.int64)


def _bounded(expression: str) -> str:
    if len(expression) > LONGEST_TEXT:
        raise ValueError(f"it has {len(expression):,} characters")
    return expression.strip()


def split(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def _value(node: ast.expr, names: dict[str, Ints]) -> Ints:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool) and abs(number) < LARGEST:
            return np.asarray(number, dtype=np.int64)
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name):
            raise ValueError(f"{name} is not a variable")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ~_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _binary(op, _value(left, names), _value(right, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return _COMPARE[type(op)](_value(left, names), _value(right, names)).astype(np.int64)
    raise ValueError(f"{ast.unparse(node)!r} is not integer arithmetic")


def _binary(op: ast.operator, left: Ints, right: Ints) -> Ints:
    if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod) and (right == 0).any():
        raise ValueError("division by zero")
    if isinstance(op, ast.LShift | ast.RShift) and ((right < 0) | (right > 40)).any():
        raise ValueError("a shift by fewer than 0 or more than 40 bits")
    value = _BINARY[type(op)](left, right)
    if isinstance(op, ast.Mult | ast.LShift) and (np.abs(value.astype(float)) > LARGEST).any():
        raise ValueError("a number too large for an address")
    return value
