"""A CUDA C++ file and its syntax tree: nodes, classes, types and calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from sys import intern
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Parser


# The grammar takes `__align__(16)` for a type; `alignas(16)` says the same in as many characters.
_ALIGN = re.compile(rb"__align__(?=\s*\()")
# Nor does it take a pragma between a loop's head and its body; blanks in its place leave the loops in each other.
_PRAGMA = re.compile(rb"^[ \t]*#[ \t]*pragma\b(?![ \t]+once\b)(?:\\\r?\n|[^\n])*|\b_Pragma\([^()\n]*\)", re.MULTILINE)
CLASSES = ("struct_specifier", "class_specifier")
PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
CASTS = ("reinterpret_cast", "static_cast", "const_cast")
INTEGERS = re.compile(r"(std::)?(u?int(32|64|ptr)?_t|unsigned( int| long| long long)?|int|size_t|auto|uint|uint32)")


class Unfit(Exception):
    """A source does not show that a mapping may be written into it; the text says why, `line` where."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(eq=False, repr=False, slots=True)
class Node:
    """A node of a syntax tree. What a node lacks is `NOTHING`, which is false, of no type, and lacks everything.

    So the part of a part needs no look at whether there is one. A macro's body is a tree of its own, whose nodes have
    the bytes of the file.
    """

    parent: Node
    source: bytes  # the whole file
    type: str = ""
    start_byte: int = 0
    end_byte: int = 0
    has_error: bool = False
    named: bool = False  # by the grammar, which does not name tokens such as an operator
    # Leaves share these, which a tree of many nodes is made faster by.
    children: list[Node] = field(default_factory=lambda: _NO_NODES)
    named_parts: dict[str, list[Node]] = field(default_factory=lambda: _NO_PARTS)  # what the grammar calls a field

    @property
    def named_children(self) -> list[Node]:
        return [child for child in self.children if child.named]

    @property
    def id(self) -> int:
        """The same number for one node only, as long as its tree is kept."""
        return id(self)

    @property
    def text(self) -> str:
        return self.source[self.start_byte : self.end_byte].decode("utf-8", "surrogateescape")

    @property
    def line(self) -> int:
        return self.source.count(b"\n", 0, self.start_byte) + 1

    @property
    def every_line(self) -> range:
        """The lines from its first to its last byte."""
        return range(self.line, self.line + self.source.count(b"\n", self.start_byte, self.end_byte) + 1)

    @property
    def statement(self) -> Node:
        """The statement without others in it that the node is in, or the node itself."""
        node = self
        while node.parent and node.parent.type not in ("compound_statement", "for_statement", "if_statement"):
            node = node.parent
        return node

    def quoted(self, most: int = 60) -> str:
        """Return the text as messages quote it: on one line, with at most that many characters."""
        text = " ".join(self.text.split())
        return text if len(text) <= most else f"{text[: most - 3]}..."

    def unfit(self, reason: str) -> Unfit:
        return Unfit(reason, self.line)

    def misfit(self, rest: str) -> Unfit:
        """Return an Unfit that quotes the expression; `rest` says what is wrong with it."""
        return self.unfit(f"{self.quoted()}{rest}")

    # ------------------------------------------------------------------------------------ ways through the tree

    def part(self, *names: str) -> Node:
        """Return the part of the first of these names that the node has."""
        return next((self.named_parts[name][0] for name in names if name in self.named_parts), NOTHING)

    def every(self, name: str) -> list[Node]:
        """Return all parts of a name, such as a declaration's declarators."""
        return self.named_parts.get(name, [])

    def is_part(self, name: str, *kinds: str) -> bool:
        """Return whether the node is the part of this name of the one around it, which is of one of these types."""
        return bool(self) and (not kinds or self.parent.type in kinds) and self.parent.part(name) is self

    def walk(self) -> Iterator[Node]:
        """Yield the node and everything below it, parents first."""
        waiting = [self] if self else []
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)

    def above(self, *kinds: str) -> Node:
        """Return the nearest node of these types that holds this one."""
        holder = self.parent
        while holder and holder.type not in kinds:
            holder = holder.parent
        return holder

    def inside(self, holder: Node) -> bool:
        """Return whether the node lies within another one, or is it."""
        return bool(self and holder) and holder.start_byte <= self.start_byte and self.end_byte <= holder.end_byte

    def out_of(self, *kinds: str) -> Node:
        """Return the outermost of the nodes of these types right around the node; the node itself if there is none."""
        node = self
        while node.parent.type in kinds:
            node = node.parent
        return node

    @property
    def bare(self) -> Node:
        """The expression within parentheses."""
        node = self
        while node.type == "parenthesized_expression" and len(node.named_children) == 1:
            node = node.named_children[0]
        return node

    @property
    def before(self) -> Node:
        """The node before it in the one around it."""
        number = self.parent.children.index(self) if self.parent else 0
        return self.parent.children[number - 1] if number else NOTHING

    # ------------------------------------------------------------------------------------ declarations and calls

    @property
    def declared_type(self) -> str:
        """The type that the declaration of a name begins with; empty if there is none."""
        return self.above("declaration", "field_declaration", *PARAMETERS).part("type").text

    @property
    def function_declarator(self) -> Node:
        """The declarator of a function's definition that has its name and parameters."""
        node = self.part("declarator")
        while node and node.type != "function_declarator":
            node = node.part("declarator") or next(
                (child for child in node.named_children if child.type.endswith("_declarator")), NOTHING
            )
        return node

    @property
    def arguments(self) -> list[Node]:
        """The arguments of a call, or the indices of a subscript."""
        return _without_comments(self.part("arguments", "indices"))

    @property
    def called(self) -> str:
        """The name of the function that a call names, without namespaces and template arguments."""
        function = self.part("function")
        if function.type == "template_function":
            function = function.part("name") or function
        text = re.sub(r"<.*", "", function.text, flags=re.DOTALL).rpartition("::")[2].rpartition(".")[2].strip()
        return "".join(text.split()) if text.startswith("operator") else text

    @property
    def cast_type(self) -> str:
        """The type that a call converts to; empty if it is another call."""
        function = self.part("function")
        if function.type == "template_function":
            return function.part("arguments").text.strip("<>") if function.part("name").text in CASTS else ""
        return function.text if INTEGERS.fullmatch(function.text) else ""


