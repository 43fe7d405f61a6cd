"""Where the numbers of a layout go: a policy is only exchanged if they place elements of shared arrays, and no more.

From a name that is exchanged, its template parameters and aliases are followed to the members that are used. One whose
text is the same in both classes may be used for anything. What another one returns is followed through variables,
members, parameters and returns: it has to end in an address in shared memory, or in the size of a shared array.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ncu_swizzle.fix import ptx
from ncu_swizzle.fix.cuda import CLASSES, NOTHING, Node
from ncu_swizzle.fix.objects import fields_made, fixed_value, member
from ncu_swizzle.fix.ranges import Ranges
from ncu_swizzle.fix.scopes import SHARED, Scopes, declared_name
from ncu_swizzle.fix.sums import Constants

WRAPPING = ("template_type", "template_function", "dependent_type", "qualified_identifier")
CALLEE = (*WRAPPING, "field_expression")
VALUES = ("parenthesized_expression", "cast_expression", "unary_expression", "comma_expression", "binary_expression")
TO_ADDRESS = ("__cvta_generic_to_shared", "cast_smem_ptr_to_uint", "static_cast", "reinterpret_cast")
SHARED_ASM = re.compile(r"\bshared\b|matrix")
KEPT = ("size", "cosize", "size_v", "cosize_v", "shape", "rank", "depth")  # of a layout, whatever swizzle it has
CACHED = re.compile(r"\.(ca|cg|cs|lu|cv|wb|wt)\b")  # how a copy is cached, not what it copies


@dataclass(eq=False, kw_only=True)
class LayoutValues:
    """The uses of one layout in a source."""

    scopes: Scopes
    differing: frozenset[str] = frozenset()  # members of the class that are another in the one to be named instead
    functions: frozenset[str] = frozenset()  # those of them that are functions
    block: tuple[int, int, int] = (1, 1, 1)  # threads, as described
    _seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.file = self.scopes.file
        self.constants = Constants(name=lambda node: fixed_value(self.scopes, self.constants, node))

    def _is_new(self, node: Node) -> bool:
        """Return whether a node is met for the first time, and note that it was."""
        new = node.id not in self._seen
        self._seen.add(node.id)
        return new

    # ------------------------------------------------------------------------------------ the name

    def named(self, name: Node) -> None:
        """Raise Unfit if a name of the layout is used for anything but places in shared memory."""
        if not self._is_new(name):
            return
        whole = name
        while (holder := whole.parent).type in WRAPPING:
            if whole.is_part("scope"):
                self._member(holder)
                return
            whole = holder
        if holder.type == "type_descriptor":
            if holder.parent.type == "template_argument_list":
                self._argument(holder, holder.parent)
            elif holder.parent.type == "alias_declaration":
                self._alias(holder.parent)
            else:
                raise holder.parent.misfit(" is not followed")
        elif holder.type == "type_definition":
            self._alias(holder)
        elif holder.type in ("type_parameter_declaration", "optional_type_parameter_declaration"):
            self._parameter(holder)
        else:
            raise holder.misfit(" is not followed")

    def _alias(self, alias: Node) -> None:
        for node in self.scopes.mentions.get(alias.part("name", "declarator").text, []):
            if not node.inside(alias):
                self.named(node)

    def _argument(self, described: Node, listed: Node) -> None:
        """Follow a template argument to the parameter of the templates of that name."""
        number = described.number
        text = listed.parent.part("name").text.rpartition("::")[2]
        templates = [node for node in self.file.nodes("template_declaration") if self._declares(node) == text]
        if not templates or not text:
            raise listed.misfit(f" hands it to {text or 'a template'}, which the source does not define")
        for template in templates:
            given = [c for c in template.part("parameters").named_children if c.type != "comment"]
            if number >= len(given) or given[number].type.startswith("variadic"):
                raise listed.misfit(f" hands it to {text}, whose parameters do not show it")
            self._parameter(given[number])

    def _declares(self, template: Node) -> str:
        """Return the name of what a template declares."""
        for child in template.named_children:
            if child.type in (*CLASSES, "alias_declaration"):
                return child.part("name").text
            if child.type in ("function_definition", "declaration"):
                declarator = next((n for n in child.walk() if n.type == "function_declarator"), NOTHING)
                return declarator.part("declarator").text.rpartition("::")[2]
        return ""

    def _parameter(self, parameter: Node) -> None:
        name = next((n for n in parameter.walk() if n.type == "type_identifier"), NOTHING)
        template = parameter.above("template_declaration")
        if not name or not template:
            raise parameter.misfit(" is not understood")
        for node in self.scopes.mentions.get(name.text, []):
            if node.inside(template) and node is not name:
                self.named(node)

    def _member(self, qualified: Node) -> None:
        """Follow what a member of the layout gives."""
        inner = qualified.part("name")
        while inner.type in WRAPPING:
            inner = inner.part("name")
        if inner.text not in self.differing:
            return
        call = qualified.parent
        if inner.text not in self.functions or call.type != "call_expression":
            raise qualified.misfit(f" differs in {inner.text}")
        # Two policies place the rows and columns of the described launch alike, one to one; beyond them they differ.
        ranges = Ranges(scopes=self.scopes, constants=self.constants, block=self.block)
        for given in call.arguments:
            known = ranges.of(given).known.all()
            for decides in ranges.unbounded:
                raise call.misfit(f": with another {decides.quoted()}, it may leave its rows and columns")
            if not known:
                raise call.misfit(": it may leave its rows and columns")
        self._value(call)

    # ------------------------------------------------------------------------------------ CuTe's layouts

    def tensors(self, name: Node) -> None:
        """Raise Unfit if a layout of CuTe's, by the name it is declared with, lays out more than shared tensors."""
        every = self.scopes.mentions.get(name.text, []) if name.type == "type_identifier" else ()
        for use in every or self.scopes.uses(name):
            if use is not name:
                self._laid_out(use)

    def _laid_out(self, use: Node) -> None:  # noqa: PLR0912
        if not self._is_new(use):
            return
        node = use.out_of("type_descriptor", "compound_literal_expression", "template_type")
        if node.is_part("function", "call_expression"):
            node = node.parent  # Rows()
        holder = node.parent
        if holder.type == "parameter_declaration":
            return  # by its template parameter: its uses are followed
        if holder.type not in ("argument_list", "template_argument_list"):
            raise (holder or use).misfit(" is not followed")
        named = holder.parent.part("name") or holder.parent
        called = holder.parent.called or named.text.rpartition("::")[2]
        given = holder.named_children
        if called in KEPT:
            return
        if called == "make_tensor" and len(given) == 2 and given[1] is node:
            if given[0].called == "make_smem_ptr":
                return
            raise holder.parent.misfit(" is no tensor in shared memory")
        definitions = self.scopes.callables.get(called, []) if holder.type == "argument_list" else []
        for made in definitions:
            parameter = made.parameter(node.number)
            if not parameter or made.macro:
                raise holder.parent.misfit(" is not followed")
            for inner in self.scopes.uses(parameter):
                self._laid_out(inner)
            type_ = parameter.above("parameter_declaration").part("type").text
            template = made.node.above("template_declaration")
            for inner in self.scopes.mentions.get(type_, []):
                if inner.inside(template) and not inner.inside(template.part("parameters")):
                    self._laid_out(inner)
        if not definitions:
            raise holder.parent.misfit(" is not followed")

    # ------------------------------------------------------------------------------------ numbers

    def _value(self, node: Node) -> None:  # noqa: PLR0912
        """Follow a number to where it is used; raise Unfit if that is not an address in shared memory."""
        parent = node.parent
        if not self._is_new(node):
            return
        match parent.type:
            case "binary_expression":
                other = parent.part("right" if node.is_part("left") else "left")
                if not self._points(other):
                    self._value(parent)
                elif not self._shared(other, set()):
                    raise parent.misfit(" is no address in shared memory")
            case kind if kind in VALUES:
                self._value(parent)
            case "subscript_argument_list":
                if not self._shared(parent.parent.part("argument"), set()):
                    raise parent.parent.misfit(" is no element of a shared array")
            case "array_declarator":
                if SHARED not in parent.above("declaration").words:
                    raise parent.misfit(" is no shared array")
            case "init_declarator" | "declaration" | "field_declaration":
                self._variable(declared_name(parent.part("declarator")), parent)
            case "assignment_expression" if node.is_part("right"):
                self._variable(self._assigned_to(parent.part("left")), parent)
            case "argument_list" | "initializer_list":
                self._given(node, parent)
            case "conditional_expression" if not node.is_part("condition"):
                self._value(parent)
            case "conditional_expression" if self._cached_alike(parent):
                return
            case "return_statement":
                self._returned(parent)
            case "gnu_asm_input_operand":
                if not SHARED_ASM.search(parent.above("gnu_asm_expression").text) or not ptx.accesses(parent):
                    raise parent.misfit(" is more than an address in shared memory")
            case "expression_statement" | "static_assert_declaration":
                return
            case _:
                raise parent.misfit(" is more than a place in shared memory")

    def _assigned_to(self, left: Node) -> Node:
        """Return the variable that is assigned to, or the local array whose element is; `NOTHING` for memory."""
        element = left.type == "subscript_expression"
        while left.type == "subscript_expression":
            left = left.part("argument")
        declared = self.scopes.meant(left)
        holder = declared.parent
        statement = declared.above("declaration", "parameter_declaration")
        if not statement or holder.type == "reference_declarator":
            return NOTHING
        array = statement.type == "declaration" and holder.type == "array_declarator"
        local = array and SHARED not in statement.words
        return declared if local or not element else NOTHING

    def _variable(self, declared: Node, at: Node) -> None:
        """Follow a variable that holds a number, by its uses; one of a class by all mentions of its name."""
        if not declared:
            raise at.misfit(" is kept where it is not followed")
        of_class = declared.above("field_declaration")
        for use in self._members(declared) if of_class else self.scopes.uses(declared):
            node = use
            while (
                node.is_part("argument", "subscript_expression")
                or node.is_part("name", "qualified_identifier")
                or node.is_part("field", "field_expression")
            ):
                node = node.parent
            set_ = node.is_part("left", "assignment_expression")
            if not set_ and node.parent.type not in ("lambda_capture_specifier", "field_initializer"):
                self._value(node)

    def _members(self, declared: Node) -> Iterator[Node]:
        """Yield the uses of a member, without those of another class's member of that name."""
        own = declared.above(*CLASSES)
        for node in self.scopes.mentions.get(declared.text, []):
            if node is declared:
                continue
            holder, meant = node.parent, self.scopes.meant(node)
            if holder.type == "field_expression":
                struct = self.file.class_of_variable(self.scopes.meant(holder.part("argument")))
                if not struct or struct is own:
                    yield node
            elif meant:
                if meant is declared:
                    yield node
            elif holder.type == "qualified_identifier":
                yield node

    def _given(self, node: Node, listed: Node) -> None:
        """Follow an argument to the parameter, or the member of an object that is made."""
        call = listed.parent
        if call.type == "field_initializer":
            self._variable(member(call.above(*CLASSES), call.named_children[0].text), call)
        elif call.called in TO_ADDRESS or call.cast_type:
            self._value(call)
        elif definitions := self.scopes.callables.get(call.called, []):
            for made in (made for made in definitions if node.number < len(made.parameters)):
                self._variable(made.parameters[node.number], call)
        else:
            made_object = fields_made(self.scopes, listed)
            given = made_object.fields.items() if made_object else ()
            fields = [name for name, value in given if value is node]
            if made_object is None or not fields:
                raise call.misfit(f" hands it to {call.called or 'an object'}, which is not followed")
            self._variable(member(made_object.struct, fields[0]), listed)

    def _returned(self, statement: Node) -> None:
        made = self.scopes.holder(statement)
        if made is None or made.macro or made.node.type == "lambda_expression":
            raise statement.misfit(" is returned where it is not followed")
        for node in self.scopes.mentions.get(made.name, []):
            callee = node.out_of(*CALLEE)
            if callee.is_part("function", "call_expression"):
                self._value(callee.parent)
            elif callee.parent.type != "function_declarator" and not self._is_variable(node):
                raise node.misfit(f" is returned by {made.name}, which is named where it is not followed")

    def _is_variable(self, node: Node) -> bool:
        declared = self.scopes.meant(node)
        return bool(declared) and declared.parent.type != "function_declarator"

    def _cached_alike(self, node: Node) -> bool:
        """Return whether a condition only decides how a copy is cached: two calls with the same arguments."""
        sides = [node.part(name) for name in ("consequence", "alternative")]
        calls = [side for side in sides if side.type == "call_expression"]
        bodies = [self._only_body(call) for call in calls]
        given = {call.part("arguments").text for call in calls}
        return len(calls) == 2 and None not in bodies and bodies[0] == bodies[1] and len(given) == 1

    def _only_body(self, call: Node) -> str | None:
        definitions = self.scopes.callables.get(call.called, [])
        body = "".join(definitions[0].body.text.split()) if len(definitions) == 1 else None
        return CACHED.sub("", body) if body is not None else None

    # ------------------------------------------------------------------------------------ shared memory

    def _points(self, node: Node) -> bool:
        """Return whether an expression may be a pointer."""
        node = node.bare
        match node.type:
            case "identifier":
                return self.scopes.resolve(node).parent.type in ("pointer_declarator", "array_declarator")
            case "call_expression":
                return "*" in node.text.partition("(")[0]
            case "subscript_expression":
                return False
        return any(self._points(child) for child in node.named_children)

    def _shared(self, node: Node, within: set[int]) -> bool:  # noqa: PLR0911
        """Return whether an address lies in shared memory wherever it comes from."""
        node = node.bare
        match node.type:
            case "cast_expression" | "pointer_expression" | "subscript_expression":
                return self._shared(node.part("value", "argument"), within)
            case "binary_expression":
                pointers = [side for side in (node.part("left"), node.part("right")) if self._points(side)]
                return len(pointers) == 1 and self._shared(pointers[0], within)
            case "call_expression":
                converts = node.called in TO_ADDRESS or bool(node.cast_type)
                return converts and any(self._shared(part, within) for part in node.arguments[:1])
        declared = self.scopes.meant(node)
        statement = declared.above("declaration", "parameter_declaration")
        if not statement:
            return False
        if SHARED in statement.words or declared.id in within:
            return True
        if any(use.is_part("left", "assignment_expression") for use in self.scopes.uses(declared)):
            return False
        if statement.type == "declaration":
            given = [declared.above("init_declarator").part("value")]
        else:
            given = list(self._arguments(declared))
        within = within | {declared.id}
        return bool(given) and all(self._shared(value, within) for value in given)

    def _arguments(self, parameter: Node) -> Iterator[Node]:
        """Yield what a function's parameter is given; `NOTHING` where it is named otherwise than by a call."""
        for made, number in list(self.scopes.taking(parameter))[:1]:
            for node in self.scopes.mentions.get(made.name, []):
                holder = node.out_of(*CALLEE).parent
                if holder.type == "function_declarator" or self._is_variable(node):
                    continue
                given = holder.arguments if holder.type == "call_expression" else []
                yield given[number] if number < len(given) else NOTHING
