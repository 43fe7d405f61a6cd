"""What reaches into a shared array: names that stand for places in it, and the way from one to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

BYTES = "byte"  # the unit of an address that is an integer


@dataclass(frozen=True, eq=False)
class ReachStep:
    """One step from a place to the next: an index of a dimension, or something added.

    `unit` is the C type that the number counts; empty for the array's own elements. `node` is None for the first
    element, as in ``*p``. `rank` is how many subscripts were left before this one; 1 also for what is added.
    `foreign`: it stands in another function, by whose parameters it is written.
    """

    node: Node | None
    unit: str = ""
    rank: int = 1
    subscript: bool = True
    negative: bool = False
    foreign: bool = False


@dataclass(frozen=True, eq=False)
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
    kept: Node | None = None  # of a view: the name of the object that keeps the pointer
    pointer: str = ""  # which of its members that is


@dataclass(frozen=True, eq=False)
class Reach:
    """A use of a place: the steps from it, and where they end: at another place, or at an access.

    `node` is the whole expression. `layout` is the CuTe layout of a tensor over it, `leading` the leading dimension
    that an API is told.
    """

    start: ReachedPlace
    steps: tuple[ReachStep, ...]
    node: Node
    end: ReachedPlace | None = None
    layout: Node | None = None
    leading: Node | None = None
    unit: str = ""
    advance: bool = False  # the place itself is moved: p += 4


@dataclass(frozen=True, eq=False)
class Obstacle:
    """A use of a place that cannot be followed, at a line of the file; with `length` only for longer rows."""

    start: ReachedPlace
    line: int
    reason: str
    length: bool = False


@dataclass(frozen=True, eq=False)
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


@dataclass(eq=False)
class Web:
    """All places that reach into the same arrays, their uses, and what is in the way."""

    places: dict[int, ReachedPlace] = field(default_factory=dict)  # by the declared identifier
    reaches: list[Reach] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)

    @property
    def arrays(self) -> list[ReachedPlace]:
        return [place for place in self.places.values() if place.array]

    def from_(self, place: ReachedPlace) -> list[Reach]:
        """Return the uses of a place."""
        return [reach for reach in self.reaches if reach.start is place]

    def to(self, place: ReachedPlace) -> list[Reach]:
        """Return what a place is made from."""
        return [reach for reach in self.reaches if reach.end is place]
