"""Layout policies of a source: classes whose static functions say where an element goes, and what can replace them.

A kernel names a policy as a template argument, in an alias, or calls its functions by its name. Its siblings are the
classes beside it that take the same template parameters and have the same static functions.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import CudaFile
from ncu_swizzle.fix.edits import BEGIN, END, Edit
from ncu_swizzle.fix.layout_values import Escapes, LayoutValues
from ncu_swizzle.fix.scopes import Scopes, declared_name

if TYPE_CHECKING:
    from tree_sitter import Node

CLASSES = ("struct_specifier", "class_specifier")
FUNCTIONS = ("function_definition", "field_declaration", "declaration")
NAMING = ("template_argument_list", "alias_declaration")  # what holds a type descriptor that names a policy
MOST = 12  # renamings of one kernel


@dataclass(frozen=True, kw_only=True)
class LayoutPolicy:
    """A class, where it is declared, its template parameters, and its static functions with their parameters."""

    name: str
    scope: tuple[str, ...]
    file: int  # the number of the header that it is in
    parameters: tuple[str, ...]
    functions: frozenset[tuple[str, tuple[str, ...]]]
    members: frozenset[tuple[str, str]] = frozenset()  # names and texts, without the names of template parameters

    def replaces(self, other: LayoutPolicy) -> bool:
        """Whether it can be named in place of another one."""
        beside = (self.scope, self.file, self.parameters) == (other.scope, other.file, other.parameters)
        return beside and self.name != other.name and self.functions >= other.functions


@dataclass(frozen=True, eq=False)
class PolicyUse:
    """Where a source names a policy, and as what."""

    node: Node
    policy: LayoutPolicy
    qualifier: str


@dataclass(frozen=True, kw_only=True)
class Renaming:
    """A policy named in place of another one; `line` is that of the first name."""

    name: str  # as the source writes it
    edits: tuple[Edit, ...]
    line: int
    uses: tuple[PolicyUse, ...] = ()
    sibling: LayoutPolicy | None = None

    def placed_only(self, scopes: Scopes) -> None:
        """Raise Escapes if what the two policies differ in does more than to place elements of shared arrays."""
        if self.sibling is None:
            return
        policy = self.uses[0].policy
        differing, reached = {name for name, _ in policy.members ^ self.sibling.members}, -1
        while len(differing) != reached:  # and what is computed from those
            reached = len(differing)
            differing |= {n for n, text in policy.members if differing & set(text.split())}
        if "" in differing:
            raise Escapes(f"{policy.name} has a base class, whose members are not seen", self.line)
        functions = frozenset(name for name, _ in policy.functions) & differing
        values = LayoutValues(scopes=scopes, differing=frozenset(differing), functions=functions)
        for use in self.uses:
            values.named(use.node)


class Regions:
    """Which file each byte of a text with spliced headers is in: 0 is the source itself."""

    def __init__(self, text: bytes) -> None:
        self._starts, self._files = [0], [0]
        inside, count, at = [0], 0, 0
        for line in text.split(b"\n"):
            if line.startswith(BEGIN):
                count += 1
                inside.append(count)
                self._change(at, count)
            elif line.startswith(END) and len(inside) > 1:
                inside.pop()
                self._change(at, inside[-1])
            at += len(line) + 1

    def _change(self, at: int, file: int) -> None:
        self._starts.append(at)
        self._files.append(file)

    def file(self, node: Node) -> int:
        """Return the number of the file that a node is in."""
        return self._files[bisect.bisect_right(self._starts, node.start_byte) - 1]


def renamings(file: CudaFile, kernel: str) -> list[Renaming]:
    """Return the ways to name a sibling of a policy in a kernel's own source: wherever it is named, or at one place."""
    regions = Regions(file.text)
    policies = list(_policies(file, regions))
    uses = [use for use in _uses(file, regions, policies) if not in_other_kernel(file, use.node, kernel)]
    ways: list[Renaming] = []
    for policy in dict.fromkeys(use.policy for use in uses):
        named = [use for use in uses if use.policy == policy]
        siblings = [sibling for sibling in policies if sibling.replaces(policy)]
        places = [named, *([use] for use in named if len(named) > 1)]
        ways += [_renamed(file, place, sibling) for place in places for sibling in siblings]
    return ways[:MOST]


