"""What a call is: a conversion, or a function by its name; and what a declared pointer counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ncu_swizzle.source import classes, cuda
from ncu_swizzle.source.cuda import CudaFile
from ncu_swizzle.source.reach import BYTES

if TYPE_CHECKING:
    from tree_sitter import Node

CASTS = ("reinterpret_cast", "static_cast", "const_cast")
INTEGERS = re.compile(r"(std::)?(u?int(32|64|ptr)?_t|unsigned( int| long| long long)?|int|size_t|auto|uint|uint32)")


def called(file: CudaFile, call: Node) -> str:
    """Return the name of the function that a call names, without namespaces and template arguments."""
    function = cuda.field(call, "function")
    if function is None:
        return ""
    if function.type == "template_function":
        function = cuda.field(function, "name") or function
    return re.sub(r"<.*", "", file.of(function), flags=re.DOTALL).rpartition("::")[2].rpartition(".")[2].strip()


def cast_type(file: CudaFile, call: Node) -> str:
    """Return the type that a call converts to; empty if it is another call."""
    function = cuda.field(call, "function")
    if function is None:
        return ""
    name, listed = cuda.field(function, "name"), cuda.field(function, "arguments")
    if function.type == "template_function" and name is not None and listed is not None:
        return file.of(listed).strip("<>") if file.of(name) in CASTS else ""
    text = file.of(function)
    return text if INTEGERS.fullmatch(text) and function.type != "template_function" else ""


def shape_of(file: CudaFile, declared: Node, rank: int, unit: str) -> tuple[int, str]:
    """Return how many subscripts a declared pointer, array or reference takes, and what it counts."""
    declarator, sizes, stars = declared.parent, 0, 0
    while declarator is not None and not declarator.type.endswith(("declaration", "init_declarator")):
        sizes += declarator.type == "array_declarator"
        stars += declarator.type == "pointer_declarator"
        declarator = declarator.parent
    holder = declarator.parent if declarator is not None and declarator.type == "init_declarator" else declarator
    type_ = cuda.field(holder, "type") if holder is not None else None
    named, inner = classes.array_alias(file, file.of(type_)) if type_ is not None else ("", ())
    sizes += len(inner)
    if named == "auto" and not stars and not sizes:
        return max(rank, 1), unit
    if sizes + stars == 0:
        return 1, BYTES
    return sizes + stars, unit if named == "auto" else "" if named == "void" else named
