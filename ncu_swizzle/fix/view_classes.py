"""Classes that keep pointers: what their objects are made with, and the index that a method computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.fix import cuda, expressions
from ncu_swizzle.fix.cuda import CudaFile, Inlined
from ncu_swizzle.fix.scopes import Definition, Scopes

if TYPE_CHECKING:
    from tree_sitter import Node


# Calls that stand for one expression: of a macro, or of a function or lambda that only returns it.


def inlined(scopes: Scopes, node: Node) -> Inlined | None:
    """Return what a call, or the name of a macro, stands for; None if that is not one expression of this file."""
    if node.id in scopes.indexing:
        return scopes.indexing[node.id]
    listed = cuda.field_of(node, "arguments") if node.type == "call_expression" else None
    name = cuda.called(scopes.file, node) if listed is not None else scopes.file.of(node)
    every = scopes.callables.get(name, [])
    if len(every) != 1 or (listed is None and not every[0].macro):
        return None
    (made,), given = every, listed.named_children if listed is not None else []
    names = [scopes.file.of(declared) for declared in made.parameters if declared is not None]
    body = only_expression(made)
    if body is None or len(names) != len(given) or len(names) != len(made.parameters):
        return None
    closed = frozenset(name for name in names if not made.macro or _enclosed(scopes, body, name))
    return Inlined(body=body, arguments=dict(zip(names, given, strict=True)), closed=closed)


def only_expression(made: Definition) -> Node | None:
    """Return the only expression of a definition; None if it is more than that."""
    body = made.body
    if made.macro:
        found = next((node for node in cuda.walk(body) if node.type == "compound_statement"), None)
        if body.has_error or found is None:
            return None
        body = found
    if body.type != "compound_statement":
        return None
    statements = [child for child in body.named_children if child.type != "comment"]
    wanted = "expression_statement" if made.macro else "return_statement"
    if len(statements) != 1 or statements[0].type != wanted or statements[0].named_child_count != 1:
        return None
    return statements[0].named_children[0]


def _enclosed(scopes: Scopes, body: Node, name: str) -> bool:
    uses = [node for node in cuda.walk(body) if node.type == "identifier" and scopes.file.of(node) == name]
    return all(
        use.parent is not None and use.parent.type in ("parenthesized_expression", "argument_list") for use in uses
    )


@dataclass(frozen=True, eq=False)
class MadeObject:
    """An object as it is made: its class, what its members are given, and the expression or declarator of it all."""

    struct: Node
    fields: Mapping[str, Node]
    whole: Node


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointed:
    """What a method does with a pointer: `used`, the index added to it, whether it accesses that element.

    `whole`: the element, or the address, is what it returns.
    """

    used: bool = True
    index: Node | None = None
    element: bool = False
    whole: bool = True


def fields_made(scopes: Scopes, listed: Node) -> MadeObject | None:
    """Return the object that a list of arguments or initializers makes; None if its class is not this file's."""
    file, whole, type_ = scopes.file, listed, ""
    holder = listed.parent
    if holder is None:
        return None
    match holder.type:
        case "init_declarator":
            type_ = _type(file, holder.parent)
        case "function_declarator":  # View v(tile);
            whole, type_ = holder, _type(file, holder.parent)
        case "compound_literal_expression":
            whole, type_ = holder, _type(file, holder)
        case "return_statement":  # return {tile, 32};
            whole, type_ = holder, _type(file, cuda.above(holder, "function_definition"))
        case "call_expression":
            function = cuda.field_of(holder, "function")
            whole, type_ = holder, file.of(function) if function is not None else ""
    struct = cuda.find(file, type_) if type_ else None
    if struct is None or any(child.type == "base_class_clause" for child in struct.children):
        return None
    given = [  # View v(tile) has what looks like types
        child.named_children[0] if child.type == "parameter_declaration" and child.named_children else child
        for child in listed.named_children
    ]
    fields = _given(scopes, struct, given)
    return MadeObject(struct, fields, whole) if fields is not None else None


def _type(file: CudaFile, node: Node | None) -> str:
    type_ = cuda.field_of(node, "type") if node is not None else None
    return file.of(type_) if type_ is not None else ""


def _given(scopes: Scopes, struct: Node, given: list[Node]) -> dict[str, Node] | None:
    """Return what an object's members are given; None if no constructor shows it."""
    file = scopes.file
    named = cuda.field_of(struct, "name")
    constructors = [
        made
        for made in scopes.callables.get(file.of(named) if named is not None else "", [])
        if cuda.same(cuda.of_function(file, made.node), struct)
    ]
    if not constructors:
        return _aggregate(file, struct, given)
    fitting = [made for made in constructors if len(made.parameters) == len(given)]
    if len(fitting) != 1:
        return None
    (made,) = fitting
    names = [file.of(name) if name is not None else "" for name in made.parameters]
    arguments = dict(zip(names, given, strict=True))
    found: dict[str, Node] = {}
    for field, value in _initialised(file, made):
        if value.type == "identifier":
            if file.of(value) in arguments:
                found[field] = arguments[file.of(value)]
        elif value.type == "number_literal":
            found[field] = value
    return found


def _aggregate(file: CudaFile, struct: Node, given: list[Node]) -> dict[str, Node] | None:
    fields = [
        file.of(declared)
        for declaration, declared in expressions.members(struct)
        if declaration.type == "field_declaration"
        and not any(child.type == "storage_class_specifier" for child in declaration.children)
    ]
    found: dict[str, Node] = {}
    for number, child in enumerate(given):
        if child.type == "initializer_pair":
            designator, value = cuda.field_of(child, "designator"), cuda.field_of(child, "value")
            if designator is not None and value is not None:
                found[file.of(designator).lstrip(".")] = value
        elif number < len(fields):
            found[fields[number]] = child
        else:
            return None
    return found


