"""Does data that was read from a file have the types that its dataclass declares, and sane sizes?

A digest tells that a file is as it was written; it does not tell who wrote it. A type's check is built once, out of
the checks of its parts: a profile has some hundred thousand values.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Union

LARGEST = 1 << 72  # no count, address or size comes near it; a float holds it
Check = Callable[[Any], str]  # empty where the value is right, else where and what is wrong


def mismatch(value: Any) -> str:
    """Return the first place where an instance of a dataclass is not what its class says; empty where it is."""
    kind: Any = type(value)
    return check(kind)(value).lstrip(".")


@cache
def check(hint: Any) -> Check:
    """Return what checks values of a type: a dataclass, a plain type, a union, tuple or Mapping of such."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _any_of([check(option) for option in arguments])
    if origin is tuple:
        return _sequence(check(arguments[0])) if arguments[-1] is Ellipsis else _row([check(a) for a in arguments])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(check(arguments[0]), check(arguments[1]))
    if dataclasses.is_dataclass(hint):
        return _fields(hint)
    return PLAIN.get(hint) or (lambda value: "" if isinstance(value, hint) else _told(value))


def _integer(value: Any) -> str:
    return "" if type(value) is int and -LARGEST < value < LARGEST else _told(value)


def _number(value: Any) -> str:
    """Check a number that arithmetic can go on with: JSON as Python reads it may hold NaN and infinities."""
    return "" if type(value) is float and math.isfinite(value) else _integer(value)


def _text(value: Any) -> str:
    """Check a text that can be printed and saved: JSON may hold halves of surrogate pairs."""
    if not isinstance(value, str):
        return _told(value)
    return "" if value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value) else _told(value)


def _nothing(value: Any) -> str:
    return "" if value is None else _told(value)


PLAIN: Mapping[Any, Check] = {int: _integer, float: _number, str: _text, type(None): _nothing}


def _any_of(options: list[Check]) -> Check:
    def checks(value: Any) -> str:
        wrong = ""
        for option in options:
            wrong = option(value)
            if not wrong:
                return ""
        return wrong

    return checks


def _sequence(one: Check) -> Check:
    def checks(value: Any) -> str:
        if not isinstance(value, tuple | list):
            return _told(value)
        for number, part in enumerate(value):
            if wrong := one(part):
                return f"[{number}]{wrong}"
        return ""

    return checks


def _row(parts: list[Check]) -> Check:
    def checks(value: Any) -> str:
        if not isinstance(value, tuple | list) or len(value) != len(parts):
            return _told(value)
        return next(filter(None, (one(part) for one, part in zip(parts, value, strict=True))), "")

    return checks


def _mapping(key: Check, one: Check) -> Check:
    def checks(value: Any) -> str:
        if not isinstance(value, Mapping):
            return _told(value)
        for name, part in value.items():
            if wrong := key(name) or one(part):
                return f".{name}{wrong}"
        return ""

    return checks


def _fields(kind: Any) -> Check:
    known = typing.get_type_hints(kind)
    parts = [(field.name, check(known[field.name])) for field in dataclasses.fields(kind)]

    def checks(value: Any) -> str:
        if not isinstance(value, kind):
            return _told(value)
        for name, one in parts:
            if wrong := one(getattr(value, name)):
                return f".{name}{wrong}"
        return ""

    return checks


def _told(value: Any) -> str:
    text = repr(value)
    return f" is {text[:40]}{'…' if len(text) > 40 else ''}"
