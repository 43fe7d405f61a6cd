"""Where the numbers of a layout go: a policy is only exchanged if they place elements of shared arrays, and no more.

From a name that is exchanged, its template parameters and aliases are followed to the members that are used. One whose
text is the same in both classes may be used for anything. What another one returns is followed through variables,
members, parameters and returns: it has to end in an address in shared memory, or in the size of a shared array.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import CLASSES, field_of, is_field
from ncu_swizzle.fix.objects import fields_made, member
from ncu_swizzle.fix.scopes import SHARED, Definition, Scopes, declared_name

if TYPE_CHECKING:
    from tree_sitter import Node

WRAPPING = ("template_type", "template_function", "dependent_type", "qualified_identifier")
CALLEE = (*WRAPPING, "field_expression")
VALUES = ("parenthesized_expression", "cast_expression", "unary_expression", "comma_expression", "binary_expression")
TO_ADDRESS = ("__cvta_generic_to_shared", "cast_smem_ptr_to_uint", "static_cast", "reinterpret_cast")
SHARED_ASM = re.compile(r"\bshared\b|matrix")
KEPT = ("size", "cosize", "size_v", "cosize_v", "shape", "rank", "depth")  # of a layout, whatever swizzle it has
CACHED = re.compile(r"\.(ca|cg|cs|lu|cv|wb|wt)\b")  # how a copy is cached, not what it copies


class Escapes(Exception):
    """A number of a layout goes where its source does not show that it only places elements; with the line."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(eq=False, kw_only=True)
