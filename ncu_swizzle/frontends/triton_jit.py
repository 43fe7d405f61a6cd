"""Triton and Gluon: functions under ``@triton.jit``, with or without ``@triton.autotune`` and ``@triton.heuristics``.

Triton itself specialises and compiles them, as it does before a launch (``warmup``), for a target without a GPU: only
its driver is replaced, and tensors by what has a dtype, a shape and an address.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import UsageError
from ncu_swizzle.frontends import checks, triton_lines, triton_tensors, values
from ncu_swizzle.frontends.request import CompiledKernel, CompileRequest, Configuration, Given, KernelParameter
from ncu_swizzle.frontends.triton_tensors import Shaped

WARP = 32
SWIZZLES = (0, 32, 64, 128)  # bytes, in the order of CUtensorMapSwizzle
# A tensor where the function takes a descriptor.
_DESCRIBED = re.compile(r"\b(\w+)\.(?:load|store)\(.*'tensor' object has no attribute '(?:load|store)'", re.DOTALL)
TUNED = ("num_warps", "num_stages", "num_ctas", "maxnreg")
# Triton's names of types, and ours of what is passed for each.
DTYPES = {
    "i1": "int8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u1": "uint8", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32",
    "f32": "float32", "fp64": "float64",
}  # fmt: skip


def handles(thing: object) -> bool:
    """Return whether this is a function of Triton's."""
    return type(thing).__module__.startswith("triton.") and hasattr(thing, "fn") and hasattr(thing, "run")


def configurations(thing: Any) -> list[Configuration]:
    """Return what the function is tuned over, the outermost decorator's."""
    for layer in _layers(thing):
        if hasattr(layer, "configs"):
            return [_settings(each) for each in layer.configs]
    return []


def compiled(thing: Any, inside: str, request: CompileRequest, module: ModuleType) -> tuple[CompiledKernel, bytes]:
    """Return the compiled function and its cubin. Raises UsageError."""
    checks.refuse_inside(inside, request)
    if request.block or request.shared:
        what = "block" if request.block else "shared memory"
        raise UsageError(
            f"the {what} of {request.name} is the compiler's to choose", "--option num_warps=8 gives the block"
        )
    *wrappers, function = _layers(thing)
    options = {name: values.literal(text, request.sizes, module) for name, text in request.options.items()}
    given = {argument.name: _passed(argument, request, module, function) for argument in request.arguments}
    parameters = list(function.arg_names)
    given |= {name: options.pop(name) for name in list(options) if name in parameters}
    _refuse_unknown(given, options, parameters, request)
    rules = {name: rule for wrapper in wrappers for name, rule in getattr(wrapper, "values", {}).items()}
    _refuse_lacking(thing, function, {*given, *rules}, request)
    for name, rule in rules.items():
        given[name] = rule({**given, **options})
    kernel = _warmed(function, given, options, request)
    return _described(kernel, given, options, request)


def _layers(thing: Any) -> list[Any]:
    """Return the decorators around a function, the outermost first, and the function of Triton's."""
    layers = [thing]
    while not hasattr(layers[-1], "arg_names") or hasattr(layers[-1].fn, "arg_names"):
        layers.append(layers[-1].fn)
    return layers


def _settings(configuration: Any) -> list[str]:
    """Return a configuration as ``NAME=VALUE``, without what it leaves to Triton."""
    named = {**configuration.kwargs, **{name: getattr(configuration, name, None) for name in TUNED}}
    return [
        f"{name}={value}" for name, value in named.items() if value is not None and (name, value) != ("num_ctas", 1)
    ]


def _passed(argument: Given, request: CompileRequest, module: ModuleType, function: Any) -> Any:
    """Return an argument as Triton gets it. Raises UsageError."""
    if argument.box:
        return triton_tensors.descriptor(argument, "gluon" in type(function).__module__)
    if argument.shape:
        return Shaped(argument)
    value = values.literal(argument.value, request.sizes, module)
    if argument.dtype == "literal":
        return value
    wanted = float if argument.dtype.startswith(("float", "bfloat")) else bool if argument.dtype == "bool" else int
    return wanted(value)


def _refuse_unknown(
    given: Mapping[str, Any], options: Mapping[str, Any], parameters: Sequence[str], request: CompileRequest
) -> None:
    """Raise UsageError for an argument that the function does not take, and an option that Triton does not."""
    from triton.compiler import make_backend

    checks.refuse_unknown(given, parameters, request)
    known = sorted(vars(make_backend(_target(request)).parse_options({})), key=lambda name: name not in TUNED)
    checks.refuse_options(options, [*known, *parameters], "Triton", request)


def _refuse_lacking(thing: Any, function: Any, given: Collection[str], request: CompileRequest) -> None:
    """Raise UsageError if a parameter without a default has no argument; say which configurations there are."""
    missing = [each for each in function.params if not each.has_default and each.name not in given]
    if not missing:
        return
    tuned = configurations(thing)
    if tuned and any(option.startswith(f"{missing[0].name}=") for option in tuned[0]):
        words = " ".join(f"--option {option}" for option in tuned[0])
        raise UsageError(
            f"{request.name} is tuned over {len(tuned)} configurations, and none is chosen",
            f"{words} is the first; ncu-swizzle sweep compares them all",
        )
    constants = [each.name for each in missing if each.is_constexpr]
    raise checks.lacking(request, [each.name for each in missing], constants)


