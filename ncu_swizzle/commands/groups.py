"""Options that several commands share: fields of records become options, and keywords of functions.

    @keyworded
    def lint(*files: str, request: Emulating, own: PairOptions) -> Verdict: …

    lint("my.cu", grid=128, nvcc="/opt/cuda/bin/nvcc")

Each command says which records it takes. A function has every option that its command has, and `help` and notebooks
list them: one expansion, `expansion`, with an adapter for Python and one for the command line.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import shlex
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, replace
from enum import Enum, StrEnum
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import typer

from ncu_swizzle.base.errors import LaunchLacking, Untrusted, UsageError, did_you_mean
from ncu_swizzle.base.texts import KEY, Option, listed, option
from ncu_swizzle.base.validate import parse_integer
from ncu_swizzle.commands.helping import HELP_ALL
from ncu_swizzle.engines.settings import Done, Progress, Request
from ncu_swizzle.kernels.nvcc_options import TRUST

if TYPE_CHECKING:
    from ncu_swizzle.engines.settings import Options
    from ncu_swizzle.reports.pairing import Choice, Forced


T = TypeVar("T")
# Fields, as keywords.
RENAMED = {"timeout_s": "timeout", "budget_s": "budget", "force_overwrite": "overwrite", "pair": "pairs"}


@dataclass(frozen=True)
class Hearing:
    """A progress callback of a caller in this package, which takes what is done as a record, with its words."""

    hear: Progress

    def __call__(self, name: str, done: Done) -> None:
        self.hear(name, done)


class Only:
    """The fields of a record that a command or a function takes, if not all."""

    def __init__(self, *names: str) -> None:
        self.names = names


SPENT = ("timeout_s", "jobs", "budget_s")  # what a command may take
Emulating = Annotated[Request, Only("problem", "nvcc", "exhaustive", "no_cache", *SPENT)]
OfPrograms = Annotated[Request, Only("engine", "ncu", "nvcc", "exhaustive", "no_cache", *SPENT)]


@dataclass(frozen=True)
class Adapter:
    """How a record's fields appear to a caller: as keywords of Python, or as options of the command line.

    `parameter` returns what a field of this type, in a record of this title, becomes, None if a caller cannot set it;
    `value` returns what a caller gave as the field's type, and raises UsageError; `plain` is for what is not a record.
    """

    parameter: Callable[[Field[Any], Any, str], Parameter | None]
    value: Callable[[Field[Any], Any, Any], Any]
    plain: Callable[[Parameter, Any], Parameter]


Take = Callable[[dict[str, Any]], Any]  # takes its own out of what a caller gave, and returns what that makes


def expansion(function: Callable[..., Any], adapter: Adapter) -> tuple[list[Parameter], Take]:
    """Return a function's parameters, with fields in the place of records, and what makes the records by name."""
    hints = typing.get_type_hints(function, include_extras=True)
    records: dict[str, Take] = {}
    parameters: list[Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if record := _record(hints[name], adapter):
            parameters += record[0]
            records[name] = record[1]
        else:
            parameters.append(adapter.plain(parameter, hints[name]))
    return parameters, lambda given: {name: take(given) for name, take in records.items()}


def _record(hint: Any, adapter: Adapter) -> tuple[list[Parameter], Take] | None:
    """Return what a caller sets of a record, and what makes it; None for a parameter of another type."""
    kind, *extras = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return None
    # A field that is a record, such as a request's options, is a separate parameter; unless all fields are records.
    single = [field for field in dataclasses.fields(kind) if not dataclasses.is_dataclass(default_of(field))]
    if not single:
        parameters, records = expansion(kind, adapter)
        return parameters, lambda given: kind(**records(given))
    only = next((extra.names for extra in extras if isinstance(extra, Only)), None)
    hints, group = typing.get_type_hints(kind), getattr(kind, "group", "")
    settable = [
        (field, hints[field.name], parameter)
        for field in single
        if (only is None or field.name in only) and (parameter := adapter.parameter(field, hints[field.name], group))
    ]

    def take(given: dict[str, Any]) -> Any:
        own = [(field, hint, parameter.name) for field, hint, parameter in settable if parameter.name in given]
        return kind(**{field.name: adapter.value(field, given.pop(name), hint) for field, hint, name in own})

    return [parameter for _, _, parameter in settable], take


Call = tuple[tuple[Any, ...], dict[str, Any]]  # what is passed by position, and by keyword


def keyworded(
    function: Callable[..., T], prepared: Callable[[Call, Sequence[str]], Call] = lambda call, _: call
) -> Callable[..., T]:
    """Return the function with a keyword for each field of its parameters that are records.

    `prepared` returns the call to make instead of one, whose keywords can be anything; it also gets all known names.
    """
    parameters, records = expansion(function, Adapter(_keyword, _value, lambda parameter, _: parameter))
    named = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    available = [parameter.name for parameter in parameters if parameter.kind in named]

    @functools.wraps(function)
    def call(*positional: Any, **keywords: Any) -> T:
        positional, keywords = prepared((positional, keywords), available)
        on_progress = keywords.get("on_progress")
        if on_progress and not isinstance(on_progress, Hearing):
            keywords["on_progress"] = lambda name, done: on_progress(name, 100 * done.fraction)
        arguments = records(keywords)
        refuse_others(keywords, available)  # what is left of them
        return function(*positional, **arguments, **keywords)

    del vars(call)["__wrapped__"]  # whose signature is not what a caller types
    vars(call)["__signature__"] = inspect.signature(function).replace(parameters=parameters)
    return call


def refuse_others(keywords: Mapping[str, Any], available: Sequence[str]) -> None:
    """Raise UsageError for an unknown keyword, with the known ones."""
    for name in keywords:
        if name not in available:
            meant = did_you_mean(name, available)
            raise UsageError(f"unknown option {name!r}{meant}", f"options here: {', '.join(available)}")


def default_of(field: Field[Any]) -> Any:
    """Return a field's default."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _keyword(field: Field[Any], hint: Any, group: str) -> Parameter:  # noqa: ARG001 - an adapter's
    name = RENAMED.get(field.name, field.name)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default_of(field), annotation=field.type)


def _value(field: Field[Any], value: Any, hint: Any) -> Any:
    """Return a value as the field's type says: Python passes a text for a path, one value for several, and numbers."""
    if value is None:
        return default_of(field)
    if hint == tuple[Path, ...]:
        return tuple(map(Path, [value] if isinstance(value, str | Path) else value))
    if hint == tuple[str, ...]:
        return listed(str(value) if isinstance(value, int | float) else value)
    if hint == Path | None:
        return Path(value)
    if isinstance(value, Mapping):
        return dict(value)
    described: Option | None = field.metadata.get(KEY)
    if described and described.choices and value not in ("", *described.choices):
        meant = did_you_mean(str(value), described.choices)
        raise UsageError(f"unknown {field.name} {value!r}{meant}", f"one of {', '.join(described.choices)}")
    return str(value) if hint is str and isinstance(value, int | Path) else value


def with_options(request: Request, options: Options, **more: Any) -> Request:
    """Return the request with these ncu options; `more` overrides fields of theirs."""
    return replace(request, options=replace(options, **more))


# Select launches in reports with many kernels, and pair them.


@dataclass(frozen=True)
class Pairs:
    """Launches to pair whatever their names."""

    group: ClassVar[str] = "Comparing"

    pair: tuple[str, ...] = option((), "Pair these kernels: names, regex:EXPR or launch numbers.", "A=B", ("--pair",))

    def forced(self) -> Sequence[Forced]:
        """Return the pairs; raise UsageError."""
        from ncu_swizzle.reports import pairing

        return [pairing.forced_pair(text) for text in self.pair]


@dataclass(frozen=True)
class Selection(Pairs):
    """The launches with these names and numbers."""

    kernel_name: str = option(
        "", "Of many kernels, only those with this name.", "NAME|regex:EXPR", ("--kernel-name", "-k")
    )
    launch: tuple[int, ...] = option((), "Of many launches, only this number; repeatable.", "N", minimum=0)

    def choice(self) -> Choice:
        """Return the selection for `pairing`; raise UsageError."""
        from ncu_swizzle.reports import pairing

        return pairing.Choice(self.kernel_name, self.launch, tuple(self.forced()))


# Commands that take dataclasses: each field that is an `option` becomes a command-line option.
#
# @grouped
# def run(kernels: Kernels, request: Annotated[Request, Only("problem")], own: PairOptions) -> None: …

Command = Callable[..., None]
MORE = "More options"  # the group of what is not common, unless its record has one


def grouped(command: Command) -> Command:
    """Return the command for typer, with its dataclass parameters expanded into options."""

    def plain(parameter: Parameter, hint: Any) -> Parameter:
        return parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY)

    parameters, records = expansion(command, Adapter(_option, _parsed, plain))
    parameters.append(HELP_ALL)

    def call(**typed: Any) -> None:
        del typed[HELP_ALL.name]
        try:
            command(**records(typed), **typed)
        except Untrusted as error:
            raise Untrusted(str(error), _typed_with_trust() if error.hint == TRUST else error.hint) from error
        except LaunchLacking as error:
            from ncu_swizzle.commands import console

            raise UsageError(str(error), console.hint(error, sys.argv[1:])) from error

    call.__doc__, call.__name__ = command.__doc__, command.__name__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(call)["__signature__"] = inspect.Signature(parameters)
    return call


