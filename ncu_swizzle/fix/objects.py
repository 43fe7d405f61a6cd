"""Classes of a file and their objects: their members, what objects are made with, and what methods compute.

Also calls that stand for one expression, and where else a source speaks of a class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import CLASSES, PARAMETERS, CudaFile, Inlined, field_of
from ncu_swizzle.fix.edits import Edit
from ncu_swizzle.fix.scopes import SHARED, Definition, Scopes, declared_name, sizes_of
from ncu_swizzle.fix.webs import ReachStep, Web

if TYPE_CHECKING:
    from tree_sitter import Node


# The members of a class.


def members(struct: Node) -> Iterator[tuple[Node, Node]]:
    """Yield the declarations in a class, each with an identifier that it declares."""
    body = field_of(struct, "body")
    for declaration in body.named_children if body is not None else ():
        for declarator in declaration.children_by_field_name("declarator"):
            if (declared := declared_name(declarator)) is not None:
                yield declaration, declared


def member(file: CudaFile, struct: Node | None, name: str) -> Node | None:
    """Return the identifier in the declaration of a class's member; None if the class does not have it."""
    found = members(struct) if struct is not None else ()
    return next((declared for _, declared in found if file.of(declared) == name), None)


def _of_each_object(struct: Node) -> list[Node]:
    """Return the identifiers of what every object has: static members are elsewhere."""
    return [
        declared
        for declaration, declared in members(struct)
        if declaration.type == "field_declaration"
        and not any(child.type == "storage_class_specifier" for child in declaration.children)
    ]


def arrays(struct: Node) -> list[Node]:
    """Return the identifiers of the arrays in each object of a class."""
    return [declared for declared in _of_each_object(struct) if sizes_of(declared)]


def numbers(file: CudaFile, struct: Node) -> list[str]:
    """Return the names of the members that are neither pointers nor arrays."""
    every = (declared for _, declared in members(struct))
    return [file.of(d) for d in every if d.parent is not None and not d.parent.type.endswith("_declarator")]


def opened(struct: Node) -> Iterator[Edit]:
    """Yield the edits that make everything in a class public."""
    body = field_of(struct, "body")
    for child in body.children if body is not None else ():
        colon = child.next_sibling if child.type == "access_specifier" else None
        at = child.end_byte if child.type == "{" else colon.end_byte if colon is not None else None
        if at is not None:
            yield Edit(at, at, " public: ")


# Calls that stand for one expression: of a macro, or of a function or lambda that only returns it.


def inlined(scopes: Scopes, node: Node) -> Inlined | None:
    """Return what a call, or the name of a macro, stands for; None if that is not one expression of this file."""
    if node.id in scopes.indexing:
        return scopes.indexing[node.id]
    call = node.type == "call_expression" and field_of(node, "arguments") is not None
    definitions = scopes.callables.get(scopes.file.called(node) if call else scopes.file.of(node), [])
    if len(definitions) != 1 or not (call or definitions[0].macro):
        return None
    (definition,) = definitions
    body, given = only_expression(definition), cuda.arguments(node) if call else []
    if body is None or len(given) != len(definition.parameters) or None in definition.parameters:
        return None
    names = [scopes.file.of(declared) for declared in definition.parameters]
    closed = frozenset(name for name in names if not definition.macro or _enclosed(scopes.file, body, name))
    return Inlined(body=body, arguments=dict(zip(names, given, strict=True)), closed=closed)


def only_expression(definition: Definition) -> Node | None:
    """Return the only expression of a definition; None if it is more than that."""
    body = definition.body
    if definition.macro:
        found = next((node for node in cuda.walk(body) if node.type == "compound_statement"), None)
        if body.has_error or found is None:
            return None
        body = found
    statements = [child for child in body.named_children if child.type != "comment"]
    wanted = "expression_statement" if definition.macro else "return_statement"
    if body.type != "compound_statement" or len(statements) != 1 or statements[0].type != wanted:
        return None
    return statements[0].named_children[0] if statements[0].named_child_count == 1 else None


def _enclosed(file: CudaFile, body: Node, name: str) -> bool:
    """Return whether a macro's parameter stands in parentheses wherever it is used."""
    uses = (node for node in cuda.walk(body) if node.type == "identifier" and file.of(node) == name)
    return all(
        use.parent is not None and use.parent.type in ("parenthesized_expression", "argument_list") for use in uses
    )


def given_by_name(file: CudaFile, definition: Definition, given: Sequence[Node]) -> dict[str, Node]:
    """Return what the parameters of a definition are given, by their names."""
    return dict(zip((file.of(parameter) for parameter in definition.parameters), given, strict=True))


