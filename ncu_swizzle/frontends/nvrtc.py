"""CUDA C++ in a string of a Python file, as cuda.core's ``Program`` and CuPy's ``RawKernel`` take it, through NVRTC.

The source is named by the variable that holds it, and the kernel in it after that: ``my.py::SOURCE::saxpy``. Line
numbers are those of the Python file, if the variable is assigned a literal there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from ncu_swizzle.catalog.family import LITERAL
from ncu_swizzle.cubin import symbols
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import EnvironmentLacking, UsageError
from ncu_swizzle.files import read_bytes
from ncu_swizzle.frontends import checks, nvrtc_lines, values
from ncu_swizzle.frontends.request import CompiledKernel, CompileRequest, Configuration, Given, KernelParameter

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
    checks.refuse_without_block(request)
    own = {} if isinstance(thing, str) else _own_options(thing.options, request)
    options = {name: values.literal(text, request.sizes, module) for name, text in request.options.items()}
    program = _program(_lines(source, request), {**own, **options}, request)
    try:
        made = program.compile("cubin", name_expressions=(kernel,))
        code, symbol = made.code, made.symbol_mapping[kernel]
    except Exception as error:
        said = checks.not_compiled(request, error)
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
        grid=values.grid(request, {}),
        block=request.block,
        shared=request.shared,
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
    names = symbols.declared_kernels(source)
    if len(names) == 1:
        return names[0]
    file, first = request.file, names[0] if names else "KERNEL"
    raise UsageError(
        f"{request.name} has {len(names)} kernels: {', '.join(names)}", f"name one: {file}::{request.function}::{first}"
    )


def _lines(source: str, request: CompileRequest) -> str:
    """Return the source with directives that give its lines the numbers that they have in the Python file."""
    variable, text = request.function.partition("::")[0], read_bytes(Path(request.file)).decode("utf-8", "replace")
    return nvrtc_lines.numbered(source, variable, request.file, text)


def _program(source: str, options: dict[str, Any], request: CompileRequest) -> Any:
    try:
        from cuda.core import Program, ProgramOptions
    except ImportError as error:
        raise EnvironmentLacking(
            f"{request.name} needs cuda.core, which is not installed", "pip install 'ncu-swizzle[nvrtc]'"
        ) from error
    known = [field.name for field in fields(ProgramOptions) if field.name not in OURS]
    checks.refuse_options(options, known, "NVRTC", request)
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
        return KernelParameter(argument.name)
    if argument.dtype != LITERAL:
        return KernelParameter(argument.name, argument.dtype, argument.value)
    value = values.literal(argument.value, request.sizes, module)
    if not isinstance(value, int | float):
        raise UsageError(
            f"{request.name}: {argument.name} is {argument.value!r}, which is not a number",
            f"--arg {argument.name}=64, or a shape for a pointer: --arg {argument.name}=float32[1024]",
        )
    kinds = FLOATS if isinstance(value, float) else WHOLES
    return KernelParameter(argument.name, kinds.get(size, kinds[4]), str(int(value) if kinds is WHOLES else value))


def _version() -> str:
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return f"{major}.{minor}"
