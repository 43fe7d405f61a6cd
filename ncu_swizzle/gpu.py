"""Is there a GPU to measure on? Asked of the driver itself, without PyCUDA."""

from __future__ import annotations

import ctypes

SHARED_PER_BLOCK = 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN


def absent() -> str:
    """Return why nothing can be measured here, or an empty text where a CUDA device answers."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver (libcuda.so.1 is not there)"
    status = driver.cuInit(0)
    if status:
        return f"the NVIDIA driver finds no usable GPU (error {status})"
    count = ctypes.c_int()
    status = driver.cuDeviceGetCount(ctypes.byref(count))
    return "" if status == 0 and count.value else "the NVIDIA driver finds no GPU"


def shared_memory_per_block() -> int:
    """Return the bytes of shared memory that a block of the first GPU can have, if it asks for them; 0 if unknown."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    device, value = ctypes.c_int(), ctypes.c_int()
    status = driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0)
    status = status or driver.cuDeviceGetAttribute(ctypes.byref(value), SHARED_PER_BLOCK, device)
    return 0 if status else value.value
