"""CuTe DSL: host functions under ``@cute.jit``, which launch kernels under ``@cute.kernel``.

The DSL compiles both, without a GPU, for tensors that do not exist. Its host code says how a kernel is launched and
what its parameters are, see `HostCode`. Tensors are contiguous, their last axis innermost.
"""

from __future__ import annotations

import ctypes
import inspect
import math
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from elftools.elf.sections import SymbolTableSection

from ncu_swizzle.base.errors import Typed, UsageError
from ncu_swizzle.cubin.elf import Cubin, open_elf
from ncu_swizzle.emulate import tensor_map
from ncu_swizzle.emulate.tensor_map import Tiled
from ncu_swizzle.frontends import contract
from ncu_swizzle.frontends.contract import CompiledFunction, CompileRequest, Given, KernelParameter, literal
from ncu_swizzle.frontends.python_kernels import PREFIX
from ncu_swizzle.kernels.family import LITERAL, STRUCT
from ncu_swizzle.kernels.fills import POINTER, numpy_dtype
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.smem import access

# The host code of a function, executed without a driver: which kernels it launches, with which parameters.
#
# The DSL compiles a ``@cute.jit`` function to host code that computes grid, shared memory and tensor maps, and launches
# through the CUDA runtime of a shared library. Here the functions of that library do nothing but note the launch.

ADDRESS = ctypes.c_uint64
MOST_ARGUMENTS = 12  # of a function of the runtime; what it was not passed is not looked at
HANDLE = 1 << 20  # of the first kernel; the library has the one before
MOST_SHARED = 97  # cudaDevAttrMaxSharedMemoryPerBlockOptin
CLUSTER = 4  # cudaLaunchAttributeClusterDimension
ATTRIBUTE_BYTES = 72


class _Configuration(ctypes.Structure):
    """cudaLaunchConfig_t."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_size_t),
        ("stream", ADDRESS),
        ("attributes", ADDRESS),
        ("number", ctypes.c_uint32),
    )


@dataclass(frozen=True, kw_only=True)
class HostLaunch:
    """A launch that host code made: the kernel's symbol, its geometry, and the bytes of its parameters."""

    entry: str
    launch: LaunchShape
    parameters: tuple[bytes, ...]


@dataclass(kw_only=True)
class HostCode:
    """The host code of one function, and what it launched when it was executed."""

    arch: str
    launches: list[HostLaunch] = field(default_factory=list)
    _cubin: Cubin | None = None
    _names: list[str] = field(default_factory=list)
    _functions: list[Any] = field(default_factory=list)  # called by machine code for as long as it lives

    def engine(self, usual: Any) -> Any:
        """Return MLIR's execution engine, whose code calls this object instead of the CUDA runtime."""

        class HostEngine(usual):  # type: ignore[misc] # it is the DSL's
            def __init__(engine, module: Any, opt_level: int = 2, shared_libs: Sequence[str] = ()) -> None:  # noqa: N805
                super().__init__(module, opt_level=opt_level, shared_libs=[])
                for name in (name for library in shared_libs for name in _exported(Path(library))):
                    engine.raw_register_runtime(name, ctypes.cast(self._function(name), ctypes.c_void_p))

        return HostEngine

    def execute(self, compiled: Any, arguments: Mapping[str, Any], cubin: Cubin) -> None:
        """Execute the host code; its launches are those of the cubin's kernels. Constants are compiled into it."""
        self._cubin = cubin
        vars(compiled)["num_devices"] = 1  # it asks the driver how many there are, unless it knows
        compiled(*(arguments[name] for name in compiled.execution_args.signature.parameters))

    def _function(self, name: str) -> Any:
        functions: dict[str, Callable[..., int]] = {
            "_cudaLibraryLoadData": self._loaded,
            "_cudaLibraryGetKernel": self._kernel,
            "_cudaDeviceGetAttribute": self._attribute,
            "_cudaLaunchKernelEx": self._launched,
            "_cuTensorMapEncodeTiled": _encoded,
        }
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ADDRESS] * MOST_ARGUMENTS)
        self._functions.append(kind(functions.get(name, _nothing)))
        return self._functions[-1]

    def _loaded(self, library: int, *_: int) -> int:
        ADDRESS.from_address(library).value = HANDLE - 1
        return 0

    def _kernel(self, kernel: int, library: int, name: int, *_: int) -> int:  # noqa: ARG002 - cudaLibraryGetKernel
        self._names.append(ctypes.string_at(name).decode())
        ADDRESS.from_address(kernel).value = HANDLE + len(self._names) - 1
        return 0

    def _attribute(self, value: int, attribute: int, *_: int) -> int:
        if attribute & 0xFFFFFFFF == MOST_SHARED:
            ctypes.c_int32.from_address(value).value = access.block_bytes(self.arch)
        return 0

    def _launched(self, configuration: int, kernel: int, parameters: int, *_: int) -> int:
        assert self._cubin is not None
        entry = self._names[kernel - HANDLE]
        launched = _Configuration.from_address(configuration)
        slots = self._cubin.attributes(entry).parameters
        passed = (ADDRESS * len(slots)).from_address(parameters) if slots else ()
        contents = tuple(ctypes.string_at(at, slot.size) for at, slot in zip(passed, slots, strict=True))
        self.launches.append(
            HostLaunch(
                entry=entry,
                launch=LaunchShape(
                    grid=tuple(launched.grid),
                    block=tuple(launched.block),
                    shared=launched.shared,
                    cluster=_cluster(launched),
                ),
                parameters=contents,
            )
        )
        return 0


