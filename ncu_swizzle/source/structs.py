"""The structs that a file defines, and the arrays in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ncu_swizzle.source import cuda
from ncu_swizzle.source.cuda import CudaFile
from ncu_swizzle.source.scopes import declared_name

if TYPE_CHECKING:
    from tree_sitter import Node


def member(file: CudaFile, type_: str, name: str) -> Node | None:
    """Return the identifier in the declaration of a struct's member; None if the file does not define it."""
    wanted = re.sub(r"<.*|\b(const|struct|volatile)\b", "", type_, flags=re.DOTALL).strip().rpartition("::")[2]
    for struct in file.nodes("struct_specifier", "class_specifier", "union_specifier"):
        named, body = cuda.field(struct, "name"), cuda.field(struct, "body")
        if named is None or body is None or file.of(named) != wanted:
            continue
        for declaration in body.named_children:
            for declarator in declaration.children_by_field_name("declarator"):
                declared = declared_name(declarator)
                if declared is not None and file.of(declared) == name:
                    return declared
    return None
