"""Patches that name another mapping: a layout policy in place of another one, CuTe's Swizzle around a layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.engines.emulation import Executable
from ncu_swizzle.fix.candidates import MOST_BITS, excess_at, within
from ncu_swizzle.fix.cuda import CLASSES, NOTHING, CudaFile, Node
from ncu_swizzle.fix.edits import Edit, composition, edited, places
from ncu_swizzle.fix.scopes import Scopes, SharedDeclaration, declared_name
from ncu_swizzle.fix.sums import SIZES
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.requests import AccessRequests
from ncu_swizzle.smem.suggestions import TRIED
from ncu_swizzle.smem.swizzle import Swizzle

# Layout policies: classes whose static functions say where an element goes, and what can replace them.
#
# A kernel names a policy as a template argument, in an alias, or calls its functions by its name. Its siblings are the
# classes beside it that take the same template parameters and have the same static functions.

FUNCTIONS = ("function_definition", "field_declaration", "declaration")
NAMING = ("template_argument_list", "alias_declaration")  # what holds a type descriptor that names a policy
MOST = 12  # renamings of one kernel


@dataclass(frozen=True, kw_only=True)
class LayoutPolicy:
    """A class, where it is declared, its template parameters, and its static functions with their parameters."""

    name: str
    scope: tuple[str, ...]
    file: Path  # the source or the header that it is in
    parameters: tuple[str, ...]
    functions: frozenset[tuple[str, tuple[str, ...]]]

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


def _file(file: CudaFile, node: Node) -> Path:
    """Return the file that a node of a text with spliced headers is in."""
    return places(Path(file.name), file.text)[node.line - 1][0]


def _is_own(file: CudaFile, node: Node) -> bool:
    return _file(file, node) == Path(file.name)


def renamings(file: CudaFile, kernel: str) -> list[Renaming]:
    """Return the ways to name a sibling of a policy in a kernel's own source: wherever it is named, or at one place."""
    policies = list(_policies(file))
    uses = [use for use in _uses(file, policies) if not in_other_kernel(file, use.node, kernel)]
    ways: list[Renaming] = []
    for policy in dict.fromkeys(use.policy for use in uses):
        named = [use for use in uses if use.policy == policy]
        siblings = [sibling for sibling in policies if sibling.replaces(policy)]
        places = [named, *([use] for use in named if len(named) > 1)]
        ways += [_renamed(place, sibling) for place in places for sibling in siblings]
    return ways[:MOST]


def _renamed(uses: Sequence[PolicyUse], sibling: LayoutPolicy) -> Renaming:
    return Renaming(
        name=f"{uses[0].qualifier}{sibling.name}",
        edits=tuple(Edit(use.node.start_byte, use.node.end_byte, sibling.name) for use in uses),
        line=uses[0].node.line,
    )


def _policies(file: CudaFile) -> Iterator[LayoutPolicy]:
    """Yield the classes with static functions; specialisations, which have no name of their own, are none."""
    for node in file.nodes(*CLASSES):
        name, body = node.part("name"), node.part("body")
        if not body or name.type != "type_identifier":
            continue
        functions = frozenset(_static_functions(file, body))
        if functions:
            yield LayoutPolicy(
                name=name.text,
                scope=_scope(node),
                file=_file(file, node),
                parameters=_parameters(file, node),
                functions=functions,
            )


def _scope(node: Node) -> tuple[str, ...]:
    """Return the namespaces and classes around a node, the outermost first."""
    names: list[str] = []
    while node := node.above("namespace_definition", *CLASSES):
        names = [*node.part("name").text.split("::"), *names]
    return tuple(names)


def _template_parameters(node: Node) -> list[Node]:
    """Return the parameters of the template that a class is; comments are among them."""
    return node.parent.part("parameters").named_children if node.parent.type == "template_declaration" else []


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
    name = parameter.part("declarator")
    while name and name.type != "identifier":
        name = name.part("declarator") or next(iter(name.named_children), NOTHING)
    start = parameter.start_byte
    parts = [(start, name.start_byte), (name.end_byte, end)] if name else [(start, end)]
    return " ".join(" ".join(file.between(*part) for part in parts).split())


