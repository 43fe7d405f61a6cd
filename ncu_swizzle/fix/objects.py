"""Classes of a file and their objects: their members, what objects are made with, and what methods compute.

Also calls that stand for one expression.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ncu_swizzle.fix.cuda import NOTHING, Inlined, Node
from ncu_swizzle.fix.edits import Edit
from ncu_swizzle.fix.scopes import Definition, Scopes, changes, declared_name, sizes_of
from ncu_swizzle.fix.sums import Constants
from ncu_swizzle.fix.webs import ReachStep

# The members of a class.


def members(struct: Node) -> Iterator[tuple[Node, Node]]:
    """Yield the declarations in a class, each with an identifier that it declares."""
    for declaration in struct.part("body").named_children:
        for declarator in declaration.every("declarator"):
            if declared := declared_name(declarator):
                yield declaration, declared


def member(struct: Node, name: str) -> Node:
    """Return the identifier in the declaration of a class's member, if the class has it."""
    return next((declared for _, declared in members(struct) if declared.text == name), NOTHING)


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


def numbers(struct: Node) -> list[str]:
    """Return the names of the members that are neither pointers nor arrays."""
    return [d.text for _, d in members(struct) if not d.parent.type.endswith("_declarator")]


def are_changed(scopes: Scopes, struct: Node, names: Sequence[str]) -> bool:
    """Return whether members of these names are assigned to out of the constructors of their class."""
    for node in (node for name in names for node in scopes.mentions.get(name, [])):
        function = scopes.holder(node)
        made = function is not None and function.name == struct.part("name").text
        if not made and changes(node.out_of("field_expression")):
            return True
    return False


def opened(struct: Node) -> Iterator[Edit]:
    """Yield the edits that make everything in a class public."""
    for child in struct.part("body").children:
        if child.type == "{" or child.before.type == "access_specifier":  # of which child is the colon
            yield Edit(child.end_byte, child.end_byte, " public: ")


# Calls that stand for one expression: of a macro, or of a function or lambda that only returns it.


def inlined(scopes: Scopes, node: Node) -> Inlined | None:
    """Return what a call, or the name of a macro, stands for; None if that is not one expression of this file."""
    if node.id in scopes.indexing:
        return scopes.indexing[node.id]
    call = node.type == "call_expression" and node.part("arguments")
    definitions = scopes.callables.get(node.called if call else node.text, [])
    if len(definitions) != 1 or not (call or definitions[0].macro):
        return None
    (definition,) = definitions
    body, given = only_expression(definition), node.arguments if call else []
    if not body or len(given) != len(definition.parameters) or NOTHING in definition.parameters:
        return None
    names = [declared.text for declared in definition.parameters]
    closed = frozenset(name for name in names if not definition.macro or _enclosed(body, name))
    return Inlined(body=body, arguments=dict(zip(names, given, strict=True)), closed=closed)


def only_expression(definition: Definition) -> Node:
    """Return the only expression of a definition, if it is no more than that."""
    body = definition.body
    if definition.macro:
        if body.has_error:
            return NOTHING
        body = next((node for node in body.walk() if node.type == "compound_statement"), NOTHING)
    statements = [child for child in body.named_children if child.type != "comment"]
    wanted = "expression_statement" if definition.macro else "return_statement"
    if body.type != "compound_statement" or len(statements) != 1 or statements[0].type != wanted:
        return NOTHING
    return statements[0].named_children[0] if len(statements[0].named_children) == 1 else NOTHING


def _enclosed(body: Node, name: str) -> bool:
    """Return whether a macro's parameter stands in parentheses wherever it is used."""
    uses = (node for node in body.walk() if node.type == "identifier" and node.text == name)
    return all(use.parent.type in ("parenthesized_expression", "argument_list") for use in uses)


