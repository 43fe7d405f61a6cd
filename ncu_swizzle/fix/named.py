"""Fix a kernel by one name in its source: a layout policy in place of another one, CuTe's Swizzle around a layout.

Each patch that names another mapping is built, and the best of them are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, UsageError
from ncu_swizzle.base.files import brief
from ncu_swizzle.engines.emulation import Executable, executable
from ncu_swizzle.fix import claims, cuda, trial
from ncu_swizzle.fix.candidates import MappingKind
from ncu_swizzle.fix.claims import Proof, excess_of, spans_of
from ncu_swizzle.fix.cuda import CLASSES, CudaFile, Node
from ncu_swizzle.fix.edits import Edit, composition, edited, places, rebuilt
from ncu_swizzle.fix.names import Names, SharedDeclaration, declared_name, shared_declarations
from ncu_swizzle.fix.subject import located
from ncu_swizzle.fix.sums import SIZES
from ncu_swizzle.fix.trial import FixJob, Stop, furthest
from ncu_swizzle.reports import attribution
from ncu_swizzle.smem.swizzle import Swizzle


@dataclass(frozen=True, kw_only=True)
class NamedEdit:
    """The edits that name another mapping, and in which line the first of them is."""

    mapping: str
    edits: tuple[Edit, ...]
    line: int


# Layout policies: classes whose static functions say where an element goes, and what can replace them.
#
# A kernel names a policy as a template argument, in an alias, or calls its functions by its name. Its siblings are the
# classes beside it that take as many template parameters and have the same static functions. What a name means, and
# whether another one fits there, the compiler knows.

FUNCTIONS = ("function_definition", "field_declaration", "declaration")
NAMING = ("template_argument_list", "alias_declaration")  # what holds a type descriptor that names a policy
MOST = 12  # renamings of one kernel


@dataclass(frozen=True, kw_only=True)
class LayoutPolicy:
    """A class, what it stands in, and its static functions, each with the number of its parameters."""

    name: str
    holder: Node
    parameters: int  # of its template
    functions: frozenset[tuple[str, int]]

    def replaces(self, other: LayoutPolicy) -> bool:
        """Return whether it may be named in place of another one; the compiler and the proof decide."""
        beside = self.holder is other.holder and self.parameters == other.parameters
        return beside and self.name != other.name and self.functions >= other.functions


def _is_own(file: CudaFile, node: Node, kernel: str) -> bool:
    """Return whether a node is in the source itself, and not in another kernel there."""
    function = node.above("function_definition")
    declared = function.function_declarator.part("declarator").text
    head = file.between(function.start_byte, (function.part("body") or function).start_byte)
    in_other = "__global__" in head and declared != kernel
    return not in_other and places(Path(file.name), file.text)[node.line - 1][0] == Path(file.name)


def renamings(file: CudaFile, kernel: str) -> list[NamedEdit]:
    """Return the ways to name a sibling of a policy in a kernel's own source: wherever it is named, or at one place."""
    policies, ways = list(_policies(file)), list[NamedEdit]()
    own = (node for node in file.nodes("type_identifier", "namespace_identifier") if _is_own(file, node, kernel))
    uses = [(node, qualifier) for node in own if (qualifier := _qualifier(file, node)) is not None]
    for policy in policies:
        named = [(node, qualifier) for node, qualifier in uses if node.text == policy.name]
        for some in [named, *([use] for use in named if len(named) > 1)] if named else ():
            for sibling in (each for each in policies if each.replaces(policy)):
                edits = tuple(Edit(node.start_byte, node.end_byte, sibling.name) for node, _ in some)
                first, qualifier = some[0]
                ways.append(NamedEdit(mapping=f"{qualifier}{sibling.name}", edits=edits, line=first.line))
    return ways[:MOST]


def _policies(file: CudaFile) -> Iterator[LayoutPolicy]:
    """Yield the classes with static functions; specialisations, which have no name of their own, are none."""
    for node in file.nodes(*CLASSES):
        functions = frozenset(_static_functions(node.part("body")))
        if functions and node.part("name").type == "type_identifier":
            yield LayoutPolicy(
                name=node.part("name").text,
                holder=node.out_of("template_declaration").parent,
                parameters=_count(node.parent.part("parameters")),
                functions=functions,
            )


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


def _qualifier(file: CudaFile, node: Node) -> str | None:
    """Return what qualifies a name if it stands where a policy is chosen, or a function of it is called; else None."""
    whole = node.parent if node.is_part("name", "template_type") else node
    start = whole.start_byte
    while whole.is_part("name", "qualified_identifier"):
        whole = whole.parent
    holder = whole.parent
    chosen = (
        holder.type in ("type_definition", "optional_type_parameter_declaration")
        or (holder.type == "type_descriptor" and holder.parent.type in NAMING)
        or whole.is_part("scope", "qualified_identifier")
    )
    # Its member may be named: a::P<…>::at.
    return "".join(file.between(whole.out_of("qualified_identifier").start_byte, start).split()) if chosen else None


# CuTe's layouts where a source declares them, composed with a swizzle.

TENSOR_LAYOUTS = ("Layout", "make_layout")
SWIZZLES = 3  # to build, per array
LAYOUTS = 4


