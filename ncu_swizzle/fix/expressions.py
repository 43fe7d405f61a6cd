"""Expressions that point into a shared array: what is made of them, step by step."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import BYTES, CudaFile, Member, Obstacle, Reach, ReachedPlace, ReachStep, Web
from ncu_swizzle.fix.scopes import Scopes, SharedDeclaration, declared_name, sizes_of

if TYPE_CHECKING:
    from tree_sitter import Node


# Edits of a text by byte range, and what they look like as a patch.


@dataclass(frozen=True, order=True)
class Edit:
    """The bytes from `start` to `end` are replaced; both are equal if something is inserted."""

    start: int
    end: int
    text: str


class Overlap(ValueError):
    """Two different edits of the same bytes."""


def edited(text: bytes, edits: Iterable[Edit]) -> bytes:
    """Return the text with all edits made; raise Overlap if two of them get in each other's way."""
    parts, reached = [], 0
    for edit in sorted(set(edits)):
        if edit.start < reached:
            raise Overlap(f"two edits of byte {edit.start}")
        parts += [text[reached : edit.start], edit.text.encode("utf-8", "surrogateescape")]
        reached = edit.end
    return b"".join([*parts, text[reached:]])


def line_end(text: bytes, at: int) -> str:
    """Return how the line that a byte is in ends; of the last one, how the one before it does."""
    end = text.find(b"\n", at)
    end = end if end >= 0 else text.rfind(b"\n")
    return "\r\n" if text[max(0, end - 1) : end] == b"\r" else "\n"


