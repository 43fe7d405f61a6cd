"""What Triton and Inductor leave in their caches: sources of a program's kernels, and Triton's layouts."""

from __future__ import annotations

import ast
import contextlib
import getpass
import glob
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.base.files import read_bytes
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.lines import PTX, LineTable, Location, line_table
from ncu_swizzle.cubin.shared_arrays import SECTION
from ncu_swizzle.kernels.nvcc_options import readable, source_bytes
from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.attribution import Site
from ncu_swizzle.reports.container import Facts, ReportResult
from ncu_swizzle.reports.model import LayoutNote, Profile

# What a report lacks for kernels written in Python: callers of inlined functions, and Triton's layouts.
#
# CuTe DSL names only the innermost line. For functions that Numba itself inlines (``inline="always"``), it keeps the
# line but claims that it is in the kernel's file: lines outside of the kernel's function do not belong to it.
#
# Triton 3.6 leaves the callers out of its cubins; 3.9 does not. Its cache, on the machine that the program ran on, has
# the PTX that names them next to the cubin, and the cubin says which line of PTX each instruction came from: so no
# compiler is needed and nothing is executed. A cubin is found by its bytes, and our own reports keep it in their
# facts file.

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


# The TTGIR operation behind an access with conflicts, its layouts, and what its author can change.
#
# An operation and an access belong together if they are on the same lines, and the operation's code makes accesses of
# that kind and width. An access shared by several operations is attributed to all of them.

# Triton's own view of a kernel, TTGIR: its operations on shared memory, their layouts and source lines.
#
# Anything in the text that is not understood is skipped. Tried with Triton 3.6 and 3.9.


# The kinds of shared-memory accesses that the code of each operation makes.
BOTH = frozenset({"LDS", "LDSM", "STS", "STSM"})
KINDS = {
    "ttg.async_copy_global_to_local": frozenset({"LDGSTS"}),
    "ttg.local_store": frozenset({"STS", "STSM"}),
    "ttg.local_alloc": frozenset({"STS", "STSM"}),
    "ttg.local_load": frozenset({"LDS", "LDSM"}),
    "ttg.convert_layout": BOTH,
    "tt.reduce": BOTH,
    "tt.scan": BOTH,
    "tt.gather": BOTH,
    "tt.histogram": BOTH | {"ATOMS"},
    "tt.atomic_rmw": BOTH,
    "tt.atomic_cas": BOTH,
    "ttng.warp_group_dot": frozenset({"HGMMA", "QGMMA", "IGMMA"}),
}
Place = tuple[str, int]  # file, line

_ALIAS = re.compile(r"^#(?P<name>\w+) = (?P<value>.+)$")
_OPERATION = re.compile(r'^\s*(?:(?P<results>%[^=]*) = )?"?(?P<name>(?:tt|ttg|ttng)\.\w++)(?!\.)"?(?P<rest>.*)$')
_AT = re.compile(r'"(?P<file>[^"]*)":(?P<line>\d+):\d+')
_REFERENCE = re.compile(r"#(\w+)")
_WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')
_LAYOUT = re.compile(r"#(?P<alias>\w+)(?![\w<.])|#ttg\.\w+<")
_TYPE = re.compile(r"(?:tensor|!?ttg\.memdesc|(?<=-> ))<(?P<shape>(?:\d++x)++)(?P<element>(?:!tt\.ptr<)?[^,<>]++)[,>]")
_OPERAND = re.compile(r"%([A-Za-z_]\w*?)(?:_\d+)?(?=[\s,\[:)#]|$)")


@dataclass(frozen=True, kw_only=True)
class LayoutOperation:
    """An operation that accesses shared memory: its name, layouts as TTGIR writes them, and its lines, innermost first.

    `element` is such as ``f32``; `operand` the Python name of what it reads, if Triton kept one.
    """

    name: str
    layouts: tuple[str, ...]
    shape: tuple[int, ...]
    element: str
    operand: str
    axis: int | None
    contiguous: int  # elements that a lane has next to each other in global memory; 0 if that is not said
    places: tuple[Place, ...]

    def reaches(self, access: str) -> bool:
        """Return whether its code makes accesses of this kind."""
        return access in KINDS[self.name]


