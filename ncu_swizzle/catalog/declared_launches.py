"""Launches that a Python file declares of its own functions: the dictionary NCU_SWIZZLE at its top level.

    NCU_SWIZZLE = {
        "transpose": {
            "problem": {"n": 2048},
            "grid": "n // BM, n // BN",
            "args": ["x=float32[n,n]", "y=float32[n,n]:out", "rows=n", "columns=n", "BM=64", "BN=64"],
            "variant": {"wide": {"options": {"num_warps": 8}}},
        },
    }

It is read without executing the file, so it has to be a literal. A key is a function's name, or any with ``entry``; the
rest is as in ncu-swizzle.toml, see `project_kernels`.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from ncu_swizzle.catalog import project_kernels
from ncu_swizzle.catalog.family import PYTHON
from ncu_swizzle.catalog.project import Project, table
from ncu_swizzle.catalog.spec import KernelSpec
from ncu_swizzle.errors import UsageError
from ncu_swizzle.files import is_file, read_bytes

VARIABLE = "NCU_SWIZZLE"


def declared(file: Path, trust: bool = False) -> tuple[KernelSpec, ...]:
    """Return the launches that a Python file declares; none for another file. Raises UsageError."""
    if file.suffix != PYTHON or not is_file(file) or not (source := _declaration(file)):
        return ()
    try:
        content = ast.literal_eval(source)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise UsageError(
            f"{file.name}:{source.lineno}: {VARIABLE} is not a literal, and the file is not executed to read it",
            f'{VARIABLE} = {{"FUNCTION": {{"grid": "n // 128", "args": ["x=float32[n]"]}}}}',
        ) from error
    kernels = {
        name: {"source": file.name, "entry": name, **table(_lists(entry), file, f"[{VARIABLE} {name}]")}
        for name, entry in table(content, file, VARIABLE).items()
    }
    return project_kernels.specs(Project(file, {"kernel": kernels}, f"{VARIABLE} ", trust))


def _declaration(file: Path) -> ast.expr | None:
    """Return what the file assigns to the variable at its top level; None if it does not, or cannot be parsed."""
    content = read_bytes(file)
    if VARIABLE.encode() not in content:
        return None
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # importing it says why
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == VARIABLE for target in targets):
                return node.value
    return None


def _lists(value: Any) -> Any:
    """Return a literal with lists for tuples, as TOML has them."""
    if isinstance(value, dict):
        return {str(key): _lists(each) for key, each in value.items()}
    return [_lists(each) for each in value] if isinstance(value, list | tuple) else value
