"""What a source defines: functions, lambdas and macros by name, the members of classes, and the shared arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import NOTHING, PARAMETERS, CudaFile, Node

WRAPPERS = (
    "pointer_declarator", "reference_declarator", "array_declarator", "init_declarator", "parenthesized_declarator",
    "function_declarator", "attributed_declarator",
)  # fmt: skip
HEAD = b"int f(){"  # before a macro's body, so that it parses as statements
SHARED = "__shared__"
BYTES = "byte"  # the unit of an address that is an integer


@dataclass(frozen=True, eq=False, kw_only=True)
class Definition:
    """A function, a lambda or a macro: its parameters' declared names in order, and its body."""

    name: str
    node: Node  # the definition
    body: Node
    parameters: tuple[Node, ...]  # the identifiers, `NOTHING` for one without a name
    macro: bool = False
    struct: Node = NOTHING  # the class that it is a method of

    def fits(self, count: int) -> bool:
        """Return whether it accepts that many arguments; the rest may have defaults."""
        optional = sum(bool(p) and bool(p.above("optional_parameter_declaration")) for p in self.parameters)
        return len(self.parameters) - optional <= count <= len(self.parameters)

    @cached_property
    def statements(self) -> list[Node]:
        """The statements of its body, without comments."""
        body = (
            next((n for n in self.body.walk() if n.type == "compound_statement"), NOTHING) if self.macro else self.body
        )
        return [child for child in body.named_children if child.type != "comment"]

    @cached_property
    def expression(self) -> Node:
        """The only expression of its body, if that is all that it does."""
        if len(self.statements) != 1 or (self.macro and self.body.has_error):
            return NOTHING
        (statement,) = self.statements
        kinds = ["expression_statement"] if self.macro else ["return_statement"]
        kinds += ["expression_statement"] if self.struct else []
        inner = statement.named_children
        return inner[0] if statement.type in kinds and len(inner) == 1 else NOTHING

    @cached_property
    def initialised(self) -> tuple[tuple[str, Node], ...]:
        """The members that a constructor sets, each with the expression."""
        values: list[tuple[str, Node]] = []
        for node in self.node.walk() if self.struct else ():
            if node.type == "field_initializer" and len(node.named_children) == 2:
                name, listed = node.named_children
                values += [(name.text, value) for value in listed.named_children[:1]]
            elif node.type == "assignment_expression" and self.name == self.struct.part("name").text:
                values.append((node.part("left").text.removeprefix("this->"), node.part("right")))
        return tuple(values)


@dataclass(eq=False)
class Names:
    """The definitions of a file."""

    file: CudaFile

    @cached_property
    def callables(self) -> dict[str, list[Definition]]:
        """What the file defines, by name; overloads together."""
        definitions: dict[str, list[Definition]] = {}
        for node in self.file.nodes("function_definition", "init_declarator", "preproc_function_def", "preproc_def"):
            definition = self._macro(node) if node.type.startswith("preproc") else self._function(node)
            if definition is not None:
                definitions.setdefault(definition.name, []).append(definition)
        return definitions

    @cached_property
    def _methods(self) -> dict[int, list[Definition]]:
        methods: dict[int, list[Definition]] = {}
        for every in self.callables.values():
            for definition in every:
                if definition.struct:
                    methods.setdefault(definition.struct.id, []).append(definition)
        return methods

    def methods_of(self, struct: Node) -> Sequence[Definition]:
        """Return the member functions of a class."""
        return self._methods.get(struct.id, ())

    def _function(self, node: Node) -> Definition | None:
        """Return a function, or the lambda that a variable is initialised with."""
        struct = NOTHING
        if node.type == "init_declarator":
            value, named = node.part("value"), node.part("declarator")
            if value.type != "lambda_expression":
                return None
            node, declarator = value, value.part("declarator")
        else:
            declarator = next((n for n in node.walk() if n.type == "function_declarator"), NOTHING)
            named, struct = declarator.part("declarator"), self.file.class_of(node)
        body = node.part("body")
        if not body or not named:
            return None
        while named.type in ("qualified_identifier", "template_function") and (inner := named.part("name")):
            named = inner  # a specialisation has the name of its template
        name = "".join(named.text.rpartition("::")[2].split())
        parameters = tuple(_parameters(declarator.part("parameters")))
        return Definition(name=name, node=node, body=body, parameters=parameters, struct=struct)

    def _macro(self, node: Node) -> Definition | None:
        name, value, listed = (node.part(part) for part in ("name", "value", "parameters"))
        if not name or not value:
            return None
        # The body is parsed apart, behind spaces, so that its nodes have the bytes of the file.
        start, end = value.start_byte, value.end_byte
        text = b" " * (start - len(HEAD)) + HEAD + self.file.text[start:end] + b"\n;}"
        root = cuda.tree(text, self.file.text)
        parameters = tuple(n for n in listed.children if n.type == "identifier")
        return Definition(name=name.text, node=node, body=root, parameters=parameters, macro=True)


def constructor_of(names: Names, struct: Node, count: int) -> Definition | None:
    """Return the constructor of a class that takes that many arguments; None if it has none."""
    own = struct.part("name").text
    fitting = [d for d in names.methods_of(struct) if d.name == own and d.fits(count)]
    return fitting[0] if fitting else None


# Names where they are declared.


def pointer_to_array(node: Node) -> Node:
    """Return the name that ``float (*p)[32] = t;`` declares: the grammar takes it for an assignment."""
    expression = node.named_children[0] if len(node.named_children) == 1 else NOTHING
    left = expression.part("left") if expression.type == "assignment_expression" else NOTHING
    while left.type == "subscript_expression":
        left = left.part("argument")
    if left.type != "call_expression":
        return NOTHING
    indices = left.arguments
    argument = indices[0].part("argument") if [node.type for node in indices] == ["pointer_expression"] else NOTHING
    return argument if argument.type == "identifier" else NOTHING


