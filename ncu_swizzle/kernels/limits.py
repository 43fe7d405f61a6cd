"""Sizes of launches, evaluated and checked; and which files a source includes or imports.

Only plain ``#include`` lines are read. Includes in comments count too: one file too many does no harm. Includes that
name a macro are not followed, see `has_computed_include`.
"""

from __future__ import annotations

import ast
import math
import operator
import os
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.base.errors import BadCatalog, Hint, Typed, UsageError
from ncu_swizzle.base.files import read_source
from ncu_swizzle.base.texts import Sizes, in_commas
from ncu_swizzle.base.validate import stripped_text, within_64_bits
from ncu_swizzle.smem.access import MOST_THREADS, RESERVED_BYTES

# Which files of its own folder a Python file imports, judged by its import statements; nothing is executed.


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
            folder = file.parents[min(max(node.level, 1), len(file.parents)) - 1]
            yield folder, node.module or ""
            yield from ((folder, f"{node.module}.{alias.name}" if node.module else alias.name) for alias in node.names)


def _modules(folder: Path, name: str) -> Iterator[Path]:
    """Yield the module of that name, if it is a file."""
    path = folder.joinpath(*name.split("."))
    for module in (*([path.with_name(f"{path.name}.py")] if name else []), path / "__init__.py"):
        if module.is_file():
            yield module


# Integer arithmetic over a problem's sizes, as written in family.toml: ``"seq // 64"``.

OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


USUAL_SIZE = 1024  # in hints


class _NoSize(ValueError):
    def __init__(self, size: str) -> None:
        super().__init__(f"there is no size {size!r}")
        self.size = size


def evaluate(expression: str | int, names: Mapping[str, int]) -> int:
    """Return the value of an expression made of integers, names, ``+ - * // %`` and parentheses.

    Raises BadCatalog for anything else: a catalogue is data and never runs code.
    """
    try:
        text = str(expression)
        return _value(ast.parse(stripped_text(text), mode="eval").body, names)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError) as error:
        shown = str(expression) if isinstance(expression, str) else "a number"
        failure = BadCatalog(
            f"cannot evaluate {shown[:100]!r}: {_why(error)}",
            f"use integers, + - * // %, parentheses and the sizes {', '.join(names) or '(none given)'}",
        )
        failure.size = error.size if isinstance(error, _NoSize) else ""
        raise failure from error


