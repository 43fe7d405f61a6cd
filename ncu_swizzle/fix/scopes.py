"""The names of a source: what each refers to, the functions, lambdas and macros by name, the shared arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import NOTHING, PARAMETERS, CudaFile, Inlined, Node

SCOPES = (
    "compound_statement", "for_statement", "for_range_loop", "if_statement", "while_statement", "function_definition",
    "lambda_expression", "translation_unit", "declaration_list", "preproc_function_def", "field_declaration_list",
)  # fmt: skip
WRAPPERS = (
    "pointer_declarator", "reference_declarator", "array_declarator", "init_declarator", "parenthesized_declarator",
    "function_declarator", "attributed_declarator",
)  # fmt: skip
NAMES = ("identifier", "field_identifier", "type_identifier", "namespace_identifier", "operator_name")
DECLARING = ("declaration", "field_declaration", "for_range_loop", *PARAMETERS)
HEAD = b"int f(){"  # before a macro's body, so that it parses as statements
SHARED = "__shared__"


@dataclass(frozen=True, eq=False, kw_only=True)
class Definition:
    """A function, a lambda or a macro: its parameters' declared names in order, and its body."""

    name: str
    node: Node  # the definition
    body: Node
    parameters: tuple[Node, ...]  # the identifiers, `NOTHING` for one without a name
    macro: bool = False

    @property
    def statements(self) -> list[Node]:
        """The statements of its body, without comments."""
        return [child for child in self.body.named_children if child.type != "comment"]

    def parameter(self, number: int) -> Node:
        """Return the identifier of a parameter; `NOTHING` also if there are not that many."""
        return self.parameters[number] if number < len(self.parameters) else NOTHING

    def takes(self, declared: Node) -> int | None:
        """Return which of its parameters a declared name is; None if it is none of them."""
        return self.parameters.index(declared) if declared and declared in self.parameters else None


