"""Every regular expression of the package, and how many steps a backtracking matcher takes for it over damaging texts.

Steps are counted, not seconds: `Matcher` walks the parsed expression as `re` does, without its shortcuts, which change
factors and not growth. `growths` builds the texts from the expression itself: whatever leads to a repetition, then
something that is repeated, then an end that does not match.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from re import _compiler, _parser  # type: ignore[attr-defined]  # what re itself is made of
from typing import Any

from tests.support.places import ROOT

FUNCTIONS = {"compile": 1, "search": 2, "match": 2, "fullmatch": 2, "split": 3, "findall": 2, "finditer": 2, "sub": 4}
FUNCTIONS["subn"] = 4  # where each takes its flags
REPEATS = {_parser.MAX_REPEAT, _parser.MIN_REPEAT, _parser.POSSESSIVE_REPEAT}
SINGLE = {_parser.LITERAL, _parser.NOT_LITERAL, _parser.ANY, _parser.IN}
POOL = "a0 !_\n\t.,:;-/\\\"'()[]{}<>*#=x"  # characters that are tried besides those of the expression
ENDS = ("!", "\n!", "")
SIZE = 12  # repetitions; twice and three times as many are compared with it
MOST = 1 << 18  # steps; 36 repetitions take far fewer in linear time, also behind a bounded repetition
FREE = 2  # steps for each repetition by which the growth may differ


@dataclass(frozen=True)
class Expression:
    """A regular expression and the functions that apply it; `place` is a file and a line, `code` how it is written."""

    place: str
    pattern: str | bytes
    flags: int
    used: frozenset[str]
    code: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.pattern!r}"


class Unknown(str):
    """A part of an expression that is only known as the program runs: some word."""

    __slots__ = ()

    def __getattr__(self, _: str) -> Unknown:
        return self

    def __call__(self, *_: object, **__: object) -> Unknown:
        return self

    def __getitem__(self, _: object) -> Unknown:
        return self

    def __add__(self, other: str) -> str:
        return f"{self!s}{other}"


class Names(dict[str, Any]):
    """A module's names, and those of a function as it assigns them; any other is an unknown word."""

    def __init__(self, module: dict[str, Any], function: dict[str, ast.expr]) -> None:
        super().__init__(module)
        self._function = function

    def __missing__(self, name: str) -> Any:
        if (assigned := self._function.pop(name, None)) is not None:
            with contextlib.suppress(AttributeError, LookupError, NameError, TypeError):
                self[name] = self.value(assigned)
                return self[name]
        return Unknown("word")

    def value(self, node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "", "eval"), {}, self)


def expressions(folder: Path, beside: Path = ROOT) -> Iterator[Expression]:
    """Yield the expression in each call of `re` in a package's modules, with the values that its names have.

    An expression that is known only as the program runs, such as that of ``re.search(rule.pattern, text)``, is "".
    """
    files = sorted(file for file in folder.rglob("*.py") if "_data" not in file.parts)
    if str(beside) not in sys.path:
        sys.path.append(str(beside))
    modules = [Module(file, beside) for file in files]
    for module in modules:
        for call in module.calls:
            function = call.func.attr  # type: ignore[attr-defined]
            flags = next((keyword.value for keyword in call.keywords if keyword.arg == "flags"), None)
            if flags is None and len(call.args) > FUNCTIONS[function]:
                flags = call.args[FUNCTIONS[function]]
            used = {function}
            if function == "compile":
                name = module.assigned.get(call, "")
                used = {use for other in modules for use in other.uses(name, module)} or {"finditer", "fullmatch"}
            place = f"{file_of(module.file)}:{call.lineno}"
            yield Expression(
                place, module.pattern(call.args[0]), module.flags(flags), frozenset(used), ast.unparse(call.args[0])
            )


def file_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


