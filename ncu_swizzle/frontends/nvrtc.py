"""CUDA C++ in a string of a Python file, as cuda.core's ``Program`` and CuPy's ``RawKernel`` take it, through NVRTC.

The source is named by the variable that holds it, and the kernel in it after that: ``my.py::SOURCE::saxpy``. Line
numbers are those of the Python file, if the variable is assigned a literal there.
"""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from ncu_swizzle.catalog.family import LITERAL
from ncu_swizzle.cubin import symbols
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import EnvironmentLacking, UsageError
from ncu_swizzle.frontends import checks, values
from ncu_swizzle.frontends.request import CompiledKernel, CompileRequest, Configuration, Given, KernelParameter

OURS = ("name", "arch")
STANDARD = "c++17"
FLOATS, WHOLES = {2: "float16", 4: "float32", 8: "float64"}, {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


def handles(thing: object) -> bool:
    """Return whether this is a string with a kernel."""
    return isinstance(thing, str) and "__global__" in thing


def configurations(thing: Any) -> list[Configuration]:  # noqa: ARG001 - the interface of a language
    """Return nothing: a string is tuned over nothing."""
    return []


def compiled(thing: str, inside: str, request: CompileRequest, module: ModuleType) -> tuple[CompiledKernel, bytes]:
    """Return a kernel of the source and its cubin. Raises UsageError, and EnvironmentLacking without cuda.core."""
    kernel = inside or _only(thing, request)
    checks.refuse_without_block(request)
    options = {name: values.literal(text, request.sizes, module) for name, text in request.options.items()}
    program = _program(f"{_line(thing, request)}{thing}", options, request)
    try:
        made = program.compile("cubin", name_expressions=(kernel,))
        code, symbol = made.code, made.symbol_mapping[kernel]
    except Exception as error:
        raise checks.not_compiled(request, error) from error
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


def _only(source: str, request: CompileRequest) -> str:
    """Return the only kernel of a source; raise UsageError if it has several."""
    names = symbols.declared_kernels(source)
    if len(names) == 1:
        return names[0]
    file, first = request.file, names[0] if names else "KERNEL"
    raise UsageError(
        f"{request.name} has {len(names)} kernels: {', '.join(names)}", f"name one: {file}::{request.function}::{first}"
    )


def _line(source: str, request: CompileRequest) -> str:
    """Return the directive that gives a literal's lines the numbers that they have in the Python file."""
    variable = request.function.partition("::")[0]
    tree = ast.parse(Path(request.file).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant) or node.value.value != source:
            continue
        if any(isinstance(target, ast.Name) and target.id == variable for target in node.targets):
            return f'#line {node.value.lineno} "{request.file}"\n'
    return ""


def _program(source: str, options: dict[str, Any], request: CompileRequest) -> Any:
    try:
        from cuda.core import Program, ProgramOptions
    except ImportError as error:
        raise EnvironmentLacking(
            f"{request.name} needs cuda.core, which is not installed", "pip install 'ncu-swizzle[nvrtc]'"
        ) from error
    known = [field.name for field in fields(ProgramOptions) if field.name not in OURS]
    checks.refuse_options(options, known, "NVRTC", request)
    given = {"lineinfo": True, "std": STANDARD, **options}
    return Program(source, "c++", ProgramOptions(arch=request.arch, **given))


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
