"""A CUDA C++ file and its syntax tree: nodes, classes, types and calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


# The grammar takes `__align__(16)` for a type; `alignas(16)` says the same in as many characters.
_ALIGN = re.compile(rb"__align__(?=\s*\()")
CLASSES = ("struct_specifier", "class_specifier")
UNION = "union_specifier"


@dataclass(frozen=True, eq=False)
class CudaFile:
    """A source: its bytes as they are, and the tree of the same positions, with tables of the classes in it."""

    name: str
    text: bytes
    root: Node

    def of(self, node: Node | None) -> str:
        """Return a node's text; empty without a node."""
        return "" if node is None else self.text[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape")

    def quoted(self, node: Node, most: int = 60) -> str:
        """Return a node's text as messages quote it: on one line, with at most that many characters."""
        text = " ".join(self.of(node).split())
        return text if len(text) <= most else f"{text[: most - 3]}..."

    def words(self, node: Node) -> set[str]:
        """Return the texts of a node's children, such as a declaration's specifiers."""
        return {self.of(child) for child in node.children}

    def line(self, node: Node) -> int:
        return self.text.count(b"\n", 0, node.start_byte) + 1  # macros' bodies are trees of their own, in one line

    def nodes(self, *kinds: str) -> Iterator[Node]:
        """Yield the nodes of these types, in the order of the file."""
        return (node for node in self._nodes if node.type in kinds)

    @cached_property
    def _nodes(self) -> tuple[Node, ...]:
        return tuple(walk(self.root))

    # ------------------------------------------------------------------------------------ types and classes

    @cached_property
    def aliases(self) -> tuple[tuple[str, str], ...]:
        """The names that stand for types, and the types as they are written."""
        found = []
        for node in self.nodes("alias_declaration", "type_definition"):
            name, type_ = field_of(node, "name") or field_of(node, "declarator"), field_of(node, "type")
            if name is not None and type_ is not None:
                found.append((self.of(name), self.of(type_)))
        return tuple(found)

    def aliased(self, name: str) -> str | None:
        """Return the type that a name stands for, as it is written; None if it is not an alias."""
        return next((type_ for alias, type_ in self.aliases if alias == name), None)

    @cached_property
    def _defined(self) -> tuple[tuple[str, Node], ...]:
        every = ((self.of(field_of(node, "name")), node) for node in self.nodes(*CLASSES, UNION))
        return tuple((name, node) for name, node in every if name and field_of(node, "body") is not None)

    def class_named(self, type_: str, *kinds: str) -> Node | None:
        """Return the definition of a class, looking through aliases; None if the file does not have it."""
        seen: set[str] = set()
        while (wanted := _plain(type_)) not in seen:
            seen.add(wanted)
            for name, node in self._defined:
                if name == wanted and node.type in (kinds or CLASSES):
                    return node
            type_ = self.aliased(wanted) or wanted
        return None

    def class_names(self, struct: Node) -> set[str]:
        """Return the name of a class and its aliases."""
        known_as = {name for name, type_ in self.aliases if same(self.class_named(type_), struct)}
        return known_as | ({self.of(named)} if (named := field_of(struct, "name")) is not None else set())

    def methods(self, struct: Node) -> list[Node]:
        """Return the definitions of a class's member functions, in its body and out of it."""
        return [node for node in self.nodes("function_definition") if same(self.class_of(node), struct)]

    def method_names(self, struct: Node) -> set[str]:
        named = (field_of(function_declarator(node), "declarator") for node in self.methods(struct))
        return {"".join(self.of(name).rpartition("::")[2].split()) for name in named if name is not None}

    def class_of(self, function: Node) -> Node | None:
        """Return the class that a function is a member of; None if the file does not define it."""
        holder = function.parent
        if holder is not None and holder.type == "template_declaration":
            holder = holder.parent
        if holder is not None and holder.type == "field_declaration_list":
            return above(function, *CLASSES)
        named = field_of(function_declarator(function), "declarator")
        scope = field_of(named, "scope") if named is not None and named.type == "qualified_identifier" else None
        return self.class_named(self.of(scope)) if scope is not None else None

    def class_around(self, node: Node) -> Node | None:
        """Return the class whose member function a node is in."""
        function = above(node, "function_definition")
        return self.class_of(function) if function is not None else None

    def class_of_variable(self, declared: Node | None) -> Node | None:
        """Return the class that a name is declared with; None if the file does not define it."""
        type_ = self.type_of(declared)
        return self.class_named(type_) if type_ else None

    def type_of(self, declared: Node | None) -> str:
        """Return the type that the declaration of a name begins with; empty if there is none."""
        return self.of(field_of(above(declared, "declaration", "field_declaration", *PARAMETERS), "type"))

    def array_alias(self, type_: str) -> tuple[str, tuple[Node, ...]]:
        """Return the element and the sizes, outermost first, of an alias of an array; else the type itself."""
        wanted = _plain(type_)
        for node in self.nodes("alias_declaration", "type_definition"):
            described = field_of(node, "type")
            name, declarator = field_of(node, "name"), field_of(node, "declarator")
            if node.type == "alias_declaration" and described is not None and described.type == "type_descriptor":
                declarator, described = field_of(described, "declarator"), field_of(described, "type")
            sizes: list[Node] = []
            while declarator is not None and declarator.type.endswith("array_declarator"):
                size, inner = field_of(declarator, "size"), field_of(declarator, "declarator")
                sizes[:0] = [size] if size is not None else []
                name, declarator = name or (inner if inner is not None and not inner.child_count else None), inner
            if sizes and described is not None and self.of(name) == wanted:
                element, inner_sizes = self.array_alias(self.of(described))
                return element, (*sizes, *inner_sizes)
        return type_, ()

    # ------------------------------------------------------------------------------------ calls

    def called(self, call: Node | None) -> str:
        """Return the name of the function that a call names, without namespaces and template arguments."""
        function = field_of(call, "function")
        if function is not None and function.type == "template_function":
            function = field_of(function, "name") or function
        text = re.sub(r"<.*", "", self.of(function), flags=re.DOTALL).rpartition("::")[2].rpartition(".")[2].strip()
        return "".join(text.split()) if text.startswith("operator") else text

    def cast_type(self, call: Node) -> str:
        """Return the type that a call converts to; empty if it is another call."""
        function = field_of(call, "function")
        name, listed = field_of(function, "name"), field_of(function, "arguments")
        if function is None:
            return ""
        if function.type == "template_function" and name is not None and listed is not None:
            return self.of(listed).strip("<>") if self.of(name) in CASTS else ""
        text = self.of(function)
        return text if INTEGERS.fullmatch(text) and function.type != "template_function" else ""


def parse(text: bytes, name: str) -> CudaFile:
    """Return the file with its tree."""
    return CudaFile(name, text, _parser().parse(_ALIGN.sub(b"  alignas", text)).root_node)


def _parser() -> Parser:
    import tree_sitter_cuda
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_cuda.language()))