def _static_functions(file: CudaFile, body: Node) -> Iterator[tuple[str, tuple[str, ...]]]:
    for member in body.named_children:
        node = member
        if member.type == "template_declaration":
            node = next((child for child in member.named_children if child.type in FUNCTIONS), member)
        words = {child.text for child in node.children if child.type == "storage_class_specifier"}
        declared = node.part("declarator")
        while declared and declared.type != "function_declarator":
            declared = declared.part("declarator")
        if node.type in FUNCTIONS and "static" in words and declared:
            named = (each for each in declared.part("parameters").named_children if each.type != "comment")
            yield declared.part("declarator").text, tuple(_without_name(file, each) for each in named)


def _uses(file: CudaFile, policies: Sequence[LayoutPolicy]) -> Iterator[PolicyUse]:
    names = {policy.name for policy in policies}
    for node in file.nodes("type_identifier", "namespace_identifier"):
        if node.text not in names or not _is_own(file, node):
            continue
        whole, qualifier = _qualified(file, node)
        if not _names(whole, whole.parent):
            continue
        scope = tuple(qualifier.split("::")[:-1])
        # What is written names the innermost of the scopes that the class is in; with nothing written, any class.
        meant = [
            policy
            for policy in policies
            if policy.name == node.text and (not scope or policy.scope[-len(scope) :] == scope)
        ]
        # A name that may mean several classes is left alone: renaming it could change another one's layout.
        if len(meant) == 1:
            yield PolicyUse(node, meant[0], qualifier)


def _qualified(file: CudaFile, node: Node) -> tuple[Node, str]:
    """Return a name with its template arguments and all that qualifies it, and the text of the latter."""
    whole = node.parent if node.is_part("name", "template_type") else node
    start = whole.start_byte
    while whole.is_part("name", "qualified_identifier"):
        whole = whole.parent
    first = whole.out_of("qualified_identifier").start_byte  # its member may be named: a::P<…>::at
    return whole, "".join(file.between(first, start).split())


def _names(whole: Node, holder: Node) -> bool:
    """Return whether a type stands where a policy is chosen, or a function of it is called."""
    if holder.type == "type_descriptor":
        return holder.parent.type in NAMING
    if holder.type == "qualified_identifier":
        return holder.part("scope") is whole
    return holder.type in ("type_definition", "optional_type_parameter_declaration")


def in_other_kernel(file: CudaFile, node: Node, kernel: str) -> bool:
    """Return whether a node is in the body of another kernel than the one of this name."""
    function = node.above("function_definition")
    if not function:
        return False
    head = file.between(function.start_byte, (function.part("body") or function).start_byte)
    declared = function
    while inner := declared.part("declarator"):
        declared = inner
    return "__global__" in head and declared.text != kernel


# CuTe's layouts where a source declares them, and how one is composed with a swizzle.

TENSOR_LAYOUTS = ("Layout", "make_layout")
EXPRESSIONS = ("call_expression", "compound_literal_expression")


@dataclass(frozen=True, kw_only=True)
class DeclaredLayout:
    """A layout, as an expression or a type, that a source gives a name; `prefix` is how it qualifies CuTe's names."""

    start: int
    end: int
    line: int
    prefix: str
    type_: bool

    def composed(self, swizzle: object) -> tuple[Edit, ...]:
        """Return the edits that compose it with a swizzle."""
        before, after = composition(self.start, self.end, self.prefix, swizzle)
        if self.type_:
            before, after = replace(before, text=f"decltype({before.text}"), replace(after, text="{}))")
        return before, after


def declared_layouts(file: CudaFile, kernel: str) -> Iterator[DeclaredLayout]:
    """Yield the layouts of a kernel's own source."""
    for node in file.nodes("init_declarator", "alias_declaration"):
        type_ = node.type == "alias_declaration"
        written = node.part("type" if type_ else "value")
        name = node.part("name") if type_ else declared_name(node)
        if not written or not name or not _is_own(file, node) or in_other_kernel(file, node, kernel):
            continue
        if written.type not in (("type_descriptor",) if type_ else EXPRESSIONS):
            continue
        named = written.part("function" if written.type == "call_expression" else "type").text
        scope, _, called = named.partition("<")[0].rpartition("::")
        if called in TENSOR_LAYOUTS:
            yield DeclaredLayout(
                start=written.start_byte,
                end=written.end_byte,
                line=written.line,
                prefix=f"{scope}::" if "::" in named.partition("<")[0] else "",
                type_=type_,
            )


