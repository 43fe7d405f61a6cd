"""Tensor maps: TMA's descriptors of matrices, encoded by the CUDA driver.

CUDA driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import ctypes

from ncu_swizzle.errors import BadCatalog, EnvironmentLacking

BYTES = 128
ALIGNMENT = 64
DATA_TYPES = {"uint8": 0, "uint16": 1, "int32": 3, "float16": 6, "float32": 7, "bfloat16": 9,
              "float8_e4m3fn": 0, "float8_e5m2": 0}  # fmt: skip
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # by width in bytes: the hardware permutes 16-byte chunks within it
L2_PROMOTION_256B = 3


def encode(address: int, dtype: str, shape: tuple[int, int], box: tuple[int, ...], swizzle: int) -> bytes:
    """Return the CUtensorMap of a row-major matrix in global memory: 128 opaque bytes, passed to a kernel by value.

    `shape` and `box` are (rows, columns) in elements; `swizzle` is in bytes, and a box row may not be wider. Raises
    BadCatalog if the driver rejects it, EnvironmentLacking if the driver does not support tensor maps.
    """
    if dtype not in DATA_TYPES or swizzle not in SWIZZLES or len(box) != 2:
        raise BadCatalog(
            f"there is no tensor map for {dtype} with box {list(box)} and a {swizzle}-byte swizzle",
            f"dtypes: {', '.join(DATA_TYPES)}; swizzle: {', '.join(map(str, SWIZZLES))}; box: [rows, columns]",
        )
    itemsize = {"int32": 4, "float32": 4}.get(dtype, 1 if DATA_TYPES[dtype] == 0 else 2)
    storage = (ctypes.c_byte * (BYTES + ALIGNMENT))()
    offset = -ctypes.addressof(storage) % ALIGNMENT
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(ctypes.addressof(storage) + offset),
        ctypes.c_int(DATA_TYPES[dtype]),
        ctypes.c_uint32(2),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * 2)(shape[1], shape[0]),  # innermost first
        (ctypes.c_uint64 * 1)(shape[1] * itemsize),
        (ctypes.c_uint32 * 2)(box[1], box[0]),
        (ctypes.c_uint32 * 2)(1, 1),
        ctypes.c_int(0),  # not interleaved
        ctypes.c_int(SWIZZLES[swizzle]),
        ctypes.c_int(L2_PROMOTION_256B),
        ctypes.c_int(0),  # out of bounds reads as zero
    )
    if status:
        raise BadCatalog(
            f"the driver rejects a tensor map of {shape[0]}x{shape[1]} {dtype}, box {list(box)}, "
            f"swizzle {swizzle} (error {status})",
            "a box row must fit in the swizzle width, and a matrix row must be a multiple of 16 bytes",
        )
    return bytes(storage)[offset : offset + BYTES]


def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuTensorMapEncodeTiled  # noqa: B018 - an AttributeError where the driver is too old
    except (OSError, AttributeError) as error:
        raise EnvironmentLacking(
            f"the NVIDIA driver cannot encode tensor maps: {error}", "install a driver for CUDA 12 or newer"
        ) from error
    return driver