class Module:
    """A module of a package: its calls of `re`, and what it does with the expressions that it compiles or imports."""

    def __init__(self, file: Path, beside: Path) -> None:
        self.file = file
        self.name = ".".join(file.relative_to(beside).with_suffix("").parts).removesuffix(".__init__")
        self.calls: list[ast.Call] = []
        self.assigned: dict[ast.AST, str] = {}
        self._imported: set[tuple[str, str]] = set()
        self._used: dict[tuple[bool, str], set[str]] = defaultdict(set)
        self._functions: dict[ast.AST, dict[str, ast.expr]] = {}
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):  # inner ones come later
            named = {
                node.targets[0].id: node.value
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            }
            self._functions |= dict.fromkeys(ast.walk(function), named)
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name("re"), attr=name), args=[_, *_]) if name in FUNCTIONS:
                    self.calls.append(node)
                case ast.Assign(targets=[ast.Name(name)], value=value):
                    self.assigned[value] = name
                case ast.Assign(targets=[ast.Tuple(targets)], value=ast.Tuple(values)):
                    self.assigned |= {
                        value: getattr(each, "id", "") for each, value in zip(targets, values, strict=True)
                    }
                case ast.ImportFrom(module=str(other), names=names):
                    self._imported |= {(other, each.name) for each in names}
                case ast.Attribute(value=ast.Name(name), attr=use) if use in FUNCTIONS:
                    self._used[False, name].add(use)
                case ast.Attribute(value=ast.Attribute(attr=name), attr=use) if use in FUNCTIONS:
                    self._used[True, name].add(use)

    def uses(self, name: str, owner: Module) -> set[str]:
        """Return with which functions it uses an expression of a module by its name."""
        if self is owner or (owner.name, name) in self._imported:
            return self._used[False, name]
        return self._used[True, name] if name and not name.startswith("_") else set()

    def pattern(self, node: ast.expr) -> str | bytes:
        """Return the expression that is passed to `re`."""
        try:
            value = self._value(node)
        except (AttributeError, KeyError, TypeError):
            return ""
        found = getattr(value, "pattern", value)
        return "" if isinstance(found, Unknown) or not isinstance(found, str | bytes) else found

    def flags(self, node: ast.expr | None) -> int:
        """Return the flags that are passed to `re`."""
        return int(self._value(node)) if node else 0

    def _value(self, node: ast.expr) -> Any:
        module = {**vars(builtins), **vars(importlib.import_module(self.name))}
        return Names(module, dict(self._functions.get(node, {}))).value(node)


# ------------------------------------------------------------------------------------------------ steps


class TooMany(Exception):
    """More steps than are allowed."""


Node = list[Any]  # a kind, what belongs to it, and the nodes that follow