def _initialised(file: CudaFile, made: Definition) -> Iterator[tuple[str, Node]]:
    """Yield the members that a constructor sets, each with the expression."""
    for node in cuda.walk(made.node):
        if node.type == "field_initializer" and len(node.named_children) == 2:
            name, listed = node.named_children
            if listed.named_child_count == 1:
                yield file.of(name), listed.named_children[0]
        elif node.type == "assignment_expression" and cuda.inside(node, made.body):
            left, right = cuda.field_of(node, "left"), cuda.field_of(node, "right")
            if left is not None and right is not None:
                yield file.of(left).removeprefix("this->"), right


def part_called(scopes: Scopes, object_: Node, call: Node) -> Inlined | None:
    """Return what a call of an object stands for, ``RowMajor(16)`` being what it was made as."""
    function, arguments = cuda.field_of(call, "function"), cuda.field_of(call, "arguments")
    listed = cuda.field_of(object_, "arguments") or cuda.field_of(object_, "value")
    if object_.type == "identifier" and (declared := scopes.resolve(object_)) is not None:
        listed = cuda.field_of(declared.parent, "value") if declared.parent is not None else None
    made = fields_made(scopes, listed) if listed is not None else None
    if made is None or function is None or arguments is None:
        return None
    field = cuda.field_of(function, "field") if function.type == "field_expression" else None
    name = scopes.file.of(field) if field is not None else "operator()"
    method = method_of(scopes, made.struct, name, arguments.named_child_count)
    body = only_expression(method) if method is not None else None
    if method is None or body is None:
        return None
    names = [scopes.file.of(parameter) if parameter is not None else "" for parameter in method.parameters]
    return Inlined(
        body=body,
        arguments=dict(zip(names, arguments.named_children, strict=True)),
        closed=frozenset(names),
        fields=made.fields,
    )


def methods_of(scopes: Scopes, struct: Node, pointer: str) -> Iterator[Definition]:
    """Yield the methods that name a member, without the constructors."""
    named = cuda.field_of(struct, "name")
    own = scopes.file.of(named) if named is not None else ""
    for made in (made for name, every in scopes.callables.items() if name != own for made in every):
        named_there = any(scopes.file.of(node) == pointer for node in cuda.walk(made.body))
        if named_there and not made.macro and cuda.same(cuda.of_function(scopes.file, made.node), struct):
            yield made


def method_of(scopes: Scopes, struct: Node, name: str, count: int) -> Definition | None:
    """Return the method of a name that takes so many arguments; None if it is not one."""
    found = [
        made
        for text, every in scopes.callables.items()
        if "".join(text.split()) == name
        for made in every
        if len(made.parameters) == count and cuda.same(cuda.of_function(scopes.file, made.node), struct)
    ]
    return found[0] if found and len({"".join(scopes.file.of(made.body).split()) for made in found}) == 1 else None


def pointed(file: CudaFile, method: Definition, pointer: str) -> Pointed | None:
    """Return what a method does with a pointer that its object keeps; None if that is more than one expression."""
    uses = [
        node for node in cuda.walk(method.body)
        if node.type in ("identifier", "field_identifier") and file.of(node) == pointer
    ]  # fmt: skip
    if not uses:
        return Pointed(used=False)
    statements = [child for child in method.body.named_children if child.type != "comment"]
    kinds = ("return_statement", "expression_statement")
    if len(uses) != 1 or len(statements) != 1 or statements[0].type not in kinds or not statements[0].named_children:
        return None
    return _pointed(file, uses[0], statements[0].named_children[0], statements[0].type == "return_statement")


def returns_only(method: Definition) -> bool:
    """Say whether a method does no more than to return something, such as a view of a part."""
    statements = [child for child in method.body.named_children if child.type != "comment"]
    return len(statements) == 1 and statements[0].type == "return_statement"


def _pointed(file: CudaFile, use: Node, expression: Node, returned: bool) -> Pointed | None:
    node = use
    if use.parent is not None and use.parent.type == "field_expression":
        node = use.parent
        if not file.of(node).startswith("this"):
            return None
    node, parent = _out_of_parentheses(node)
    if cuda.same(node, expression):
        return Pointed(whole=returned)
    index: Node | None = None
    element = False
    if (
        parent is not None
        and parent.type == "subscript_expression"
        and cuda.same(cuda.field_of(parent, "argument"), node)
    ):
        indices = cuda.field_of(parent, "indices")
        index = indices.named_children[0] if indices is not None and indices.named_child_count == 1 else None
        element = True
    elif parent is not None and parent.type == "binary_expression" and cuda.same(cuda.field_of(parent, "left"), node):
        operator = cuda.field_of(parent, "operator")
        index = cuda.field_of(parent, "right") if operator is not None and file.of(operator) == "+" else None
    if index is None or parent is None or any(n.type == "this" for n in cuda.walk(index)):
        return None
    node, parent = _out_of_parentheses(parent)
    if parent is not None and parent.type == "pointer_expression":
        if element == file.of(parent).startswith("*"):
            return None
        element = not element
        node, parent = _out_of_parentheses(parent)
    whole = returned and cuda.same(node, expression)
    return Pointed(index=index, element=element, whole=whole) if whole or element else None


def _out_of_parentheses(node: Node) -> tuple[Node, Node | None]:
    while node.parent is not None and node.parent.type == "parenthesized_expression":
        node = node.parent
    return node, node.parent
