"""Functions of Python that take records: each field is a keyword, as `groups` makes it an option of a command.

    @keyworded
    def lint(*files: str, request: Emulating, own: PairOptions) -> Verdict: …

    lint("my.cu", grid=128, nvcc="/opt/cuda/bin/nvcc")

So a function has every option that its command has, and `help` and notebooks list them.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, TypeVar

from ncu_swizzle.base.errors import UsageError, did_you_mean
from ncu_swizzle.base.texts import KEY, Option, listed
from ncu_swizzle.engines.settings import Done, Progress, Request

T = TypeVar("T")
RENAMED = {"timeout_s": "timeout", "force_overwrite": "overwrite", "pair": "pairs"}  # fields, as keywords


OnPercent = Callable[[str, float], None]  # how a caller hears of progress


@dataclasses.dataclass(frozen=True)
class Hearing:
    """A callback that hears of progress in records, for callers in this package: with what is done, in words."""

    hear: Progress

    def __call__(self, name: str, done: Done) -> None:
        self.hear(name, done)


class Only:
    """The fields of a record that a command or a function takes, if not all."""

    def __init__(self, *names: str) -> None:
        self.names = names


Emulating = Annotated[Request, Only("problem", "nvcc", "exhaustive", "timeout_s", "no_cache")]


@dataclasses.dataclass(frozen=True)
class RecordParameter:
    """A parameter that is a record: its class, and those of its fields that a caller sets one by one."""

    kind: type
    fields: tuple[dataclasses.Field[Any], ...]

    @classmethod
    def of(cls, hint: Any) -> RecordParameter | None:
        """Return what a parameter's type says; None for one that is no record."""
        kind, *extras = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            return None
        only = next((extra.names for extra in extras if isinstance(extra, Only)), None)
        # A field that is a record itself, such as a request's options, is a parameter of its own.
        single = (field for field in dataclasses.fields(kind) if not dataclasses.is_dataclass(default_of(field)))
        return cls(kind, tuple(field for field in single if only is None or field.name in only))

    def record(self, keywords: dict[str, Any]) -> Any:
        """Take the record's fields out of keywords, and return it. Raises UsageError for a value that is no choice."""
        hints = typing.get_type_hints(self.kind)
        given = {field: RENAMED.get(field.name, field.name) for field in self.fields}
        return self.kind(
            **{
                field.name: _value(field, keywords.pop(name), hints[field.name])
                for field, name in given.items()
                if name in keywords
            }
        )


def keyworded(function: Callable[..., T]) -> Callable[..., T]:
    """Return the function with a keyword for each field of its parameters that are records."""
    hints = typing.get_type_hints(function, include_extras=True)
    records: dict[str, RecordParameter] = {}
    parameters: list[Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if record := RecordParameter.of(hints[parameter.name]):
            records[parameter.name] = record
            parameters += map(_keyword, record.fields)
        else:
            parameters.append(parameter)
    available = [
        one.name for one in parameters if one.kind in (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]

    @functools.wraps(function)
    def call(*positional: Any, **keywords: Any) -> T:
        on_progress = keywords.get("on_progress")
        if on_progress and not isinstance(on_progress, Hearing):
            keywords["on_progress"] = lambda name, done: on_progress(name, 100 * done.fraction)
        made = {name: record.record(keywords) for name, record in records.items()}
        refuse_others(keywords, available)
        return function(*positional, **made, **keywords)

    del vars(call)["__wrapped__"]  # whose signature is not what a caller types
    vars(call)["__signature__"] = inspect.signature(function).replace(parameters=parameters)
    return call


def keyword_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the keywords that a function takes."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY)


def refuse_others(keywords: Mapping[str, Any], available: Sequence[str]) -> None:
    """Raise UsageError for a keyword that there is not, with those that there are."""
    for name in keywords:
        if name not in available:
            meant = did_you_mean(name, available)
            raise UsageError(f"unknown option {name!r}{meant}", f"options here: {', '.join(available)}")


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Return the value of a field that is not given."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _keyword(field: dataclasses.Field[Any]) -> Parameter:
    name = RENAMED.get(field.name, field.name)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default_of(field), annotation=field.type)


def _value(field: dataclasses.Field[Any], value: Any, hint: Any) -> Any:
    """Return a value as the field's type says: Python passes a text for a path, one value for several, and numbers."""
    if value is None:
        return default_of(field)
    if hint == tuple[Path, ...]:
        return tuple(map(Path, [value] if isinstance(value, str | Path) else value))
    if hint == tuple[str, ...]:
        return listed(value)
    if hint == Path | None:
        return Path(value)
    if isinstance(value, Mapping):
        return dict(value)
    described: Option | None = field.metadata.get(KEY)
    if described and described.choices and value not in ("", *described.choices):
        meant = did_you_mean(str(value), described.choices)
        raise UsageError(f"unknown {field.name} {value!r}{meant}", f"one of {', '.join(described.choices)}")
    return str(value) if hint is str and isinstance(value, int | Path) else value
