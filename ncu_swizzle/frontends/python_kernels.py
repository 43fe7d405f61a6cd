"""What a report lacks for kernels written in Python: callers of inlined functions, and Triton's layouts.

CuTe DSL names only the innermost line. For functions that Numba itself inlines (``inline="always"``), it keeps the line
but claims that it is in the kernel's file: lines outside of the kernel's function do not belong to it.

Triton 3.6 leaves the callers out of its cubins; 3.9 does not. Its cache, on the machine that the program ran on, has
the PTX that names them next to the cubin, and the cubin says which line of PTX each instruction came from: so no
compiler is needed and nothing is executed. A cubin is found by its bytes, and our own reports keep it in their
facts file.
"""

from __future__ import annotations

import ast
import contextlib
import getpass
import glob
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.base.files import read_bytes
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.lines import PTX, LineTable, Location, line_table
from ncu_swizzle.cubin.shared_arrays import SECTION
from ncu_swizzle.kernels.nvcc_options import readable, source_bytes
from ncu_swizzle.reports.container import Facts
from ncu_swizzle.reports.results import ReportResult

# The Python lines of PTX: where each instruction comes from, and through which calls, according to Triton's PTX.
#
# A ``.loc`` names only the innermost line. The callers are in its comment, by file names without folders; of
# two files with the same name, the calls listed in ``.debug_info`` tell which is meant.