def _renamed(file: CudaFile, uses: Sequence[PolicyUse], sibling: LayoutPolicy) -> Renaming:
    return Renaming(
        name=f"{uses[0].qualifier}{sibling.name}",
        edits=tuple(Edit(use.node.start_byte, use.node.end_byte, sibling.name) for use in uses),
        line=file.line(uses[0].node),
        uses=tuple(uses),
        sibling=sibling,
    )


def _policies(file: CudaFile, regions: Regions) -> Iterator[LayoutPolicy]:
    """Yield the classes with static functions; specialisations, which have no name of their own, are none."""
    for node in file.nodes(*CLASSES):
        name, body = cuda.field_of(node, "name"), cuda.field_of(node, "body")
        if name is None or body is None or name.type != "type_identifier":
            continue
        functions = frozenset(_static_functions(file, body))
        if functions:
            members = frozenset(_members(file, node, body))
            yield LayoutPolicy(
                name=file.of(name),
                scope=_scope(file, node),
                file=regions.file(node),
                parameters=_parameters(file, node),
                functions=functions,
                members=members,
            )


def _members(file: CudaFile, node: Node, body: Node) -> Iterator[tuple[str, str]]:
    """Yield the names in a class's members, each with the member's text, in which template parameters have numbers."""
    numbered = {
        file.of(name): f"#{number}"
        for number, parameter in enumerate(_template_parameters(node))
        for name in [n for n in cuda.walk(parameter) if n.type in ("identifier", "type_identifier")][-1:]
    }
    for child in node.children:
        if child.type == "base_class_clause":  # brings members that are not seen here
            yield "", file.of(child) + file.of(node)
    for member in (child for child in body.named_children if child.type not in ("comment", "access_specifier")):
        leaves = [n for n in cuda.walk(member) if not n.child_count and n.type != "comment"]
        text = " ".join(numbered.get(file.of(n), file.of(n)) for n in leaves)
        inner = next((c for c in member.named_children if c.type in FUNCTIONS), member)  # of a template
        names = [name for d in inner.children_by_field_name("declarator") if (name := declared_name(d)) is not None]
        for name in names or [n for n in leaves if n.type.endswith("identifier")]:
            yield file.of(name), text


def _scope(file: CudaFile, node: Node) -> tuple[str, ...]:
    """Return the namespaces and classes around a node, the outermost first."""
    names: list[str] = []
    holder = cuda.above(node, "namespace_definition", *CLASSES)
    while holder is not None:
        named = cuda.field_of(holder, "name")
        names = [*(file.of(named).split("::") if named is not None else [""]), *names]
        holder = cuda.above(holder, "namespace_definition", *CLASSES)
    return tuple(names)


def _template_parameters(node: Node) -> list[Node]:
    """Return the parameters of the template that a class is; comments are among them."""
    holder = node.parent
    template = holder if holder is not None and holder.type == "template_declaration" else None
    listed = cuda.field_of(template, "parameters") if template is not None else None
    return listed.named_children if listed is not None else []


def _parameters(file: CudaFile, node: Node) -> tuple[str, ...]:
    """Return the types of a class's template parameters, without names and defaults."""
    return tuple(
        ("class..." if parameter.type.startswith("variadic") else "class")
        if parameter.type.endswith("type_parameter_declaration")
        else _without_name(file, parameter)
        for parameter in _template_parameters(node)
        if parameter.type != "comment"
    )


