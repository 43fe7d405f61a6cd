"""Which GPUs there are, from the driver itself, without PyCUDA."""

from __future__ import annotations

import ctypes
import threading
import uuid
from functools import cache

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
