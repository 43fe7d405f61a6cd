"""The GPU, through PyCUDA, which nothing else imports: which there are; a kernel loaded and launched.

It is launched once for its output, and once under ncu.
"""

from __future__ import annotations

import atexit
import ctypes
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ncu_swizzle.base.errors import EnvironmentLacking, UsageError
from ncu_swizzle.cubin import elf, names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import check, fills, limits
from ncu_swizzle.kernels.family import Argument, Family, Kernel, Problem, Target
from ncu_swizzle.kernels.limits import LaunchShape

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


def describe(device: Any, nvcc_version: str) -> dict[str, Any]:
    """Return the GPU and the software versions, for the facts."""
    return {
        "gpu": device.name(),
        "compute_capability": "{}.{}".format(*device.compute_capability()),
        "sm_count": device.multiprocessor_count,
        "driver": driver_version(),
        "cuda": nvcc_version,
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


def driver_version() -> str:
    """Return the display driver's version, such as 580.159.04; empty if it cannot be read."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return ""
    version = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    return version[1] if version else ""


def synchronize() -> None:
    """Wait for all launches; raise the error of one that failed."""
    cuda.Context.synchronize()


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


# Which GPUs there are, from the driver itself, without PyCUDA.

SHARED_PER_BLOCK = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN


@cache
def absent() -> str:
    """Return why nothing can be measured here; empty if there is a CUDA device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver (libcuda.so.1 not found)"
    status = driver.cuInit(0)
    if status:
        return f"the NVIDIA driver finds no usable GPU (error {status})"
    count = ctypes.c_int()
    status = driver.cuDeviceGetCount(ctypes.byref(count))
    return "" if status == 0 and count.value else "the NVIDIA driver finds no GPU"


def ask_ahead() -> None:
    """Initialize the driver in the background: it takes a tenth of a second."""
    threading.Thread(target=absent, daemon=True).start()


_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


def devices() -> list[tuple[str, tuple[int, int]]]:
    """Return the name and compute capability of each GPU; none if `absent` gives a reason."""
    if absent():
        return []
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    return [(_name(driver, device), _capability(driver, device)) for device in range(count.value)]


def _name(driver: ctypes.CDLL, device: int) -> str:
    text = ctypes.create_string_buffer(256)
    return "unknown" if driver.cuDeviceGetName(text, len(text), device) else text.value.decode("utf-8", "replace")


def _capability(driver: ctypes.CDLL, device: int) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
    return major.value, minor.value


def identities() -> list[tuple[str, str]]:
    """Return the UUID, as nvidia-smi spells it, and the name of each GPU that this process may use, in its order."""
    if absent():
        return []
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    return [(_uuid(driver, device), _name(driver, device)) for device in range(count.value)]


def _uuid(driver: ctypes.CDLL, device: int) -> str:
    raw = (ctypes.c_ubyte * 16)()
    get = getattr(driver, "cuDeviceGetUuid_v2", driver.cuDeviceGetUuid)  # _v2 tells instances of a shared GPU apart
    return "" if get(raw, device) else f"GPU-{uuid.UUID(bytes=bytes(raw))}"


def shared_memory_per_block() -> int:
    """Return the most bytes of shared memory that a block can opt in to on the first GPU; 0 if unknown."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    device, value = ctypes.c_int(), ctypes.c_int()
    status = driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0)
    status = status or driver.cuDeviceGetAttribute(ctypes.byref(value), SHARED_PER_BLOCK, device)
    return 0 if status else value.value


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