@dataclass(eq=False)
class Scopes:
    """The names of a file, looked up the way C++ does, as far as one file tells: what all guards ask."""

    file: CudaFile
    indexing: dict[int, Inlined] = field(default_factory=dict)  # calls of views' methods, by what they index with
    _declared: dict[int, dict[str, list[Node]]] = field(default_factory=dict, init=False)  # by the scope's node
    _changed: dict[int, bool] = field(default_factory=dict, init=False)  # by the declared name
    _macros: dict[int, Definition] = field(default_factory=dict, init=False)  # by the root of the body: another tree

    def __post_init__(self) -> None:
        for node in self.file.root.walk():
            for name in _declares(node):
                self._declare(name, node)
        for call, argument, _ in self.declaring:
            self._declare(argument, call)

    def _declare(self, name: Node, node: Node) -> None:
        if node.type == "parameter_declaration":
            scope = node.above("function_definition", "lambda_expression", "template_declaration")
        elif node.type == "preproc_function_def":
            scope = node
        else:
            scope = node.above(*SCOPES)
        if scope:
            self._declared.setdefault(scope.id, {}).setdefault(name.text, []).append(name)

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
            value, named = node.part("value"), node.part("declarator")
            if value.type != "lambda_expression":
                return None
            node, declarator = value, value.part("declarator")
        else:
            declarator = next((n for n in node.walk() if n.type == "function_declarator"), NOTHING)
            named = declarator.part("declarator")
        body = node.part("body")
        if not body or not named:
            return None
        while named.type in ("qualified_identifier", "template_function") and (inner := named.part("name")):
            named = inner  # a specialisation has the name of its template
        name = "".join(named.text.rpartition("::")[2].split())
        parameters = tuple(_parameters(declarator.part("parameters")))
        return Definition(name=name, node=node, body=body, parameters=parameters)

    def _macro(self, node: Node) -> Definition | None:
        name, value, listed = (node.part(part) for part in ("name", "value", "parameters"))
        if not name or not value:
            return None
        # The body is parsed apart, behind spaces, so that its nodes have the bytes of the file.
        start, end = value.start_byte, value.end_byte
        text = b" " * (start - len(HEAD)) + HEAD + self.file.text[start:end] + b"\n;}"
        root = cuda.tree(text, self.file.text)
        parameters = tuple(n for n in listed.children if n.type == "identifier")
        definition = Definition(name=name.text, node=node, body=root, parameters=parameters, macro=True)
        self._macros[root.id] = definition
        for below in root.walk():
            for declared in _declares(below):
                self._declare(declared, below)
        return definition

    @cached_property
    def declaring(self) -> tuple[tuple[Node, Node, Definition], ...]:
        """The statements that are a macro which declares a shared array by the name that it is given."""
        found: list[tuple[Node, Node, Definition]] = []
        for node in self.file.nodes("call_expression"):
            given, statement = node.arguments, node.parent
            if not given or statement.type != "expression_statement":
                continue
            for definition in self.callables.get(node.part("function").text, []):
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
        for node in (node for tree in self.trees for node in tree.walk() if node.type in NAMES):
            found.setdefault("".join(node.text.split()), []).append(node)
        return found

    def calls(self, name: str) -> list[Node]:
        """Return the calls of a name in the file, without those in macros."""
        return [node for node in self.file.nodes("call_expression") if node.called == name]

    def members(self, name: str) -> Iterator[Node]:
        """Yield the names in the file that are declared as members of a class."""
        for node in self.mentions.get(name, []):
            if node.type == "field_identifier" and node.above("field_declaration"):
                yield node

    # ------------------------------------------------------------------------------------ what a name refers to

    def uses(self, declared: Node) -> Iterator[Node]:
        """Yield the names that refer to a declared one."""
        for node in self.mentions.get(declared.text, []):
            names = node.type in ("identifier", "type_identifier") and node is not declared
            if names and self.resolve(node) is declared:
                yield node

    def is_changed(self, declared: Node) -> bool:
        """Return whether a variable may have another value than it was declared with."""
        if declared.id not in self._changed:
            self._changed[declared.id] = any(map(changes, self.uses(declared)))
        return self._changed[declared.id]

    def resolve(self, use: Node, name: str = "") -> Node:
        """Return the declared name that an identifier, or another `name` there, refers to, if any is declared."""
        name, holder = name or use.text, use.parent
        while holder:
            if found := self._visible(holder, name, use) or self._inherited(holder, name, use):
                return found
            if holder.id in self._macros:
                macro = self._macros[holder.id]
                return self._visible(macro.node, name, use) or self._left_free(macro, name)
            holder = holder.parent
        return NOTHING

    def meant(self, node: Node) -> Node:
        """Return the declared name that an expression is, if it is a single name."""
        return self.resolve(node) if node.type == "identifier" else NOTHING

    def _visible(self, scope: Node, name: str, use: Node) -> Node:
        declared = self._declared.get(scope.id, {}).get(name, [])
        anywhere = scope.type == "field_declaration_list"  # methods see all members
        seen = (node for node in reversed(declared) if anywhere or node.start_byte <= use.start_byte)
        return next((node for node in seen if not _captures(node, use)), NOTHING)

    def _inherited(self, function: Node, name: str, use: Node) -> Node:
        """Return what a name refers to in a class whose method is defined out of it."""
        if function.type != "function_definition" or b"::" not in self.file.text:
            return NOTHING
        return self._visible(self.file.class_of(function).part("body"), name, use)

    def _left_free(self, macro: Definition, name: str) -> Node:
        """Return the declaration of a name that a macro leaves to where it is used, if it is the same everywhere."""
        every = self.declarations(name)
        if len(every) < 2:
            return every[0] if every else NOTHING
        sites = [site for site in self.mentions.get(macro.name, []) if not site.parent.type.startswith("preproc")]
        elsewhere = [site for site in sites if self.macro(site) is None]
        meant = {declared.id: declared for declared in (self.resolve(site, name) for site in elsewhere)}
        return next(iter(meant.values())) if len(meant) == 1 and elsewhere == sites else NOTHING

    def declarations(self, name: str) -> list[Node]:
        """Return the declarations of a name anywhere in the file, but for members."""
        every = [node for names in self._declared.values() for node in names.get(name, [])]
        return [node for node in every if node.type != "field_identifier"]

    def macro(self, node: Node) -> Definition | None:
        """Return the macro whose body a node is in; None if it is in none."""
        while node.parent:
            node = node.parent
        return self._macros.get(node.id)

    def taking(self, declared: Node) -> Iterator[tuple[Definition, int]]:
        """Yield the functions, lambdas and macros that a name is a parameter of, and which one."""
        for definition in self.definitions:
            if (number := definition.takes(declared)) is not None:
                yield definition, number

    def holder(self, node: Node) -> Definition | None:
        """Return the function, lambda or macro that a node is in."""
        nearest: Definition | None = None
        for definition in self.definitions:
            if node.inside(definition.body) and (nearest is None or definition.body.inside(nearest.body)):
                nearest = definition
        return nearest