# What objects are made with.


@dataclass(frozen=True, eq=False)
class MadeObject:
    """An object as it is made: its class, what its members are given, and the expression or declarator of it all."""

    struct: Node
    fields: Mapping[str, Node]
    whole: Node


def fields_made(scopes: Scopes, listed: Node | None) -> MadeObject | None:
    """Return the object that a list of arguments or initializers makes; None if its class is not this file's."""
    holder = listed.parent if listed is not None else None
    if listed is None or holder is None:
        return None
    file = scopes.file
    whole: Node = holder
    match holder.type:
        case "init_declarator":
            whole, type_ = listed, field_of(holder.parent, "type")
        case "function_declarator":  # View v(tile);
            type_ = field_of(holder.parent, "type")
        case "compound_literal_expression":
            type_ = field_of(holder, "type")
        case "return_statement":  # return {tile, 32};
            type_ = field_of(cuda.above(holder, "function_definition"), "type")
        case "call_expression":
            type_ = field_of(holder, "function")
        case _:
            type_ = None
    struct = file.class_named(file.of(type_)) if type_ is not None else None
    # Members of a base come first in an initializer list, and bases are not searched: each value would go to the wrong
    # member.
    if struct is None or any(child.type == "base_class_clause" for child in struct.children):
        return None
    given = [  # View v(tile) has what looks like types
        child.named_children[0] if child.type == "parameter_declaration" and child.named_children else child
        for child in listed.named_children
    ]
    fields = _given(scopes, struct, given)
    return MadeObject(struct, fields, whole) if fields is not None else None


def _given(scopes: Scopes, struct: Node, given: list[Node]) -> dict[str, Node] | None:
    """Return what an object's members are given; None if no constructor shows it."""
    file = scopes.file
    named = scopes.callables.get(file.of(field_of(struct, "name")), [])
    constructors = [definition for definition in named if cuda.same(file.class_of(definition.node), struct)]
    if not constructors:
        return _aggregate(file, struct, given)
    fitting = [definition for definition in constructors if len(definition.parameters) == len(given)]
    if len(fitting) != 1:
        return None
    arguments = given_by_name(file, fitting[0], given)
    found: dict[str, Node] = {}
    for name, value in _initialised(file, fitting[0]):
        if value.type == "identifier" and file.of(value) in arguments:
            found[name] = arguments[file.of(value)]
        elif value.type == "number_literal":
            found[name] = value
    return found


def _aggregate(file: CudaFile, struct: Node, given: list[Node]) -> dict[str, Node] | None:
    fields = [file.of(declared) for declared in _of_each_object(struct)]
    found: dict[str, Node] = {}
    for number, child in enumerate(given):
        if child.type == "initializer_pair":
            designator, value = field_of(child, "designator"), field_of(child, "value")
            if designator is not None and value is not None:
                found[file.of(designator).lstrip(".")] = value
        elif number < len(fields):
            found[fields[number]] = child
        else:
            return None
    return found


def _initialised(file: CudaFile, constructor: Definition) -> Iterator[tuple[str, Node]]:
    """Yield the members that a constructor sets, each with the expression."""
    for node in cuda.walk(constructor.node):
        if node.type == "field_initializer" and len(node.named_children) == 2:
            name, listed = node.named_children
            if listed.named_child_count == 1:
                yield file.of(name), listed.named_children[0]
        elif node.type == "assignment_expression" and cuda.inside(node, constructor.body):
            left, right = field_of(node, "left"), field_of(node, "right")
            if left is not None and right is not None:
                yield file.of(left).removeprefix("this->"), right


# What methods compute.


def method_of(scopes: Scopes, struct: Node, name: str, count: int) -> Definition | None:
    """Return the method of this name with `count` parameters; None if there is none, or if several differ."""
    found = [
        definition
        for definition in scopes.callables.get(name, [])
        if len(definition.parameters) == count and cuda.same(scopes.file.class_of(definition.node), struct)
    ]
    return found[0] if len({"".join(scopes.file.of(definition.body).split()) for definition in found}) == 1 else None


def methods_of(scopes: Scopes, struct: Node, pointer: str) -> Iterator[Definition]:
    """Yield the methods that name a member, without the constructors."""
    own = scopes.file.of(field_of(struct, "name"))
    for definition in scopes.definitions:
        named = definition.name != own and any(scopes.file.of(node) == pointer for node in cuda.walk(definition.body))
        if named and not definition.macro and cuda.same(scopes.file.class_of(definition.node), struct):
            yield definition


