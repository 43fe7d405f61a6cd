"""Where a function, lambda or macro is called: every place that may mean it, or a refusal where one may hide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import field_of, is_field
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.scopes import Definition

if TYPE_CHECKING:
    from tree_sitter import Node

WRAPPING = ("template_function", "template_method", "dependent_name", "qualified_identifier", "template_type")
CONDITIONS = ("preproc_ifdef", "preproc_if", "preproc_elif", "preproc_defined")
BODIES = ("compound_statement", "field_declaration_list", "declaration_list", "translation_unit")


@dataclass(frozen=True, eq=False)
class Calls:
    """The calls in one tile's source."""

    draft: Draft

    def of(self, definition: Definition) -> Iterator[Node]:
        """Yield the calls of a function's, lambda's or macro's name; raise Unfit where it is named as anything else."""
        scopes, file = self.draft.scopes, self.draft.file
        method = file.class_of(definition.node) if definition.node.type == "function_definition" else None
        is_lambda = definition.node.type == "lambda_expression"
        for node in scopes.mentions.get(definition.name, []):
            if self.declares(node, definition) or _in_condition(node):
                continue
            callee = node
            while (
                is_field(callee, "field", "field_expression")
                or is_field(callee, "name", *WRAPPING)
                or _is_last(callee, "dependent_name")
            ):
                assert callee.parent is not None
                callee = callee.parent
            if method is None and (callee.type == "field_expression" or node.type == "field_identifier"):
                continue  # a member of the same name
            declared = scopes.resolve(node) if node.type in ("identifier", "type_identifier") else None
            if is_field(callee, "function", "call_expression") and callee.parent is not None:
                if not self._other_class(callee, method):
                    yield callee.parent
            elif is_lambda:
                if cuda.same(declared, field_of(definition.node.parent, "declarator")):
                    raise self._named_otherwise(node, definition)
            elif declared is None or (declared.parent is not None and declared.parent.type == "function_declarator"):
                raise self._named_otherwise(node, definition)  # else it is a variable of the same name
        self._not_pasted(definition.name)

    def _named_otherwise(self, node: Node, definition: Definition) -> Exception:
        return self.draft.unfit(node, f"{definition.name} is named where it is not followed: {self.around(node)}")

    def _other_class(self, callee: Node, method: Node | None) -> bool:
        """Return whether a call is one of a method of the same name, of another class that the file defines."""
        object_ = field_of(callee, "argument") if callee.type == "field_expression" else None
        struct = self.draft.file.class_of_variable(self.draft.scopes.meant(object_))
        derived = struct is not None and any(child.type == "base_class_clause" for child in struct.children)
        return struct is not None and not derived and not cuda.same(struct, method)

    def of_objects(self) -> Iterator[Node]:
        """Yield the calls of objects: of what is neither a function nor a macro of the file by its name."""
        for node in (node for tree in self.draft.scopes.trees for node in cuda.walk(tree)):
            called = field_of(node, "function") is not None and node.type == "call_expression"
            if called and self.draft.file.called(node) not in self.draft.scopes.callables:
                yield node

    def expansions(self, macro: Definition) -> Iterator[Node]:
        """Yield the names by which a macro is expanded; raise Unfit where it is named as anything else."""
        for node in self.draft.scopes.mentions.get(macro.name, []):
            if not self.declares(node, macro) and not _in_condition(node):
                called = node.parent is not None and node.parent.type == "call_expression"
                if macro.node.type == "preproc_function_def" and not called:
                    named = f"{macro.name} is named where it is not expanded: {self.around(node)}"
                    raise self.draft.unfit(node, named)
                yield node
        self._not_pasted(macro.name)

    def declares(self, node: Node, definition: Definition) -> bool:
        """Return whether a name is that of a definition or declaration itself, or brings it into a scope."""
        holder = cuda.out_of(node, *WRAPPING, "reference_declarator", "pointer_declarator").parent
        if holder is None:
            return False
        if holder.type in ("preproc_function_def", "preproc_def"):
            return cuda.same(field_of(holder, "name"), node)
        if holder.type == "init_declarator" and definition.node.type == "lambda_expression":
            return cuda.same(field_of(holder, "declarator"), node)
        if holder.type == "function_declarator":
            declarator = field_of(holder, "declarator")
            return declarator is not None and cuda.inside(node, declarator)
        return holder.type == "using_declaration"

    def plain_macro(self, macro: Definition) -> None:
        """Raise Unfit if a macro's name has several meanings, or its text is more than tokens."""
        others = [
            definition for definition in self.draft.scopes.callables.get(macro.name, []) if definition is not macro
        ]
        undefined = re.search(rb"#\s*undef\s+" + re.escape(macro.name.encode()) + rb"\b", self.draft.file.text)
        if others or undefined:
            raise self.draft.unfit(macro.node, f"{macro.name} is defined more than once")
        if "#" in self.text(macro):
            raise self.draft.unfit(macro.node, f"{macro.name} makes names or text of its arguments")

    def text(self, macro: Definition) -> str:
        return self.draft.file.of(field_of(macro.node, "value"))

    def _not_pasted(self, name: str) -> None:
        """Raise Unfit if a macro may make a name out of pieces."""
        for macro in (definition for definition in self.draft.scopes.definitions if definition.macro):
            names = {self.draft.file.of(p) for p in macro.parameters if p is not None}
            for left, right in re.findall(r"(\w*)\s*##\s*(\w*)", self.text(macro)):
                begins = left in names or not left or name.startswith(left)
                ends = right in names or not right or name.endswith(right)
                if begins and ends:
                    pieces = f"{macro.name} may make the name {name} out of pieces"
                    raise self.draft.unfit(macro.node, pieces)

    def around(self, node: Node) -> str:
        """Return the expression or declarator that a name is in, as messages quote it."""
        holder = node.parent
        while holder is not None and (holder.type in WRAPPING or holder.type.endswith("_declarator")):
            node, holder = holder, holder.parent
        return self.draft.quoted(holder if holder is not None and holder.type not in BODIES else node)


def _is_last(node: Node, kind: str) -> bool:
    return node.parent is not None and node.parent.type == kind and cuda.same(node.parent.named_children[-1], node)


def _in_condition(node: Node) -> bool:
    """Return whether a name stands in what the preprocessor asks, as in ``#ifdef NAME``."""
    holder = cuda.above(node, *CONDITIONS)
    while holder is not None:
        asked = (field_of(holder, "name"), field_of(holder, "condition"))
        if any(part is not None and cuda.inside(node, part) for part in asked):
            return True
        holder = cuda.above(holder, *CONDITIONS)
    return False
