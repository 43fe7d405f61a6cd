"""What changes a variable after it was declared; whether an operand that a patch writes again may be evaluated so.

An XOR repeats a row's index in the column, swapped indices are evaluated in another order. Both change a program whose
index does more than to compute a number: ``tile[next(i)][x]``, ``AT(r++, x)``, a read of a volatile variable. And what
a pointer to a row was made with may have another value where the pointer is used.

What is written into an index is arithmetic, and an operand may be of a class whose ``^`` or ``*`` is something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ncu_swizzle.fix.cuda import CLASSES, NOTHING, PARAMETERS, Node
from ncu_swizzle.fix.draft import Draft
from ncu_swizzle.fix.edits import Edit
from ncu_swizzle.fix.objects import called_objects
from ncu_swizzle.fix.scopes import Definition, Scopes
from ncu_swizzle.fix.webs import Reach, ReachedPlace

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
                return (
                    None if holder.type == "lambda_expression" and re.search(r"->(?:(?!->).)*&", signature) else NOTHING
                )
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


# Functions of CUDA and C++ that do nothing but to compute a number of their arguments.
PURE = re.compile(
    r"(std::)?(u|ull|ll)?(min|max|abs)|f(min|max|abs|loor)f?|__(popc|clz|ffs|brev)(ll)?|__[u]?mul(24|hi)|__[us]?hadd|"
    r"__byte_perm|__funnelshift_[lr]c?|(sizeof|alignof)|u?int\d*(_t)?|unsigned|size_t|(static|reinterpret|const)_cast"
)
CHANGING = ("update_expression", "assignment_expression")
ACTING = ("gnu_asm_expression", "lambda_expression", "new_expression", "delete_expression", "co_await_expression")
ACCESSOR = re.compile(r"\w+\(|\)")  # an edit that puts an expression into a call changes neither number nor order
BUILTIN = ("threadIdx", "blockIdx", "blockDim", "gridDim")
DEEPEST = 8  # calls within calls
INTEGER = re.compile(  # types whose operators are the language's
    r"((un)?signed|bool|char|short|int|long|u(char|short|int|long)|u?int\d+_t|s?size_t|u?intptr_t|ptrdiff_t|[ui](8|16|32|64)|"
    r"std::|const|constexpr|volatile|static|inline|\s)+"
)


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
        # An inserted text without a name, such as ``33``, repeats no operand.
        texts = [text for text in texts if re.search(r"[A-Za-z_]", text)]
        if texts and repeats:
            effects.reach(reach, texts)


@dataclass(eq=False)
class Arithmetic:
    """Whether the operands of one tile's indices are numbers, by the types that their file declares."""

    draft: Draft

    def __post_init__(self) -> None:
        self.scopes, self.file = self.draft.scopes, self.draft.file

    def reach(self, reach: Reach) -> None:
        """Raise Unfit if an operand of an edited use, or of the pointers that it comes through, may be no number."""
        seen: set[int] = set()
        waiting = [reach]
        while waiting:
            made = waiting.pop()
            if id(made) in seen:
                continue
            seen.add(id(made))
            for node in (step.node for step in made.steps if step.node):
                for part, type_ in self._unlike(node, set()):
                    operand = f"{part.quoted()} is of type {type_}"
                    at = part if self.scopes.macro(made.node) else made.node
                    raise at.unfit(f"{operand}, whose operators may not be those of numbers")
            if not any(root.place is made.start for root in self.draft.tile.roots):
                waiting += self.draft.tile.to(made.start)

    def _unlike(self, node: Node, seen: set[int]) -> Iterator[tuple[Node, str]]:
        """Yield the operands of an expression that may be of a class, and their types."""
        node = node.bare
        match node.type:
            case "identifier":
                declared = self.scopes.resolve(node)
                if not declared or declared.id in seen:
                    return
                seen.add(declared.id)
                for given in self._given(declared):
                    yield from self._unlike(given, seen)
                kinds = ("declaration", "field_declaration", *PARAMETERS, "for_range_loop")
                text = declared.above(*kinds).part("type").text
                value = declared.parent.part("value")
                if text == "auto" and value and declared.is_part("declarator", "init_declarator"):
                    yield from self._unlike(value, seen)
                else:
                    yield from self._of(node, text)
            case "cast_expression" | "compound_literal_expression":
                yield from self._of(node, node.part("type").text)
            case "call_expression":
                yield from self._called(node, seen)
            case "binary_expression" | "unary_expression" | "conditional_expression" | "comma_expression":
                for child in node.named_children:
                    yield from self._unlike(child, seen)
            case "field_expression":
                for member in self.scopes.members((node.part("field") or node).text):
                    yield from self._of(node, member.declared_type)

    def _given(self, declared: Node) -> Iterator[Node]:
        """Yield what a macro is given for a parameter, wherever it is expanded."""
        for made, number in self.scopes.taking(declared):
            for site in self.scopes.mentions.get(made.name, []) if made.macro else ():
                yield from site.parent.arguments[number : number + 1]

    def _called(self, node: Node, seen: set[int]) -> Iterator[tuple[Node, str]]:
        inlined, name = self.draft.indexing(node), node.called
        definitions = self.scopes.callables.get(name, [])
        if inlined or any(made.macro for made in definitions):
            for given in inlined.arguments.values() if inlined else node.arguments:
                yield from self._unlike(given, seen)
            return
        for made in definitions:
            yield from self._of(node, made.node.part("type").text or "auto")
        types = {alias for alias, _ in self.file.aliases}
        types |= {made.part("name").text for made in self.file.nodes(*CLASSES)}
        if not definitions and name in types:  # an object is made
            yield from self._of(node, name)

    def _of(self, node: Node, text: str, depth: int = DEEPEST) -> Iterator[tuple[Node, str]]:
        """Yield a node if its type, by its text, is a class of the file, or one whose operators the file defines."""
        text = " ".join(text.split()).strip("&* ")
        if not text or INTEGER.fullmatch(text):
            return
        written = self.file.aliased(text) if depth else None
        if written is not None:
            yield from self._of(node, written, depth - 1)
        elif self._operators and not any(
            (made.part("name") or made).text == text for made in self.file.nodes("enum_specifier")
        ):
            yield node, text

    @cached_property
    def _operators(self) -> bool:
        """Whether the file, with the headers of the user in it, defines arithmetic operators."""
        return any(re.fullmatch(r"operator[-+*/%^&|<>]+", name) for name in self.scopes.callables)