def part_called(scopes: Scopes, object_: Node, call: Node) -> Inlined | None:
    """Return what a call of an object stands for, ``RowMajor(16)`` being what it was made as."""
    function, given = field_of(call, "function"), field_of(call, "arguments")
    listed = field_of(object_, "arguments") or field_of(object_, "value")
    if (declared := scopes.meant(object_)) is not None:
        listed = field_of(declared.parent, "value")
    made_object = fields_made(scopes, listed)
    if made_object is None or function is None or given is None:
        return None
    named = field_of(function, "field") if function.type == "field_expression" else None
    name = scopes.file.of(named) if named is not None else "operator()"
    method = method_of(scopes, made_object.struct, name, given.named_child_count)
    body = only_expression(method) if method is not None else None
    if method is None or body is None:
        return None
    arguments = given_by_name(scopes.file, method, given.named_children)
    return Inlined(body=body, arguments=arguments, closed=frozenset(arguments), fields=made_object.fields)


def called_objects(scopes: Scopes, call: Node) -> Iterator[Definition]:
    """Yield what ``op(p)`` and ``Op{}(p)`` call: the operators of the object's class.

    If that is not this file's, the only operator that takes as many arguments.
    """
    function, listed = field_of(call, "function"), field_of(call, "arguments")
    if function is None or listed is None or function.type == "field_expression":
        return
    fitting = [m for m in scopes.callables.get("operator()", []) if len(m.parameters) == listed.named_child_count]
    match function.type:
        case "call_expression":  # Op()(…)
            type_ = scopes.file.of(field_of(function, "function"))
        case "identifier":
            holder = cuda.above(scopes.resolve(function), "declaration", "parameter_declaration")
            type_ = scopes.file.of(field_of(holder, "type"))
        case _:
            type_ = scopes.file.of(field_of(function, "type"))
    struct = scopes.file.class_named(type_) if type_ else None
    if struct is not None:
        yield from (definition for definition in fitting if cuda.same(scopes.file.class_of(definition.node), struct))
    elif type_ and len(fitting) == 1:
        yield fitting[0]


