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
from ncu_swizzle.fix.cuda import Reach, ReachedPlace
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.objects import fields_made
from ncu_swizzle.fix.reaching import SAME, TO_ADDRESS
from ncu_swizzle.fix.scopes import Definition

if TYPE_CHECKING:
    from tree_sitter import Node

WRAPPING = ("template_function", "template_method", "dependent_name", "qualified_identifier", "template_type")
PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
POINTING = ("pointer_declarator", "array_declarator", "reference_declarator")
CONDITIONS = ("preproc_ifdef", "preproc_if", "preproc_elif", "preproc_defined")
BODIES = ("compound_statement", "field_declaration_list", "declaration_list", "translation_unit")
NULLS = ("null", "nullptr")


@dataclass(eq=False)
class Ownership:
    """The names of one tile, each shown to stand for the tile and nothing else before an edit may rely on it."""

    draft: Draft
    _shown: set[int] = field(default_factory=set)  # places, by declared identifier
    _expanded: set[tuple[int, int]] = field(default_factory=set)  # macros, and what a free name of theirs must mean

    def __post_init__(self) -> None:
        self.scopes, self.file, self.web = self.draft.scopes, self.draft.file, self.draft.tile.web
        self._kept: dict[int, list[ReachedPlace]] = {}  # by the variable that is, or keeps, a place
        for place in self.web.places.values():
            self._kept.setdefault((place.kept or place.declared).id, []).append(place)

    # ------------------------------------------------------------------------------------ places

    def reach(self, reach: Reach) -> None:
        """Show that a use that is edited is one of the tile; raise Unfit if it may be one of something else."""
        self.place(reach.start)
        self._way(reach.node, reach)
        if (macro := self.scopes.macro(reach.node)) is not None:
            for name in self._free_names(macro, reach):
                self._expansions(macro, name)

    def _way(self, node: Node, reach: Reach) -> None:  # noqa: PLR0912
        """Show that what is indexed, or accessed, is no choice of addresses: ``(far ? g : t)[i]``, ``of(t, g)[i]``."""
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
                name = self.file.called(node)
                given = self._part(node, "arguments").named_children
                if self.file.cast_type(node) or name in (*TO_ADDRESS, *SAME):
                    for child in given[:1]:
                        self._way(child, reach)
                elif cuda.same(node, cuda.bare(reach.node)):  # its arguments go on, or are accessed
                    for child in given:
                        if any(cuda.same(self._meant(n), reach.start.declared) for n in cuda.walk(child)):
                            self._way(child, reach)
                elif any(not self._constructor(made) for made in self.scopes.callables.get(name, [])):
                    self._made(node, reach.start)
            case _:
                return

    def place(self, place: ReachedPlace) -> None:
        """Show that a name stands for the tile alone."""
        declared = place.kept or place.declared
        if place.declared.id in self._shown:
            return
        self._shown.add(place.declared.id)
        if len(self.scopes.declared_with(declared)) > 1:
            raise self._refused(declared, f"{self.file.of(declared)} is declared twice")
        for member in (each for each in self.web.members if each.place is place):
            self.place(member.through)
        if place.array or (place.member and place.rank):
            return
        if cuda.above(declared, "field_declaration") is not None and not self._local(declared):
            self._member(place)
            return
        made = next(self.scopes.taking(declared), None)
        if made is not None:
            self._calls(made[0], made[1], place)
        else:
            self._variable(place, declared)

    def _local(self, declared: Node) -> bool:
        holder = cuda.above(declared, *BODIES)
        return (
            holder is None
            or holder.type != "field_declaration_list"
            or next(self.scopes.taking(declared), None) is not None
        )

    def _variable(self, place: ReachedPlace, declared: Node) -> None:
        """Show that a variable is only given addresses of the tile."""
        name = self.file.of(declared)
        holder = cuda.above(
            declared, "declaration", "for_range_loop", "expression_statement", "lambda_capture_initializer"
        )
        if holder is None or holder.type in ("for_range_loop", "lambda_capture_initializer"):
            raise self._refused(declared, f"what {name} stands for is not shown")
        if holder.type == "declaration" and (holder.parent is None or holder.parent.type in BODIES[1:]):
            raise self._refused(declared, f"{name} is kept outside of functions")
        value = self._initial(declared, holder)
        if value is not None:
            self._value(value, place)
        for use in self.scopes.uses(declared):
            self._assigned(use, place)
        for reach in self.web.from_(place):
            end = reach.end
            if end is not None and self._refers(end.declared):
                self.place(end)  # which may be given something else, and with it this name

    @staticmethod
    def _initial(declared: Node, holder: Node) -> Node | None:
        node: Node | None = declared
        while node is not None and not cuda.same(node, holder):
            if node.type == "init_declarator":
                return cuda.field_of(node, "value")
            if node.type == "function_declarator":  # View v(tile);
                return cuda.field_of(node, "parameters")
            if node.type == "assignment_expression":  # float (*p)[32] = t;
                return cuda.field_of(node, "right")
            node = node.parent
        return cuda.field_of(holder, "default_value") or cuda.field_of(holder, "value")

    def _refers(self, declared: Node) -> bool:
        node = declared.parent
        while node is not None and (node.type.endswith("_declarator") or node.type == "parenthesized_declarator"):
            if node.type == "reference_declarator":
                return True
            node = node.parent
        return False

    def _meant(self, node: Node) -> Node | None:
        return self.scopes.resolve(node) if node.type in ("identifier", "type_identifier") else None

    def _assigned(self, use: Node, place: ReachedPlace) -> None:
        """Show that what a use assigns, to a name or to the pointer that it keeps, is the tile."""
        node, parent = use, use.parent
        if parent is not None and parent.type == "field_expression" and place.pointer:
            named = cuda.field_of(parent, "field")
            if named is None or self.file.of(named) != place.pointer:
                return
            node, parent = parent, parent.parent
        while parent is not None and parent.type == "parenthesized_expression":
            node, parent = parent, parent.parent
        if parent is None:
            return
        if parent.type == "gnu_asm_output_operand":
            raise self._refused(node, f"an asm statement writes {place.name}")
        if parent.type == "assignment_expression" and cuda.same(cuda.field_of(parent, "left"), node):
            operator, value = cuda.field_of(parent, "operator"), cuda.field_of(parent, "right")
            sets = operator is None or self.file.of(operator) == "="
            if sets and value is not None and not self._mistaken(parent, place):
                self._value(value, place)
            elif not sets and operator is not None and self.file.of(operator) not in ("+=", "-="):
                raise self._refused(node, f"{self.draft.quoted(parent)} computes with an address")

    def _mistaken(self, assignment: Node, place: ReachedPlace) -> bool:
        return cuda.inside(place.declared, assignment)

    # ------------------------------------------------------------------------------------ values

    def _value(self, node: Node, place: ReachedPlace) -> None:
        """Show that an expression is an address of the tile; raise Unfit with its line if it may be another one."""
        node = cuda.bare(node)
        match node.type:
            case "comma_expression":
                self._value(self._part(node, "right"), place)
            case "conditional_expression":
                for part in ("consequence", "alternative"):
                    self._value(self._part(node, part), place)
            case "identifier" | "type_identifier":
                self._name(node, place)
            case "subscript_expression" | "pointer_expression":
                self._value(self._part(node, "argument"), place)
            case "cast_expression":
                self._value(self._part(node, "value"), place)
            case "binary_expression":
                self._sum(node, place)
            case "field_expression":
                self._field(node, place)
            case (
                "call_expression"
                | "compound_literal_expression"
                | "initializer_list"
                | "argument_list"
                | "parameter_list"
            ):
                self._made(node, place)
            case "number_literal" if self.file.of(node) == "0":
                return
            case kind if kind in NULLS:
                return
            case _:
                raise self._other(node, place)

    def _part(self, node: Node, name: str) -> Node:
        part = cuda.field_of(node, name)
        if part is None:
            raise self._refused(node, f"{self.draft.quoted(node)} is not understood")
        return part

    def _name(self, node: Node, place: ReachedPlace) -> None:
        declared = self.scopes.resolve(node)
        places = self._kept.get(declared.id, []) if declared is not None else []
        if not places:
            raise self._other(node, place)
        for each in places:
            self.place(each)

    def _sum(self, node: Node, place: ReachedPlace) -> None:
        left, right = self._part(node, "left"), self._part(node, "right")
        operator = self.file.of(self._part(node, "operator"))
        if operator not in "+-" or (operator == "-" and self._points(right)):
            raise self._other(node, place)
        if self._points(left) == self._points(right):
            raise self._other(node, place)
        self._value(left if self._points(left) else right, place)

    def _points(self, node: Node) -> bool:
        """Return whether an expression may be an address: it names a place, or another pointer or array."""
        node = cuda.bare(node)
        if node.type == "subscript_expression":
            return self._points(self._part(node, "argument"))
        if node.type in ("call_expression", "cast_expression"):
            return any(self._points(child) for child in node.named_children if child.type != "type_descriptor")
        if node.type in ("identifier", "type_identifier"):
            declared = self.scopes.resolve(node)
            if declared is None:
                return False
            if declared.id in self._kept:
                return True
            holder = declared.parent
            return holder is not None and holder.type in POINTING
        return any(self._points(child) for child in node.named_children)

    def _field(self, node: Node, place: ReachedPlace) -> None:
        """Show that a member is the tile: an array of an object that is in it, or the pointer that a view keeps."""
        name, object_ = self.file.of(self._part(node, "field")), cuda.bare(self._part(node, "argument"))
        if object_.type == "this":
            struct = cuda.around(self.file, node)
            fields = [p for p in self.web.places.values() if self.file.of(p.declared) == name]
            fields = [p for p in fields if cuda.same(cuda.above(p.declared, *cuda.CLASSES), struct)]
            if not fields:
                raise self._other(node, place)
            self.place(fields[0])
            return
        if object_.type in ("identifier", "type_identifier"):
            declared = self.scopes.resolve(object_)
            for each in self._kept.get(declared.id, []) if declared is not None else []:
                if each.pointer in ("", name):
                    self.place(each)
                    return
            raise self._other(node, place)
        self._value(object_, place)

    def _made(self, node: Node, place: ReachedPlace) -> None:
        """Show that a call, or an object that is made, is the tile."""
        if node.type == "call_expression":
            given = self._part(node, "arguments").named_children
            name = self.file.called(node)
            if self.file.cast_type(node) or name in (*TO_ADDRESS, *SAME):
                self._value(given[0], place) if given else None
                return
            function = self._part(node, "function")
            if function.type == "field_expression":
                self._value(self._part(function, "argument"), place)
            if definitions := [made for made in self.scopes.callables.get(name, []) if not self._constructor(made)]:
                for made in definitions:
                    self._returned(made, place)
                return
        listed = cuda.field_of(node, "arguments") or cuda.field_of(node, "value") or node
        object_ = fields_made(self.scopes, listed)
        if object_ is None or place.pointer not in object_.fields:
            raise self._other(node, place)
        self._value(object_.fields[place.pointer], place)

    def _constructor(self, made: Definition) -> bool:
        struct = self.file.class_of(made.node) if made.node.type == "function_definition" else None
        named = cuda.field_of(struct, "name") if struct is not None else None
        return named is not None and self.file.of(named) == made.name

    def _returned(self, made: Definition, place: ReachedPlace) -> None:
        """Show that a function returns addresses of the tile."""
        if made.macro:
            raise self._refused(made.node, f"{made.name} is a macro that makes an address")
        found = [node for node in cuda.walk(made.body) if node.type == "return_statement" and node.named_children]
        if not found:
            raise self._refused(made.node, f"what {made.name} returns is not shown")
        for statement in found:
            self._value(statement.named_children[0], place)

    # ------------------------------------------------------------------------------------ calls

    def _calls(self, made: Definition, number: int, place: ReachedPlace) -> None:
        """Show that all calls that may mean a function give one of its parameters the tile."""
        parameter = cuda.above(place.kept or place.declared, *PARAMETERS)
        default = cuda.field_of(parameter, "default_value") if parameter is not None else None
        if default is not None:
            self._value(default, place)
        for use in self.scopes.uses(place.kept or place.declared):
            self._assigned(use, place)
        plain = "".join(made.name.split())
        if made.macro:
            self._one_macro(made)
        if plain.startswith("operator") and plain not in ("operator()", "operator[]"):
            raise self._refused(made.node, f"{plain} takes {place.name}, and where it is called is not followed")
        words = {self.file.of(child) for child in made.node.children if child.child_count == 0}
        if words & {"virtual"} or re.search(r"\)[\s\w]*\b(override|final)\b", self._head(made)):
            raise self._refused(made.node, f"{made.name} is virtual")
        count = 0
        for call in self._object_calls() if plain == "operator()" else self._called(made):
            count += 1
            listed = cuda.field_of(call, "arguments")
            given = [child for child in listed.named_children if child.type != "comment"] if listed is not None else []
            if any(child.type in ("parameter_pack_expansion", "pack_expansion") for child in given):
                raise self._refused(call, f"{made.name} is called with a pack of arguments")
            if len(given) > len(made.parameters) or (plain == "operator()" and len(given) != len(made.parameters)):
                continue  # of another function of the name
            if number < len(given):
                self._value(given[number], place)

    def _head(self, made: Definition) -> str:
        return self.file.text[made.node.start_byte : made.body.start_byte].decode("utf-8", "surrogateescape")

    def _object_calls(self) -> Iterator[Node]:
        """Yield the calls of objects: of what is neither a function nor a macro of the file by its name."""
        for tree in self.scopes.trees:
            for node in cuda.walk(tree):
                function = cuda.field_of(node, "function") if node.type == "call_expression" else None
                if function is not None and self.file.called(node) not in self.scopes.callables:
                    yield node

    def _called(self, made: Definition) -> Iterator[Node]:
        """Yield the calls of a function's, lambda's or macro's name; raise Unfit where it is named as anything else."""
        method = self.file.class_of(made.node) if made.node.type == "function_definition" else None
        for node in self.scopes.mentions.get("".join(made.name.split()), []):
            if self._declares(node, made) or (cuda.above(node, *CONDITIONS) and self._in_condition(node)):
                continue
            callee = node
            while (holder := callee.parent) is not None and (
                (
                    holder.type in WRAPPING
                    and cuda.same(
                        holder.named_children[-1] if holder.type == "dependent_name" else cuda.field_of(holder, "name"),
                        callee,
                    )
                )
                or (holder.type == "field_expression" and cuda.same(cuda.field_of(holder, "field"), callee))
            ):
                callee = holder
            of_object = callee.type == "field_expression" or node.type == "field_identifier"
            if of_object and method is None:
                continue  # a member of the same name
            if (
                holder is not None
                and holder.type == "call_expression"
                and cuda.same(cuda.field_of(holder, "function"), callee)
            ):
                if not self._other_class(callee, method):
                    yield holder
            elif (
                self._meant(node) is not None
                and not self._function(self._meant(node))
                and made.node.type != "lambda_expression"
            ):
                continue  # a variable of the same name
            elif not (made.node.type == "lambda_expression" and not cuda.same(self._meant(node), self._lambda(made))):
                raise self._refused(node, f"{made.name} is named where it is not followed: {self._around(node)}")
        self._pasted(made.name)

    def _lambda(self, made: Definition) -> Node | None:
        holder = made.node.parent
        return cuda.field_of(holder, "declarator") if holder is not None and holder.type == "init_declarator" else None

    @staticmethod
    def _function(declared: Node | None) -> bool:
        holder = declared.parent if declared is not None else None
        return holder is not None and holder.type == "function_declarator"

    def _declares(self, node: Node, made: Definition) -> bool:
        """Return whether a name is that of a definition or declaration itself, or brings it into a scope."""
        holder = node.parent
        while holder is not None and holder.type in (*WRAPPING, "reference_declarator", "pointer_declarator"):
            holder = holder.parent
        if holder is None:
            return False
        if holder.type in ("preproc_function_def", "preproc_def"):
            return cuda.same(cuda.field_of(holder, "name"), node)
        if holder.type == "init_declarator" and made.node.type == "lambda_expression":
            return cuda.same(cuda.field_of(holder, "declarator"), node)
        if holder.type == "function_declarator":
            declarator = cuda.field_of(holder, "declarator")
            return declarator is not None and cuda.inside(node, declarator)
        return holder.type == "using_declaration"

    @staticmethod
    def _in_condition(node: Node) -> bool:
        holder = cuda.above(node, *CONDITIONS)
        while holder is not None:
            for name in ("name", "condition"):
                part = cuda.field_of(holder, name)
                if part is not None and cuda.inside(node, part):
                    return True
            holder = cuda.above(holder, *CONDITIONS)
        return False

    def _other_class(self, callee: Node, method: Node | None) -> bool:
        """Return whether a call is one of a method of the same name, of another class that the file defines."""
        object_ = cuda.field_of(callee, "argument") if callee.type == "field_expression" else None
        declared = self.scopes.resolve(object_) if object_ is not None and object_.type == "identifier" else None
        holder = cuda.above(declared, "declaration", "field_declaration", *PARAMETERS) if declared is not None else None
        type_ = cuda.field_of(holder, "type") if holder is not None else None
        struct = self.file.class_named(self.file.of(type_)) if type_ is not None else None
        derived = struct is not None and any(child.type == "base_class_clause" for child in struct.children)
        return struct is not None and not derived and not cuda.same(struct, method)

    def _member(self, place: ReachedPlace) -> None:
        """Show that all objects of a class, whose methods index a pointer that it keeps, point to the tile."""
        struct = cuda.above(place.declared, *cuda.CLASSES)
        if struct is None:
            raise self._refused(place.declared, f"{place.name} is not understood")
        name = self.file.of(place.declared)
        for node in (node for text in self.file.class_names(struct) for node in self.scopes.mentions.get(text, [])):
            if not self._object(node):
                raise self._refused(node, f"{self._around(node)} may keep another address than the tile's in {name}")
        for node in self.scopes.mentions.get(name, []):
            target = node.parent if node.parent is not None and node.parent.type == "field_expression" else node
            holder = target.parent
            left = (
                cuda.field_of(holder, "left") if holder is not None and holder.type == "assignment_expression" else None
            )
            function = cuda.above(node, "function_definition")
            if cuda.same(left, target) and holder is not None:
                built = function is not None and any(self._constructor(m) for m in self._definitions(function))
                if not built:
                    self._value(self._part(holder, "right"), place)
        for each in self.web.places.values():
            if each.pointer and any(r.end is place for r in self.web.from_(each)):
                self.place(each)

    def _definitions(self, function: Node) -> list[Definition]:
        return [m for every in self.scopes.callables.values() for m in every if cuda.same(m.node, function)]

    def _object(self, node: Node) -> bool:  # noqa: PLR0911
        """Return whether a mention of a class makes no object, or one that the tile was followed into."""
        whole = node
        while (holder := whole.parent) is not None and holder.type in WRAPPING:
            if cuda.same(cuda.field_of(holder, "scope"), whole):
                return cuda.above(node, "function_declarator") is not None  # the definition of a method
            whole = holder
        if holder is None:
            return False
        if holder.type in cuda.CLASSES or holder.type in (
            "alias_declaration",
            "type_definition",
            "function_declarator",
        ):
            return not any(child.type == "base_class_clause" and cuda.inside(node, child) for child in holder.children)
        if holder.type == "type_descriptor":
            return holder.parent is not None and holder.parent.type in ("alias_declaration",)
        if holder.type in ("call_expression", "compound_literal_expression"):
            return any(r.end is not None and r.end.pointer and cuda.inside(r.node, holder) for r in self.web.reaches)
        if holder.type == "function_definition":
            return True  # returned: by a function whose arguments are followed
        if holder.type not in ("declaration", *PARAMETERS):
            return False
        names = (n for n in cuda.walk(holder) if n.id in self._kept)
        declarators = holder.children_by_field_name("declarator")
        return bool(declarators) and len({n.id for n in names}) >= len(declarators)

    # ------------------------------------------------------------------------------------ macros

    def _free_names(self, macro: Definition, reach: Reach) -> Iterator[Node]:
        """Yield the names in a macro's use of the tile that it leaves to where it is expanded."""
        parameters = {p.id for p in macro.parameters if p is not None}
        for node in cuda.walk(reach.node):
            declared = self.scopes.resolve(node) if node.type == "identifier" else None
            free = declared is not None and declared.id not in parameters and not cuda.inside(declared, macro.node)
            if free and declared is not None and declared.id in self._kept:
                yield node

    def _expansions(self, macro: Definition, name: Node) -> None:
        """Show that a free name means the tile wherever the macro is expanded, also within other macros."""
        declared = self.scopes.resolve(name)
        assert declared is not None
        if (macro.node.id, declared.id) in self._expanded:
            return
        self._expanded.add((macro.node.id, declared.id))
        self._one_macro(macro)
        text = self.file.of(name)
        for site in self._sites(macro):
            outer = self.scopes.macro(site)
            if outer is not None:
                local = self.scopes.resolve(site, text)
                if local is not None and cuda.inside(local, outer.node):
                    raise self._refused(site, f"{text} is another one where {macro.name} is expanded")
                self._expansions_within(outer, text, declared, macro)
            elif not cuda.same(self.scopes.resolve(site, text), declared):
                raise self._refused(site, f"{macro.name} is also used where {text} is not this tile")

    def _expansions_within(self, outer: Definition, text: str, declared: Node, inner: Definition) -> None:
        if (outer.node.id, declared.id) in self._expanded:
            return
        self._expanded.add((outer.node.id, declared.id))
        self._one_macro(outer)
        for site in self._sites(outer):
            above = self.scopes.macro(site)
            if above is not None:
                self._expansions_within(above, text, declared, inner)
            elif not cuda.same(self.scopes.resolve(site, text), declared):
                raise self._refused(site, f"{outer.name} expands {inner.name} where {text} is not this tile")

    def _sites(self, macro: Definition) -> Iterator[Node]:
        """Yield the names by which a macro is expanded."""
        for node in self.scopes.mentions.get(macro.name, []):
            if not self._declares(node, macro) and not self._in_condition(node):
                call = node.parent
                called = call is not None and call.type == "call_expression"
                if macro.node.type == "preproc_function_def" and not called:
                    raise self._refused(node, f"{macro.name} is named where it is not expanded: {self._around(node)}")
                yield node
        self._pasted(macro.name)

    def _one_macro(self, macro: Definition) -> None:
        """Raise Unfit if a macro's name has several meanings, or its text is more than tokens."""
        others = [made for made in self.scopes.callables.get(macro.name, []) if made is not macro]
        undefined = re.search(rb"#\s*undef\s+" + re.escape(macro.name.encode()) + rb"\b", self.file.text)
        if others or undefined:
            raise self._refused(macro.node, f"{macro.name} is defined more than once")
        if "#" in self._text(macro):
            raise self._refused(macro.node, f"{macro.name} makes names or text of its arguments")

    def _text(self, macro: Definition) -> str:
        value = cuda.field_of(macro.node, "value")
        return self.file.of(value) if value is not None else ""

    def _pasted(self, name: str) -> None:
        """Raise Unfit if a macro may make a name out of pieces."""
        for macro in (made for every in self.scopes.callables.values() for made in every if made.macro):
            names = {self.file.of(p) for p in macro.parameters if p is not None}
            for left, right in re.findall(r"(\w*)\s*##\s*(\w*)", self._text(macro)):
                begins = left in names or not left or name.startswith(left)
                ends = right in names or not right or name.endswith(right)
                if begins and ends:
                    raise self._refused(macro.node, f"{macro.name} may make the name {name} out of pieces")

    # ------------------------------------------------------------------------------------ reasons

    def _around(self, node: Node) -> str:
        holder = node.parent
        while holder is not None and (holder.type in WRAPPING or holder.type.endswith("_declarator")):
            node, holder = holder, holder.parent
        return self.draft.quoted(holder if holder is not None and holder.type not in BODIES else node)

    def _other(self, node: Node, place: ReachedPlace) -> Exception:
        made = next(self.scopes.taking(place.kept or place.declared), None)
        written = self.draft.quoted(node)
        if made is not None and not cuda.inside(node, made[0].body):
            return self._refused(node, f"{made[0].name} is also called with {written}, which is not this tile")
        return self._refused(node, f"{place.name} may also be {written}, which is not this tile")

    def _refused(self, node: Node, reason: str) -> Exception:
        return self.draft.unfit(node, reason)
