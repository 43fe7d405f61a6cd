"""Where else a file speaks of a class: an edit of the class changes other objects with those in shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ncu_swizzle.source import classes, cuda
from ncu_swizzle.source.calls import called
from ncu_swizzle.source.cuda import CudaFile
from ncu_swizzle.source.reach import Web
from ncu_swizzle.source.scopes import Scopes, declared_name

if TYPE_CHECKING:
    from tree_sitter import Node

PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
POINTING = (
    "reference_declarator", "pointer_declarator", "abstract_reference_declarator", "abstract_pointer_declarator",
)  # fmt: skip
NAMING = ("template_type", "template_function", "qualified_identifier")
DEFINING = ("alias_declaration", "type_definition", *classes.CLASSES)


def elsewhere(scopes: Scopes, struct: Node, web: Web) -> Iterator[tuple[Node, str]]:
    """Yield the mentions of a class that are, or may be, objects out of shared memory, each with what to say of it."""
    file = scopes.file
    names = classes.names(file, struct)
    for node in file.nodes("type_identifier", "identifier"):
        if file.of(node) in names and not _known(file, node, web):
            holder = cuda.above(node, "declaration", "field_declaration", *PARAMETERS, "expression_statement") or node
            text = " ".join(file.of(holder).split())
            yield node, f"{file.of(node)} is used where it cannot be followed: {text[:80]}"


def _known(file: CudaFile, node: Node, web: Web) -> bool:
    """Say whether a mention makes no object, or one that is followed."""
    while node.parent is not None and node.parent.type in NAMING:
        if cuda.same(cuda.field(node.parent, "scope"), node):
            return True  # a constant or a method of the class
        if not cuda.same(cuda.field(node.parent, "name"), node):
            break
        node = node.parent
    holder = node.parent
    if holder is None or holder.type in DEFINING:
        return holder is not None and not (holder.type in classes.CLASSES and node.type != "type_identifier")
    if holder.type == "function_declarator":  # a constructor
        return cuda.above(holder, *classes.CLASSES) is not None
    if holder.type == "type_descriptor":
        return _converted(file, holder, web)
    return _declaring(file, holder, web)


def _converted(file: CudaFile, described: Node, web: Web) -> bool:
    """Say whether a type is an alias's, or that of a conversion which is followed."""
    holder = described.parent
    if holder is None or holder.type in DEFINING:
        return holder is not None
    if holder.type == "template_argument_list":
        call = cuda.above(holder, "call_expression")
        function = cuda.field(call, "function") if call is not None else None
        if call is None or not cuda.same(holder.parent, function):
            return False
        holder = call
        if not called(file, call).endswith("_cast"):
            return False
    return any(cuda.inside(holder, reach.node) for reach in web.reaches)


def _declaring(file: CudaFile, holder: Node, web: Web) -> bool:
    """Say whether a declaration makes shared objects, or references that are followed."""
    declarators = holder.children_by_field_name("declarator")
    words = {file.of(child) for child in holder.children}
    if holder.type == "declaration" and "__shared__" in words:
        return True
    if holder.type == "field_declaration" and declarators and all(d.type == "array_declarator" for d in declarators):
        named = (declared_name(declarator) for declarator in declarators)
        return all(name is not None and name.id in web.places for name in named)
    inner = [cuda.field(d, "declarator") or d if d.type == "init_declarator" else d for d in declarators]
    if not inner or not all(d.type in POINTING for d in inner):
        return False
    if holder.type == "declaration":
        named = (declared_name(declarator) for declarator in inner)
        return all(name is not None and name.id in web.places for name in named)
    if holder.type in ("function_definition", "field_declaration"):
        return all(d.type == "reference_declarator" for d in inner)
    return holder.type in PARAMETERS and _on_device(file, holder)


def _on_device(file: CudaFile, parameter: Node) -> bool:
    function = cuda.above(parameter, "function_definition", "field_declaration", "declaration", "lambda_expression")
    if function is None:
        return False
    words = {file.of(child) for child in function.children if child.child_count == 0}
    return function.type == "lambda_expression" or ("__device__" in words and "__global__" not in words)
