"""What the launch says of a source: sizes that are parameters, and where the parts of a carved buffer begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import Member, Obstacle, Reach, ReachedPlace, Web, field_of, is_field
from ncu_swizzle.fix.scopes import Scopes
from ncu_swizzle.fix.sums import SIZES, Constants
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import evaluate

if TYPE_CHECKING:
    from tree_sitter import Node


# Split what reaches into shared memory into tiles: a buffer that is carved up holds several.


@dataclass(frozen=True, eq=False, kw_only=True)
class Root:
    """Where a tile begins: an array, or a place at a constant distance from one's start, in bytes."""

    place: ReachedPlace
    array: ReachedPlace
    offset: int = 0
    size: int = 0  # bytes; 0: up to the next root, or the array's end
    copy: str = ""  # which of several structs it is in

    @property
    def name(self) -> str:
        return f"{self.array.name}{self.copy}.{self.place.name}" if self.place.member else self.place.name


@dataclass(frozen=True, kw_only=True)
class Members:
    """Where a struct's array lies in an array of such structs: its distance and size, theirs, how many there are."""

    offset: int
    size: int
    stride: int
    count: int


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceTile:
    """Roots that share pointers, and so a mapping; all places in them, their uses, and what is in the way."""

    roots: tuple[Root, ...]
    places: tuple[ReachedPlace, ...]
    reaches: tuple[Reach, ...]
    obstacles: tuple[Obstacle, ...]
    web: Web  # that it is a part of

    def from_(self, place: ReachedPlace) -> tuple[Reach, ...]:
        return tuple(reach for reach in self.reaches if reach.start is place)

    def to(self, place: ReachedPlace) -> tuple[Reach, ...]:
        return tuple(reach for reach in self.reaches if reach.end is place and not reach.advance)


def carved(web: Web, offsets: Mapping[int, int], members: Mapping[tuple[int, int], Members]) -> tuple[SourceTile, ...]:
    """Return the tiles of a web; `offsets` are the places at a constant distance from their array, in bytes.

    `members` are the arrays in structs, by their declaration and that of what they are reached through.
    """
    objects = {member.through.declared.id for member in web.members}
    holders = {_array(web, member.through).declared.id for member in web.members}
    roots = [Root(place=array, array=array) for array in web.arrays if array.declared.id not in holders]
    roots += [
        Root(place=place, array=_array(web, place), offset=offsets[id_])
        for id_, place in web.places.items()
        if id_ not in objects and _begins(web, place, offsets)
    ]
    roots += _in_structs(web, offsets, members)
    starts = {root.place.declared.id for root in roots}
    edges = [r for r in web.reaches if r.end is None or r.advance or r.end.declared.id not in starts]
    groups = _joined(web.places, [(r.start.declared.id, r.end.declared.id) for r in edges if r.end is not None])
    return tuple(
        SourceTile(
            roots=tuple(root for root in roots if root.place.declared.id in group),
            places=tuple(place for id_, place in web.places.items() if id_ in group),
            reaches=tuple(reach for reach in edges if reach.start.declared.id in group),
            obstacles=tuple(obstacle for obstacle in web.obstacles if obstacle.start.declared.id in group),
            web=web,
        )
        for group in groups
    )


def _in_structs(web: Web, offsets: Mapping[int, int], members: Mapping[tuple[int, int], Members]) -> Iterator[Root]:
    """Yield a root for each copy of each array in a struct."""
    seen: set[tuple[int, int, int]] = set()
    for member in web.members:
        place = member.place
        if any(other.through is place for other in web.members):
            continue  # structs, which hold the arrays
        copies = list(_copies(member, offsets, members))
        for number, offset in enumerate(copies):
            array = _array(web, member.variable)
            size = members[place.declared.id, member.through.declared.id].size
            if (key := (place.declared.id, array.declared.id, offset)) not in seen:
                seen.add(key)
                copy = f"[{number}]" if len(copies) > 1 else ""
                yield Root(place=place, array=array, offset=offset, size=size, copy=copy)


def _copies(member: Member, offsets: Mapping[int, int], members: Mapping[tuple[int, int], Members]) -> Iterator[int]:
    """Yield where each copy of an array in a struct begins, in bytes; nothing if that is not known."""
    through = member.through
    found = members.get((member.place.declared.id, through.declared.id))
    if found is None:
        return
    if member.outer is not None:
        starts = list(_copies(member.outer, offsets, members))
    else:
        start = 0 if through.array else offsets.get(through.declared.id)
        starts = [start] if start is not None else []
    for start in starts:
        yield from (start + found.offset + number * found.stride for number in range(found.count))


def _begins(web: Web, place: ReachedPlace, offsets: Mapping[int, int]) -> bool:
    """Return whether a tile of its own begins at a place: a pointer made once, by adding to another one."""
    made = [reach for reach in web.to(place) if not reach.advance]
    flat = all(step.rank == 1 for reach in made for step in reach.steps) and all(r.start.rank == 1 for r in made)
    added = any(reach.steps for reach in made)
    return len(made) == 1 and added and flat and not place.array and offsets.get(place.declared.id, 0) > 0


def _array(web: Web, place: ReachedPlace) -> ReachedPlace:
    """Return the array that a place lies in."""
    seen: set[int] = set()
    while not place.array and place.declared.id not in seen:
        seen.add(place.declared.id)
        made = web.to(place)
        place = made[0].start if made else place
    return place


def _joined(places: Mapping[int, ReachedPlace], pairs: Iterable[tuple[int, int]]) -> Sequence[set[int]]:
    group = {id_: {id_} for id_ in places}
    for one, other in pairs:
        if group[one] is not group[other]:
            group[one] |= group[other]
            for id_ in group[other]:
                group[id_] = group[one]
    return list({id(members): members for members in group.values()}.values())


# What is known of a kernel's source without running it.


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
    sizes = zip(("gridDim", "blockDim"), target.family.geometry(target.kernel, target.problem), strict=True)
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
