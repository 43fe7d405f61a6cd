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

from ncu_swizzle.fix.cuda import CLASSES, NOTHING, PARAMETERS, Node
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.objects import fields_made
from ncu_swizzle.fix.reaching import SAME, TO_ADDRESS
from ncu_swizzle.fix.scopes import Definition
from ncu_swizzle.fix.webs import Reach, ReachedPlace

WRAPPING = ("template_function", "template_method", "dependent_name", "qualified_identifier", "template_type")
CONDITIONS = ("preproc_ifdef", "preproc_if", "preproc_elif", "preproc_defined")
BODIES = ("compound_statement", "field_declaration_list", "declaration_list", "translation_unit")


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
        self._kept: dict[int, list[ReachedPlace]] = {}
        for place in self.web.places.values():
            self._kept.setdefault(place.keeper.id, []).append(place)

    def kept(self, declared: Node) -> list[ReachedPlace]:
        """Return the places that a variable is, or keeps."""
        return self._kept.get(declared.id, [])

    def meant(self, node: Node) -> Node:
        """Return the declared name that a name refers to, also where the grammar takes it for a type."""
        return self.scopes.resolve(node) if node.type in ("identifier", "type_identifier") else NOTHING

    def constructor(self, definition: Definition) -> bool:
        return self.file.class_of(definition.node).part("name").text == definition.name

    # ------------------------------------------------------------------------------------ places

    def reach(self, reach: Reach) -> None:
        """Show that a use that is edited is one of the tile; raise Unfit if it may be one of something else."""
        self.place(reach.start)
        self._way(reach.node, reach)
        if macro := self.scopes.macro(reach.node):
            for name in self._free_names(macro, reach):
                self._expansions(macro, name)

    def _way(self, node: Node, reach: Reach) -> None:
        """Show that what is indexed or accessed is not a choice of addresses: ``(far ? g : t)[i]``, ``of(t, g)[i]``."""
        node = node.bare
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
                elif node is reach.node.bare:  # its arguments go on, or are accessed
                    given = [c for c in given if any(self.meant(n) is reach.start.declared for n in c.walk())]
                elif self._functions(node):
                    self._made(node, reach.start)
                    return
                else:
                    return
                for child in given:
                    self._way(child, reach)

    def _converts(self, call: Node) -> bool:
        """Return whether a call is the same address in another type."""
        return bool(call.cast_type) or call.called in (*TO_ADDRESS, *SAME)

    def _functions(self, call: Node) -> list[Definition]:
        found = self.scopes.callables.get(call.called, [])
        return [definition for definition in found if not self.constructor(definition)]

    def place(self, place: ReachedPlace) -> None:
        """Show that a name stands for the tile alone."""
        declared = place.keeper
        if place.declared.id in self._shown:
            return
        self._shown.add(place.declared.id)
        if len(self.scopes.declared_with(declared)) > 1:
            raise declared.unfit(f"{declared.text} is declared twice")
        for member in self.web.members:
            if member.place is place:
                self.place(member.through)
        if place.array or (place.member and place.rank):
            return
        taken = next(self.scopes.taking(declared), None)
        if taken:
            self._parameter(*taken, place)
        elif declared.above(*BODIES).type == "field_declaration_list" and declared.above("field_declaration"):
            raise declared.unfit(f"what objects keep in {declared.text} is not followed")
        else:
            self._variable(place, declared)

    def _variable(self, place: ReachedPlace, declared: Node) -> None:
        """Show that a variable is only given addresses of the tile."""
        name = declared.text
        holder = declared.above("declaration", "for_range_loop", "expression_statement", "lambda_capture_initializer")
        if not holder or holder.type in ("for_range_loop", "lambda_capture_initializer"):
            raise declared.unfit(f"what {name} stands for is not shown")
        # Any function, also one of another file, may store something else in it.
        if holder.type == "declaration" and holder.parent.type in ("", *BODIES[1:]):
            raise declared.unfit(f"{name} is kept outside of functions")
        if value := _initial(declared, holder):
            self._value(value, place)
        for use in self.scopes.uses(declared):
            self._assigned(use, place)
        for reach in self.web.from_(place):
            if reach.end and _refers(reach.end.declared):
                self.place(reach.end)  # which may be given something else, and with it this name

    def _assigned(self, use: Node, place: ReachedPlace) -> None:
        """Show that what a use assigns, to a name or to the pointer that it keeps, is the tile."""
        node = use
        if place.pointer and node.parent.type == "field_expression":
            if node.parent.part("field").text != place.pointer:
                return
            node = node.parent
        node = node.out_of("parenthesized_expression")
        parent = node.parent
        if parent.type == "gnu_asm_output_operand":
            raise node.unfit(f"an asm statement writes {place.name}")
        if not node.is_part("left", "assignment_expression"):
            return
        if parent.part("operator").text in ("", "="):
            if not place.declared.inside(parent):  # float (*p)[32] = t; declares it
                self._value(parent.part("right"), place)
        elif parent.part("operator").text not in ("+=", "-="):
            raise node.unfit(f"{parent.quoted()} computes with an address")

    def _parameter(self, definition: Definition, number: int, place: ReachedPlace) -> None:
        """Show that all calls that may mean a function give one of its parameters the tile."""
        if default := place.keeper.above(*PARAMETERS).part("default_value"):
            self._value(default, place)
        for use in self.scopes.uses(place.keeper):
            self._assigned(use, place)
        name = definition.name
        if definition.macro:
            self.plain_macro(definition)
        # ``a + b`` calls operator+ without naming it: its calls are not found by name.
        if name.startswith("operator") and name not in ("operator()", "operator[]"):
            raise definition.node.unfit(f"{name} takes {place.name}, and where it is called is not followed")
        head = self.file.between(definition.node.start_byte, definition.body.start_byte)
        # A virtual function is also called through its base class, by calls that do not name this one.
        if "virtual" in definition.node.words or re.search(r"\)[\s\w]*\b(override|final)\b", head):
            raise definition.node.unfit(f"{name} is virtual")
        for call in self.calls_of_objects() if name == "operator()" else self.calls_of(definition):
            given = call.arguments
            if any(child.type in ("parameter_pack_expansion", "pack_expansion") for child in given):
                raise call.unfit(f"{name} is called with a pack of arguments")
            if len(given) > len(definition.parameters) or (
                name == "operator()" and len(given) != len(definition.parameters)
            ):
                continue  # of another function of the name
            if number < len(given):
                self._value(given[number], place)

    # ------------------------------------------------------------------------------------ values

    def _value(self, node: Node, place: ReachedPlace) -> None:
        """Show that an expression is an address of the tile; raise Unfit with its line if it may be another one."""
        node = node.bare
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
                operator, points = self._part(node, "operator").text, (self._points(left), self._points(right))
                if operator not in "+-" or (operator == "-" and points[1]) or points[0] == points[1]:
                    raise self._other(node, place)
                self._value(left if points[0] else right, place)
            case "field_expression":
                self._field(node, place)
            case kind if kind in MADE:
                self._made(node, place)
            case kind if kind not in NULLS and not (kind == "number_literal" and node.text == "0"):
                raise self._other(node, place)

    def _part(self, node: Node, name: str) -> Node:
        part = node.part(name)
        if not part:
            raise node.unfit(f"{node.quoted()} is not understood")
        return part

    def _points(self, node: Node) -> bool:
        """Return whether an expression may be an address: it names a place, or another pointer or array."""
        node = node.bare
        if node.type == "subscript_expression":
            return self._points(self._part(node, "argument"))
        if node.type in ("identifier", "type_identifier"):
            declared = self.scopes.resolve(node)
            return declared.parent.type in POINTING or bool(self.kept(declared))
        converts = node.type in ("call_expression", "cast_expression")
        parts = (child for child in node.named_children if not converts or child.type != "type_descriptor")
        return any(self._points(part) for part in parts)

    def _field(self, node: Node, place: ReachedPlace) -> None:
        """Show that a member is the tile: an array of an object that is in it, or the pointer that a view keeps."""
        name, object_ = self._part(node, "field").text, self._part(node, "argument").bare
        if object_.type == "this":
            struct = self.file.class_around(node)
            fields = (p for p in self.web.places.values() if p.declared.text == name)
            own = next((p for p in fields if struct and p.declared.above(*CLASSES) is struct), None)
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
        object_ = fields_made(self.scopes, node.part("arguments", "value") or node)
        if object_ is None or place.pointer not in object_.fields:
            raise self._other(node, place)
        self._value(object_.fields[place.pointer], place)

    def _returned(self, definition: Definition, place: ReachedPlace) -> None:
        """Show that a function returns addresses of the tile."""
        if definition.macro:
            raise definition.node.unfit(f"{definition.name} is a macro that makes an address")
        returned = [node for node in definition.body.walk() if node.type == "return_statement" and node.named_children]
        if not returned:
            raise definition.node.unfit(f"what {definition.name} returns is not shown")
        for statement in returned:
            self._value(statement.named_children[0], place)

    # ------------------------------------------------------------------------------------ macros

    def _free_names(self, macro: Definition, reach: Reach) -> Iterator[Node]:
        """Yield the names in a macro's use of the tile that it leaves to where it is expanded."""
        for node in reach.node.walk():
            declared = self.scopes.meant(node)
            own = not declared or macro.takes(declared) is not None or declared.inside(macro.node)
            if not own and self.kept(declared):
                yield node

    def _expansions(self, macro: Definition, name: Node) -> None:
        """Show that a free name means the tile wherever the macro is expanded, also within other macros."""
        declared, text = self.scopes.resolve(name), name.text
        waiting = [macro]
        while waiting:
            outer = waiting.pop()
            if (outer.node.id, declared.id) in self._expanded:
                continue
            self._expanded.add((outer.node.id, declared.id))
            self.plain_macro(outer)
            for site in self.expansions(outer):
                local, around = self.scopes.resolve(site, text), self.scopes.macro(site)
                if around is None and local is not declared:
                    where = f"is also used where {text} is not this tile"
                    if outer is not macro:
                        where = f"expands {macro.name} where {text} is not this tile"
                    raise site.unfit(f"{outer.name} {where}")
                if around and local.inside(around.node):
                    raise site.unfit(f"{text} is another one where {outer.name} is expanded")
                waiting += [around] if around else []

    # ------------------------------------------------------------------------------------ calls and expansions
    # Every place that may mean a function, lambda or macro, or a refusal where one may hide.

    def calls_of(self, definition: Definition) -> Iterator[Node]:
        """Yield the calls of a function's, lambda's or macro's name; raise Unfit where it is named as anything else."""
        method = self.file.class_of(definition.node) if definition.node.type == "function_definition" else NOTHING
        is_lambda = definition.node.type == "lambda_expression"
        for node in self.scopes.mentions.get(definition.name, []):
            if self.declares(node, definition) or _in_condition(node):
                continue
            callee = node
            while (
                callee.is_part("field", "field_expression")
                or callee.is_part("name", *WRAPPING)
                or (callee.parent.type == "dependent_name" and callee.parent.named_children[-1] is callee)
            ):
                callee = callee.parent
            if not method and (callee.type == "field_expression" or node.type == "field_identifier"):
                continue  # a member of the same name
            declared = self.meant(node)
            if callee.is_part("function", "call_expression"):
                if not self._other_class(callee, method):
                    yield callee.parent
            elif is_lambda:
                if declared is definition.node.parent.part("declarator"):
                    raise self._named_otherwise(node, definition)
            elif declared.parent.type in ("", "function_declarator"):
                raise self._named_otherwise(node, definition)  # else it is a variable of the same name
        self._not_pasted(definition.name)

    def _named_otherwise(self, node: Node, definition: Definition) -> Exception:
        return node.unfit(f"{definition.name} is named where it is not followed: {self.around(node)}")

    def _other_class(self, callee: Node, method: Node) -> bool:
        """Return whether a call is one of a method of the same name, of another class that the file defines."""
        object_ = callee.part("argument") if callee.type == "field_expression" else NOTHING
        struct = self.file.class_of_variable(self.scopes.meant(object_))
        derived = any(child.type == "base_class_clause" for child in struct.children)
        return bool(struct) and not derived and struct is not method

    def calls_of_objects(self) -> Iterator[Node]:
        """Yield the calls of objects: of what is neither a function nor a macro of the file by its name."""
        for node in (node for tree in self.scopes.trees for node in tree.walk()):
            if node.type == "call_expression" and node.called not in self.scopes.callables:
                yield node

    def expansions(self, macro: Definition) -> Iterator[Node]:
        """Yield the names by which a macro is expanded; raise Unfit where it is named as anything else."""
        for node in self.scopes.mentions.get(macro.name, []):
            if not self.declares(node, macro) and not _in_condition(node):
                if macro.node.type == "preproc_function_def" and node.parent.type != "call_expression":
                    raise node.unfit(f"{macro.name} is named where it is not expanded: {self.around(node)}")
                yield node
        self._not_pasted(macro.name)

    def declares(self, node: Node, definition: Definition) -> bool:
        """Return whether a name is that of a definition or declaration itself, or brings it into a scope."""
        holder = node.out_of(*WRAPPING, "reference_declarator", "pointer_declarator").parent
        if holder.type in ("preproc_function_def", "preproc_def"):
            return holder.part("name") is node
        if holder.type == "init_declarator" and definition.node.type == "lambda_expression":
            return holder.part("declarator") is node
        if holder.type == "function_declarator":
            return node.inside(holder.part("declarator"))
        return holder.type == "using_declaration"

    def plain_macro(self, macro: Definition) -> None:
        """Raise Unfit if a macro's name has several meanings, or its text is more than tokens."""
        others = [made for made in self.scopes.callables.get(macro.name, []) if made is not macro]
        undefined = re.search(rb"#\s*undef\s+" + re.escape(macro.name.encode()) + rb"\b", self.file.text)
        if others or undefined:
            raise macro.node.unfit(f"{macro.name} is defined more than once")
        if "#" in self.macro_text(macro):
            raise macro.node.unfit(f"{macro.name} makes names or text of its arguments")

    def macro_text(self, macro: Definition) -> str:
        return macro.node.part("value").text

    def _not_pasted(self, name: str) -> None:
        """Raise Unfit if a macro may make a name out of pieces."""
        for macro in (definition for definition in self.scopes.definitions if definition.macro):
            names = {p.text for p in macro.parameters if p}
            for left, right in re.findall(r"(?:(?<!\w)(\w++)\s*+|)##\s*+(\w*+)", self.macro_text(macro)):
                begins = left in names or not left or name.startswith(left)
                ends = right in names or not right or name.endswith(right)
                if begins and ends:
                    raise macro.node.unfit(f"{macro.name} may make the name {name} out of pieces")

    def around(self, node: Node) -> str:
        """Return the expression or declarator that a name is in, as messages quote it."""
        holder = node.parent
        while holder.type in WRAPPING or holder.type.endswith("_declarator"):
            node, holder = holder, holder.parent
        return (holder if holder and holder.type not in BODIES else node).quoted()

    # ------------------------------------------------------------------------------------ reasons

    def _other(self, node: Node, place: ReachedPlace) -> Exception:
        taken = next(self.scopes.taking(place.keeper), None)
        also = f"{taken[0].name} is also called with" if taken and not node.inside(taken[0].body) else ""
        return node.unfit(f"{also or f'{place.name} may also be'} {node.quoted()}, which is not this tile")


def _in_condition(node: Node) -> bool:
    """Return whether a name stands in what the preprocessor asks, as in ``#ifdef NAME``."""
    holder = node
    while holder := holder.above(*CONDITIONS):
        if node.inside(holder.part("name")) or node.inside(holder.part("condition")):
            return True
    return False


def _initial(declared: Node, holder: Node) -> Node:
    """Return what a declaration gives a name."""
    node = declared
    while node and node is not holder:
        match node.type:
            case "init_declarator":
                return node.part("value")
            case "function_declarator":  # View v(tile);
                return node.part("parameters")
            case "assignment_expression":  # float (*p)[32] = t;
                return node.part("right")
        node = node.parent
    return holder.part("default_value", "value")


def _refers(declared: Node) -> bool:
    """Return whether a name is declared as a reference."""
    node = declared.parent
    while node.type.endswith("_declarator") or node.type == "parenthesized_declarator":
        if node.type == "reference_declarator":
            return True
        node = node.parent
    return False
