"""Numba: functions under ``@cuda.jit``, compiled to PTX without a GPU and assembled by ptxas.

An array becomes 5 + 2 * ndim parameters: who owns its memory (twice, null), elements, bytes of one, the data, the
shape, and the strides in bytes.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.catalog.family import LITERAL
from ncu_swizzle.catalog.fills import numpy_dtype
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import NcuSwizzleError, UsageError
from ncu_swizzle.frontends import checks, numba_lines, numba_records, values
from ncu_swizzle.frontends.request import CompiledKernel, CompileRequest, Configuration, Given, KernelParameter

OPTIONS = ("fastmath", "opt", "launch_bounds", "debug")
POINTER, WHOLE = "uint64", "int64"


def handles(thing: object) -> bool:
    """Return whether this is a function of Numba's for CUDA."""
    return type(thing).__module__.startswith("numba.cuda") and hasattr(thing, "py_func")


def prepare() -> None:
    """Have ``@cuda.jit`` ignore a signature, for which it would compile at once and so need a GPU, and keep lines."""
    from numba import cuda

    usual = cuda.jit

    def jit(func_or_sig: Any = None, *positional: Any, **keywords: Any) -> Any:
        lines = {} if keywords.get("debug") else {"lineinfo": True}
        return usual(func_or_sig if callable(func_or_sig) else None, *positional, **{**lines, **keywords})

    cuda.jit = jit
    numba_lines.keep_callers()


def configurations(thing: Any) -> list[Configuration]:  # noqa: ARG001 - the interface of a language
    """Return nothing: Numba tunes over nothing."""
    return []


def compiled(thing: Any, inside: str, request: CompileRequest, module: ModuleType) -> tuple[CompiledKernel, bytes]:
    """Return the compiled function and its cubin. Raises UsageError."""
    from numba import cuda, types
    from numba.cuda import dispatcher

    checks.refuse_inside(inside, request)
    options = {name: values.literal(text, request.sizes, module) for name, text in request.options.items()}
    checks.refuse_options(options, OPTIONS, "Numba", request)
    own = {name: thing.targetoptions[name] for name in OPTIONS if thing.targetoptions.get(name) is not None}
    ordered = checks.in_order(request, inspect.signature(thing.py_func).parameters)
    checks.refuse_without_block(request)
    kinds = [_type(argument, request, module) for argument in ordered]
    major, minor = divmod(int(request.arch.strip("sm_af")), 10)
    # Functions that a kernel calls are compiled for the current device, which is asked for nothing else.
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=(major, minor))
    settings = {"lineinfo": True, **own, **options}
    try:
        text, _ = cuda.compile(
            thing.py_func, types.void(*kinds), device=False, cc=(major, minor), output="ptx", abi="numba", **settings
        )
        ptx = text if isinstance(text, bytes) else text.encode()
        code = Toolchain().assemble(ptx, request.name, request.arch)
    except NcuSwizzleError:
        raise
    except Exception as error:
        raise checks.not_compiled(request, error) from error
    return _described(Cubin(code, request.name), ordered, request, module), code


def _value(argument: Given, request: CompileRequest, module: ModuleType) -> Any:
    return values.literal(argument.value, request.sizes, module)


def _type(argument: Given, request: CompileRequest, module: ModuleType) -> Any:
    """Return Numba's type of an argument; a number without a dtype is what Python's is to Numba."""
    from numba import types
    from numba.np import numpy_support

    if argument.shape:
        dtype, shape = numba_records.elements(argument, request, module)
        return types.Array(numpy_support.from_dtype(dtype), len(shape), "C")
    if argument.dtype != LITERAL:
        return numpy_support.from_dtype(numpy_dtype(argument.dtype))
    return numpy_support.from_dtype(numpy_dtype(_dtype(argument, request, module)))


def _dtype(argument: Given, request: CompileRequest, module: ModuleType) -> str:
    value = _value(argument, request, module)
    for kind, dtype in ((bool, "bool"), (int, "int64"), (float, "float64")):
        if isinstance(value, kind):
            return dtype
    raise UsageError(
        f"{request.name}: {argument.name} is {argument.value!r}, which Numba cannot take",
        f"--arg {argument.name}=64, or a shape for an array: --arg {argument.name}=float32[1024]",
    )


def _described(cubin: Cubin, ordered: list[Given], request: CompileRequest, module: ModuleType) -> CompiledKernel:
    import numba_cuda

    passed = [part for argument in ordered for part in _passed(argument, request, module)]
    names: Mapping[str, Any] = {
        argument.name: _value(argument, request, module) for argument in ordered if not argument.shape
    }
    return CompiledKernel(
        entry=cubin.kernels[0],
        grid=values.grid(request, names),
        block=request.block,
        shared=request.shared,
        parameters=tuple(passed),
        compiler=f"Numba-CUDA {re.sub(r'[^0-9.].*', '', numba_cuda.__version__)}",
    )


def _passed(argument: Given, request: CompileRequest, module: ModuleType) -> list[KernelParameter]:
    """Return the parameters of an argument."""
    name = argument.name
    if not argument.shape:
        dtype = _dtype(argument, request, module) if argument.dtype == LITERAL else argument.dtype
        value = _value(argument, request, module)
        return [
            KernelParameter(name, "uint8" if dtype == "bool" else dtype, str(int(value) if dtype == "bool" else value))
        ]
    element, shape = numba_records.elements(argument, request, module)
    strides = [element.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return [
        KernelParameter(f"{name}_meminfo", POINTER, "0"),
        KernelParameter(f"{name}_parent", POINTER, "0"),
        KernelParameter(f"{name}_size", WHOLE, str(math.prod(shape))),
        KernelParameter(f"{name}_itemsize", WHOLE, str(element.itemsize)),
        KernelParameter(name),
        *(KernelParameter(f"{name}_shape{axis}", WHOLE, str(size)) for axis, size in enumerate(shape)),
        *(KernelParameter(f"{name}_stride{axis}", WHOLE, str(size)) for axis, size in enumerate(strides)),
    ]
