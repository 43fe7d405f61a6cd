"""What a walk through a kernel knows: frames, what names mean, pointers into shared arrays, accesses, and tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ncu_swizzle.fix.cuda import NOTHING, Node
from ncu_swizzle.fix.names import Definition, SharedDeclaration, sizes_of


@dataclass(frozen=True, eq=False, kw_only=True)
class IndexStep:
    """One step on the way to an element: an index of a dimension, or something added.

    `unit` is the C type that the number counts; empty for the array's own elements. `node` is `NOTHING` for the first
    element, as in ``*p``. `rank` is how many subscripts were left before this one; 1 also for what is added.
    """

    node: Node
    frame: CallFrame
    unit: str = ""
    rank: int = 1
    subscript: bool = True
    negative: bool = False
    advance: bool = False  # it moves a pointer that is used before, too


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceAccess:
    """An access: its pointer, and the whole expression.

    `layout` is the CuTe layout of a tensor over it, `leading` the leading dimension that an API is told.
    """

    pointer: Pointer
    node: Node
    frame: CallFrame
    layout: Node = NOTHING
    leading: Node = NOTHING

    @property
    def steps(self) -> tuple[IndexStep, ...]:
        return self.pointer.steps

    @property
    def unit(self) -> str:
        return self.pointer.unit

    @property
    def lines(self) -> set[int]:
        """The lines of the file that its code may be said to come from: of its statement, and of calls and macros."""
        lines, frame = set(self.node.statement.every_line), self.frame.function
        while frame.caller is not None:
            lines |= {*frame.site.statement.every_line}
            frame = frame.caller.function
        return lines


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointer:
    """An address in a shared array: the steps to it, and how many subscripts lead on to an element; 0: an element."""

    array: SharedDeclaration
    home: CallFrame  # in which its name is written
    rank: int
    unit: str = ""  # what it counts; empty: elements of the array
    members: tuple[Node, ...] = ()  # of the structs in the array, the outermost first
    steps: tuple[IndexStep, ...] = ()  # since the last member
    named: tuple[tuple[Node, int], ...] = ()  # the pointers that it went through, and the number of steps before each
    object_: str = ""  # an expression for the member's struct, or the array
    object_declared: Node = NOTHING

    @property
    def dimensions(self) -> int:
        return len(sizes_of(self.members[-1])) if self.members else self.array.rank

    def key(self) -> tuple[object, ...]:
        """Return what two pointers that are alike have in common."""
        steps = tuple((step.node.id, step.frame.path) for step in self.steps)
        return self.array.declared.id, tuple(map(id, self.members)), steps, self.rank, self.unit

    def stepped(self, rank: int, node: Node, frame: CallFrame, **rest: bool) -> Pointer:
        if not self.steps and self.rank > self.dimensions > 1:  # *p, which points to all of the array
            return replace(self, rank=rank)
        step = IndexStep(node=node, frame=frame, unit=self.unit, rank=max(self.rank, 1), **rest)
        if rank == 0 and self.unit.endswith("]"):
            return replace(self, steps=(*self.steps, step), rank=1, unit=row_of(self.unit))
        return replace(self, steps=(*self.steps, step), rank=rank)


def row_of(type_: str) -> str:
    """Return what an array's type is one of several of: ``float[32]`` for ``float[8][32]``."""
    element, _, sizes = type_.partition("[")
    return element + sizes.partition("]")[2]


@dataclass(frozen=True, eq=False)
class Closure:
    """A lambda with the frame that it was made in."""

    definition: Definition
    frame: CallFrame

    def key(self) -> tuple[object, ...]:
        return (self.definition.body.id,)


@dataclass(frozen=True, eq=False)
class Made:
    """An object in registers: its class, and what its members were given."""

    struct: Node
    fields: dict[str, Bound]

    def key(self) -> tuple[object, ...]:
        values = (value.key() for bound in self.fields.values() for value in bound.values)
        return (self.struct.id, *values)


Value = Pointer | Closure | Made
Values = tuple[Value, ...]


@dataclass(eq=False)
class Bound:
    """What a name means: values that are followed, and the expression that it was given first, with its frame."""

    values: Values = ()
    node: Node = NOTHING
    frame: CallFrame | None = None
    declared: Node = NOTHING
    given: bool = False  # a parameter, or a member: what it means stands elsewhere
    changed: bool = False


@dataclass(eq=False, kw_only=True)
class CallFrame:
    """A block, a call or a macro's expansion. `caller` is where it is called, `outer` where its other names are."""

    definition: Definition | None = None  # that is called; None: a block
    caller: CallFrame | None = None
    outer: CallFrame | None = None
    site: Node = NOTHING  # the call
    this: Values = ()
    names: dict[str, Bound] = field(default_factory=dict)

    @property
    def function(self) -> CallFrame:
        """The call that a block is in."""
        frame = self
        while frame.definition is None and frame.outer is not None:
            frame = frame.outer
        return frame

    def owner(self, name: str) -> tuple[CallFrame | None, Bound | None]:
        """Return what a name means here, and the frame that it belongs to; None for a member of an object."""
        frame: CallFrame | None = self
        while frame is not None:
            if name in frame.names:
                return frame, frame.names[name]
            for value in frame.this:
                if isinstance(value, Made) and name in value.fields:
                    return None, value.fields[name]
            frame = frame.outer
        return None, None

    def bound(self, name: str) -> Bound | None:
        """Return what a name means here."""
        return self.owner(name)[1]

    def sees(self, other: CallFrame) -> bool:
        """Return whether the names of another frame mean the same here."""
        frame: CallFrame | None = self
        while frame is not None and frame is not other:
            frame = frame.outer
        return frame is other

    @property
    def path(self) -> tuple[int, ...]:
        """The calls that lead here: the same ones, however often a loop is walked through."""
        frame, calls = self.function, list[int]()
        while frame.caller is not None:
            calls.append(frame.site.id)
            frame = frame.caller.function
        return tuple(calls)


