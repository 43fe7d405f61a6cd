"""What every language's compiling process gets and returns: the request, the answer, and refusals."""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib.util
import math
import re
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from pathlib import Path
from types import ModuleType
from typing import Any

from ncu_swizzle.base.errors import EnvironmentLacking, Hint, NcuSwizzleError, Typed, UsageError, did_you_mean
from ncu_swizzle.base.files import read_bytes
from ncu_swizzle.kernels.family import LITERAL
from ncu_swizzle.kernels.limits import LaunchShape, evaluate

# Import a user's Python file, which executes it, and find a name in it: only in the child process.


# What brings the package of each language; all of it together is our extra python-kernels.
_NUMBA = "pip install 'numba-cuda>=0.30' 'cuda-toolkit[nvrtc]>=13.0,<14' 'ncu-swizzle[nvcc]'"
INSTALL = {
    "cuda.tile": "pip install -U 'cuda-tile>=1.7' 'cuda-toolkit[nvcc,nvvm,tileiras]>=13.2,<14'",
    "cutlass": "pip install 'nvidia-cutlass-dsl>=4.8'",
    "numba": _NUMBA,
    "numba_cuda": _NUMBA,
    "triton": "pip install 'triton>=3.6'",
}


def module(file: Path) -> ModuleType:
    """Return the imported file; raise UsageError if it fails, EnvironmentLacking for a library that is missing."""
    name = file.stem if file.stem.isidentifier() else "ncu_swizzle_kernels"
    sys.path.insert(0, str(file.parent))  # for imports of its neighbours
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    try:
        spec.loader.exec_module(loaded)
    except NcuSwizzleError:
        raise
    except ModuleNotFoundError as error:
        raise missing(error, file) from error
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{file.name} cannot be imported: {line_prefix(error, file)}{type(error).__name__}: {error}",
            f"python3 {file} shows the traceback; what runs the kernel belongs under if __name__ == '__main__':",
        ) from error
    return loaded


def missing(error: ModuleNotFoundError, file: Path) -> NcuSwizzleError:
    """Return the error for a module that is not installed, with the command that installs it."""
    package = (error.name or "").partition(".")[0]
    if package == "cuda" and b"cuda.tile" in read_bytes(file):  # packages of several distributions are inside of it
        package = "cuda.tile"
    if package in INSTALL:
        return EnvironmentLacking(f"{file.name} needs {package}, which is not installed", INSTALL[package])
    return EnvironmentLacking(f"{file.name} cannot be imported: {error}", f"install {package} for {sys.executable}")


def named(loaded: ModuleType, file: Path, function: str, kernels: Iterable[str]) -> Any:
    """Return what is called so in the file; raise UsageError, with the names of its kernels."""
    if hasattr(loaded, function):
        return getattr(loaded, function)
    names = list(kernels)
    meant = (difflib.get_close_matches(function, names, n=1) or names)[:1]
    raise UsageError(
        f"{file.name} has no {function}" + (f"; its kernels: {', '.join(names)}" if names else ""),
        f"name one: {file}::{meant[0]}" if meant else "name a kernel of the file",
    )


def line_prefix(error: BaseException | None, file: Path) -> str:
    """Return ``line 12: `` for the line of the file that an error, or its cause, comes from; empty if it has none."""
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        if lines := [frame.lineno for frame in frames if frame.filename == str(file) and frame.lineno]:
            return f"line {lines[-1]}: "
        error = error.__cause__ or error.__context__
    return ""


# What passes between us and the child that compiles: a function with its arguments, and what became of it, as JSON.

CODE = "kernel.cubin"  # next to the answer