@dataclass(frozen=True)
class LayoutView:
    """The operations of a kernel, and the number of warps that run its programs."""

    operations: tuple[LayoutOperation, ...]
    warps: int


def read(text: str) -> LayoutView:
    """Return what a TTGIR text says about shared memory; nothing for other text."""
    aliases = {match["name"]: match["value"] for match in map(_ALIAS.match, text.splitlines()) if match}
    warps = _WARPS.search(text)
    return LayoutView(tuple(_operations(text, aliases)), int(warps[1]) if warps else 0)


def _operations(text: str, aliases: Mapping[str, str]) -> Iterator[LayoutOperation]:
    open_: list[re.Match[str]] = []  # operations with a region, whose types and location follow it
    for line in text.splitlines():
        match = _OPERATION.match(line)
        if match and line.rstrip().endswith("({"):
            open_.append(match)
        elif match:
            yield from _operation(match, match["rest"], aliases)
        elif line.lstrip().startswith("})") and open_:
            begun = open_.pop()
            yield from _operation(begun, f"{begun['rest']} {line}", aliases)


def _operation(match: re.Match[str], rest: str, aliases: Mapping[str, str]) -> Iterator[LayoutOperation]:
    statement, located, inside = _located(rest)
    if match["name"] not in KINDS or not located:
        return
    if match["name"] == "ttg.local_alloc" and "%" not in statement:  # only memory: nothing is written
        return
    types = list(_TYPE.finditer(statement))
    axis, contiguous = re.search(r"axis = (\d+)", statement), re.search(r"contiguity = (\d+)", statement)
    operand = _OPERAND.search(statement)
    yield LayoutOperation(
        name=match["name"],
        layouts=tuple(dict.fromkeys(_layouts(statement, aliases))),
        shape=tuple(map(int, types[0]["shape"].rstrip("x").split("x"))) if types else (),
        element=types[0]["element"].removeprefix("!tt.ptr<").rstrip(">") if types else "",
        operand=operand[1] if operand else "",
        axis=int(axis[1]) if axis else None,
        contiguous=int(contiguous[1]) if contiguous else 0,
        places=tuple(_places(inside, aliases)),
    )


def _located(text: str) -> tuple[str, bool, str]:
    """Split off a location at the end of a text: the text before it, whether there is one, and its content."""
    before, mark, after = text.rstrip().partition("loc(")
    return before, bool(mark) and after.endswith(")"), after.removesuffix(")")


def _layouts(said: str, aliases: Mapping[str, str]) -> Iterator[str]:
    """Yield the layouts of an operation's types, spelled out."""
    ends = _ends(said)
    for match in _LAYOUT.finditer(said):
        if match["alias"] is None:
            if end := ends.get(match.end() - 1):
                yield said[match.start() : end]
        elif "<" in (value := aliases.get(match["alias"], "")) and value.startswith("#ttg."):
            yield value


def _ends(text: str) -> dict[int, int]:
    """Return, for each opening bracket, the position after its closing one."""
    opened: list[int] = []
    closed = {}
    for bracket in re.finditer("[<>]", text):
        if bracket[0] == "<":
            opened.append(bracket.start())
        elif opened:
            closed[opened.pop()] = bracket.end()
    return closed


def _places(location: str, aliases: Mapping[str, str]) -> Iterator[Place]:
    """Yield the lines of a location; for a call, the callee's come first. Each name counts once."""
    waiting, visited = [location], set[str]()
    while waiting:
        location = waiting.pop()
        if at := _AT.match(location):
            yield at["file"], int(at["line"])
            continue
        names = [name for name in _REFERENCE.findall(location) if name not in visited]
        visited.update(names)
        inner = (_located(aliases.get(name, "")) for name in reversed(list(dict.fromkeys(names))))
        waiting += [inside for _, located, inside in inner if located]


