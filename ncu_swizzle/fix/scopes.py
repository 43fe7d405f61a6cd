"""The names of a source: what each refers to, the functions, lambdas and macros by name, the shared arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import PARAMETERS, CudaFile, Inlined, field_of

if TYPE_CHECKING:
    from tree_sitter import Node


SCOPES = (
    "compound_statement", "for_statement", "for_range_loop", "if_statement", "while_statement", "function_definition",
    "lambda_expression", "translation_unit", "declaration_list", "preproc_function_def", "field_declaration_list",
)  # fmt: skip
WRAPPERS = (
    "pointer_declarator", "reference_declarator", "array_declarator", "init_declarator", "parenthesized_declarator",
    "function_declarator", "attributed_declarator",
)  # fmt: skip
NAMES = ("identifier", "field_identifier", "type_identifier", "namespace_identifier", "operator_name")
HEAD = b"int f(){"  # before a macro's body, so that it parses as statements
SHARED = "__shared__"


@dataclass(frozen=True, eq=False, kw_only=True)
class Definition:
    """A function, a lambda or a macro: its parameters' declared names in order, and its body."""

    name: str
    node: Node  # the definition
    body: Node
    parameters: tuple[Node | None, ...]  # the identifiers, None for one without a name
    macro: bool = False

    @property
    def statements(self) -> list[Node]:
        """The statements of its body, without comments."""
        return [child for child in self.body.named_children if child.type != "comment"]

    def takes(self, declared: Node) -> int | None:
        """Return which of its parameters a declared name is; None if it is none of them."""
        return cuda.position(declared, self.parameters)