def declared_name(declarator: Node) -> Node:
    """Return the identifier of a declarator; `NOTHING` if it has several, or none."""
    while declarator.type in WRAPPERS:
        inner = declarator.part("declarator")
        kinds = ("identifier", "field_identifier", *WRAPPERS)
        declarator = inner or next((child for child in declarator.named_children if child.type in kinds), NOTHING)
    return declarator if declarator.type in ("identifier", "field_identifier") else NOTHING


def _parameters(listed: Node) -> Iterator[Node]:
    for parameter in listed.named_children:
        if parameter.type in PARAMETERS:
            yield declared_name(parameter.part("declarator"))
        elif parameter.type == "variadic_parameter_declaration":
            yield NOTHING


def members_of(struct: Node) -> list[Node]:
    """Return the identifiers of what every object of a class has: static members are elsewhere."""
    return [
        declared
        for declaration in struct.part("body").named_children
        if declaration.type == "field_declaration"
        and not any(child.type == "storage_class_specifier" for child in declaration.children)
        for declarator in declaration.every("declarator")
        if (declared := declared_name(declarator))
    ]


def shape_of(file: CudaFile, declared: Node, rank: int, unit: str) -> tuple[int, str]:
    """Return how many subscripts a declared pointer, array or reference takes, and what it counts."""
    declarator, sizes, stars = declared.parent, 0, 0
    while declarator and not declarator.type.endswith(("declaration", "init_declarator", "statement")):
        sizes += declarator.type in ("array_declarator", "subscript_expression")
        stars += declarator.type in ("pointer_declarator", "pointer_expression")
        declarator = declarator.parent
    holder = declarator.parent if declarator.type == "init_declarator" else declarator
    type_ = holder.part("type")
    if holder.type == "expression_statement":  # float (*p)[32] = t;
        return sizes + stars, unit if stars else ""
    reference = declared.parent.type == "reference_declarator"
    named, inner = file.array_alias(type_.text) if type_ else ("", ())
    sizes += len(inner)
    if sizes + stars == 0 and (reference or named == "auto" or named.endswith("&")):
        return (rank if reference else max(rank, 1)), unit
    if sizes + stars == 0:
        return rank if unit == BYTES else 1, unit if file.class_named(named) else BYTES
    return sizes + stars, unit if named == "auto" else "" if named == "void" else named


# Shared arrays.


@dataclass(frozen=True, eq=False, kw_only=True)
class SharedDeclaration:
    """One shared variable: its name, the type as written, the sizes of its dimensions, and where it stands."""

    name: str
    declared: Node  # the identifier
    statement: Node
    element: str
    sizes: tuple[Node, ...]  # outermost first; without that of `[]`
    dynamic: bool

    @property
    def rank(self) -> int:
        """How many subscripts lead to an element; 0 for a variable that is not an array."""
        return len(self.sizes) + (1 if self.dynamic else 0)


def shared_declarations(names: Names) -> Iterator[SharedDeclaration]:
    """Yield the shared variables in the order of the file, then those that macros declare by a name they are given."""
    file = names.file
    for node in file.nodes("declaration"):
        yield from _shared(file, node)
    for call in file.nodes("call_expression"):
        arguments, statement = call.arguments, call.parent
        if not arguments or statement.type != "expression_statement":
            continue
        for macro in (d for d in names.callables.get(call.part("function").text, []) if d.macro and d.parameters):
            for node in macro.body.walk():
                for shared in _shared(file, node) if node.type == "declaration" else ():
                    if shared.name == macro.parameters[0].text:
                        yield replace(shared, name=arguments[0].text, declared=arguments[0], statement=statement)


def _shared(file: CudaFile, node: Node) -> Iterator[SharedDeclaration]:
    words = [child.text for child in node.children if child.type in ("type_qualifier", "storage_class_specifier")]
    if SHARED not in words or not node.part("type"):
        return
    element, inner = file.array_alias(node.part("type").text)
    for declarator in node.every("declarator"):
        if name := declared_name(declarator):
            sizes, dynamic = _sizes(declarator)
            yield SharedDeclaration(
                name=name.text, declared=name, statement=node, element=element, sizes=(*sizes, *inner), dynamic=dynamic
            )


def sizes_of(declared: Node, file: CudaFile | None = None) -> tuple[Node, ...]:
    """Return the sizes of the dimensions that the declaration of a name gives, outermost first.

    With its file, also those of an array that its type is an alias of.
    """
    type_ = declared.above("declaration", "parameter_declaration", "field_declaration").part("type")
    inner = file.array_alias(type_.text)[1] if file and type_ else ()
    declarator = declared
    while declarator.parent.type.endswith("_declarator") and declarator.parent.type != "init_declarator":
        declarator = declarator.parent
    return (*(_sizes(declarator)[0] or _mistaken(declared)), *inner)


def _mistaken(declared: Node) -> tuple[Node, ...]:
    """Return the sizes in ``float (*p)[32] = t;``, which the grammar parses as subscripts."""
    sizes, node = list[Node](), declared
    while node and node.type != "assignment_expression":
        sizes += node.arguments[:1] if node.type == "subscript_expression" else []
        node = node.parent
    return tuple(sizes) if node else ()


def _sizes(declarator: Node) -> tuple[tuple[Node, ...], bool]:
    """Return the sizes of an array's dimensions, and whether the first is left open."""
    sizes: list[Node] = []
    while declarator.type == "array_declarator":
        sizes.insert(0, declarator.part("size"))
        declarator = declarator.part("declarator")
    return tuple(size for size in sizes if size), NOTHING in sizes
