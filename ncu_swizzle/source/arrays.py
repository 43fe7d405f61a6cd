"""The shared arrays that a file declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncu_swizzle.source import classes, cuda
from ncu_swizzle.source.cuda import CudaFile
from ncu_swizzle.source.scopes import Scopes, declared_name

if TYPE_CHECKING:
    from tree_sitter import Node

SHARED = "__shared__"


@dataclass(frozen=True, eq=False)
class SharedDeclaration:
    """One shared variable: its name, the type as written, the sizes of its dimensions, and where it stands."""

    name: str
    declared: Node  # the identifier
    statement: Node
    element: str
    sizes: tuple[Node, ...]  # outermost first; without that of `[]`
    dynamic: bool

    @property
    def rank(self) -> int:
        """How many subscripts lead to an element; one for a variable that is no array, too."""
        return len(self.sizes) + (1 if self.dynamic else 0)


def shared_declarations(scopes: Scopes) -> Iterator[SharedDeclaration]:
    """Yield the shared variables in the order of the file, then those that macros declare."""
    file = scopes.file
    for node in file.nodes("declaration"):
        yield from _declared(file, node)
    for call, argument, macro in scopes.declaring:
        parameter = macro.parameters[0]
        for node in cuda.walk(macro.body):
            for made in _declared(file, node) if node.type == "declaration" else ():
                if parameter is not None and made.name == file.of(parameter):
                    yield replace(made, name=file.of(argument), declared=argument, statement=call)


def _declared(file: CudaFile, node: Node) -> Iterator[SharedDeclaration]:
    words = [file.of(child) for child in node.children if child.type in ("type_qualifier", "storage_class_specifier")]
    type_ = cuda.field(node, "type")
    if SHARED not in words or type_ is None:
        return
    for declarator in node.children_by_field_name("declarator"):
        name = declared_name(declarator)
        if name is not None:
            sizes, open_ = _sizes(declarator)
            element, inner = classes.array_alias(file, file.of(type_))
            yield SharedDeclaration(file.of(name), name, node, element, (*sizes, *inner), open_)


def sizes_of(declared: Node, file: CudaFile | None = None) -> tuple[Node, ...]:
    """Return the sizes of the dimensions that the declaration of a name gives, outermost first.

    With its file, also those of an array that its type is an alias of.
    """
    holder = cuda.above(declared, "declaration", "parameter_declaration", "field_declaration")
    type_ = cuda.field(holder, "type") if holder is not None else None
    inner = classes.array_alias(file, file.of(type_))[1] if file is not None and type_ is not None else ()
    return (*_own_sizes(declared), *inner)


def _own_sizes(declared: Node) -> tuple[Node, ...]:
    declarator = declared
    while declarator.parent is not None and declarator.parent.type.endswith("_declarator"):
        if declarator.parent.type == "init_declarator":
            break
        declarator = declarator.parent
    made = _sizes(declarator)[0]
    return made or _mistaken(declared)


def _mistaken(declared: Node) -> tuple[Node, ...]:
    """Return the sizes in ``float (*p)[32] = t;``, which the grammar takes for subscripts."""
    sizes: list[Node] = []
    node: Node | None = declared
    while node is not None and node.type != "assignment_expression":
        indices = cuda.field(node, "indices") if node.type == "subscript_expression" else None
        sizes += indices.named_children[:1] if indices is not None else []
        node = node.parent
    return tuple(sizes) if node is not None else ()


def _sizes(declarator: Node) -> tuple[tuple[Node, ...], bool]:
    """Return the sizes of an array's dimensions, and whether the first is left open."""
    sizes: list[Node] = []
    open_ = False
    node: Node | None = declarator
    while node is not None and node.type == "array_declarator":
        size = cuda.field(node, "size")
        open_ = open_ or size is None
        sizes[:0] = [size] if size is not None else []
        node = cuda.field(node, "declarator")
    return tuple(sizes), open_