def fixed_value(scopes: Scopes, constants: Constants, node: Node) -> int | None:
    """Return the value of a constant that the file declares outside of functions; None if a name is not one."""
    holder = scopes.meant(node).parent
    statement = holder.above("declaration") if holder.type == "init_declarator" else NOTHING
    fixed = statement.words & {"const", "constexpr"} and scopes.holder(statement) is None
    return constants.value(holder.part("value")) if fixed else None


def given_by_name(definition: Definition, given: Sequence[Node]) -> dict[str, Node]:
    """Return what the parameters of a definition are given, by their names."""
    return dict(zip((parameter.text for parameter in definition.parameters), given, strict=True))


# What objects are made with.


@dataclass(frozen=True, eq=False)
class MadeObject:
    """An object as it is made: its class, what its members are given, and the expression or declarator of it all."""

    struct: Node
    fields: Mapping[str, Node]
    whole: Node


def fields_made(scopes: Scopes, listed: Node) -> MadeObject | None:
    """Return the object that a list of arguments or initializers makes; None if its class is not this file's."""
    holder = listed.parent
    match holder.type:
        case "init_declarator" | "function_declarator":  # View v(tile);
            type_ = holder.parent.part("type")
        case "compound_literal_expression":
            type_ = holder.part("type")
        case "call_expression":
            type_ = holder.part("function")
        case _:
            return None
    struct = scopes.file.class_named(type_.text)
    # Members of a base come first in an initializer list, and bases are not searched: each value would go to the wrong
    # member.
    if not struct or any(child.type == "base_class_clause" for child in struct.children):
        return None
    given = [  # View v(tile) has what looks like types
        child.named_children[0] if child.type == "parameter_declaration" and child.named_children else child
        for child in listed.named_children
    ]
    fields = _given(scopes, struct, given)
    whole = listed if holder.type == "init_declarator" else holder
    return MadeObject(struct, fields, whole) if fields is not None else None


def _given(scopes: Scopes, struct: Node, given: list[Node]) -> dict[str, Node] | None:
    """Return what an object's members are given; None if no constructor shows it."""
    file = scopes.file
    named = scopes.callables.get(struct.part("name").text, [])
    constructors = [definition for definition in named if file.class_of(definition.node) is struct]
    if not constructors:
        return _aggregate(struct, given)
    fitting = [definition for definition in constructors if len(definition.parameters) == len(given)]
    if len(fitting) != 1:
        return None
    arguments = given_by_name(fitting[0], given)
    found: dict[str, Node] = {}
    for name, value in _initialised(fitting[0]):
        if value.type == "identifier" and value.text in arguments:
            found[name] = arguments[value.text]
        elif value.type == "number_literal":
            found[name] = value
    return found


def _aggregate(struct: Node, given: list[Node]) -> dict[str, Node] | None:
    fields = [declared.text for declared in _of_each_object(struct)]
    found: dict[str, Node] = {}
    for number, child in enumerate(given):
        if child.type == "initializer_pair":
            found[child.part("designator").text.lstrip(".")] = child.part("value")
        elif number < len(fields):
            found[fields[number]] = child
        else:
            return None
    return found


def _initialised(constructor: Definition) -> Iterator[tuple[str, Node]]:
    """Yield the members that a constructor sets, each with the expression."""
    for node in constructor.node.walk():
        if node.type == "field_initializer" and len(node.named_children) == 2:
            name, listed = node.named_children
            if len(listed.named_children) == 1:
                yield name.text, listed.named_children[0]
        elif node.type == "assignment_expression" and node.inside(constructor.body):
            yield node.part("left").text.removeprefix("this->"), node.part("right")


# What methods compute.


def method_of(scopes: Scopes, struct: Node, name: str, count: int) -> Definition | None:
    """Return the method of this name with `count` parameters; None if there is none, or if several differ."""
    found = [
        definition
        for definition in scopes.callables.get(name, [])
        if len(definition.parameters) == count and scopes.file.class_of(definition.node) is struct
    ]
    return found[0] if len({"".join(definition.body.text.split()) for definition in found}) == 1 else None


