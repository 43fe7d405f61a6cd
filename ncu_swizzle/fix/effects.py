"""Whether an operand that a patch writes a second time, or in another order, may be evaluated so.

An XOR repeats a row's index in the column, swapped indices are evaluated in another order. Both change a program whose
index does more than to compute a number: ``tile[next(i)][x]``, ``AT(r++, x)``, a read of a volatile variable. And what
a pointer to a row was made with may have another value where the pointer is used.

What is written into an index is arithmetic, and an operand may be of a class whose ``^`` or ``*`` is something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import CLASSES, Reach, ReachedPlace
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.expressions import Edit
from ncu_swizzle.fix.scopes import Definition

if TYPE_CHECKING:
    from tree_sitter import Node

# Functions of CUDA and C++ that do nothing but to compute a number of their arguments.
PURE = re.compile(
    r"(std::)?(u|ull|ll)?(min|max|abs)|f(min|max|abs|loor)f?|__(popc|clz|ffs|brev)(ll)?|__[u]?mul(24|hi)|__[us]?hadd|"
    r"__byte_perm|__funnelshift_[lr]c?|(sizeof|alignof)|u?int\d*(_t)?|unsigned|size_t|(static|reinterpret|const)_cast"
)
CHANGING = ("update_expression", "assignment_expression")
ACTING = ("gnu_asm_expression", "lambda_expression", "new_expression", "delete_expression", "co_await_expression")
ACCESSOR = re.compile(r"\w+\(|\)")  # an edit that puts an expression into a call changes neither number nor order
DEEPEST = 8  # calls within calls
INTEGER = re.compile(  # types whose operators are the language's
    r"((un)?signed|bool|char|short|int|long|u(char|short|int|long)|u?int\d+_t|s?size_t|u?intptr_t|ptrdiff_t|[ui](8|16|32|64)|"
    r"std::|const|constexpr|volatile|static|inline|\s)+"
)


@dataclass(eq=False)
class Arithmetic:
    """Whether the operands of one tile's indices are numbers, by the types that their file declares."""

    draft: Draft

    def reach(self, reach: Reach) -> None:
        """Raise Unfit if an operand of an edited use, or of the pointers that it comes through, may be no number."""
        seen: set[int] = set()
        waiting = [reach]
        while waiting:
            made = waiting.pop()
            if id(made) in seen:
                continue
            seen.add(id(made))
            for step in made.steps:
                self._numbers(step.node, made.node)
            if not any(root.place is made.start for root in self.draft.tile.roots):
                waiting += self.draft.tile.to(made.start)

    def _numbers(self, node: Node | None, use: Node) -> None:
        for part, type_ in self._unlike(node, set()) if node is not None else ():
            name = self.draft.quoted(part)
            raise self.draft.unfit(use, f"{name} is of type {type_}, whose operators may not be those of numbers")

    def _unlike(self, node: Node, seen: set[int]) -> Iterator[tuple[Node, str]]:
        """Yield the operands of an expression that may be of a class, and their types."""
        node = cuda.bare(node)
        match node.type:
            case "identifier":
                declared = self.draft.scopes.resolve(node)
                if declared is not None and declared.id not in seen:
                    seen.add(declared.id)
                    yield from self._declared(node, declared, seen)
            case "cast_expression" | "compound_literal_expression":
                type_ = cuda.field_of(node, "type")
                yield from self._of(node, self.draft.file.of(type_) if type_ is not None else "")
            case "call_expression":
                yield from self._called(node, seen)
            case "binary_expression" | "unary_expression" | "conditional_expression" | "comma_expression":
                for child in node.named_children:
                    yield from self._unlike(child, seen)
            case "field_expression":
                name = self.draft.file.of(cuda.field_of(node, "field") or node)
                for member in self.draft.scopes.mentions.get(name, []):
                    holder = cuda.above(member, "field_declaration")
                    if holder is not None and member.type == "field_identifier" and not cuda.inside(node, holder):
                        type_ = cuda.field_of(holder, "type")
                        yield from self._of(node, self.draft.file.of(type_) if type_ is not None else "")

    def _called(self, node: Node, seen: set[int]) -> Iterator[tuple[Node, str]]:
        inlined, name = self.draft.indexing(node), self.draft.file.called(node)
        definitions, listed = self.draft.scopes.callables.get(name, []), cuda.field_of(node, "arguments")
        if inlined is not None or any(made.macro for made in definitions):
            given = inlined.arguments.values() if inlined is not None else listed.named_children if listed else ()
            for each in given:
                yield from self._unlike(each, seen)
            return
        for made in definitions:
            type_ = cuda.field_of(made.node, "type")
            yield from self._of(node, self.draft.file.of(type_) if type_ is not None else "auto")
        classes = (cuda.field_of(made, "name") for made in self.draft.file.nodes(*CLASSES))
        types = {alias for alias, _ in self.draft.file.aliases} | {self.draft.file.of(made) for made in classes if made}
        if not definitions and name in types:  # an object is made
            yield from self._of(node, name)

    def _declared(self, node: Node, declared: Node, seen: set[int]) -> Iterator[tuple[Node, str]]:
        holder = cuda.above(
            declared, "declaration", "field_declaration", "parameter_declaration", "optional_parameter_declaration",
            "for_range_loop",
        )  # fmt: skip
        type_ = cuda.field_of(holder, "type") if holder is not None else None
        text = self.draft.file.of(type_) if type_ is not None else ""
        parent = declared.parent
        value = cuda.field_of(parent, "value") if parent is not None and parent.type == "init_declarator" else None
        if text == "auto" and value is not None:
            yield from self._unlike(value, seen)
        elif text:
            yield from self._of(node, text)

    def _of(self, node: Node, text: str, depth: int = DEEPEST) -> Iterator[tuple[Node, str]]:
        """Yield a node if its type, by its text, is a class of the file, or one whose operators the file defines."""
        text = " ".join(text.split()).strip("&* ")
        if not text or INTEGER.fullmatch(text):
            return
        written = next((type_ for name, type_ in self.draft.file.aliases if depth and name == text), None)
        if written is not None:
            yield from self._of(node, written, depth - 1)
            return
        if any(
            self.draft.file.of(cuda.field_of(made, "name") or made) == text
            for made in self.draft.file.nodes("enum_specifier")
        ):
            return
        if self._operators:
            yield node, text

    @cached_property
    def _operators(self) -> bool:
        """Whether the file, with the headers of the user in it, has arithmetic of its own."""
        names = ("".join(name.split()) for name in self.draft.scopes.callables)
        return any(re.fullmatch(r"operator[-+*/%^&|<>]+", name) for name in names)


