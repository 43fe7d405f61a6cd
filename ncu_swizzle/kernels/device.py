"""The GPU, through PyCUDA: open it, describe it, wait for it. The only importer of PyCUDA."""

from __future__ import annotations

import atexit
import re
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import EnvironmentLacking, UsageError
from ncu_swizzle.kernels.family import Family, Kernel

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
            "--engine recorded shows a recording from a GPU that has it",
        )


def refuse_other_architecture(device: Any, family: Family, kernel: Kernel) -> None:
    """Raise UsageError if the GPU cannot run the architecture that the kernel is compiled for."""
    major, minor = device.compute_capability()
    arch = family.architecture(kernel, "")
    number = int(arch.strip("sm_af") or 0)
    # Code runs on GPUs of its major version with the same or a higher minor one; specific code, such as sm_90a, only on
    # its own.
    runs = number // 10 == major and number % 10 <= minor
    if number and not (runs and (arch[-1].isdigit() or number % 10 == minor)):
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
