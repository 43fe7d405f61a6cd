"""The GPU, through PyCUDA: build kernels, fill buffers, launch, time. The only importer of PyCUDA."""

from __future__ import annotations

import atexit
import math
import re
import subprocess
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ncu_swizzle.build import argument_check, tensor_map
from ncu_swizzle.build.compiled import Refused
from ncu_swizzle.build.toolchain import nvcc_release
from ncu_swizzle.catalog import fills, launch_limits
from ncu_swizzle.catalog.family import Argument, Family, Kernel, Problem
from ncu_swizzle.cubin import parameters, symbols
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import EnvironmentLacking
from ncu_swizzle.ncu import gpu

try:
    import pycuda.compiler as nvcc
    import pycuda.driver as cuda
except ImportError as _error:  # said when it is needed: the launching program reports every error in one way
    cuda = nvcc = None
    _missing: Exception | None = _error
    CUDA_ERRORS: tuple[type[Exception], ...] = ()
else:
    _missing = None
    CUDA_ERRORS = (cuda.Error,)

POISON = 0xFF  # every byte of an output before a launch: NaN in all floating-point formats
WARM_UP = 5
SETTLE_MS = 200.0  # before each sample the kernel runs this long, unmeasured: the clock has to become its own
SAMPLE_MS = 20.0  # a timed sample is at least this long: the host's share of a launch is hidden behind it


# ---------------------------------------------------------------------------------------------- the device


def open_device() -> Any:
    """Make the primary context current (PyTorch shares it) and return the device."""
    if cuda is None:
        raise EnvironmentLacking(
            f"PyCUDA cannot be imported: {_missing}", "pip install 'ncu-swizzle[gpu]' (needs the CUDA toolkit)"
        )
    try:
        cuda.init()
        device = cuda.Device(0)
    except cuda.Error as error:
        raise EnvironmentLacking(
            f"no usable GPU: {error}", "nvidia-smi shows what the driver sees; --engine recorded needs no GPU"
        ) from error
    context = device.retain_primary_context()
    context.push()
    atexit.register(context.pop)
    return device


def describe(device: Any) -> dict[str, Any]:
    """Return the GPU and the software around it."""
    return {
        "gpu": device.name(),
        "compute_capability": "{}.{}".format(*device.compute_capability()),
        "sm_count": device.multiprocessor_count,
        "driver": driver_version(),
        "cuda": _nvcc_version(),
    }


def refuse_older(device: Any, family: Family) -> None:
    """Raise EnvironmentLacking where the GPU lacks what the family's kernels are made of."""
    if device.compute_capability() < family.compute_capability:
        has, needs = (
            ".".join(map(str, version)) for version in (device.compute_capability(), family.compute_capability)
        )
        raise EnvironmentLacking(
            f"the family {family.name} needs compute capability {needs}, {device.name()} has {has}",
            "--engine recorded shows what was recorded on a GPU that has it",
        )


def driver_version() -> str:
    """Return the display driver's version, such as 580.159.04; empty where it cannot be read."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return ""
    version = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    return version[1] if version else ""


# ---------------------------------------------------------------------------------------------- building


@cache
def _nvcc_version() -> str:
    command = ["nvcc", "--version"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentLacking(f"nvcc cannot be run: {error}", "put the CUDA toolkit's bin folder on PATH") from error
    return nvcc_release(text)


class PyCudaCompiler:
    """The nvcc on PATH, run by PyCUDA."""

    def version(self) -> str:
        """Return nvcc's release and build, such as 13.0 (V13.0.88)."""
        return _nvcc_version()

    def compile(self, unit: str, options: Sequence[str], arch: str, include: Sequence[Path]) -> bytes:
        """Return the cubin of a translation unit; raise Refused."""
        try:
            with warnings.catch_warnings():  # PyCUDA warns of whatever nvcc prints on stderr
                warnings.simplefilter("ignore", UserWarning)
                code: bytes = nvcc.compile(
                    unit,
                    options=list(options),
                    arch=arch,
                    no_extern_c=True,
                    cache_dir=False,
                    include_dirs=[str(folder) for folder in include],
                )
        except cuda.CompileError as error:
            raise Refused(_compiler_log(error)) from error
        return code


def _compiler_log(error: Any) -> str:
    """Return what nvcc printed, without PyCUDA's words around it."""
    streams = [getattr(error, stream, None) or "" for stream in ("stdout", "stderr")]
    return "".join(streams).strip() or str(error)


# ---------------------------------------------------------------------------------------------- buffers


