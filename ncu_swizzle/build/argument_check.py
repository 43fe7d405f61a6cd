"""Check the arguments against the cubin before launching: a kernel that chases a wild pointer measures nothing.

The cubin lists the number and sizes of the parameters. Their types are only in a mangled C++ name; an ``extern "C"``
function has none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ncu_swizzle.catalog import fills
from ncu_swizzle.catalog.family import Argument
from ncu_swizzle.cubin.demangled import demangle, parameter_types
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import UsageError

POINTER = 8

# The types that a dtype can be compared with; any other (float4, structures) is accepted.
TYPES = {
    "float": "float32", "double": "float64", "__half": "float16", "__nv_bfloat16": "bfloat16", "bool": "bool",
    "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16",
    "int": "int32", "unsigned int": "uint32", "long": "int64", "unsigned long": "uint64",
    "long long": "int64", "unsigned long long": "uint64",
}  # fmt: skip


def refuse_mismatch(cubin: Cubin, function: str, arguments: Sequence[Argument], sizes: Sequence[int]) -> None:
    """Raise UsageError if the arguments, of `sizes` bytes each, do not match the parameters of the mangled function."""
    slot_sizes = [slot.size for slot in cubin.attributes(function).parameters]
    demangled = demangle(function)
    types = parameter_types(demangled)
    if types is None or len(types) != len(slot_sizes):
        types = [""] * len(slot_sizes)
    faults = [
        fault
        for number, (argument, size) in enumerate(zip(arguments, sizes, strict=True))
        if number < len(slot_sizes) and (fault := _fault(argument, size, slot_sizes[number], types[number]))
    ]
    if len(slot_sizes) == len(sizes) and not faults:
        return
    counted = f"{len(slot_sizes)} parameters, {len(sizes)} arguments" if len(slot_sizes) != len(sizes) else faults[0]
    raise UsageError(
        f"the arguments do not fit {demangled}: {counted}\n{_table(slot_sizes, types, arguments, sizes)}",
        f"one --arg per parameter, in order{_proposal(types, slot_sizes)}",
    )


def _fault(argument: Argument, size: int, slot_size: int, type_: str) -> str:
    """Return what is wrong with an argument for a parameter of this size and type; "" if nothing is."""
    pointee = _pointee(type_)
    wanted = TYPES.get(_bare(type_ if pointee is None else pointee))
    if size != slot_size:
        return f"{argument.name} has {size} bytes, the parameter {slot_size}"
    if pointee is not None and not argument.shape:
        return f"{argument.name} is a number, the parameter {type_} is a pointer"
    if pointee is None and argument.shape:  # an integer that holds a pointer, or a structure around one
        return f"{argument.name} is a buffer, the parameter is {type_}" if wanted in ("float64", "bool") else ""
    holds = "holds" if argument.shape else "is"
    return f"{argument.name} {holds} {argument.dtype}, the parameter is {type_}" if _differ(wanted, argument) else ""


def _pointee(type_: str) -> str | None:
    """Return the type that a pointer or reference points to; None for any other type."""
    bare = re.sub(r"\b(__restrict__|__restrict|const|volatile)\s*$", "", type_.strip()).strip()
    return bare[:-1].strip() if bare.endswith(("*", "&")) else None


def _bare(type_: str) -> str:
    return " ".join(re.sub(r"\b(const|volatile|struct)\b", " ", type_).split())


def _differ(wanted: str | None, argument: Argument) -> bool:
    """Return whether the types differ: in size, or one is an integer and the other floating point."""
    if wanted is None:
        return False
    expected, given = fills.numpy_dtype(wanted), fills.numpy_dtype(argument.dtype)
    same = expected.itemsize == given.itemsize and (expected == given or _whole(expected) == _whole(given) is True)
    return not same


def _whole(dtype: np.dtype[np.generic]) -> bool:
    return dtype.kind in "iub"


def _table(slot_sizes: Sequence[int], types: Sequence[str], arguments: Sequence[Argument], sizes: Sequence[int]) -> str:
    rows = []
    for number in range(max(len(slot_sizes), len(sizes))):
        parameter = (
            f"{types[number] or 'parameter'}, {slot_sizes[number]} bytes" if number < len(slot_sizes) else "none"
        )
        given = f"{_written(arguments[number])}, {sizes[number]} bytes" if number < len(sizes) else "none"
        rows.append(f"  {number + 1}. {parameter} <- {given}")
    return "\n".join(rows)


def _written(argument: Argument) -> str:
    inside = f"[{','.join(argument.shape)}]" if argument.shape else f":{argument.value}"
    return f"{argument.name}={argument.dtype}{inside}"


def _proposal(types: Sequence[str], slot_sizes: Sequence[int]) -> str:
    """Return an example of --arg options for this function."""
    parts = []
    for number, (type_, size) in enumerate(zip(types, slot_sizes, strict=True), 1):
        pointee = _pointee(type_)
        dtype = TYPES.get(_bare(pointee if pointee is not None else type_), "float32" if size == POINTER else "int32")
        fill = "out" if pointee is not None and "const" not in type_ else "random"
        buffer = pointee is not None or (not type_ and size == POINTER)
        parts.append(f"--arg a{number}={dtype}[n]:{fill}" if buffer else f"--arg a{number}={dtype}:n")
    return f": {' '.join(parts)}" if parts else ": this kernel takes none"
