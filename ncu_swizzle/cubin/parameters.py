"""A kernel's parameters, laid out as its compiler wants them.

PyCUDA packs arguments as plain C would. A parameter of larger alignment, such as a CUtensorMap, lies elsewhere: only
the cubin knows where. It says so in the section ``.nv.info.<function>``, one EIATTR_KPARAM_INFO per parameter, as
``cuobjdump -elf`` prints them.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence

import numpy as np
from elftools.elf.elffile import ELFFile

from ncu_swizzle.errors import ProgramFailed

FORMAT_SIZED = 4  # an attribute that is followed by so many bytes; the others hold their value themselves
PARAMETER = 0x17
SIZE_SHIFT = 18  # of a parameter's size, in bytes, in its attribute's last word


def layout(cubin: bytes, function: str) -> list[tuple[int, int]]:
    """Return the offset and the size of each parameter of the function, in bytes and in order."""
    section = ELFFile(io.BytesIO(cubin)).get_section_by_name(f".nv.info.{function}")
    if section is None:
        raise ProgramFailed(f"no kernel {function} was compiled", "compare the variant's name with its function's")
    return [(offset, size) for _, offset, size in sorted(_parameters(section.data()))]


def _parameters(info: bytes) -> Iterator[tuple[int, int, int]]:
    for attribute, value in attributes(info):
        if attribute == PARAMETER:
            _, ordinal, offset, last = struct.unpack("<IHHI", value)
            yield ordinal, offset, last >> SIZE_SHIFT


def attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the value of each attribute of a .nv.info section; raise struct.error if it is damaged."""
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        sized = form == FORMAT_SIZED
        yield attribute, info[at : at + size] if sized else info[at - 2 : at]
        at += size if sized else 0


def pack(cubin: bytes, function: str, arguments: Sequence[bytes]) -> np.void:
    """Return the parameter buffer for a launch; raise ProgramFailed where the arguments do not fit the function."""
    places = layout(cubin, function)
    sizes = [size for _, size in places]
    if sizes != [len(argument) for argument in arguments]:
        raise ProgramFailed(
            f"{function} takes parameters of {sizes} bytes, and family.toml describes "
            f"{[len(argument) for argument in arguments]}",
            "name every parameter of the kernel as an [[argument]], in its order",
        )
    buffer = bytearray(max((offset + size for offset, size in places), default=0))
    for (offset, size), argument in zip(places, arguments, strict=True):
        buffer[offset : offset + size] = argument
    return np.void(bytes(buffer))
