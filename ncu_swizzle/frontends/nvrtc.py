"""CUDA C++ in a string of a Python file, as cuda.core's ``Program`` and CuPy's ``RawKernel`` take it, through NVRTC.

The source is named by the variable that holds it, and the kernel in it after that: ``my.py::SOURCE::saxpy``. Line
numbers are those of the Python file, if the variable is assigned a literal there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from ncu_swizzle.base.errors import EnvironmentLacking, Hint, Typed, UsageError
from ncu_swizzle.base.files import read_bytes
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.names import declared_kernels
from ncu_swizzle.frontends import contract
from ncu_swizzle.frontends.compiled import grid, literal
from ncu_swizzle.frontends.contract import CompiledKernel, CompileRequest, Configuration, Given, KernelParameter
from ncu_swizzle.kernels.family import LITERAL
from ncu_swizzle.kernels.limits import LaunchShape

# The lines of CUDA C++ in strings: ``#line`` directives that give them the numbers that they have in the Python file.
#
# A source may be made of several literals. What is in none has lines of its own, under the variable's name, and so have
# literals whose lines are not those of the file, such as ``"a;\nb;"``.

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


OURS = ("name", "arch")
FLAGS = {
    "use_fast_math": "use_fast_math",
    "ftz": "ftz",
    "prec-sqrt": "prec_sqrt",
    "prec-div": "prec_div",
    "fmad": "fma",
}
IGNORED = ("lineinfo", "generate-line-info", "arch", "gpu-architecture")  # decided here
STANDARD = "c++17"
HEADERS = ("cudart", "cccl")
INSTANCE = "cannot determine which instance of function template"
FLOATS, WHOLES = {2: "float16", 4: "float32", 8: "float64"}, {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


def handles(thing: object) -> bool:
    """Return whether this is a string with a kernel, or CuPy's RawKernel or RawModule, which have one."""
    return "__global__" in _source(thing)


def _source(thing: Any) -> str:
    """Return the source that an object has, empty if it has none; CuPy's objects are told by their attribute `code`."""
    code = thing if isinstance(thing, str) else getattr(thing, "code", None)
    return code if isinstance(code, str) and (code is thing or hasattr(thing, "options")) else ""


def configurations(thing: Any) -> list[Configuration]:  # noqa: ARG001 - the interface of a language
    """Return nothing: a string is tuned over nothing."""
    return []


def compiled(thing: Any, inside: str, request: CompileRequest, module: ModuleType) -> tuple[CompiledKernel, bytes]:
    """Return a kernel of the source and its cubin. Raises UsageError, and EnvironmentLacking without cuda.core."""
    source = _source(thing)
    kernel = inside or getattr(thing, "name", "") or _only(source, request)
    contract.refuse_without_block(request)
    own = {} if isinstance(thing, str) else _own_options(thing.options, request)
    options = {name: literal(text, request.sizes, module) for name, text in request.options.items()}
    program = _program(_lines(source, request), {**own, **options}, request)
    try:
        made = program.compile("cubin", name_expressions=(kernel,))
        code, symbol = made.code, made.symbol_mapping[kernel]
    except Exception as error:
        said = contract.not_compiled(request, error)
        if INSTANCE in str(said):
            variable = request.function.partition("::")[0]
            raise UsageError(str(said), f"spell its instance: '{request.file}::{variable}::{kernel}<float>'") from error
        raise said from error
    entry = symbol.decode() if isinstance(symbol, bytes) else symbol
    cubin = Cubin(code, request.name)
    sizes = [slot.size for slot in cubin.attributes(entry).parameters]
    passed = [
        _passed(argument, sizes[number] if number < len(sizes) else 4, request, module)
        for number, argument in enumerate(request.arguments)
    ]
    return CompiledKernel(
        entry=entry,
        launch=LaunchShape(grid=grid(request, {}), block=request.block, shared=request.shared),
        parameters=tuple(passed),
        compiler=f"NVRTC {_version()}",
    ), code


def _own_options(words: Iterable[str], request: CompileRequest) -> dict[str, Any]:
    """Return the options that an object of CuPy's passes to NVRTC, as cuda.core spells them. Raises UsageError."""
    found: dict[str, Any] = {"define_macro": [], "include_path": []}
    for word in words:
        name, _, value = word.lstrip("-").partition("=")
        if word.startswith("-D"):
            found["define_macro"].append((name[1:], value or "1"))
        elif word.startswith("-I"):
            found["include_path"].append(word[2:])
        elif name == "std":
            found["std"] = value
        elif name in FLAGS:
            found[FLAGS[name]] = value != "false"
        elif name not in IGNORED:
            passed = f"-D, -I, --std, --{', --'.join(FLAGS)}"
            raise UsageError(f"{request.name} has the option {word}, which is not passed on", f"it may have {passed}")
    return {name: value for name, value in found.items() if value}


def _only(source: str, request: CompileRequest) -> str:
    """Return the only kernel of a source; raise UsageError if it has several."""
    names = declared_kernels(source)
    if len(names) == 1:
        return names[0]
    file, first = request.file, names[0] if names else "KERNEL"
    raise UsageError(
        f"{request.name} has {len(names)} kernels: {', '.join(names)}", f"name one: {file}::{request.function}::{first}"
    )


def _lines(source: str, request: CompileRequest) -> str:
    """Return the source with directives that give its lines the numbers that they have in the Python file."""
    variable, text = request.function.partition("::")[0], read_bytes(Path(request.file)).decode("utf-8", "replace")
    return numbered(source, variable, request.file, text)


def _program(source: str, options: dict[str, Any], request: CompileRequest) -> Any:
    try:
        from cuda.core import Program, ProgramOptions
    except ImportError as error:
        raise EnvironmentLacking(
            f"{request.name} needs cuda.core, which is not installed", contract.INSTALL["cuda"]
        ) from error
    known = [field.name for field in fields(ProgramOptions) if field.name not in OURS]
    contract.refuse_options(options, known, "NVRTC", request)
    folders = options.get("include_path") or ()
    own = [folders] if isinstance(folders, str) else list(folders)
    given = {"lineinfo": True, "std": STANDARD, **options, "include_path": [*own, *_cuda_headers()]}
    return Program(source, "c++", ProgramOptions(arch=request.arch, **given))


def _cuda_headers() -> list[str]:
    """Return the folders of CUDA's own headers, such as cuda_fp16.h and cuda/std, as far as they are installed."""
    from cuda import pathfinder

    found = [pathfinder.find_nvidia_header_directory(name) for name in HEADERS]
    return [folder for folder in found if folder]


def _passed(argument: Given, size: int, request: CompileRequest, module: ModuleType) -> KernelParameter:
    """Return the parameter of an argument; a number without a dtype has as many bytes as the parameter."""
    if argument.shape or argument.dtype in ("bytes", "struct"):
        return KernelParameter(name=argument.name)
    if argument.dtype != LITERAL:
        return KernelParameter(name=argument.name, dtype=argument.dtype, value=argument.value)
    value = literal(argument.value, request.sizes, module)
    if not isinstance(value, int | float):
        raise UsageError(
            f"{request.name}: {argument.name} is {argument.value!r}, which is not a number",
            Hint(
                Typed(f"--arg {argument.name}=64"),
                ", or a shape for a pointer: ",
                Typed(f"--arg {argument.name}=float32[1024]"),
            ),
        )
    kinds = FLOATS if isinstance(value, float) else WHOLES
    return KernelParameter(
        name=argument.name, dtype=kinds.get(size, kinds[4]), value=str(int(value) if kinds is WHOLES else value)
    )


def _version() -> str:
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"