def changes(use: Node) -> bool:
    """Return whether a use of a variable assigns to it, or takes its address."""
    node = use.out_of("parenthesized_expression")
    address = node.parent.type == "pointer_expression" and node.parent.text.startswith("&")
    return (
        address
        or node.is_part("left", "assignment_expression")
        or node.is_part("argument", "update_expression")
        or node.parent.type == "gnu_asm_output_operand"
    )


def _captures(declared: Node, use: Node) -> bool:
    """Return whether a name is that of a capture whose value the use is part of: ``[p = p]``."""
    captured = declared.parent.type == "lambda_capture_initializer" and use.inside(declared.parent)
    return captured and declared is not use


# Names where they are declared.


def _declares(node: Node) -> Iterator[Node]:
    """Yield the identifiers that a node declares."""
    match node.type:
        case kind if kind in DECLARING:
            for declarator in node.every("declarator"):
                yield from _named(declarator)
        case "lambda_capture_initializer":  # [p = tile]: a new name in the lambda
            yield from (child for child in node.named_children[:1] if child.type == "identifier")
        case "preproc_function_def":
            yield from (child for child in node.part("parameters").children if child.type == "identifier")
        case "expression_statement":
            if name := pointer_to_array(node):
                yield name


def pointer_to_array(node: Node) -> Node:
    """Return the name that ``float (*p)[32] = t;`` declares: the grammar takes it for an assignment."""
    expression = node.named_children[0] if len(node.named_children) == 1 else NOTHING
    left = expression.part("left") if expression.type == "assignment_expression" else NOTHING
    while left.type == "subscript_expression":
        left = left.part("argument")
    if left.type != "call_expression":
        return NOTHING
    given = left.arguments
    argument = given[0].part("argument") if [node.type for node in given] == ["pointer_expression"] else NOTHING
    return argument if argument.type == "identifier" else NOTHING


def _named(declarator: Node) -> Iterator[Node]:
    if declarator.type in ("identifier", "field_identifier"):
        yield declarator
    elif declarator.type == "structured_binding_declarator":
        yield from (child for child in declarator.named_children if child.type == "identifier")
    elif declarator.type in WRAPPERS:
        inner = declarator.part("declarator")
        for child in [inner] if inner else declarator.named_children:
            if child.type in ("identifier", "field_identifier", *WRAPPERS):
                yield from _named(child)
                return


def declared_name(declarator: Node) -> Node:
    """Return the identifier of a declarator."""
    return next(_named(declarator), NOTHING)


def _parameters(listed: Node) -> Iterator[Node]:
    for parameter in listed.named_children:
        if parameter.type in PARAMETERS:
            yield declared_name(parameter.part("declarator"))
        elif parameter.type == "variadic_parameter_declaration":
            yield NOTHING


def is_argument(node: Node) -> bool:
    """Return whether a name that the grammar takes for a type may be an argument, as in ``View v(tile);``."""
    parameter = node.parent if node.type == "type_identifier" else NOTHING
    if parameter.type != "parameter_declaration" or len(parameter.children) != 1:
        return False
    holder = parameter.parent
    for kind in ("function_declarator", "declaration", "compound_statement"):
        holder = holder.parent
        if holder.type != kind:
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
        for node in macro.body.walk():
            for shared in _shared(file, node) if node.type == "declaration" else ():
                if macro.parameters[0] and shared.name == macro.parameters[0].text:
                    yield replace(shared, name=argument.text, declared=argument, statement=call)


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
    """Return the sizes in ``float (*p)[32] = t;``, which the grammar takes for subscripts."""
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
