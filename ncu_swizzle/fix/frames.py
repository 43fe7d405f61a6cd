"""What a walk through a kernel knows: frames and what their names mean, pointers into shared arrays, and accesses."""

from __future__ import annotations

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
