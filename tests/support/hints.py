"""Every hint in the package, as its source spells it: constants whole, what is formatted in as {expression}."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from tests.support.places import ROOT

PACKAGE = ROOT / "ncu_swizzle"
DEPTH = 6  # of functions and variables that a hint is put together from
ALTERNATIVES = 40  # spellings of one hint

# What makes a hint something to type: an option, a command, a command line's placeholder.
TYPED = re.compile(
    r"(?<![\w-])--?[A-Za-z{][\w-]*|\b(ncu-swizzle|nvcc|python3?|pip|apt-get|ulimit|readlink|ls|nvidia-smi) [\w'{./-]"
    r"|\b(git|compute-sanitizer|nvprune) [\w-]"
)


@dataclass
class Module:
    """A module's tree, its functions and its constants, and where its other names come from."""

    tree: ast.Module
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)


@cache
def modules() -> dict[str, Module]:
    every = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        module = Module(ast.parse(file.read_text(encoding="utf-8")))
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef):
                module.functions[node.name] = node
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    module.imported[alias.asname or alias.name] = (node.module, alias.name)
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                module.constants[node.targets[0].id] = node.value
        every[name] = module
    return every


@cache
def errors() -> frozenset[str]:
    """Return the names of all error classes, and of the variables that hold one."""
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }
    names = {"NcuSwizzleError"}
    while more := {name for name, of in bases.items() if names & set(of)} - names:
        names |= more
    return frozenset({*names, "kind"})


def hints() -> dict[str, str]:
    """Return every hint, and the module that it is from."""
    found: dict[str, str] = {}
    for name, module in modules().items():
        for expression, scope in _expressions(module):
            for text in itertools.islice(_texts(expression, name, scope, 0), ALTERNATIVES):
                if text.strip():
                    found.setdefault(text.strip(), name)
    return found


def _expressions(module: Module) -> Iterator[tuple[ast.expr, ast.FunctionDef | None]]:
    """Yield what is given as a hint, with the function around it."""
    owners: dict[ast.AST, ast.FunctionDef] = {}
    for function in module.functions.values():
        for node in ast.walk(function):
            owners[node] = function
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and len(node.args) > 1 and _raises(node.func):
            yield node.args[1], owners.get(node)
        if isinstance(node, ast.Call):
            yield from ((word.value, owners.get(node)) for word in node.keywords if word.arg == "hint")
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Attribute)
            and node.targets[0].attr == "hint"
        ):
            yield node.value, owners.get(node)


def _raises(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute) and function.attr == "__init__":
        return isinstance(function.value, ast.Call) and ast.unparse(function.value) == "super()"
    return isinstance(function, ast.Name) and function.id in errors()


def _texts(node: ast.expr, module: str, scope: ast.FunctionDef | None, depth: int) -> Iterator[str]:
    """Yield the spellings of a text that an expression can be."""
    deeper = depth + 1
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr(values=values):
            parts = [list(_part(value, module, scope, deeper)) for value in values]
            yield from ("".join(chosen) for chosen in itertools.product(*parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            for start in _texts(left, module, scope, deeper):
                yield from (start + end for end in _texts(right, module, scope, deeper))
        case ast.IfExp(body=body, orelse=orelse):
            yield from _texts(body, module, scope, deeper)
            yield from _texts(orelse, module, scope, deeper)
        case ast.BoolOp(values=values):
            for value in values:
                yield from _texts(value, module, scope, deeper)
        case ast.Name(id=name) if depth < DEPTH:
            yield from _named(name, module, scope, deeper)
        case ast.Call(func=ast.Name()) if depth < DEPTH:
            yield from _called(node, module, scope, deeper)
        case _:
            yield f"{{{ast.unparse(node)}}}"


def _called(node: ast.Call, module: str, scope: ast.FunctionDef | None, depth: int) -> Iterator[str]:
    """Yield what a function of the package returns; `remedy` returns its second argument, or the system's error."""
    name = ast.unparse(node.func)
    if name == "remedy":
        yield from _texts(node.args[1], module, scope, depth)
    elif found := _function(name, module):
        home, function = found
        for inner in ast.walk(function):
            if isinstance(inner, ast.Return) and inner.value is not None:
                yield from _texts(inner.value, home, function, depth)
    else:
        yield f"{{{ast.unparse(node)}}}"


def _part(value: ast.expr, module: str, scope: ast.FunctionDef | None, depth: int) -> Iterator[str]:
    """Yield what a part of an f-string can be: only constants are followed, anything else stays an expression."""
    if isinstance(value, ast.Constant):
        yield str(value.value)
        return
    assert isinstance(value, ast.FormattedValue)
    inner = value.value
    if (isinstance(inner, ast.Name) and inner.id.isupper()) or isinstance(inner, ast.IfExp):
        yield from _texts(inner, module, scope, depth)
    else:
        yield f"{{{ast.unparse(inner)}}}"


def _named(name: str, module: str, scope: ast.FunctionDef | None, depth: int) -> Iterator[str]:
    """Yield what a variable of the function, or a constant of this module or the one it is imported from, can be."""
    local = [node.value for node in ast.walk(scope) if isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in node.targets)] if scope else []  # fmt: skip
    home = modules()[module]
    if local:
        for expression in local:
            yield from _texts(expression, module, scope, depth)
    elif name in home.constants:
        yield from _texts(home.constants[name], module, None, depth)
    elif name in home.imported and home.imported[name][0] in modules():
        source, original = home.imported[name]
        yield from _named(original, source, None, depth)
    else:
        yield f"{{{name}}}"


def _function(name: str, module: str) -> tuple[str, ast.FunctionDef] | None:
    home = modules()[module]
    if name in home.functions:
        return module, home.functions[name]
    source, original = home.imported.get(name, ("", ""))
    return (
        (source, modules()[source].functions[original])
        if original in getattr(modules().get(source), "functions", ())
        else None
    )


def to_type() -> dict[str, str]:
    """Return the hints that name an option or a command, and the module of each."""
    return {text: module for text, module in hints().items() if TYPED.search(text)}