@dataclass
class Matcher:
    """A matcher that counts its steps: each character, choice and assertion that is tried is one."""

    expression: Expression
    steps: int = 0
    most: int = MOST
    _tests: dict[str, re.Pattern[Any]] = field(default_factory=dict)

    @cached_property
    def parsed(self) -> Any:
        return _parser.parse(self.expression.pattern, self.expression.flags)

    @cached_property
    def whole(self) -> re.Pattern[Any]:
        return re.compile(self.expression.pattern, self.expression.flags)

    @cached_property
    def start(self) -> Node:
        return self._chain(self.parsed, self.parsed.state.flags, ["end"])

    def count(self, text: str, function: str) -> int:
        """Return the steps that a function of `re` takes for a text."""
        self.steps = 0
        if function in {"match", "fullmatch"}:
            self.run(self.start, text, 0, whole=function == "fullmatch")
            return self.steps
        at = 0
        while at <= len(text):
            end = self.run(self.start, text, at)
            if end is not None and function == "search":
                break
            at = at + 1 if end is None else max(end, at + 1)
        return self.steps

    def run(self, start: Node, text: str, at: int, whole: bool = False) -> int | None:  # noqa: PLR0912 - an interpreter
        """Return where a match that begins here ends; None if there is none."""
        waiting: list[tuple[Node, int, dict[Any, Any]]] = [(start, at, {})]
        while waiting:
            node, at, marks = waiting.pop()
            while node is not None:
                self.steps += 1
                if self.steps > self.most:
                    raise TooMany
                kind = node[0]
                if kind == "end":
                    if not whole or at == len(text):
                        return at
                    break
                if kind == "char":
                    if at >= len(text) or not node[1](text[at]):
                        break
                    at, node = at + 1, node[2]
                elif kind == "split":
                    waiting.append((node[2], at, marks))
                    node = node[1]
                elif kind == "branch":
                    waiting += [(other, at, marks) for other in reversed(node[1][1:])]
                    node = node[1][0]
                elif kind == "at":
                    if not node[1].match(self.given(text), at):
                        break
                    node = node[2]
                elif kind == "look":
                    _, inside, behind, wanted, following = node
                    found = at - behind >= 0 and self.run(inside, text, at - behind) is not None
                    if found != wanted:
                        break
                    node = following
                elif kind == "atomic":
                    end = self.run(node[1], text, at)
                    if end is None:
                        break
                    at, node = end, node[2]
                elif kind == "mark":
                    marks, node = {**marks, node[1]: at}, node[2]
                elif kind == "moved":  # an empty repetition ends its loop
                    node = node[2] if marks[node[1]] != at else node[3]
                else:  # what a group matched
                    begin, end = marks.get((node[1], 0)), marks.get((node[1], 1))
                    word = text[begin:end] if begin is not None and end is not None else None
                    if word is None or not text.startswith(word, at):
                        break
                    self.steps += len(word)
                    at, node = at + len(word), node[2]
        return None

    def given(self, text: str) -> Any:
        """Return a text as the expression takes it."""
        return text.encode("latin-1") if isinstance(self.expression.pattern, bytes) else text

    def test(self, item: Any, flags: int) -> re.Pattern[Any]:
        """Return the expression of one item alone."""
        key = f"{item} {flags}"
        if key not in self._tests:
            alone = _parser.SubPattern(self.parsed.state, [item])
            kept, self.parsed.state.flags = self.parsed.state.flags, flags
            text, self.parsed.state.str = self.parsed.state.str, self.expression.pattern
            self._tests[key] = _compiler.compile(alone, flags)
            self.parsed.state.flags, self.parsed.state.str = kept, text
        return self._tests[key]

    def matches(self, item: Any, flags: int, character: str) -> bool:
        """Return whether an item that matches one character matches this one."""
        return self.test(item, flags).match(self.given(character)) is not None

    def _chain(self, items: Any, flags: int, after: Node) -> Node:
        for item in reversed(list(items)):
            after = self._node(item, flags, after)
        return after

    def _node(self, item: Any, flags: int, after: Node) -> Node:  # noqa: PLR0911 - a case each
        op, value = item
        if op in SINGLE:
            known: dict[str, bool] = {}

            def matches(character: str) -> bool:
                if character not in known:
                    known[character] = self.matches(item, flags, character)
                return known[character]

            return ["char", matches, after]
        if op is _parser.BRANCH:
            return ["branch", [self._chain(each, flags, after) for each in value[1]]]
        if op is _parser.SUBPATTERN:
            group, more, less, inside = value
            close: Node = ["mark", (group, 1), after] if group in self._referred else after
            chain = self._chain(inside, (flags | more) & ~less, close)
            return ["mark", (group, 0), chain] if group in self._referred else chain
        if op in REPEATS:
            return self._repeated(op, value, flags, after)
        if op is _parser.ATOMIC_GROUP:
            return ["atomic", self._chain(value, flags, ["end"]), after]
        if op in {_parser.ASSERT, _parser.ASSERT_NOT}:
            behind = value[1].getwidth()[0] if value[0] < 0 else 0
            return ["look", self._chain(value[1], flags, ["end"]), behind, op is _parser.ASSERT, after]
        if op is _parser.AT:
            return ["at", self.test(item, flags), after]
        assert op is _parser.GROUPREF, op
        return ["group", value, after]

    def _repeated(self, op: Any, value: Any, flags: int, after: Node) -> Node:
        least, most, inside = value
        if op is _parser.POSSESSIVE_REPEAT:
            return ["atomic", self._repeated(_parser.MAX_REPEAT, value, flags, ["end"]), after]
        greedy = op is _parser.MAX_REPEAT

        def choice(more: Node, enough: Node) -> Node:
            return ["split", more, enough] if greedy else ["split", enough, more]

        rest = after
        if most is _parser.MAXREPEAT:
            rest = ["split", None, None]
            key = object()
            body = self._chain(inside, flags, rest if inside.getwidth()[0] else ["moved", key, rest, after])
            rest[:] = choice(body if inside.getwidth()[0] else ["mark", key, body], after)
        else:
            for _ in range(most - least):
                rest = choice(self._chain(inside, flags, rest), after)
        for _ in range(least):
            rest = self._chain(inside, flags, rest)
        return rest

    @cached_property
    def _referred(self) -> set[int]:
        return {value for op, value in _items(self.parsed) if op is _parser.GROUPREF}

    @cached_property
    def bounds(self) -> list[int]:
        """How often repetitions that end may be repeated, those of many times."""
        most = (value[1] for op, value in _items(self.parsed) if op in REPEATS)
        return [times for times in most if SIZE <= times < _parser.MAXREPEAT]