LINE = 128  # bytes
MOST_COPIED = 16  # bytes of a lane
BITS = re.compile(r"(\d+)")
_WIDTH = re.compile(r"\.(?:U|S)?(8|16|64|128)(?=\.|$)")
_FIELD = r"{name} = (\[++[^][]*+\]|\w++)"


def with_layout_notes(profile: Profile, text: str, explicit: bool) -> Profile:
    """Return the profile with a note on each line whose accesses have conflicts; `explicit` layouts are the author's.

    `text` is the kernel's TTGIR; empty for other compilers.
    """
    view = read(text)
    groups: dict[tuple[str, str, str], list[Site]] = {}
    for site in attribution.sites(profile):
        access = site.access
        if view.operations and access.wavefronts is not None and access.wavefronts > (access.ideal or 0):
            groups.setdefault((site.name, access.access, access.opcode), []).append(site)
    said: dict[tuple[str, str], list[list[Site]]] = {}
    for sites in groups.values():
        if sentence := _sentence(sites, view, explicit):
            said.setdefault(sentence, []).append(sites)
    notes = [
        LayoutNote(
            f"{operation}, {' and '.join(map(_counted, together))}: {why}",
            tuple(site.access.pc for sites in together for site in sites),
            explicit,
        )
        for (operation, why), together in said.items()
    ]
    return replace(profile, layouts=tuple(notes))


def _sentence(sites: Sequence[Site], view: LayoutView, explicit: bool) -> tuple[str, str] | None:
    """Explain the accesses of one line and opcode, and why they conflict; None if no operation makes them."""
    access, width = sites[0].access, _width(sites[0].access.opcode)
    reaching = [each for each in view.operations if each.reaches(access.access) and _same_lines(each, sites[0])]
    fitting = [each for each in reaching if _bytes_at_once(each) in (None, width)] or reaching
    guilty = [each for each in fitting if _is_transposed(each) or _is_narrow(each)] or fitting
    operations = list(dict.fromkeys(replace(each, contiguous=0) for each in guilty))
    if not operations:
        return None
    named = " and ".join(dict.fromkeys(map(_named, operations)))
    return f"{sites[0].name} is {named}", _reason(operations[0], view, width, explicit)


def _counted(sites: Sequence[Site]) -> str:
    """Return the kind, width and degree of accesses of one line and opcode."""
    wavefronts = sum(site.access.wavefronts or 0 for site in sites)
    ideal = sum(site.access.ideal or 0 for site in sites)
    degree = f", degree {wavefronts / ideal:.2f}" if ideal else ""
    return f"{sites[0].access.access} of {_bytes(_width(sites[0].access.opcode))}{degree}"


def _same_lines(operation: LayoutOperation, site: Site) -> bool:
    """Return whether both are on the same lines; the cubin may leave out the callers."""
    lines = [(file.rpartition("/")[2], line) for file, line in site.access.stack]
    places = [(file.rpartition("/")[2], line) for file, line in operation.places]
    shared = min(len(lines), len(places))
    # A reduction needs shared memory only along an axis of several warps.
    reduces = operation.name in ("tt.reduce", "tt.scan") and operation.axis is not None
    return shared > 0 and lines[:shared] == places[:shared] and not (reduces and _warps_along(operation) <= 1)


def _warps_along(operation: LayoutOperation) -> int:
    spread = _numbers(next((each for each in operation.layouts if "warpsPerCTA" in each), ""), "warpsPerCTA")
    axis = operation.axis or 0
    return spread[axis] if axis < len(spread) else 1


def _width(opcode: str) -> int:
    """Return the bytes that a lane moves at once."""
    if opcode.startswith(("LDSM", "STSM")):
        return MOST_COPIED
    widths = _WIDTH.findall(opcode)
    return int(widths[-1]) // 8 if widths else 4


def _bytes_at_once(operation: LayoutOperation) -> int | None:
    """Return the bytes that a copy moves per lane: elements that are together on both sides; None if unclear."""
    if operation.name != "ttg.async_copy_global_to_local" or not operation.contiguous:
        return None
    element = _element_bytes(operation)
    return element if _is_transposed(operation) else min(MOST_COPIED, operation.contiguous * element)