def _cluster(given: _Configuration) -> tuple[int, ...]:
    """Return the cluster among a launch's attributes; one block if there is none."""
    for number in range(given.number):
        at = given.attributes + number * ATTRIBUTE_BYTES
        if ctypes.c_uint32.from_address(at).value == CLUSTER:
            return tuple((ctypes.c_uint32 * 3).from_address(at + 8))
    return (1, 1, 1)


def _encoded(
    made: int, data_type: int, rank: int, address: int, sizes: int, strides: int, box: int, *rest: int
) -> int:  # fmt: skip
    """Encode a tensor map as the driver does; one whose elements have strides is left out, as none of the DSL's has."""
    axes = rank & 0xFFFFFFFF
    _, interleave, swizzle, promotion, fill = (value & 0xFFFFFFFF for value in rest[:5])
    tile = Tiled(
        address,
        data_type & 0xFFFFFFFF,
        sizes=tuple((ADDRESS * axes).from_address(sizes)),
        strides=tuple((ADDRESS * (axes - 1)).from_address(strides)) if axes > 1 else (),
        box=tuple((ctypes.c_uint32 * axes).from_address(box)),
        swizzle=swizzle,
        interleave=interleave,
        promotion=promotion,
        fill=fill,
    )
    content = tile.encoded()
    ctypes.memmove(made, content, len(content))
    return 0


def _nothing(*_: int) -> int:
    return 0


def _exported(library: Path) -> list[str]:
    """Return the names of the functions that a shared library offers."""
    symbols = open_elf(library.read_bytes()).get_section_by_name(".dynsym")
    assert isinstance(symbols, SymbolTableSection)
    return [
        symbol.name
        for symbol in symbols.iter_symbols()
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF"
    ]


# The callers of Python functions that a kernel of CuTe DSL calls: the DSL itself notes the innermost line alone.
#
# The DSL executes a kernel's Python to find out its operations. Each operation's location is made one inlined into the
# lines of the functions that are being executed, up to the kernel's.

KERNEL = "kernel_wrapper"  # the DSL's function that calls a kernel's


def with_callers() -> AbstractContextManager[None]:
    """Have operations be located with their callers; does nothing for a version of the DSL that has no such hook."""
    from cutlass._mlir_helpers import op

    located: AbstractContextManager[None] = getattr(op, "loc_transform", lambda _: nullcontext())(_inlined)
    return located


def _inlined(location: Any) -> Any:
    """Return an operation's location, inlined into those of its callers."""
    from cutlass._mlir import ir

    callers = list(_callers())[1:]
    if location is None or not callers:
        return location
    return ir.Location.callsite(location, [ir.Location.file(*caller, 0) for caller in callers])


def _callers() -> Iterator[tuple[str, int]]:
    """Yield file and line of the functions being executed, innermost first; none outside of a kernel."""
    from cutlass._mlir_helpers import op

    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != KERNEL:
        frames.append(frame)
        frame = frame.f_back
    for each in frames if frame is not None else ():
        if each.f_code.co_filename != __file__ and not op._is_framework_stack_frame(each):
            yield each.f_code.co_filename, each.f_lineno


# Placeholder tensors for which CuTe DSL compiles, and where their addresses are in a kernel's parameters.
#
# A tensor with a static layout, which is what ``from_dlpack`` makes, is passed as its address; with a dynamic one
# (``mark_layout_dynamic``) sizes and strides follow.

ALIGNED = 16  # bytes, of every tensor, unless an option says otherwise
APART = 1 << 40  # bytes between the addresses of two tensors
WORD = 8
DTYPES = {
    "float16": "Float16", "bfloat16": "BFloat16", "float32": "Float32", "float64": "Float64", "int8": "Int8",
    "int16": "Int16", "int32": "Int32", "int64": "Int64", "uint8": "Uint8", "uint16": "Uint16", "uint32": "Uint32",
    "uint64": "Uint64", "bool": "Boolean", "float8_e4m3fn": "Float8E4M3FN", "float8_e5m2": "Float8E5M2",
}  # fmt: skip
NUMBERS = {1: "uint8", 2: "uint16", 4: "int32", 8: "int64"}  # by bytes


