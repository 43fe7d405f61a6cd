"""Views: small objects that keep a pointer into a tile and compute its indices, such as an mdspan's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda, expressions
from ncu_swizzle.fix.cuda import Inlined, Reach, ReachedPlace, ReachStep
from ncu_swizzle.fix.expressions import PointerState, PointerUse
from ncu_swizzle.fix.objects import ObjectWalk
from ncu_swizzle.fix.scopes import Definition, declared_name
from ncu_swizzle.fix.view_classes import fields_made, method_of, methods_of, pointed, returns_only

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceView:
    """What a view is made with: its class, the member that points, and its other members as they were given."""

    struct: Node
    pointer: str
    fields: Mapping[str, Node]
    within: bool = False  # its methods do more than to compute an index: they are followed, and edited, themselves


class ViewWalk(ObjectWalk):
    """Follows pointers that objects keep, to where the objects are indexed."""

    def _start(self) -> None:
        super()._start()
        self.views: dict[int, SourceView] = {}  # by what stands for the place
        self.slots: dict[int, tuple[int, str]] = {}  # what stands for which pointer of which name

    # ---------------------------------------------------------------------------------------- where they are made

    def _in_argument_list(self, use: PointerUse) -> None:
        if not self._makes(use, use.parent):
            super()._in_argument_list(use)

    def _in_initializer_list(self, use: PointerUse) -> None:
        if not self._makes(use, use.parent):
            self._stop(
                use.node, use.state, f"{use.state.start.name} is used in a way that is not understood: "
                f"{self._quoted(use.parent)}",
            )  # fmt: skip

    def _in_initializer_pair(self, use: PointerUse) -> None:
        listed = use.parent.parent
        if listed is None or not self._makes(use, listed):
            self._stop(use.node, use.state, f"{use.state.start.name} initialises an object")

    def _in_parameter_declaration(self, use: PointerUse) -> None:
        """Follow ``View v(tile);``, which the grammar takes for the declaration of a function."""
        listed = use.parent.parent
        if listed is None or not self._makes(use, listed):
            self._stop(use.node, use.state, f"{use.state.start.name} initialises an object")

    def _makes(self, use: PointerUse, listed: Node) -> bool:
        """Follow a pointer into the object that it is given to; say whether it is one of this file's classes."""
        made = fields_made(self.scopes, listed)
        pointer = (
            next((name for name, node in made.fields.items() if cuda.same(node, use.node)), None) if made else None
        )
        if made is None or pointer is None or self._held(use.state) is not None:
            return False
        numbers = set(expressions.numbers(self.file, made.struct))
        others = {name: node for name, node in made.fields.items() if name in numbers}
        within = not all(
            pointed(self.file, method, pointer) or returns_only(method)
            for method in methods_of(self.scopes, made.struct, pointer)
        )
        return self._bound(
            made.whole, use, SourceView(struct=made.struct, pointer=pointer, fields=others, within=within)
        )

    def _bound(self, whole: Node, use: PointerUse, view: SourceView) -> bool:
        """Follow a view to the variable or the parameter that it is kept in."""
        holder = whole.parent
        if holder is None:
            return False
        if "return_statement" in (whole.type, holder.type):
            return self._made_for_callers(whole, use.state, view)
        if holder.type == "declaration":  # what looks like a function is the variable
            declarator: Node | None = whole
        else:
            declarator = cuda.field_of(holder, "declarator") if holder.type == "init_declarator" else None
        if declarator is not None and (declared := declared_name(declarator)) is not None:
            return self._kept(use.node, declared, use.state, view)
        if holder.type == "argument_list" and holder.parent is not None:
            return self._passed(whole, holder, use.state, view)
        return False

    def _made_for_callers(self, whole: Node, state: PointerState, view: SourceView) -> bool:
        """Follow a view that a function returns: its shape is given by the arguments of each call."""
        made = self.scopes.holder(whole)
        if made is None or cuda.around(self.file, whole) is not None:
            return False
        names = [self.file.of(name) if name is not None else "" for name in made.parameters]
        for reach in self.web.to(state.start):
            listed, holder = cuda.field_of(reach.node, "arguments"), reach.node.parent
            declarator = cuda.field_of(holder, "declarator") if holder is not None else None
            declared = declared_name(declarator) if declarator is not None else None
            if listed is None or declared is None or len(names) != listed.named_child_count:
                return False
            arguments = dict(zip(names, listed.named_children, strict=True))
            fields = {name: arguments.get(self.file.of(node), node) for name, node in view.fields.items()}
            there = PointerState(
                start=reach.start, rank=state.rank, unit=state.unit, steps=(*reach.steps, *state.steps)
            )
            if any(step.node is not None for step in state.steps) or not self._kept(
                reach.node, declared, there, replace(view, fields=fields)
            ):
                return False
        return True

    def _kept(self, node: Node, declared: Node, state: PointerState, view: SourceView) -> bool:
        """Go on with a name for a view: where it is used."""
        slot = self._slot(declared, view.pointer)
        known = self.views.get(slot.id)
        if known is not None and not self._alike(known, view):
            return False
        self.views[slot.id] = view
        self.uses[slot.id] = self.uses.get(declared.id, [])
        name = self.file.of(declared)
        place = self.web.places.get(slot.id) or self._add(
            ReachedPlace(
                name=name if slot is declared else f"{name}.{view.pointer}",
                declared=slot,
                rank=1,
                unit=state.unit,
                kept=declared,
                pointer=view.pointer,
            )
        )
        self.web.reaches.append(Reach(start=state.start, steps=state.steps, node=node, end=place, unit=state.unit))
        member = expressions.member(
            self.file, self.file.of(cuda.field_of(view.struct, "name") or declared), view.pointer
        )
        if view.within and member is not None:
            self._goes_to(node, member, 1, state.unit, PointerState(start=place, rank=1, unit=state.unit))
        return True

    def _slot(self, declared: Node, pointer: str) -> Node:
        """Return what stands for a pointer that a name keeps: the name, for another one a node beside it."""
        holder = cuda.above(declared, "declaration", "parameter_declaration") or declared
        for slot in (declared, *cuda.walk(holder)):
            known = self.slots.setdefault(slot.id, (declared.id, pointer))
            if known == (declared.id, pointer):
                return slot
        return declared

    def _alike(self, one: SourceView, other: SourceView) -> bool:
        """Say whether two views have the same class and shape, so that one name may stand for both."""
        texts = [{name: self.file.of(node) for name, node in view.fields.items()} for view in (one, other)]
        return cuda.same(one.struct, other.struct) and one.pointer == other.pointer and texts[0] == texts[1]

    def _passed(self, node: Node, listed: Node, state: PointerState, view: SourceView) -> bool:
        call = listed.parent
        definitions = self._definitions(call) if call is not None and call.type == "call_expression" else []
        position = next(i for i, child in enumerate(listed.named_children) if cuda.same(child, node))
        parameters = [
            made.parameters[position] for made in definitions if position < len(made.parameters) and not made.macro
        ]
        return bool(parameters) and all(p is not None and self._kept(node, p, state, view) for p in parameters)

    # ---------------------------------------------------------------------------------------- where they are used

    def _follow(self, node: Node, state: PointerState) -> None:
        view = self.views.get(state.start.declared.id) if not state.steps else None
        if view is None or node.type != "identifier":
            super()._follow(node, state)
        elif node.parent is not None and not self._viewed(node, node.parent, state, view):
            holder = node.parent or node
            self._stop(
                node, state, f"{state.start.name} is used in a way that is not understood: {self._quoted(holder)}"
            )

    def _viewed(self, node: Node, parent: Node, state: PointerState, view: SourceView) -> bool:
        """Follow a use of a view; say whether it is understood."""
        understood = False
        match parent.type:
            case "field_expression":
                understood = self._member_viewed(parent, state, view)
            case "call_expression":
                understood = self._indexed(parent, "operator()", state, view)
            case "subscript_expression":
                indexed = cuda.same(cuda.field_of(parent, "argument"), node)
                understood = indexed and self._indexed(parent, "operator[]", state, view)
            case "argument_list":
                understood = self._passed(node, parent, state, view)
            case "init_declarator":
                declarator = cuda.field_of(parent, "declarator")
                declared = declared_name(declarator) if declarator is not None else None
                understood = declared is not None and self._kept(node, declared, state, view)
            case "lambda_capture_specifier" | "sizeof_expression" | "decltype":
                understood = True
        return understood

    def _member_viewed(self, node: Node, state: PointerState, view: SourceView) -> bool:
        field, holder = cuda.field_of(node, "field"), node.parent
        if field is None or holder is None:
            return False
        name = self.file.of(cuda.field_of(field, "name") or field)
        if holder.type == "call_expression" and cuda.same(cuda.field_of(holder, "function"), node):
            return self._indexed(holder, name, state, view)
        if name == view.pointer:
            super()._follow(node, state)
        elif name in view.fields:
            self.scopes.indexing[node.id] = Inlined(body=view.fields[name], arguments={}, closed=frozenset())
        return True

    def _indexed(self, call: Node, name: str, state: PointerState, view: SourceView) -> bool:
        """Follow a call of a method: its index is an expression of the arguments."""
        if view.within:
            return True
        listed = cuda.field_of(call, "arguments") or cuda.field_of(call, "indices")
        given = listed.named_children if listed is not None else []
        method = method_of(self.scopes, view.struct, name, len(given))
        found = pointed(self.file, method, view.pointer) if method is not None else None
        if method is None or found is None:
            return False
        if not found.used:
            return True
        following = state
        if found.index is not None:
            following = state.stepped(
                ReachStep(node=self._index(call, found.index, method, given, view), unit=state.unit), 1
            )
        if found.element and found.whole:
            self._element(call, PointerState(start=following.start, rank=0, unit=following.unit, steps=following.steps))
        elif found.element:
            self._access(call, following)
        else:
            super()._follow(call, following)
        return True

    def _index(self, call: Node, index: Node, method: Definition, given: Sequence[Node], view: SourceView) -> Node:
        """Return the node that stands for an index: an argument, or the call itself."""
        names = [self.file.of(name) if name is not None else "" for name in method.parameters]
        arguments = dict(zip(names, given, strict=True))
        if index.type == "identifier" and self.file.of(index) in arguments:
            return arguments[self.file.of(index)]
        self.scopes.indexing[call.id] = Inlined(
            body=index, arguments=arguments, closed=frozenset(names), fields=view.fields, indexing=True
        )
        return call