@dataclass(eq=False)
class Scopes:
    """The names of a file, looked up the way C++ does, as far as one file tells: what all guards ask."""

    file: CudaFile
    indexing: dict[int, Inlined] = field(default_factory=dict)  # calls of views' methods, by what they index with
    _declared: dict[int, dict[str, list[Node]]] = field(default_factory=dict, init=False)  # by the scope's node
    _macros: dict[int, Definition] = field(default_factory=dict, init=False)  # by the root of the body: another tree

    def __post_init__(self) -> None:
        for node in cuda.walk(self.file.root):
            for name in _declares(node):
                self._declare(name, node)
        for call, argument, _ in self.declaring:
            self._declare(argument, call)

    def _declare(self, name: Node, node: Node) -> None:
        if node.type == "parameter_declaration":
            scope = cuda.above(node, "function_definition", "lambda_expression", "template_declaration")
        elif node.type == "preproc_function_def":
            scope = node
        else:
            scope = cuda.above(node, *SCOPES)
        if scope is not None:
            self._declared.setdefault(scope.id, {}).setdefault(self.file.of(name), []).append(name)

    # ------------------------------------------------------------------------------------ what a file defines

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """The functions, lambdas and macros with a body, those of one name together."""
        return tuple(definition for every in self.callables.values() for definition in every)

    @cached_property
    def callables(self) -> dict[str, list[Definition]]:
        """What the file defines, by name; overloads together."""
        found: dict[str, list[Definition]] = {}
        for node in self.file.nodes("function_definition", "init_declarator", "preproc_function_def", "preproc_def"):
            definition = self._macro(node) if node.type.startswith("preproc") else self._function(node)
            if definition is not None:
                found.setdefault(definition.name, []).append(definition)
        return found

    def _function(self, node: Node) -> Definition | None:
        """Return a function, or the lambda that a variable is initialised with."""
        if node.type == "init_declarator":
            value, named = field_of(node, "value"), field_of(node, "declarator")
            if value is None or value.type != "lambda_expression":
                return None
            node, declarator = value, field_of(value, "declarator")
        else:
            declarator = next((n for n in cuda.walk(node) if n.type == "function_declarator"), None)
            named = field_of(declarator, "declarator")
        body = field_of(node, "body")
        if body is None or named is None:
            return None
        while named.type in ("qualified_identifier", "template_function") and (inner := field_of(named, "name")):
            named = inner  # a specialisation has the name of its template
        name = "".join(self.file.of(named).rpartition("::")[2].split())
        parameters = tuple(_parameters(field_of(declarator, "parameters")))
        return Definition(name=name, node=node, body=body, parameters=parameters)

    def _macro(self, node: Node) -> Definition | None:
        name, value, listed = (field_of(node, part) for part in ("name", "value", "parameters"))
        if name is None or value is None:
            return None
        # The body is parsed apart, behind spaces, so that its nodes have the bytes of the file.
        start, end = value.start_byte, value.end_byte
        text = b" " * (start - len(HEAD)) + HEAD + self.file.text[start:end] + b"\n;}"
        root = cuda.parse(text, self.file.name).root
        parameters = tuple(n for n in listed.children if n.type == "identifier") if listed is not None else ()
        definition = Definition(name=self.file.of(name), node=node, body=root, parameters=parameters, macro=True)
        self._macros[root.id] = definition
        for below in cuda.walk(root):
            for declared in _declares(below):
                self._declare(declared, below)
        return definition

    @cached_property
    def declaring(self) -> tuple[tuple[Node, Node, Definition], ...]:
        """The statements that are a macro which declares a shared array by the name that it is given."""
        found: list[tuple[Node, Node, Definition]] = []
        for node in self.file.nodes("call_expression"):
            given, statement = cuda.arguments(node), node.parent
            if not given or statement is None or statement.type != "expression_statement":
                continue
            for definition in self.callables.get(self.file.of(field_of(node, "function")), []):
                if (
                    definition.macro
                    and SHARED.encode() in self.file.text[definition.body.start_byte : definition.body.end_byte]
                ):
                    found.append((statement, given[0], definition))
        return tuple(found)

    @cached_property
    def trees(self) -> tuple[Node, ...]:
        """The roots of all trees: the file's, and one per macro body."""
        return (self.file.root, *(definition.body for definition in self.definitions if definition.macro))

    @cached_property
    def mentions(self) -> dict[str, list[Node]]:
        """All names in the file and in its macros, by their text."""
        found: dict[str, list[Node]] = {}
        for node in (node for tree in self.trees for node in cuda.walk(tree) if node.type in NAMES):
            found.setdefault("".join(self.file.of(node).split()), []).append(node)
        return found

    def calls(self, name: str) -> list[Node]:
        """Return the calls of a name in the file, without those in macros."""
        return [node for node in self.file.nodes("call_expression") if self.file.called(node) == name]

    def members(self, name: str) -> Iterator[Node]:
        """Yield the names in the file that are declared as members of a class."""
        for node in self.mentions.get(name, []):
            if node.type == "field_identifier" and cuda.above(node, "field_declaration") is not None:
                yield node

    # ------------------------------------------------------------------------------------ what a name refers to

    def uses(self, declared: Node) -> Iterator[Node]:
        """Yield the names that refer to a declared one."""
        for node in self.mentions.get(self.file.of(declared), []):
            names = node.type in ("identifier", "type_identifier") and not cuda.same(node, declared)
            if names and cuda.same(self.resolve(node), declared):
                yield node

    def resolve(self, use: Node, name: str = "") -> Node | None:
        """Return the declared name that an identifier, or another `name` there, refers to; None if none is declared."""
        name = name or self.file.of(use)
        holder: Node | None = use.parent
        while holder is not None:
            found = self._visible(holder, name, use) or self._inherited(holder, name, use)
            if found is not None:
                return found
            if holder.parent is None and holder.id in self._macros:
                return self._visible(self._macros[holder.id].node, name, use) or self._anywhere(name)
            holder = holder.parent
        return None

    def meant(self, node: Node | None) -> Node | None:
        """Return the declared name that an expression is; None if it is not a single name."""
        return self.resolve(node) if node is not None and node.type == "identifier" else None

    def _visible(self, scope: Node, name: str, use: Node) -> Node | None:
        declared = self._declared.get(scope.id, {}).get(name, [])
        anywhere = scope.type == "field_declaration_list"  # methods see all members
        seen = (node for node in reversed(declared) if anywhere or node.start_byte <= use.start_byte)
        return next((node for node in seen if not _captures(node, use)), None)

    def _inherited(self, function: Node, name: str, use: Node) -> Node | None:
        """Return what a name refers to in a class whose method is defined out of it."""
        if function.type != "function_definition" or b"::" not in self.file.text:
            return None
        body = field_of(self.file.class_of(function), "body")
        return self._visible(body, name, use) if body is not None else None

    def _anywhere(self, name: str) -> Node | None:
        """Return the only declaration of a name that a macro leaves to where it is used; None if there are several."""
        every = [node for names in self._declared.values() for node in names.get(name, [])]
        every = [node for node in every if node.type != "field_identifier"]
        return every[0] if len(every) == 1 else None

    def macro(self, node: Node) -> Definition | None:
        """Return the macro whose body a node is in; None if it is in none."""
        while node.parent is not None:
            node = node.parent
        return self._macros.get(node.id)

    def taking(self, declared: Node) -> Iterator[tuple[Definition, int]]:
        """Yield the functions, lambdas and macros that a name is a parameter of, and which one."""
        for definition in self.definitions:
            if (number := definition.takes(declared)) is not None:
                yield definition, number

    def declared_with(self, declared: Node) -> list[Node]:
        """Return the names that are declared in one scope with a name, and are the same."""
        name = self.file.of(declared)
        return next(
            (every[name] for every in self._declared.values() if any(d.id == declared.id for d in every.get(name, ()))),
            [],
        )

    def holder(self, node: Node) -> Definition | None:
        """Return the function, lambda or macro that a node is in."""
        nearest: Definition | None = None
        for definition in self.definitions:
            if cuda.inside(node, definition.body) and (nearest is None or cuda.inside(definition.body, nearest.body)):
                nearest = definition
        return nearest


