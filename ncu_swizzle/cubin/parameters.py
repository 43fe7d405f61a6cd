"""A kernel's parameter buffer, laid out as the cubin specifies.

PyCUDA packs arguments as plain C would. Parameters with larger alignment, such as a CUtensorMap, have other offsets,
which only the cubin knows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import ProgramFailed


def pack(cubin: Cubin, function: str, arguments: Sequence[bytes]) -> np.void:
    """Return the parameter buffer for a launch; raise ProgramFailed if the arguments do not fit the function."""
    if function not in cubin.kernels:
        raise ProgramFailed(
            f"the compiled source has no kernel {function}", "the variant's name must match its function's"
        )
    slots = cubin.attributes(function).parameters
    sizes = [slot.size for slot in slots]
    given = [len(argument) for argument in arguments]
    if sizes != given:
        raise ProgramFailed(
            f"{function} takes parameters of {sizes} bytes, but family.toml describes {given}",
            "describe every parameter of the kernel as an [[argument]], in order",
        )
    buffer = bytearray(max((slot.offset + slot.size for slot in slots), default=0))
    for slot, argument in zip(slots, arguments, strict=True):
        buffer[slot.offset : slot.offset + slot.size] = argument
    return np.void(bytes(buffer))
