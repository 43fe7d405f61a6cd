"""Walk through a kernel as a thread does, and note what it does with shared arrays: every access, with its indices.

A `CallFrame` is a block, a call or the expansion of a macro; its names mean what they mean there, so that pointers,
references, lambdas, methods and objects that keep pointers need no rules of their own. Conditions are not evaluated:
both sides are walked, and a name means all that it was ever assigned. What is not understood is left out. Nothing
rests on this: a patch that misses an access is refuted, and the compiler says in which line the access is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from ncu_swizzle.fix.cuda import INTEGERS, NOTHING, Node
from ncu_swizzle.fix.frames import Bound, CallFrame, Closure, Made, Pointer, SourceAccess, Value, Values, row_of
from ncu_swizzle.fix.names import (
    BYTES,
    Definition,
    Names,
    SharedDeclaration,
    constructor_of,
    declared_name,
    members_of,
    pointer_to_array,
    shape_of,
    sizes_of,
)

TO_ADDRESS = ("__cvta_generic_to_shared", "cast_smem_ptr_to_uint", "cast_smem_ptr_to_uint32")
SAME = ("make_smem_ptr", "__builtin_assume_aligned", "launder")
MATRIX = ("load_matrix_sync", "store_matrix_sync")
# They access what their pointer arguments point to, in the pointer's width or in a width that they are given.
ACCESSING = re.compile(r"(atomic\w+|__pipeline_memcpy_async|memcpy_async|__ld\w+|__st\w+|memcpy)$")
TRANSPARENT = ("parenthesized_expression", "init_statement")
LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
SCOPES = ("compound_statement", "if_statement", "switch_statement", *LOOPS)
PREPROCESSED = ("preproc_if", "preproc_el")
DEPTH = 12  # of calls in calls
CALLS = 4000  # that are walked through, at most
PASSES = 3  # through a loop whose pointers change
NAMING = ("identifier", "template_function", "qualified_identifier")  # what names a function that is called


class Walk:
    """Collects the accesses of a kernel."""

    def __init__(self, names: Names, arrays: Sequence[SharedDeclaration], kernel: str) -> None:
        self.names, self.file = names, names.file
        self.accesses: dict[tuple[object, ...], SourceAccess] = {}
        self.pointers: dict[int, tuple[Node, list[Pointer]]] = {}  # that are declared, by their declared names
        self._statements: dict[int, list[SharedDeclaration]] = {}
        self._growing, self._calls = 0, 0
        self._walked, self._reached = set[int](), set[int]()  # bodies, and arrays
        self.top = CallFrame()
        self.kernel = self.top
        for array in arrays:
            self._statements.setdefault(array.statement.id, []).append(array)
            if not array.statement.above("function_definition", "lambda_expression"):
                self._array(array, self.top)
        for definition in names.callables.get(kernel, []):
            if not definition.macro:
                self.kernel = CallFrame(definition=definition, outer=self.top)
                for declared in filter(None, definition.parameters):
                    self.kernel.names[declared.text] = Bound(given=True)
                # What is nested deeper than Python calls itself is left out, and so not in the patch.
                with suppress(RecursionError):
                    self._statement(definition.body, self.kernel)
                    self._other_methods(arrays)

    def _other_methods(self, arrays: Sequence[SharedDeclaration]) -> None:
        """Walk through the methods of shared objects that the kernel does not call: they have to follow a patch."""
        for array in arrays:
            object_ = replace(self._pointer(array, self.top), rank=0)
            for method in self.names.methods_of(self._struct(object_)):
                if method.body.id not in self._walked and array.declared.id in self._reached:
                    names = {declared.text: Bound(given=True) for declared in method.parameters if declared}
                    self._statement(
                        method.body, CallFrame(definition=method, outer=self.top, this=(object_,), names=names)
                    )

    def _pointer(self, array: SharedDeclaration, frame: CallFrame) -> Pointer:
        whole = f"{array.name}{'[0]' * array.rank}"
        return Pointer(array=array, home=frame, rank=array.rank, object_=whole, object_declared=array.declared)

    def _array(self, array: SharedDeclaration, frame: CallFrame) -> None:
        self._reached.add(array.declared.id)
        frame.names[array.name] = Bound((self._pointer(array, frame),))

    # ------------------------------------------------------------------------------------ statements

    def _statement(self, node: Node, frame: CallFrame) -> Values:
        """Walk through a statement; return what it returns."""
        for array in (declared := self._statements.get(node.id, ())):
            self._array(array, frame)
        if declared:
            return ()
        match node.type:
            case "declaration":
                for declarator in node.every("declarator"):
                    self._declared(node, declarator, frame)
            case "return_statement":
                return self._returned(node, frame)
            case "expression_statement" if name := pointer_to_array(node):
                right = node.named_children[0].part("right")
                self._bind(name, self._value(right, frame), right, frame)
            case kind if kind in SCOPES or kind.endswith(("_statement", "_clause")) or kind.startswith(PREPROCESSED):
                inner, returned = CallFrame(outer=frame) if kind in SCOPES else frame, list[Value]()
                for _ in range(PASSES if kind in LOOPS else 1):
                    before = self._growing
                    returned += (value for child in node.named_children for value in self._statement(child, inner))
                    if before == self._growing:
                        break
                return tuple(returned)
            case kind if kind.endswith(("_definition", "_specifier", "_declaration")) or kind.startswith("preproc"):
                pass
            case _:
                self._used(node, frame)
        return ()

    def _declared(self, node: Node, declarator: Node, frame: CallFrame) -> None:
        """Walk through one name of a declaration."""
        name = declared_name(declarator)
        value = declarator.part("value") if declarator.type == "init_declarator" else NOTHING
        if not name:
            self._used(value, frame)
            return
        if value.type == "lambda_expression":
            definition = next((d for d in self.names.callables.get(name.text, []) if d.node is value), None)
            frame.names[name.text] = Bound((Closure(definition, frame),) if definition else ())
            return
        struct = self.file.class_named(node.part("type").text)
        plain = declarator if declarator.type != "init_declarator" else declarator.part("declarator")
        listed = value if value.type in ("initializer_list", "argument_list") else NOTHING
        if plain.type == "function_declarator":  # View v(tile); looks like a function
            listed = plain.part("parameters")
        if struct and plain.type in ("identifier", "function_declarator") and (listed or not value):
            made_object = self._made(struct, listed, frame)
            frame.names[name.text] = Bound((made_object,), value, frame)
            return
        frame.names[name.text] = Bound((), value, frame, declared=name)
        alias = self.file.aliased(node.part("type").text) or ""
        reference = plain.type == "reference_declarator" or "&" in alias
        values = self._value(value, frame) if value else ()
        self._bind(name, self._decayed(value, values, frame, reference), value, frame)

    def _bind(self, name: Node, values: Values, value: Node, frame: CallFrame) -> None:
        """Bind values to a declared name, in the units of its declaration."""
        bound = frame.names.setdefault(name.text, Bound((), value, frame, declared=name))
        self._grow(bound, [self._shaped(v, name) if isinstance(v, Pointer) else v for v in values])

    def _shaped(self, pointer: Pointer, name: Node) -> Pointer:
        """Return a pointer with the type of a declared name."""
        if pointer.unit.endswith("]"):  # its declaration says the same
            rank, unit = pointer.rank, pointer.unit
        else:
            rank, unit = shape_of(self.file, name, pointer.rank, pointer.unit)
        struct = self._struct(pointer)
        if struct and unit != BYTES and not self.file.class_named(unit):
            unit = pointer.unit
        named = (*pointer.named, (name, len(pointer.steps)))
        object_, declared = pointer.object_, pointer.object_declared
        if not object_ or (pointer.unit and self.file.class_named(pointer.unit) and not pointer.members):
            object_, declared = f"{name.text}{'[0]' * rank}", name
        shaped = replace(
            pointer, rank=rank, unit=unit, named=named, object_=object_, object_declared=declared,
        )  # fmt: skip
        self.pointers.setdefault(name.id, (name, []))[1].append(shaped)
        return shaped

    def _grow(self, bound: Bound, values: Sequence[Value]) -> None:
        keys = {value.key() for value in bound.values}
        new = [value for value in values if value.key() not in keys]
        bound.values = (*bound.values, *new)
        self._growing += len(new)

    def _returned(self, node: Node, frame: CallFrame) -> Values:
        """Return what a function returns: pointers and objects, an element if it returns a reference."""
        definition = frame.function.definition
        returned = tuple(v for child in node.named_children for v in self._value(child, frame))
        declarator = definition.node.part("declarator") if definition else NOTHING
        reference = "&" in declarator.text.partition("(")[0] or "->" in declarator.text
        return self._decayed(node.named_children[0] if node.named_children else node, returned, frame, reference)

    def _decayed(self, node: Node, values: Values, frame: CallFrame, reference: bool) -> Values:
        """Return values as an expression has them; elements are accessed, unless a reference is bound to them."""
        kept: list[Value] = []
        for value in values:
            if isinstance(value, Pointer) and value.rank == 0 and not reference and not self._struct(value):
                self._access(node, value, frame)
            else:
                kept.append(value)
        return tuple(kept)

    # ------------------------------------------------------------------------------------ expressions

    def _used(self, node: Node, frame: CallFrame) -> Values:
        """Walk through an expression whose value is used: an element is accessed."""
        return self._decayed(node, self._value(node, frame), frame, reference=False) if node else ()

    def _value(self, node: Node, frame: CallFrame) -> Values:  # noqa: PLR0911, PLR0912
        """Walk through an expression; return the values that are followed."""
        match node.type:
            case "identifier" | "type_identifier" | "field_identifier":
                return self._name(node, frame)
            case "qualified_identifier":
                return self._value(node.part("name"), frame)
            case "this":
                return tuple(replace(v, rank=1) if isinstance(v, Pointer) else v for v in self._this(frame))
            case kind if kind in TRANSPARENT:
                return tuple(v for child in node.named_children for v in self._value(child, frame))
            case "comma_expression":
                self._used(node.part("left"), frame)
                return self._value(node.part("right"), frame)
            case "conditional_expression":
                self._used(node.part("condition"), frame)
                parts = (node.part("consequence"), node.part("alternative"))
                return tuple(value for part in parts for value in self._value(part, frame))
            case "subscript_expression":
                return self._subscript(node, frame)
            case "pointer_expression":
                return self._pointed(node, frame)
            case "field_expression":
                return self._member(node, frame)
            case "binary_expression":
                return self._sum(node, frame)
            case "cast_expression":
                return self._cast(node.part("type").text, self._value(node.part("value"), frame))
            case "call_expression":
                return self._call(node, frame)
            case "compound_literal_expression":
                struct = self.file.class_named(node.part("type").text)
                return (self._made(struct, node.part("value"), frame),) if struct else self._children(node, frame)
            case "assignment_expression":
                return self._assigned(node, frame)
            case "update_expression":
                return self._moved(node.part("argument"), NOTHING, frame)
            case "gnu_asm_input_operand":
                for value in self._value(node.part("value"), frame):
                    if isinstance(value, Pointer):
                        self._access(node, value, frame)
                return ()
            case "sizeof_expression" | "decltype" | "lambda_expression" | "comment":
                return ()
            case "compound_statement":
                return self._statement(node, frame)
        return self._children(node, frame)

    def _children(self, node: Node, frame: CallFrame) -> Values:
        for child in node.named_children:
            self._used(child, frame)
        return ()

    def _this(self, frame: CallFrame) -> Values:
        inner: CallFrame | None = frame
        while inner is not None and not inner.this:
            inner = inner.outer
        return inner.this if inner else ()

    def _name(self, node: Node, frame: CallFrame) -> Values:
        """Return the values of a name: a pointer that is not a parameter belongs to the frame where it is written."""
        bound = frame.bound(node.text)
        if bound is not None:
            return tuple(
                v if bound.given or not isinstance(v, Pointer) else replace(v, home=frame.function)
                for v in bound.values
            )
        members: list[Value] = []
        for value in self._this(frame):
            if isinstance(value, Pointer):
                members += self._member_of(value, node.text, node, home=frame.function)
        if members:
            return tuple(members)
        for definition in self.names.callables.get(node.text, []):
            if definition.macro and not definition.parameters and node.type == "identifier":
                return self._into(definition, node, frame)
        return ()

    def _subscript(self, node: Node, frame: CallFrame) -> Values:
        found: list[Value] = []
        index = node.arguments[0] if len(node.arguments) == 1 else NOTHING
        for argument in node.arguments:
            self._used(argument, frame)
        for value in self._value(node.part("argument"), frame):
            if isinstance(value, Pointer) and value.rank:
                found.append(value.stepped(value.rank - 1, index, frame))
        if not found:
            called = self._callees(node, frame)
            found += (v for made, this, outer in called for v in self._into(made, node, frame, this, outer))
        return tuple(found)

    def _pointed(self, node: Node, frame: CallFrame) -> Values:
        """Walk through ``*p`` or ``&e``."""
        values, found = self._value(node.part("argument"), frame), list[Value]()
        for value in values:
            if not isinstance(value, Pointer):
                found.append(value)
            elif node.text.startswith("*"):
                found.append(value.stepped(max(0, value.rank - 1), NOTHING, frame) if value.rank else value)
            else:
                whole = not value.steps and value.rank == value.dimensions > 1
                found.append(replace(value, rank=value.rank + 1 if whole else max(value.rank, 1)))
        return tuple(found)

    def _sum(self, node: Node, frame: CallFrame) -> Values:
        left, right, operator = node.part("left"), node.part("right"), node.part("operator").text
        if operator not in ("+", "-"):
            for child in (left, right):
                self._used(child, frame)
            return ()
        found: list[Value] = []
        for one, other, first in ((left, right, True), (right, left, False)):
            for value in self._used(one, frame):
                if isinstance(value, Pointer) and value.rank <= 1 and (operator == "+" or first):
                    found.append(value.stepped(1, other, frame, subscript=False, negative=operator == "-"))
        return tuple(found)

    def _cast(self, type_: str, values: Values) -> Values:
        plain = re.sub(r"\b(const|volatile|__restrict__)\b", "", type_).strip()
        kind = " ".join(re.findall(r"[\w:<>, ]+|[*&]", plain))
        rows = re.fullmatch(r"([\w:<>\s]+)\(\s*([*&])\s*\)((?:\s*\[[^\]]*\])+)", plain)
        found: list[Value] = []
        for value in values:
            if not isinstance(value, Pointer):
                found.append(value)
            elif rows and rows[2] == "*" and value.dimensions > rows[3].count("["):
                found.append(replace(value, rank=1 + rows[3].count("["), unit=""))
            elif rows:  # the array itself has no such rows
                whole = replace(value, rank=1, unit=f"{rows[1].strip()}{''.join(rows[3].split())}")
                found.append(whole if rows[2] == "*" else replace(whole, unit=row_of(whole.unit)))
            elif kind.rstrip().endswith(("*", "&")):
                unit = kind.strip().rstrip("*& ").strip()
                rank = 1 if kind.rstrip().endswith("*") else 0
                found.append(replace(value, rank=rank, unit="" if unit == "void" else unit))
            elif not value.rank or (value.unit == BYTES and INTEGERS.fullmatch(type_.strip())):
                found.append(value)
        return tuple(found)

    def _assigned(self, node: Node, frame: CallFrame) -> Values:
        left, right, operator = node.part("left"), node.part("right"), node.part("operator").text
        if operator in ("+=", "-=") and left.type == "identifier":
            self._used(right, frame)
            return self._moved(left, right, frame, negative=operator == "-=")
        values = self._used(right, frame)
        bound = frame.bound(left.text) if left.type == "identifier" else None
        if operator == "=" and bound is not None:
            bound.changed = True
            declared = bound.declared
            self._grow(bound, [self._shaped(v, declared) if isinstance(v, Pointer) and declared else v for v in values])
            return bound.values if values else self._decayed(left, bound.values, frame, reference=False)
        return self._used(left, frame)

    def _moved(self, left: Node, by: Node, frame: CallFrame, negative: bool = False) -> Values:
        """Walk through ``p += by`` and ``++p``."""
        bound = frame.bound(left.text) if left.type == "identifier" else None
        if bound is None:
            return self._value(left, frame)
        bound.changed = True
        pointers = [v for v in bound.values if isinstance(v, Pointer) and v.rank == 1]
        moved = [
            value.stepped(1, by, frame, subscript=False, negative=negative, advance=True)
            for value in pointers
            if not any(step.advance and step.node is by for step in value.steps)
        ]
        self._grow(bound, moved)
        return bound.values

    # ------------------------------------------------------------------------------------ structs in shared memory

    def _struct(self, pointer: Pointer) -> Node:
        """Return the class of what a pointer counts, if the file defines it and it has arrays or methods."""
        type_ = pointer.unit or (pointer.members[-1].declared_type if pointer.members else pointer.array.element)
        struct = self.file.class_named(type_)
        if not struct:
            return NOTHING
        return struct if self.names.methods_of(struct) or any(map(sizes_of, members_of(struct))) else NOTHING

    def _member(self, node: Node, frame: CallFrame) -> Values:
        found: list[Value] = []
        name = (node.part("field").part("name") or node.part("field")).text
        for value in self._value(node.part("argument"), frame):
            if isinstance(value, Made):
                bound = value.fields.get(name)
                found += bound.values if bound else ()
            elif isinstance(value, Pointer):
                inner = value.stepped(0, NOTHING, frame) if value.rank else value
                found += self._member_of(inner, name, node, home=value.home)
        return tuple(found)

    def _member_of(self, value: Pointer, name: str, node: Node, home: CallFrame) -> Values:
        """Return a member of an element: an array becomes a separate tile, anything else is accessed."""
        type_ = value.unit or (value.members[-1].declared_type if value.members else value.array.element)
        struct = self.file.class_named(type_)
        declared = next((n for n in members_of(struct) if n.text == name), NOTHING) if struct else NOTHING
        if not declared:  # of a vector, or of a class that is not to be seen
            return (value,) if node.type == "field_expression" and not self._struct(value) else ()
        inner = self.file.class_named(declared.declared_type)
        rank = len(sizes_of(declared, self.file))
        if not rank and not inner:
            return (value,)
        return (
            replace(
                value, rank=rank, unit="", members=(*value.members, declared), steps=(), named=(), home=home,
                object_=f"{value.object_}.{name}{'[0]' * rank if inner else ''}",
            ),
        )  # fmt: skip

    # ------------------------------------------------------------------------------------ calls

    def _call(self, node: Node, frame: CallFrame) -> Values:
        arguments, function = node.arguments, node.part("function")
        if cast := node.cast_type:
            return self._cast(cast, tuple(v for child in arguments for v in self._value(child, frame)))
        struct = self.file.class_named(function.text) if function.type in NAMING else NOTHING
        if struct:
            return (self._made(struct, node.part("arguments"), frame),)
        called = list(self._callees(node, frame))
        if called:
            return tuple(v for made, this, outer in called for v in self._into(made, node, frame, this, outer))
        return self._library(node, node.called, arguments, frame)

    def _callees(self, node: Node, frame: CallFrame) -> Iterator[tuple[Definition, Values, CallFrame | None]]:
        """Yield what a call, or a subscript of an object, may call: with the object, and the frame of a lambda."""
        arguments, function = node.arguments, node.part("function") or node.part("argument")
        subscript = node.type == "subscript_expression"
        name = "operator[]" if subscript else "operator()"
        values: Values = ()
        bound: Bound | None = None
        if function.type == "field_expression":
            name = function.part("field").part("name").text or function.part("field").text
            values = self._value(function.part("argument"), frame)
            own = [v.fields[name] for v in values if isinstance(v, Made) and name in v.fields]
            if own:  # an object that is a member
                values, name = own[0].values, "operator()"
        elif function.type in ("identifier", "this") or subscript or function.type not in NAMING:
            bound = frame.bound(function.text)
            values = bound.values if bound else () if function.type == "identifier" else self._value(function, frame)
        if not values and function.type in NAMING and not subscript:
            name, values = node.called, self._this(frame)
        for value in values:
            if isinstance(value, Closure):
                yield value.definition, (), value.frame
                continue
            inner = value.stepped(0, NOTHING, frame) if isinstance(value, Pointer) and value.rank else value
            methods = self._method_of(inner, name, len(arguments))
            yield from ((method, (inner,), None) for method in methods)
        if subscript or (bound is not None and bound.values) or function.type not in NAMING:
            return
        every = self.names.callables.get(node.called, [])
        if bound is not None and not every:  # an object of a class that is not to be seen
            every = self.names.callables.get("operator()", [])
            every = every if len(every) == 1 else []
        yield from ((d, (), None) for d in every if d.fits(len(arguments)) and (bound is not None or not d.struct))

    def _library(self, node: Node, name: str, given: Sequence[Node], frame: CallFrame) -> Values:
        """Walk through a call of a function that the file does not define."""
        values: list[Value] = []
        for number, argument in enumerate(given):
            for value in self._used(argument, frame):
                if not isinstance(value, Pointer):
                    continue
                if name in TO_ADDRESS or name in SAME:
                    values.append(replace(value, rank=1, unit=BYTES if name in TO_ADDRESS else value.unit))
                elif name == "make_tensor" and len(given) == 2 and number == 0:
                    self._access(node, value, frame, layout=given[1])
                elif name in MATRIX:
                    self._access(node, value, frame, leading=given[2 if len(given) > 2 else -1])
                elif ACCESSING.fullmatch(name):
                    self._access(node, value, frame)
        return tuple(values)

    def _method_of(self, value: Value, name: str, count: int) -> list[Definition]:
        pointed = self._struct(value) if isinstance(value, Pointer) else NOTHING
        struct = value.struct if isinstance(value, Made) else pointed
        return [d for d in self.names.methods_of(struct) if d.name == name and d.fits(count)] if struct else []

    def _entered(
        self, definition: Definition, node: Node, given: Sequence[Node], frame: CallFrame,
        this: Values = (), outer: CallFrame | None = None,
    ) -> CallFrame:  # fmt: skip
        """Return the frame of a call, without the values of its arguments."""
        outer = outer or (frame if definition.macro else self.top)
        inner = CallFrame(definition=definition, caller=frame, outer=outer, site=node, this=this)
        for declared, argument in zip(definition.parameters, given, strict=False):
            if declared:
                inner.names[declared.text] = Bound((), argument, frame, given=True)
        return inner

    def _into(
        self, definition: Definition, node: Node, frame: CallFrame, this: Values = (), outer: CallFrame | None = None
    ) -> Values:
        """Walk through the function that a call calls."""
        arguments = node.arguments
        self._calls += 1
        if len(frame.path) > DEPTH or self._calls > CALLS:
            return ()
        self._walked.add(definition.body.id)
        inner = self._entered(definition, node, arguments, frame, this, outer)
        for declared, argument in zip(definition.parameters, arguments, strict=False):
            values = self._value(argument, frame)
            if not declared:
                continue
            values = self._decayed(
                argument, values, frame, definition.macro or bool(declared.above("reference_declarator"))
            )
            kept = definition.macro
            inner.names[declared.text].values = tuple(
                v if kept or not isinstance(v, Pointer) else self._shaped(v, declared) for v in values
            )
        for argument in arguments[len(definition.parameters) :]:
            self._used(argument, frame)
        if definition.macro and definition.expression:
            return self._value(definition.expression, inner)
        if definition.macro:
            return tuple(v for statement in definition.statements for v in self._statement(statement, inner))
        return self._statement(definition.body, inner)

    # ------------------------------------------------------------------------------------ objects in registers

    def _made(self, struct: Node, listed: Node, frame: CallFrame) -> Made:
        """Return an object that is constructed from arguments or initialisers."""
        given = [  # View v(tile) has what looks like types
            child.named_children[0] if child.type == "parameter_declaration" and child.named_children else child
            for child in listed.named_children
            if child.type != "comment"
        ]
        fields: dict[str, Bound] = {}
        constructor = constructor_of(self.names, struct, len(given))
        if constructor is not None:
            inner = self._entered(constructor, listed, given, frame)
            for declared, argument in zip(constructor.parameters, given, strict=False):
                if declared:
                    inner.names[declared.text].values = self._used(argument, frame)
            for name, value in constructor.initialised:
                bound = inner.bound(value.text)
                source = bound if bound and bound.given else Bound((), value, inner)
                fields[name] = Bound(source.values, source.node, source.frame, given=True)
            return Made(struct, fields)
        names = [declared.text for declared in members_of(struct)]
        for number, child in enumerate(given):
            name, value = names[number] if number < len(names) else "", child
            if child.type == "initializer_pair":
                name, value = child.part("designator").text.lstrip("."), child.part("value")
            inner_struct = self.file.class_named(value.text) if value.type == "identifier" else NOTHING
            values = self._used(value, frame) if not inner_struct else ()
            fields[name] = Bound(values, value, frame, given=True)
        return Made(struct, fields)

    # ------------------------------------------------------------------------------------ what is found

    def _access(self, node: Node, pointer: Pointer, frame: CallFrame, **more: Node) -> None:
        access = SourceAccess(pointer=pointer, node=node, frame=frame, **more)
        self.accesses.setdefault((node.id, pointer.key(), access.layout.id, pointer.home.path, frame.path), access)

    def transparent(self, frame: CallFrame) -> bool:
        """Return whether a call expands to one expression, whose parts may be written in its place."""
        definition = frame.function.definition
        return definition is not None and bool(definition.expression) and frame.function.caller is not None

    def home(self, access: SourceAccess) -> CallFrame:
        """Return the frame that an index is written in: where its pointer is named, through calls of one expression."""
        frame = next((step.frame for step in reversed(access.steps) if step.node), access.frame).function
        while frame is not access.pointer.home.function and self.transparent(frame):
            assert frame.caller is not None
            frame = frame.caller.function
        return frame

    # ------------------------------------------------------------------------------------ what expressions stand for

    def argument(self, node: Node, frame: CallFrame, home: CallFrame | None) -> tuple[Node, CallFrame] | None:
        """Return the argument of a parameter, or the initialiser of a member.

        None if the name means the same at `home`, or its function is more than one expression.
        """
        if node.type not in ("identifier", "field_expression"):
            return None
        owner: CallFrame | None = frame
        bound: Bound | None = None
        if node.type == "field_expression":
            found = [v for v in self._value(node.part("argument"), frame) if isinstance(v, Made)]
            bound = found[0].fields.get(node.part("field").text) if found else None
        else:
            owner, bound = frame.owner(node.text)
        if bound is None or not bound.given or not bound.node or bound.frame is None:
            return None
        if owner is not None and ((home is not None and home.sees(owner)) or not self.transparent(owner)):
            return None
        return bound.node, bound.frame

    def expression(self, node: Node, frame: CallFrame) -> tuple[Node, CallFrame] | None:
        """Return the only expression of what a call calls, with its frame; None if it is more than that."""
        if node.type == "identifier":
            macros = [d for d in self.names.callables.get(node.text, []) if d.macro and not d.parameters]
            if len(macros) != 1 or not macros[0].expression or frame.bound(node.text) is not None:
                return None
            return macros[0].expression, self._entered(macros[0], node, (), frame)
        if node.type not in ("call_expression", "subscript_expression"):
            return None
        callees = list(self._callees(node, frame))
        bodies = {"".join(definition.body.text.split()) for definition, *_ in callees}
        if len(bodies) != 1 or not callees[0][0].expression or len(frame.path) > DEPTH:
            return None  # an overload for const objects is the same again
        definition, this, outer = callees[0]
        return definition.expression, self._entered(definition, node, node.arguments, frame, this, outer)
