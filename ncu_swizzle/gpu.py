"""Is there a GPU to measure on, and which? Asked of the driver itself, without PyCUDA."""

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


_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


def devices() -> list[tuple[str, tuple[int, int]]]:
    """Return the name and the compute capability of each GPU; none where `absent` says why."""
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
