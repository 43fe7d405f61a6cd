"""The shared arrays that a file declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import CudaFile

if TYPE_CHECKING:
    from tree_sitter import Node

    from ncu_swizzle.fix.cuda import Inlined


# Which declaration a name refers to, and the functions, lambdas and macros that a file defines.


SCOPES = (
    "compound_statement", "for_statement", "for_range_loop", "if_statement", "while_statement", "function_definition",
    "lambda_expression", "translation_unit", "declaration_list", "preproc_function_def", "field_declaration_list",
)  # fmt: skip
WRAPPERS = (
    "pointer_declarator", "reference_declarator", "array_declarator", "init_declarator", "parenthesized_declarator",
    "function_declarator", "attributed_declarator",
)  # fmt: skip
NAMES = ("identifier", "field_identifier", "type_identifier", "namespace_identifier", "operator_name")
HEAD = b"int f(){"


@dataclass(frozen=True, eq=False, kw_only=True)
class Definition:
    """A function, a lambda or a macro: its parameters' declared names in order, and its body."""

    name: str
    node: Node  # the definition
    body: Node
    parameters: tuple[Node | None, ...]  # the identifiers, None for one without a name
    macro: bool = False


@dataclass(eq=False)
class Scopes:
    """The names of a file, looked up the way C++ does, as far as one file tells."""

    file: CudaFile
    _declared: dict[int, dict[str, list[Node]]] = field(default_factory=dict, init=False)
    _bodies: list[Node] = field(default_factory=list, init=False)  # of macros: trees of their own
    indexing: dict[int, Inlined] = field(default_factory=dict)  # calls of views' methods, by what they index with
    _macro_of: dict[int, Node] = field(default_factory=dict, init=False)  # by the root of its body

    def __post_init__(self) -> None:
        for node in cuda.walk(self.file.root):
            for name in _declares(node):
                self._declare(name, node)
        for call, argument, _ in self.declaring:
            self._declare(argument, call)

    @cached_property
    def declaring(self) -> tuple[tuple[Node, Node, Definition], ...]:
        """The statements that are a macro which declares a shared array by the name that it is given."""
        found: list[tuple[Node, Node, Definition]] = []
        for node in self.file.nodes("call_expression"):
            function, listed = cuda.field_of(node, "function"), cuda.field_of(node, "arguments")
            statement = node.parent
            if function is None or listed is None or not listed.named_child_count or statement is None:
                continue
            for made in self.callables.get(self.file.of(function), []):
                if (
                    made.macro
                    and statement.type == "expression_statement"
                    and b"__shared__" in self.file.text[made.body.start_byte : made.body.end_byte]
                ):
                    found.append((statement, listed.named_children[0], made))
        return tuple(found)

    def _declare(self, name: Node, node: Node) -> None:
        scope = _scope_of(node)
        if scope is not None:
            self._declared.setdefault(scope.id, {}).setdefault(self.file.of(name), []).append(name)

    @cached_property
    def callables(self) -> dict[str, list[Definition]]:
        """What the file defines, by name; overloads together."""
        found: dict[str, list[Definition]] = {}
        for node in cuda.walk(self.file.root):
            made = self._callable(node)
            if made:
                found.setdefault(made.name, []).append(made)
        return found

    @cached_property
    def trees(self) -> tuple[Node, ...]:
        """The roots of all trees: the file's, and one per macro body."""
        return (self.file.root, *(made.body for all_ in self.callables.values() for made in all_ if made.macro))

    @cached_property
    def mentions(self) -> dict[str, list[Node]]:
        """All names in the file and in its macros, by their text."""
        found: dict[str, list[Node]] = {}
        for node in (node for tree in self.trees for node in cuda.walk(tree) if node.type in NAMES):
            found.setdefault("".join(self.file.of(node).split()), []).append(node)
        return found

    def uses(self, declared: Node) -> Iterator[Node]:
        """Yield the names that refer to a declared one."""
        for node in self.mentions.get(self.file.of(declared), []):
            names = node.type in ("identifier", "type_identifier") and not cuda.same(node, declared)
            if names and cuda.same(self.resolve(node), declared):
                yield node

    def identifiers(self) -> Iterator[Node]:
        for tree in self.trees:
            yield from (node for node in cuda.walk(tree) if node.type == "identifier" or _argument(node))

    def resolve(self, use: Node, name: str = "") -> Node | None:
        """Return the declared name that an identifier, or another `name` there, refers to; None if none is declared."""
        name = name or self.file.of(use)
        holder: Node | None = use.parent
        while holder is not None:
            found = self._visible(holder, name, use) or self._inherited(holder, name, use)
            if found is not None:
                return found
            if holder.parent is None and holder.id in self._macro_of:
                return self._visible(self._macro_of[holder.id], name, use) or self._anywhere(name)
            holder = holder.parent
        return None

    def _visible(self, scope: Node, name: str, use: Node) -> Node | None:
        declared = self._declared.get(scope.id, {}).get(name, [])
        anywhere = scope.type == "field_declaration_list"  # methods see all members
        seen = (node for node in reversed(declared) if anywhere or node.start_byte <= use.start_byte)
        return next((node for node in seen if not _captures(node, use)), None)

    def _inherited(self, function: Node, name: str, use: Node) -> Node | None:
        """Return what a name refers to in a class whose method is defined out of it."""
        if function.type != "function_definition" or b"::" not in self.file.text:
            return None
        struct = cuda.of_function(self.file, function)
        body = cuda.field_of(struct, "body") if struct is not None else None
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
        made = (made for every in self.callables.values() for made in every if made.macro)
        return next((each for each in made if cuda.same(each.body, node)), None)

    def taking(self, declared: Node) -> Iterator[tuple[Definition, int]]:
        """Yield the functions, lambdas and macros that a name is a parameter of, and which one."""
        for made in (made for every in self.callables.values() for made in every):
            for number, parameter in enumerate(made.parameters):
                if cuda.same(parameter, declared):
                    yield made, number

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
        for made in (made for all_ in self.callables.values() for made in all_):
            if cuda.inside(node, made.body) and (nearest is None or cuda.inside(made.body, nearest.body)):
                nearest = made
        return nearest

    def _callable(self, node: Node) -> Definition | None:
        match node.type:
            case "function_definition":
                return self._function(node)
            case "init_declarator":
                value, name = cuda.field_of(node, "value"), cuda.field_of(node, "declarator")
                if value is not None and name is not None and value.type == "lambda_expression":
                    return self._lambda(name, value)
            case "preproc_function_def" | "preproc_def":
                return self._macro(node)
        return None

    def _function(self, node: Node) -> Definition | None:
        declarator = next((n for n in cuda.walk(node) if n.type == "function_declarator"), None)
        body, named = cuda.field_of(node, "body"), declarator and cuda.field_of(declarator, "declarator")
        if declarator is None or body is None or named is None:
            return None
        while named.type in ("qualified_identifier", "template_function") and (inner := cuda.field_of(named, "name")):
            named = inner  # a specialisation has the name of its template
        name = self.file.of(named).rpartition("::")[2]
        return Definition(
            name=name, node=node, body=body, parameters=tuple(_parameters(cuda.field_of(declarator, "parameters")))
        )

    def _lambda(self, name: Node, node: Node) -> Definition | None:
        declarator, body = cuda.field_of(node, "declarator"), cuda.field_of(node, "body")
        listed = cuda.field_of(declarator, "parameters") if declarator is not None else None
        return (
            Definition(name=self.file.of(name), node=node, body=body, parameters=tuple(_parameters(listed)))
            if body is not None
            else None
        )

    def _macro(self, node: Node) -> Definition | None:
        name, value, listed = (cuda.field_of(node, part) for part in ("name", "value", "parameters"))
        if name is None or value is None:
            return None
        start, end = value.start_byte, value.end_byte
        text = b" " * (start - len(HEAD)) + HEAD + self.file.text[start:end] + b"\n;}"
        root = cuda.parse(text, self.file.name).root
        self._macro_of[root.id] = node
        self._bodies.append(root)
        for below in cuda.walk(root):
            for declared in _declares(below):
                self._declare(declared, below)
        parameters = tuple(n for n in listed.children if n.type == "identifier") if listed is not None else ()
        return Definition(name=self.file.of(name), node=node, body=root, parameters=parameters, macro=True)