@dataclass(kw_only=True)
class Tensors:
    """The tensors among a function's arguments, each at its own address."""

    given: Mapping[str, Given]
    align: int = ALIGNED
    dynamic: bool = False
    _passed: list[Any] = field(default_factory=list)  # what the host code reads

    @classmethod
    def of(cls, arguments: Iterable[Given], options: Mapping[str, Any]) -> Tensors:
        """Return the tensors among the arguments, as the options want them."""
        tensors = {argument.name: argument for argument in arguments if argument.shape}
        return cls(
            given=tensors, align=int(options.get("assumed_align", ALIGNED)), dynamic=bool(options.get("dynamic", False))
        )

    def made(self, given: Given) -> Any:
        """Return a tensor for the DSL."""
        import cutlass
        from cutlass.cute.runtime import make_fake_tensor

        shape, strides = given.shape, given.strides
        elements = max(1, self.align // numpy_dtype(given.dtype).itemsize)
        sizes, steps = list(shape), list(strides)
        if self.dynamic:
            sizes = [_symbol(32, math.gcd(size, elements)) for size in shape]
            steps = [*(_symbol(64, math.gcd(stride, elements)) for stride in strides[:-1]), 1]
        element = getattr(cutlass, DTYPES[given.dtype])
        tensor = make_fake_tensor(element, tuple(sizes), tuple(steps), assumed_align=self.align)
        layout = f"@Q{len(shape)}i0q{len(shape) - 1}q" if self.dynamic else "@Q"
        numbers = (*shape, *strides[:-1]) if self.dynamic else ()
        content = ctypes.create_string_buffer(struct.pack(layout, self._address(given.name), *numbers))
        self._passed.append(content)
        tensor.__c_pointers__ = lambda: [ctypes.cast(content, ctypes.c_void_p)]
        return tensor

    def parameters(self, contents: Sequence[bytes]) -> tuple[KernelParameter, ...]:
        """Return what the kernel's parameters are, given their bytes; a tensor that only a struct points to is last."""
        passed: list[KernelParameter] = []
        pointed: set[str] = set()
        for number, content in enumerate(map(_settled, contents)):
            names = [self._pointed(word) for word in _words(content)]
            if len(content) == tensor_map.TENSOR_MAP_BYTES and tensor_map.decoded_map(content):
                names[1:] = [("", 0)] * (len(names) - 1)  # the other words are numbers
            if (
                len(content) == WORD
                and names == [(names[0][0], 0)]
                and names[0][0] not in {each.name for each in passed}
            ):
                passed.append(KernelParameter(name=names[0][0]))
                continue
            pointed |= {name for name, _ in names if name}
            passed.append(_by_value(f"parameter{number}", content, names))
        direct = {each.name for each in passed}
        return (*passed, *(KernelParameter(name=name, passed=False) for name in self.given if name in pointed - direct))

    def _address(self, name: str) -> int:
        return APART * (1 + list(self.given).index(name))

    def _pointed(self, word: int) -> tuple[str, int]:
        """Return the tensor that an address is in, and the bytes from its start; no name for another number."""
        for name, given in self.given.items():
            offset = word - self._address(name)
            if 0 <= offset <= math.prod(given.shape) * numpy_dtype(given.dtype).itemsize:
                return name, offset
        return "", 0


def _settled(content: bytes) -> bytes:
    """Return a parameter's bytes; of a tensor map, the DSL writes half and leaves the rest as it was on the stack."""
    return tensor_map.completed_map(content) if len(content) == tensor_map.TENSOR_MAP_BYTES else content


def _symbol(bits: int, multiple: int) -> Any:
    """Return a size that is known when the function is called, and is a multiple of a number."""
    from cutlass.cute.typing import SymInt

    return SymInt(bits, divisibility=multiple)


def _words(content: bytes) -> tuple[int, ...]:
    """Return the 64-bit words of a parameter, which may hold addresses; none if its size is not a multiple of them."""
    return struct.unpack(f"<{len(content) // WORD}Q", content) if len(content) % WORD == 0 else ()


def _by_value(name: str, content: bytes, pointed: Sequence[tuple[str, int]]) -> KernelParameter:
    """Return a parameter of these bytes: a number, or a struct."""
    size = len(content)
    if size in NUMBERS and not any(tensor for tensor, _ in pointed):
        return KernelParameter(
            name=name, dtype=NUMBERS[size], value=str(int.from_bytes(content, "little", signed=size >= 4))
        )
    unit = next(bytes_ for bytes_ in (8, 4, 1) if size % bytes_ == 0)
    fields = []
    for number in range(size // unit):
        tensor, offset = pointed[number] if pointed else ("", 0)
        value = int.from_bytes(content[number * unit : (number + 1) * unit], "little", signed=True)
        fields.append(f"{POINTER}:{tensor}+{offset}" if tensor else f"int{8 * unit}:{value}")
    return KernelParameter(name=name, dtype=STRUCT, value=",".join(fields))


OPTIONS = ("assumed_align", "dynamic", "opt_level")
STREAM = "CUstream"


def handles(thing: object) -> bool:
    """Return whether this is a function of CuTe DSL's, for the host or the GPU, or an object that is called as one."""
    return _kind(thing) in ("jit", "kernel")


def _kind(thing: object) -> str:
    """Return how a function is decorated; a class is not asked, as it has to be made into an object first."""
    own = thing if hasattr(thing, "_dsl_cls") else inspect.getattr_static(type(thing), "__call__", None)
    return getattr(own, "_decorator_kind", "") if hasattr(own, "_dsl_cls") else ""


def compiled(thing: Any, inside: str, request: CompileRequest, module: ModuleType) -> tuple[CompiledFunction, bytes]:
    """Return the kernel that a host function launches, and its cubin. Raises UsageError."""
    _refuse_kernel(thing, request, module)
    what = f"{request.name} launches its kernel itself: grid, block and shared memory are in its launch(…)"
    contract.refuse_geometry(request, what, "--grid", "--block", "--shared")
    parameters = inspect.signature(thing).parameters
    options = contract.options_of(request, module, parameters, OPTIONS, "CuTe DSL")
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


def _given(
    parameters: Mapping[str, inspect.Parameter], request: CompileRequest
) -> tuple[dict[str, Given], dict[str, Any]]:
    """Return the arguments by name, and every parameter's default. Raises UsageError."""
    given = contract.arguments_of(parameters, request)
    defaults = {name: _default(each) for name, each in parameters.items()}
    for name, each in parameters.items():
        if _is_tensor(each) and name in given and not given[name].shape:
            raise UsageError(
                f"{request.name}: {name} is a tensor, and is given no shape", Typed(f"--arg {name}=float32[1024]")
            )
    if missing := [name for name, value in defaults.items() if value is inspect.Parameter.empty and name not in given]:
        constants = [name for name in missing if not _is_tensor(parameters[name])]
        raise contract.lacking(request, missing, constants)
    return given, defaults


def _is_tensor(parameter: inspect.Parameter) -> bool:
    return _annotation(parameter).endswith("Tensor")


def _annotation(parameter: inspect.Parameter) -> str:
    return str(getattr(parameter.annotation, "__name__", parameter.annotation))


def _default(parameter: inspect.Parameter) -> Any:
    """Return a parameter's default: a stream's is the usual one."""
    if not _annotation(parameter).endswith(STREAM):
        return parameter.default
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
    value = literal(argument.value, request.sizes, module)
    return value if argument.dtype == LITERAL else getattr(cutlass, DTYPES[argument.dtype])(value)


def _executed(
    thing: Any, passed: Mapping[str, Any], options: Mapping[str, Any], request: CompileRequest
) -> tuple[HostCode, bytes]:
    """Compile the function and execute its host code; return that and the cubin. Raises UsageError."""
    from cutlass import cute
    from cutlass._mlir import execution_engine

    host, usual = HostCode(arch=request.arch), execution_engine.ExecutionEngine
    execution_engine.ExecutionEngine = host.engine(usual)
    level = f"--opt-level {options['opt_level']}" if "opt_level" in options else ""
    try:
        with contract.compiling(request):
            with with_callers():
                executable = cute.compile(thing, *passed.values(), **({"options": level} if level else {}))
            if not executable.kernel_info:
                raise UsageError(f"{request.name} launches no kernel", "call kernel(…).launch(grid=…, block=…) in it")
            code: bytes = executable.__cubin__
            host.execute(executable, passed, Cubin(code, request.name))
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


def _described(launched: HostLaunch, names: Mapping[str, str], tensors: Tensors, host: HostCode) -> CompiledFunction:
    import cutlass

    same = sum(names[launch.entry] == names[launched.entry] for launch in host.launches)
    note = f"{names[launched.entry]} is launched {same} times; this is the first of them." if same > 1 else ""
    return CompiledFunction(
        entry=launched.entry,
        launch=launched.launch,
        parameters=tensors.parameters(launched.parameters),
        compiler=f"CuTe DSL {cutlass.__version__}",
        notes=(note,) if note else (),
    )
