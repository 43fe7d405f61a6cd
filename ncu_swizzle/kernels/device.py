"""Which GPUs there are, from the driver itself, without PyCUDA."""

from __future__ import annotations

import ctypes
import re
import threading
import uuid
from functools import cache
from pathlib import Path

SHARED_PER_BLOCK = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN


@cache
def absent() -> str:
    """Return why nothing can be measured here; empty if there is a CUDA device."""
    try:
        status = _driver().cuInit(0)
    except OSError:
        return "no NVIDIA driver (libcuda.so.1 not found)"
    if status:
        return f"the NVIDIA driver finds no usable GPU (error {status})"
    return "" if _count() else "the NVIDIA driver finds no GPU"


def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _count() -> int:
    count = ctypes.c_int()
    return 0 if _driver().cuDeviceGetCount(ctypes.byref(count)) else count.value


def ask_ahead() -> None:
    """Initialize the driver in the background: it takes a tenth of a second."""
    threading.Thread(target=absent, daemon=True).start()


_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


def devices() -> list[tuple[str, tuple[int, int]]]:
    """Return the name and compute capability of each GPU; none if `absent` gives a reason."""
    if absent():
        return []
    return [(_name(device), (_attribute(device, _MAJOR), _attribute(device, _MINOR))) for device in range(_count())]


def _name(device: int) -> str:
    text = ctypes.create_string_buffer(256)
    return "unknown" if _driver().cuDeviceGetName(text, len(text), device) else text.value.decode("utf-8", "replace")


def _attribute(device: int, number: int) -> int:
    """Return one of a device's attributes; 0 if it is not known."""
    value = ctypes.c_int()
    return 0 if _driver().cuDeviceGetAttribute(ctypes.byref(value), number, device) else value.value


def identities() -> list[tuple[str, str]]:
    """Return the UUID, as nvidia-smi spells it, and the name of each GPU that this process may use, in its order."""
    return [] if absent() else [(_uuid(device), _name(device)) for device in range(_count())]


def _uuid(device: int) -> str:
    raw, driver = (ctypes.c_ubyte * 16)(), _driver()
    get = getattr(driver, "cuDeviceGetUuid_v2", driver.cuDeviceGetUuid)  # _v2 tells instances of a shared GPU apart
    return "" if get(raw, device) else f"GPU-{uuid.UUID(bytes=bytes(raw))}"


def shared_memory_per_block() -> int:
    """Return the most bytes of shared memory that a block can opt in to on the first GPU; 0 if unknown."""
    return 0 if absent() else _attribute(0, SHARED_PER_BLOCK)


def driver_version() -> str:
    """Return the display driver's version, such as 580.159.04; empty if it cannot be read."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return ""
    version = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    return version[1] if version else ""
