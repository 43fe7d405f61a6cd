"""The lines of CUDA C++ in strings: ``#line`` directives that give them the numbers that they have in the Python file.

A source may be made of several literals. What is in none has lines of its own, under the variable's name, and so have
literals whose lines are not those of the file, such as ``"a;\\nb;"``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

Start = tuple[int, str]  # the number of a line, and its file


def numbered(source: str, variable: str, file: str, text: str) -> str:
    """Return a source with directives; `text` is that of the Python file, in which a variable holds the source."""
    own = f"{file}::{variable}"
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"{_directive(1, own)}{source}"
    line = _assigned(tree, source, variable)
    starts = {0: (line, file)} if line else {0: (1, own), **_literals(tree, source, file, own)}
    return "".join(_parts(source, starts))


def _parts(source: str, starts: Mapping[int, Start]) -> Iterator[str]:
    """Yield the parts that begin at these places, each after its directive."""
    places = sorted(starts)
    for place, end in zip(places, [*places[1:], len(source)], strict=True):
        yield f"{_directive(*starts[place])}{source[place:end]}"


def _directive(line: int, file: str) -> str:
    return f'#line {line} "{file}"\n'


def _assigned(tree: ast.Module, source: str, variable: str) -> int:
    """Return the line of the literal that a variable's value is made of, with as many lines; 0 if there is none.

    That is the literal itself, an argument as in ``RawKernel(…)``, what is formatted, or an f-string.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == variable for target in targets):
            for inside in ast.walk(node.value):
                if isinstance(inside, ast.Constant | ast.JoinedStr) and _keeps_lines(inside, source):
                    return inside.lineno
    return 0


def _literals(tree: ast.Module, source: str, file: str, own: str) -> dict[int, Start]:
    """Return where literals begin in the source: at their first line that is whole; and what follows them."""
    formatted = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    begun: dict[int, Start] = {}
    ended: dict[int, Start] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in formatted:
            continue
        place, line, end = source.find(node.value), node.lineno, source.find(node.value) + len(node.value)
        if "\n" not in node.value or place < 0 or not _keeps_lines(node, node.value):
            continue
        if place and source[place - 1] != "\n":
            place, line = source.index("\n", place) + 1, line + 1
        if place < end:
            begun[place] = line, file
        if source[end - 1] == "\n" and end < len(source):
            ended[end] = source.count("\n", 0, end) + 1, own
    found = {**ended, **begun}
    return {place: start for place, start in found.items() if not source[:place].endswith("\\\n")}


def _keeps_lines(literal: ast.expr, text: str) -> bool:
    """Return whether a text has the lines that its literal has in the file."""
    return "\n" in text and (literal.end_lineno or literal.lineno) - literal.lineno == text.count("\n")