def _captures(declared: Node, use: Node) -> bool:
    """Return whether a name is that of a capture whose value the use is part of: ``[p = p]``."""
    holder = declared.parent
    captures = holder is not None and holder.type == "lambda_capture_initializer"
    return captures and holder is not None and cuda.inside(use, holder) and not cuda.same(declared, use)


def _argument(node: Node) -> bool:
    """Say whether a name that the grammar takes for a type may be an argument, as in ``View v(tile);``."""
    parameter = node.parent if node.type == "type_identifier" else None
    if parameter is None or parameter.type != "parameter_declaration" or parameter.child_count != 1:
        return False
    declarator = parameter.parent.parent if parameter.parent is not None else None
    declaration = declarator.parent if declarator is not None and declarator.type == "function_declarator" else None
    holder = declaration.parent if declaration is not None and declaration.type == "declaration" else None
    return holder is not None and holder.type == "compound_statement"


def _scope_of(node: Node) -> Node | None:
    if node.type in ("preproc_function_def", "function_definition", "lambda_expression"):
        return node
    if node.type == "parameter_declaration":
        return cuda.above(node, "function_definition", "lambda_expression", "template_declaration")
    return cuda.above(node, *SCOPES)


def _declares(node: Node) -> Iterator[Node]:
    """Yield the identifiers that a node declares."""
    match node.type:
        case (
            "declaration"
            | "field_declaration"
            | "parameter_declaration"
            | "optional_parameter_declaration"
            | "for_range_loop"
        ):
            for declarator in node.children_by_field_name("declarator"):
                yield from _named(declarator)
        case "lambda_capture_initializer":  # [p = tile]: a new name in the lambda
            yield from (child for child in node.named_children[:1] if child.type == "identifier")
        case "preproc_function_def":
            listed = cuda.field_of(node, "parameters")
            yield from (child for child in (listed.children if listed else ()) if child.type == "identifier")
        case "expression_statement":
            yield from (name for name in [pointer_to_array(node)] if name is not None)


