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

from ncu_swizzle.fix import cuda, objects
from ncu_swizzle.fix.objects import fields_made
from ncu_swizzle.fix.scopes import Definition, Scopes, declared_name

if TYPE_CHECKING:
    from tree_sitter import Node

WRAPPING = ("template_type", "template_function", "dependent_type", "qualified_identifier")
VALUES = ("parenthesized_expression", "cast_expression", "unary_expression", "comma_expression", "binary_expression")
TO_ADDRESS = ("__cvta_generic_to_shared", "cast_smem_ptr_to_uint", "static_cast", "reinterpret_cast")
SHARED_ASM = re.compile(r"\bshared\b|matrix")
KEPT = ("size", "cosize", "size_v", "cosize_v", "shape", "rank", "depth")  # of a layout, whatever swizzle it has
CACHED = re.compile(r"\.(ca|cg|cs|lu|cv|wb|wt)\b")  # how a copy is cached, not what it copies
TEMPLATES = ("function_definition", *cuda.CLASSES, "alias_declaration", "declaration")


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

    # ------------------------------------------------------------------------------------ the name

    def named(self, name: Node) -> None:
        """Raise Escapes if a name of the layout is used for anything but places in shared memory."""
        if name.id in self._seen:
            return
        self._seen.add(name.id)
        whole = name
        while (holder := whole.parent) is not None and holder.type in WRAPPING:
            if cuda.same(cuda.field_of(holder, "scope"), whole):
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
        written = cuda.field_of(alias, "name") or cuda.field_of(alias, "declarator")
        for node in self.scopes.mentions.get(self.scopes.file.of(written), []) if written is not None else []:
            if not cuda.inside(node, alias):
                self.named(node)

    def _argument(self, described: Node, listed: Node) -> None:
        """Follow a template argument to the parameter of the templates of that name."""
        number = next(i for i, child in enumerate(listed.named_children) if cuda.same(child, described))
        named = cuda.field_of(listed.parent, "name") if listed.parent is not None else None
        text = self.scopes.file.of(named).rpartition("::")[2] if named is not None else ""
        found = [node for node in self.scopes.file.nodes("template_declaration") if self._declares(node) == text]
        if not found or not text:
            raise self._escapes(listed, f"hands it to {text or 'a template'}, which the source does not define")
        for template in found:
            parameters = cuda.field_of(template, "parameters")
            given = [c for c in parameters.named_children if c.type != "comment"] if parameters is not None else []
            if number >= len(given) or given[number].type.startswith("variadic"):
                raise self._escapes(listed, f"hands it to {text}, whose parameters do not show it")
            self._parameter(given[number])

    def _declares(self, template: Node) -> str:
        for child in template.named_children:
            if child.type in cuda.CLASSES or child.type == "alias_declaration":
                named = cuda.field_of(child, "name")
                return self.scopes.file.of(named) if named is not None else ""
            if child.type in ("function_definition", "declaration"):
                declarator = next((n for n in cuda.walk(child) if n.type == "function_declarator"), None)
                named = cuda.field_of(declarator, "declarator") if declarator is not None else None
                return self.scopes.file.of(named).rpartition("::")[2] if named is not None else ""
        return ""

    def _parameter(self, parameter: Node) -> None:
        name = next((n for n in cuda.walk(parameter) if n.type == "type_identifier"), None)
        template = cuda.above(parameter, "template_declaration")
        if name is None or template is None:
            raise self._escapes(parameter, "is not understood")
        for node in self.scopes.mentions.get(self.scopes.file.of(name), []):
            if cuda.inside(node, template) and not cuda.same(node, name):
                self.named(node)

    def _member(self, qualified: Node) -> None:
        """Follow what a member of the layout gives."""
        inner = cuda.field_of(qualified, "name")
        while inner is not None and inner.type in WRAPPING:
            inner = cuda.field_of(inner, "name")
        text = self.scopes.file.of(inner) if inner is not None else ""
        if text not in self.differing:
            return
        call = qualified.parent
        called = call is not None and call.type == "call_expression"
        if text not in self.functions or not called or call is None:
            raise self._escapes(qualified, f"differs in {text}")
        self._value(call)

    # ------------------------------------------------------------------------------------ CuTe's layouts

    def tensors(self, name: Node) -> None:
        """Raise Escapes if a layout of CuTe's, by the name it is declared with, lays out more than shared tensors."""
        every = self.scopes.mentions.get(self.scopes.file.of(name), []) if name.type == "type_identifier" else ()
        for use in every or self.scopes.uses(name):
            if not cuda.same(use, name):
                self._laid_out(use)

    def _laid_out(self, use: Node) -> None:  # noqa: PLR0912
        if use.id in self._seen:
            return
        self._seen.add(use.id)
        node, holder = use, use.parent
        while holder is not None and holder.type in ("type_descriptor", "compound_literal_expression", *WRAPPING[:1]):
            node, holder = holder, holder.parent
        if (
            holder is not None
            and holder.type == "call_expression"
            and cuda.same(cuda.field_of(holder, "function"), node)
        ):
            node, holder = holder, holder.parent  # Rows()
        if holder is None or holder.type not in ("argument_list", "template_argument_list") or holder.parent is None:
            if holder is not None and holder.type == "parameter_declaration":
                return  # by its template parameter: its uses are followed
            raise self._escapes(holder or use, "is not followed")
        named = cuda.field_of(holder.parent, "name") or holder.parent
        called = self.scopes.file.called(holder.parent) or self.scopes.file.of(named).rpartition("::")[2]
        given = holder.named_children
        if called in KEPT:
            return
        if called == "make_tensor" and len(given) == 2 and cuda.same(given[1], node):
            if self.scopes.file.called(given[0]) == "make_smem_ptr":
                return
            raise self._escapes(holder.parent, "is no tensor in shared memory")
        number = next(i for i, child in enumerate(given) if cuda.same(child, node))
        definitions = self.scopes.callables.get(called, []) if holder.type == "argument_list" else []
        for made in definitions:
            parameter = made.parameters[number] if number < len(made.parameters) else None
            if parameter is None or made.macro:
                raise self._escapes(holder.parent, "is not followed")
            for inner in self.scopes.uses(parameter):
                self._laid_out(inner)
            declaration = cuda.above(parameter, "parameter_declaration")
            type_ = cuda.field_of(declaration, "type") if declaration is not None else None
            template = cuda.above(made.node, "template_declaration")
            for inner in self.scopes.mentions.get(self.scopes.file.of(type_), []) if type_ is not None else []:
                listed = cuda.field_of(template, "parameters") if template is not None else None
                if (
                    template is not None
                    and cuda.inside(inner, template)
                    and not (listed and cuda.inside(inner, listed))
                ):
                    self._laid_out(inner)
        if not definitions:
            raise self._escapes(holder.parent, "is not followed")

    # ------------------------------------------------------------------------------------ numbers

    def _value(self, node: Node) -> None:  # noqa: PLR0912
        """Follow a number to where it is used; raise Escapes if that is not an address in shared memory."""
        if node.id in self._seen:
            return
        self._seen.add(node.id)
        parent = node.parent
        if parent is None:
            raise self._escapes(node, "is not understood")
        match parent.type:
            case "binary_expression":
                self._summed(node, parent)
            case kind if kind in VALUES:
                self._value(parent)
            case "subscript_argument_list":
                subscript = parent.parent
                base = cuda.field_of(subscript, "argument") if subscript is not None else None
                if base is None or not self._shared(base, set()):
                    raise self._escapes(subscript or parent, "is no element of a shared array")
            case "array_declarator":
                declaration = cuda.above(parent, "declaration")
                if declaration is None or "__shared__" not in {self.scopes.file.of(c) for c in declaration.children}:
                    raise self._escapes(parent, "is no shared array")
            case "init_declarator" | "declaration" | "field_declaration":
                declarator = cuda.field_of(parent, "declarator")
                self._variable(declared_name(declarator) if declarator is not None else None, parent)
            case "assignment_expression" if cuda.same(cuda.field_of(parent, "right"), node):
                self._variable(self._assigned_to(cuda.field_of(parent, "left")), parent)
            case "argument_list" | "initializer_list":
                self._given(node, parent)
            case "conditional_expression" if not cuda.same(cuda.field_of(parent, "condition"), node):
                self._value(parent)
            case "conditional_expression" if self._cached_alike(parent):
                return
            case "return_statement":
                self._returned(parent)
            case "gnu_asm_input_operand":
                statement = cuda.above(parent, "gnu_asm_expression")
                if statement is None or not SHARED_ASM.search(self.scopes.file.of(statement)):
                    raise self._escapes(parent, "is no address in shared memory")
            case "expression_statement" | "static_assert_declaration":
                return
            case _:
                raise self._escapes(parent, "is more than a place in shared memory")

    def _assigned_to(self, left: Node | None) -> Node | None:
        """Return the variable that is assigned to, or whose element is if it is a local array; None for memory."""
        element = left is not None and left.type == "subscript_expression"
        while left is not None and left.type == "subscript_expression":
            left = cuda.field_of(left, "argument")
        declared = self.scopes.resolve(left) if left is not None and left.type == "identifier" else None
        holder = declared.parent if declared is not None else None
        statement = cuda.above(declared, "declaration", "parameter_declaration") if declared is not None else None
        if holder is None or statement is None or holder.type == "reference_declarator":
            return None
        words = {self.scopes.file.of(child) for child in statement.children}
        local = statement.type == "declaration" and holder.type == "array_declarator" and "__shared__" not in words
        return declared if local or not element else None

    def _summed(self, node: Node, parent: Node) -> None:
        left, right = cuda.field_of(parent, "left"), cuda.field_of(parent, "right")
        other = right if cuda.same(left, node) else left
        if other is not None and self._points(other):
            if not self._shared(other, set()):
                raise self._escapes(parent, "is no address in shared memory")
            return
        self._value(parent)

    def _variable(self, declared: Node | None, at: Node) -> None:
        """Follow a variable that holds a number, by its uses; one of a class by all mentions of its name."""
        if declared is None:
            raise self._escapes(at, "is kept where it is not followed")
        struct = cuda.above(declared, "field_declaration")
        uses = self._members(declared) if struct is not None else self.scopes.uses(declared)
        for use in uses:
            node = use
            while node.parent is not None and (
                (node.parent.type == "subscript_expression" and cuda.same(cuda.field_of(node.parent, "argument"), node))
                or (node.parent.type == "qualified_identifier" and cuda.same(cuda.field_of(node.parent, "name"), node))
                or (node.parent.type == "field_expression" and cuda.same(cuda.field_of(node.parent, "field"), node))
            ):
                node = node.parent
            holder = node.parent
            if (
                holder is not None
                and holder.type == "assignment_expression"
                and cuda.same(cuda.field_of(holder, "left"), node)
            ):
                continue
            if holder is not None and holder.type in ("lambda_capture_specifier", "field_initializer"):
                continue
            self._value(node)

    def _members(self, declared: Node) -> Iterator[Node]:
        """Yield the uses of a member, without those of another class's member of that name."""
        own = cuda.above(declared, *cuda.CLASSES)
        for node in self.scopes.mentions.get(self.scopes.file.of(declared), []):
            if cuda.same(node, declared):
                continue
            holder = node.parent
            if holder is not None and holder.type == "field_expression":
                object_ = cuda.field_of(holder, "argument")
                there = self.scopes.resolve(object_) if object_ is not None and object_.type == "identifier" else None
                statement = (
                    cuda.above(there, "declaration", "parameter_declaration", "field_declaration") if there else None
                )
                type_ = cuda.field_of(statement, "type") if statement is not None else None
                struct = self.scopes.file.class_named(self.scopes.file.of(type_)) if type_ is not None else None
                if struct is None or cuda.same(struct, own):
                    yield node
            elif node.type == "identifier" and (meant := self.scopes.resolve(node)) is not None:
                if cuda.same(meant, declared):
                    yield node
            elif holder is not None and holder.type == "qualified_identifier":
                yield node

    def _given(self, node: Node, listed: Node) -> None:
        """Follow an argument to the parameter, or the member of an object that is made."""
        call = listed.parent
        if call is not None and call.type == "field_initializer":
            struct, named = cuda.above(call, *cuda.CLASSES), call.named_children[0]
            found = (
                [d for _, d in objects.members(struct) if self.scopes.file.of(d) == self.scopes.file.of(named)]
                if struct
                else []
            )
            self._variable(found[0] if found else None, call)
            return
        name = self.scopes.file.called(call) if call is not None and call.type == "call_expression" else ""
        if call is not None and (name in TO_ADDRESS or self.scopes.file.cast_type(call)):
            self._value(call)
            return
        number = next(i for i, child in enumerate(listed.named_children) if cuda.same(child, node))
        definitions = self.scopes.callables.get(name, []) if name else []
        if definitions:
            for made in (made for made in definitions if number < len(made.parameters)):
                self._variable(made.parameters[number], call or listed)
            return
        made_object = fields_made(self.scopes, listed)
        fields = (
            [n for n, given in made_object.fields.items() if cuda.same(given, node)] if made_object is not None else []
        )
        if made_object is None or not fields:
            raise self._escapes(call or listed, f"hands it to {name or 'an object'}, which is not followed")
        self._variable(
            next(d for _, d in objects.members(made_object.struct) if self.scopes.file.of(d) == fields[0]), listed
        )

    def _returned(self, statement: Node) -> None:
        made = self.scopes.holder(statement)
        if made is None or made.macro or made.node.type == "lambda_expression":
            raise self._escapes(statement, "is returned where it is not followed")
        for node in self.scopes.mentions.get(made.name, []):
            callee = node
            while (holder := callee.parent) is not None and holder.type in (*WRAPPING, "field_expression"):
                callee = holder
            if (
                holder is not None
                and holder.type == "call_expression"
                and cuda.same(cuda.field_of(holder, "function"), callee)
            ):
                self._value(holder)
            elif holder is None or (holder.type != "function_declarator" and not self._variable_named(node)):
                raise self._escapes(node, f"is returned by {made.name}, which is named where it is not followed")

    def _variable_named(self, node: Node) -> bool:
        declared = self.scopes.resolve(node) if node.type == "identifier" else None
        return declared is not None and declared.parent is not None and declared.parent.type != "function_declarator"

    def _cached_alike(self, node: Node) -> bool:
        """Return whether a condition only decides how a copy is cached: two calls with the same arguments."""
        parts = [cuda.field_of(node, name) for name in ("consequence", "alternative")]
        made = [self._only(part) for part in parts if part is not None and part.type == "call_expression"]
        given = [self.scopes.file.of(cuda.field_of(p, "arguments") or p) for p in parts if p is not None]
        return len(made) == 2 and None not in made and made[0] == made[1] and len(set(given)) == 1

    def _only(self, call: Node) -> str | None:
        found = self.scopes.callables.get(self.scopes.file.called(call), [])
        return CACHED.sub("", "".join(self.scopes.file.of(found[0].body).split())) if len(found) == 1 else None

    # ------------------------------------------------------------------------------------ shared memory

    def _points(self, node: Node) -> bool:
        """Return whether an expression may be a pointer."""
        node = cuda.bare(node)
        if node.type == "identifier":
            declared = self.scopes.resolve(node)
            holder = declared.parent if declared is not None else None
            return holder is not None and holder.type in ("pointer_declarator", "array_declarator")
        if node.type in ("subscript_expression", "call_expression"):
            return node.type == "call_expression" and "*" in self.scopes.file.of(node).partition("(")[0]
        return any(self._points(child) for child in node.named_children)

    def _shared(self, node: Node, within: set[int]) -> bool:  # noqa: PLR0911
        """Return whether an address lies in shared memory wherever it comes from."""
        node = cuda.bare(node)
        if node.type in ("cast_expression", "pointer_expression", "subscript_expression"):
            part = cuda.field_of(node, "value") or cuda.field_of(node, "argument")
            return part is not None and self._shared(part, within)
        if node.type == "binary_expression":
            sides = [
                part
                for name in ("left", "right")
                if (part := cuda.field_of(node, name)) is not None and self._points(part)
            ]
            return len(sides) == 1 and self._shared(sides[0], within)
        if node.type == "call_expression":
            listed = cuda.field_of(node, "arguments")
            known = self.scopes.file.called(node) in TO_ADDRESS or self.scopes.file.cast_type(node)
            return bool(known) and listed is not None and self._shared(listed.named_children[0], within)
        declared = self.scopes.resolve(node) if node.type == "identifier" else None
        statement = cuda.above(declared, "declaration", "parameter_declaration") if declared is not None else None
        if declared is None or statement is None:
            return False
        if "__shared__" in {self.scopes.file.of(child) for child in statement.children} or declared.id in within:
            return True
        if any(self._assigned(use) for use in self.scopes.uses(declared)):
            return False
        if statement.type == "declaration":
            value = (
                cuda.field_of(declarator, "value") if (declarator := cuda.above(declared, "init_declarator")) else None
            )
            return value is not None and self._shared(value, within | {declared.id})
        given = list(self._arguments(declared))
        return bool(given) and all(each is not None and self._shared(each, within | {declared.id}) for each in given)

    @staticmethod
    def _assigned(use: Node) -> bool:
        holder = use.parent
        return (
            holder is not None
            and holder.type == "assignment_expression"
            and cuda.same(cuda.field_of(holder, "left"), use)
        )

    def _arguments(self, parameter: Node) -> Iterator[Node | None]:
        """Yield what a function's parameter is given; None where it is named otherwise than by a call."""
        made: Definition | None = next(
            (
                m
                for e in self.scopes.callables.values()
                for m in e
                if any(cuda.same(p, parameter) for p in m.parameters)
            ),
            None,
        )
        if made is None:
            yield None
            return
        number = next(i for i, p in enumerate(made.parameters) if cuda.same(p, parameter))
        for node in self.scopes.mentions.get(made.name, []):
            callee = node
            while (holder := callee.parent) is not None and holder.type in (*WRAPPING, "field_expression"):
                callee = holder
            if holder is None or holder.type == "function_declarator" or self._variable_named(node):
                continue
            listed = cuda.field_of(holder, "arguments") if holder.type == "call_expression" else None
            yield listed.named_children[number] if listed is not None and number < listed.named_child_count else None

    def _escapes(self, node: Node, reason: str) -> Escapes:
        text = " ".join(self.scopes.file.of(node).split())
        return Escapes(f"{text if len(text) <= 60 else text[:57] + '...'} {reason}", self.scopes.file.line(node))
