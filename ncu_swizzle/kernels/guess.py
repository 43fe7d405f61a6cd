"""A kernel's entry for ncu-swizzle.toml, made from what its user said and from its signature."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ncu_swizzle.base.texts import encodable, one_line
from ncu_swizzle.kernels import signature
from ncu_swizzle.kernels.family import BYTES
from ncu_swizzle.kernels.options import LaunchOptions
from ncu_swizzle.kernels.project import KernelSpec
from ncu_swizzle.kernels.signature import WARP, KernelSignature, SignatureParameter
from ncu_swizzle.smem.access import MOST_THREADS

# A launch that a kernel's signature allows: grid, block, shared memory and arguments, with plausible sizes.
#
# Only the signature is certain. Sizes and contents are guesses that a kernel mostly survives: every buffer has room for
# one element per thread of the largest launch proposed here, an integer is the problem's size.


LINEAR, SQUARE = 1 << 20, 1 << 10  # elements of a vector, rows and columns of a matrix
EACH = 8  # elements that a thread may move: then all are within a buffer
TILE = 128  # rows and columns that a block of one axis may cover in a grid of two
USUAL_THREADS = 256
USUAL_SHARED = 48 * 1024  # bytes that every GPU grants without being asked
KINDS = {"f": {2: "float16", 4: "float32", 8: "float64"}, "": {1: "int8", 2: "int16", 4: "int32", 8: "int64"}}
OUTPUTS = re.compile(r"(^|_)(d_|g_)?(o|y|c|d|out|output|dst|dest|res|result|sum|hist|histogram|bins?)\w{0,3}$", re.I)


@dataclass(frozen=True, kw_only=True)
class LaunchGuess:
    """A launch as the command line takes it: expressions over `problem`, and one argument per parameter.

    `doubts` says of each argument what the signature does not tell.
    """

    launch: LaunchOptions
    problem: dict[str, int]
    doubts: tuple[str, ...] = field(default=())

    def options(self, lacking: Sequence[str]) -> str:
        """Return the options to add to a command that lacks some: of "--grid", "--block", "--shared", "--arg"."""
        sized = {"--grid", "--arg"} & set(lacking)
        words = [part for name, size in self.problem.items() if sized for part in ("--problem", f"{name}={size}")]
        launch = self.launch
        for option, value in (("--grid", launch.grid), ("--block", launch.block), ("--shared", launch.shared)):
            words += [option, value] if value and option in lacking else []
        words += [part for text in launch.args if "--arg" in lacking for part in ("--arg", text)]
        return shlex.join(words)


def guess(kernel: KernelSignature, sizes: Mapping[str, int] | None = None) -> LaunchGuess:
    """Return a plausible launch of a kernel; `sizes` are the problem's as far as they are given."""
    matrix = kernel.grid_axes > 1 or kernel.block_axes > 1 or sum(map(_is_size, kernel.parameters)) > 1
    problem = {"n": SQUARE if matrix else LINEAR}
    small = "n" in (sizes or {})  # then a block may cover more than all of it
    shape = "n,n" if matrix else "n"
    block = _block(kernel)
    texts = arguments(kernel.parameters, shape, "n")
    launch = LaunchOptions(
        entry=kernel.function,
        grid=",".join([_blocks(tile, small) for tile in _tiles(kernel, block)]),
        block=",".join(map(str, block)),
        shared=str(max(USUAL_SHARED - kernel.static_shared, 1024)) if kernel.dynamic_shared else "",
        args=tuple(text for text, _ in texts),
    )
    return LaunchGuess(
        launch=launch,
        problem=problem,
        doubts=tuple(doubt for _, doubt in texts),
    )


def arguments(parameters: Sequence[SignatureParameter], shape: str, size: str) -> list[tuple[str, str]]:
    """Return an argument for each parameter, with the shape of its buffers and the value of its integers given.

    With each comes what is guessed of it.
    """
    names = _distinct_names(parameters)
    outputs = _outputs(parameters, names)
    rows = zip(parameters, names, strict=True)
    return [_argument(parameter, name, shape, name in outputs, size) for parameter, name in rows]


