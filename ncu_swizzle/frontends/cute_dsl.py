"""CuTe DSL: host functions under ``@cute.jit``, which launch kernels under ``@cute.kernel``.

The DSL compiles both, without a GPU, for tensors that nobody has made. Its host code says how a kernel is launched and
what its parameters are, see `cute_host`. Tensors are contiguous, their last axis innermost.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ncu_swizzle.catalog.family import LITERAL
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import NcuSwizzleError, UsageError
from ncu_swizzle.frontends import checks, cute_lines, values
from ncu_swizzle.frontends.cute_environment import PREFIX
from ncu_swizzle.frontends.cute_host import HostCode, HostLaunch
from ncu_swizzle.frontends.cute_tensors import DTYPES, Tensors
from ncu_swizzle.frontends.request import CompiledKernel, CompileRequest, Configuration, Given

OPTIONS = ("assumed_align", "dynamic", "opt_level")
STREAM = "CUstream"


def handles(thing: object) -> bool:
    """Return whether this is a function of CuTe DSL's, for the host or the GPU, or an object that is called as one."""
    return _kind(thing) in ("jit", "kernel")


def _kind(thing: object) -> str:
    """Return how a function is decorated; a class is not asked, as it has to be made into an object first."""
    own = thing if hasattr(thing, "_dsl_cls") else inspect.getattr_static(type(thing), "__call__", None)
    return getattr(own, "_decorator_kind", "") if hasattr(own, "_dsl_cls") else ""


def configurations(thing: Any) -> list[Configuration]:  # noqa: ARG001 - the interface of a language
    """Return nothing: CuTe DSL tunes over nothing by itself."""
    return []


def compiled(thing: Any, inside: str, request: CompileRequest, module: ModuleType) -> tuple[CompiledKernel, bytes]:
    """Return the kernel that a host function launches, and its cubin. Raises UsageError."""
    _refuse_kernel(thing, request, module)
    _refuse_geometry(request)
    parameters = inspect.signature(thing).parameters
    own = {name: text for name, text in request.options.items() if name not in parameters}
    options = {name: values.literal(text, request.sizes, module) for name, text in own.items()}
    checks.refuse_options(options, OPTIONS, "CuTe DSL", request)
    given, defaults = _given(parameters, request)
    tensors = Tensors.of(given.values(), options)
    passed = {
        name: _passed(given[name], tensors, request, module) if name in given else default
        for name, default in defaults.items()
    }
    host, code = _executed(thing, passed, options, request)
    names = {launch.entry: _name(launch.entry, module) for launch in host.launches}
    launched = _chosen(host.launches, names, inside, request)
    return _described(launched, names, tensors, host), code


def _refuse_kernel(thing: Any, request: CompileRequest, module: ModuleType) -> None:
    """Raise UsageError for a kernel: its launch is in a function under ``@cute.jit``."""
    if _kind(thing) == "jit":
        return
    hosts = [name for name, each in vars(module).items() if _kind(each) == "jit"]
    hosts.sort(key=lambda name: not _mentions(vars(module)[name], request.function))
    raise UsageError(
        f"{request.name} is under @cute.kernel; a function under @cute.jit launches it",
        f"name that: {request.file}::{hosts[0]}" if hosts else "write one that calls kernel(…).launch(grid=…, block=…)",
    )


def _mentions(host: Any, kernel: str) -> bool:
    """Return whether a host function's own code has a kernel's name."""
    code = getattr(inspect.unwrap(host), "__code__", None)
    return code is not None and kernel in code.co_names


def _refuse_geometry(request: CompileRequest) -> None:
    for option, given in (("--grid", request.grid), ("--block", request.block), ("--shared", request.shared)):
        if given:
            raise UsageError(
                f"{request.name} launches its kernel itself: grid, block and shared memory are in its launch(…)",
                f"leave out {option}",
            )


def _given(
    parameters: Mapping[str, inspect.Parameter], request: CompileRequest
) -> tuple[dict[str, Given], dict[str, Any]]:
    """Return the arguments by name, and every parameter's default: a stream's is the usual one. Raises UsageError."""
    given = {argument.name: argument for argument in request.arguments}
    given |= {name: Given(name, LITERAL, value=text) for name, text in request.options.items() if name in parameters}
    checks.refuse_unknown(given, parameters, request)
    defaults = {name: _stream() if _is_stream(each) else each.default for name, each in parameters.items()}
    for name, each in parameters.items():
        if _is_tensor(each) and name in given and not given[name].shape:
            raise UsageError(
                f"{request.name}: {name} is a tensor, and is given no shape", f"--arg {name}=float32[1024]"
            )
    if missing := [name for name, value in defaults.items() if value is inspect.Parameter.empty and name not in given]:
        constants = [name for name in missing if not _is_tensor(parameters[name])]
        raise checks.lacking(request, missing, constants)
    return given, defaults