def _captures(declared: Node, use: Node) -> bool:
    """Return whether a name is that of a capture whose value the use is part of: ``[p = p]``."""
    holder = declared.parent
    captures = holder is not None and holder.type == "lambda_capture_initializer"
    return captures and holder is not None and cuda.inside(use, holder) and not cuda.same(declared, use)


# Names where they are declared.


def _declares(node: Node) -> Iterator[Node]:
    """Yield the identifiers that a node declares."""
    match node.type:
        case (
            "declaration"
            | "field_declaration"
            | "for_range_loop"
            | "parameter_declaration"
            | "optional_parameter_declaration"
        ):
            for declarator in node.children_by_field_name("declarator"):
                yield from _named(declarator)
        case "lambda_capture_initializer":  # [p = tile]: a new name in the lambda
            yield from (child for child in node.named_children[:1] if child.type == "identifier")
        case "preproc_function_def":
            listed = field_of(node, "parameters")
            yield from (child for child in (listed.children if listed else ()) if child.type == "identifier")
        case "expression_statement":
            yield from (name for name in [pointer_to_array(node)] if name is not None)


def pointer_to_array(node: Node) -> Node | None:
    """Return the name that ``float (*p)[32] = t;`` declares: the grammar takes it for an assignment."""
    expression = node.named_children[0] if node.named_child_count == 1 else None
    left = (
        field_of(expression, "left") if expression is not None and expression.type == "assignment_expression" else None
    )
    while left is not None and left.type == "subscript_expression":
        left = field_of(left, "argument")
    if left is None or left.type != "call_expression":
        return None
    kind, given = field_of(left, "function"), cuda.arguments(left)
    if kind is None or len(given) != 1 or given[0].type != "pointer_expression":
        return None
    argument = field_of(given[0], "argument")
    return argument if argument is not None and argument.type == "identifier" else None


def _named(declarator: Node) -> Iterator[Node]:
    if declarator.type in ("identifier", "field_identifier"):
        yield declarator
    elif declarator.type == "structured_binding_declarator":
        yield from (child for child in declarator.named_children if child.type == "identifier")
    elif declarator.type in WRAPPERS:
        inner = field_of(declarator, "declarator")
        for child in [inner] if inner is not None else declarator.named_children:
            if child.type in ("identifier", "field_identifier", *WRAPPERS):
                yield from _named(child)
                return


