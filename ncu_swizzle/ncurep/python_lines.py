"""What the lines in a program's cubins do not say, of kernels of CuTe DSL and Numba.

CuTe DSL names the innermost line alone. Of functions that Numba itself inlines (``inline="always"``) it keeps the line
and says that it is in the kernel's file: what lies outside of the kernel's function is no line of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.cubin.line_table import line_table
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.files import read_bytes
from ncu_swizzle.frontends.cute_environment import PREFIX
from ncu_swizzle.ncurep.results import ReportResult
from ncu_swizzle.profiles import sanity

PYTHON = ".py"
_NUMBA = re.compile(r"(?:^|::)(\w+)\[abi:v\d+\]")

Functions = Sequence[tuple[str, range]]  # of a file: names, and the lines from each `def` on


@dataclass(frozen=True)
class PythonLines:
    """The functions in the files that a cubin names, and which of them is the kernel, if Numba compiled it."""

    functions: Mapping[str, Functions]
    kernel: str = ""

    @classmethod
    def of(cls, result: ReportResult) -> PythonLines:
        numba = _NUMBA.search(result.demangled)
        if numba is None and not result.function.startswith(PREFIX):
            return cls({})
        files = {row.location[0] for row in line_table(result.cubin, result.function).rows}
        texts = {file: _text(result, file) for file in sorted(files) if file.endswith(PYTHON)}
        return cls({file: _functions(text) for file, text in texts.items()}, numba[1] if numba else "")

    def believed(self, stack: tuple[Location, ...], accesses: bool) -> tuple[Location, ...]:
        """Return a stack; nothing for a line that cannot be the kernel's, as Numba gives to what it inlines."""
        if not self.kernel or len(stack) != 1:
            return stack
        file, line = stack[0]
        own = [lines for name, lines in self.functions.get(file, ()) if name == self.kernel]
        inside = any(line in lines and (line != lines.start or not accesses) for lines in own)
        return stack if inside or not own else ()

    def lacking(self, result: ReportResult) -> list[str]:
        """Return a note if lines end at functions that were called, or are unknown for that."""
        rows = line_table(result.cubin, result.function).rows
        own = [row.location for row in rows if not row.inlined_at]
        if self.kernel and not all(self.believed((at,), number > 0) for number, at in enumerate(own)):
            return [
                f"{sanity.INNERMOST}Numba does not say of functions that it inlines itself which file they are in; "
                'without inline="always" it does, and ncu-swizzle profile FILE.py::FUNCTION has their lines.'
            ]
        if not result.function.startswith(PREFIX) or any(row.inlined_at for row in rows):
            return []
        if len({self._function(*row.location) for row in rows}) < 2:
            return []
        return [
            f"{sanity.INNERMOST}CuTe DSL's cubin does not name their callers; ncu-swizzle profile FILE.py::FUNCTION, "
            "with the function under @cute.jit, has them."
        ]

    def _function(self, file: str, line: int) -> tuple[str, range]:
        """Return the innermost function that a line is in; one of no lines if that is unknown."""
        around = [(name, lines) for name, lines in self.functions.get(file, ()) if line in lines]
        return min(around, key=lambda each: len(each[1]), default=(file, range(0)))


def _text(result: ReportResult, file: str) -> str:
    """Return a file's text: as the report has it, or else as it is here; empty if neither is."""
    if file in result.source.files:
        return result.source.files[file]
    try:
        return read_bytes(Path(file)).decode("utf-8", "replace")
    except (NcuSwizzleError, OSError, ValueError):
        return ""


def _functions(text: str) -> Functions:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [(node.name, range(node.lineno, (node.end_lineno or node.lineno) + 1)) for node in nodes]
