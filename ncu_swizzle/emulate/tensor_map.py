"""Tensor maps without a driver: their 128 bytes, and how many bytes a copy by one of them moves.

The encoding is documented nowhere. Where its fields are was found by encoding maps that differ in one argument
(tests/data/tensor_maps_h100.jsonl.gz). The driver also stores the product of these fields; a map in which the two
differ is not understood.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

BYTES = 128
ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2)  # by the type's code
_MODE, _STEPS, _OUTER_BOX, _PIXELS, _COPIED = 8, 52, 56, 60, 64  # bytes from the map's start
_STRIDES, _HIGH_STRIDES, _SIZES, _PATTERN = 12, 28, 32, 72
_IM2COL = 1  # of the mode word
_CODES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7 | 512, 8 | 512)  # by CUtensorMapDataType
_PATTERN_BYTES = (16, 256, 512, 1024)  # by CUtensorMapSwizzle: what the permutation repeats after


def element_bytes(data_type: int) -> int:
    """Return the size of a CUtensorMapDataType."""
    return ELEMENT_BYTES[_CODES[data_type] & 15]


@dataclass(frozen=True)
class Tiled:
    """The arguments of cuTensorMapEncodeTiled, innermost dimension first; element strides are 1."""

    address: int
    data_type: int  # a CUtensorMapDataType
    sizes: tuple[int, ...]  # elements
    strides: tuple[int, ...]  # bytes, of all dimensions but the innermost; multiples of 16
    box: tuple[int, ...]  # elements
    swizzle: int = 0  # a CUtensorMapSwizzle
    interleave: int = 0
    promotion: int = 0
    fill: int = 0

    def encoded(self) -> bytes:
        """Return the map, 128 bytes, as the driver encodes it."""
        content = bytearray(BYTES)
        code = _CODES[self.data_type]
        mode = len(self.sizes) - 1 << 4 | code << 7 | self.interleave << 11
        mode |= self.swizzle << 13 | self.fill << 15 | self.promotion << 17
        copied = math.prod(self.box) * element_bytes(self.data_type)
        struct.pack_into("<QI", content, 0, self.address, mode)
        for axis, stride in enumerate(self.strides):
            struct.pack_into("<I", content, _STRIDES + 4 * axis, stride >> 4 & 0xFFFFFFFF)
            content[_HIGH_STRIDES + axis // 2] |= stride >> 36 << 4 * (axis % 2)
        for axis, size in enumerate(self.sizes):
            struct.pack_into("<I", content, _SIZES + 4 * axis, size - 1)
        for place, length in enumerate(self.box):
            content[_STEPS + 3 + place] = length - 1
        struct.pack_into("<I", content, _COPIED, copied)
        struct.pack_into("<I", content, _PATTERN, _PATTERN_BYTES[self.swizzle])
        return bytes(content)


def copied_bytes(tensor_map: bytes) -> int | None:
    """Return the bytes that one copy writes to shared memory, those outside of the tensor included; None if unclear."""
    copied = _box_bytes(tensor_map)
    return copied if copied == struct.unpack_from("<I", tensor_map, _COPIED)[0] else None


def completed(tensor_map: bytes) -> bytes:
    """Return a map as the driver encodes it, of one of which only the half that the hardware needs is written.

    One that is not understood is returned as it is.
    """
    copied, mode = _box_bytes(tensor_map), struct.unpack_from("<I", tensor_map, _MODE)[0]
    if copied is None:
        return tensor_map
    content = bytearray(tensor_map[:_COPIED].ljust(BYTES, b"\0"))
    struct.pack_into("<I", content, _COPIED, copied)
    struct.pack_into("<I", content, _PATTERN, _PATTERN_BYTES[mode >> 13 & 3])
    return bytes(content)


def _box_bytes(tensor_map: bytes) -> int | None:
    """Return the bytes of a map's box; None if its type is not a known one."""
    mode, steps, outer, pixels = (
        struct.unpack_from("<I", tensor_map, at)[0] for at in (_MODE, _STEPS, _OUTER_BOX, _PIXELS)
    )
    rank, code = (mode >> 4 & 7) + 1, mode >> 7 & 15
    if code >= len(ELEMENT_BYTES):
        return None
    inner = (steps >> 24) + 1  # elements of a box row, or channels
    if mode & _IM2COL:
        elements = inner * ((pixels & 0x3FF) + 1)
    else:
        box = [inner, *((outer >> 8 * axis & 0xFF) + 1 for axis in range(rank - 1))]
        elements = math.prod(-(-size // ((steps >> 3 * axis & 7) + 1)) for axis, size in enumerate(box))
    return int(elements * ELEMENT_BYTES[code])