def _without_comments(listed: Node) -> list[Node]:
    return [child for child in listed.named_children if child.type != "comment"]


_NO_NODES: list[Node] = []
_NO_PARTS: dict[str, list[Node]] = {}


class _Nothing(Node):
    def __bool__(self) -> bool:
        return False


NOTHING: Node = _Nothing(None, b"")  # type: ignore[arg-type]  # it is its own parent
NOTHING.parent = NOTHING


@dataclass(frozen=True, eq=False)
class CudaFile:
    """A source: its bytes as they are, and the tree of the same positions, with tables of the classes in it."""

    name: str
    text: bytes
    root: Node

    def between(self, start: int, end: int) -> str:
        """Return the text between two bytes."""
        return self.text[start:end].decode("utf-8", "surrogateescape")

    def nodes(self, *kinds: str) -> Iterator[Node]:
        """Yield the nodes of these types, in the order of the file."""
        return (node for node in self._nodes if node.type in kinds)

    @cached_property
    def _nodes(self) -> tuple[Node, ...]:
        return tuple(self.root.walk())

    # ------------------------------------------------------------------------------------ types and classes

    @cached_property
    def _aliases(self) -> dict[str, tuple[str, str, tuple[Node, ...]]]:
        """The names that stand for types: the type as it is written; of an array its element and sizes."""
        found: dict[str, tuple[str, str, tuple[Node, ...]]] = {}
        for node in self.nodes("alias_declaration", "type_definition"):
            type_, name, declarator = node.part("type"), node.part("name"), node.part("declarator")
            written = type_.text
            if type_.type == "type_descriptor":
                declarator, type_ = type_.part("declarator"), type_.part("type")
            sizes: list[Node] = []
            while declarator.type.endswith("array_declarator"):
                sizes[:0] = [declarator.part("size")] if declarator.part("size") else []
                declarator = declarator.part("declarator")
            name = name or declarator
            if name and type_:
                found.setdefault(name.text, (written, type_.text, tuple(sizes)))
        return found

    def aliased(self, name: str) -> str | None:
        """Return the type that a name stands for, as it is written; None if it is not an alias."""
        return self._aliases[name][0] if name in self._aliases else None

    def array_alias(self, type_: str) -> tuple[str, tuple[Node, ...]]:
        """Return the element and the sizes, outermost first, of an alias of an array; else the type itself."""
        _, element, sizes = self._aliases.get(_plain(type_), ("", type_, ()))
        if not sizes:
            return type_, ()
        element, inner = self.array_alias(element)
        return element, (*sizes, *inner)

    @cached_property
    def _defined(self) -> tuple[tuple[str, Node], ...]:
        every = ((node.part("name").text, node) for node in self.nodes(*CLASSES))
        return tuple((name, node) for name, node in every if name and node.part("body"))

    def class_named(self, type_: str) -> Node:
        """Return the definition of a class, looking through aliases; `NOTHING` if the file does not have it."""
        seen: set[str] = set()
        while (wanted := _plain(type_)) not in seen:
            seen.add(wanted)
            for name, node in self._defined:
                if name == wanted:
                    return node
            type_ = self.aliased(wanted) or wanted
        return NOTHING

    def class_of(self, function: Node) -> Node:
        """Return the class that a function is a member of; `NOTHING` if the file does not define it."""
        if function.out_of("template_declaration").parent.type == "field_declaration_list":
            return function.above(*CLASSES)
        named = function.function_declarator.part("declarator")
        scope = named.part("scope") if named.type == "qualified_identifier" else NOTHING
        return self.class_named(scope.text) if scope else NOTHING


@lru_cache(2)
def parse(text: bytes, name: str) -> CudaFile:
    """Return the file with its tree; one tree for one text, as a fix looks at the same files again and again."""
    return CudaFile(name, text, tree(text, text))


def tree(text: bytes, source: bytes) -> Node:
    """Parse a text, and return a copy of its tree whose nodes have the bytes of a source at the same places."""
    cursor = _parser().parse(for_grammar(text)).walk()
    top = holder = NOTHING
    while True:
        theirs = cursor.node
        assert theirs is not None  # a cursor always stands on a node
        node = Node(
            holder, source, intern(theirs.type), theirs.start_byte, theirs.end_byte, theirs.has_error, theirs.is_named
        )
        top = top or node
        if holder:
            holder.children.append(node)
            if cursor.field_name:
                holder.named_parts = holder.named_parts or {}
                holder.named_parts.setdefault(intern(cursor.field_name), []).append(node)
        if cursor.goto_first_child():
            holder, node.children = node, []
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return top
            holder = holder.parent


def for_grammar(text: bytes) -> bytes:
    """Return a text of the same length that the grammar parses."""
    return _PRAGMA.sub(lambda found: re.sub(rb"[^\n]", b" ", found[0]), _ALIGN.sub(b"  alignas", text))


def _parser() -> Parser:
    import tree_sitter_cuda
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_cuda.language()))


def _plain(type_: str) -> str:
    """Return the name in a type, without qualifiers, namespaces and template arguments."""
    return re.sub(r"<.*|\b(const|struct|class|volatile)\b", "", type_, flags=re.DOTALL).strip().rpartition("::")[2]
