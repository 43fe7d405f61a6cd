"""Triton and Gluon: functions under ``@triton.jit``, with or without ``@triton.autotune`` and ``@triton.heuristics``.

Triton itself specialises and compiles them, as it does before a launch (``warmup``), for a target without a GPU: only
its driver is replaced, and tensors by what has a dtype, a shape and an address.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace
from typing import Any

from elftools.elf.elffile import ELFFile

from ncu_swizzle.base.errors import Hint, Typed, UsageError
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.frontends import contract
from ncu_swizzle.frontends.contract import (
    CompiledFunction,
    CompileRequest,
    Configuration,
    Given,
    KernelParameter,
    literal,
)
from ncu_swizzle.frontends.contract import grid as grid_values
from ncu_swizzle.frontends.python_kernels import Frame, PtxLines
from ncu_swizzle.kernels.fills import numpy_dtype
from ncu_swizzle.kernels.limits import LaunchShape

# The callers of inlined functions, which Triton leaves out of its cubins: only its PTX names them, in comments.
#
# The PTX is assembled once more with the callers as ptxas takes them. If the machine code is the same, byte by byte,
# that cubin stands for Triton's: then an access in ``tl.sum`` belongs to the line that calls it.

# It also has lines that do not exist: LLVM counts on from the line of inline assembly, such as that of a masked load, a
# line for each of its instructions. All of them belong to the first one's.

ASSEMBLY = re.compile(r"^[^\S\n]*+// begin inline asm$.*?(?:^[^\S\n]*+// end inline asm$|\Z)", re.MULTILINE | re.DOTALL)
LOCATION = re.compile(r"^[^\S\n]*+\.loc[^\S\n].*\n", re.MULTILINE)
LABEL = "$L__ncu_swizzle_inlined"
NAME = b"inlined\0"


def with_callers(kernel: Any, backend: Any, capability: int) -> bytes:
    """Return a compiled kernel's cubin with the callers of inlined functions; without them if that is impossible."""
    original: bytes = kernel.asm["cubin"]
    try:
        text = _named(kernel.asm["ptx"])
        if text is None:
            return original
        metadata = dict(kernel.metadata._asdict())
        again: bytes = backend.make_cubin(text, metadata, backend.parse_options(metadata), capability)
        return again if _code(again, metadata["name"]) == _code(original, metadata["name"]) else original
    except Exception:
        return original


def _named(ptx: str) -> str | None:
    """Return the PTX with callers and without lines that LLVM made up; None if nothing changes."""
    known = PtxLines.of_text(ptx)
    lines = [_nested(line, known.frames(line)) for line in ASSEMBLY.sub(_of_one_line, ptx).split("\n")]
    if (text := "\n".join(lines)) == ptx or ".debug_str" in ptx:
        return None
    if LABEL not in text:
        return text
    characters = "".join(f"\t.b8 {byte}\n" for byte in NAME)
    return f"{text}\n\t.section\t.debug_str\n\t{{\n{LABEL}:\n{characters}\t}}\n"


def _of_one_line(assembly: re.Match[str]) -> str:
    """Return inline assembly without all locations but the first."""
    first = LOCATION.search(assembly[0])
    return assembly[0][: first.end()] + LOCATION.sub("", assembly[0][first.end() :]) if first else assembly[0]


def _nested(line: str, frames: Sequence[Frame]) -> str:
    """Return a line of PTX; for the ``.loc`` of inlined code those of its frames, the caller before what it calls."""
    if len(frames) < 2:
        return line
    caller, lines = "", []
    for frame in reversed(frames):
        place = f"{frame.file} {frame.line} {frame.column}"
        lines.append(f"\t.loc\t{place}{f', function_name {LABEL}, inlined_at {caller}' if caller else ''}")
        caller = place
    return "\n".join(lines)


def _code(cubin: bytes, name: str) -> tuple[object, ...]:
    """Return the machine code and the constants of a cubin, and what the driver reads of the kernel."""
    sections = ELFFile(io.BytesIO(cubin)).iter_sections()
    code = [
        (section.name, section.data()) for section in sections if section.name.startswith((".text", ".nv.constant"))
    ]
    return Cubin(cubin, name).attributes(name), *code


