"""What changes a variable after it was declared: one that nothing changes has the value that it begins with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ncu_swizzle.fix.cuda import NOTHING, PARAMETERS, Node
from ncu_swizzle.fix.objects import called_objects
from ncu_swizzle.fix.scopes import Scopes

# What takes its arguments by value; any other function out of the file may change them.
BY_VALUE = re.compile(r"__\w+|(std::)?u?(min|max|abs)|atomic\w+|memcpy|printf|assert|f(min|max|abs|ma)f?")
FUNCTIONS = ("function_definition", "lambda_expression")
CLIMBED = ("parenthesized_expression", "conditional_expression", "comma_expression")


@dataclass(eq=False)
class Changes:
    """The expressions that assign to the variables of a file."""

    scopes: Scopes
    _found: dict[int, list[Node] | None] = field(default_factory=dict)  # by the declared name

    def of(self, declared: Node) -> list[Node] | None:
        """Return what changes a variable after it was declared; None if something may that is not seen."""
        if declared.id not in self._found:
            self._found[declared.id] = None  # of a macro that expands itself
            self._found[declared.id] = [] if _is_fixed(declared) else self._all(declared)
        return self._found[declared.id]

    def _all(self, declared: Node) -> list[Node] | None:
        found: list[Node] = []
        for use in self.scopes.mentions.get(declared.text, []):
            if use is declared or use.type not in ("identifier", "type_identifier"):
                continue
            meant = self.scopes.resolve(use)
            in_macro = self.scopes.macro(use) is not None
            if meant is not declared and not (in_macro and not meant):
                continue
            write = self._by(use)
            if write is None or (write and (in_macro or meant is not declared)):
                return None
            found += [write] if write else []
        return found

    def changes_members(self, struct: Node, names: Iterable[str]) -> bool:
        """Return whether members of these names may change after an object of their class was made."""
        for node in (node for name in names for node in self.scopes.mentions.get(name, [])):
            function = self.scopes.holder(node)
            made = function is not None and function.name == struct.part("name").text  # a constructor
            own = node.type == "field_identifier" or self.scopes.resolve(node).inside(struct)
            whole = node.out_of("field_expression")
            if (
                own
                and not made
                and not node.above("field_declaration").inside(struct)
                and self._by(whole) is not NOTHING
            ):
                return True
        return False

    def _by(self, use: Node) -> Node | None:  # noqa: PLR0911
        """Return the expression that changes what a name refers to, `NOTHING` if none does, None if one may."""
        if use.type == "type_identifier":
            return None  # View v(tile, use);
        node = use.out_of("parenthesized_expression")
        if node.is_part("left", "assignment_expression") or node.is_part("argument", "update_expression"):
            return node.parent
        node = use.out_of(*CLIMBED)
        parent = node.parent
        match parent.type:
            case "assignment_expression" if node.is_part("left"):
                return None
            case "update_expression" | "gnu_asm_output_operand" | "lambda_capture_initializer" | "initializer_list":
                return None
            case "pointer_expression":
                return None if parent.text.startswith("&") else NOTHING
            case "cast_expression":
                return None if "&" in parent.part("type").text else NOTHING
            case "init_declarator" if node.is_part("value"):
                return None if parent.part("declarator").type == "reference_declarator" else NOTHING
            case "return_statement":
                holder = parent.above(*FUNCTIONS)
                signature = self.scopes.file.between(holder.start_byte, holder.part("body").start_byte)
                return None if holder.type == "lambda_expression" and re.search(r"->.*&", signature) else NOTHING
            case "for_range_loop":
                return None
            case "argument_list":
                return self._handed(parent, node)
        return NOTHING

    def _handed(self, listed: Node, node: Node) -> Node | None:
        call = listed.parent
        if call.type != "call_expression":
            return None
        definitions = self.scopes.callables.get(call.called, []) or list(called_objects(self.scopes, call))
        for made in definitions:
            parameter = made.parameter(node.number)
            if len(call.arguments) > len(made.parameters):
                continue  # of another function of the name
            if not parameter:
                return None
            if made.macro:
                if self.of(parameter) != []:
                    return None
            elif "&" in parameter.above(*PARAMETERS).text:
                return None
        cast = call.cast_type
        by_value = BY_VALUE.fullmatch(call.called) or (cast and "&" not in cast)
        by_value = by_value or call.part("function").type == "primitive_type"
        return NOTHING if definitions or by_value else None


def _is_fixed(declared: Node) -> bool:
    """Return whether a name is that of a constant, or of a template's parameter."""
    statement = declared.above("declaration", "field_declaration", *PARAMETERS)
    pointer = declared.parent.type.endswith(("pointer_declarator", "reference_declarator"))
    fixed = bool(statement.words & {"const", "constexpr"}) and not pointer
    return fixed or statement.parent.type == "template_parameter_list"