@dataclass(frozen=True)
class Buffers:
    """The arguments of a family's kernels, on the host (what buffers hold before a launch) and on the GPU (all)."""

    inputs: Mapping[str, np.ndarray]
    device: tuple[Any, ...]

    @classmethod
    def upload(cls, family: Family, problem: Problem, inputs: fills.Inputs) -> Buffers:
        """Allocate everything and copy the inputs; outputs without one are left as they are, see `reset`."""
        device: list[Any] = []
        for argument in family.arguments:
            if not argument.shape:
                device.append(fills.scalar(argument, problem))
            elif argument.name in inputs:
                device.append(cuda.to_device(_bytes(inputs[argument.name])))
            else:
                device.append(cuda.mem_alloc(_size(argument, problem)))
        return cls(inputs, tuple(device))

    def reset(self, family: Family, problem: Problem) -> None:
        """Poison the outputs; those that hold something before a launch get it back."""
        for argument, pointer in zip(family.arguments, self.device, strict=True):
            if argument.output and argument.name in self.inputs:
                cuda.memcpy_htod(pointer, _bytes(self.inputs[argument.name]))
            elif argument.output:
                cuda.memset_d8(pointer, POISON, _size(argument, problem))

    def parameters(self, family: Family, kernel: Kernel, problem: Problem) -> list[bytes]:
        """Return the values of the kernel's parameters."""
        return [
            _parameter(argument, value, kernel, problem)
            for argument, value in zip(family.arguments, self.device, strict=True)
        ]

    def output(self, argument: Argument, family: Family, problem: Problem) -> np.ndarray:
        host = np.empty(fills.shape(argument, problem), fills.numpy_dtype(argument.dtype))
        cuda.memcpy_dtoh(host.view(np.uint8), self.device[family.arguments.index(argument)])
        return host


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


def _size(argument: Argument, problem: Problem) -> int:
    return math.prod(fills.shape(argument, problem)) * fills.numpy_dtype(argument.dtype).itemsize


def _parameter(argument: Argument, value: Any, kernel: Kernel, problem: Problem) -> bytes:
    if argument.tensor_map:
        rows, columns = fills.shape(argument, problem)
        return tensor_map.encode(int(value), argument.dtype, (rows, columns), kernel.box, kernel.swizzle)
    number = np.uint64(int(value)) if argument.shape else value
    return bytes(number.tobytes())


# ---------------------------------------------------------------------------------------------- launching


@dataclass(frozen=True)
class ReadyKernel:
    """One kernel, ready: calling it launches it once, asynchronously. It keeps the memory that it works on."""

    function: Any
    parameters: np.void
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int  # bytes of dynamic shared memory
    buffers: Buffers

    def __call__(self) -> None:
        given = (self.parameters,) if self.parameters.itemsize else ()
        self.function(*given, grid=self.grid, block=self.block, shared=self.shared)


def launcher(family: Family, kernel: Kernel, problem: Problem, code: bytes, buffers: Buffers) -> ReadyKernel:
    """Load the kernel and lay out its parameters. Raises UsageError where they or the launch do not fit it."""
    cubin = Cubin(code, family.source(kernel).name)
    name = kernel.entry if family.shipped else symbols.find(cubin, kernel.entry)
    values = buffers.parameters(family, kernel, problem)
    if not family.shipped:
        argument_check.refuse_mismatch(cubin, name, family.arguments, [len(value) for value in values])
    function = cuda.module_from_buffer(code).get_function(name)
    grid, block = family.geometry(problem)
    shared = family.shared_memory(kernel, problem)
    launch_limits.refuse_oversized(kernel.name, block, shared, _limits(function))
    function.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
    return ReadyKernel(function, parameters.pack(cubin, name, values), grid, block, shared, buffers)


def _limits(function: Any) -> launch_limits.Limits:
    attribute = cuda.function_attribute
    return launch_limits.Limits(
        threads=function.get_attribute(attribute.MAX_THREADS_PER_BLOCK),
        shared=gpu.shared_memory_per_block(),
        static=function.get_attribute(attribute.SHARED_SIZE_BYTES),
    )


def time_launches(launches: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Return the milliseconds of each launch, `repeats` samples, the kernels taking turns.

    A GPU at its power limit lowers its clock within tens of milliseconds, and by how much depends on the kernel. So
    each runs for a while before it is timed, or it would be timed at the clock of the kernel before it.
    """
    rough = {name: _roughly(launch) for name, launch in launches.items()}
    times: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(repeats):
        for name, launch in launches.items():
            _time(launch, math.ceil(SETTLE_MS / rough[name]))
            times[name].append(_time(launch, math.ceil(SAMPLE_MS / rough[name])))
    return times


def _roughly(launch: Callable[[], Any]) -> float:
    _time(launch, WARM_UP)
    return _time(launch, WARM_UP)


def _time(launch: Callable[[], Any], count: int) -> float:
    start, end = cuda.Event(), cuda.Event()
    start.record()
    for _ in range(count):
        launch()
    end.record()
    end.synchronize()
    return float(start.time_till(end)) / count


def synchronize() -> None:
    """Wait for everything launched so far; a launch that failed says so here."""
    cuda.Context.synchronize()


def copier(bytes_: int) -> Callable[[], Any]:
    """Return a copy that moves so many bytes in all, half of them in and half of them out: what memory can do."""
    source, target = (cuda.mem_alloc(bytes_ // 2) for _ in range(2))
    return lambda: cuda.memcpy_dtod_async(target, source, bytes_ // 2, None)


def profile_once(launch: Callable[[], Any], family: Family, problem: Problem) -> None:
    """Launch inside the range that ncu's ``--profile-from-start off`` waits for, over buffers as before a launch."""
    launch()  # warm, outside the range
    if isinstance(launch, ReadyKernel):
        launch.buffers.reset(family, problem)
    cuda.Context.synchronize()
    cuda.start_profiler()
    launch()
    cuda.Context.synchronize()
    cuda.stop_profiler()