@dataclass(eq=False)
class OperandEffects:
    """What the operands of one tile's indices do besides computing a number."""

    draft: Draft
    _pure: dict[int, bool] = field(default_factory=dict)  # definitions, by their node

    def __post_init__(self) -> None:
        self.scopes, self.file = self.draft.scopes, self.draft.file

    def reach(self, reach: Reach, texts: Sequence[str]) -> None:
        """Raise Unfit if the operands of an edited use may not be written twice; `texts` are what is inserted."""
        # Which operator an expression calls would take the types of all its parts, so any operator of the file may be
        # it.
        for operator in self._acting_operators():
            raise operator.misfit(" may have effects, and an index may call it twice")
        for node in (step.node for step in reach.steps if step.node):
            inlined = self.draft.indexing(node)
            for operand in inlined.arguments.values() if inlined else (node,):
                self._once(operand)
        if macro := self.scopes.macro(reach.node):
            self._arguments(macro, DEEPEST)
        if not any(root.place is reach.start for root in self.draft.tile.roots):
            names = set(re.findall(r"[A-Za-z_]\w*", " ".join(texts)))
            for made in self.draft.tile.to(reach.start):
                self._stays(reach, made, names)

    def _once(self, node: Node) -> None:
        """Raise Unfit if an expression does more than to compute a number."""
        for part in node.walk():
            if part.type in CHANGING or part.type in ACTING:
                raise node.unfit(f"{part.quoted()} would be evaluated twice, or in another order")
            if part.type == "call_expression" and not self._computes(part, DEEPEST):
                name = (part.part("function") or part).quoted()
                called = f"{part.quoted()} would be called twice"
                raise node.unfit(f"{name} may have effects, and {called}")
            if self._volatile(part) or self._volatile_member(part):
                raise node.unfit(f"{part.text} is volatile, and would be read twice")

    def _computes(self, call: Node, depth: int) -> bool:
        """Return whether a call only computes a number: its function is known to, or its body shows it."""
        function = call.part("function") or call
        if function.type == "primitive_type":
            return True
        name = call.called
        definitions = self.scopes.callables.get(name, [])
        if not definitions and function.type != "field_expression" and PURE.fullmatch(name):
            return True
        if not definitions and function.type == "identifier":  # an object
            definitions = self.scopes.callables.get("operator()", [])
        return bool(definitions) and depth > 0 and all(self._is_pure(made, depth - 1) for made in definitions)

    def _is_pure(self, made: Definition, depth: int = DEEPEST) -> bool:
        """Return whether a definition's body shows that it only computes a number."""
        if made.node.id not in self._pure:
            self._pure[made.node.id] = False  # one that calls itself is not shown to
            broken = made.node.has_error or (made.macro and made.body.has_error)
            acts = broken or any(self._acts(node, made, depth) for node in made.body.walk())
            self._pure[made.node.id] = not acts
        return self._pure[made.node.id]

    def _acts(self, node: Node, made: Definition, depth: int) -> bool:
        """Return whether a node of a definition's body may do more than to compute."""
        text = node.text if not node.children else ""
        if node.type in ACTING or text in ("volatile", "static", "asm", "goto", "throw"):
            return True
        if node.type in CHANGING:
            declared = self.scopes.meant(node.part("left", "argument"))
            own = declared.inside(made.node)  # a variable of the function's
            return not own or declared.parent.type.endswith(("reference_declarator", "pointer_declarator"))
        return (node.type == "call_expression" and not self._computes(node, depth)) or self._volatile(node)

    def _acting_operators(self) -> Iterator[Node]:
        """Yield the operators of the file's own, of conversions too, that may do more than to compute."""
        for made in self.scopes.definitions:
            if re.fullmatch(r"operator[^\w\s(\[=]+", made.name) and not self._is_pure(made):
                yield made.node
        for node in self.file.nodes("operator_cast"):
            function, body = node.parent, node.parent.part("body")
            conversion = Definition(name="operator", node=function, body=body, parameters=())
            if not body or not self._is_pure(conversion):
                yield node

    def _volatile(self, use: Node) -> bool:
        """Return whether a name is that of a volatile variable."""
        kinds = ("declaration", "field_declaration", "parameter_declaration")
        return "volatile" in self.scopes.meant(use).above(*kinds).text.partition("=")[0].split()

    def _volatile_member(self, use: Node) -> bool:
        if use.type != "field_expression":
            return False
        name = re.escape(use.part("field").text)
        texts = (node.text for node in self.file.nodes("field_declaration"))
        return any("volatile" in text.split() and re.search(rf"\b{name}\b", text) for text in texts)

    def _arguments(self, macro: Definition, depth: int) -> None:
        """Raise Unfit if a macro is given something that may not be evaluated twice."""
        for node in self.scopes.mentions.get(macro.name, []):
            for given in node.parent.arguments if node.parent.type == "call_expression" else ():
                self._once(given)
            outer = self.scopes.macro(node)
            if outer and outer is not macro:
                if not depth:
                    raise node.unfit(f"{outer.name} expands too many macros to follow")
                self._arguments(outer, depth - 1)

    # ------------------------------------------------------------------------------------ rows of pointers

    def _stays(self, reach: Reach, made: Reach, names: set[str]) -> None:
        """Raise Unfit if a row's number, as a pointer was made with it, may be another one where it is used."""
        place, nodes = reach.start, [step.node for step in made.steps if step.node]
        used = [n for node in nodes for n in node.walk() if n.type == "identifier" and n.text in names]
        for node in nodes if used else ():
            self._once(node)
        for name in used:
            text, declared = name.text, self.scopes.resolve(name)
            there = self.scopes.resolve(reach.node, text)
            if text in BUILTIN or (not declared and not there):
                continue  # or a macro or a constant of a header
            if not declared or there is not declared:
                raise reach.node.unfit(f"{text} is another one where {place.name} was made")
            if changed := self._changed(place, declared):
                raise changed.unfit(f"{text} may change after {place.name} was made with it")
        loads = (n.type in ("subscript_expression", "pointer_expression") for node in nodes for n in node.walk())
        if used and any(loads):
            raise reach.node.unfit(f"the row of {place.name} is read from memory that may have changed")
        if not any(root.place is made.start for root in self.draft.tile.roots):
            for before in self.draft.tile.to(made.start):
                if before.end is not before.start and made.start is not place:
                    self._stays(reach, before, names)

    def _changed(self, place: ReachedPlace, declared: Node) -> Node:
        """Return where a variable is changed while a pointer that was made with it lives, if it is."""
        holder = place.declared.above("declaration")
        block = place.declared.above("compound_statement", "for_statement")
        # Only a pointer that is initialised where it is declared has a scope in which to look for changes; any other
        # may have been set at any time.
        if not holder or not block or not place.declared.above("init_declarator"):
            return place.declared
        for use in self.scopes.uses(declared):
            node = use.out_of("parenthesized_expression", "field_expression")
            parent = node.parent
            if not holder.end_byte <= use.start_byte < block.end_byte:
                continue
            taken = parent.type == "pointer_expression" and parent.text.startswith("&")
            handed = parent.type == "argument_list" and self._by_reference(parent, node)
            set_ = parent.type == "update_expression" or node.is_part("left", "assignment_expression")
            if taken or handed or set_:
                return use
        return NOTHING

    def _by_reference(self, listed: Node, given: Node) -> bool:
        """Return whether a function may change an argument: it takes a reference that is not const."""
        for made in self.scopes.callables.get(listed.parent.called, []):
            text = made.parameter(given.number).above("parameter_declaration").text
            if made.macro or ("&" in text and "const" not in text):
                return True
        return False
