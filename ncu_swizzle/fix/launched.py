"""Where the parts of a carved buffer begin, if sizes of the launch decide it: ``raw + blockDim.x * 8``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ncu_swizzle.catalog.expressions import evaluate
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.fix.known import Known
from ncu_swizzle.source.reach import Reach, Web
from ncu_swizzle.source.scopes import Scopes
from ncu_swizzle.source.sums import SIZES, Constants

if TYPE_CHECKING:
    from tree_sitter import Node

AXES = "xyz"


def launched_offsets(target: Target, scopes: Scopes, webs: Sequence[Web], known: Known) -> Mapping[int, int]:
    """Return the distances of places from their array in this launch, in bytes, by the declared identifier."""
    sizes = dict(_sizes(target, scopes))
    constants = known.constants

    def value(node: Node) -> int | None:
        found = constants.name(node) if node.type != "field_expression" else None
        return sizes.get(scopes.file.of(node)) if found is None else found

    within = replace(constants, name=value, of_launch=True)
    return {id_: offset for web in webs for id_, offset in _offsets(web, within, known)}


def _sizes(target: Target, scopes: Scopes) -> Iterator[tuple[str, int]]:
    """Yield what the launch says: ``blockDim.x`` and its like, and the kernel's integer parameters."""
    for name, numbers in zip(
        ("gridDim", "blockDim"), target.family.geometry(target.kernel, target.problem), strict=True
    ):
        yield from ((f"{name}.{axis}", number) for axis, number in zip(AXES, numbers, strict=True))
    kernels = scopes.callables.get(target.kernel.entry.partition("<")[0].rpartition("::")[2], [])
    for made in kernels:
        for declared, argument in zip(made.parameters, target.family.arguments, strict=False):
            if declared is not None and argument.value and "int" in argument.dtype:
                try:
                    yield scopes.file.of(declared), evaluate(argument.value, target.problem)
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