class LayoutValues:
    """The uses of one layout in a source."""

    scopes: Scopes
    differing: frozenset[str] = frozenset()  # members of the class that are another in the one to be named instead
    functions: frozenset[str] = frozenset()  # those of them that are functions
    _seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.file = self.scopes.file

    def _is_new(self, node: Node) -> bool:
        """Return whether a node is met for the first time, and note that it was."""
        new = node.id not in self._seen
        self._seen.add(node.id)
        return new

    # ------------------------------------------------------------------------------------ the name

    def named(self, name: Node) -> None:
        """Raise Escapes if a name of the layout is used for anything but places in shared memory."""
        if not self._is_new(name):
            return
        whole = name
        while (holder := whole.parent) is not None and holder.type in WRAPPING:
            if is_field(whole, "scope"):
                self._member(holder)
                return
            whole = holder
        if holder is None:
            raise self._escapes(name, "is not understood")
        if holder.type == "type_descriptor" and holder.parent is not None:
            if holder.parent.type == "template_argument_list":
                self._argument(holder, holder.parent)
            elif holder.parent.type == "alias_declaration":
                self._alias(holder.parent)
            else:
                raise self._escapes(holder.parent, "is not followed")
        elif holder.type == "type_definition":
            self._alias(holder)
        elif holder.type in ("type_parameter_declaration", "optional_type_parameter_declaration"):
            self._parameter(holder)
        else:
            raise self._escapes(holder, "is not followed")

    def _alias(self, alias: Node) -> None:
        written = field_of(alias, "name") or field_of(alias, "declarator")
        for node in self.scopes.mentions.get(self.file.of(written), []):
            if not cuda.inside(node, alias):
                self.named(node)

    def _argument(self, described: Node, listed: Node) -> None:
        """Follow a template argument to the parameter of the templates of that name."""
        number = cuda.number_of(described)
        text = self.file.of(field_of(listed.parent, "name")).rpartition("::")[2]
        templates = [node for node in self.file.nodes("template_declaration") if self._declares(node) == text]
        if not templates or not text:
            raise self._escapes(listed, f"hands it to {text or 'a template'}, which the source does not define")
        for template in templates:
            parameters = field_of(template, "parameters")
            given = [c for c in parameters.named_children if c.type != "comment"] if parameters is not None else []
            if number >= len(given) or given[number].type.startswith("variadic"):
                raise self._escapes(listed, f"hands it to {text}, whose parameters do not show it")
            self._parameter(given[number])

    def _declares(self, template: Node) -> str:
        """Return the name of what a template declares."""
        for child in template.named_children:
            if child.type in (*CLASSES, "alias_declaration"):
                return self.file.of(field_of(child, "name"))
            if child.type in ("function_definition", "declaration"):
                declarator = next((n for n in cuda.walk(child) if n.type == "function_declarator"), None)
                return self.file.of(field_of(declarator, "declarator")).rpartition("::")[2]
        return ""

    def _parameter(self, parameter: Node) -> None:
        name = next((n for n in cuda.walk(parameter) if n.type == "type_identifier"), None)
        template = cuda.above(parameter, "template_declaration")
        if name is None or template is None:
            raise self._escapes(parameter, "is not understood")
        for node in self.scopes.mentions.get(self.file.of(name), []):
            if cuda.inside(node, template) and not cuda.same(node, name):
                self.named(node)

    def _member(self, qualified: Node) -> None:
        """Follow what a member of the layout gives."""
        inner = field_of(qualified, "name")
        while inner is not None and inner.type in WRAPPING:
            inner = field_of(inner, "name")
        text = self.file.of(inner)
        if text not in self.differing:
            return
        call = qualified.parent
        if text not in self.functions or call is None or call.type != "call_expression":
            raise self._escapes(qualified, f"differs in {text}")
        self._value(call)

    # ------------------------------------------------------------------------------------ CuTe's layouts

    def tensors(self, name: Node) -> None:
        """Raise Escapes if a layout of CuTe's, by the name it is declared with, lays out more than shared tensors."""
        every = self.scopes.mentions.get(self.file.of(name), []) if name.type == "type_identifier" else ()
        for use in every or self.scopes.uses(name):
            if not cuda.same(use, name):
                self._laid_out(use)

    def _laid_out(self, use: Node) -> None:  # noqa: PLR0912
        if not self._is_new(use):
            return
        node = cuda.out_of(use, "type_descriptor", "compound_literal_expression", "template_type")
        if is_field(node, "function", "call_expression") and node.parent is not None:
            node = node.parent  # Rows()
        holder = node.parent
        if holder is not None and holder.type == "parameter_declaration":
            return  # by its template parameter: its uses are followed
        if holder is None or holder.type not in ("argument_list", "template_argument_list") or holder.parent is None:
            raise self._escapes(holder or use, "is not followed")
        named = field_of(holder.parent, "name") or holder.parent
        called = self.file.called(holder.parent) or self.file.of(named).rpartition("::")[2]
        given = holder.named_children
        if called in KEPT:
            return
        if called == "make_tensor" and len(given) == 2 and cuda.same(given[1], node):
            if self.file.called(given[0]) == "make_smem_ptr":
                return
            raise self._escapes(holder.parent, "is no tensor in shared memory")
        number = cuda.number_of(node)
        definitions = self.scopes.callables.get(called, []) if holder.type == "argument_list" else []
        for made in definitions:
            parameter = made.parameters[number] if number < len(made.parameters) else None
            if parameter is None or made.macro:
                raise self._escapes(holder.parent, "is not followed")
            for inner in self.scopes.uses(parameter):
                self._laid_out(inner)
            type_ = self.file.of(field_of(cuda.above(parameter, "parameter_declaration"), "type"))
            template = cuda.above(made.node, "template_declaration")
            listed = field_of(template, "parameters")
            for inner in self.scopes.mentions.get(type_, []) if template is not None else ():
                of_body = listed is None or not cuda.inside(inner, listed)
                if template is not None and cuda.inside(inner, template) and of_body:
                    self._laid_out(inner)
        if not definitions:
            raise self._escapes(holder.parent, "is not followed")

    # ------------------------------------------------------------------------------------ numbers

    def _value(self, node: Node) -> None:  # noqa: PLR0912
        """Follow a number to where it is used; raise Escapes if that is not an address in shared memory."""
        parent = node.parent
        if not self._is_new(node):
            return
        if parent is None:
            raise self._escapes(node, "is not understood")
        match parent.type:
            case "binary_expression":
                other = field_of(parent, "right" if is_field(node, "left") else "left")
                if other is None or not self._points(other):
                    self._value(parent)
                elif not self._shared(other, set()):
                    raise self._escapes(parent, "is no address in shared memory")
            case kind if kind in VALUES:
                self._value(parent)
            case "subscript_argument_list":
                base = field_of(parent.parent, "argument")
                if base is None or not self._shared(base, set()):
                    raise self._escapes(parent.parent or parent, "is no element of a shared array")
            case "array_declarator":
                declaration = cuda.above(parent, "declaration")
                if declaration is None or SHARED not in self.file.words(declaration):
                    raise self._escapes(parent, "is no shared array")
            case "init_declarator" | "declaration" | "field_declaration":
                self._variable(declared_name(field_of(parent, "declarator")), parent)
            case "assignment_expression" if is_field(node, "right"):
                self._variable(self._assigned_to(field_of(parent, "left")), parent)
            case "argument_list" | "initializer_list":
                self._given(node, parent)
            case "conditional_expression" if not is_field(node, "condition"):
                self._value(parent)
            case "conditional_expression" if self._cached_alike(parent):
                return
            case "return_statement":
                self._returned(parent)
            case "gnu_asm_input_operand":
                if not SHARED_ASM.search(self.file.of(cuda.above(parent, "gnu_asm_expression"))):
                    raise self._escapes(parent, "is no address in shared memory")
            case "expression_statement" | "static_assert_declaration":
                return
            case _:
                raise self._escapes(parent, "is more than a place in shared memory")

    def _assigned_to(self, left: Node | None) -> Node | None:
        """Return the variable that is assigned to, or whose element is if it is a local array; None for memory."""
        element = left is not None and left.type == "subscript_expression"
        while left is not None and left.type == "subscript_expression":
            left = field_of(left, "argument")
        declared = self.scopes.meant(left)
        holder = declared.parent if declared is not None else None
        statement = cuda.above(declared, "declaration", "parameter_declaration")
        if holder is None or statement is None or holder.type == "reference_declarator":
            return None
        array = statement.type == "declaration" and holder.type == "array_declarator"
        local = array and SHARED not in self.file.words(statement)
        return declared if local or not element else None

    def _variable(self, declared: Node | None, at: Node) -> None:
        """Follow a variable that holds a number, by its uses; one of a class by all mentions of its name."""
        if declared is None:
            raise self._escapes(at, "is kept where it is not followed")
        of_class = cuda.above(declared, "field_declaration") is not None
        for use in self._members(declared) if of_class else self.scopes.uses(declared):
            node = use
            while (
                is_field(node, "argument", "subscript_expression")
                or is_field(node, "name", "qualified_identifier")
                or is_field(node, "field", "field_expression")
            ):
                assert node.parent is not None
                node = node.parent
            kind = node.parent.type if node.parent is not None else ""
            set_ = is_field(node, "left", "assignment_expression")
            if not set_ and kind not in ("lambda_capture_specifier", "field_initializer"):
                self._value(node)

    def _members(self, declared: Node) -> Iterator[Node]:
        """Yield the uses of a member, without those of another class's member of that name."""
        own = cuda.above(declared, *CLASSES)
        for node in self.scopes.mentions.get(self.file.of(declared), []):
            if cuda.same(node, declared):
                continue
            holder, meant = node.parent, self.scopes.meant(node)
            if holder is not None and holder.type == "field_expression":
                struct = self.file.class_of_variable(self.scopes.meant(field_of(holder, "argument")))
                if struct is None or cuda.same(struct, own):
                    yield node
            elif meant is not None:
                if cuda.same(meant, declared):
                    yield node
            elif holder is not None and holder.type == "qualified_identifier":
                yield node

    def _given(self, node: Node, listed: Node) -> None:
        """Follow an argument to the parameter, or the member of an object that is made."""
        call = listed.parent
        if call is not None and call.type == "field_initializer":
            name = self.file.of(call.named_children[0])
            self._variable(member(self.file, cuda.above(call, *CLASSES), name), call)
            return
        name = self.file.called(call) if call is not None and call.type == "call_expression" else ""
        if call is not None and (name in TO_ADDRESS or self.file.cast_type(call)):
            self._value(call)
            return
        number = cuda.number_of(node)
        if name and (definitions := self.scopes.callables.get(name, [])):
            for made in definitions:
                if number < len(made.parameters):
                    self._variable(made.parameters[number], call or listed)
            return
        made_object = fields_made(self.scopes, listed)
        given = made_object.fields.items() if made_object is not None else ()
        fields = [name for name, value in given if cuda.same(value, node)]
        if made_object is None or not fields:
            raise self._escapes(call or listed, f"hands it to {name or 'an object'}, which is not followed")
        self._variable(member(self.file, made_object.struct, fields[0]), listed)

    def _returned(self, statement: Node) -> None:
        made = self.scopes.holder(statement)
        if made is None or made.macro or made.node.type == "lambda_expression":
            raise self._escapes(statement, "is returned where it is not followed")
        for node in self.scopes.mentions.get(made.name, []):
            callee = cuda.out_of(node, *CALLEE)
            holder = callee.parent
            if holder is not None and is_field(callee, "function", "call_expression"):
                self._value(holder)
            elif holder is None or (holder.type != "function_declarator" and not self._is_variable(node)):
                raise self._escapes(node, f"is returned by {made.name}, which is named where it is not followed")

    def _is_variable(self, node: Node) -> bool:
        declared = self.scopes.meant(node)
        return declared is not None and declared.parent is not None and declared.parent.type != "function_declarator"

    def _cached_alike(self, node: Node) -> bool:
        """Return whether a condition only decides how a copy is cached: two calls with the same arguments."""
        sides = [field_of(node, name) for name in ("consequence", "alternative")]
        calls = [side for side in sides if side is not None and side.type == "call_expression"]
        bodies = [self._only_body(call) for call in calls]
        given = {self.file.of(field_of(call, "arguments")) for call in calls}
        return len(calls) == 2 and None not in bodies and bodies[0] == bodies[1] and len(given) == 1

    def _only_body(self, call: Node) -> str | None:
        definitions = self.scopes.callables.get(self.file.called(call), [])
        body = "".join(self.file.of(definitions[0].body).split()) if len(definitions) == 1 else None
        return CACHED.sub("", body) if body is not None else None

    # ------------------------------------------------------------------------------------ shared memory

    def _points(self, node: Node) -> bool:
        """Return whether an expression may be a pointer."""
        node = cuda.bare(node)
        match node.type:
            case "identifier":
                declared = self.scopes.resolve(node)
                return (
                    cuda.out_of(declared, "pointer_declarator", "array_declarator") is not declared
                    if declared
                    else False
                )
            case "call_expression":
                return "*" in self.file.of(node).partition("(")[0]
            case "subscript_expression":
                return False
        return any(self._points(child) for child in node.named_children)

    def _shared(self, node: Node, within: set[int]) -> bool:  # noqa: PLR0911
        """Return whether an address lies in shared memory wherever it comes from."""
        node = cuda.bare(node)
        match node.type:
            case "cast_expression" | "pointer_expression" | "subscript_expression":
                part = field_of(node, "value") or field_of(node, "argument")
                return part is not None and self._shared(part, within)
            case "binary_expression":
                sides = (field_of(node, name) for name in ("left", "right"))
                pointers = [side for side in sides if side is not None and self._points(side)]
                return len(pointers) == 1 and self._shared(pointers[0], within)
            case "call_expression":
                converts = self.file.called(node) in TO_ADDRESS or bool(self.file.cast_type(node))
                return converts and any(self._shared(part, within) for part in cuda.arguments(node)[:1])
        declared = self.scopes.meant(node)
        statement = cuda.above(declared, "declaration", "parameter_declaration")
        if declared is None or statement is None:
            return False
        if SHARED in self.file.words(statement) or declared.id in within:
            return True
        if any(is_field(use, "left", "assignment_expression") for use in self.scopes.uses(declared)):
            return False
        if statement.type == "declaration":
            given = [field_of(cuda.above(declared, "init_declarator"), "value")]
        else:
            given = list(self._arguments(declared))
        within = within | {declared.id}
        return bool(given) and all(value is not None and self._shared(value, within) for value in given)

    def _arguments(self, parameter: Node) -> Iterator[Node | None]:
        """Yield what a function's parameter is given; None where it is named otherwise than by a call."""
        taken: tuple[Definition, int] | None = next(self.scopes.taking(parameter), None)
        if taken is None:
            yield None
            return
        made, number = taken
        for node in self.scopes.mentions.get(made.name, []):
            holder = cuda.out_of(node, *CALLEE).parent
            if holder is None or holder.type == "function_declarator" or self._is_variable(node):
                continue
            given = cuda.arguments(holder) if holder.type == "call_expression" else []
            yield given[number] if number < len(given) else None

    def _escapes(self, node: Node, reason: str) -> Escapes:
        return Escapes(f"{self.file.quoted(node)} {reason}", self.file.line(node))