def undefined(error: BadCatalog) -> str:
    """Return what to type after an expression that cannot be evaluated: the size that it lacks, if that is all."""
    return Hint("define it: ", Typed(f"--problem {error.size}={USUAL_SIZE}")) if error.size else error.hint


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
            raise _NoSize(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        # Intermediate values are bounded too: nested products would take any time and memory.
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return within_64_bits(OPERATORS[type(op)](_value(left, names), _value(right, names)))
    raise ValueError(f"{ast.unparse(node)!r} is not integer arithmetic")


# Grid, block and shared memory: how they are written, and what a GPU allows.


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
MOST_BLOCK = (MOST_THREADS, MOST_THREADS, 64)
MOST_GRID = (2**31 - 1, 65535, 65535)
USUAL = {"grid": "128,128", "block": "32,8"}
MOST_SHARED = 1 << 20  # bytes: more than any GPU's own limit


def three(given: Sizes, what: str) -> tuple[str, str, str]:
    """Return ``"n//32,8"``, ``["n//32", 8]`` or 512 as three expressions, padded with 1; raise UsageError."""
    parts = [part.strip() for part in in_commas(given).split(",")]
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise UsageError(
            f"{what} is {given!r}: it takes one to three sizes",
            f"--{what} {USUAL[what]}; sizes may have names, such as n//32",
        )
    x, y, z = (*parts, "1", "1")[:3]
    return x, y, z


def along_axes(sizes: Sequence[int]) -> tuple[int, int, int]:
    """Return up to three sizes of a grid or a block along the three axes."""
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return int(x), int(y), int(z)


def refuse_bad_sizes(sizes: Sequence[str], what: str, problem: Mapping[str, int]) -> None:
    """Raise UsageError if a size cannot be evaluated for this problem, or exceeds what any GPU allows."""
    for size, most in zip(sizes, MOST_GRID if what == "grid" else MOST_BLOCK, strict=True):
        try:
            value = evaluate(size, problem)
        except BadCatalog as error:
            raise UsageError(f"{what}: {error}", undefined(error)) from error
        if not 1 <= value <= most:
            raise UsageError(f"{what}: {size} is {value}, outside 1 to {most}", f"--{what} {USUAL[what]}")


def block_of(given: Sizes, problem: Mapping[str, int]) -> tuple[int, int, int]:
    """Return the threads of a block along each axis. Raises UsageError for what no GPU allows."""
    texts = three(given, "block")
    refuse_bad_sizes(texts, "block", problem)
    x, y, z = (evaluate(text, problem) for text in texts)
    if x * y * z > MOST_THREADS:
        raise UsageError(f"a block of {x} x {y} x {z} has {x * y * z:,} threads", f"at most {MOST_THREADS:,}")
    return x, y, z


@dataclass(frozen=True, kw_only=True)
class LaunchShape:
    """One launch: blocks and threads along three axes, bytes of dynamic shared memory, and blocks of a cluster."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int = 0
    cluster: tuple[int, ...] = ()  # empty: what the cubin says


@dataclass(frozen=True)
class Limits:
    """What the GPU and the compiled kernel allow: threads per block, and bytes of shared memory per block."""

    threads: int
    shared: int  # static and dynamic together; 0 if unknown
    static: int


def refuse_oversized(name: str, launch: LaunchShape, limits: Limits) -> None:
    """Raise UsageError if a launch asks for more threads or shared memory than allowed."""
    block, shared = launch.block, launch.shared
    threads = math.prod(block)
    if threads > limits.threads:
        raise UsageError(
            f"{name}: a block of {' x '.join(map(str, block))} has {threads:,} threads; this kernel allows at most "
            f"{limits.threads:,}",
            Hint(
                Typed(f"--block {_fitting(block, limits.threads)}"),
                "; __launch_bounds__ in the source makes the compiler use fewer registers, for a larger one",
            ),
        )
    if limits.shared and limits.static + shared > limits.shared:
        own = f" plus {limits.static:,} bytes of static" if limits.static else ""
        raise UsageError(
            f"{name}: {shared:,} bytes of dynamic shared memory{own} exceed the {limits.shared:,} bytes per block of "
            "this GPU",
            Hint(
                Typed(f"--shared {limits.shared - limits.static}"),
                f" is the most for this kernel; {RESERVED_BYTES:,} more bytes per block are CUDA's own",
            )
            if limits.shared > limits.static
            else "use a smaller tile",
        )


def _fitting(block: Sequence[int], threads: int) -> str:
    """Return a block with at most that many threads: the last sizes are reduced first."""
    sizes = list(block)
    for axis in reversed(range(len(sizes))):
        others = math.prod(sizes) // sizes[axis]
        sizes[axis] = max(min(sizes[axis], threads // others), 1)
    return ",".join(map(str, sizes))


_DIRECTIVE = r"(?:#|%:)[ \t]*(?:include|include_next|import)\b[ \t]*"
_INCLUDE = re.compile(_DIRECTIVE + r'(?:"(?P<beside>[^"\n]+)"|<(?P<system>[^<>\n]+)>)')
_COMPUTED = re.compile(rf'^(?:.*\*/)?[ \t]*{_DIRECTIVE}(?![ \t"<])', re.MULTILINE)
MOST_NAMES = 32  # of one file that are followed
FOLDER_OPTIONS = ("-I", "-isystem=")
_INHERITED = ("CPATH", "CPLUS_INCLUDE_PATH")  # where the compiler searches too


def texts(sources: Iterable[Path], folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each existing source and everything it includes from its own folder or from `folders`.

    Paths are absolute and without ``..``. Headers of the toolkit and of the host compiler are left out. Raises BadFile.
    """
    seen: set[Path] = set()
    names: Counter[str] = Counter()  # of each file: links to their own folder make endlessly many
    waiting = deque(plain(source) for source in sources)
    while waiting:
        file = waiting.popleft()
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        names[real := os.path.realpath(file)] += 1
        if names[real] > MOST_NAMES:
            continue
        text = read_source(file)
        yield file, text
        if file.suffix == ".py":
            waiting += beside(file, text)
        else:
            headers = (included_file(name, quoted, file, folders) for name, quoted in named(text))
            waiting += filter(None, headers)


def has_computed_include(text: str) -> bool:
    """Return whether the text has an ``#include`` of a macro."""
    return _COMPUTED.search(text) is not None


def knows_includes(options: Iterable[str], texts: Iterable[str]) -> bool:
    """Return whether all that is included is known: what a macro names, or another option than -I, is not."""
    forced = any(re.match(r"--?(pre-)?include(=|$)", option) for option in options)
    return not (forced or any(map(has_computed_include, texts)))


def folders(options: Sequence[str]) -> list[Path]:
    """Return the folders named by options, ``-Ifolder`` and ``-isystem=folder``, and by the environment."""
    named = [option.removeprefix(form) for option in options for form in FOLDER_OPTIONS if option.startswith(form)]
    inherited = [folder for name in _INHERITED for folder in os.environ.get(name, "").split(os.pathsep)]
    return [Path(folder) for folder in (*named, *inherited) if folder]


def named(text: str) -> Iterator[tuple[str, bool]]:
    """Yield what a text includes, and whether it is in quotes."""
    for match in _INCLUDE.finditer(text):
        yield match["beside"] or match["system"], match["beside"] is not None


def included_file(name: str, quoted: bool, file: Path, folders: Sequence[Path]) -> Path | None:
    """Return the file that an ``#include`` in `file` names, which is searched next to it if the name is `quoted`."""
    searched = [file.parent, *folders] if quoted else folders
    return next((plain(folder / name) for folder in searched if (folder / name).is_file()), None)


def plain(path: Path) -> Path:
    """Return an absolute path without ``..``."""
    return Path(os.path.normpath(path.absolute()))  # keep links: the compiler names files by them