def handed_steps(
    scopes: Scopes, definition: Definition, call: Node, steps: Sequence[ReachStep]
) -> tuple[ReachStep, ...] | None:
    """Return the steps in a function as they are where it is called; None if more than one computes with arguments.

    A step that is a parameter is the argument; for one that computes with them, the call stands.
    """
    given = cuda.arguments(call)
    if len(definition.parameters) != len(given) or call.id in scopes.indexing:
        return None
    arguments, found = given_by_name(scopes.file, definition, given), list[ReachStep]()
    for step in steps:
        node = step.node
        if node is not None and node.type == "identifier" and scopes.file.of(node) in arguments:
            node = arguments[scopes.file.of(node)]
        elif node is not None and any(scopes.file.of(name) in arguments for name in cuda.walk(node)):
            if call.id in scopes.indexing:
                return None
            closed = frozenset(arguments)
            scopes.indexing[call.id] = Inlined(body=node, arguments=arguments, closed=closed, indexing=True)
            node = call
        found.append(replace(step, node=node))
    return tuple(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointed:
    """What a method does with a pointer: `used`, the index added to it, whether it accesses that element.

    `whole`: the element, or the address, is what it returns.
    """

    used: bool = True
    index: Node | None = None
    element: bool = False
    whole: bool = True


def pointed(file: CudaFile, method: Definition, pointer: str) -> Pointed | None:  # noqa: PLR0911
    """Return what a method does with a pointer that its object keeps; None if that is more than one expression."""
    uses = [
        node for node in cuda.walk(method.body)
        if node.type in ("identifier", "field_identifier") and file.of(node) == pointer
    ]  # fmt: skip
    if not uses:
        return Pointed(used=False)
    statements = method.statements
    kinds = ("return_statement", "expression_statement")
    if len(uses) != 1 or len(statements) != 1 or statements[0].type not in kinds or not statements[0].named_children:
        return None
    expression, returned = statements[0].named_children[0], statements[0].type == "return_statement"
    node = uses[0]
    if node.parent is not None and node.parent.type == "field_expression":
        node = node.parent
        if not file.of(node).startswith("this"):
            return None
    node = cuda.out_of(node, "parenthesized_expression")
    if cuda.same(node, expression):
        return Pointed(whole=returned)
    element = cuda.is_field(node, "argument", "subscript_expression")
    index: Node | None = None
    if element:
        given = cuda.arguments(node.parent)
        index = given[0] if len(given) == 1 else None
    elif cuda.is_field(node, "left", "binary_expression") and file.of(field_of(node.parent, "operator")) == "+":
        index = field_of(node.parent, "right")
    if index is None or node.parent is None or any(n.type == "this" for n in cuda.walk(index)):
        return None
    node = cuda.out_of(node.parent, "parenthesized_expression")
    if node.parent is not None and node.parent.type == "pointer_expression":
        if element == file.of(node.parent).startswith("*"):  # only &p[i] and *(p + i)
            return None
        element = not element
        node = cuda.out_of(node.parent, "parenthesized_expression")
    whole = returned and cuda.same(node, expression)
    return Pointed(index=index, element=element, whole=whole) if whole or element else None


def returns_only(method: Definition) -> bool:
    """Return whether a method does no more than to return something, such as a view of a part."""
    return [statement.type for statement in method.statements] == ["return_statement"]


# Where else a file speaks of a class: an edit of the class changes other objects with those in shared memory.

POINTING = (
    "reference_declarator", "pointer_declarator", "abstract_reference_declarator", "abstract_pointer_declarator",
)  # fmt: skip
NAMING = ("template_type", "template_function", "qualified_identifier")
DEFINING = ("alias_declaration", "type_definition", *CLASSES)


def elsewhere(scopes: Scopes, struct: Node, web: Web) -> Iterator[tuple[Node, str]]:
    """Yield the mentions of a class that are, or may be, objects out of shared memory, each with what to say of it."""
    file = scopes.file
    names = file.class_names(struct)
    for node in file.nodes("type_identifier", "identifier"):
        if file.of(node) in names and not _followed(file, node, web):
            holder = cuda.above(node, "declaration", "field_declaration", *PARAMETERS, "expression_statement") or node
            text = " ".join(file.of(holder).split())
            yield node, f"{file.of(node)} is used where it cannot be followed: {text[:80]}"


def _followed(file: CudaFile, node: Node, web: Web) -> bool:
    """Return whether a mention makes no object, or one that is followed."""
    while node.parent is not None and node.parent.type in NAMING:
        if cuda.is_field(node, "scope"):
            return True  # a constant or a method of the class
        if not cuda.is_field(node, "name"):
            break
        node = node.parent
    holder = node.parent
    if holder is None:
        return False
    if holder.type in DEFINING:
        return holder.type not in CLASSES or node.type == "type_identifier"
    if holder.type == "function_declarator":  # a constructor
        return cuda.above(holder, *CLASSES) is not None
    if holder.type == "type_descriptor":
        return _converted(file, holder, web)
    return _declaring(file, holder, web)


def _converted(file: CudaFile, described: Node, web: Web) -> bool:
    """Return whether a type is an alias's, or that of a conversion which is followed."""
    holder = described.parent
    if holder is None or holder.type in DEFINING:
        return holder is not None
    if holder.type == "template_argument_list":
        call = cuda.above(holder, "call_expression")
        if call is None or not cuda.same(holder.parent, field_of(call, "function")):
            return False
        if not file.called(call).endswith("_cast"):
            return False
        holder = call
    return any(cuda.inside(holder, reach.node) for reach in web.reaches)


def _declaring(file: CudaFile, holder: Node, web: Web) -> bool:
    """Return whether a declaration makes shared objects, or references that are followed."""

    def all_followed(declarators: Sequence[Node]) -> bool:
        return all((name := declared_name(d)) is not None and name.id in web.places for d in declarators)

    declarators = holder.children_by_field_name("declarator")
    if holder.type == "declaration" and SHARED in file.words(holder):
        return True
    if holder.type == "field_declaration" and declarators and all(d.type == "array_declarator" for d in declarators):
        return all_followed(declarators)
    inner = [field_of(d, "declarator") or d if d.type == "init_declarator" else d for d in declarators]
    if not inner or not all(d.type in POINTING for d in inner):
        return False
    if holder.type == "declaration":
        return all_followed(inner)
    if holder.type in ("function_definition", "field_declaration"):
        return all(d.type == "reference_declarator" for d in inner)
    return holder.type in PARAMETERS and _on_device(file, holder)


def _on_device(file: CudaFile, parameter: Node) -> bool:
    function = cuda.above(parameter, "function_definition", "field_declaration", "declaration", "lambda_expression")
    if function is None:
        return False
    words = {file.of(child) for child in function.children if child.child_count == 0}
    return function.type == "lambda_expression" or ("__device__" in words and "__global__" not in words)
