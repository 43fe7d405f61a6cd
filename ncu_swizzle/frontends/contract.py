"""What processes that compile Python kernels are asked, and answer: targets, cubins, and the functions of a file."""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib.util
import math
import os
import re
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from inspect import Parameter
from pathlib import Path
from types import ModuleType
from typing import Any

from ncu_swizzle.base import bounds, child, errors, paths
from ncu_swizzle.base.bounds import LONGEST_ANSWER
from ncu_swizzle.base.errors import (
    EnvironmentLacking,
    Hint,
    NcuSwizzleError,
    ProgramFailed,
    TimeLimit,
    Typed,
    Untrusted,
    UsageError,
    did_you_mean,
)
from ncu_swizzle.base.files import parse_json, read_bytes, write_json
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.base.validate import from_plain
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.frontends import python_kernels
from ncu_swizzle.kernels import fills
from ncu_swizzle.kernels.arguments import UNKNOWN
from ncu_swizzle.kernels.family import LITERAL, Argument, Family, Kernel, LaunchTexts, Target
from ncu_swizzle.kernels.limits import LaunchShape, along_axes, evaluate
from ncu_swizzle.kernels.nvcc_options import TRUST
from ncu_swizzle.kernels.toolchain import ARCH
from ncu_swizzle.reports.model import Profile

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


# A function in a Python file: compiled in a child process, and then a target like any other.
#
# What was typed for its arguments and options are texts until the child turns them into values, see `contract.literal`.

# Have a function in a Python file compiled by a child process, which imports the file, within the time limit.

REQUEST, ANSWER = "request.json", "answer.json"
CHILD = "NCU_SWIZZLE_COMPILES"  # set in the child: a file that profiles while it is imported would start another


def compile_in_child(request: CompileRequest, timeout_s: float) -> tuple[CompiledFunction, bytes]:
    """Return the compiled function and its cubin.

    Raises UsageError for the file, the function, or its arguments; EnvironmentLacking for a library that is missing;
    and TimeLimit.
    """
    with scratch() as folder:
        content = _answer("compile", request, timeout_s, folder)
        return from_plain(CompiledFunction, content["kernel"]), read_bytes(folder / CODE, largest=LONGEST_ANSWER)


def configurations(request: CompileRequest, timeout_s: float) -> list[Configuration]:
    """Return the configurations that a function is tuned over; none if it is not."""
    with scratch() as folder:
        return [tuple(each) for each in _answer("configurations", request, timeout_s, folder)["configurations"]]


def refuse_while_imported() -> None:
    """Raise UsageError in the child: the file that it imports profiles a kernel at once."""
    if CHILD in os.environ:
        raise UsageError(
            "the file profiles a kernel while it is imported, which compiling that kernel does",
            "put the call under if __name__ == '__main__':",
        )


def _answer(action: str, request: CompileRequest, timeout_s: float, folder: Path) -> dict[str, Any]:
    refuse_while_imported()
    write_json(folder / REQUEST, asdict(request))
    command = [sys.executable, "-m", "ncu_swizzle.frontends", action, str(folder)]
    try:
        ended = child.run(command, timeout_s, environment={**paths.child_environment(), **_own_caches(folder, request)})
    except TimeLimit as error:
        raise TimeLimit(
            f"compiling {request.name}: {error}", Hint("raise the limit with ", Typed("--timeout SECONDS"))
        ) from error
    try:
        content: dict[str, Any] = parse_json(read_bytes(folder / ANSWER, largest=LONGEST_ANSWER), ANSWER)
    except NcuSwizzleError:
        raise ProgramFailed(
            f"compiling {request.name} ended with status {ended.status}; its last lines:\n"
            f"{bounds.last_lines(ended.log)}",
            f"python3 {request.file} shows whether the file can be imported",
        ) from None
    if reported := content.get("error"):
        raise errors.of_json(reported)
    return content


def _own_caches(folder: Path, request: CompileRequest) -> dict[str, str]:
    """Return the variables that keep compilers off the user's caches, and those that are read when a file is imported.

    Triton's cache may hold the kernel of an equal file elsewhere, and with it that file's path.
    """
    own = {"TRITON_CACHE_DIR": "triton", "CUDA_TILE_CACHE_DIR": "cutile", "CUDA_TILE_TEMP_DIR": "tile"}
    places = {name: str(folder / inside) for name, inside in own.items()}
    return {**places, **python_kernels.variables(folder, request.arch)}


# A target whose function is compiled: the same launch as of a cubin, with its parameters in the kernel's order.

POINTER = "uint64"


@dataclass(frozen=True, kw_only=True)
class Built:
    """A target that can be launched, its cubin, and which compiler made it."""

    target: Target
    code: bytes
    compiler: str
    notes: tuple[str, ...] = ()
    intermediate: str = ""  # the compiler's own view of the kernel, see `layouts`
    explicit: bool = False

    def explained(self, profile: Profile) -> Profile:
        """Return a profile of the kernel with its compiler's notes on accesses with conflicts."""
        return python_kernels.with_layout_notes(profile, self.intermediate, self.explicit)