class _Driver:
    """The driver of a machine without a GPU, as far as compiling asks."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def get_current_target(self) -> Any:
        """Return what to compile for."""
        return self._target

    def get_current_device(self) -> int:
        """Return the device whose kernels are cached."""
        return 0

    def get_current_stream(self, device: int | None = None) -> int:  # noqa: ARG002 - Triton's interface
        """Return the stream that a launch would go to."""
        return 0


def _target(request: CompileRequest) -> Any:
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", int(request.arch.strip("sm_af")), WARP)


def _warmed(function: Any, given: Mapping[str, Any], options: Mapping[str, Any], request: CompileRequest) -> Any:
    """Return what Triton compiles for these arguments. Raises UsageError with what it says."""
    from triton.runtime.driver import driver

    driver.set_active(_Driver(_target(request)))
    try:
        return function.warmup(grid=(1,), **given, **options)
    except Exception as error:
        said = checks.not_compiled(request, error)
        described = _DESCRIBED.search(str(said))
        if described and isinstance(tensor := given.get(described[1]), Shaped):
            raise UsageError(str(said), f"--arg {triton_tensors.as_descriptor(described[1], tensor)}") from error
        raise said from error


def _described(
    kernel: Any, given: Mapping[str, Any], options: Mapping[str, Any], request: CompileRequest
) -> tuple[CompiledKernel, bytes]:
    import triton
    from triton.compiler import make_backend

    metadata, target = kernel.metadata, _target(request)
    code = triton_lines.with_callers(kernel, make_backend(target), target.arch)
    names = {**{each.name: given.get(each.name, each.default) for each in kernel.src.fn.params}, **options}
    grid = values.grid(request, names)
    clusters = metadata.num_ctas
    attributes = Cubin(code, request.name).attributes(metadata.name)
    passed = _parameters(kernel.src.signature, given, metadata, request)
    scratch = [metadata.global_scratch_size, getattr(metadata, "profile_scratch_size", 0)]
    blocks = math.prod(grid) * clusters
    own = [KernelParameter(f"scratch{number}", scratch=size * blocks) for number, size in enumerate(scratch)]
    launched = CompiledKernel(
        entry=metadata.name,
        grid=(grid[0] * clusters, *grid[1:]),
        block=tuple(attributes.required_block) or (metadata.num_warps * WARP, 1, 1),
        shared=metadata.shared,
        parameters=(*passed, *own[: len(attributes.parameters) - len(passed)]),
        compiler=f"Triton {triton.__version__}",
        intermediate=kernel.asm.get("ttgir", ""),
        explicit="gluon" in type(kernel.src).__module__,
    )
    return launched, code


def _parameters(
    signature: Mapping[str, Any], given: Mapping[str, Any], metadata: Any, request: CompileRequest
) -> list[KernelParameter]:
    """Return the parameters that Triton leaves, in order: a constant, and an integer that is 1, are compiled in."""
    parameters: list[KernelParameter] = []
    maps = iter(getattr(metadata, "tensordesc_meta", None) or ())
    for name, kind in signature.items():
        if kind == "constexpr":
            continue
        if isinstance(kind, tuple):
            parts = {f"{name}{number}": part for number, part in enumerate(kind)}
            inside = {f"{name}{number}": value for number, value in enumerate(given[name])}
            parameters += _parameters(parts, inside, metadata, request)
            continue
        if isinstance(kind, str) and kind.startswith("*"):
            parameters.append(KernelParameter(name))
        elif kind in DTYPES:
            parameters.append(_number(name, DTYPES[kind], given[name]))
        elif isinstance(kind, str) and kind.startswith("tensordesc"):
            parameters += _of_descriptor(name, given[name], next(maps, None))
        else:
            raise UsageError(
                f"{request.name}: {name} is passed as {kind}, which cannot be launched from here",
                "pass its parts as numbers and tensors",
            )
    return parameters


def _number(name: str, dtype: str, value: Any) -> KernelParameter:
    return KernelParameter(name, dtype, repr(float(value) if dtype.startswith(("float", "bfloat")) else int(value)))


def _of_descriptor(name: str, descriptor: Any, copied: Any) -> list[KernelParameter]:
    """Return what a tensor descriptor is passed as: a map, if the hardware copies through it, shape and strides."""
    shape = [_number(f"{name}_shape{axis}", "int32", size) for axis, size in enumerate(descriptor.shape)]
    strides = [_number(f"{name}_stride{axis}", "int64", size) for axis, size in enumerate(descriptor.strides)]
    if copied is None:  # an older architecture: the kernel computes addresses
        wide = [replace(size, dtype="int64") for size in shape]
        return [KernelParameter(name), *wide, *strides, _number(f"{name}_padding", "int8", 0), *shape, *strides]
    box = tuple(copied["block_size"])
    return [KernelParameter(name, box=box, swizzle=SWIZZLES[copied["swizzle"]]), *shape, *strides]
