"""What the launch says of a source: sizes that are parameters, and where the parts of a carved buffer begin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ncu_swizzle.catalog.expressions import evaluate
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.patch.known import Known
from ncu_swizzle.source import calls, cuda
from ncu_swizzle.source.reach import Reach, Web
from ncu_swizzle.source.scopes import Scopes
from ncu_swizzle.source.sums import SIZES, Constants

if TYPE_CHECKING:
    from tree_sitter import Node

AXES = "xyz"
CHANGING = ("assignment_expression", "update_expression", "pointer_expression")


@dataclass(eq=False)
class _Launched:
    """The values of names in a launch, by their declarations."""

    scopes: Scopes
    constants: Constants  # of the source alone
    members: Mapping[str, int]
    found: dict[int, int | None]
    within: Constants = field(init=False)

    def __post_init__(self) -> None:
        self.within = replace(self.constants, name=self.value, of_launch=True)

    def value(self, node: Node) -> int | None:
        if node.type == "field_expression":
            return self.members.get(self.scopes.file.of(node))
        known = self.constants.name(node)
        declared = self.scopes.resolve(node) if known is None and node.type == "identifier" else None
        return known if declared is None else self._declared(declared)

    def _declared(self, declared: Node) -> int | None:
        if declared.id not in self.found:
            self.found[declared.id] = None  # while it is being found
            self.found[declared.id] = self._initialised(declared)
        changing = self.found[declared.id] is not None and self._changes(declared)
        return None if changing else self.found[declared.id]

    def _initialised(self, declared: Node) -> int | None:
        """Return the value that a variable begins with, or that all calls give a parameter."""
        holder = declared.parent
        if holder is not None and holder.type == "init_declarator":
            value = cuda.field(holder, "value")
            return self.within.value(value) if value is not None else None
        values = {self.within.value(node) for node in self._given(declared)}
        return values.pop() if len(values) == 1 else None

    def _given(self, declared: Node) -> Iterator[Node]:
        """Yield what a function's parameter is given."""
        for made in (made for every in self.scopes.callables.values() for made in every if not made.macro):
            position = next((i for i, p in enumerate(made.parameters) if cuda.same(p, declared)), None)
            if position is None:
                continue
            for call in self.scopes.file.nodes("call_expression"):
                listed = cuda.field(call, "arguments")
                if listed is not None and calls.called(self.scopes.file, call) == made.name:
                    yield from listed.named_children[position : position + 1]

    def _changes(self, declared: Node) -> bool:
        """Say whether a variable is assigned to, or its address taken."""
        text = self.scopes.file.of(declared)
        changing = (cuda.field(n, "left") or cuda.field(n, "argument") for n in self.scopes.file.nodes(*CHANGING))
        named = (n for n in changing if n is not None and n.type == "identifier" and self.scopes.file.of(n) == text)
        return any(cuda.same(self.scopes.resolve(node), declared) for node in named)


def launched_constants(target: Target, scopes: Scopes, constants: Constants) -> Constants:
    """Return what is constant in a launch: ``blockDim.x`` and its like, integer parameters, and what follows."""
    sizes = zip(("gridDim", "blockDim"), target.family.geometry(target.kernel, target.problem), strict=True)
    members = {f"{name}.{axis}": n for name, numbers in sizes for axis, n in zip(AXES, numbers, strict=True)}
    return _Launched(scopes, constants, members, dict(_parameters(target, scopes))).within


def launched_offsets(webs: Sequence[Web], known: Known) -> Mapping[int, int]:
    """Return the distances of places from their array in this launch, in bytes, by the declared identifier."""
    return {id_: offset for web in webs for id_, offset in _offsets(web, known.launched, known)}


def _parameters(target: Target, scopes: Scopes) -> Iterator[tuple[int, int | None]]:
    """Yield the kernel's integer parameters, by their declarations."""
    for made in scopes.callables.get(target.kernel.entry.partition("<")[0].rpartition("::")[2], []):
        for declared, argument in zip(made.parameters, target.family.arguments, strict=False):
            if declared is not None and argument.value and "int" in argument.dtype:
                try:
                    yield declared.id, evaluate(argument.value, target.problem)
                except NcuSwizzleError:
                    continue


def _offsets(web: Web, constants: Constants, known: Known) -> Iterator[tuple[int, int]]:
    reached = {array.declared.id: 0 for array in web.arrays}
    waiting = list(reached)
    while waiting:
        id_ = waiting.pop()
        for reach in web.from_(web.places[id_]):
            if reach.end is None or reach.advance or reach.end.declared.id in reached:
                continue
            distance = _distance(reach, constants, known)
            if distance is not None:
                reached[reach.end.declared.id] = reached[id_] + distance
                waiting.append(reach.end.declared.id)
                yield reach.end.declared.id, reached[id_] + distance


def _distance(reach: Reach, constants: Constants, known: Known) -> int | None:
    """Return how many bytes the steps of a use add; None if that is not known."""
    distance = 0
    for step in reach.steps:
        if step.node is None:
            continue
        array = next(iter(known.element_bytes.values()), 0) if reach.start.array else 0
        unit = (
            known.unit_bytes.get(step.unit, SIZES.get(step.unit, 0))
            if step.unit
            else known.element_bytes.get(reach.start.declared.id, array)
        )
        number = constants.value(step.node)
        if number is None or not unit or step.rank > 1:
            return None
        distance += -number * unit if step.negative else number * unit
    return distance