def _items(items: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the items of a parsed expression, and those inside of them."""
    for op, value in items:
        yield op, value
        for inside in _inside(op, value):
            yield from _items(inside)


def _inside(op: Any, value: Any) -> Sequence[Any]:
    if op is _parser.BRANCH:
        return list(value[1])
    if op is _parser.SUBPATTERN:
        return [value[3]]
    if op in REPEATS:
        return [value[2]]
    if op is _parser.ATOMIC_GROUP:
        return [value]
    return [value[1]] if op in {_parser.ASSERT, _parser.ASSERT_NOT} else []


# ------------------------------------------------------------------------------------------------ texts


class Attacks:
    """Texts that may take an expression long: pairs of what comes first and what is repeated."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self.flags = matcher.parsed.state.flags
        self.pool = "".join(dict.fromkeys([*self._literals(), *POOL]))

    def families(self) -> set[tuple[str, str]]:
        """Return them all."""
        found = {("", character) for character in self.pool}
        for before, items in self._sequences(self.matcher.parsed, ""):
            for number, (op, value) in enumerate(items):
                if op not in REPEATS or value[1] < SIZE:
                    continue
                first = before + self._sample(items[:number])
                once = self._sample(value[2])
                pumps = {once, once + self._sample(items[number + 1 :]), *self._starts(value[2])}
                found |= {(first, pump) for pump in pumps if pump}
                found |= {("", first + pump) for pump in {"", *pumps} if first + pump}
        return found

    def _sequences(self, items: Any, before: str) -> Iterator[tuple[str, list[Any]]]:
        items = list(items)
        yield before, items
        for number, (op, value) in enumerate(items):
            for inside in _inside(op, value):
                yield from self._sequences(inside, before + self._sample(items[:number]))

    def _literals(self) -> Iterator[str]:
        for op, value in _items(self.matcher.parsed):
            if op is _parser.LITERAL:
                yield chr(value)
            elif op is _parser.IN:
                yield from (chr(each) for kind, each in value if kind is _parser.LITERAL)
                yield from (chr(each[0]) for kind, each in value if kind is _parser.RANGE)

    def _starts(self, items: Any) -> Iterator[str]:
        """Yield the characters that a repeated part may begin with, and where it is a choice, samples of each."""
        for op, value in list(items)[:1]:
            if op in SINGLE:
                yield from [c for c in self.pool if self.matcher.matches((op, value), self.flags, c)][:8]
            elif op is _parser.BRANCH:
                yield from map(self._sample, value[1])
            for inside in _inside(op, value):
                yield from self._starts(inside)

    def _sample(self, items: Any) -> str:
        """Return a short text that the items match, assertions aside."""
        parts = []
        for op, value in items:
            if op in SINGLE:
                parts.append(next((c for c in self.pool if self.matcher.matches((op, value), self.flags, c)), "a"))
            elif op is _parser.BRANCH:
                parts.append(self._sample(value[1][0]))
            elif op is _parser.SUBPATTERN:
                parts.append(self._sample(value[3]))
            elif op in REPEATS:
                parts.append(self._sample(value[2]) * min(max(value[0], 0), 4))
            elif op is _parser.ATOMIC_GROUP:
                parts.append(self._sample(value))
        return "".join(parts)


def longest_growth(expression: Expression) -> str:
    """Return a text over which the expression's steps grow faster than its length, as code; "" if none was found."""
    matcher = Matcher(expression)
    for first, pump in sorted(Attacks(matcher).families()):
        for end in ENDS:
            for function in sorted(expression.used):
                if _bends(matcher, function, (first, pump, end)):
                    return f"{function}: {first!r} + {pump!r} * n + {end!r}"
    return ""


def _bends(matcher: Matcher, function: str, family: tuple[str, str, str]) -> bool:
    """Return whether three times the text takes more than the twofold and the single one let expect.

    A bounded repetition, such as ``.{0,200}``, is like an endless one for short texts: longer ones tell.
    """
    bounds = matcher.bounds
    for size in (SIZE, *([2 * max(bounds)] if bounds else [])):
        matcher.most = MOST if size == SIZE else MOST * size
        try:
            one, two, three = (matcher.count(_text(family, size * times), function) for times in (1, 2, 3))
        except TooMany:
            return True
        if three - two <= two - one + FREE * size:
            return False
    return True


def _text(family: tuple[str, str, str], times: int) -> str:
    first, pump, end = family
    return first + pump * times + end
