"""Kernels compiled, launched and timed on the GPU, through PyCUDA, which nothing else imports.

A kernel is launched once for its output, and once under ncu.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ncu_swizzle.base import child
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, UsageError
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.cubin import elf, names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import check, fills, limits
from ncu_swizzle.kernels.device import driver_version, shared_memory_per_block
from ncu_swizzle.kernels.family import Argument, Family, Kernel, Problem, Target
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.toolchain import Refused, nvcc_release

try:
    from pycuda import compiler, driver
except ImportError as _error:  # raised by open_device: the launching program reports all errors the same way
    cuda: Any = None
    nvcc: Any = None
    _missing: Exception | None = _error
    CUDA_ERRORS: tuple[type[Exception], ...] = ()
else:
    cuda, nvcc = driver, compiler
    _missing = None
    CUDA_ERRORS = (cuda.Error,)


def open_device() -> Any:
    """Make the primary context current (PyTorch shares it) and return the device."""
    if cuda is None:
        raise EnvironmentLacking(
            f"PyCUDA cannot be imported: {_missing}", "pip install 'ncu-swizzle[gpu]' (it needs the CUDA toolkit)"
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
    """Return the GPU and the software versions, for the facts."""
    return {
        "gpu": device.name(),
        "compute_capability": "{}.{}".format(*device.compute_capability()),
        "sm_count": device.multiprocessor_count,
        "driver": driver_version(),
        "cuda": nvcc_version(),
    }


def refuse_older(device: Any, family: Family) -> None:
    """Raise EnvironmentLacking if the GPU is older than the family's kernels require."""
    if device.compute_capability() < family.compute_capability:
        has, needs = (
            ".".join(map(str, version)) for version in (device.compute_capability(), family.compute_capability)
        )
        raise EnvironmentLacking(
            f"the family {family.name} needs compute capability {needs}, but {device.name()} has {has}",
            "--engine emulated needs no GPU"
            if family.never_run
            else "--engine recorded shows a recording from a GPU that has it",
        )


def refuse_other_architecture(device: Any, family: Family, kernel: Kernel) -> None:
    """Raise UsageError if the GPU cannot run the architecture that the kernel is compiled for."""
    major, minor = device.compute_capability()
    arch = family.architecture(kernel, "")
    number = int(arch.strip("sm_af") or 0)
    # Code runs on GPUs of its major version with the same or a higher minor one, also family-specific code (sm_100f);
    # architecture-specific code (sm_90a) only on its own. CUDA programming guide, compute capabilities.
    runs = number // 10 == major and number % 10 <= minor
    if number and not (runs and (arch[-1] != "a" or number % 10 == minor)):
        raise UsageError(
            f"{device.name()} is sm_{major}{minor}: it does not run code for {arch}",
            "--engine emulated computes its wavefronts without one",
        )


def synchronize() -> None:
    """Wait for all launches; raise the error of one that failed."""
    cuda.Context.synchronize()


# Compile kernels with the nvcc on PATH, through PyCUDA.

TIMEOUT_S = 60.0
PATH_HINT = "put the CUDA toolkit's bin folder on PATH"


@cache
def nvcc_version() -> str:
    try:
        ended = child.run(["nvcc", "--version"], TIMEOUT_S, with_stderr=False)
    except NcuSwizzleError as error:
        raise EnvironmentLacking(f"nvcc does not work: {error}", PATH_HINT) from error
    if ended.status:
        raise EnvironmentLacking(f"nvcc --version exited with code {ended.status}", PATH_HINT)
    return nvcc_release(ended.log) or ended.log.strip()


class PyCudaCompiler:
    """The nvcc on PATH, run by PyCUDA."""

    def version(self) -> str:
        """Return nvcc's release and build, such as 13.0 (V13.0.88)."""
        return nvcc_version()

    def compile(self, unit: str, options: Sequence[str], arch: str, include: Sequence[Path]) -> bytes:
        """Return the cubin of a translation unit; raise Refused."""
        try:
            # PyCUDA warns about anything that nvcc prints on stderr, and leaves its folder behind where nvcc fails.
            with warnings.catch_warnings(), _temporary_files_that_go():
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


@contextlib.contextmanager
def _temporary_files_that_go() -> Iterator[None]:
    """Let this process make temporary files in a folder that is removed at the end."""
    with scratch() as folder:
        before, tempfile.tempdir = tempfile.tempdir, str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = before


def _compiler_log(error: Any) -> str:
    """Return nvcc's output without PyCUDA's message around it."""
    streams = [getattr(error, stream, None) or "" for stream in ("stdout", "stderr")]
    return "".join(streams).strip() or str(error)


# The arguments of a kernel in host and GPU memory.

POISON = 0xFF  # every byte of an output before a launch: NaN in all floating-point formats


