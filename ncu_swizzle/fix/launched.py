"""What a launch tells about a kernel's source: the values of names, and where places lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import field_of, is_field
from ncu_swizzle.fix.scopes import Scopes
from ncu_swizzle.fix.sums import SIZES, Constants
from ncu_swizzle.fix.webs import Members, Reach, Web
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import evaluate

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Known:
    """Answers: the names' values, the sizes of types by name and of elements, and places' distances."""

    constants: Constants
    launched: Constants  # what the launch says, too: blockDim.x, the kernel's integer parameters
    unit_bytes: Mapping[str, int]
    element_bytes: Mapping[int, int]  # by declared identifier
    row_elements: Mapping[int, int]  # of the last dimension
    row_counts: Mapping[int, int]  # of the one before
    offsets: Mapping[int, int]  # from the array, in bytes
    members: Mapping[tuple[int, int], Members]  # of structs, by declaration and by what they are reached through


AXES = "xyz"


@dataclass(eq=False, kw_only=True)
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
        known = self.found[declared.id]
        return None if known is None or self._changes(declared) else known

    def _initialised(self, declared: Node) -> int | None:
        """Return the value that a variable begins with, or that all calls give a parameter."""
        if declared.parent is not None and declared.parent.type == "init_declarator":
            given = [value for value in [field_of(declared.parent, "value")] if value is not None]
        else:
            taken = ((made, number) for made, number in self.scopes.taking(declared) if not made.macro)
            calls = ((call, number) for made, number in taken for call in self.scopes.calls(made.name))
            given = [node for call, number in calls for node in cuda.arguments(call)[number : number + 1]]
        values = {self.within.value(node) for node in given}
        return values.pop() if len(values) == 1 else None

    def _changes(self, declared: Node) -> bool:
        """Return whether a variable is assigned to, or its address taken."""
        return any(
            is_field(use, "left", "assignment_expression")
            or is_field(use, "argument", "update_expression", "pointer_expression")
            for use in self.scopes.uses(declared)
        )


def launched_constants(target: Target, scopes: Scopes, constants: Constants) -> Constants:
    """Return what is constant in a launch: ``blockDim.x`` and its like, integer parameters, and what follows."""
    launch = target.launch
    sizes = (("gridDim", launch.grid), ("blockDim", launch.block))
    members = {f"{name}.{axis}": n for name, numbers in sizes for axis, n in zip(AXES, numbers, strict=True)}
    return _Launched(
        scopes=scopes, constants=constants, members=members, found=dict(_parameters(target, scopes))
    ).within


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
    array = next(iter(known.element_bytes.values()), 0) if reach.start.array else 0
    element = known.element_bytes.get(reach.start.declared.id, array)
    for step in (step for step in reach.steps if step.node is not None):
        unit = known.unit_bytes.get(step.unit, SIZES.get(step.unit, 0)) if step.unit else element
        number = constants.value(step.node) if step.node is not None else None
        if number is None or not unit or step.rank > 1:
            return None
        distance += -number * unit if step.negative else number * unit
    return distance