def _plain(type_: str) -> str:
    """Return the name in a type, without qualifiers, namespaces and template arguments."""
    return re.sub(r"<.*|\b(const|struct|class|volatile)\b", "", type_, flags=re.DOTALL).strip().rpartition("::")[2]


# Ways through the tree. What is asked of no node has no answer: the parts that an expression lacks need no second look.

PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
CASTS = ("reinterpret_cast", "static_cast", "const_cast")
INTEGERS = re.compile(r"(std::)?(u?int(32|64|ptr)?_t|unsigned( int| long| long long)?|int|size_t|auto|uint|uint32)")


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything below it, parents first."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def above(node: Node | None, *kinds: str) -> Node | None:
    """Return the nearest node of these types that holds this one."""
    holder = node.parent if node is not None else None
    while holder is not None and holder.type not in kinds:
        holder = holder.parent
    return holder


def same(one: Node | None, other: Node | None) -> bool:
    """Return whether two nodes are one and the same: each look at the tree makes new objects."""
    return one is not None and other is not None and one.id == other.id


def inside(node: Node, holder: Node) -> bool:
    """Return whether a node lies within another one, or is it."""
    return holder.start_byte <= node.start_byte and node.end_byte <= holder.end_byte


def field_of(node: Node | None, name: str) -> Node | None:
    return node.child_by_field_name(name) if node is not None else None


def is_field(node: Node, name: str, *kinds: str) -> bool:
    """Return whether a node is the field of this name of the one around it, which is of one of these types."""
    holder = node.parent
    return holder is not None and (not kinds or holder.type in kinds) and same(field_of(holder, name), node)


def bare(node: Node) -> Node:
    """Return the expression within parentheses."""
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def out_of(node: Node, *kinds: str) -> Node:
    """Return the outermost of the nodes of these types right around a node; the node itself if there is none."""
    while node.parent is not None and node.parent.type in kinds:
        node = node.parent
    return node


def arguments(call: Node | None) -> list[Node]:
    """Return what a call, or a subscript, is given."""
    listed = field_of(call, "arguments") or field_of(call, "indices")
    return listed.named_children if listed is not None else []


def number_of(argument: Node) -> int:
    """Return which of the arguments, or indices, around it a node is."""
    assert argument.parent is not None
    return next(number for number, other in enumerate(argument.parent.named_children) if same(argument, other))


def position(node: Node, among: Iterable[Node | None]) -> int | None:
    """Return which of some nodes a node is; None if it is none of them."""
    return next((number for number, other in enumerate(among) if same(node, other)), None)


def function_declarator(function: Node) -> Node | None:
    """Return the declarator of a function's definition that has its name and parameters."""
    node = field_of(function, "declarator")
    while node is not None and node.type != "function_declarator":
        inner = field_of(node, "declarator")
        node = inner or next((child for child in node.named_children if child.type.endswith("_declarator")), None)
    return node


# What a call, or a member of an object, stands for in an index.


@dataclass(frozen=True, eq=False, kw_only=True)
class Inlined:
    """The expression that a call stands for, and the arguments by the parameters that it is written with.

    `closed` are the parameters that an argument may replace as it is: those of functions, and those of macros that
    stand in parentheses.
    """

    body: Node
    arguments: Mapping[str, Node]
    closed: frozenset[str]
    fields: Mapping[str, Node] = field(default_factory=dict)  # of the object whose method it is, as it was made
    indexing: bool = False  # the call is an access itself, of the element with this index

    def takes(self, node: Node) -> bool:
        """Return whether a node is an argument that needs no parentheses."""
        return any(same(node, given) and name in self.closed for name, given in self.arguments.items())