def pointer_to_array(node: Node) -> Node | None:
    """Return the name that ``float (*p)[32] = t;`` declares: the grammar takes it for an assignment."""
    made = node.named_children[0] if node.named_child_count == 1 else None
    left = cuda.field_of(made, "left") if made is not None and made.type == "assignment_expression" else None
    while left is not None and left.type == "subscript_expression":
        left = cuda.field_of(left, "argument")
    if left is None or left.type != "call_expression":
        return None
    kind, listed = cuda.field_of(left, "function"), cuda.field_of(left, "arguments")
    inner = listed.named_children[0] if listed is not None and listed.named_child_count == 1 else None
    if kind is None or inner is None or inner.type != "pointer_expression":
        return None
    argument = cuda.field_of(inner, "argument")
    return argument if argument is not None and argument.type == "identifier" else None


def _named(declarator: Node) -> Iterator[Node]:
    if declarator.type in ("identifier", "field_identifier"):
        yield declarator
    elif declarator.type == "structured_binding_declarator":
        yield from (child for child in declarator.named_children if child.type == "identifier")
    elif declarator.type in WRAPPERS:
        inner = cuda.field_of(declarator, "declarator")
        for child in [inner] if inner is not None else declarator.named_children:
            if child.type in ("identifier", "field_identifier", *WRAPPERS):
                yield from _named(child)
                return