def _is_transposed(operation: LayoutOperation) -> bool:
    """Return whether different axes are contiguous in registers and in shared memory."""
    held = next((each for each in operation.layouts if each.startswith("#ttg.nvmma_shared")), "")
    order = _numbers(next((each for each in operation.layouts if each.startswith("#ttg.blocked")), ""), "order")
    if not held or len(order) != len(operation.shape):
        return False
    return order[0] != (len(order) - 2 if "transposed = true" in held else len(order) - 1)


def _element_bytes(operation: LayoutOperation) -> int:
    bits = BITS.search(operation.element)
    return max(1, int(bits[1]) // 8) if bits else 4


def _named(operation: LayoutOperation) -> str:
    """Describe an operation: what it reads, its shape and its layouts."""
    of = f" of {operation.operand}" if operation.operand else ""
    shape = "x".join(map(str, (*operation.shape, operation.element)))
    layouts = " to ".join(each for each in operation.layouts if not each.startswith("#ttg.slice"))
    axis = "" if operation.axis is None else f" along axis {operation.axis}"
    return f"{operation.name}{of}{axis}, {shape}, {layouts}"


def _reason(operation: LayoutOperation, view: LayoutView, width: int, explicit: bool) -> str:
    """Explain why it conflicts, if the layouts tell, and what changes them."""
    fewer, more = max(1, view.warps // 2), view.warps * 2
    other = f"--before num_warps={view.warps} --after num_warps={more if view.warps < 8 else fewer} compares"
    if _is_transposed(operation) and _element_bytes(operation) != 2:
        bits = 8 * _element_bytes(operation)
        sixteen = ", or make both operands of tl.dot float16 or bfloat16" if bits == 32 else ""
        which = operation.operand if operation.name == "ttg.async_copy_global_to_local" else "that operand"
        return (
            f"wgmma reads {bits}-bit operands only with K contiguous, so the tile is turned as it is written, "
            f"{_bytes(width)} at a time; store {which} with K contiguous (strides 1 along K){sixteen}"
        )
    if operation.name == "tt.histogram":
        return "lanes whose values fall into one bank take turns, which depends on the data and on no option"
    if operation.name in ("tt.reduce", "tt.scan") and operation.axis is not None:
        return (
            f"axis {operation.axis} is spread over {_warps_along(operation)} warps, which exchange their parts through "
            f"shared memory; --before num_warps={view.warps} --after num_warps=1 compares with one warp"
        )
    if _is_narrow(operation):
        elements = LINE // _element_bytes(operation)
        return (
            f"a row of the tile has {_row_bytes(operation)} bytes, and a copy takes a wavefront for each {LINE}-byte "
            f"line that it reads or writes; a block of {elements} along its contiguous axis fills the lines"
        )
    if explicit:
        return "the layout is yours: another SwizzledSharedLayout, PaddedSharedLayout or register layout changes it"
    return f"the layouts are the compiler's, which takes others for other block shapes and num_warps: {other}"


def _bytes(count: int) -> str:
    return f"{count} byte{'s' if count > 1 else ''}"


def _is_narrow(operation: LayoutOperation) -> bool:
    """Return whether it copies rows that are shorter than a line."""
    return operation.name == "ttg.async_copy_global_to_local" and _row_bytes(operation) < LINE


def _row_bytes(operation: LayoutOperation) -> int:
    order = _numbers(next((each for each in operation.layouts if each.startswith("#ttg.blocked")), ""), "order")
    fits = len(order) == len(operation.shape) and bool(order)
    return operation.shape[order[0]] * _element_bytes(operation) if fits else LINE


def _numbers(layout: str, name: str) -> list[int]:
    """Return a list of numbers in a layout's text."""
    match = re.search(_FIELD.format(name=name), layout)
    return [int(number) for number in re.findall(r"\d+", match[1])] if match else []