def part_called(scopes: Scopes, object_: Node, call: Node) -> Inlined | None:
    """Return what a call of an object stands for, ``RowMajor(16)`` being what it was made as."""
    declared = scopes.meant(object_)
    listed = declared.parent.part("value") if declared else object_.part("arguments", "value")
    made_object = fields_made(scopes, listed)
    if made_object is None or not call.part("arguments"):
        return None
    name = call.part("function").part("field").text or "operator()"
    method = method_of(scopes, made_object.struct, name, len(call.arguments))
    body = only_expression(method) if method else NOTHING
    if method is None or not body:
        return None
    arguments = given_by_name(method, call.arguments)
    return Inlined(body=body, arguments=arguments, closed=frozenset(arguments), fields=made_object.fields)


def called_objects(scopes: Scopes, call: Node) -> Iterator[Definition]:
    """Yield what ``op(p)`` and ``Op{}(p)`` call: the operators of the object's class.

    If that is not this file's, the only operator that takes as many arguments.
    """
    function = call.part("function")
    if not call.part("arguments") or function.type == "field_expression":
        return
    fitting = [m for m in scopes.callables.get("operator()", []) if len(m.parameters) == len(call.arguments)]
    holder = scopes.resolve(function).above("declaration", "parameter_declaration") or function
    type_ = holder.part("function" if function.type == "call_expression" else "type").text  # Op()(…)
    if struct := scopes.file.class_named(type_):
        yield from (definition for definition in fitting if scopes.file.class_of(definition.node) is struct)
    elif type_ and len(fitting) == 1:
        yield fitting[0]


def handed_steps(
    scopes: Scopes, definition: Definition, call: Node, steps: Sequence[ReachStep]
) -> tuple[ReachStep, ...] | None:
    """Return the steps in a function as they are where it is called; None if more than one computes with arguments.

    A step that is a parameter is the argument; for one that computes with them, the call stands.
    """
    given = call.arguments
    if len(definition.parameters) != len(given) or call.id in scopes.indexing:
        return None
    arguments, found = given_by_name(definition, given), list[ReachStep]()
    for step in steps:
        node = step.node
        if node.type == "identifier" and node.text in arguments:
            node = arguments[node.text]
        elif any(name.text in arguments for name in node.walk()):
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
    index: Node = NOTHING
    element: bool = False
    whole: bool = True


def pointed(method: Definition, pointer: str) -> Pointed | None:  # noqa: PLR0911
    """Return what a method does with a pointer that its object keeps; None if that is more than one expression."""
    uses = [
        node for node in method.body.walk()
        if node.type in ("identifier", "field_identifier") and node.text == pointer
    ]  # fmt: skip
    if not uses:
        return Pointed(used=False)
    statements = method.statements
    kinds = ("return_statement", "expression_statement")
    if len(uses) != 1 or len(statements) != 1 or statements[0].type not in kinds or not statements[0].named_children:
        return None
    expression, returned = statements[0].named_children[0], statements[0].type == "return_statement"
    node = uses[0]
    if node.parent.type == "field_expression":
        node = node.parent
        if not node.text.startswith("this"):
            return None
    node = node.out_of("parenthesized_expression")
    if node is expression:
        return Pointed(whole=returned)
    element = node.is_part("argument", "subscript_expression")
    index = NOTHING
    if element and len(node.parent.arguments) == 1:
        index = node.parent.arguments[0]
    elif node.is_part("left", "binary_expression") and node.parent.part("operator").text == "+":
        index = node.parent.part("right")
    if not index or any(n.type == "this" for n in index.walk()):
        return None
    node = node.parent.out_of("parenthesized_expression")
    if node.parent.type == "pointer_expression":
        if element == node.parent.text.startswith("*"):  # only &p[i] and *(p + i)
            return None
        element = not element
        node = node.parent.out_of("parenthesized_expression")
    whole = returned and node is expression
    return Pointed(index=index, element=element, whole=whole) if whole or element else None