def declared_name(declarator: Node) -> Node | None:
    """Return the identifier of a declarator."""
    return next(_named(declarator), None)


def _parameters(listed: Node | None) -> Iterator[Node | None]:
    for parameter in listed.named_children if listed is not None else ():
        if parameter.type in ("parameter_declaration", "optional_parameter_declaration"):
            declarator = cuda.field_of(parameter, "declarator")
            yield declared_name(declarator) if declarator is not None else None
        elif parameter.type == "variadic_parameter_declaration":
            yield None


SHARED = "__shared__"


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
        """How many subscripts lead to an element; one for a variable that is no array, too."""
        return len(self.sizes) + (1 if self.dynamic else 0)


def shared_declarations(scopes: Scopes) -> Iterator[SharedDeclaration]:
    """Yield the shared variables in the order of the file, then those that macros declare."""
    file = scopes.file
    for node in file.nodes("declaration"):
        yield from _declared(file, node)
    for call, argument, macro in scopes.declaring:
        parameter = macro.parameters[0]
        for node in cuda.walk(macro.body):
            for made in _declared(file, node) if node.type == "declaration" else ():
                if parameter is not None and made.name == file.of(parameter):
                    yield replace(made, name=file.of(argument), declared=argument, statement=call)


def _declared(file: CudaFile, node: Node) -> Iterator[SharedDeclaration]:
    words = [file.of(child) for child in node.children if child.type in ("type_qualifier", "storage_class_specifier")]
    type_ = cuda.field_of(node, "type")
    if SHARED not in words or type_ is None:
        return
    for declarator in node.children_by_field_name("declarator"):
        name = declared_name(declarator)
        if name is not None:
            sizes, open_ = _sizes(declarator)
            element, inner = cuda.array_alias(file, file.of(type_))
            yield SharedDeclaration(
                name=file.of(name),
                declared=name,
                statement=node,
                element=element,
                sizes=(*sizes, *inner),
                dynamic=open_,
            )


def sizes_of(declared: Node, file: CudaFile | None = None) -> tuple[Node, ...]:
    """Return the sizes of the dimensions that the declaration of a name gives, outermost first.

    With its file, also those of an array that its type is an alias of.
    """
    holder = cuda.above(declared, "declaration", "parameter_declaration", "field_declaration")
    type_ = cuda.field_of(holder, "type") if holder is not None else None
    inner = cuda.array_alias(file, file.of(type_))[1] if file is not None and type_ is not None else ()
    return (*_own_sizes(declared), *inner)


def _own_sizes(declared: Node) -> tuple[Node, ...]:
    declarator = declared
    while declarator.parent is not None and declarator.parent.type.endswith("_declarator"):
        if declarator.parent.type == "init_declarator":
            break
        declarator = declarator.parent
    made = _sizes(declarator)[0]
    return made or _mistaken(declared)


def _mistaken(declared: Node) -> tuple[Node, ...]:
    """Return the sizes in ``float (*p)[32] = t;``, which the grammar takes for subscripts."""
    sizes: list[Node] = []
    node: Node | None = declared
    while node is not None and node.type != "assignment_expression":
        indices = cuda.field_of(node, "indices") if node.type == "subscript_expression" else None
        sizes += indices.named_children[:1] if indices is not None else []
        node = node.parent
    return tuple(sizes) if node is not None else ()


def _sizes(declarator: Node) -> tuple[tuple[Node, ...], bool]:
    """Return the sizes of an array's dimensions, and whether the first is left open."""
    sizes: list[Node] = []
    open_ = False
    node: Node | None = declarator
    while node is not None and node.type == "array_declarator":
        size = cuda.field_of(node, "size")
        open_ = open_ or size is None
        sizes[:0] = [size] if size is not None else []
        node = cuda.field_of(node, "declarator")
    return tuple(sizes), open_