def _block(kernel: KernelSignature) -> tuple[int, ...]:
    if kernel.required_block:
        return tuple(kernel.required_block)
    most = max(kernel.max_threads // WARP * WARP, WARP)
    threads = most if most < MOST_THREADS else USUAL_THREADS  # __launch_bounds__ is mostly the block's size
    if kernel.block_axes == 1:
        words = kernel.static_shared // 4 // WARP * WARP or threads  # mostly, each thread has its own
        return (min(threads, words),)
    rows = max(min(threads, USUAL_THREADS) // WARP, 1)
    return (WARP, rows) if kernel.block_axes == 2 else (WARP, math.gcd(rows, 4), max(rows // 4, 1))


def _tiles(kernel: KernelSignature, block: Sequence[int]) -> list[int]:
    """Return how many elements a block covers along each axis of the grid."""
    if kernel.grid_axes > 1:
        return [TILE if len(block) == 1 else block[0]] * 2
    return [block[0] if kernel.block_axes > 1 else block[0] * EACH]


def _blocks(tile: int, small: bool) -> str:
    return f"(n+{tile - 1})//{tile}" if small else f"n//{tile}"


def _is_size(parameter: SignatureParameter) -> bool:
    dtype = _scalar_dtype(parameter)
    return dtype is not None and dtype[0] in "iu" and parameter.size >= 4 and parameter.pointee is None


def _distinct_names(parameters: Sequence[SignatureParameter]) -> list[str]:
    names = [parameter.name or f"a{number}" for number, parameter in enumerate(parameters, 1)]
    return [name if names.count(name) == 1 else f"a{number}" for number, name in enumerate(names, 1)]


def _outputs(parameters: Sequence[SignatureParameter], names: Sequence[str]) -> set[str]:
    """Return the buffers that the kernel seems to write: those not const, but not all of them if none is const."""
    writable = [name for parameter, name in zip(parameters, names, strict=True)
                if parameter.pointee is not None and not parameter.read_only]  # fmt: skip
    if any(parameter.read_only for parameter in parameters) or len(writable) < 2:
        return set(writable)
    return {name for name in writable if OUTPUTS.search(name)} or {writable[-1]}


def _scalar_dtype(parameter: SignatureParameter) -> str | None:
    """Return the dtype of a parameter passed by value; None for a struct, or if it is a pointer."""
    if parameter.pointee is not None or (parameter.kind == "struct" and not signature.dtype_of(parameter.type)):
        return None
    dtype = signature.dtype_of(parameter.type)
    return dtype or (KINDS["f" if parameter.kind == "f" else ""].get(parameter.size) if not parameter.type else None)


def _argument(parameter: SignatureParameter, name: str, shape: str, output: bool, size: str) -> tuple[str, str]:
    """Return an argument, and what is guessed of it."""
    pointee = parameter.pointee
    if pointee is not None:
        return _buffer(name, pointee, shape, output)
    dtype = _scalar_dtype(parameter)
    if dtype is None:
        return f"{name}={BYTES}:{parameter.size}", "zeros: its bytes are up to you, bytes:FILE takes them from a file"
    if dtype in ("bool", "int8", "uint8", "int16", "uint16") or dtype[0] in "fb":
        return f"{name}={dtype}:1", "value guessed"
    return f"{name}={dtype}:{size}", "value guessed"


def _buffer(name: str, pointee: str, shape: str, output: bool) -> tuple[str, str]:
    dtype, length = signature.vector_of(pointee) or (signature.dtype_of(pointee), 1)
    doubt = "shape guessed"
    if dtype is None:
        inner = signature.pointee_of(pointee) is not None
        dtype, length = ("uint64", 1) if inner else ("float32", 1) if not pointee else ("uint8", 16)
        doubt = f"shape and type guessed{f': {pointee}' if pointee else ''}"
    whole = dtype[0] in "iu" or dtype == "bool"
    fill = ("zeros:out" if whole else "out") if output else ("iota%256" if whole else "random")
    extent = shape if length == 1 else f"{shape},{length}"
    contents = "" if output or not whole else "; contents too, which matter if addresses depend on them"
    return f"{name}={dtype}[{extent}]:{fill}", doubt + contents


GUESSED = "guessed"
HEADER = '# Made from the signature. "guessed" marks what it does not say: check it.'
WIDTH = 48  # columns before a comment
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
class ProjectEntry:
    """An entry: the kernel's name, its source relative to the file, what the user gave, and guesses for the rest."""

    name: str
    source: str
    spec: KernelSpec
    guess: LaunchGuess
    outer: str = ""  # "tool.ncu-swizzle." in pyproject.toml
    options: tuple[str, ...] = ()  # nvcc's, with paths relative to the file

    def text(self) -> str:
        """Return the entry as TOML."""
        key = self.name if _BARE.fullmatch(self.name) else quoted(self.name)
        return "\n".join([HEADER, f"[{self.outer}kernel.{key}]", *self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        sizes, guessed_sizes = self.spec.sizes, self.guess.problem
        launch, guess = self.spec.launch, self.guess.launch
        yield f"source = {quoted(self.source)}"
        yield f"entry = {quoted(guess.entry)}"
        problem = {**guessed_sizes, **sizes}
        yield _line(f"problem = {_table(problem)}", "" if guessed_sizes.keys() <= sizes.keys() else GUESSED)
        for what, given, guessed in (("grid", launch.grid, guess.grid), ("block", launch.block, guess.block)):
            yield _line(f"{what} = {quoted(given or guessed)}", "" if given else GUESSED)
        shared = launch.shared if launch.shared not in ("", "0") else guess.shared
        if shared:
            yield _line(f"shared = {quoted(shared)}", GUESSED if shared == guess.shared else "")
        if self.options:
            yield f"nvcc = [{', '.join(map(quoted, self.options))}]"
        yield from _array(launch.args or guess.args, () if launch.args else self.guess.doubts)
        yield '# reference = "reference.py:FUNCTION"  a NumPy function; without it, outputs are not checked'


def _array(texts: Sequence[str], doubts: Sequence[str]) -> Iterator[str]:
    if not texts:
        yield "args = []"
        return
    yield "args = ["
    for number, text in enumerate(texts):
        yield _line(f"    {quoted(text)},", doubts[number] if number < len(doubts) else "")
    yield "]"


def _line(text: str, comment: str) -> str:
    return f"{text:<{WIDTH}}  # {one_line(comment)}" if comment else text  # a type's name can hold anything


def _table(sizes: dict[str, int]) -> str:
    return f"{{ {', '.join(f'{name} = {size}' for name, size in sizes.items())} }}"


def quoted(text: str) -> str:
    """Return a text as a basic string of TOML, or a literal one if that needs no escapes."""
    text = encodable(text)
    if text.isprintable() and "\\" in text and "'" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
