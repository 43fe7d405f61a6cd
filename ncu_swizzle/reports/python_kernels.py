"""What the lines in a program's cubins do not say, of kernels of CuTe DSL and Numba.

CuTe DSL names the innermost line alone. Of functions that Numba itself inlines (``inline="always"``) it keeps the line
and says that it is in the kernel's file: lines outside of the kernel's function do not belong to it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.base.files import read_bytes
from ncu_swizzle.cubin.lines import Location, line_table
from ncu_swizzle.reports import sanity, triton_cache
from ncu_swizzle.reports.container import Facts
from ncu_swizzle.reports.results import ReportResult
from ncu_swizzle.reports.triton_cache import CachedKernel

# What CuTe DSL reads from the environment when it is imported: what to compile for, and what to keep.


PREFIX = "kernel_cutlass_"  # of a kernel's symbol, before its name in Python and the types of its parameters
ACCELERATED = 90  # from sm_90 on the DSL compiles for the architecture with its own instructions, such as sm_90a


def variables(folder: Path, arch: str) -> dict[str, str]:
    """Return the variables; what the DSL writes goes to the folder."""
    plain = arch[-1] in "af" or int(arch.removeprefix("sm_")) < ACCELERATED
    return {
        "CUTE_DSL_ARCH": arch if plain else f"{arch}a",
        "CUTE_DSL_KEEP": "cubin",
        "CUTE_DSL_DUMP_DIR": str(folder),
        "CUTE_DSL_CACHE_DIR": str(folder),
        "CUTE_DSL_LINEINFO": "1",
    }


# What a report lacks of kernels that Triton compiled: callers of inlined functions, and the compiler's layouts.
#
# They are in Triton's cache on the machine that the program ran on, see `reports.triton_cache`, and are kept in the
# facts file beside a report of ours.


Kernels = Mapping[str, CachedKernel]  # by the digests of their cubins


def known(results: Iterable[ReportResult], facts: Facts = Facts(), folder: Path | None = None) -> Kernels:
    """Return what the facts or else the caches have of the results' cubins; the program ran in `folder`."""
    kernels = _kept(facts)
    for cubin, function in {(result.cubin, result.function) for result in results}:
        if triton_cache.is_python(cubin) and (name := cache.sha256(cubin)) not in kernels:
            cached = triton_cache.found(cubin, function, folder)
            kernels |= {name: cached} if cached else {}
    return kernels


def of(result: ReportResult, kernels: Kernels) -> CachedKernel | None:
    return kernels.get(cache.sha256(result.cubin)) if kernels else None


def lacking(result: ReportResult, kernel: CachedKernel | None) -> list[str]:
    """Return a note if callers are unknown."""
    if kernel is not None or not triton_cache.lacks_callers(result.cubin, result.function):
        return []
    return [
        f"{sanity.INNERMOST}Triton's cubin does not name their callers, and Triton's cache has no PTX of this kernel "
        "here; report it where the program ran, with the same TRITON_CACHE_DIR."
    ]


def as_facts(kernels: Kernels) -> dict[str, Any]:
    """Return the entries of a facts file; none without such kernels."""
    if not kernels:
        return {}
    return {
        "callers": {name: kernel.stacks for name, kernel in kernels.items()},
        "ttgir": {name: kernel.ttgir for name, kernel in kernels.items()},
        "explicit": [name for name, kernel in kernels.items() if kernel.explicit],
    }


def _kept(facts: Facts) -> dict[str, CachedKernel]:
    content = facts.content
    texts, explicit = content.get("ttgir", {}), content.get("explicit", ())
    return {
        name: CachedKernel(
            tuple((offset, tuple((file, line) for file, line in stack)) for offset, stack in stacks),
            texts.get(name, ""),
            name in explicit,
        )
        for name, stacks in content.get("callers", {}).items()
    }


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
        bodies = [lines for name, lines in self.functions.get(file, ()) if name == self.kernel]
        inside = any(line in lines and (line != lines.start or not accesses) for lines in bodies)
        return stack if inside or not bodies else ()

    def lacking(self, result: ReportResult) -> list[str]:
        """Return a note if lines end at functions that were called, or are unknown for that."""
        rows = line_table(result.cubin, result.function).rows
        outermost = [row.location for row in rows if not row.inlined_at]
        if self.kernel and not all(self.believed((at,), number > 0) for number, at in enumerate(outermost)):
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