def _is_tensor(parameter: inspect.Parameter) -> bool:
    return str(getattr(parameter.annotation, "__name__", parameter.annotation)).endswith("Tensor")


def _is_stream(parameter: inspect.Parameter) -> bool:
    return str(getattr(parameter.annotation, "__name__", parameter.annotation)).endswith(STREAM)


def _stream() -> Any:
    from cuda.bindings.driver import CUstream

    return CUstream(0)


def _passed(argument: Given, tensors: Tensors, request: CompileRequest, module: ModuleType) -> Any:
    """Return an argument as the function gets it. Raises UsageError."""
    import cutlass

    if argument.dtype != LITERAL and argument.dtype not in DTYPES:
        raise UsageError(
            f"{request.name}: CuTe DSL cannot take {argument.name} as {argument.dtype}",
            f"its dtypes: {', '.join(DTYPES)}",
        )
    if argument.shape:
        return tensors.made(argument)
    value = values.literal(argument.value, request.sizes, module)
    return value if argument.dtype == LITERAL else getattr(cutlass, DTYPES[argument.dtype])(value)


def _executed(
    thing: Any, passed: Mapping[str, Any], options: Mapping[str, Any], request: CompileRequest
) -> tuple[HostCode, bytes]:
    """Compile the function and execute its host code; return that and the cubin. Raises UsageError."""
    from cutlass import cute
    from cutlass._mlir import execution_engine

    host, usual = HostCode(request.arch), execution_engine.ExecutionEngine
    execution_engine.ExecutionEngine = host.engine(usual)
    level = f"--opt-level {options['opt_level']}" if "opt_level" in options else ""
    try:
        with cute_lines.with_callers():
            made = cute.compile(thing, *passed.values(), **({"options": level} if level else {}))
        if not made.kernel_info:
            raise UsageError(f"{request.name} launches no kernel", "call kernel(…).launch(grid=…, block=…) in it")
        code: bytes = made.__cubin__
        host.execute(made, passed, Cubin(code, request.name))
    except NcuSwizzleError:
        raise
    except Exception as error:
        raise checks.not_compiled(request, error) from error
    finally:
        execution_engine.ExecutionEngine = usual
    return host, code


def _name(entry: str, module: ModuleType) -> str:
    """Return the name that a kernel has in its file; its symbol if it is a method, or from elsewhere."""
    kernels = [name for name, each in vars(module).items() if _kind(each) == "kernel"]
    fitting = [name for name in kernels if f"{entry.removeprefix(PREFIX)}_".startswith(f"{name}_")]
    return max(fitting, key=len, default=entry)


def _chosen(
    launches: Sequence[HostLaunch], names: Mapping[str, str], inside: str, request: CompileRequest
) -> HostLaunch:
    """Return the first launch of the kernel named inside, or of the only kernel. Raises UsageError."""
    kernels = {names[launch.entry]: launch for launch in reversed(launches)}
    if inside in kernels:
        return kernels[inside]
    if not kernels:
        raise UsageError(f"{request.name} launches no kernel for these arguments", "other values with --arg")
    if len(kernels) == 1 and not inside:
        return launches[0]
    ordered = list(dict.fromkeys(names[launch.entry] for launch in launches))
    function = request.function.partition("::")[0]
    raise UsageError(
        f"{request.name} launches {', '.join(ordered)}" + (f", not {inside}" if inside else ""),
        f"name one: {request.file}::{function}::{ordered[0]}",
    )


def _described(launched: HostLaunch, names: Mapping[str, str], tensors: Tensors, host: HostCode) -> CompiledKernel:
    import cutlass

    same = sum(names[launch.entry] == names[launched.entry] for launch in host.launches)
    note = f"{names[launched.entry]} is launched {same} times; this is the first of them." if same > 1 else ""
    return CompiledKernel(
        entry=launched.entry,
        grid=launched.grid,
        block=launched.block,
        shared=launched.shared,
        parameters=tensors.parameters(launched.parameters),
        compiler=f"CuTe DSL {cutlass.__version__}",
        cluster=launched.cluster,
        notes=(note,) if note else (),
    )
