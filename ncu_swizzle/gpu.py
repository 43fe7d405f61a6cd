"""Is there a GPU to measure on? Asked of the driver itself, without PyCUDA."""

from __future__ import annotations

import ctypes


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
