"""The structs that a file defines, and the arrays in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncu_swizzle.source import classes, cuda
from ncu_swizzle.source.arrays import sizes_of
from ncu_swizzle.source.cuda import CudaFile
from ncu_swizzle.source.edits import Edit
from ncu_swizzle.source.scopes import declared_name

if TYPE_CHECKING:
    from tree_sitter import Node


def member(file: CudaFile, type_: str, name: str) -> Node | None:
    """Return the identifier in the declaration of a struct's member; None if the file does not define it."""
    struct = classes.find(file, type_, *classes.CLASSES, "union_specifier")
    if struct is None:
        return None
    return next((declared for _, declared in members(struct) if file.of(declared) == name), None)


def members(struct: Node) -> Iterator[tuple[Node, Node]]:
    """Yield the declarations in a struct, each with an identifier that it declares."""
    body = cuda.field(struct, "body")
    for declaration in body.named_children if body is not None else ():
        for declarator in declaration.children_by_field_name("declarator"):
            declared = declared_name(declarator)
            if declared is not None:
                yield declaration, declared


def arrays(struct: Node) -> list[Node]:
    """Return the identifiers of a struct's arrays; those of all its objects, which are elsewhere, are left out."""
    return [
        declared
        for declaration, declared in members(struct)
        if declaration.type == "field_declaration"
        and sizes_of(declared)
        and not any(child.type == "storage_class_specifier" for child in declaration.children)
    ]


def type_of(file: CudaFile, declared: Node) -> str:
    """Return the type that a member's declaration begins with."""
    declaration = cuda.above(declared, "field_declaration")
    type_ = cuda.field(declaration, "type") if declaration is not None else None
    return file.of(type_) if type_ is not None else ""


def numbers(file: CudaFile, struct: Node) -> Iterator[str]:
    """Yield the names of the members that are neither pointers nor arrays."""
    for _, declared in members(struct):
        if declared.parent is not None and not declared.parent.type.endswith("_declarator"):
            yield file.of(declared)


def opened(struct: Node) -> Iterator[Edit]:
    """Yield the edits that make everything in a struct public."""
    body = cuda.field(struct, "body")
    for child in body.children if body is not None else ():
        colon = child.next_sibling if child.type == "access_specifier" else None
        at = child.end_byte if child.type == "{" else colon.end_byte if colon is not None else None
        if at is not None:
            yield Edit(at, at, " public: ")
