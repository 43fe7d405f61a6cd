"""Parameters passed by value that are neither a number nor a pointer: structs, and CUtensorMaps.

    p=struct:int32:4,float32:1.5,bytes:8                  fields in order, aligned as in C
    m=tensormap:float16[n,k]:random:box=64x64:swizzle=128     a matrix, through a map made for it

Commas and colons need no quotes in a shell. A front end writes fields ``pointer:BUFFER+BYTES`` too.
"""

from __future__ import annotations

import re
import struct as struct_
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ncu_swizzle.catalog.family import STRUCT, Argument
from ncu_swizzle.errors import UsageError

MAP = "tensormap"
POINTER = "pointer"  # in place of a field's dtype: an address in the buffer that its value names
SWIZZLES = (0, 32, 64, 128)  # bytes
_BOX, _SWIZZLE = re.compile(r"\s*(\d+)\s*[x,]\s*(\d+)\s*"), re.compile(r"\s*(\d+)\s*")

Reader = Callable[[str], Argument]  # of the text of an argument without its name


def struct(name: str, text: str, read: Reader) -> Argument:
    """Return a struct of the fields in a text, each read as an argument of its own. Raises UsageError."""
    fields = [read(part) for part in text.split(",")]
    for number, field in enumerate(fields, 1):
        if field.shape or field.fill or field.dtype == STRUCT:
            raise UsageError(
                f"argument {name}: field {number} is not a number: a pointer in a struct is one of 8 bytes",
                f"--arg {name}=struct:uint64:0,int32:4, or its bytes from a file: {name}=bytes:FILE",
            )
    return Argument(name, STRUCT, value=",".join(f"{field.dtype}:{field.value}" for field in fields))


def fields_of(argument: Argument) -> list[Argument]:
    """Return the fields of a struct."""
    parts = (part.partition(":") for part in argument.value.split(","))
    return [Argument(argument.name, dtype, value=value) for dtype, _, value in parts]


def packed(values: list[np.generic]) -> bytes:
    """Return a struct's bytes: every field aligned to its size, the whole to its widest field, gaps zero."""
    dtypes = [value.dtype for value in values]
    layout = np.dtype([(f"f{number}", dtype) for number, dtype in enumerate(dtypes)], align=True)
    content = bytearray(layout.itemsize)
    for value, name in zip(values, layout.names or (), strict=True):
        offset = layout.fields[name][1] if layout.fields else 0
        content[offset : offset + value.dtype.itemsize] = value.tobytes()
    return bytes(content)


def pointing(argument: Argument, content: bytes, addresses: Mapping[str, int]) -> bytes:
    """Return a struct's bytes with the addresses of the buffers that its fields point to, all of 8 bytes then."""
    if argument.dtype != STRUCT or f"{POINTER}:" not in argument.value:
        return content
    pointed = bytearray(content)
    for number, field in enumerate(fields_of(argument)):
        if field.dtype == POINTER:
            name, _, offset = field.value.rpartition("+")
            struct_.pack_into("<Q", pointed, number * 8, addresses[name] + int(offset))
    return bytes(pointed)


def tensor_map(name: str, text: str, read: Reader) -> Argument:
    """Return a matrix that the kernel gets as a CUtensorMap. Raises UsageError."""
    parts = text.split(":")
    given: dict[str, str] = {}
    while (last := parts[-1].partition("="))[1] and last[0].strip() in ("box", "swizzle"):
        given[last[0].strip()] = last[2]
        parts.pop()
    argument = read(":".join(parts))
    box, swizzle = _BOX.fullmatch(given.get("box", "")), _SWIZZLE.fullmatch(given.get("swizzle", "0"))
    if len(argument.shape) != 2 or box is None or swizzle is None or int(swizzle[1]) not in SWIZZLES:
        raise UsageError(
            f"argument {name} is not a valid tensor map: it takes a matrix, a box of rows x columns, and a swizzle of "
            f"{', '.join(map(str, SWIZZLES))} bytes",
            f"--arg {name}={MAP}:float16[64,64]:random:box=64x64:swizzle=128",
        )
    return replace(argument, tensor_map=True, box=(int(box[1]), int(box[2])), swizzle=int(swizzle[1]))


def map_text(argument: Argument, matrix: str) -> str:
    """Return a tensor map as it is written, given its matrix as that is."""
    rows, columns = argument.box
    return f"{MAP}:{matrix}:box={rows}x{columns}:swizzle={argument.swizzle}"