def _typed_with_trust() -> str:
    """Return the command that was typed, with --trust before any ``--``."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    return shlex.join(["ncu-swizzle", *words[:end], "--trust", *words[end:]])


def sizes(texts: Sequence[str]) -> dict[str, int]:
    """Return texts such as ``n=2048,m=64`` as one dictionary."""
    values = {}
    for size in (size for text in texts for size in text.split(",") if size):
        name, equals, value = size.partition("=")
        if not equals or not value.strip().isdecimal():
            raise typer.BadParameter(f"{size!r} is not NAME=SIZE, such as seq=1024")
        try:
            values[name.strip()] = parse_integer(value)
        except ValueError as error:
            raise typer.BadParameter(f"{size!r}: {error}") from error
    return values


def _value_type(hint: Any, field: Field[Any]) -> type:
    """Return the type of a single value of a field; str unless it is one of these."""
    if choices := field.metadata[KEY].choices:
        return StrEnum("Choice", [(choice, choice) for choice in choices])  # type: ignore[return-value]
    plain = {
        bool: bool,
        bool | None: bool,
        int: int,
        int | None: int,
        float: float,
        Path: Path,
        Path | None: Path,
        tuple[Path, ...]: Path,
        tuple[int, ...]: int,
    }
    return plain.get(hint, str)


def _option(field: Field[Any], hint: Any, group: str) -> Parameter | None:
    """Return an option of the command line; None if the field is none."""
    described: Option | None = field.metadata.get(KEY)
    if described is None:
        return None
    kind = _value_type(hint, field)
    annotation: Any = kind
    default = default_of(field)
    if isinstance(default, tuple | dict):
        default, annotation = [], list[kind]  # type: ignore[valid-type]
    elif described.choices:
        default = kind(default) if default else None
    if default is None:
        annotation = kind | None
    flags = described.flags or (f"--{field.name.replace('_', '-')}",)
    presented = typer.Option(
        *flags,
        metavar=described.metavar or None,
        help=described.help,
        min=described.minimum,
        max=described.maximum,
        rich_help_panel=None if described.common else group or MORE,
    )
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, presented])


def _parsed(field: Field[Any], value: Any, hint: Any) -> Any:  # noqa: ARG001 - an adapter's
    """Return a command-line value as the field's type: a tuple, a dictionary, or the default for no choice."""
    default = default_of(field)
    if isinstance(default, dict):
        return sizes(value)
    if isinstance(default, tuple):
        return tuple(value)
    if value is None:
        return default
    return value.value if isinstance(value, Enum) else value
