"""Whether what a patch edits is used with its tile alone, as the source shows it, on every path and in every instance.

A trace proves one launch. A function, lambda, macro or class that a patch rewrites also runs where that launch does not
go: with another array, behind a flag that was 0, in a template that nobody instantiated. So each name through which an
edited expression reaches the tile must get all of its values from the tile: every assignment, every argument of every
call that may mean the function, every expansion of the macro. What is not understood is refused, with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.calls import BODIES, WRAPPING, Calls
from ncu_swizzle.fix.cuda import CLASSES, PARAMETERS, field_of, is_field
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.objects import fields_made
from ncu_swizzle.fix.reaching import SAME, TO_ADDRESS
from ncu_swizzle.fix.scopes import Definition
from ncu_swizzle.fix.webs import Reach, ReachedPlace

if TYPE_CHECKING:
    from tree_sitter import Node

POINTING = ("pointer_declarator", "array_declarator", "reference_declarator")
NULLS = ("null", "nullptr")
MADE = ("call_expression", "compound_literal_expression", "initializer_list", "argument_list", "parameter_list")


@dataclass(eq=False)
class Ownership:
    """The names of one tile: an edit may rely on one only when it is shown to mean the tile and nothing else."""

    draft: Draft
    _shown: set[int] = field(default_factory=set)  # places, by declared identifier
    _expanded: set[tuple[int, int]] = field(default_factory=set)  # macros, and what a free name of theirs must mean

    def __post_init__(self) -> None:
        self.scopes, self.file, self.web = self.draft.scopes, self.draft.file, self.draft.tile.web
        self.calls = Calls(self.draft)
        self._kept: dict[int, list[ReachedPlace]] = {}
        for place in self.web.places.values():
            self._kept.setdefault(place.keeper.id, []).append(place)

    def kept(self, declared: Node | None) -> list[ReachedPlace]:
        """Return the places that a variable is, or keeps."""
        return self._kept.get(declared.id, []) if declared is not None else []

    def meant(self, node: Node) -> Node | None:
        """Return the declared name that a name refers to, also where the grammar takes it for a type."""
        return self.scopes.resolve(node) if node.type in ("identifier", "type_identifier") else None

    def constructor(self, definition: Definition) -> bool:
        struct = self.file.class_of(definition.node) if definition.node.type == "function_definition" else None
        return struct is not None and self.file.of(field_of(struct, "name")) == definition.name

    # ------------------------------------------------------------------------------------ places

    def reach(self, reach: Reach) -> None:
        """Show that a use that is edited is one of the tile; raise Unfit if it may be one of something else."""
        self.place(reach.start)
        self._way(reach.node, reach)
        if (macro := self.scopes.macro(reach.node)) is not None:
            for name in self._free_names(macro, reach):
                self._expansions(macro, name)

    def _way(self, node: Node, reach: Reach) -> None:
        """Show that what is indexed or accessed is not a choice of addresses: ``(far ? g : t)[i]``, ``of(t, g)[i]``."""
        node = cuda.bare(node)
        match node.type:
            case "conditional_expression":
                self._value(node, reach.start)
            case "subscript_expression" | "pointer_expression" | "field_expression":
                self._way(self._part(node, "argument"), reach)
            case "cast_expression":
                self._way(self._part(node, "value"), reach)
            case "comma_expression" | "assignment_expression":
                self._way(self._part(node, "right"), reach)
            case "binary_expression":
                self._way(self._part(node, "left"), reach)
                self._way(self._part(node, "right"), reach)
            case "call_expression":
                given = self._part(node, "arguments").named_children
                if self._converts(node):
                    given = given[:1]
                elif cuda.same(node, cuda.bare(reach.node)):  # its arguments go on, or are accessed
                    start = reach.start.declared
                    given = [c for c in given if any(cuda.same(self.meant(n), start) for n in cuda.walk(c))]
                elif self._functions(node):
                    self._made(node, reach.start)
                    return
                else:
                    return
                for child in given:
                    self._way(child, reach)

    def _converts(self, call: Node) -> bool:
        """Return whether a call is the same address in another type."""
        return bool(self.file.cast_type(call)) or self.file.called(call) in (*TO_ADDRESS, *SAME)

    def _functions(self, call: Node) -> list[Definition]:
        found = self.scopes.callables.get(self.file.called(call), [])
        return [definition for definition in found if not self.constructor(definition)]

    def place(self, place: ReachedPlace) -> None:
        """Show that a name stands for the tile alone."""
        declared = place.keeper
        if place.declared.id in self._shown:
            return
        self._shown.add(place.declared.id)
        if len(self.scopes.declared_with(declared)) > 1:
            raise self._refused(declared, f"{self.file.of(declared)} is declared twice")
        for member in self.web.members:
            if member.place is place:
                self.place(member.through)
        if place.array or (place.member and place.rank):
            return
        taken = next(self.scopes.taking(declared), None)
        body = cuda.above(declared, *BODIES)
        of_class = body is not None and body.type == "field_declaration_list" and taken is None
        if of_class and cuda.above(declared, "field_declaration") is not None:
            self._member(place)
        elif taken is not None:
            self._parameter(*taken, place)
        else:
            self._variable(place, declared)

    def _variable(self, place: ReachedPlace, declared: Node) -> None:
        """Show that a variable is only given addresses of the tile."""
        name = self.file.of(declared)
        holder = cuda.above(
            declared, "declaration", "for_range_loop", "expression_statement", "lambda_capture_initializer"
        )
        if holder is None or holder.type in ("for_range_loop", "lambda_capture_initializer"):
            raise self._refused(declared, f"what {name} stands for is not shown")
        # Any function, also one of another file, may store something else in it.
        if holder.type == "declaration" and (holder.parent is None or holder.parent.type in BODIES[1:]):
            raise self._refused(declared, f"{name} is kept outside of functions")
        if (value := _initial(declared, holder)) is not None:
            self._value(value, place)
        for use in self.scopes.uses(declared):
            self._assigned(use, place)
        for reach in self.web.from_(place):
            if reach.end is not None and _refers(reach.end.declared):
                self.place(reach.end)  # which may be given something else, and with it this name

    def _assigned(self, use: Node, place: ReachedPlace) -> None:
        """Show that what a use assigns, to a name or to the pointer that it keeps, is the tile."""
        node = use
        if place.pointer and node.parent is not None and node.parent.type == "field_expression":
            if self.file.of(field_of(node.parent, "field")) != place.pointer:
                return
            node = node.parent
        node = cuda.out_of(node, "parenthesized_expression")
        parent = node.parent
        if parent is not None and parent.type == "gnu_asm_output_operand":
            raise self._refused(node, f"an asm statement writes {place.name}")
        if parent is None or not is_field(node, "left", "assignment_expression"):
            return
        operator, value = field_of(parent, "operator"), field_of(parent, "right")
        if operator is None or self.file.of(operator) == "=":
            if value is not None and not cuda.inside(place.declared, parent):  # float (*p)[32] = t; declares it
                self._value(value, place)
        elif self.file.of(operator) not in ("+=", "-="):
            raise self._refused(node, f"{self.draft.quoted(parent)} computes with an address")

    def _parameter(self, definition: Definition, number: int, place: ReachedPlace) -> None:
        """Show that all calls that may mean a function give one of its parameters the tile."""
        default = field_of(cuda.above(place.keeper, *PARAMETERS), "default_value")
        if default is not None:
            self._value(default, place)
        for use in self.scopes.uses(place.keeper):
            self._assigned(use, place)
        name = definition.name
        if definition.macro:
            self.calls.plain_macro(definition)
        # ``a + b`` calls operator+ without naming it: its calls are not found by name.
        if name.startswith("operator") and name not in ("operator()", "operator[]"):
            raise self._refused(definition.node, f"{name} takes {place.name}, and where it is called is not followed")
        words = {self.file.of(child) for child in definition.node.children if child.child_count == 0}
        head = self.file.text[definition.node.start_byte : definition.body.start_byte].decode(
            "utf-8", "surrogateescape"
        )
        # A virtual function is also called through its base class, by calls that do not name this one.
        if "virtual" in words or re.search(r"\)[\s\w]*\b(override|final)\b", head):
            raise self._refused(definition.node, f"{name} is virtual")
        for call in self.calls.of_objects() if name == "operator()" else self.calls.of(definition):
            listed = field_of(call, "arguments")
            given = [child for child in listed.named_children if child.type != "comment"] if listed is not None else []
            if any(child.type in ("parameter_pack_expansion", "pack_expansion") for child in given):
                raise self._refused(call, f"{name} is called with a pack of arguments")
            if len(given) > len(definition.parameters) or (
                name == "operator()" and len(given) != len(definition.parameters)
            ):
                continue  # of another function of the name
            if number < len(given):
                self._value(given[number], place)

    def _member(self, place: ReachedPlace) -> None:
        """Show that all objects of a class, whose methods index a pointer that it keeps, point to the tile."""
        struct = cuda.above(place.declared, *CLASSES)
        if struct is None:
            raise self._refused(place.declared, f"{place.name} is not understood")
        name = self.file.of(place.declared)
        for node in (node for text in self.file.class_names(struct) for node in self.scopes.mentions.get(text, [])):
            if not self._followed_object(node):
                around = self.calls.around(node)
                raise self._refused(node, f"{around} may keep another address than the tile's in {name}")
        for node in self.scopes.mentions.get(name, []):
            target = node.parent if node.parent is not None and node.parent.type == "field_expression" else node
            if is_field(target, "left", "assignment_expression") and target.parent is not None:
                function = cuda.above(node, "function_definition")
                built = (definition for definition in self.scopes.definitions if cuda.same(definition.node, function))
                # What a constructor stores comes from its arguments, which are followed where objects are made.
                if not any(self.constructor(definition) for definition in built):
                    self._value(self._part(target.parent, "right"), place)
        for view in self.web.places.values():
            if view.pointer and any(reach.end is place for reach in self.web.from_(view)):
                self.place(view)

    def _followed_object(self, node: Node) -> bool:  # noqa: PLR0911
        """Return whether a mention of a class makes no object, or one that the tile was followed into."""
        whole = node
        while (holder := whole.parent) is not None and holder.type in WRAPPING:
            if cuda.same(field_of(holder, "scope"), whole):
                return cuda.above(node, "function_declarator") is not None  # the definition of a method
            whole = holder
        if holder is None:
            return False
        match holder.type:
            case kind if kind in (*CLASSES, "alias_declaration", "type_definition", "function_declarator"):
                bases = (child for child in holder.children if child.type == "base_class_clause")
                return not any(cuda.inside(node, child) for child in bases)
            case "type_descriptor":
                return holder.parent is not None and holder.parent.type == "alias_declaration"
            case "call_expression" | "compound_literal_expression":
                ends = (r for r in self.web.reaches if r.end is not None and r.end.pointer)
                return any(cuda.inside(reach.node, holder) for reach in ends)
            case "function_definition":
                return True  # returned: by a function whose arguments are followed
            case "declaration" | "parameter_declaration" | "optional_parameter_declaration":
                names = {n.id for n in cuda.walk(holder) if n.id in self._kept}
                declarators = holder.children_by_field_name("declarator")
                return bool(declarators) and len(names) >= len(declarators)
        return False

    # ------------------------------------------------------------------------------------ values

    def _value(self, node: Node, place: ReachedPlace) -> None:
        """Show that an expression is an address of the tile; raise Unfit with its line if it may be another one."""
        node = cuda.bare(node)
        match node.type:
            case "comma_expression":
                self._value(self._part(node, "right"), place)
            case "conditional_expression":
                self._value(self._part(node, "consequence"), place)
                self._value(self._part(node, "alternative"), place)
            case "identifier" | "type_identifier":
                places = self.kept(self.scopes.resolve(node))
                if not places:
                    raise self._other(node, place)
                for one in places:
                    self.place(one)
            case "subscript_expression" | "pointer_expression":
                self._value(self._part(node, "argument"), place)
            case "cast_expression":
                self._value(self._part(node, "value"), place)
            case "binary_expression":
                left, right = self._part(node, "left"), self._part(node, "right")
                operator, points = self.file.of(self._part(node, "operator")), (self._points(left), self._points(right))
                if operator not in "+-" or (operator == "-" and points[1]) or points[0] == points[1]:
                    raise self._other(node, place)
                self._value(left if points[0] else right, place)
            case "field_expression":
                self._field(node, place)
            case kind if kind in MADE:
                self._made(node, place)
            case kind if kind not in NULLS and not (kind == "number_literal" and self.file.of(node) == "0"):
                raise self._other(node, place)

    def _part(self, node: Node, name: str) -> Node:
        part = field_of(node, name)
        if part is None:
            raise self._refused(node, f"{self.draft.quoted(node)} is not understood")
        return part

    def _points(self, node: Node) -> bool:
        """Return whether an expression may be an address: it names a place, or another pointer or array."""
        node = cuda.bare(node)
        if node.type == "subscript_expression":
            return self._points(self._part(node, "argument"))
        if node.type in ("identifier", "type_identifier"):
            declared = self.scopes.resolve(node)
            pointing = declared is not None and declared.parent is not None and declared.parent.type in POINTING
            return pointing or bool(self.kept(declared))
        converts = node.type in ("call_expression", "cast_expression")
        parts = (child for child in node.named_children if not converts or child.type != "type_descriptor")
        return any(self._points(part) for part in parts)

    def _field(self, node: Node, place: ReachedPlace) -> None:
        """Show that a member is the tile: an array of an object that is in it, or the pointer that a view keeps."""
        name, object_ = self.file.of(self._part(node, "field")), cuda.bare(self._part(node, "argument"))
        if object_.type == "this":
            struct = self.file.class_around(node)
            fields = (p for p in self.web.places.values() if self.file.of(p.declared) == name)
            own = next((p for p in fields if cuda.same(cuda.above(p.declared, *CLASSES), struct)), None)
        elif object_.type in ("identifier", "type_identifier"):
            own = next((p for p in self.kept(self.scopes.resolve(object_)) if p.pointer in ("", name)), None)
        else:
            self._value(object_, place)
            return
        if own is None:
            raise self._other(node, place)
        self.place(own)

    def _made(self, node: Node, place: ReachedPlace) -> None:
        """Show that a call, or an object that is made, is the tile."""
        if node.type == "call_expression":
            given = self._part(node, "arguments").named_children
            if self._converts(node):
                if given:
                    self._value(given[0], place)
                return
            function = self._part(node, "function")
            if function.type == "field_expression":
                self._value(self._part(function, "argument"), place)
            if definitions := self._functions(node):
                for definition in definitions:
                    self._returned(definition, place)
                return
        object_ = fields_made(self.scopes, field_of(node, "arguments") or field_of(node, "value") or node)
        if object_ is None or place.pointer not in object_.fields:
            raise self._other(node, place)
        self._value(object_.fields[place.pointer], place)

    def _returned(self, definition: Definition, place: ReachedPlace) -> None:
        """Show that a function returns addresses of the tile."""
        if definition.macro:
            raise self._refused(definition.node, f"{definition.name} is a macro that makes an address")
        returned = [
            node for node in cuda.walk(definition.body) if node.type == "return_statement" and node.named_children
        ]
        if not returned:
            raise self._refused(definition.node, f"what {definition.name} returns is not shown")
        for statement in returned:
            self._value(statement.named_children[0], place)

    # ------------------------------------------------------------------------------------ macros

    def _free_names(self, macro: Definition, reach: Reach) -> Iterator[Node]:
        """Yield the names in a macro's use of the tile that it leaves to where it is expanded."""
        for node in cuda.walk(reach.node):
            declared = self.scopes.meant(node)
            own = declared is None or macro.takes(declared) is not None or cuda.inside(declared, macro.node)
            if not own and self.kept(declared):
                yield node

    def _expansions(self, macro: Definition, name: Node) -> None:
        """Show that a free name means the tile wherever the macro is expanded, also within other macros."""
        declared, text = self.scopes.resolve(name), self.file.of(name)
        assert declared is not None
        waiting = [macro]
        while waiting:
            outer = waiting.pop()
            if (outer.node.id, declared.id) in self._expanded:
                continue
            self._expanded.add((outer.node.id, declared.id))
            self.calls.plain_macro(outer)
            for site in self.calls.expansions(outer):
                local, around = self.scopes.resolve(site, text), self.scopes.macro(site)
                if around is None and not cuda.same(local, declared):
                    where = f"is also used where {text} is not this tile"
                    if outer is not macro:
                        where = f"expands {macro.name} where {text} is not this tile"
                    raise self._refused(site, f"{outer.name} {where}")
                if around is not None and local is not None and cuda.inside(local, around.node):
                    raise self._refused(site, f"{text} is another one where {outer.name} is expanded")
                waiting += [around] if around is not None else []

    # ------------------------------------------------------------------------------------ reasons

    def _other(self, node: Node, place: ReachedPlace) -> Exception:
        taken = next(self.scopes.taking(place.keeper), None)
        written = self.draft.quoted(node)
        if taken is not None and not cuda.inside(node, taken[0].body):
            return self._refused(node, f"{taken[0].name} is also called with {written}, which is not this tile")
        return self._refused(node, f"{place.name} may also be {written}, which is not this tile")

    def _refused(self, node: Node, reason: str) -> Exception:
        return self.draft.unfit(node, reason)


def _initial(declared: Node, holder: Node) -> Node | None:
    """Return what a declaration gives a name."""
    node: Node | None = declared
    while node is not None and not cuda.same(node, holder):
        match node.type:
            case "init_declarator":
                return field_of(node, "value")
            case "function_declarator":  # View v(tile);
                return field_of(node, "parameters")
            case "assignment_expression":  # float (*p)[32] = t;
                return field_of(node, "right")
        node = node.parent
    return field_of(holder, "default_value") or field_of(holder, "value")


def _refers(declared: Node) -> bool:
    """Return whether a name is declared as a reference."""
    node = declared.parent
    while node is not None and (node.type.endswith("_declarator") or node.type == "parenthesized_declarator"):
        if node.type == "reference_declarator":
            return True
        node = node.parent
    return False