@dataclass(eq=False)
class OperandEffects:
    """What the operands of one tile's indices do besides computing a number."""

    draft: Draft
    _pure: dict[int, bool] = field(default_factory=dict)  # definitions, by their node

    def __post_init__(self) -> None:
        self.scopes, self.file = self.draft.scopes, self.draft.file

    def reach(self, reach: Reach, texts: Sequence[str]) -> None:
        """Raise Unfit if the operands of an edited use may not be written twice; `texts` are what is inserted."""
        for operator in self._operators():
            raise self._refused(
                operator, f"{self.draft.quoted(operator)} may have effects, and an index may call it twice"
            )
        for node in self._operands(reach):
            self._once(node, DEEPEST)
        macro = self.scopes.macro(reach.node)
        if macro is not None:
            self._arguments(macro, DEEPEST)
        if any(root.place is reach.start for root in self.draft.tile.roots):
            return
        for made in self.draft.tile.to(reach.start):
            self._stays(reach, made, set(re.findall(r"[A-Za-z_]\w*", " ".join(texts))))

    def _operands(self, reach: Reach) -> Iterator[Node]:
        for step in reach.steps:
            if step.node is not None:
                inlined = self.draft.indexing(step.node)
                yield from inlined.arguments.values() if inlined is not None else (step.node,)

    def _once(self, node: Node, depth: int) -> None:
        """Raise Unfit if an expression does more than to compute a number."""
        for part in cuda.walk(node):
            if part.type in CHANGING or part.type in ACTING:
                raise self._refused(node, f"{self.draft.quoted(part)} would be evaluated twice, or in another order")
            if part.type == "call_expression" and not self._computes(part, depth):
                name = self.draft.quoted(self._callee(part))
                raise self._refused(
                    node, f"{name} may have effects, and {self.draft.quoted(part)} would be called twice"
                )
            if part.type == "identifier" and self._volatile(part):
                raise self._refused(node, f"{self.file.of(part)} is volatile, and would be read twice")
            if part.type == "field_expression" and self._volatile_member(part):
                raise self._refused(node, f"{self.file.of(part)} is volatile, and would be read twice")

    def _callee(self, call: Node) -> Node:
        return cuda.field_of(call, "function") or call

    def _computes(self, call: Node, depth: int) -> bool:
        """Return whether a call only computes a number: its function is known to, or its body shows it."""
        function = self._callee(call)
        if function.type == "primitive_type":
            return True
        name = self.file.called(call)
        definitions = self.scopes.callables.get(name, [])
        if not definitions and function.type != "field_expression" and PURE.fullmatch(name):
            return True
        if not definitions and function.type == "identifier":  # an object
            definitions = [
                m for n, every in self.scopes.callables.items() if "".join(n.split()) == "operator()" for m in every
            ]
        return bool(definitions) and depth > 0 and all(self.pure(made, depth - 1) for made in definitions)

    def pure(self, made: Definition, depth: int = DEEPEST) -> bool:
        """Return whether a definition's body shows that it only computes a number."""
        if made.node.id not in self._pure:
            self._pure[made.node.id] = False  # one that calls itself is not shown to
            self._pure[made.node.id] = self._shows(made, depth)
        return self._pure[made.node.id]

    def _shows(self, made: Definition, depth: int) -> bool:
        if made.node.has_error or (made.macro and made.body.has_error):
            return False
        for node in cuda.walk(made.body):
            text = self.file.of(node) if not node.child_count else ""
            if node.type in ACTING or text in ("volatile", "static", "asm", "goto", "throw"):
                return False
            if node.type in CHANGING and not self._own(
                cuda.field_of(node, "left") or cuda.field_of(node, "argument"), made
            ):
                return False
            if node.type == "call_expression" and not self._computes(node, depth):
                return False
            if node.type == "identifier" and self._volatile(node):
                return False
        return True

    def _own(self, target: Node | None, made: Definition) -> bool:
        """Return whether what is assigned is a variable of the function's own."""
        if target is None or target.type != "identifier":
            return False
        declared = self.scopes.resolve(target)
        if declared is None or not cuda.inside(declared, made.node):
            return False
        holder = declared.parent
        return holder is None or not holder.type.endswith(("reference_declarator", "pointer_declarator"))

    def _operators(self) -> Iterator[Node]:
        """Yield the operators of the file's own, of conversions too, that may do more than to compute."""
        for name, every in self.scopes.callables.items():
            plain = "".join(name.split())
            if re.fullmatch(r"operator[^\w\s(\[=]+", plain):
                yield from (made.node for made in every if not self.pure(made))
        for node in self.file.nodes("operator_cast"):
            function = node.parent
            body = cuda.field_of(function, "body") if function is not None else None
            if (
                function is None
                or body is None
                or not self.pure(Definition(name="operator", node=function, body=body, parameters=()))
            ):
                yield node

    def _volatile(self, use: Node) -> bool:
        declared = self.scopes.resolve(use)
        holder = cuda.above(declared, "declaration", "field_declaration", "parameter_declaration") if declared else None
        return holder is not None and "volatile" in self.file.of(holder).partition("=")[0].split()

    def _volatile_member(self, use: Node) -> bool:
        named = cuda.field_of(use, "field")
        name = self.file.of(named) if named is not None else ""
        return any(
            "volatile" in self.file.of(node).split() and re.search(rf"\b{re.escape(name)}\b", self.file.of(node))
            for node in self.file.nodes("field_declaration")
        )

    def _arguments(self, macro: Definition, depth: int) -> None:
        """Raise Unfit if a macro is given something that may not be evaluated twice."""
        for node in self.scopes.mentions.get(macro.name, []):
            call = node.parent
            listed = cuda.field_of(call, "arguments") if call is not None and call.type == "call_expression" else None
            for given in listed.named_children if listed is not None else ():
                self._once(given, DEEPEST)
            outer = self.scopes.macro(node)
            if outer is not None and outer is not macro:
                if not depth:
                    raise self._refused(node, f"{outer.name} expands too many macros to follow")
                self._arguments(outer, depth - 1)

    # ------------------------------------------------------------------------------------ rows of pointers

    def _stays(self, reach: Reach, made: Reach, names: set[str]) -> None:
        """Raise Unfit if a row's number, as a pointer was made with it, may be another one where it is used."""
        place, nodes = reach.start, [step.node for step in made.steps if step.node is not None]
        used = [n for node in nodes for n in cuda.walk(node) if n.type == "identifier" and self.file.of(n) in names]
        for node in nodes if used else ():
            self._once(node, DEEPEST)
        for name in used:
            text, declared = self.file.of(name), self.scopes.resolve(name)
            if text in ("threadIdx", "blockIdx", "blockDim", "gridDim"):
                continue
            there = self.scopes.resolve(reach.node, text)
            if declared is None and there is None:
                continue  # a macro or a constant of a header
            if declared is None or not cuda.same(there, declared):
                raise self._refused(reach.node, f"{text} is another one where {place.name} was made")
            if (changed := self._changed(place, declared)) is not None:
                raise self._refused(changed, f"{text} may change after {place.name} was made with it")
        if used and any(
            n.type in ("subscript_expression", "pointer_expression") for node in nodes for n in cuda.walk(node)
        ):
            raise self._refused(reach.node, f"the row of {place.name} is read from memory that may have changed")
        if not any(root.place is made.start for root in self.draft.tile.roots):
            for before in self.draft.tile.to(made.start):
                if before.end is not before.start and made.start is not place:
                    self._stays(reach, before, names)

    def _changed(self, place: ReachedPlace, declared: Node) -> Node | None:
        """Return where a variable is changed while a pointer that was made with it lives; None if it is not."""
        holder = cuda.above(place.declared, "declaration")
        block = cuda.above(place.declared, "compound_statement", "for_statement")
        if holder is None or block is None or cuda.above(place.declared, "init_declarator") is None:
            return place.declared
        for use in self.scopes.uses(declared):
            node, parent = use, use.parent
            while parent is not None and parent.type in ("parenthesized_expression", "field_expression"):
                node, parent = parent, parent.parent
            if parent is None or not (holder.end_byte <= use.start_byte < block.end_byte):
                continue
            target = cuda.field_of(parent, "left") if parent.type == "assignment_expression" else None
            taken = parent.type == "pointer_expression" and self.file.of(parent).startswith("&")
            if parent.type == "update_expression" or cuda.same(target, node) or taken:
                return use
            if parent.type == "argument_list" and self._by_reference(parent, node):
                return use
        return None

    def _by_reference(self, listed: Node, given: Node) -> bool:
        """Return whether a function may change an argument: it takes a reference that is not const."""
        call = listed.parent
        made = self.scopes.callables.get(self.file.called(call), []) if call is not None else []
        number = next((i for i, child in enumerate(listed.named_children) if cuda.same(child, given)), 0)
        for each in made:
            parameter = each.parameters[number] if number < len(each.parameters) else None
            holder = cuda.above(parameter, "parameter_declaration") if parameter is not None else None
            if each.macro or (
                holder is not None and "&" in self.file.of(holder) and "const" not in self.file.of(holder)
            ):
                return True
        return False

    def _refused(self, node: Node, reason: str) -> Exception:
        return self.draft.unfit(node, reason)


def harmless(draft: Draft, edits: Sequence[Edit], reaches: Sequence[Reach], repeats: bool) -> None:
    """Raise Unfit if edits of some uses calculate with operands that may be no numbers.

    If the mapping `repeats` or exchanges operands, also for those that must be evaluated once and in order.
    """
    effects, arithmetic = OperandEffects(draft), Arithmetic(draft)
    for reach in reaches:
        inside = [e.text for e in edits if reach.node.start_byte <= e.start <= e.end <= reach.node.end_byte]
        texts = [text for text in inside if not ACCESSOR.fullmatch(text.strip())]
        if texts:
            arithmetic.reach(reach)
        texts = [text for text in texts if re.search(r"[A-Za-z_]", text)]
        if texts and repeats:
            effects.reach(reach, texts)