def compositions(file: CudaFile, kernel: str, swizzles: Sequence[object]) -> Iterator[NamedEdit]:
    """Yield the layouts that a kernel's own source gives a name, as expressions or types, with each swizzle."""
    found = 0
    for node in file.nodes("init_declarator", "alias_declaration"):
        type_ = node.type == "alias_declaration"
        written = node.part("type" if type_ else "value")
        if not (node.part("name") if type_ else declared_name(node)) or not _is_own(file, node, kernel):
            continue
        named = written.part("function" if written.type == "call_expression" else "type").text.partition("<")[0]
        scope, colons, called = named.rpartition("::")
        if called not in TENSOR_LAYOUTS or found == LAYOUTS:
            continue
        found += 1
        prefix = f"{scope}{colons}"
        for swizzle in swizzles:
            before, after = composition(written.start_byte, written.end_byte, prefix, swizzle)
            if type_:
                before, after = replace(before, text=f"decltype({before.text}"), replace(after, text="{}))")
            yield NamedEdit(mapping=f"{prefix}{swizzle}", edits=(before, after), line=written.line)


def swizzles_of(version: Executable, declared: Sequence[SharedDeclaration]) -> Iterator[Swizzle]:
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
        named = [(mapping, mapping.transform) for mapping in mappings if isinstance(mapping.transform, Swizzle)]
        for mapping, swizzle in named[:SWIZZLES]:
            element = (elements.get(array.name) if array else None) or mapping.element_bytes
            on_bytes = swizzle.on_bytes(mapping.element_bytes)
            on_elements = replace(on_bytes, base=max(0, on_bytes.base - (element.bit_length() - 1)))
            if on_elements.combine == "xor" and on_elements.shift >= on_elements.bits:  # as CuTe asserts
                yield on_elements


# The search: what compiles is ranked, and the first that is proved is taken.

ATTEMPTS = 4  # patches to try


@dataclass(frozen=True, eq=False, kw_only=True)
class NamedPatch:
    """A patch that is proved, or may be right, and then what stopped it; the lines of arrays by their names."""

    edit: NamedEdit
    text: bytes
    proof: Proof
    stop: Stop | None
    lines: Mapping[str, int]


def cheapest(job: FixJob) -> tuple[NamedPatch | None, Stop | None]:
    """Return the cheapest patch that is proved, else one that is not refuted, and what stopped the others."""
    before = excess_of(job.old.emulated, spans_of(job.old.arrays))
    if not before.total:
        return None, None
    file = cuda.parse(job.text, job.target.source.name)
    declared = list(shared_declarations(Names(file)))
    kernel = job.target.kernel.entry.partition("<")[0].rpartition("::")[2]
    swizzles = list(dict.fromkeys(swizzles_of(job.old, declared)))
    found: NamedPatch | None = None
    stop: Stop | None = None
    costs: list[tuple[tuple[int, ...], NamedEdit]] = []
    for edit in (*renamings(file, kernel), *compositions(file, kernel, swizzles)):
        try:
            cost = _cost(job, edit)
        except EnvironmentLacking:
            raise
        except (NcuSwizzleError, ValueError) as error:
            reason = f"the patched source does not compile or cannot be emulated: {brief(error)}"
            line = located(job.target, job.text, edit.line)
            stop = furthest(stop, Stop(stage=trial.WRITTEN, reason=reason, line=line, mapping=edit.mapping))
            continue
        costs += [(cost, edit)] if cost and cost[0] < before.total else []
    lines = {each.name: each.declared.line for each in declared}
    for _, edit in sorted(costs, key=lambda pair: pair[0])[:ATTEMPTS]:
        text = edited(job.text, edit.edits)
        proof = job.tried(text, {})
        patch = NamedPatch(edit=edit, text=text, proof=proof, stop=None, lines=lines)
        if proof.held:
            return patch, stop
        stopped = trial.stop_of(proof, located(job.target, job.text, edit.line), edit.mapping)
        stop = furthest(stop, stopped)
        if found is None and proof.offered:
            found = replace(patch, stop=stopped)
    return found, stop


def _cost(job: FixJob, edit: NamedEdit) -> tuple[int, ...]:
    """Build a patch, and return what orders it: excess, look-ups, shared memory, blocks, instructions, registers.

    Empty if the options exclude it.
    """
    with rebuilt(job.target, edited(job.text, edit.edits)) as copy:
        new = executable(copy, job.settings)
    left, taken = excess_of(new.emulated, {}).total, claims.resources_of(new)
    padded = taken.shared > claims.resources_of(job.old).shared
    kind = MappingKind.PADDING if padded else MappingKind.SWIZZLE
    fits = job.options.max_shared is None or taken.shared <= job.options.max_shared
    if left is None or job.options.only not in (None, kind) or not fits or not taken.blocks_per_sm:
        return ()
    code = new.code.instructions
    loads = sum(instruction.text.count("LDG.") for instruction in code)  # of a mapping that is looked up
    size = sum(len(each.text) for each in edit.edits)
    return left, loads, taken.shared, -taken.blocks_per_sm, len(code), taken.registers, size
