"""Dataclasses made of plain data, and checks that they have the types declared, and plausible sizes; numbers as typed.

A digest shows that a file is unchanged, not who wrote it. The checker of a type is built once, from those of its
parts: a profile has some hundred thousand values.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union

LIMIT = 1 << 63  # of integers: NumPy, pandas and TOML hold 64 bits
MOST_DIGITS = len(str(LIMIT))
MOST_TYPED = 10_000  # characters of an expression or a layout: parsing takes a stack, and more than linear time
_VALID: dict[tuple[int, int], Any] = {}  # tuples found valid, by identity: instructions share their stacks
Checker = Callable[[Any], str]  # empty if the value is valid, else the path and the invalid value


@dataclasses.dataclass(frozen=True)
class Within:
    """The values that a number can have: from `least` to just below `end`."""

    least: float
    end: float


Count = Annotated[int, Within(0, 1 << 64)]  # a count, an address or a size, as a report stores it: unsigned
Whole = Annotated[int, Within(-LIMIT, 1 << 64)]  # any integer of 64 bits, signed or not
Amount = Annotated[float, Within(0, sys.float_info.max)]  # a duration or an error


T = TypeVar("T")


def from_plain(kind: type[T], content: Any) -> T:
    """Convert plain JSON data to a type: lists become tuples, and objects dataclasses.

    Values that do not fit stay unchanged, for `mismatch` to name. Raises TypeError for a missing or unknown field.
    """
    hint: Any = kind
    value: T = _maker(hint)(content)
    return value


@cache
def _maker(hint: Any) -> Callable[[Any], Any]:
    """Return the function that makes values of a type; for a union, of the first type that is not None."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _maker(arguments[0])
    if origin in (Union, types.UnionType):
        made_of = _maker(next(option for option in arguments if option is not type(None)))
        return lambda value: None if value is None else made_of(value)
    if origin is tuple:
        items = [_maker(argument) for argument in arguments if argument is not Ellipsis]
        last = len(items) - 1  # also the first, of a tuple of any length
        return lambda value: (
            tuple(items[min(number, last)](each) for number, each in enumerate(value))
            if isinstance(value, list)
            else value
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        make_value = _maker(arguments[1])
        return lambda value: (
            {name: make_value(each) for name, each in value.items()} if isinstance(value, dict) else value
        )
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        fields = {field.name: _maker(hints[field.name]) for field in dataclasses.fields(hint)}
        constructed: Any = hint
        return lambda value: (
            constructed(**{name: fields.get(name, _same)(each) for name, each in value.items()})
            if isinstance(value, dict)
            else value
        )
    return Path if hint is Path else _same


def _same(value: Any) -> Any:
    return value


def mismatch(value: Any) -> str:
    """Return the first invalid field of a dataclass instance, with its value; empty if all are valid."""
    kind: Any = type(value)
    try:
        return check(kind)(value).lstrip(".")
    finally:
        _VALID.clear()


@cache
def check(hint: Any) -> Checker:
    """Return the checker for a type: a dataclass, a plain type, or a union, tuple or Mapping of these."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _within(PLAIN_NUMBERS[arguments[0]], arguments[1])
    if origin in (Union, types.UnionType):
        return _any_of([check(option) for option in arguments])
    if origin is tuple:
        return (
            _sequence(check(arguments[0])) if arguments[-1] is Ellipsis else _fixed_tuple([check(a) for a in arguments])
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(check(arguments[0]), check(arguments[1]))
    if dataclasses.is_dataclass(hint):
        return _fields(hint)
    return PLAIN.get(hint) or (lambda value: "" if isinstance(value, hint) else _shown(value))


def _integer(value: Any) -> str:
    return "" if type(value) is int and -LIMIT <= value < LIMIT else _shown(value)


def _number(value: Any) -> str:
    """Check a finite number: JSON as Python reads it may hold NaN and infinities."""
    return "" if type(value) is float and math.isfinite(value) else _integer(value)


def _within(kinds: tuple[type, ...], limits: Within) -> Checker:
    def checks(value: Any) -> str:
        return "" if type(value) in kinds and limits.least <= value < limits.end else _shown(value)

    return checks


def _text(value: Any) -> str:
    """Check a text that can be encoded: JSON may hold lone surrogates."""
    if not isinstance(value, str):
        return _shown(value)
    return "" if value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value) else _shown(value)


def _nothing(value: Any) -> str:
    return "" if value is None else _shown(value)


PLAIN_NUMBERS: Mapping[Any, tuple[type, ...]] = {int: (int,), float: (float, int)}
PLAIN: Mapping[Any, Checker] = {int: _integer, float: _number, str: _text, type(None): _nothing}


def _any_of(options: list[Checker]) -> Checker:
    def checks(value: Any) -> str:
        wrong = ""
        for option in options:
            wrong = option(value)
            if not wrong:
                return ""
        return wrong

    return checks


def _sequence(item: Checker) -> Checker:
    def checks(value: Any) -> str:
        if not isinstance(value, tuple | list):
            return _shown(value)
        key = (id(value), id(item))
        if key in _VALID:
            return ""
        for number, part in enumerate(value):
            if wrong := item(part):
                return f"[{number}]{wrong}"
        if isinstance(value, tuple):
            _VALID[key] = value
        return ""

    return checks


def _fixed_tuple(parts: list[Checker]) -> Checker:
    def checks(value: Any) -> str:
        if not isinstance(value, tuple | list) or len(value) != len(parts):
            return _shown(value)
        return next(filter(None, (checker(part) for checker, part in zip(parts, value, strict=True))), "")

    return checks


def _mapping(key: Checker, item: Checker) -> Checker:
    def checks(value: Any) -> str:
        if not isinstance(value, Mapping):
            return _shown(value)
        for name, part in value.items():
            if wrong := key(name) or item(part):
                return f".{name}{wrong}"
        return ""

    return checks


def _fields(kind: Any) -> Checker:
    hints = typing.get_type_hints(kind, include_extras=True)
    parts = [(field.name, check(hints[field.name])) for field in dataclasses.fields(kind)]

    def checks(value: Any) -> str:
        if not isinstance(value, kind):
            return _shown(value)
        for name, checker in parts:
            if wrong := checker(getattr(value, name)):
                return f".{name}{wrong}"
        return ""

    return checks


def _shown(value: Any) -> str:
    text = repr(value)
    return f" is {text[:40]}{'…' if len(text) > 40 else ''}"


# ---------------------------------------------------------------------------------------------- what users type


def parse_integer(text: str) -> int:
    """Parse an integer; raise ValueError, with a message for the user, for anything else."""
    digits = text.strip()
    return within_64_bits(int(digits) if len(digits.lstrip("+-0")) <= MOST_DIGITS else LIMIT)


def within_64_bits(number: int) -> int:
    """Return the number; raise ValueError if a signed integer of 64 bits cannot hold it."""
    if not -LIMIT <= number < LIMIT:
        raise ValueError("a number has more than 64 bits")
    return number


def stripped_text(text: str) -> str:
    """Return an expression or a layout, stripped; raise ValueError if it is implausibly long."""
    if len(text) > MOST_TYPED:
        raise ValueError(f"it has {len(text):,} characters, more than {MOST_TYPED:,}")
    return text.strip()