def built(target: Target, arch: str, timeout_s: float) -> Built:
    """Compile a function in a Python file. Raises what `compile_in_child` raises, and Untrusted."""
    request = request_of(target, arch)
    kernel, code = compile_in_child(request, timeout_s)
    family = target.family
    own = tuple(_argument(parameter, family) for parameter in kernel.parameters)
    launch = LaunchTexts(
        grid=tuple(map(str, along_axes(kernel.launch.grid))),
        block=tuple(map(str, along_axes(kernel.launch.block))),
        shared=str(kernel.launch.shared),
        cluster=_cluster(kernel.launch.cluster, code, kernel.entry),
    )
    launched = replace(family, launch=launch, arguments=own, options=(), arch=request.arch)
    compiled = replace(target.kernel, function=kernel.entry, options=(), launch=LaunchTexts())
    return Built(
        target=Target(launched, compiled, target.problem),
        code=code,
        compiler=kernel.compiler,
        notes=kernel.notes,
        intermediate=kernel.intermediate,
        explicit=kernel.explicit,
    )


def request_of(target: Target, arch: str = "") -> CompileRequest:
    """Return what to compile for a target; raise Untrusted if only a project file names its source."""
    family, kernel, problem = target.family, target.kernel, target.problem
    source = family.source(kernel)
    if family.untrusted:
        raise Untrusted(f"{source.name} needs your trust: compiling {kernel.name} executes it", TRUST)
    usual = family.launch  # the grid may be an expression over the function's own integers, too
    block = () if usual.block == UNKNOWN else tuple(evaluate(size, problem) for size in usual.block)
    options = (*family.options, *kernel.options)
    arguments = overridden(family, options)
    chosen = {name: value for name, _, value in (each.partition("=") for each in options)}
    named = {argument.name for argument in arguments}
    return CompileRequest(
        file=str(source),
        function=kernel.entry,
        arch=family.arch or arch or ARCH,
        arguments=tuple(_given(argument, problem, chosen) for argument in arguments),
        options={name: value for name, value in chosen.items() if name not in named},
        grid=() if usual.grid == UNKNOWN else usual.grid,
        block=block,
        shared=evaluate(kernel.launch.shared or usual.shared, problem),
        sizes=problem,
    )


def tuned(family: Family, timeout_s: float) -> Family:
    """Return a family with a kernel per configuration that its function is tuned over; itself if there is none."""
    kernel = family.kernels[0]
    request = request_of(Target(family, kernel, family.problem()))
    found = configurations(request, timeout_s)
    chosen = {*request.options, *(argument.name for argument in request.arguments)}
    if not found or any(option.partition("=")[0] in chosen for option in found[0]):
        return family
    kernels = tuple(_configured(family, kernel, each) for each in found)
    first = kernels[0].name
    return replace(
        family, kernels=tuple(replace(each, baseline="" if each.name == first else first) for each in kernels)
    )


def _configured(family: Family, kernel: Kernel, options: Configuration) -> Kernel:
    name = "-".join((family.name, *(option.replace("=", "") for option in options)))
    return replace(kernel, name=name, title=f"With {' '.join(options)}", options=(*kernel.options, *options))


def overridden(family: Family, options: Sequence[str]) -> tuple[Argument, ...]:
    """Return the family's arguments, those that a variant's options name with the options' values."""
    values = dict(option.split("=", 1) for option in options)
    return tuple(
        replace(argument, value=values[argument.name]) if argument.name in values and not argument.shape else argument
        for argument in family.arguments
    )


def _given(argument: Argument, problem: Mapping[str, int], options: Mapping[str, str]) -> Given:
    shape = fills.shape(argument, problem) if argument.shape else ()
    record = options.get(argument.name, "") if shape else ""
    return Given(
        name=argument.name,
        dtype=argument.dtype,
        shape=shape,
        value=argument.value,
        box=argument.box,
        swizzle=argument.swizzle,
        record=record,
    )


def _argument(parameter: KernelParameter, family: Family) -> Argument:
    """Return the argument of a parameter: a number, memory for the compiler's own use, or a buffer of the family's."""
    if parameter.dtype:
        return Argument(name=parameter.name, dtype=parameter.dtype, value=parameter.value)
    if parameter.scratch:
        return Argument(name=parameter.name, dtype="uint8", shape=(str(parameter.scratch),), fill="zeros")
    named = next((argument for argument in family.arguments if argument.name == parameter.name), None)
    if named is None:  # the compiler wants none of its memory: a null pointer
        return Argument(name=parameter.name, dtype=POINTER, value="0")
    mapped, box = bool(parameter.box), parameter.box
    return replace(named, tensor_map=mapped, box=box, swizzle=parameter.swizzle, passed=parameter.passed)


def _cluster(sizes: tuple[int, ...], code: bytes, entry: str) -> tuple[int, ...]:
    """Return a launch's cluster, if it is of several blocks and the cubin does not have it."""
    alone = math.prod(sizes) == 1 or any(Cubin(code, entry).attributes(entry).cluster)
    return () if alone else sizes