@dataclass(frozen=True)
class Buffers:
    """The arguments of a family's kernels: the buffers' initial contents on the host, and all arguments on the GPU."""

    inputs: Mapping[str, np.ndarray]
    device: tuple[Any, ...]

    @classmethod
    def upload(cls, family: Family, problem: Problem, inputs: fills.Inputs) -> Buffers:
        """Allocate all buffers and copy the inputs; other outputs stay uninitialized until `reset`."""
        device: list[Any] = []
        for argument in family.arguments:
            if not argument.shape:
                device.append(fills.scalar(argument, problem))
            elif argument.name in inputs:
                device.append(cuda.to_device(_bytes(inputs[argument.name])))
            else:
                device.append(cuda.mem_alloc(fills.size(argument, problem)))
        return cls(inputs, tuple(device))

    def reset(self, family: Family, problem: Problem) -> None:
        """Poison the outputs; those with initial contents get them back."""
        for argument, pointer in zip(family.arguments, self.device, strict=True):
            if argument.output and argument.name in self.inputs:
                cuda.memcpy_htod(pointer, _bytes(self.inputs[argument.name]))
            elif argument.output:
                cuda.memset_d8(pointer, POISON, fills.size(argument, problem))

    def parameters(self, family: Family, kernel: Kernel, problem: Problem) -> list[bytes]:
        """Return the values of the kernel's parameters."""
        pairs = list(zip(family.arguments, self.device, strict=True))
        addresses = {argument.name: int(pointer) for argument, pointer in pairs if argument.shape}
        return [
            fills.pointing(argument, _parameter(argument, value, kernel, problem), addresses)
            for argument, value in pairs
            if argument.passed
        ]

    def output(self, argument: Argument, family: Family, problem: Problem) -> np.ndarray:
        host = np.empty(fills.shape(argument, problem), fills.numpy_dtype(argument.dtype))
        cuda.memcpy_dtoh(host.view(np.uint8), self.device[family.arguments.index(argument)])
        return host


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


def _parameter(argument: Argument, value: Any, kernel: Kernel, problem: Problem) -> bytes:
    boxed = kernel.boxed(argument)
    if boxed.tensor_map:
        shape = fills.shape(argument, problem)
        return check.encode(check.tiled(int(value), argument.dtype, shape, boxed.box, boxed.swizzle))
    number = np.uint64(int(value)) if argument.shape else value
    return bytes(number.tobytes())


@dataclass(frozen=True, kw_only=True)
class ReadyKernel:
    """A kernel ready to launch: calling it launches it once, asynchronously. It keeps its buffers alive."""

    function: Any
    parameters: np.void
    launch: LaunchShape
    buffers: Buffers

    def __call__(self) -> None:
        parameters = (self.parameters,) if self.parameters.itemsize else ()
        self.function(*parameters, grid=self.launch.grid, block=self.launch.block, shared=self.launch.shared)


def launcher(family: Family, kernel: Kernel, problem: Problem, code: bytes, buffers: Buffers) -> ReadyKernel:
    """Load the kernel and lay out its parameters. Raises UsageError if the arguments or the launch do not fit."""
    launch = Target(family, kernel, problem).launch
    if launch.cluster:
        raise UsageError(
            f"{kernel.name} is launched in clusters of {'x'.join(map(str, launch.cluster))} blocks; its cubin does not "
            "say so, and PyCUDA launches no others",
            "--engine emulated computes its wavefronts; ncu-swizzle profile -- python3 PROGRAM measures a program's",
        )
    cubin = Cubin(code, family.source(kernel).name)
    name = kernel.entry if family.shipped else names.find(cubin, kernel.entry)
    values = buffers.parameters(family, kernel, problem)
    if not family.shipped:
        sizes, source = [len(value) for value in values], partial(check.declaring_text, family, kernel)
        passed = [argument for argument in family.arguments if argument.passed]
        check.refuse_mismatch(cubin, name, passed, sizes, source)
    function = cuda.module_from_buffer(code).get_function(name)
    limits.refuse_oversized(kernel.name, launch, _limits(function))
    function.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared)
    return ReadyKernel(function=function, parameters=elf.pack(cubin, name, values), launch=launch, buffers=buffers)


def _limits(function: Any) -> limits.Limits:
    attribute = cuda.function_attribute
    return limits.Limits(
        threads=function.get_attribute(attribute.MAX_THREADS_PER_BLOCK),
        shared=shared_memory_per_block(),
        static=function.get_attribute(attribute.SHARED_SIZE_BYTES),
    )


def profile_once(launch: Callable[[], Any], family: Family, problem: Problem) -> None:
    """Launch inside the range that ncu's ``--profile-from-start off`` waits for, with freshly reset buffers."""
    launch()  # warm, outside the range
    if isinstance(launch, ReadyKernel):
        launch.buffers.reset(family, problem)
    cuda.Context.synchronize()
    cuda.start_profiler()
    launch()
    cuda.Context.synchronize()
    cuda.stop_profiler()


# Time launches with CUDA events.

WARM_UP = 5
SETTLE_MS = 200.0  # untimed run before each sample, until the clock settles for this kernel
SAMPLE_MS = 20.0  # the shortest sample: long enough to hide launch overhead


def time_launches(launches: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Return `repeats` samples of each kernel's time per launch in milliseconds; the kernels take turns.

    At its power limit a GPU lowers its clock within tens of milliseconds, and by how much depends on the kernel. So
    each kernel runs for a while before it is timed; otherwise it would run at the previous kernel's clock.
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


def copier(bytes_: int) -> Callable[[], Any]:
    """Return a device copy that moves this many bytes, half read and half written: the memory roofline."""
    source, target = (cuda.mem_alloc(bytes_ // 2) for _ in range(2))
    return lambda: cuda.memcpy_dtod_async(target, source, bytes_ // 2, None)
