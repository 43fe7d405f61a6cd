"""How many bytes a copy by a tensor map moves, from the 128 bytes that the CUDA driver encodes it in.

The encoding is documented nowhere. Where its fields are was found by encoding maps that differ in one argument
(tests/data/tensor_maps_h100.jsonl.gz). The driver also stores the product of these fields; a map in which the two
differ is not understood.
"""

from __future__ import annotations

import math
import struct

BYTES = 128
ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2)  # by the type's code
_MODE, _STEPS, _OUTER_BOX, _PIXELS, _COPIED = 8, 52, 56, 60, 64  # bytes from the map's start
_IM2COL = 1  # of the mode word


def copied_bytes(tensor_map: bytes) -> int | None:
    """Return the bytes that one copy writes to shared memory, those outside of the tensor included; None if unclear."""
    mode, steps, outer, pixels, stored = (
        struct.unpack_from("<I", tensor_map, at)[0] for at in (_MODE, _STEPS, _OUTER_BOX, _PIXELS, _COPIED)
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
    return stored if elements * ELEMENT_BYTES[code] == stored else None
