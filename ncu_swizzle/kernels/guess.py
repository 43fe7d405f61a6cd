"""What a compiled kernel says of its launch, and the entry for ncu-swizzle.toml that is guessed from it.

Sizes and the number of parameters are the cubin's. Types are in a C++ function's mangled name, or else in the source,
names in the source alone; PTX, if the cubin keeps it, says which 64-bit parameters are pointers.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ncu_swizzle.base.texts import encodable, one_line
from ncu_swizzle.cubin import shared_arrays
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.names import declared_parameters, demangle, demangle_all, function, parameter_types, spelled
from ncu_swizzle.kernels.arguments import ALIASES
from ncu_swizzle.kernels.family import BYTES, DTYPES
from ncu_swizzle.kernels.options import LaunchOptions
from ncu_swizzle.kernels.project import KernelSpec
from ncu_swizzle.smem.access import MOST_THREADS

POINTER = 8  # bytes
REGISTERS = 64 * 1024  # of an SM
WARP = 32

# C++ types as NumPy's dtypes; any other (float4, structures) has none.
TYPES = {
    "float": "float32", "double": "float64", "__half": "float16", "__nv_bfloat16": "bfloat16", "bool": "bool",
    "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16",
    "int": "int32", "unsigned int": "uint32", "long": "int64", "unsigned long": "uint64",
    "long long": "int64", "unsigned long long": "uint64",
}  # fmt: skip
_THREAD = re.compile(r"\b(?:threadIdx|blockDim)\s*\.\s*([xyz])\b")
_BLOCK = re.compile(r"\b(?:blockIdx|gridDim)\s*\.\s*([xyz])\b")
_SASS_THREAD, _SASS_BLOCK = re.compile(r"\bsr_tid\.([xyz])\b"), re.compile(r"\bsr_ctaid\.([xyz])\b")
_VECTOR = re.compile(r"(u?char|u?short|u?int|u?long|u?longlong|float|double)([1-4])")
_PAIRS = {"__half2": "float16", "half2": "float16", "__nv_bfloat162": "bfloat16"}
_NAMED = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+(?:\[[^][]*+\]\s*+)*+(?:=.*)?$", re.DOTALL)


@dataclass(frozen=True)
class SignatureParameter:
    """A parameter: its size in bytes; name, C++ type and PTX kind as far as they are known, else empty."""

    size: int
    name: str = ""
    type: str = ""
    kind: str = ""

    @property
    def pointee(self) -> str | None:
        """The type that it points to, "" if unknown; None if it is not a pointer."""
        pointee = pointee_of(self.type)
        if pointee is None and self.size == POINTER and (self.kind == "pointer" or not (self.type or self.kind)):
            return ""
        return pointee

    @property
    def read_only(self) -> bool:
        """Whether what it points to is const."""
        return "const" in (self.pointee or "")


@dataclass(frozen=True, kw_only=True)
class KernelSignature:
    """A kernel: its function, parameters, axes of block and grid in use, and limits of its launch."""

    symbol: str
    function: str  # as --kernel takes it
    parameters: tuple[SignatureParameter, ...]
    block_axes: int = 1
    grid_axes: int = 1
    dynamic_shared: bool = False
    static_shared: int = 0
    max_threads: int = MOST_THREADS
    required_block: tuple[int, ...] = ()


def signature_of(cubin: Cubin, symbol: str, source: str = "", disassembled: Callable[[], str] = str) -> KernelSignature:
    """Return what is known of a kernel; `source` is the text that declares it, `disassembled` returns its SASS."""
    attributes = cubin.attributes(symbol)
    name = demangle(symbol)
    entry = shared_arrays.entry_in(shared_arrays.embedded(cubin), symbol)
    if entry is None:
        entry = _from_sass(disassembled(), symbol, attributes.static_shared)
    sizes = [slot.size for slot in attributes.parameters]
    declared = declared_parameters(source, function(name), len(sizes))
    types = _fitting(parameter_types(name) or (), sizes) or [_without_name(text) for text in declared]
    names = [_name(text) for text in declared]
    columns = (_fitting(texts, sizes) or [""] * len(sizes) for texts in (names, types, entry.kinds))
    block_axes, grid_axes = entry.threads, entry.blocks
    if source:  # cooperative groups ask for every axis, the source does not
        block_axes = min(block_axes, shared_arrays.axes_of(_THREAD, source))
        grid_axes = min(grid_axes, shared_arrays.axes_of(_BLOCK, source))
    # A warp gets registers in units of 256, so a thread gets 8, 16, …
    by_registers = REGISTERS // max(-(-attributes.registers // 8) * 8, 1) // WARP * WARP
    return KernelSignature(
        symbol=symbol,
        function=spelled(name, demangle_all(cubin.kernels).values()),
        parameters=tuple(SignatureParameter(*row) for row in zip(sizes, *columns, strict=True)),
        block_axes=block_axes,
        grid_axes=grid_axes,
        dynamic_shared=entry.dynamic_shared,
        static_shared=attributes.static_shared,
        max_threads=min(attributes.max_threads or MOST_THREADS, MOST_THREADS, by_registers),
        required_block=attributes.required_block,
    )


def _from_sass(text: str, symbol: str, static_shared: int) -> shared_arrays.PtxEntry:
    """Return what the disassembly says: without static shared memory, an access to shared memory is to dynamic."""
    start = text.find(f".text.{symbol}:")
    end = text.find(".section", start) if start >= 0 else -1
    code = text[start : end if end > 0 else len(text)].lower() if start >= 0 else ""
    threads, blocks = (shared_arrays.axes_of(pattern, code) for pattern in (_SASS_THREAD, _SASS_BLOCK))
    shared = re.search(r"\b(lds|sts|ldsm|stsm|atoms|ldgsts)\b", code) is not None
    return shared_arrays.PtxEntry(kinds=(), threads=threads, blocks=blocks, dynamic_shared=shared and not static_shared)


def _fitting(texts: Sequence[str], sizes: Sequence[int]) -> Sequence[str]:
    return texts if len(texts) == len(sizes) else ()


def _name(declaration: str) -> str:
    match = _NAMED.search(declaration)
    return match[1] if match else ""


def _without_name(declaration: str) -> str:
    match = _NAMED.search(declaration)
    return declaration[: match.start()].strip() if match else declaration


def pointee_of(type_: str) -> str | None:
    """Return the type that a pointer or reference points to; None for any other type."""
    bare = re.sub(r"\b(__restrict__|__restrict|const|volatile)\s*$", "", type_.strip()).strip()
    return bare[:-1].strip() if bare.endswith(("*", "&")) else None


def dtype_of(type_: str) -> str | None:
    """Return the dtype of a C++ type, as mangled names or sources spell it; None for a type that has none."""
    bare = " ".join(re.sub(r"\b(const|volatile|struct)\b", " ", type_).split()).removeprefix("std::")
    fixed = bare.removesuffix("_t")
    return TYPES.get(bare) or ALIASES.get(bare) or (fixed if fixed in DTYPES else None)


def vector_of(type_: str) -> tuple[str, int] | None:
    """Return dtype and length of one of CUDA's vector types, such as float4; None for any other type."""
    bare = " ".join(re.sub(r"\b(const|volatile|struct)\b", " ", type_).split())
    if bare in _PAIRS:
        return _PAIRS[bare], 2
    if match := _VECTOR.fullmatch(bare):
        unsigned = "unsigned " if match[1].startswith("u") else ""
        base = match[1].removeprefix("u").replace("longlong", "long long")
        return TYPES[f"{unsigned}{base}" if unsigned + base in TYPES else base], int(match[2])
    return None


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
    covered = "n*n" if matrix and kernel.grid_axes == kernel.block_axes == 1 else "n"  # by the blocks of an axis
    texts = arguments(kernel.parameters, shape, "n")
    launch = LaunchOptions(
        entry=kernel.function,
        grid=",".join([_blocks(tile, covered, small) for tile in _tiles(kernel, block)]),
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


def _blocks(tile: int, covered: str, small: bool) -> str:
    return f"({covered}+{tile - 1})//{tile}" if small else f"{covered}//{tile}"


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
    if parameter.pointee is not None or (parameter.kind == "struct" and not dtype_of(parameter.type)):
        return None
    dtype = dtype_of(parameter.type)
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
    dtype, length = vector_of(pointee) or (dtype_of(pointee), 1)
    doubt = "shape guessed"
    if dtype is None:
        inner = pointee_of(pointee) is not None
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
