"""Patches that name another mapping: a layout policy in place of another one, CuTe's Swizzle around a layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.engines.emulation import Executable
from ncu_swizzle.fix.cuda import CLASSES, CudaFile, Node
from ncu_swizzle.fix.edits import Edit, composition, edited, places
from ncu_swizzle.fix.names import SharedDeclaration, declared_name
from ncu_swizzle.fix.sums import SIZES
from ncu_swizzle.reports import attribution
from ncu_swizzle.smem.swizzle import Swizzle

# Layout policies: classes whose static functions say where an element goes, and what can replace them.
#
# A kernel names a policy as a template argument, in an alias, or calls its functions by its name. Its siblings are the
# classes beside it that take as many template parameters and have the same static functions.

FUNCTIONS = ("function_definition", "field_declaration", "declaration")
NAMING = ("template_argument_list", "alias_declaration")  # what holds a type descriptor that names a policy
MOST = 12  # renamings of one kernel


@dataclass(frozen=True, kw_only=True)
class LayoutPolicy:
    """A class, where it is declared, and its static functions, each with the number of its parameters."""

    name: str
    scope: tuple[str, ...]
    file: Path  # the source or the header that it is in
    parameters: int  # of its template
    functions: frozenset[tuple[str, int]]

    def replaces(self, other: LayoutPolicy) -> bool:
        """Return whether it may be named in place of another one; the compiler and the proof decide."""
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
        functions = frozenset(_static_functions(body))
        if functions:
            yield LayoutPolicy(
                name=name.text,
                scope=_scope(node),
                file=_file(file, node),
                parameters=_count(node.parent.part("parameters")),
                functions=functions,
            )


def _scope(node: Node) -> tuple[str, ...]:
    """Return the namespaces and classes around a node, the outermost first."""
    names: list[str] = []
    while node := node.above("namespace_definition", *CLASSES):
        names = [*node.part("name").text.split("::"), *names]
    return tuple(names)


def _count(listed: Node) -> int:
    return sum(child.type != "comment" for child in listed.named_children)


def _static_functions(body: Node) -> Iterator[tuple[str, int]]:
    for member in body.named_children:
        inner = (child for child in member.named_children if child.type in FUNCTIONS)
        node = next(inner, member) if member.type == "template_declaration" else member
        words = {child.text for child in node.children if child.type == "storage_class_specifier"}
        declared = node.function_declarator
        if node.type in FUNCTIONS and "static" in words and declared:
            yield declared.part("declarator").text, _count(declared.part("parameters"))


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


SWIZZLES = 3  # to build, per array
LAYOUTS = 4


@dataclass(frozen=True, kw_only=True)
class NamedEdit:
    """A source that names another mapping, in which line, and how many bytes of it differ."""

    mapping: str
    text: bytes
    line: int
    size: int


def named_edits(
    file: CudaFile, kernel: str, version: Executable, declared: Sequence[SharedDeclaration]
) -> Iterator[NamedEdit]:
    """Yield the patches of a kernel's own source that name a mapping."""
    ways = [(way.name, way.line, way.edits) for way in renamings(file, kernel)]
    if layouts := list(declared_layouts(file, kernel))[:LAYOUTS]:
        swizzles = list(dict.fromkeys(_swizzles(version, declared)))
        ways += [(f"{layout.prefix}{s}", layout.line, layout.composed(s)) for layout in layouts for s in swizzles]
    for mapping, line, edits in ways:
        size = sum(len(edit.text) for edit in edits)
        yield NamedEdit(mapping=mapping, text=edited(file.text, edits), line=line, size=size)


def _swizzles(version: Executable, declared: Sequence[SharedDeclaration]) -> Iterator[Swizzle]:
    """Yield the swizzles that `lint` and `explain` find for the arrays, as CuTe takes them: on elements as declared."""
    profile = version.emulated.profile
    elements = {each.name: SIZES.get(each.element.rpartition("::")[2]) for each in declared}
    for tile in attribution.tiles(profile):
        array = next((each for each in version.arrays if tile.first in each.span), None)
        try:
            advice = tile.suggestion(attribution.constraints(profile))
        except UsageError:
            continue
        mappings = [candidate.mapping for candidate in (*advice.clean, advice.closest)]
        named = [mapping for mapping in mappings if isinstance(mapping.transform, Swizzle)]
        for mapping in named[:SWIZZLES]:
            assert isinstance(mapping.transform, Swizzle)
            element = (elements.get(array.name) if array else None) or mapping.element_bytes
            on_bytes = mapping.transform.on_bytes(mapping.element_bytes)
            swizzle = replace(on_bytes, base=max(0, on_bytes.base - (element.bit_length() - 1)))
            if swizzle.combine == "xor" and swizzle.shift >= swizzle.bits:  # as CuTe asserts
                yield swizzle
