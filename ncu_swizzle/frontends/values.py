"""Literals: what was typed for an argument or an option, as the value that the function gets.

An integer or an expression of sizes, another literal of Python's (``1e-5``, ``True``, ``None``, ``(1, 2)``), a dotted
name of the file's (``tl.float16``), or else the text itself (``leaky_relu``).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ncu_swizzle.catalog.expressions import evaluate
from ncu_swizzle.errors import NcuSwizzleError, UsageError
from ncu_swizzle.frontends.request import CompileRequest

SPELLED = {"true": True, "false": False, "none": None}


def literal(text: str, sizes: Mapping[str, int], module: ModuleType) -> Any:
    """Return the value of a text."""
    try:
        return evaluate(text, sizes)
    except NcuSwizzleError:
        pass
    try:
        return SPELLED[text] if text in SPELLED else ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _named(text, module) if "." in text else text


def _named(text: str, module: ModuleType) -> Any:
    """Return what a dotted name stands for in the file; the text itself if there is no such name."""
    value: Any = module
    for part in text.split("."):
        if not hasattr(value, part):
            return text
        value = getattr(value, part)
    return value


def grid(request: CompileRequest, names: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the grid; its expressions may have sizes and the function's own integers. Raises UsageError."""
    sizes = request.grid
    if not sizes:
        raise UsageError(f"{request.name} has no grid", "--grid 128 gives it, one to three sizes")
    whole = {name: value for name, value in {**request.sizes, **names}.items() if type(value) is int}
    try:
        return tuple(evaluate(size, whole) for size in sizes)
    except NcuSwizzleError as error:
        raise UsageError(f"grid: {error}", error.hint) from error
