"""Tensor maps: what TMA has to know of a matrix, encoded by the CUDA driver.

CUDA driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import ctypes

from ncu_swizzle.errors import BadCatalog, EnvironmentLacking

BYTES = 128
ALIGNMENT = 64
DATA_TYPES = {"uint8": 0, "uint16": 1, "int32": 3, "float16": 6, "float32": 7, "bfloat16": 9}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # bytes of a row that the hardware permutes 16-byte chunks within
L2_PROMOTION_256B = 3


def encode(address: int, dtype: str, shape: tuple[int, int], box: tuple[int, ...], swizzle: int) -> bytes:
    """Return the CUtensorMap of a row-major matrix in global memory, 128 opaque bytes that a kernel takes by value.

    `shape` and `box` are (rows, columns) in elements; `swizzle` is in bytes, and no box row may be wider. Raises
    BadCatalog where the driver refuses, EnvironmentLacking where it knows no tensor maps.
    """
    if dtype not in DATA_TYPES or swizzle not in SWIZZLES or len(box) != 2:
        raise BadCatalog(
            f"no tensor map of {dtype} with a box of {list(box)} and a swizzle of {swizzle} bytes",
            f"dtypes: {', '.join(DATA_TYPES)}; swizzle: {', '.join(map(str, SWIZZLES))}; box: [rows, columns]",
        )
    itemsize = {"uint8": 1, "int32": 4, "float32": 4}.get(dtype, 2)
    storage = (ctypes.c_byte * (BYTES + ALIGNMENT))()
    offset = -ctypes.addressof(storage) % ALIGNMENT
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(ctypes.addressof(storage) + offset),
        ctypes.c_int(DATA_TYPES[dtype]),
        ctypes.c_uint32(2),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * 2)(shape[1], shape[0]),  # the innermost first
        (ctypes.c_uint64 * 1)(shape[1] * itemsize),
        (ctypes.c_uint32 * 2)(box[1], box[0]),
        (ctypes.c_uint32 * 2)(1, 1),
        ctypes.c_int(0),  # not interleaved
        ctypes.c_int(SWIZZLES[swizzle]),
        ctypes.c_int(L2_PROMOTION_256B),
        ctypes.c_int(0),  # zeros beyond the matrix
    )
    if status:
        raise BadCatalog(
            f"the driver refuses a tensor map of {shape[0]}x{shape[1]} {dtype}, box {list(box)}, "
            f"swizzle {swizzle} (error {status})",
            "a box row is at most as wide as the swizzle; a matrix row is a multiple of 16 bytes",
        )
    return bytes(storage)[offset : offset + BYTES]


def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuTensorMapEncodeTiled  # noqa: B018 - an AttributeError where the driver is too old
    except (OSError, AttributeError) as error:
        raise EnvironmentLacking(
            f"the NVIDIA driver cannot encode tensor maps: {error}", "TMA needs a driver for CUDA 12 or newer"
        ) from error
    return driver