# The tiles of a source: an array, a part of a carved buffer, or an array in structs, with all accesses to it.


@dataclass(frozen=True, eq=False, kw_only=True)
class Root:
    """Where a tile begins: an array, or a declared name at a constant distance from one's start, in bytes."""

    declared: Node
    array: SharedDeclaration
    rank: int
    member: bool = False  # an array within a struct
    offset: int = 0
    size: int = 0  # bytes; 0: up to the next root, or the array's end
    copy: str = ""  # which of several structs it is in

    @property
    def shape(self) -> tuple[Node, int]:
        """The declared name that says how it is laid out, and how many subscripts lead to an element of that."""
        return (self.declared, self.rank) if self.member else (self.array.declared, self.array.rank)

    @property
    def label(self) -> str:
        """Its name among the tiles of a file; that of an array in a struct has the variable's."""
        return f"{self.array.name}{self.copy}.{self.declared.text}" if self.member else self.declared.text


@dataclass(frozen=True, kw_only=True)
class Members:
    """Where a struct's array lies: the distance from what holds it, its size, and the structs' strides and counts."""

    offset: int
    size: int
    copies: tuple[tuple[int, int], ...]  # stride and count, of the outermost structs first


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceTile:
    """Roots that share accesses, and so a mapping; all accesses to them."""

    roots: tuple[Root, ...]
    accesses: tuple[SourceAccess, ...]

    @property
    def named(self) -> tuple[Node, ...]:
        """The pointers and parameters through which it is accessed."""
        return tuple(dict.fromkeys(node for access in self.accesses for node, _ in access.pointer.named))


def tiles_of(
    accesses: Sequence[SourceAccess], offsets: Mapping[int, int], members: Mapping[tuple[Node, ...], Members]
) -> tuple[SourceTile, ...]:
    """Return the tiles; `offsets` are the declared pointers at a constant distance from their array, in bytes."""
    roots: dict[tuple[object, ...], Root] = {}
    rooted: list[tuple[Root, SourceAccess]] = []
    for access in accesses:
        root, rest = _rooted(access, offsets)
        root = roots.setdefault((root.array.declared, root.declared), root)
        rooted.append((root, rest))
    # Accesses that are written in the same place share a mapping, and so do all roots of one pointer.
    group = {root: {root} for root in roots.values()}
    by_node: dict[object, Root] = {}
    for root, access in rooted:
        keys = [access.node, *(step.node for step in access.steps if step.node)]
        if root.member:
            keys.append(root.declared)
        for key in keys:
            other = by_node.setdefault(key, root)
            if group[other] is not group[root]:
                group[other] |= group[root]
                for each in group[root]:
                    group[each] = group[other]
    tiles: list[SourceTile] = []
    for joined in {id(some): some for some in group.values()}.values():
        ordered = sorted(joined, key=_order)
        tiles.append(
            SourceTile(
                roots=tuple(copy for root in ordered for copy in _copies(root, members, offsets, rooted)),
                accesses=tuple(access for root, access in rooted if root in joined),
            )
        )
    return tuple(sorted((tile for tile in tiles if tile.roots), key=lambda tile: _order(tile.roots[0])))


def _order(root: Root) -> tuple[int, int, int]:
    return root.array.declared.start_byte, root.offset, root.declared.start_byte


def _rooted(access: SourceAccess, offsets: Mapping[int, int]) -> tuple[Root, SourceAccess]:
    """Return where an access begins, and the access from there on."""
    pointer = access.pointer
    if pointer.members:
        declared = pointer.members[-1]
        return Root(declared=declared, array=pointer.array, rank=len(sizes_of(declared)), member=True), access
    for declared, count in reversed(pointer.named):
        if (offset := offsets.get(declared.id, 0)) > 0 and all(s.rank == 1 for s in pointer.steps[:count]):
            rest = replace(pointer, steps=pointer.steps[count:])
            root = Root(declared=declared, array=pointer.array, rank=1, offset=offset)
            return root, replace(access, pointer=rest)
    return Root(declared=pointer.array.declared, array=pointer.array, rank=max(1, pointer.array.rank)), access


def _copies(
    root: Root, members: Mapping[tuple[Node, ...], Members], offsets: Mapping[int, int],
    found: Sequence[tuple[Root, SourceAccess]],
) -> list[Root]:  # fmt: skip
    """Return a root for each struct that holds the array."""
    if not root.member:
        return [root]
    pointer = next(access.pointer for other, access in found if other is root)
    known = members.get(pointer.members)
    if known is None:
        return []
    starts = [offsets.get(pointer.object_declared.id, 0) + known.offset]
    for stride, count in known.copies:
        starts = [start + number * stride for start in starts for number in range(count)]
    several = len(starts) > 1
    return [
        replace(root, offset=start, size=known.size, copy=f"[{number}]" if several else "")
        for number, start in enumerate(starts)
    ]
