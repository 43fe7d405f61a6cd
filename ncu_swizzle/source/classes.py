"""The classes that a file defines: found by the name of a type, with their aliases, methods and outside definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncu_swizzle.source import cuda
from ncu_swizzle.source.cuda import CudaFile

if TYPE_CHECKING:
    from tree_sitter import Node

CLASSES = ("struct_specifier", "class_specifier")


def find(file: CudaFile, type_: str, *kinds: str) -> Node | None:
    """Return the definition of a class, looking through aliases; None if the file does not have it."""
    seen: set[str] = set()
    while (wanted := plain(type_)) not in seen:
        seen.add(wanted)
        for made in file.nodes(*(kinds or CLASSES)):
            named = cuda.field(made, "name")
            if named is not None and cuda.field(made, "body") is not None and file.of(named) == wanted:
                return made
        type_ = next((type_ for name, type_ in _aliases(file) if name == wanted), wanted)
    return None


def array_alias(file: CudaFile, type_: str) -> tuple[str, tuple[Node, ...]]:
    """Return the element and the sizes, outermost first, of an alias of an array; the type itself if it is none."""
    wanted = plain(type_)
    for node in file.nodes("alias_declaration", "type_definition"):
        described = cuda.field(node, "type")
        name, declarator = cuda.field(node, "name"), cuda.field(node, "declarator")
        if node.type == "alias_declaration" and described is not None and described.type == "type_descriptor":
            declarator, described = cuda.field(described, "declarator"), cuda.field(described, "type")
        sizes: list[Node] = []
        while declarator is not None and declarator.type.endswith("array_declarator"):
            size, inner = cuda.field(declarator, "size"), cuda.field(declarator, "declarator")
            sizes[:0] = [size] if size is not None else []
            name, declarator = name or (inner if inner is not None and not inner.child_count else None), inner
        if sizes and described is not None and name is not None and file.of(name) == wanted:
            element, inner_sizes = array_alias(file, file.of(described))
            return element, (*sizes, *inner_sizes)
    return type_, ()


def plain(type_: str) -> str:
    """Return the name in a type, without qualifiers, namespaces and template arguments."""
    return re.sub(r"<.*|\b(const|struct|class|volatile)\b", "", type_, flags=re.DOTALL).strip().rpartition("::")[2]


def _aliases(file: CudaFile) -> Iterator[tuple[str, str]]:
    for node in file.nodes("alias_declaration", "type_definition"):
        name, type_ = cuda.field(node, "name") or cuda.field(node, "declarator"), cuda.field(node, "type")
        if name is not None and type_ is not None:
            yield file.of(name), file.of(type_)


def names(file: CudaFile, made: Node) -> set[str]:
    """Return the name of a class and its aliases."""
    aliases = {name for name, type_ in _aliases(file) if cuda.same(find(file, type_), made)}
    named = cuda.field(made, "name")
    return aliases | ({file.of(named)} if named is not None else set())


def functions(file: CudaFile, made: Node) -> Iterator[Node]:
    """Yield the definitions of a class's member functions, in its body and out of it."""
    for node in file.nodes("function_definition"):
        if cuda.same(of_function(file, node), made):
            yield node


def methods(file: CudaFile, made: Node) -> set[str]:
    """Return the names of a class's member functions."""
    declarators = (_function_declarator(node) for node in functions(file, made))
    named = (cuda.field(declarator, "declarator") for declarator in declarators if declarator is not None)
    return {"".join(file.of(name).rpartition("::")[2].split()) for name in named if name is not None}


def of_function(file: CudaFile, function: Node) -> Node | None:
    """Return the class that a function is a member of; None if the file does not define it."""
    holder = function.parent
    if holder is not None and holder.type == "template_declaration":
        holder = holder.parent
    if holder is not None and holder.type == "field_declaration_list":
        return cuda.above(function, *CLASSES)
    declarator = _function_declarator(function)
    named = cuda.field(declarator, "declarator") if declarator is not None else None
    scope = cuda.field(named, "scope") if named is not None and named.type == "qualified_identifier" else None
    return find(file, file.of(scope)) if scope is not None else None


def around(file: CudaFile, node: Node) -> Node | None:
    """Return the class whose member function a node is in."""
    function = cuda.above(node, "function_definition")
    return of_function(file, function) if function is not None else None


def _function_declarator(function: Node) -> Node | None:
    node = cuda.field(function, "declarator")
    while node is not None and node.type != "function_declarator":
        inner = cuda.field(node, "declarator")
        node = inner or next((child for child in node.named_children if child.type.endswith("_declarator")), None)
    return node