HIGHEST = 14  # bit of an offset that a swizzle takes
BANK_ROW_BITS = 7
SWIZZLES = 3  # to build, per layout
LAYOUTS = 4


@dataclass(frozen=True, kw_only=True)
class NamedEdit:
    """A source that names another mapping, in which line, and how many bytes of it differ."""

    mapping: str
    text: bytes
    line: int
    size: int


def named_edits(
    scopes: Scopes, kernel: str, version: Executable, declared: Sequence[SharedDeclaration]
) -> Iterator[NamedEdit]:
    """Yield the patches of a kernel's own source that name a mapping."""
    file = scopes.file
    ways = [(way.name, way.line, way.edits) for way in renamings(file, kernel)]
    if layouts := list(declared_layouts(file, kernel))[:LAYOUTS]:
        swizzles = _swizzles(version, declared)
        ways += [(f"{each.prefix}{s}", each.line, each.composed(s)) for each in layouts for s in swizzles]
    for mapping, line, edits in ways:
        size = sum(len(edit.text) for edit in edits)
        yield NamedEdit(mapping=mapping, text=edited(file.text, edits), line=line, size=size)


def _swizzles(version: Executable, declared: Sequence[SharedDeclaration]) -> list[Swizzle]:
    """Return the swizzles that leave an array the least excess, those that take the lowest bits first."""
    best: list[Swizzle] = []
    for array in version.arrays:
        requests = list(_requests(version, array))
        before = _excess(requests, array, None)
        if not before:
            continue
        bytes_ = _element_bytes(array, declared, requests)
        tried = ((_excess(requests, array, s.on_bytes(bytes_)), s) for s in _every(requests, bytes_))
        better = sorted(((left, _reach(s), s) for left, s in tried if left < before), key=lambda each: each[:2])
        best += [swizzle for _, _, swizzle in better[:SWIZZLES]]
    return list(dict.fromkeys(best))


def _reach(swizzle: Swizzle) -> tuple[int, int, int]:
    """Return what a short tile allows first: a low highest bit, then few bits, then those that move furthest."""
    return swizzle.bits + swizzle.base + swizzle.shift, swizzle.bits, -swizzle.base


def _every(requests: Sequence[AccessRequests], element_bytes: int) -> Iterator[Swizzle]:
    element = element_bytes.bit_length() - 1
    widest = max(operations.find(made.op).width_bytes for made in requests).bit_length() - 1
    for base in range(max(0, widest - element), BANK_ROW_BITS - element):
        for bits in range(1, min(MOST_BITS, BANK_ROW_BITS - element - base) + 1):
            # CuTe asserts shift >= bits.
            for shift in range(bits, HIGHEST - base - bits + 1):
                yield Swizzle(bits=bits, base=base, shift=shift)


def _requests(version: Executable, array: SharedArray) -> Iterator[AccessRequests]:
    for made in version.emulated.counts.requests.values():
        if (inside := within(made, array.start, array.start + array.size)) is not None:
            rows = len(inside.times)
            yield inside.chosen(np.arange(0, rows, -(-rows // TRIED)))


def _excess(requests: Sequence[AccessRequests], array: SharedArray, swizzle: Swizzle | None) -> int:
    total = 0
    for made in requests:
        offsets = np.where(made.active, made.addresses - array.start, 0)
        total += excess_at(made, array.start + (swizzle(offsets) if swizzle else offsets))
    return total


def _element_bytes(
    array: SharedArray, declared: Sequence[SharedDeclaration], requests: Sequence[AccessRequests]
) -> int:
    """Return the size of an array's elements: by the name of their type, otherwise of the narrowest access."""
    for declaration in declared:
        if declaration.name == array.name and (size := SIZES.get(declaration.element.rpartition("::")[2])):
            return size
    return min(operations.find(made.op).width_bytes for made in requests)