def _without_name(file: CudaFile, parameter: Node) -> str:
    """Return a parameter's type: its text without its name and its default."""
    end = next((child.start_byte for child in parameter.children if child.type == "="), parameter.end_byte)
    name = cuda.field_of(parameter, "declarator")
    while name is not None and name.type != "identifier":
        name = cuda.field_of(name, "declarator") or next(iter(name.named_children), None)
    start = parameter.start_byte
    parts = [(start, end)] if name is None else [(start, name.start_byte), (name.end_byte, end)]
    text = b" ".join(file.text[first:last] for first, last in parts)
    return " ".join(text.decode("utf-8", "surrogateescape").split())


def _static_functions(file: CudaFile, body: Node) -> Iterator[tuple[str, tuple[str, ...]]]:
    for member in body.named_children:
        node = member
        if member.type == "template_declaration":
            node = next((child for child in member.named_children if child.type in FUNCTIONS), member)
        words = {file.of(child) for child in node.children if child.type == "storage_class_specifier"}
        declared = cuda.field_of(node, "declarator")
        while declared is not None and declared.type != "function_declarator":
            declared = cuda.field_of(declared, "declarator")
        if node.type in FUNCTIONS and "static" in words and declared is not None:
            name, listed = cuda.field_of(declared, "declarator"), cuda.field_of(declared, "parameters")
            if name is not None and listed is not None:
                named = (each for each in listed.named_children if each.type != "comment")
                yield file.of(name), tuple(_without_name(file, each) for each in named)


def _uses(file: CudaFile, regions: Regions, policies: Sequence[LayoutPolicy]) -> Iterator[PolicyUse]:
    names = {policy.name for policy in policies}
    for node in file.nodes("type_identifier", "namespace_identifier"):
        if regions.file(node) or file.of(node) not in names:
            continue
        whole, qualifier = _qualified(file, node)
        holder = whole.parent
        if holder is None or not _names(whole, holder):
            continue
        scope = tuple(qualifier.split("::")[:-1])
        # What is written names the innermost of the scopes that the class is in; with nothing written, any class.
        meant = [
            policy
            for policy in policies
            if policy.name == file.of(node) and (not scope or policy.scope[-len(scope) :] == scope)
        ]
        # A name that may mean several classes is left alone: renaming it could change another one's layout.
        if len(meant) == 1:
            yield PolicyUse(node, meant[0], qualifier)


def _qualified(file: CudaFile, node: Node) -> tuple[Node, str]:
    """Return a name with its template arguments and all that qualifies it, and the text of the latter."""
    whole, parent = node, node.parent
    if parent is not None and parent.type == "template_type" and cuda.same(cuda.field_of(parent, "name"), node):
        whole = parent
    start = whole.start_byte
    while (holder := whole.parent) is not None and holder.type == "qualified_identifier":
        if not cuda.same(cuda.field_of(holder, "name"), whole):
            break
        whole = holder
    first = whole.start_byte
    if holder is not None and holder.type == "qualified_identifier":  # its member is named: a::P<…>::at
        while (above := holder.parent) is not None and above.type == "qualified_identifier":
            holder = above
        first = holder.start_byte
    return whole, "".join(file.text[first:start].decode("utf-8", "surrogateescape").split())


def _names(whole: Node, holder: Node) -> bool:
    """Return whether a type stands where a policy is chosen, or a function of it is called."""
    if holder.type == "type_descriptor":
        return holder.parent is not None and holder.parent.type in NAMING
    if holder.type == "qualified_identifier":
        return cuda.same(cuda.field_of(holder, "scope"), whole)
    return holder.type in ("type_definition", "optional_type_parameter_declaration")


def in_other_kernel(file: CudaFile, node: Node, kernel: str) -> bool:
    """Return whether a node is in the body of another kernel than the one of this name."""
    function = cuda.above(node, "function_definition")
    if function is None:
        return False
    body = cuda.field_of(function, "body")
    head = file.text[function.start_byte : body.start_byte if body is not None else function.end_byte]
    declared = cuda.field_of(function, "declarator")
    while declared is not None and (inner := cuda.field_of(declared, "declarator")) is not None:
        declared = inner
    name = file.of(declared) if declared is not None else ""
    return b"__global__" in head and name != kernel