AT = " @[ "  # in a comment, between callee and caller
_FILE = re.compile(r'^[^\S\n]*+\.file\s++(\d++)\s++(?:"([^"\n]*+)"\s++)?"([^"\n]*+)"', re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+) (\d+) (\d+)(?:\s*// (.*))?$")
_SAID = re.compile(r"^(.*):(\d+):(\d+)$")
_CALL = re.compile(
    r"\.b8 (\d+)\s+// DW_AT_call_file\n"
    r"\.b(?:8|32) (\d+)\s+// DW_AT_call_line\n((?:\.b8 \d+\n)*)"
    r"\.b(?:8|32) (\d+)\s+// DW_AT_call_column\n((?:\.b8 \d+\n)*)"
)
_BYTE = re.compile(r"\.b8 (\d+)")


class Frame(NamedTuple):
    """A line of a file, by its number in the PTX, and the column."""

    file: int
    line: int
    column: int


@dataclass(frozen=True)
class PtxLines:
    """The files of a PTX text, by number, and the calls that it lists."""

    files: Mapping[int, str]
    calls: frozenset[Frame]

    @classmethod
    def of_text(cls, ptx: str) -> PtxLines:
        files = {int(number): str(PurePosixPath(folder, name)) for number, folder, name in _FILE.findall(ptx)}
        calls = {
            Frame(int(file), _whole(line, lines), _whole(column, columns))
            for file, line, lines, column, columns in _CALL.findall(ptx)
        }
        return cls(files, frozenset(calls))

    def frames(self, line: str) -> tuple[Frame, ...]:
        """Return the frames of a ``.loc`` line of PTX, innermost first; without callers if one is unclear."""
        match = _LOC.match(line)
        if match is None:
            return ()
        innermost = Frame(*map(int, match.group(1, 2, 3)))
        _, *callers = (match[4] or "").split(AT)
        frames = [self._caller(caller.rstrip(" ]")) for caller in callers]
        clear = [frame for frame in frames if frame is not None]
        return (innermost, *clear) if len(clear) == len(frames) else (innermost,)

    def _caller(self, said: str) -> Frame | None:
        """Return the frame of ``name:line:column``; None if several files match, or none."""
        match = _SAID.match(said)
        if match is None:
            return None
        line, column = map(int, match.group(2, 3))
        files = [number for number, path in self.files.items() if path.rpartition("/")[2] == match[1]]
        frames = [Frame(number, line, column) for number in files]
        if len(frames) > 1:
            frames = [frame for frame in frames if frame in self.calls]
        return frames[0] if len(frames) == 1 else None


def stacks(ptx: str) -> dict[int, tuple[Location, ...]]:
    """Return the stack of each line of PTX that follows a ``.loc``, innermost first, by its number from 1 on."""
    lines_of_ptx = PtxLines.of_text(ptx)
    stack: tuple[Location, ...] = ()
    by_line: dict[int, tuple[Location, ...]] = {}
    for number, line in enumerate(ptx.split("\n"), start=1):
        if frames := lines_of_ptx.frames(line):
            stack = tuple((lines_of_ptx.files.get(frame.file, ""), frame.line) for frame in frames)
        elif stack:
            by_line[number] = stack
    return by_line


def _whole(first: str, more: str) -> int:
    """Return an integer whose bytes are listed, the lowest first."""
    return sum(int(byte) << 8 * number for number, byte in enumerate((first, *_BYTE.findall(more))))


LEAST_LABELS = 2  # in the PTX of a function: where its own code begins and ends; more belong to what is inlined
_LABEL = re.compile(rb"\$L__tmp\d+:")
INNERMOST = "source lines end at inlined functions: "
_SHARED = "torchinductor_"  # where torch.compile keeps Triton's kernels, in the folder for temporary files


@dataclass(frozen=True)
class CachedKernel:
    """What the cache holds for a cubin: the stack of the code from each offset on, innermost first, and its TTGIR.

    With `explicit` layouts, those in the TTGIR are the author's, as in Gluon.
    """

    stacks: tuple[tuple[int, tuple[Location, ...]], ...] = ()
    ttgir: str = ""
    explicit: bool = False

    @property
    def lines(self) -> LineTable:
        """The line table with callers."""
        return LineTable.of_stacks(self.stacks)


def is_python(cubin: bytes) -> bool:
    """Return whether a cubin may come from a Python kernel: it names a Python file, and keeps its PTX."""
    return b".py\0" in cubin and SECTION.encode() in cubin


def lacks_callers(cubin: bytes, function: str) -> bool:
    """Return whether functions were inlined in a kernel, and its line table does not say where."""
    if not is_python(cubin) or any(row.inlined_at for row in line_table(cubin, function).numbered):
        return False
    return len(set(_LABEL.findall(Cubin(cubin, function).section(SECTION)))) > LEAST_LABELS


def find_cached_kernel(cubin: bytes, function: str, folder: Path | None = None) -> CachedKernel | None:
    """Return what this user's caches hold for a cubin; None without its PTX.

    `folder` is the one that the program ran in, to which a relative TRITON_CACHE_DIR belongs; by default the current.
    """
    if not is_python(cubin):
        return None
    patterns = [f"*/{glob.escape(function)}.cubin"]
    if lacks_callers(cubin, function):  # worth a longer search: a long name, or one by `repr=`, differs
        patterns.append("*/*.cubin")
    caches = list(_folders(os.environ, folder or Path.cwd()))
    for file in (file for pattern in patterns for kept in caches for file in kept.glob(pattern)):
        with contextlib.suppress(OSError, NcuSwizzleError):
            if file.stat().st_size == len(cubin) and read_bytes(file) == cubin:
                return _read(cubin, function, file)
    return None


def lines(cubin: bytes, function: str) -> LineTable:
    """Return a kernel's line table, with missing callers if the cache knows them."""
    cached = find_cached_kernel(cubin, function) if lacks_callers(cubin, function) else None
    return cached.lines if cached else line_table(cubin, function)


def _folders(environment: Mapping[str, str], folder: Path) -> Iterator[Path]:
    """Yield the folders that Triton, and torch.compile, keep compiled kernels in."""
    home = environment.get("TRITON_HOME") or environment.get("HOME")
    if chosen := environment.get("TRITON_CACHE_DIR"):
        yield folder / chosen
    elif home:
        yield folder / home / ".triton" / "cache"
    compiled = environment.get("TORCHINDUCTOR_CACHE_DIR")
    user = ""
    with contextlib.suppress(KeyError, OSError):  # no name for the number
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    inductor = folder / compiled if compiled else Path(tempfile.gettempdir(), f"{_SHARED}{user}")
    if inductor.is_dir() and inductor.stat().st_uid == os.getuid():  # others write to the temporary folder too
        yield from sorted(inductor.glob("triton/*"))


def _read(cubin: bytes, function: str, file: Path) -> CachedKernel:
    """Read what is next to a cubin in the cache. Raises BadFile without PTX: Triton can be told to keep none."""
    ptx, ttgir = (read_bytes(file.with_suffix(suffix)).decode("utf-8", "replace") for suffix in (".ptx", ".ttgir"))
    return CachedKernel(tuple(_stacks(cubin, function, ptx)), ttgir, not file.with_suffix(".ttir").exists())


def _stacks(cubin: bytes, function: str, ptx: str) -> Iterator[tuple[int, tuple[Location, ...]]]:
    """Yield the stack of the code from each offset on: that of its PTX if both begin with the same line.

    Otherwise it is the one stack that begins with the cubin's own line, or that line alone if there are several.
    """
    own_lines, made_from = line_table(cubin, function), line_table(cubin, function, PTX)
    ptx_stacks, last = stacks(ptx), None
    all_stacks = set(ptx_stacks.values())
    for offset in sorted({row.offset for table in (own_lines, made_from) for row in table.rows}):
        stack = own_lines.stack(offset)
        if len(stack) == 1:  # a longer one has the callers
            near = {ptx_stacks.get(line, ()) for _, line in made_from.stack(offset)[:1]}
            fitting = [each for each in near if each[:1] == stack] or [each for each in all_stacks if each[:1] == stack]
            stack = fitting[0] if len(fitting) == 1 else stack
        if stack != last:
            yield offset, stack
        last = stack


# What CuTe DSL reads from the environment when it is imported: the architecture, and what to keep.

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


# What a report lacks for kernels that Triton compiled: callers of inlined functions, and the compiler's layouts.

Kernels = Mapping[str, CachedKernel]  # by the digests of their cubins


def known_kernels(results: Iterable[ReportResult], facts: Facts = Facts(), folder: Path | None = None) -> Kernels:
    """Return what the facts, or else the caches, hold for the results' cubins; the program ran in `folder`."""
    kernels = _kept(facts)
    for cubin, function in {(result.cubin, result.function) for result in results}:
        if is_python(cubin) and (name := cache.sha256(cubin)) not in kernels:
            cached = find_cached_kernel(cubin, function, folder)
            kernels |= {name: cached} if cached else {}
    return kernels


def of(result: ReportResult, kernels: Kernels) -> CachedKernel | None:
    return kernels.get(cache.sha256(result.cubin)) if kernels else None


def lacking(result: ReportResult, kernel: CachedKernel | None) -> list[str]:
    """Return a note if callers are unknown."""
    if kernel is not None or not lacks_callers(result.cubin, result.function):
        return []
    return [
        f"{INNERMOST}Triton's cubin does not name their callers, and Triton's cache has no PTX of this kernel "
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

    def plausible_stack(self, stack: tuple[Location, ...], accesses: bool) -> tuple[Location, ...]:
        """Return a stack; empty for a line that cannot be the kernel's, as Numba gives to inlined code."""
        if not self.kernel or len(stack) != 1:
            return stack
        file, line = stack[0]
        bodies = [lines for name, lines in self.functions.get(file, ()) if name == self.kernel]
        inside = any(line in lines and (line != lines.start or not accesses) for lines in bodies)
        return stack if inside or not bodies else ()

    def lacking(self, result: ReportResult) -> list[str]:
        """Return a note if lines end at called functions, or are unknown because of them."""
        rows = line_table(result.cubin, result.function).rows
        outermost = [row.location for row in rows if not row.inlined_at]
        if self.kernel and not all(self.plausible_stack((at,), number > 0) for number, at in enumerate(outermost)):
            return [
                f"{INNERMOST}Numba does not say of functions that it inlines itself which file they are in; "
                'without inline="always" it does, and ncu-swizzle profile FILE.py::FUNCTION has their lines.'
            ]
        if not result.function.startswith(PREFIX) or any(row.inlined_at for row in rows):
            return []
        if len({self._function(*row.location) for row in rows}) < 2:
            return []
        return [
            f"{INNERMOST}CuTe DSL's cubin does not name their callers; ncu-swizzle profile FILE.py::FUNCTION, "
            "with the function under @cute.jit, has them."
        ]

    def _function(self, file: str, line: int) -> tuple[str, range]:
        """Return the innermost function that contains a line; one without lines if unknown."""
        around = [(name, lines) for name, lines in self.functions.get(file, ()) if line in lines]
        return min(around, key=lambda each: len(each[1]), default=(file, range(0)))


def _text(result: ReportResult, file: str) -> str:
    """Return a file's text, from the report or else the checkout; empty if neither has it."""
    if file in result.source.files:
        return result.source.files[file]
    return source_bytes(file, readable()).decode("utf-8", "replace")


def _functions(text: str) -> Functions:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [(node.name, range(node.lineno, (node.end_lineno or node.lineno) + 1)) for node in nodes]
