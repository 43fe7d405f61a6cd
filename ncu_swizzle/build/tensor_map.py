"""Tensor maps: TMA's descriptors of matrices, encoded by the CUDA driver.

CUDA driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import ctypes
import math

from ncu_swizzle.emulate.tensor_map import BYTES, Tiled, element_bytes
from ncu_swizzle.errors import BadCatalog, EnvironmentLacking

ALIGNMENT = 64
DATA_TYPES = {
    "uint8": 0,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
    "uint16": 1,
    "int32": 3,
    "float16": 6,
    "float32": 7,
    "bfloat16": 9,
}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # by width in bytes: the hardware permutes 16-byte chunks within it
L2_PROMOTION_256B = 3
CHUNK = 16  # bytes
MOST_BOX = 256  # elements of one side


def tiled(address: int, dtype: str, shape: tuple[int, ...], box: tuple[int, ...], swizzle: int) -> Tiled:
    """Return the map of a row-major matrix in global memory, or of several, of three dimensions then.

    `box` is (rows, columns) of one matrix, in elements; `swizzle` is in bytes, and a box row may not be wider. Raises
    BadCatalog if there is no such map.
    """
    if dtype not in DATA_TYPES or swizzle not in SWIZZLES or len(box) != 2:
        raise BadCatalog(
            f"there is no tensor map for {dtype} with box {list(box)} and a {swizzle}-byte swizzle",
            f"dtypes: {', '.join(DATA_TYPES)}; swizzle: {', '.join(map(str, SWIZZLES))}; box: [rows, columns]",
        )
    itemsize = element_bytes(DATA_TYPES[dtype])
    *outer, rows, columns = shape
    row, width = columns * itemsize, box[1] * itemsize
    several = bool(outer)
    if row % CHUNK or width % CHUNK or not all(1 <= side <= MOST_BOX for side in box) or 0 < swizzle < width:
        raise _rejected(f"{rows}x{columns} {dtype}, box {list(box)}, swizzle {swizzle}")
    return Tiled(
        address,
        DATA_TYPES[dtype],
        (columns, rows, *[math.prod(outer)] * several),
        (row, *[rows * row] * several),
        (box[1], box[0], *[1] * several),
        swizzle=SWIZZLES[swizzle],
        promotion=L2_PROMOTION_256B,
    )


def encode(tile: Tiled) -> bytes:
    """Return the CUtensorMap: 128 opaque bytes, passed to a kernel by value.

    Raises BadCatalog if the driver rejects it, EnvironmentLacking if the driver does not support tensor maps.
    """
    storage = (ctypes.c_byte * (BYTES + ALIGNMENT))()
    offset = -ctypes.addressof(storage) % ALIGNMENT
    rank = len(tile.sizes)
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(ctypes.addressof(storage) + offset),
        ctypes.c_int(tile.data_type),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(tile.address),
        (ctypes.c_uint64 * rank)(*tile.sizes),
        (ctypes.c_uint64 * (rank - 1))(*tile.strides),
        (ctypes.c_uint32 * rank)(*tile.box),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        *map(ctypes.c_int, (tile.interleave, tile.swizzle, tile.promotion, tile.fill)),
    )

    if status:
        raise _rejected(f"{tile} (error {status})")
    return bytes(storage)[offset : offset + BYTES]


def _rejected(what: str) -> BadCatalog:
    return BadCatalog(
        f"the driver rejects a tensor map of {what}",
        "a box has at most 256x256 elements, its row fits in the swizzle width, and both its row and the matrix's are "
        "multiples of 16 bytes",
    )


def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuTensorMapEncodeTiled  # noqa: B018 - an AttributeError where the driver is too old
    except (OSError, AttributeError) as error:
        raise EnvironmentLacking(
            f"the NVIDIA driver cannot encode tensor maps: {error}", "install a driver for CUDA 12 or newer"
        ) from error
    return driver
