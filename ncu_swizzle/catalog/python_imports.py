"""Which files of its own folder a Python file imports, as far as its import statements tell; nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def beside(file: Path, text: str) -> list[Path]:
    """Return the modules below the file's folder that its text imports, and those that relative imports name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [path for folder, name in _named(tree, file) for path in _modules(folder, name)]


def _named(tree: ast.Module, file: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folder that each import starts in, and the dotted name in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((file.parent, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            folder = file.parents[max(node.level, 1) - 1] if node.level <= len(file.parents) else file.parent
            yield folder, node.module or ""
            yield from ((folder, f"{node.module}.{alias.name}" if node.module else alias.name) for alias in node.names)


def _modules(folder: Path, name: str) -> Iterator[Path]:
    """Yield the module of that name, if it is a file."""
    path = folder.joinpath(*name.split("."))
    for module in (*([path.with_name(f"{path.name}.py")] if name else []), path / "__init__.py"):
        if module.is_file():
            yield module