@dataclass(frozen=True, kw_only=True)
class Given:
    """An argument: a buffer (`shape`, in elements), a number with a dtype, or a literal, as it was typed."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    value: str = ""
    box: tuple[int, ...] = ()  # of a buffer that goes to the kernel through a tensor map
    swizzle: int = 0  # of that map, in bytes
    record: str = ""  # of a buffer of bytes: the name that its structured dtype has in the file

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of a buffer, in elements: all are contiguous, their last axis innermost."""
        return strides(self.shape)


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass(frozen=True, kw_only=True)
class CompileRequest:
    """A function of a Python file, what it is called with, and what for. `options` are the compiler's."""

    file: str
    function: str
    arch: str = "sm_90"
    arguments: tuple[Given, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    grid: tuple[str, ...] = ()  # over the sizes, and the function's own integers; empty: not given
    block: tuple[int, ...] = ()  # empty: not given
    shared: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The function as users name it."""
        return f"{Path(self.file).name}::{self.function}"


@dataclass(frozen=True, kw_only=True)
class KernelParameter:
    """A parameter of the compiled kernel: the buffer called `name`, or a number with a dtype."""

    name: str
    dtype: str = ""
    value: str = ""
    scratch: int = 0  # bytes of memory that the compiler wants for itself
    box: tuple[int, ...] = ()  # of a buffer that is passed as a tensor map: rows and columns
    swizzle: int = 0  # of that map, in bytes
    passed: bool = True  # no parameter, if not: memory that only a struct points to


@dataclass(frozen=True, kw_only=True)
class CompiledFunction:
    """A compiled function: its entry in the cubin, how it is launched, and its parameters in order."""

    entry: str
    launch: LaunchShape
    parameters: tuple[KernelParameter, ...]
    compiler: str  # with its version
    notes: tuple[str, ...] = ()
    intermediate: str = ""  # the compiler's own view of the kernel, such as TTGIR
    explicit: bool = False  # whether the layouts in it are the author's


Configuration = Sequence[str]  # NAME=VALUE each


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def refuse_geometry(request: CompileRequest, what: str, *options: str, hint: str = "") -> None:
    """Raise UsageError if options are given that the compiler, or the function, decides; `what` says so."""
    sizes = {"--grid": request.grid, "--block": request.block, "--shared": request.shared}
    if typed := [option for option in options if sizes[option]]:
        raise UsageError(what, hint or f"leave out {typed[0]}")


def options_of(
    request: CompileRequest, module: ModuleType, parameters: Collection[str], known: Iterable[str], compiler: str
) -> dict[str, Any]:
    """Return the values of options that are not parameters. Raises UsageError for one that the compiler lacks."""
    own = {name: text for name, text in request.options.items() if name not in parameters}
    refuse_options(own, known, compiler, request)
    return {name: literal(text, request.sizes, module) for name, text in own.items()}


def refuse_inside(inside: str, request: CompileRequest) -> None:
    """Raise UsageError if something is named inside of a function."""
    if inside:
        raise UsageError(f"{request.name}: a function has nothing inside", f"leave out ::{inside}")


def refuse_without_block(request: CompileRequest) -> None:
    """Raise UsageError if the block is not given."""
    if not request.block:
        raise UsageError(f"{request.name} has no block", Hint(Typed("--block 128"), " gives it, one to three sizes"))


def refuse_options(options: Iterable[str], known: Iterable[str], compiler: str, request: CompileRequest) -> None:
    """Raise UsageError for an option that the compiler does not have."""
    for name in options:
        if name not in (available := list(known)):
            raise UsageError(
                f"{request.name}: {compiler} has no option {name!r}{did_you_mean(name, available)}",
                f"its options: {', '.join(available[:12])}",
            )


def refuse_unknown(given: Iterable[str], parameters: Iterable[str], request: CompileRequest) -> None:
    """Raise UsageError for an argument that the function does not take."""
    names = list(parameters)
    for name in given:
        if name not in names:
            raise UsageError(
                f"{request.name} has no parameter {name!r}{did_you_mean(name, names)}",
                f"its parameters: {', '.join(names)}",
            )


def arguments_of(parameters: Collection[str], request: CompileRequest) -> dict[str, Given]:
    """Return the arguments, and the options that are parameters, by name. Raises UsageError for any others."""
    arguments = {argument.name: argument for argument in request.arguments}
    options = ((name, text) for name, text in request.options.items() if name in parameters)
    arguments |= {name: Given(name=name, dtype=LITERAL, value=text) for name, text in options}
    refuse_unknown(arguments, parameters, request)
    return arguments


def lacking(request: CompileRequest, names: Iterable[str], constants: Iterable[str] = ()) -> UsageError:
    """Return the error for parameters without an argument; `constants` are those known to be numbers."""
    missing, numbers = list(names), list(constants)
    shown = Typed(" ".join(f"--arg {name}={'64' if name in numbers else 'float32[1024]'}" for name in missing))
    return UsageError(
        f"{request.name} lacks {', '.join(missing)}", Hint(shown, "; a tensor has a shape, a number has none")
    )


@contextlib.contextmanager
def compiling(request: CompileRequest) -> Iterator[None]:
    """Raise UsageError with what a compiler says that refuses the function."""
    try:
        yield
    except NcuSwizzleError:
        raise
    except Exception as error:
        raise not_compiled(request, error) from error


def not_compiled(request: CompileRequest, error: Exception) -> UsageError:
    """Return the error for a function that its compiler refuses, with what that says."""
    said = _COLOUR.sub("", str(error)).strip("\0 \r\n\t") or type(error).__name__
    at = line_prefix(error, Path(request.file))
    return UsageError(f"{request.name} does not compile for {request.arch}:\n{at}{said}", f"fix {request.file}")


def in_order(request: CompileRequest, parameters: Mapping[str, Parameter]) -> list[Given]:
    """Return the arguments in the order of the function's parameters. Raises UsageError."""
    given: dict[str, Any] = {argument.name: argument for argument in request.arguments}
    refuse_unknown(given, parameters, request)
    if missing := [name for name in parameters if name not in given]:
        raise lacking(request, missing)
    return [given[name] for name in parameters]


# Literals: what was typed for an argument or an option, as the value that the function gets.
#
# An integer or an expression of sizes, another literal of Python's (``1e-5``, ``True``, ``None``, ``(1, 2)``), a dotted
# name of the file's (``tl.float16``), or else the text itself (``leaky_relu``).

SPELLED = {"true": True, "false": False, "none": None}


def literal(text: str, sizes: Mapping[str, int], module: ModuleType) -> Any:
    """Return the value of a text."""
    try:
        return evaluate(text, sizes)
    except NcuSwizzleError:
        pass
    try:
        return SPELLED[text] if text in SPELLED else ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _named(text, module) if "." in text else text


def _named(text: str, module: ModuleType) -> Any:
    """Resolve a dotted name in the file; the text itself if there is no such name."""
    value: Any = module
    for part in text.split("."):
        if not hasattr(value, part):
            return text
        value = getattr(value, part)
    return value


def grid(request: CompileRequest, names: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the grid; its expressions may have sizes and the function's own integers. Raises UsageError."""
    sizes = request.grid
    if not sizes:
        raise UsageError(f"{request.name} has no grid", Hint(Typed("--grid 128"), " gives it, one to three sizes"))
    whole = {name: value for name, value in {**request.sizes, **names}.items() if type(value) is int}
    try:
        return tuple(evaluate(size, whole) for size in sizes)
    except NcuSwizzleError as error:
        raise UsageError(f"grid: {error}", error.hint) from error