def unified(before: bytes, after: bytes, name: str) -> str:
    """Return the difference as a patch that ``git apply`` and ``patch -p1`` take."""
    old, new = (text.decode("utf-8", "surrogateescape").splitlines(keepends=True) for text in (before, after))
    lines = difflib.unified_diff(_split(old), _split(new), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _split(lines: list[str]) -> list[str]:
    """Return lines as ``\\n`` ends them: a form feed within a line is part of it."""
    return "".join(lines).replace("\n", "\n\0").removesuffix("\0").split("\0") if lines else []


# The structs that a file defines, and the arrays in them.


def member(file: CudaFile, type_: str, name: str) -> Node | None:
    """Return the identifier in the declaration of a struct's member; None if the file does not define it."""
    struct = cuda.find(file, type_, *cuda.CLASSES, "union_specifier")
    if struct is None:
        return None
    return next((declared for _, declared in members(struct) if file.of(declared) == name), None)


def members(struct: Node) -> Iterator[tuple[Node, Node]]:
    """Yield the declarations in a struct, each with an identifier that it declares."""
    body = cuda.field_of(struct, "body")
    for declaration in body.named_children if body is not None else ():
        for declarator in declaration.children_by_field_name("declarator"):
            declared = declared_name(declarator)
            if declared is not None:
                yield declaration, declared


def arrays(struct: Node) -> list[Node]:
    """Return the identifiers of a struct's arrays; those of all its objects, which are elsewhere, are left out."""
    return [
        declared
        for declaration, declared in members(struct)
        if declaration.type == "field_declaration"
        and sizes_of(declared)
        and not any(child.type == "storage_class_specifier" for child in declaration.children)
    ]


def type_of(file: CudaFile, declared: Node) -> str:
    """Return the type that a member's declaration begins with."""
    declaration = cuda.above(declared, "field_declaration")
    type_ = cuda.field_of(declaration, "type") if declaration is not None else None
    return file.of(type_) if type_ is not None else ""


def numbers(file: CudaFile, struct: Node) -> Iterator[str]:
    """Yield the names of the members that are neither pointers nor arrays."""
    for _, declared in members(struct):
        if declared.parent is not None and not declared.parent.type.endswith("_declarator"):
            yield file.of(declared)


def opened(struct: Node) -> Iterator[Edit]:
    """Yield the edits that make everything in a struct public."""
    body = cuda.field_of(struct, "body")
    for child in body.children if body is not None else ():
        colon = child.next_sibling if child.type == "access_specifier" else None
        at = child.end_byte if child.type == "{" else colon.end_byte if colon is not None else None
        if at is not None:
            yield Edit(at, at, " public: ")


TO_ADDRESS = ("__cvta_generic_to_shared", "cast_smem_ptr_to_uint", "cast_smem_ptr_to_uint32")
SAME = ("make_smem_ptr", "__builtin_assume_aligned", "launder")
MATRIX = ("load_matrix_sync", "store_matrix_sync")
# They access what they are pointed to, as wide as the pointer says or as they are told.
ACCESSING = re.compile(
    r"(atomic\w+|__pipeline_memcpy_async|memcpy_async|__ld\w+|__st\w+|memcpy|__shfl\w*|__half2float|float2half|min|max|f(ma|min|max)f?)$"
)


@dataclass(frozen=True, kw_only=True)
class PointerState:
    """Where an expression points: its way from a place so far."""

    start: ReachedPlace
    rank: int
    unit: str
    steps: tuple[ReachStep, ...] = ()

    def stepped(self, step: ReachStep, rank: int) -> PointerState:
        return replace(self, steps=(*self.steps, step), rank=rank)


@dataclass(frozen=True)
class PointerUse:
    """An expression that points into an array, in the one around it."""

    parent: Node
    node: Node
    state: PointerState


class PointerWalk:
    """Collects the web of an array: every expression is handled by a method named after its type."""

    def __init__(self, scopes: Scopes, every: tuple[SharedDeclaration, ...]) -> None:
        self.scopes, self.file = scopes, scopes.file
        self.arrays = {declaration.declared.id: declaration for declaration in every}
        self.uses: dict[int, list[Node]] = {}
        for use in scopes.identifiers():
            declared = scopes.resolve(use)
            if declared is not None and not cuda.same(declared, use):
                self.uses.setdefault(declared.id, []).append(use)
        for node in self.file.nodes("this"):
            if (declared := self._own(node)) is not None and node.parent is not None:
                self.uses.setdefault(declared.id, []).append(node.parent)
        self._start()

    def _own(self, this: Node) -> Node | None:
        """Return the declaration of the member that ``this->v`` is."""
        holder, struct = this.parent, cuda.around(self.file, this)
        name = cuda.field_of(holder, "field") if holder is not None and holder.type == "field_expression" else None
        if name is None or struct is None:
            return None
        found = (declared for _, declared in members(struct) if self.file.of(declared) == self.file.of(name))
        return next(found, None)

    def _start(self) -> None:
        """Begin a web."""
        self.web = Web()
        self.waiting: list[ReachedPlace] = []
        self.passing: dict[int, tuple[int, str]] = {}  # parameters that are returned: with which rank and unit

    def _add(self, place: ReachedPlace) -> ReachedPlace:
        self.web.places[place.declared.id] = place
        self.waiting.append(place)
        return place

    def _follow(self, node: Node, state: PointerState) -> None:
        parent = node.parent
        if parent is None:
            return
        if not state.rank and not state.steps:  # an object, or a reference to one
            self._element(node, state)
            return
        handler = getattr(self, f"_in_{parent.type}", None)
        if handler is not None:
            handler(PointerUse(parent, node, state))
        elif parent.type not in ("expression_statement", "sizeof_expression", "lambda_capture_specifier", "decltype"):
            self._stop(
                node, state, f"{state.start.name} is used in a way that is not understood: {self._quoted(parent)}"
            )

    def _in_parenthesized_expression(self, use: PointerUse) -> None:
        self._follow(use.parent, use.state)

    def _in_comma_expression(self, use: PointerUse) -> None:
        if cuda.same(cuda.field_of(use.parent, "right"), use.node):
            self._follow(use.parent, use.state)

    def _in_conditional_expression(self, use: PointerUse) -> None:
        if not cuda.same(cuda.field_of(use.parent, "condition"), use.node):
            self._follow(use.parent, use.state)

    def _in_subscript_expression(self, use: PointerUse) -> None:
        if not cuda.same(cuda.field_of(use.parent, "argument"), use.node):
            self._stop(use.node, use.state, f"{use.state.start.name} is an index")
            return
        indices = cuda.field_of(use.parent, "indices")
        index = indices.named_children[0] if indices is not None and indices.named_child_count == 1 else None
        if index is None or use.state.unit == BYTES:
            self._stop(use.parent, use.state, f"{self._quoted(use.parent)} has no index of its own")
            return
        self._stepped(use.parent, use.state, index)

    def _stepped(self, parent: Node, state: PointerState, index: Node | None) -> None:
        following = state.stepped(
            ReachStep(node=index, unit=state.unit, rank=max(state.rank, 1)), max(state.rank, 1) - 1
        )
        if following.rank:
            self._follow(parent, following)
        else:
            self._element(parent, following)

    def _in_pointer_expression(self, use: PointerUse) -> None:
        operator = self.file.of(use.parent)[:1]
        if operator == "*":
            self._stepped(use.parent, use.state, None)
        elif use.state.start.array and not use.state.steps:
            self._follow(use.parent, use.state)  # &t: what is made of it is cast
        else:
            self._stop(use.parent, use.state, f"{self._quoted(use.parent)} points to a pointer")

    def _element(self, node: Node, state: PointerState) -> None:
        """Follow an element: mostly it is read or written, but its address may go on."""
        parent = node.parent
        while parent is not None and parent.type == "parenthesized_expression":
            node, parent = parent, parent.parent
        if parent is not None and parent.type == "pointer_expression" and self.file.of(parent).startswith("&"):
            self._follow(parent, replace(state, rank=1))
            return
        if (
            parent is not None
            and parent.type == "field_expression"
            and self.file.of(parent)[len(self.file.of(node)) :].lstrip().startswith(".")
        ):
            self._member(parent, state)
            return
        reference = self._reference(parent, node)
        if reference is not None:
            self._goes_to(node, reference, 0, state.unit or self._type(state), state)
            return
        if parent is not None and parent.type == "argument_list":
            call = parent.parent
            name = cuda.called(self.file, call) if call is not None else ""
            if any(made.macro for made in self.scopes.callables.get(name, [])):
                self._access(node, replace(state, unit=BYTES))  # the macro may access more than the element
                return
        self._access(node, state)

    def _reference(self, parent: Node | None, node: Node) -> Node | None:
        """Return the name that ``auto &s = *p;`` declares."""
        if parent is None or parent.type != "init_declarator" or not cuda.same(cuda.field_of(parent, "value"), node):
            return None
        declarator = cuda.field_of(parent, "declarator")
        return (
            declared_name(declarator) if declarator is not None and declarator.type == "reference_declarator" else None
        )

    def _in_field_expression(self, use: PointerUse) -> None:
        arrow = self.file.of(use.parent)[len(self.file.of(use.node)) :].lstrip().startswith("->")
        self._member(
            use.parent, use.state.stepped(ReachStep(node=None, unit=use.state.unit), 0) if arrow else use.state
        )

    def _member(self, node: Node, state: PointerState) -> None:
        """Follow a member of a struct: an array in it is a place of its own, anything else an element."""
        name = cuda.field_of(node, "field")
        declared = member(self.file, self._type(state), self.file.of(name)) if name is not None else None
        if declared is None or not (rank := len(sizes_of(declared))):
            self._access(node, state)
            return
        place = self.web.places.get(declared.id)
        if place is None:
            place = self.web.places[declared.id] = ReachedPlace(
                name=self.file.of(declared), declared=declared, rank=rank, member=True
            )
        self._holds(state.start, place)
        self._follow(node, PointerState(start=place, rank=rank, unit=""))

    def _holds(self, through: ReachedPlace, place: ReachedPlace) -> None:
        """Note that the structs which a place reaches hold an array."""
        if not any(made.place is place and made.through is through for made in self.web.members):
            outer = next((made for made in self.web.members if made.place is through), None)
            holder = f"{outer.object_}." if outer is not None else ""
            self.web.members.append(
                Member(
                    place=place, through=through, object_=f"{holder}{through.name}{'[0]' * through.rank}", outer=outer
                )
            )

    def _type(self, state: PointerState) -> str:
        """Return the type of what a place's elements are."""
        declaration = self.arrays.get(state.start.declared.id)
        if state.start.member and not state.unit:
            return type_of(self.file, state.start.declared)
        return state.unit or (declaration.element if declaration is not None else "")

    def _in_binary_expression(self, use: PointerUse) -> None:
        left, right = cuda.field_of(use.parent, "left"), cuda.field_of(use.parent, "right")
        operator = next((self.file.of(child) for child in use.parent.children if not child.is_named), "")
        other = right if cuda.same(left, use.node) else left
        if operator in ("==", "!=", "<", ">", "<=", ">=", "&&", "||"):
            return
        if operator == "+" or (operator == "-" and cuda.same(left, use.node)):
            if use.state.rank > 1:
                self._stop(
                    use.parent, use.state, f"{self._quoted(use.parent)} steps over rows of {use.state.start.name}"
                )
                return
            step = ReachStep(node=other, unit=use.state.unit, rank=1, subscript=False, negative=operator == "-")
            self._follow(use.parent, use.state.stepped(step, 1))
        else:
            self._stop(
                use.parent, use.state, f"{self._quoted(use.parent)} computes with an address of {use.state.start.name}"
            )

    def _in_cast_expression(self, use: PointerUse) -> None:
        type_ = cuda.field_of(use.parent, "type")
        self._cast(use.parent, self.file.of(type_) if type_ is not None else "", use.state)

    def _cast(self, node: Node, type_: str, state: PointerState) -> None:
        kind = " ".join(
            word for word in re.findall(r"[\w:<>]+|[*&]", type_) if word not in ("const", "volatile", "__restrict__")
        )
        rows = re.fullmatch(r"([\w:<>\s]+)\(\s*\*\s*\)((?:\s*\[[^\]]*\])+)", type_)
        if rows:
            self._follow(node, replace(state, rank=1 + rows[2].count("["), unit=""))
        elif kind.endswith("*") and kind.count("*") == 1:
            unit = kind.removesuffix("*").strip()
            self._follow(node, replace(state, rank=1, unit="" if unit == "void" else unit))
        elif state.unit == BYTES and cuda.INTEGERS.fullmatch(kind):
            self._follow(node, state)
        else:
            self._stop(node, state, f"{self._quoted(node)} makes {type_} of {state.start.name}")

    def _goes_to(self, node: Node, declared: Node, rank: int, unit: str, state: PointerState) -> None:
        place = self.web.places.get(declared.id)
        if place is None:
            place = self._add(ReachedPlace(name=self.file.of(declared), declared=declared, rank=rank, unit=unit))
        self.web.reaches.append(Reach(start=state.start, steps=state.steps, node=node, end=place, unit=state.unit))

    def _access(self, node: Node, state: PointerState) -> None:
        self._reach(node, state)

    def _reach(self, node: Node, state: PointerState, layout: Node | None = None, leading: Node | None = None) -> None:
        self.web.reaches.append(
            Reach(
                start=state.start,
                steps=state.steps,
                node=node,
                end=None,
                layout=layout,
                leading=leading,
                unit=state.unit,
            )
        )

    def _stop(self, node: Node, state: PointerState, reason: str) -> None:
        self.web.obstacles.append(Obstacle(start=state.start, line=self.file.line(node), reason=reason))

    def _quoted(self, node: Node) -> str:
        text = " ".join(self.file.of(node).split())
        return text if len(text) <= 80 else f"{text[:77]}..."
