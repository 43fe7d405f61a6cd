"""Split what reaches into shared memory into tiles: a buffer that is carved up holds several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ncu_swizzle.source.reach import Member, Obstacle, Reach, ReachedPlace, Web


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True)
class Members:
    """Where a struct's array lies in an array of such structs: its distance and size, theirs, how many there are."""

    offset: int
    size: int
    stride: int
    count: int


@dataclass(frozen=True, eq=False)
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
    roots = [Root(array, array) for array in web.arrays if array.declared.id not in holders]
    roots += [
        Root(place, _array(web, place), offsets[id_])
        for id_, place in web.places.items()
        if id_ not in objects and _begins(web, place, offsets)
    ]
    roots += _in_structs(web, offsets, members)
    starts = {root.place.declared.id for root in roots}
    edges = [r for r in web.reaches if r.end is None or r.advance or r.end.declared.id not in starts]
    groups = _joined(web.places, [(r.start.declared.id, r.end.declared.id) for r in edges if r.end is not None])
    return tuple(_tile(web, group, roots, edges) for group in groups)


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
                yield Root(place, array, offset, size, copy)


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
    """Say whether a tile of its own begins at a place: a pointer made once, by adding to another one."""
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


def _tile(web: Web, group: set[int], roots: Sequence[Root], edges: Sequence[Reach]) -> SourceTile:
    return SourceTile(
        tuple(root for root in roots if root.place.declared.id in group),
        tuple(place for id_, place in web.places.items() if id_ in group),
        tuple(reach for reach in edges if reach.start.declared.id in group),
        tuple(obstacle for obstacle in web.obstacles if obstacle.start.declared.id in group),
        web,
    )