# Placeholder tensors and tensor descriptors for which Triton and Gluon compile.


@dataclass(frozen=True)
class Dtype:
    """A dtype, which prints its name as PyTorch's do."""

    name: str

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return numpy_dtype(self.name).itemsize

    def __str__(self) -> str:
        return f"torch.{self.name}"


class Shaped:
    """What Triton asks of a tensor before it compiles: dtype, address, shape, strides."""

    def __init__(self, given: Given) -> None:
        self.dtype = Dtype(given.dtype)
        self.shape = given.shape

    def data_ptr(self) -> int:
        """Return an address as aligned as the launch's."""
        return 1 << 20

    def stride(self, axis: int | None = None) -> Any:
        """Return the strides in elements, of a tensor that is contiguous."""
        strides = contract.strides(self.shape)
        return strides if axis is None else strides[axis]

    def size(self, axis: int | None = None) -> Any:
        """Return the shape, or one of its sizes."""
        return self.shape if axis is None else self.shape[axis]

    def numel(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.dtype.itemsize


def descriptor(given: Given, gluon: bool) -> Any:
    """Return the descriptor of a tensor; Gluon's has a layout, of the swizzle given or the widest that fits the box."""
    base, box = Shaped(given), list(given.box)
    if not gluon:
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(base, list(base.shape), list(base.stride()), box)
    from triton.experimental.gluon import nvidia
    from triton.experimental.gluon.language import NVMMASharedLayout

    bits = 8 * base.element_size()
    layout = NVMMASharedLayout.get_default_for(box, SimpleNamespace(primitive_bitwidth=bits))
    if given.swizzle:
        layout = NVMMASharedLayout(swizzle_byte_width=given.swizzle, element_bitwidth=bits, rank=len(box))
    return nvidia.hopper.TensorDescriptor(base, list(base.shape), list(base.stride()), box, layout)


def as_descriptor(name: str, tensor: Shaped) -> str:
    """Return an argument as a tensor descriptor, whose box is the block's shape."""
    sizes = (*tensor.shape, 1, 1)[:2]
    box = "x".join(str(min(64, size)) for size in sizes)
    return f"{name}=tensormap:{tensor.dtype.name}[{','.join(map(str, sizes))}]:box={box}"


WARP = 32
SWIZZLES = (0, 32, 64, 128)  # bytes, in the order of CUtensorMapSwizzle
# A tensor where the function takes a descriptor.
_DESCRIBED = re.compile(r"\b(\w++)\.(?:load|store)\(")
_NO_DESCRIPTOR = re.compile(r"'tensor' object has no attribute '(?:load|store)'")
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
    """Return the function's tuning configurations, from the outermost decorator."""
    for layer in _layers(thing):
        if hasattr(layer, "configs"):
            return [_settings(config) for config in layer.configs]
    return []


def compiled(thing: Any, inside: str, request: CompileRequest, module: ModuleType) -> tuple[CompiledFunction, bytes]:
    """Return the compiled function and its cubin. Raises UsageError."""
    contract.refuse_inside(inside, request)
    hint = Hint(Typed("--option num_warps=8"), " gives the block")
    for option, what in (("--block", "block"), ("--shared", "shared memory")):
        contract.refuse_geometry(
            request, f"the {what} of {request.name} is the compiler's to choose", option, hint=hint
        )
    *wrappers, function = _layers(thing)
    options = {name: literal(text, request.sizes, module) for name, text in request.options.items()}
    passed = {argument.name: _passed(argument, request, module, function) for argument in request.arguments}
    parameters = list(function.arg_names)
    passed |= {name: options.pop(name) for name in list(options) if name in parameters}
    _refuse_unknown(passed, options, parameters, request)
    rules = {name: rule for wrapper in wrappers for name, rule in getattr(wrapper, "values", {}).items()}
    _refuse_lacking(thing, function, {*passed, *rules}, request)
    for name, rule in rules.items():
        passed[name] = rule({**passed, **options})
    kernel = _warmed(function, passed, options, request)
    return _described(kernel, passed, options, request)


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
        return descriptor(argument, "gluon" in type(function).__module__)
    if argument.shape:
        return Shaped(argument)
    value = literal(argument.value, request.sizes, module)
    if argument.dtype == "literal":
        return value
    wanted = float if argument.dtype.startswith(("float", "bfloat")) else bool if argument.dtype == "bool" else int
    return wanted(value)


def _refuse_unknown(
    given: Mapping[str, Any], options: Mapping[str, Any], parameters: Sequence[str], request: CompileRequest
) -> None:
    """Raise UsageError for an argument that the function does not take, and an option that Triton does not."""
    from triton.compiler import make_backend

    contract.refuse_unknown(given, parameters, request)
    known = sorted(vars(make_backend(_target(request)).parse_options({})), key=lambda name: name not in TUNED)
    contract.refuse_options(options, [*known, *parameters], "Triton", request)


def _refuse_lacking(thing: Any, function: Any, given: Collection[str], request: CompileRequest) -> None:
    """Raise UsageError if a parameter without a default has no argument; say which configurations there are."""
    missing = [param for param in function.params if not param.has_default and param.name not in given]
    if not missing:
        return
    tuned = configurations(thing)
    if tuned and any(option.startswith(f"{missing[0].name}=") for option in tuned[0]):
        words = Typed(" ".join(f"--option {option}" for option in tuned[0]))
        raise UsageError(
            f"{request.name} is tuned over {len(tuned)} configurations, and none is chosen",
            Hint(words, " is the first; ncu-swizzle sweep compares them all"),
        )
    constants = [each.name for each in missing if each.is_constexpr]
    raise contract.lacking(request, [each.name for each in missing], constants)


class _Driver:
    """A driver for a machine without a GPU, with what compiling needs."""

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
        said = contract.not_compiled(request, error)
        quoted = _NO_DESCRIPTOR.search(str(said))
        described = _DESCRIBED.search(str(said), 0, quoted.start()) if quoted else None
        if described and isinstance(tensor := given.get(described[1]), Shaped):
            raise UsageError(str(said), Typed(f"--arg {as_descriptor(described[1], tensor)}")) from error
        raise said from error


def _described(
    kernel: Any, given: Mapping[str, Any], options: Mapping[str, Any], request: CompileRequest
) -> tuple[CompiledFunction, bytes]:
    import triton
    from triton.compiler import make_backend

    metadata, target = kernel.metadata, _target(request)
    code = with_callers(kernel, make_backend(target), target.arch)
    names = {**{param.name: given.get(param.name, param.default) for param in kernel.src.fn.params}, **options}
    grid = grid_values(request, names)
    clusters = metadata.num_ctas
    attributes = Cubin(code, request.name).attributes(metadata.name)
    passed = _parameters(kernel.src.signature, given, metadata, request)
    scratch = [metadata.global_scratch_size, getattr(metadata, "profile_scratch_size", 0)]
    blocks = math.prod(grid) * clusters
    own = [KernelParameter(name=f"scratch{number}", scratch=size * blocks) for number, size in enumerate(scratch)]
    launched = CompiledFunction(
        entry=metadata.name,
        launch=LaunchShape(
            grid=(grid[0] * clusters, *grid[1:]),
            block=tuple(attributes.required_block) or (metadata.num_warps * WARP, 1, 1),
            shared=metadata.shared,
        ),
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
            parameters.append(KernelParameter(name=name))
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
    return KernelParameter(
        name=name, dtype=dtype, value=repr(float(value) if dtype.startswith(("float", "bfloat")) else int(value))
    )


def _of_descriptor(name: str, descriptor: Any, copied: Any) -> list[KernelParameter]:
    """Return how a tensor descriptor is passed: a map, if the hardware copies through it, shape and strides."""
    shape = [_number(f"{name}_shape{axis}", "int32", size) for axis, size in enumerate(descriptor.shape)]
    strides = [_number(f"{name}_stride{axis}", "int64", size) for axis, size in enumerate(descriptor.strides)]
    if copied is None:  # an older architecture: the kernel computes addresses
        wide = [replace(size, dtype="int64") for size in shape]
        return [KernelParameter(name=name), *wide, *strides, _number(f"{name}_padding", "int8", 0), *shape, *strides]
    box = tuple(copied["block_size"])
    return [KernelParameter(name=name, box=box, swizzle=SWIZZLES[copied["swizzle"]]), *shape, *strides]
