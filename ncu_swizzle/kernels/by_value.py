"""Parameters passed by value that are neither a number nor a pointer: structs, and CUtensorMaps.

    p=struct:int32:4,float32:1.5,bytes:8                  fields in order, aligned as in C
    m=tensormap:float16[n,k]:random:box=64x64:swizzle=128     a matrix, through a map made for it

Commas and colons need no quotes in a shell. A front end writes fields ``pointer:BUFFER+BYTES`` too.
"""

from __future__ import annotations

import re
import struct as struct_
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ncu_swizzle.base.errors import Hint, Typed, UsageError
from ncu_swizzle.kernels.family import STRUCT, Argument

MAP = "tensormap"
POINTER = "pointer"  # in place of a field's dtype: an address in the buffer that its value names
SWIZZLES = (0, 32, 64, 128)  # bytes
EXAMPLE = "float16[64,64]:random"  # of a matrix
_MATRIX = re.compile(r"\w+\[[^,\]]+,[^,\]]+\]")
_SETTING = re.compile(r"\s*(box|swizzle)\s*=")
_BOX, _SWIZZLE = re.compile(r"\s*(\d+)\s*[x,]\s*(\d+)\s*"), re.compile(r"\s*(\d+)\s*")

Reader = Callable[[str], Argument]  # of the text of an argument without its name


def struct(name: str, text: str, read: Reader) -> Argument:
    """Return a struct of the fields in a text, each read as an argument of its own. Raises UsageError."""
    fields = [read(part) for part in text.split(",")]
    for number, field in enumerate(fields, 1):
        if field.shape or field.fill or field.dtype == STRUCT:
            raise UsageError(
                f"argument {name}: field {number} is not a number: a pointer in a struct is one of 8 bytes",
                Hint(Typed(f"--arg {name}=struct:uint64:0,int32:4"), f", or its bytes from a file: {name}=bytes:FILE"),
            )
    return Argument(name=name, dtype=STRUCT, value=",".join(f"{field.dtype}:{field.value}" for field in fields))


def fields_of(argument: Argument) -> list[Argument]:
    """Return the fields of a struct."""
    parts = (part.partition(":") for part in argument.value.split(","))
    return [Argument(name=argument.name, dtype=dtype, value=value) for dtype, _, value in parts]


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


def halves(text: str) -> tuple[str, list[str]]:
    """Return the matrix of a tensor map's text, and what follows it: box and swizzle."""
    parts = text.split(":")
    first = len(parts)
    while first and _SETTING.match(parts[first - 1]):
        first -= 1
    return ":".join(parts[:first]), parts[first:]


def tensor_map(name: str, text: str, read: Reader) -> Argument:
    """Return a matrix that the kernel gets as a CUtensorMap. Raises UsageError."""
    matrix, settings = halves(text)
    given = {key.strip(): value for key, _, value in (setting.partition("=") for setting in settings)}
    try:
        argument = read(matrix)
    except UsageError as error:
        raise _within(error, name, lambda part: _map_of(part, settings)) from error
    box, swizzle = _BOX.fullmatch(given.get("box", "")), _SWIZZLE.fullmatch(given.get("swizzle", "0"))
    if len(argument.shape) != 2 or box is None or swizzle is None or int(swizzle[1]) not in SWIZZLES:
        raise UsageError(
            f"argument {name} is not a valid tensor map: it takes a matrix, a box of rows x columns, and a swizzle of "
            f"{', '.join(map(str, SWIZZLES))} bytes",
            Typed(f"--arg {name}={MAP}:{EXAMPLE}:box=64x64:swizzle=128"),
        )
    return replace(argument, tensor_map=True, box=(int(box[1]), int(box[2])), swizzle=int(swizzle[1]))


def _map_of(part: str, settings: Sequence[str]) -> str:
    """Return a tensor map of what was proposed for its matrix, or of another if that is none."""
    fitting = [setting for setting in settings if _fits(*setting.split("=", 1))]
    box = [] if any("box" in setting for setting in fitting) else ["box=64x64"]
    return ":".join((MAP, part if _MATRIX.match(part) else EXAMPLE, *fitting, *box))


def _fits(setting: str, value: str) -> bool:
    return (_BOX if setting.strip() == "box" else _SWIZZLE).fullmatch(value) is not None


def of_map(error: UsageError, argument: Argument) -> UsageError:
    """Return the error of a tensor map's matrix, with a hint that spells the map."""
    return _within(error, argument.name, lambda part: map_text(argument, part))


def of_field(error: UsageError, argument: Argument, number: int) -> UsageError:
    """Return the error of a field of a struct, with a hint that spells the struct."""
    fields = argument.value.split(",")
    whole = lambda part: f"{STRUCT}:{','.join((*fields[:number], part, *fields[number + 1 :]))}"  # noqa: E731
    return _within(error, argument.name, whole)


def _within(error: UsageError, name: str, whole: Callable[[str], str]) -> UsageError:
    """Return the error of a part of an argument, with a hint that spells the whole argument."""
    option = f"--arg {name}="
    spelled = (
        Typed(option + whole(part.removeprefix(option)))
        if isinstance(part, Typed) and part.startswith(option)
        else part
        for part in error.hint.parts
    )
    return UsageError(str(error), Hint(*spelled))


def map_text(argument: Argument, matrix: str) -> str:
    """Return a tensor map as it is written, given its matrix as that is."""
    rows, columns = argument.box
    return f"{MAP}:{matrix}:box={rows}x{columns}:swizzle={argument.swizzle}"
