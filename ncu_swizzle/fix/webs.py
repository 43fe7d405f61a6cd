"""What reaches into a shared array: places, uses, and what is in the way; and the tiles that such a web holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ncu_swizzle.fix.cuda import NOTHING, Node

BYTES = "byte"  # the unit of an address that is an integer


@dataclass(frozen=True, eq=False, kw_only=True)
class ReachStep:
    """One step from a place to the next: an index of a dimension, or something added.

    `unit` is the C type that the number counts; empty for the array's own elements. `node` is None for the first
    element, as in ``*p``. `rank` is how many subscripts were left before this one; 1 also for what is added.
    `foreign`: it stands in another function, by whose parameters it is written.
    """

    node: Node
    unit: str = ""
    rank: int = 1
    subscript: bool = True
    negative: bool = False
    foreign: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class ReachedPlace:
    """A name for a place in an array: the array, a pointer, a parameter, an integer address.

    `rank` is how many subscripts lead to an element. `declared` is the identifier in its declaration.
    """

    name: str
    declared: Node
    rank: int
    unit: str = ""
    array: bool = False  # declared as shared memory
    member: bool = False  # an array within a struct
    kept: Node = NOTHING  # of a view: the name of the object that keeps the pointer
    pointer: str = ""  # which of its members that is

    @property
    def keeper(self) -> Node:
        """The name that is the place, or the object that keeps it: whose uses are uses of the place."""
        return self.kept or self.declared


@dataclass(frozen=True, eq=False, kw_only=True)
class Reach:
    """A use of a place: the steps from it, and where they end: at another place, or at an access.

    `node` is the whole expression. `layout` is the CuTe layout of a tensor over it, `leading` the leading dimension
    that an API is told.
    """

    start: ReachedPlace
    steps: tuple[ReachStep, ...]
    node: Node
    end: ReachedPlace | None = None
    layout: Node = NOTHING
    leading: Node = NOTHING
    unit: str = ""
    advance: bool = False  # the place itself is moved: p += 4


@dataclass(frozen=True, eq=False, kw_only=True)
class Obstacle:
    """A use of a place that is not followed, at a line of the file: a patch does not change it."""

    start: ReachedPlace
    line: int
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Member:
    """An array that a struct holds, as reached through a place; `object_` names one of the structs there.

    `outer` is the array that holds these structs, if it is itself in a struct.
    """

    place: ReachedPlace
    through: ReachedPlace
    object_: str
    outer: Member | None = None

    @property
    def variable(self) -> ReachedPlace:
        """What the outermost struct is reached through."""
        return self.outer.variable if self.outer is not None else self.through


@dataclass(eq=False, kw_only=True)
class Web:
    """All places that reach into the same arrays, their uses, and what is in the way."""

    places: dict[int, ReachedPlace] = field(default_factory=dict)  # by the declared identifier
    reaches: list[Reach] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    tiles: tuple[SourceTile, ...] = ()  # that it holds, once it is carved up

    @property
    def arrays(self) -> list[ReachedPlace]:
        return [place for place in self.places.values() if place.array]

    def from_(self, place: ReachedPlace) -> list[Reach]:
        """Return the uses of a place."""
        return [reach for reach in self.reaches if reach.start is place]

    def to(self, place: ReachedPlace) -> list[Reach]:
        """Return what a place is made from."""
        return [reach for reach in self.reaches if reach.end is place]


# Tiles: a buffer that is carved up holds several.


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

    def to(self, place: ReachedPlace, *, advances: bool = False) -> tuple[Reach, ...]:
        """Return what a place is made from, or with `advances` what moves it."""
        return tuple(reach for reach in self.reaches if reach.end is place and reach.advance is advances)


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
    web.tiles = tuple(
        SourceTile(
            roots=tuple(root for root in roots if root.place.declared.id in group),
            places=tuple(place for id_, place in web.places.items() if id_ in group),
            reaches=tuple(reach for reach in edges if reach.start.declared.id in group),
            obstacles=tuple(obstacle for obstacle in web.obstacles if obstacle.start.declared.id in group),
            web=web,
        )
        for group in groups
    )
    return web.tiles


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