def declared_name(declarator: Node | None) -> Node | None:
    """Return the identifier of a declarator."""
    return next(_named(declarator), None) if declarator is not None else None


def _parameters(listed: Node | None) -> Iterator[Node | None]:
    for parameter in listed.named_children if listed is not None else ():
        if parameter.type in PARAMETERS:
            yield declared_name(field_of(parameter, "declarator"))
        elif parameter.type == "variadic_parameter_declaration":
            yield None


def is_argument(node: Node) -> bool:
    """Return whether a name that the grammar takes for a type may be an argument, as in ``View v(tile);``."""
    parameter = node.parent if node.type == "type_identifier" else None
    if parameter is None or parameter.type != "parameter_declaration" or parameter.child_count != 1:
        return False
    holder = parameter.parent
    for kind in ("function_declarator", "declaration", "compound_statement"):
        holder = holder.parent if holder is not None else None
        if holder is None or holder.type != kind:
            return False
    return True


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
        """How many subscripts lead to an element; 1 also for a variable that is not an array."""
        return len(self.sizes) + (1 if self.dynamic else 0)


def shared_declarations(scopes: Scopes) -> Iterator[SharedDeclaration]:
    """Yield the shared variables in the order of the file, then those that macros declare."""
    file = scopes.file
    for node in file.nodes("declaration"):
        yield from _shared(file, node)
    for call, argument, macro in scopes.declaring:
        for node in cuda.walk(macro.body):
            for shared in _shared(file, node) if node.type == "declaration" else ():
                if macro.parameters[0] is not None and shared.name == file.of(macro.parameters[0]):
                    yield replace(shared, name=file.of(argument), declared=argument, statement=call)


def _shared(file: CudaFile, node: Node) -> Iterator[SharedDeclaration]:
    words = [file.of(child) for child in node.children if child.type in ("type_qualifier", "storage_class_specifier")]
    type_ = field_of(node, "type")
    if SHARED not in words or type_ is None:
        return
    for declarator in node.children_by_field_name("declarator"):
        if (name := declared_name(declarator)) is not None:
            sizes, dynamic = _sizes(declarator)
            element, inner = file.array_alias(file.of(type_))
            yield SharedDeclaration(
                name=file.of(name),
                declared=name,
                statement=node,
                element=element,
                sizes=(*sizes, *inner),
                dynamic=dynamic,
            )


def sizes_of(declared: Node, file: CudaFile | None = None) -> tuple[Node, ...]:
    """Return the sizes of the dimensions that the declaration of a name gives, outermost first.

    With its file, also those of an array that its type is an alias of.
    """
    type_ = field_of(cuda.above(declared, "declaration", "parameter_declaration", "field_declaration"), "type")
    inner = file.array_alias(file.of(type_))[1] if file is not None and type_ is not None else ()
    declarator = declared
    while declarator.parent is not None and declarator.parent.type.endswith("_declarator"):
        if declarator.parent.type == "init_declarator":
            break
        declarator = declarator.parent
    return (*(_sizes(declarator)[0] or _mistaken(declared)), *inner)


def _mistaken(declared: Node) -> tuple[Node, ...]:
    """Return the sizes in ``float (*p)[32] = t;``, which the grammar takes for subscripts."""
    sizes: list[Node] = []
    node: Node | None = declared
    while node is not None and node.type != "assignment_expression":
        sizes += cuda.arguments(node)[:1] if node.type == "subscript_expression" else []
        node = node.parent
    return tuple(sizes) if node is not None else ()


def _sizes(declarator: Node) -> tuple[tuple[Node, ...], bool]:
    """Return the sizes of an array's dimensions, and whether the first is left open."""
    sizes: list[Node] = []
    dynamic = False
    node: Node | None = declarator
    while node is not None and node.type == "array_declarator":
        size = field_of(node, "size")
        dynamic = dynamic or size is None
        sizes[:0] = [size] if size is not None else []
        node = field_of(node, "declarator")
    return tuple(sizes), dynamic
